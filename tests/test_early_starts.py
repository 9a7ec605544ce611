"""What takes longest is begun first, by each worker its share."""

from __future__ import annotations

import pytest

from tests.early_starts import in_shares

pytest_plugins = ("pytester",)


@pytest.mark.parametrize(
    ("items", "workers", "ordered"),
    [
        ("abcdef", 1, "abcdef"),
        ("abCDef", 1, "CDabef"),
        ("abcDeF", 2, "DabFce"),
        ("abcdefGHI", 3, "GabHcdIef"),
        ("ABCDef", 3, "ADBeCf"),
        ("ABC", 2, "ACB"),
        ("", 4, ""),
        ("aB", 4, "Ba"),
    ],
)
def test_each_worker_begins_with_its_share_of_those_that_come_first(items: str, workers: int, ordered: str) -> None:
    assert "".join(in_shares(items, workers, str.isupper)) == ordered
    assert sorted(ordered) == sorted(items)


def test_the_mark_of_a_proof_says_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from tests.early_starts import EarlyStarts\npytest_plugins = ()\n"
        "def pytest_configure(config): config.pluginmanager.register(EarlyStarts())"
    )
    pytester.makepyfile("""
        import pytest

        def test_quick(): pass

        @pytest.mark.proof("installs", first=True)
        def test_slow(): pass
    """)
    done = pytester.runpytest("-v", "-p", "no:randomly", "-p", "no:xdist")
    done.stdout.fnmatch_lines(["*::test_slow PASSED*", "*::test_quick PASSED*"])

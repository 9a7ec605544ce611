"""The tests that docs/guides/test-your-flow.md shows are run as a reader would run them, and end as the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowguard.testing import hostile
from tests.test_docs import blocks, commands, matches

pytest_plugins = ("pytester",)

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "test-your-flow.md"
FAILING = 2
"""How many of the page's tests show what a failure looks like."""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """All of the page's Python in one file, but for what stands after its tests."""
    code = [block.text for block in blocks(PAGE) if block.language == "python" and "print(" not in block.text]
    pytester.makepyfile(test_page="\n\n".join(code))
    return pytester


@pytest.mark.proof("a process that explores what the page explores")
def test_the_tests_of_the_page_pass_but_for_those_that_show_a_failure(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", "-Werror")
    tests = (project.path / "test_page.py").read_text().count("\ndef test_")
    result.assert_outcomes(passed=tests - FAILING - 1 + len(hostile.SENDABLE), failed=FAILING)
    for block in blocks(PAGE):
        if block.language == "console":
            ((_, shown),) = commands(block)
            lines = [line for line in shown.splitlines() if not line.startswith("---")]
            assert matches("…\n" + "\n".join(lines), result.stdout.str()), f"{block} shows\n{shown}\n{result.stdout}"

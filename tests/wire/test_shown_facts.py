"""What a link's page says of its case: sealed for one token, read back, and nothing else believed."""

from __future__ import annotations

import pytest

from flowguard.wire.shown_facts import ShownFacts, read_shown
from flowguard.wire.signing import Keys

KEYS = Keys.parse("k1:an-example-that-is-long-enough-to-be-a-secret,k2:another-one-that-is-long-enough-to-be-a-secret")
TOKEN = "k1." + "A" * 84
CASE = ShownFacts("Pay claim 4711?", {"Amount": "420 €", "Adjuster": "A. Berg"})


def test_what_is_sealed_comes_back() -> None:
    assert read_shown(KEYS, TOKEN, CASE.sealed(KEYS, TOKEN)) == CASE


@pytest.mark.parametrize(
    "sealed",
    [
        "",
        ".",
        "x",
        "\ud800.x",
        CASE._replace(title="Pay claim 4712?").sealed(KEYS, TOKEN).partition(".")[0] + "." + "A" * 22,
        CASE.sealed(KEYS, TOKEN)[:-1],
        CASE.sealed(KEYS, TOKEN) + "=",
        CASE.sealed(KEYS, "k1." + "B" * 84),
        CASE.sealed(KEYS, "k2." + "A" * 84),
    ],
)
def test_anything_else_is_not_believed(sealed: str) -> None:
    assert read_shown(KEYS, TOKEN, sealed) is None


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        (CASE, None),
        (ShownFacts("x" * 100, {"n" * 40: "t" * 200}), None),
        (ShownFacts("x" * 101, {}), "the title is not 1 to 100"),
        (ShownFacts(" ", {}), "the title is not"),
        (ShownFacts("a\nb", {}), "the title is not"),
        (ShownFacts("x", {str(number): "y" for number in range(10)}), None),
        (ShownFacts("x", {str(number): "y" for number in range(11)}), "there are 11 facts of at most 10"),
        (ShownFacts("x", {"n" * 41: "t"}), "a fact is not"),
        (ShownFacts("x", {"n": "t" * 201}), "a fact is not"),
        (ShownFacts("x", {"n": ""}), "a fact is not"),
        (ShownFacts("x", {"n": 3}), "a fact is not"),  # type: ignore[dict-item]
    ],
)
def test_what_no_page_would_show_is_named(shown: ShownFacts, problem: str | None) -> None:
    assert (shown.problem is None) is (problem is None)
    assert (shown.problem or "").startswith(problem or "")

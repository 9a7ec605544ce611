"""Links: they are opened as they were made, or refused when they are made."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.wire.answer_link import LONGEST_CHOICE, MOST_CHOICES, answer_link, choices_problem, parted

BASE = "https://example.com/answers"


def test_a_link_says_what_may_be_answered() -> None:
    assert answer_link(BASE, "k1.a") == f"{BASE}/k1.a"
    assert answer_link(f"{BASE}/", "k1.a", choices=("yes & no",)) == f"{BASE}/k1.a?answer=yes+%26+no"
    assert answer_link(BASE, "k1.a", choices=("a", "b"), with_comment=True, failed=True) == (
        f"{BASE}/k1.a?answers=a%2Cb&comment=yes&failed=true"
    )


printable = st.text(st.characters(codec="utf-8"), min_size=1, max_size=LONGEST_CHOICE).filter(
    lambda text: text.isprintable() and bool(text.strip())
)


@pytest.mark.slow("tries generated texts")
@given(st.lists(printable, max_size=MOST_CHOICES))
def test_whatever_is_offered_is_read_from_the_link(choices: list[str]) -> None:
    fields = parse_qsl(urlsplit(answer_link(BASE, "k1.a", choices=choices)).query)
    assert len(fields) <= 1, "a load balancer passes on one value alone"
    assert [one for name, text in fields for one in (parted(text) if name == "answers" else [text])] == choices


@pytest.mark.parametrize(
    "base",
    [
        None,
        7,
        b"https://example.com",
        "",
        "example.com/answers",
        "/answers",
        f"{BASE}?a=1",
        f"{BASE}?",
        f"{BASE}#a",
        f"{BASE}#",
        "https:///answers",
        "//example.com/answers",
    ],
)
def test_a_base_that_is_no_plain_url_is_refused(base: Any) -> None:
    with pytest.raises(ValueError, match="the base of a link is a URL without query and fragment"):
        answer_link(base, "k1.a")


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ("approve", r"choices='approve' is one text; write choices=\('approve',\)"),
        (("a",) * 9, "the choices of a link: there are more than 8"),
        (("",), "the choices of a link: one is not 1 to 40 printable characters"),
        (("  ",), "one is not 1 to 40 printable"),
        (("x" * 41,), "one is not 1 to 40 printable"),
        (("a\nb",), "one is not 1 to 40 printable"),
        (("\u202ea",), "one is not 1 to 40 printable"),
        (("\ud800",), "one is not 1 to 40 printable"),
        ((1,), "one is not 1 to 40 printable"),
        ("x" * 300, "choices='x{39} … is one text"),
    ],
    ids=range(10),
)
def test_choices_that_no_page_would_show_are_refused_when_the_link_is_made(choices: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        answer_link(BASE, "k1.a", choices=choices)


def test_as_much_as_fits_a_page_may_be_offered() -> None:
    assert choices_problem(["x" * LONGEST_CHOICE] * MOST_CHOICES) is None

"""A pattern that is compiled late answers as one that is compiled at once."""

from __future__ import annotations

import re

import pytest

from flowguard.startup.late_pattern import late_pattern


@pytest.mark.parametrize("text", ["ab12", "AB12", "12", ""])
def test_it_answers_as_a_compiled_one(text: str) -> None:
    late, compiled = late_pattern("([a-z]+)[0-9]*", re.IGNORECASE), re.compile("([a-z]+)[0-9]*", re.IGNORECASE)
    for method in ("fullmatch", "match", "search"):
        one, other = getattr(late, method)(text), getattr(compiled, method)(text)
        assert (one and one.groups()) == (other and other.groups())
    assert late.sub("x", text) == compiled.sub("x", text)
    assert late.pattern == compiled.pattern


def test_a_method_is_looked_up_once() -> None:
    late = late_pattern("a")
    assert late.fullmatch is late.fullmatch
    assert late.fullmatch("a")


def test_a_mistake_is_met_with_the_first_use() -> None:
    late = late_pattern("(")
    with pytest.raises(re.error):
        late.match("a")


def test_its_text_shows_the_pattern() -> None:
    assert repr(late_pattern("a+")) == "late_pattern('a+')"

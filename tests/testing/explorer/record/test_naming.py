"""Messages are compared without what depends on when something happened."""

from __future__ import annotations

from flowguard.testing.explorer.record.naming import Names

LINK = "https://example.com/answers/{token}?answers=pay%2Cdecline&shown={facts}.{seal}"


def link(sign: str, facts: str = "WyJQYXk_Il0") -> str:
    return LINK.format(token=f"k1.{sign * 84}", facts=facts, seal=sign * 22)


def test_a_link_is_compared_without_its_token_and_without_the_seal_of_what_it_shows() -> None:
    names = Names({}, frozenset(), frozenset(), waits=True)
    assert names.plain_text(link("a")) == names.plain_text(link("b"))
    assert names.plain_text(link("a")) != names.plain_text(link("a", "WyJEZWNsaW5lIl0")), "what it shows counts"

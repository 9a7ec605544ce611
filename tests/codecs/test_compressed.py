"""Compression as a codec, with a bound on what is opened."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from flowguard.codecs.compressed import MARK, Compressed
from flowguard.codecs.deflate import deflated, inflated
from flowguard.errors import CannotOpen, DefinitionError, TooLarge
from flowguard.payload.codec import About

ABOUT = About("orders", "o1", "state run")


@pytest.mark.parametrize("text", [b"", b"fgz1", b'{"a":1}', b"long " * 10_000])
def test_what_is_sealed_is_opened_again(text: bytes) -> None:
    codec = Compressed()
    assert codec.open(codec.seal(text, ABOUT), ABOUT) == text


def test_a_long_text_takes_less() -> None:
    assert len(Compressed().seal(b"long " * 10_000, ABOUT)) < 500


@pytest.mark.parametrize(
    "other", [ABOUT._replace(flow="carts"), ABOUT._replace(object_id="o2"), ABOUT._replace(kind="result run")]
)
def test_what_is_about_something_else_is_not_opened(other: About) -> None:
    codec = Compressed()
    with pytest.raises(CannotOpen, match="cannot be opened: it was sealed as something else"):
        codec.open(codec.seal(b"text", ABOUT), other)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda sealed: b"plain", "another codec has sealed it"),
        (lambda sealed: sealed[:-3], "is not whole"),
        (lambda sealed: sealed + b"more", "is not whole"),
        (lambda sealed: sealed[:12] + b"no zlib", "is broken"),
        (lambda sealed: MARK, "it was sealed as something else"),
    ],
)
def test_what_was_changed_is_not_opened(change: object, why: str) -> None:
    codec = Compressed()
    assert callable(change)
    with pytest.raises(CannotOpen, match=why):
        codec.open(change(codec.seal(b"text " * 100, ABOUT)), ABOUT)


def test_a_bomb_is_not_opened_beyond_the_bound() -> None:
    bomb = zlib.compress(b"\x00" * 50_000_000)
    with pytest.raises(CannotOpen, match="it has more than 1,000 bytes, the most that its codec opens"):
        inflated(bomb, 1_000, ABOUT)


@pytest.mark.parametrize(("length", "is_taken"), [(1_000, True), (1_001, False)])
def test_the_bound_is_the_same_on_both_ways(length: int, is_taken: bool) -> None:
    codec = Compressed(largest=1_000)
    if is_taken:
        assert codec.open(codec.seal(b"x" * length, ABOUT), ABOUT) == b"x" * length
        return
    with pytest.raises(TooLarge, match="the state run to be sealed is too large"):
        codec.seal(b"x" * length, ABOUT)
    with pytest.raises(CannotOpen):
        inflated(deflated(b"x" * length), 1_000, ABOUT)


@pytest.mark.parametrize("largest", [0, -1, True, 1.5, "10"])
def test_a_bound_that_is_none_is_refused(largest: int) -> None:
    with pytest.raises(DefinitionError, match=r"largest is .*; write how many bytes a text may have"):
        Compressed(largest=largest)


def test_a_bound_that_is_no_number_is_a_mistake_of_ours() -> None:
    nothing: Any = None
    with pytest.raises(TypeError):
        inflated(b"", nothing, ABOUT)

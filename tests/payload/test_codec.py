"""The port of codecs: what is sealed is told by where it stands, and what goes wrong is typed."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from flowguard.codecs import Compressed, Encrypted
from flowguard.errors import CannotOpen, KeyUnavailable, SettingsError
from flowguard.payload.codec import (
    About,
    Codec,
    Codecs,
    is_of_another_kind,
    opened,
    opened_text,
    sealed_text,
    text_of_sealed,
)

ABOUT = About("orders", "o1", "payload")


class Raises:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def seal(self, data: bytes, about: About) -> bytes:
        raise self.error

    def open(self, sealed: bytes, about: About) -> bytes:
        raise self.error


class Of:
    def __init__(self, name: str, codec: Codec | None) -> None:
        self.name, self.codec = name, codec


@pytest.mark.parametrize("text", ["", '{"a":1}', '{"flowguard.sealed":"x"}', "\ud800", "ü"])
def test_a_text_is_sealed_in_json_that_every_destination_takes(text: str) -> None:
    sealed = sealed_text(Compressed(), text, ABOUT)
    assert sealed.isascii()
    assert text_of_sealed(Compressed(), sealed, ABOUT) == text


@pytest.mark.parametrize("message", ["", "no json", "[]", "{}", '{"flowguard.sealed":1}', '{"flowguard.sealed":"%"}'])
def test_a_message_that_is_none_of_them_is_not_opened(message: str) -> None:
    with pytest.raises(CannotOpen, match=r"says that it is sealed, and has no 'flowguard\.sealed' in base64"):
        text_of_sealed(Compressed(), message, ABOUT)


def test_where_no_codec_is_what_is_sealed_is_not_opened() -> None:
    with pytest.raises(CannotOpen, match="it is sealed, and orders has no codec here"):
        opened(None, b"", ABOUT)


@pytest.mark.parametrize(
    "error", [KeyUnavailable("k", "throttled"), CannotOpen("payload", "changed"), SettingsError("Encrypted", "missing")]
)
def test_what_a_codec_says_of_itself_is_passed_on(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        opened(Raises(error), b"", ABOUT)
    assert raised.value is error


def test_a_key_that_does_not_open_one_value_says_so() -> None:
    error = KeyUnavailable("k", "disabled")
    assert not error.opening
    with pytest.raises(KeyUnavailable):
        opened(Raises(error), b"", ABOUT)
    assert error.opening


def test_whatever_else_a_codec_raises_is_typed_and_quoted_by_nobody() -> None:
    with pytest.raises(CannotOpen, match=r"the payload cannot be opened: its codec raised ValueError$"):
        opened(Raises(ValueError("secret")), b"", ABOUT)


def test_what_is_no_text_is_not_opened_as_one() -> None:
    sealed = Compressed().seal(b"\xff", ABOUT)
    with pytest.raises(CannotOpen, match="what was sealed is no text"):
        opened_text(Compressed(), sealed, ABOUT)
    with pytest.raises(CannotOpen, match="what was sealed is no text"):
        text_of_sealed(Compressed(), f'{{"flowguard.sealed":"{base64.b64encode(sealed).decode()}"}}', ABOUT)


def test_codecs_are_known_by_their_flows() -> None:
    codec = Compressed()
    codecs = Codecs([Of("orders", codec), Of("carts", None)])
    assert codecs.of("orders") is codec
    assert codecs.of("carts") is None


def test_where_a_flow_seals_one_that_is_not_known_is_not_taken_for_plain() -> None:
    codecs = Codecs([Of("carts", None)])
    assert codecs.of("orders") is None
    codecs.learn([Of("sealed", Compressed())])
    codecs.learn([Of("plain", None)])
    with pytest.raises(SettingsError, match="the flow 'orders' is not known here, and may have a codec"):
        codecs.of("orders")


def test_what_a_value_is_about_is_unambiguous() -> None:
    assert len({About(*parts).to_bytes() for parts in (("a", "b", "c"), ("a,b", "", "c"), ('a","b', "c", ""))}) == 3


def test_what_is_no_text_at_all_is_a_mistake_of_ours() -> None:
    nothing: Any = None
    with pytest.raises(TypeError):
        text_of_sealed(Compressed(), nothing, ABOUT)


class Both(Compressed):
    """A user's own, made of flowguard's. It may open what another has sealed."""


@pytest.mark.parametrize(
    ("codec", "other", "is_another"),
    [
        (Compressed(), Encrypted("k"), True),
        (Encrypted("k"), Compressed(), True),
        (Compressed(), Compressed(), False),
        (Encrypted("k"), Encrypted("other"), False),
        (Both(), Encrypted("k"), False),
        (Encrypted("k"), Both(), False),
        (Raises(ValueError()), Encrypted("k"), False),
        (Compressed(), Raises(ValueError()), False),
    ],
)
def test_only_the_two_kinds_of_flowguards_own_certainly_open_nothing_of_each_other(
    codec: Codec, other: Codec, is_another: bool
) -> None:
    assert is_of_another_kind(codec, other) is is_another

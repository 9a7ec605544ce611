"""Data keys without a service, and a clock beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowguard.errors import KeyUnavailable
from flowguard.payload.data_keys import NewDataKey


class Vault:
    """Makes data keys of 32 bytes, each with its number. While it is ``away`` it answers nothing."""

    def __init__(self) -> None:
        self.away = False
        self.made = 0
        self.asked: list[tuple[str, str]] = []
        self.known: dict[bytes, tuple[str, Mapping[str, str], bytes]] = {}

    def make(self, key: str, context: Mapping[str, str]) -> NewDataKey:
        self._answer("make", key)
        self.made += 1
        sealed, secret = f"sealed-{self.made}".encode(), bytes([self.made]) * 32
        self.known[sealed] = (key, dict(context), secret)
        return NewDataKey(secret, sealed, f"id-of-{key}")

    def opened(self, sealed: bytes, keys: Sequence[str], context: Mapping[str, str]) -> bytes | None:
        self._answer("open", " ".join(keys))
        key, made_for, secret = self.known.get(sealed, ("", {}, b""))
        return secret if {key, f"id-of-{key}"} & {*keys} and made_for == context else None

    def _answer(self, what: str, key: str) -> None:
        self.asked.append((what, key))
        if self.away:
            raise KeyUnavailable(key, "ThrottlingException: slow down")

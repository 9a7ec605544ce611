"""The codec that compresses, and keeps nothing secret."""

from __future__ import annotations

import hashlib
from typing import Final

from flowguard.codecs.deflate import LARGEST, check_largest, check_size, deflated, inflated
from flowguard.errors import CannotOpen
from flowguard.payload.codec import About

MARK: Final = b"fgz1"
"""What its form begins with."""

_DIGEST: Final = 8
"""Bytes of a digest that tell what a value is about."""


class Compressed:
    """Compresses payloads with zlib and encrypts nothing. :class:`Encrypted` does both.

    A value that is moved elsewhere by mistake is not opened there; nothing keeps an attacker from it. ``largest`` is
    how many bytes a text may have: a longer one is refused, and so is what would become longer when it is opened.
    """

    def __init__(self, *, largest: int = LARGEST) -> None:
        check_largest("Compressed", largest)
        self._largest = largest

    def seal(self, data: bytes, about: About) -> bytes:
        """Return the data compressed. Raises :class:`flowguard.errors.TooLarge`."""
        check_size(data, self._largest, about)
        return MARK + _digest(about) + deflated(data)

    def open(self, sealed: bytes, about: About) -> bytes:
        """Return what was compressed. Raises :class:`flowguard.errors.CannotOpen`."""
        if not sealed.startswith(MARK):
            raise CannotOpen(about.kind, "another codec has sealed it than Compressed")
        digest, data = sealed[len(MARK) : len(MARK) + _DIGEST], sealed[len(MARK) + _DIGEST :]
        if digest != _digest(about):
            raise CannotOpen(about.kind, "it was sealed as something else")
        return inflated(data, self._largest, about)


def _digest(about: About) -> bytes:
    return hashlib.sha256(about.to_bytes()).digest()[:_DIGEST]

"""The data keys that a codec encrypts with, and who makes and opens them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

Context = Mapping[str, str]
"""What a data key is for, as KMS writes it down: it opens the key for nothing else."""


class NewDataKey:
    """A data key that was made. It has no text form of its own, so that nothing shows it.

    ``sealed`` is the key as only its service opens it, ``key`` the id of the key that has sealed it.
    """

    __slots__ = ("key", "sealed", "secret")

    def __init__(self, secret: bytes, sealed: bytes, key: str) -> None:
        self.secret = secret
        self.sealed = sealed
        self.key = key


class DataKeys(Protocol):
    """Makes data keys of 32 bytes, and opens them again."""

    def make(self, key: str, context: Context) -> NewDataKey:
        """Make a data key under this key. Raises :class:`flowguard.errors.KeyUnavailable`."""
        ...

    def opened(self, sealed: bytes, keys: Sequence[str], context: Context) -> bytes | None:
        """Open a data key by the first of these keys that has sealed it. None where none has, or it was changed.

        Raises :class:`flowguard.errors.KeyUnavailable`.
        """
        ...

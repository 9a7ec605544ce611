"""The credentials that requests are signed with."""

from __future__ import annotations

from flowguard.startup.named_tuple import NamedTuple


class Credentials(NamedTuple):
    """An access key of AWS. Its text shows nothing of the secrets."""

    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, …)"

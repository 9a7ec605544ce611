"""Links at which the sender of a request watches its run.

A link is ``<key id>.<base64url of the JSON>.<22 characters of HMAC-SHA256>``. Its owner can read it. Without the key
none can be made, and none changed.
"""

from __future__ import annotations

import base64
import hmac
import json
from typing import Final

from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.signing import Keyring, Keys

LONGEST_LINK: Final = 16_384
"""In characters, above what two names of the longest kind take as escapes."""

_PURPOSE: Final = "flowguard/1/watch"
_SEAL: Final = 16


class WatchLink(NamedTuple):
    """The run that a link names. Times are ms since 1970."""

    flow: str
    object_id: str
    request_id: str
    requested_at: int
    expires_at: int

    def sealed(self, ring: Keyring) -> str:
        """Return the link, sealed with the first key."""
        keys = ring.keys()
        body = _base64(json.dumps(self, separators=(",", ":")).encode())
        return f"{keys.first}.{body}.{_seal(keys, keys.first, body)}"


def read_watch_link(ring: Keyring, text: str, flow: str, now: int) -> WatchLink | None:
    """Read a link of the flow. None where it is none of its own, was changed, or has expired."""
    name, _, rest = text.partition(".")
    body, _, seal = rest.partition(".")
    if len(text) > LONGEST_LINK or not text.isascii() or (keys := ring.keys_with(name)) is None:
        return None
    if not hmac.compare_digest(seal, _seal(keys, name, body)):
        return None
    link = WatchLink(*json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))
    return link if link.flow == flow and now < link.expires_at else None


def _seal(keys: Keys, name: str, body: str) -> str:
    return _base64(hmac.digest(keys.derive(name, _PURPOSE), f"{name}.{body}".encode(), "sha256")[:_SEAL])


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")

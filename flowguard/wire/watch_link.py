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

    def sealed(self, keys: Keys) -> str:
        """Return the link, sealed with the first key."""
        body = _base64(json.dumps(self, separators=(",", ":")).encode())
        return f"{keys.first}.{body}.{_seal(keys, keys.first, body)}"


def read_watch_link(ring: Keyring, text: str, flow: str) -> WatchLink | None:
    """Read a link of the flow, expired or not. None where it is of another flow, or was not made with a key of these.

    Each text of one length takes the same time: also with an unknown key a seal is made and compared.
    """
    name, _, rest = text[:LONGEST_LINK].partition(".")
    body, _, seal = rest.partition(".")
    known, keys = ring.keys_with(name) is not None, ring.keys()
    made = _seal(keys, name if known else keys.first, body)
    if not hmac.compare_digest(seal.encode("utf-8", "surrogatepass"), made.encode()) or not known:
        return None
    link = WatchLink(*json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))
    return link if link.flow == flow else None


def _seal(keys: Keys, name: str, body: str) -> str:
    text = f"{name}.{body}".encode("utf-8", "surrogatepass")
    return _base64(hmac.digest(keys.derive(name, _PURPOSE), text, "sha256")[:_SEAL])


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")

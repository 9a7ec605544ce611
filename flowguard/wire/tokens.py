"""Tokens: what leaves the account for a person or a third party to answer with.

A token names one awaiting row. It reads ``<key id>.<84 characters>``: base64url, without padding, of

=========  =====  =================================================================================
bytes      what   made of
=========  =====  =================================================================================
32         tag    HMAC-SHA256 over the key's id and the claim, under the key for signing
31         claim  the row's id (16), its expiry in ms (6) and a digest of the flow's name (9), masked
                  with HMAC-SHA256 over the tag, under the key for masking
=========  =====  =================================================================================

The same claim makes the same token. Without the key nothing of the claim can be read, nor can a guess of it be tested.
63 bytes fill their 84 characters, so that every character counts and no token has a second spelling.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable
from typing import Final

from flowguard.errors import SettingsError, TokenProblem, TokenRefused, shown
from flowguard.names.ids import id_problem
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.shown_facts import ShownFacts, read_shown
from flowguard.wire.signing import Keyring, Keys
from flowguard.wire.token_form import FORM

SETTING: Final = "FLOWGUARD_TOKEN_KEYS"

LONGEST_TOKEN: Final = 32 + 1 + 84
"""In characters, with the longest id that a key may have."""

SEALED_IDS: Final = "#token#"
"""What the awaited ids of tokens begin with. The id of an ask begins with a name, which has no such character."""

_ROW_ID: Final = late_pattern("[0-9a-f]{32}")
_TAG, _ROW, _EXPIRY, _FLOW = 32, 16, 6, 9
_LAST_EXPIRY: Final = (1 << 8 * _EXPIRY) - 1
_SIGN: Final = "flowguard/1/token/sign"
_MASK: Final = "flowguard/1/token/mask"


class TokenClaim(NamedTuple):
    """What a genuine token says. ``expires_at`` is ms since 1970."""

    flow: str
    row_id: str
    expires_at: int


class Tokens:
    """Makes tokens and reads them, without any call but the loading of the keys.

    ``ring`` is None where no keys are set: then both raise :class:`SettingsError`. ``answers_url`` is the URL above the
    tokens of links, where a setting names it.
    """

    def __init__(self, ring: Keyring | None, answers_url: str | None = None) -> None:
        self._ring = ring
        self.answers_url = answers_url

    @property
    def ring(self) -> Keyring | None:
        """Return its keys."""
        return self._ring

    def make(self, flow: str, row_id: str, expires_at: int) -> str:
        """Return the token of a row, for URLs without escaping.

        ``row_id`` is as :func:`token_row_id` makes it, ``expires_at`` ms since 1970. Raises ValueError for others.
        """
        if not _ROW_ID.fullmatch(row_id):
            raise ValueError(
                f"the row id {shown(row_id)} is not 32 hex digits in lower case; make it with token_row_id"
            )
        if not 0 <= expires_at <= _LAST_EXPIRY:
            raise ValueError(f"a token cannot expire at {shown(expires_at)}; say ms since 1970")
        keys = self._known().keys()
        claim = bytes.fromhex(row_id) + expires_at.to_bytes(_EXPIRY) + _flow_digest(flow)
        tag = _tag(keys, keys.first, claim)
        packed = tag + _masked(keys, keys.first, tag, claim)
        return f"{keys.first}.{base64.urlsafe_b64encode(packed).decode()}"

    def read(self, text: object, flows: Iterable[str], now: int) -> TokenClaim:
        """Return what the token says, where it is genuine, in time and of one of these flows.

        A token is in time before its expiry, and not at it. Raises :class:`TokenRefused` for every other ``text``.
        """
        ring = self._known()
        parts = FORM.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST_TOKEN else None
        if parts is None:
            raise TokenRefused(TokenProblem.MALFORMED)
        name, packed = parts[1], base64.urlsafe_b64decode(parts[2])
        keys = ring.keys_with(name)
        if keys is None:
            raise TokenRefused(TokenProblem.UNKNOWN_KEY)
        tag = packed[:_TAG]
        claim = _masked(keys, name, tag, packed[_TAG:])
        if not hmac.compare_digest(tag, _tag(keys, name, claim)):
            raise TokenRefused(TokenProblem.FORGED)
        return _judged(claim, flows, now)

    def seal(self, token: str, shown: ShownFacts) -> str:
        """Return what the page of the token's link shows, as it stands in the link."""
        return shown.sealed(self._known().keys(), token)

    def unseal(self, token: str, sealed: str) -> ShownFacts | None:
        """Return what the page of a genuine token's link shows. None for what was not sealed for it."""
        keys = self._known().keys_with(token.partition(".")[0])
        return None if keys is None else read_shown(keys, token, sealed)

    def _known(self) -> Keyring:
        if self._ring is None:
            raise SettingsError(SETTING, "is not set, and tokens need a key; write id:secret, or where that is stored")
        return self._ring


NO_TOKENS: Final = Tokens(None)
"""Makes none and reads none: where no keys are set."""


def is_token(text: str) -> bool:
    """Answer whether the text has the form of a token. Whether it is genuine is another question."""
    return len(text) <= LONGEST_TOKEN and FORM.fullmatch(text) is not None


def token_of(awaited: str) -> str:
    """Return the token of a link, the last part of its path. A text that is no link comes back as it is."""
    given: object = awaited
    if not isinstance(given, str) or not given.startswith(("https://", "http://")):
        return awaited
    last = awaited.partition("?")[0].partition("#")[0].rpartition("/")[2]
    return last if is_token(last) else awaited


def token_row_id(flow: str, object_id: str, request_id: str, requested_at: int, hop: int, name: str) -> str:
    """Return the id of the row that awaits a token. It is the same for every attempt of the hop."""
    text = json.dumps(("flowguard-token-row-1", flow, object_id, request_id, requested_at, hop, name))
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * _ROW]


def token_awaited_id(row_id: str) -> str:
    """Return the id under which a run awaits a token. No declared callback brings an answer to such an id."""
    return f"{SEALED_IDS}{row_id}"


def awaited_id_problem(text: str) -> str | None:
    """Return why nothing can be awaited or answered by this id. None where it can.

    What a token answers is no such id: who knows a run's ids could tell its row.
    """
    return "names the row of a token, which only the token answers" if text.startswith(SEALED_IDS) else id_problem(text)


def _judged(claim: bytes, flows: Iterable[str], now: int) -> TokenClaim:
    row, expiry, digest = claim[:_ROW], claim[_ROW:-_FLOW], claim[-_FLOW:]
    flow = next((name for name in flows if _flow_digest(name) == digest), None)
    if flow is None:
        raise TokenRefused(TokenProblem.OTHER_FLOW)
    expires_at = int.from_bytes(expiry)
    if now >= expires_at:
        raise TokenRefused(TokenProblem.EXPIRED)
    return TokenClaim(flow, row.hex(), expires_at)


def _tag(keys: Keys, name: str, claim: bytes) -> bytes:
    return hmac.digest(keys.derive(name, _SIGN), f"{name}.".encode() + claim, "sha256")


def _masked(keys: Keys, name: str, tag: bytes, claim: bytes) -> bytes:
    """Mask the claim, or lift its mask."""
    mask = hmac.digest(keys.derive(name, _MASK), tag, "sha256")
    return bytes(byte ^ other for byte, other in zip(claim, mask, strict=False))  # the claim is the shorter by a byte


def _flow_digest(flow: str) -> bytes:
    return hashlib.sha256(f"flowguard-flow-1 {flow}".encode()).digest()[:_FLOW]

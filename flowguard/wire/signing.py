"""Signatures of messages. They are off unless keys are set.

Only a sender that knows a key may say hop, attempt and reply_to of a message. A signature stands in the ``flowguard``
attribute as ``"sig": "<key id>.<HMAC-SHA256 in hex>"``. It covers what the message says of itself and the digest of its
body, which stays the same inside every envelope, retry and redrive.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import random
from collections.abc import Callable
from typing import Final, Protocol

from flowguard.clock import Clock
from flowguard.errors import SettingsError
from flowguard.startup.late_pattern import late_pattern
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message

logger = logging.getLogger("flowguard")

SETTING = "FLOWGUARD_SIGNING_KEYS"

SHORTEST_SECRET = 32
"""In bytes: HMAC-SHA256 with less is weaker than its digest."""

FRESH_FOR: Final = 300_000
"""ms after which keys are loaded again, at the latest. A key that was removed is used no longer."""

USED_FOR: Final = 900_000
"""ms for which keys are used while their store does not answer."""

TRIED_AGAIN_AFTER: Final = 30_000
"""ms after which a store that does not answer is asked again, at the latest."""

NOT_ASKED_FOR: Final = 5_000
"""ms for which a store that does not answer is not asked, where there are no keys: a batch has many messages."""

LOADED_AGAIN_AFTER: Final = 60_000
"""ms that pass at least before keys are loaded for an unknown id: it may come from any sender."""

JITTER: Final = 0.2
"""The share of a time that is drawn at random."""

_FORM = "flowguard-1"
_KEY_ID = late_pattern("[A-Za-z0-9_-]{1,32}")


class Signer(Protocol):
    """Signs what flowguard sends, and judges the signatures of what arrives."""

    @property
    def is_on(self) -> bool:
        """Answer whether it signs."""
        ...

    @property
    def is_required(self) -> bool:
        """Answer whether what only flowguard may say has to be signed."""
        ...

    def sign(self, statement: str) -> str | None:
        """Return the signature; None where messages are not signed."""
        ...

    def problem(self, statement: str, signature: str | None) -> str | None:
        """Return why the signature proves nothing; None for a valid one."""
        ...


class Unsigned:
    """Signs nothing and believes no signature: where no keys are set."""

    is_on = is_required = False

    def sign(self, statement: str) -> str | None:
        return None

    def problem(self, statement: str, signature: str | None) -> str | None:
        return f"signatures cannot be checked; {SETTING} is not set"


UNSIGNED: Signer = Unsigned()


class Keys:
    """Secrets by their ids. The first signs, all verify. Never shown: it has no text form of its own."""

    __slots__ = ("_secrets", "first")

    def __init__(self, secrets: dict[str, bytes]) -> None:
        self._secrets = secrets
        self.first = next(iter(secrets))

    @classmethod
    def parse(cls, text: str, setting: str = SETTING) -> Keys:
        """Parse ``id:secret[,id:secret…]``. Raises :class:`SettingsError` for ``setting``, which quotes nothing."""
        secrets: dict[str, bytes] = {}
        for number, part in enumerate(text.split(","), 1):
            name, colon, secret = part.strip().partition(":")
            encoded = secret.encode("utf-8", "surrogatepass")
            if not colon or not _KEY_ID.fullmatch(name):
                problem = "is not id:secret with an id of 1 to 32 of: a-z, A-Z, 0-9, '-', '_'"
            elif len(encoded) < SHORTEST_SECRET:
                problem = f"has a secret of {len(encoded)} bytes; it needs {SHORTEST_SECRET}"
            elif name in secrets:
                problem = "has the id of one before it"
            else:
                secrets[name] = encoded
                continue
            raise SettingsError(setting, f"key {number} {problem}; write id:secret,id:secret with the newest first")
        return cls(secrets)

    def __contains__(self, name: str) -> bool:
        return name in self._secrets

    def digest(self, name: str, statement: str) -> str:
        return hmac.new(self._secrets[name], statement.encode(), hashlib.sha256).hexdigest()

    def derive(self, name: str, purpose: str) -> bytes:
        """Return the 32 bytes of a key for one purpose.

        Nothing about the secret, nor about its keys for other purposes, can be computed from it. A purpose never begins
        with ``[``, as every signed statement does: so no signature of a message is such a key.
        """
        return hmac.digest(self._secrets[name], purpose.encode(), "sha256")


class Keyring:
    """Keys that are loaded when first needed and then every few minutes, and when one is asked for that is not there.

    ::

        loaded ── 4 to 5 minutes ──▶ loaded again ── if that fails ──▶ used on, asked for every half minute
           └───────────────────────── 15 minutes ─────────────────────▶ used no more

    So a key that is removed signs and opens nothing some minutes later. They are loaded again too where the clock has
    stepped back behind the moment at which they were asked for. With ``draw`` the moments are drawn, so that
    environments that began together do not ask together.
    """

    def __init__(self, load: Callable[[], Keys], clock: Clock, draw: random.Random | None = None) -> None:
        self._load = load
        self._clock = clock
        self._draw = draw
        self._keys: Keys | None = None
        self._problem: Exception | None = None
        self._loaded_at = 0
        self._asked_at = 0
        self._again_at = 0

    def keys(self) -> Keys:
        """Return the keys, loading them where they are not fresh. Raises what the loading raises."""
        if self._asked_at <= self._clock.now() < self._again_at:
            if self._keys is not None:
                return self._keys
            if self._problem is not None:
                raise self._problem.with_traceback(None)
        return self._loaded()

    def keys_with(self, name: str) -> Keys | None:
        """Return the keys if one has this id; None where none has, even after loading them again."""
        keys = self.keys()
        if name not in keys and self._clock.now() - self._asked_at >= LOADED_AGAIN_AFTER:
            keys = self._loaded()
        return keys if name in keys else None

    def _loaded(self) -> Keys:
        """Load the keys. The moment counts even where that fails, or every bad message would ask again."""
        try:
            keys = self._load()
        except Exception as error:
            return self._left(error)
        self._asked_at = self._loaded_at = self._clock.now()
        self._again_at = self._loaded_at + self._drawn(FRESH_FOR)
        self._keys, self._problem = keys, None
        return keys

    def _left(self, error: Exception) -> Keys:
        """Return the keys that are there, while they may be used without being loaded again. Else raise the error."""
        self._asked_at = now = self._clock.now()
        self._loaded_at = min(self._loaded_at, now)
        until = self._loaded_at + USED_FOR
        if self._keys is None or now >= until:
            self._keys, self._problem, self._again_at = None, error, now + NOT_ASKED_FOR
            raise error
        self._again_at = min(now + self._drawn(TRIED_AGAIN_AFTER), until)
        left, why = (until - now) // 1000, type(error).__name__
        logger.warning("the keys cannot be loaded again (%s); those that are known are used for %d s more", why, left)
        return self._keys

    def _drawn(self, ms: int) -> int:
        return ms if self._draw is None else round(ms * (1 - JITTER * self._draw.random()))


class KeySigner:
    """Signs with the keys of a keyring."""

    is_on = is_required = True

    def __init__(self, ring: Keyring) -> None:
        self._ring = ring

    def sign(self, statement: str) -> str | None:
        keys = self._ring.keys()
        return f"{keys.first}.{keys.digest(keys.first, statement)}"

    def problem(self, statement: str, signature: str | None) -> str | None:
        if signature is None:
            return "it carries no signature"
        name, _, digest = signature.partition(".")
        keys = self._ring.keys_with(name)
        if keys is None:
            return "its signature names a key that is not known here"
        given = digest.encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(keys.digest(name, statement).encode(), given):
            return "its signature is of another message or another secret"
        return None


class _Simulated:
    """Signs with another signer's keys. Answers and orders must be signed; other kinds too if ``is_required`` holds."""

    is_on = True

    def __init__(self, signer: Signer, is_required: Callable[[], bool]) -> None:
        self._signer = signer
        self._is_required = is_required

    @property
    def is_required(self) -> bool:
        return self._is_required()

    def sign(self, statement: str) -> str | None:
        return self._signer.sign(statement)

    def problem(self, statement: str, signature: str | None) -> str | None:
        return self._signer.problem(statement, signature)


def simulated(signer: Signer, is_required: Callable[[], bool] = lambda: False) -> Signer:
    """Return a signer for a simulation, which cannot know whether the functions that it stands for have keys.

    What a test sends as a request, hop or retry is believed there as by functions without, unless ``is_required``.
    """
    return _Simulated(signer, is_required)


def statement(message: Message, *, version: int | None, object_id: str, request_id: str | None = None) -> str:
    """Return what a signature covers, unambiguous and in ASCII.

    ``version``, ``object_id`` and ``request_id`` are as the attributes say them; without the last, the message's own.
    """
    body = hashlib.sha256(message.text.encode("utf-8", "surrogatepass")).hexdigest()
    parts = (
        _FORM,
        message.flow,
        message.stage,
        version,
        object_id,
        message.request_id if request_id is None else request_id,
        message.requested_at,
        message.hop,
        message.retry,
        message.redrive,
        message.reply_to,
        body,
        *(["resumed"] if message.resumed else []),
        *(["answer_to", message.answer_to] if message.answer_to is not None else []),
        *(["cancelled", message.cancelled] if message.cancelled is not None else []),
        *(["depth", message.depth] if message.depth else []),
        *(["since", message.since] if message.since else []),
        *(["sealed"] if message.sealed is not None else []),
        *(["turn", *message.turn.as_json()] if message.turn is not None else []),
    )
    return json.dumps(parts, separators=(",", ":"))


def signed_attributes(message: Message, signer: Signer) -> dict[str, Attribute]:
    """Return the message's own attributes, with a signature where messages are signed."""
    if not signer.is_on:
        return message.own_attributes()
    return message.own_attributes(signer.sign(statement(message, version=message.version, object_id=message.object_id)))


def check_signs(signer: Signer, flow: str, subject: str) -> None:
    """Raise :class:`SettingsError` if there are no keys to sign ``subject``, which the flow takes only signed.

    Unsigned, it would be refused when it arrives, and its receiver would wait until the deadline.
    """
    if not signer.is_on:
        fix = "set it for all functions and clients of the flow, or say trust_senders=True in the flow"
        raise SettingsError(SETTING, f"is not set, and {flow} believes {subject} only with a signature; {fix}")


def is_claim(message: Message) -> bool:
    """Answer whether the message says what only flowguard may say where messages are signed."""
    of_its_run = message.hop > 1 or message.retry > 0 or message.redrive > 0 or message.since > 0
    return of_its_run or message.turn is not None or message.reply_to is not None or message.cancelled is not None

"""Signatures of messages. They are off unless keys are set.

Only a sender that knows a key may say hop, attempt and reply_to of a message. A signature stands in the ``flowguard``
attribute as ``"sig": "<key id>.<HMAC-SHA256 in hex>"``. It covers what the message says of itself and the digest of its
body, which stays the same inside every envelope, retry and redrive.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from typing import Protocol

from flowguard.clock import Clock
from flowguard.errors import SettingsError
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message

SETTING = "FLOWGUARD_SIGNING_KEYS"

SHORTEST_SECRET = 32
"""In bytes: HMAC-SHA256 with less is weaker than its digest."""

LOADED_AGAIN_AFTER = 300_000
"""ms that pass at least before stored keys are loaded once more: unknown key ids may come from any sender."""

_FORM = "flowguard-1"
_KEY_ID = re.compile("[A-Za-z0-9_-]{1,32}")


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
    """Keys that are loaded when first needed, and again when one is asked for that is not there."""

    def __init__(self, load: Callable[[], Keys], clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._keys: Keys | None = None
        self._loaded_at = 0

    def keys(self) -> Keys:
        """Return the keys, loading them the first time."""
        return self._keys if self._keys is not None else self._loaded()

    def keys_with(self, name: str) -> Keys | None:
        """Return the keys if one has this id; None where none has, even after loading them again."""
        keys = self.keys()
        if name not in keys and self._clock.now() - self._loaded_at >= LOADED_AGAIN_AFTER:
            keys = self._loaded()
        return keys if name in keys else None

    def _loaded(self) -> Keys:
        """Load the keys. The moment counts even where that fails, or every bad message would ask again."""
        self._loaded_at = self._clock.now()
        self._keys = self._load()
        return self._keys


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


def statement(message: Message, *, version: int | None, object_id: str, request_id: str | None = None) -> str:
    """Return what a signature covers, unambiguous and in ASCII.

    ``version``, ``object_id`` and ``request_id`` are as the attributes say them; without the last, the message's own.
    """
    body = hashlib.sha256(message.body.encode("utf-8", "surrogatepass")).hexdigest()
    said = (
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
    )
    return json.dumps(said, separators=(",", ":"))


def signed_attributes(message: Message, signer: Signer) -> dict[str, Attribute]:
    """Return the message's own attributes, with a signature where messages are signed."""
    if not signer.is_on:
        return message.own_attributes()
    return message.own_attributes(signer.sign(statement(message, version=message.version, object_id=message.object_id)))


def is_claim(message: Message) -> bool:
    """Answer whether the message says what only flowguard may say where messages are signed."""
    of_its_run = message.hop > 1 or message.retry > 0 or message.redrive > 0
    return of_its_run or message.reply_to is not None or message.cancelled is not None

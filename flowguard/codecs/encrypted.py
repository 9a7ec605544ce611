"""The codec that encrypts. It uses AES-256-GCM and data keys of KMS.

::

    fge1 · flags · key id · sealed data key · nonce · ciphertext with its tag
    └────────────── authenticated, with what the value is about ──────────┘
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from flowguard.clock import Clock, SystemClock
from flowguard.codecs.deflate import LARGEST, check_size, deflated, inflated, largest_problem
from flowguard.codecs.kept_keys import KeptKeys, data_keys_here
from flowguard.errors import CannotOpen, DefinitionError, SettingsError, shown, span_problem
from flowguard.names.at_aws import rule_of
from flowguard.payload.codec import About
from flowguard.payload.data_keys import Context, DataKeys
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK: Final = b"fge1"
"""What its form begins with."""

CONTEXT: Final = "flowguard-flow"
"""The name in KMS's encryption context that has the flow. A policy may ask for it."""

ENVIRONMENT: Final = "flowguard-environment"
"""The name there that has the rule of the names at AWS, such as ``staging-*``. So environments of an account differ."""

_NAMES: Final = "FLOWGUARD_NAMES"

INTERVAL: Final = timedelta(minutes=5)
"""How long a data key seals, and how long one that was opened is kept."""

_LONGEST_INTERVAL: Final = timedelta(hours=1)
_HEAD: Final = struct.Struct(">4sBHH")
_NONCE: Final = 12
_COMPRESSED: Final = 1


class _Form(NamedTuple):
    """The parts of a sealed value. ``head`` is all that stands before the nonce."""

    head: bytes
    is_compressed: bool
    key: str
    data_key: bytes
    nonce: bytes
    data: bytes


class Encrypted:
    """Encrypts with AES-256-GCM, each process under data keys of its own that KMS makes. Needs the extra ``codec``.

    ``key``        the alias, id or ARN of the KMS key that seals
    ``opens``      further keys that may open: those that have sealed before, and those of flows whose answers come here
    ``compress``   compresses before it encrypts: the length of a value then tells how well it compresses
    ``interval``   how long a data key seals, and is kept once it was opened; at most an hour. A long one asks KMS less
    ``largest``    how many bytes a text may have
    ``data_keys``  makes and opens data keys in place of KMS; ``clock`` says when they are old

    Raises :class:`DefinitionError` with every mistake. Nothing is asked of KMS before something is to be sealed.
    """

    def __init__(
        self,
        key: str,
        *,
        opens: Sequence[str] = (),
        compress: bool = True,
        interval: timedelta = INTERVAL,
        largest: int = LARGEST,
        data_keys: DataKeys | None = None,
        clock: Clock | None = None,
    ) -> None:
        if problems := (*_key_problems(key, opens), *_bound_problems(interval, largest)):
            raise DefinitionError("Encrypted", problems)
        self.key = key
        self.opens = tuple(dict.fromkeys((key, *opens)))
        self._compress = compress
        self._interval = interval // timedelta(milliseconds=1)
        self._largest = largest
        self._given = data_keys
        self._clock = clock if clock is not None else SystemClock()
        self._aws: DataKeys | None = None
        self._kept: KeptKeys | None = None

    def __repr__(self) -> str:
        return f"Encrypted({self.key!r})"

    def seal(self, data: bytes, about: About) -> bytes:
        """Return the data encrypted.

        Raises :class:`flowguard.errors.KeyUnavailable` and :class:`flowguard.errors.TooLarge`.
        """
        check_size(data, self._largest, about)
        cipher = _cipher()
        context = _context(about)
        made = self._keys().sealing(self.key, _scope(context), context)
        key = made.key.encode()
        flags = _COMPRESSED if self._compress else 0
        head = _HEAD.pack(MARK, flags, len(key), len(made.sealed)) + key + made.sealed
        nonce = os.urandom(_NONCE)
        plain = deflated(data) if self._compress else data
        return head + nonce + cipher(made.secret).encrypt(nonce, plain, head + about.to_bytes())

    def open(self, sealed: bytes, about: About) -> bytes:
        """Return what was encrypted.

        Raises :class:`flowguard.errors.KeyUnavailable` and :class:`flowguard.errors.CannotOpen`.
        """
        form, cipher, context = _read(sealed, about), _cipher(), _context(about)
        secret = self._keys().opening(form.data_key, _scope(context), self._may_open(form.key), context)
        if secret is None:
            why = f"it says that {shown(form.key)} has sealed it, which may not open here, or it was changed or moved"
            raise CannotOpen(about.kind, why)
        plain = _decrypted(cipher(secret), form, about)
        return inflated(plain, self._largest, about) if form.is_compressed else plain

    def _may_open(self, key: str) -> Sequence[str]:
        """Return the keys to ask, the one that is named first."""
        return sorted(self.opens, key=lambda name: name != key)

    def _keys(self) -> KeptKeys:
        source = self._given if self._given is not None else data_keys_here(self._of_aws)
        kept = self._kept
        if kept is None or kept.source is not source:
            kept = self._kept = KeptKeys(source, self._clock, self._interval)
        return kept

    def _of_aws(self) -> DataKeys:
        if self._aws is None:
            from flowguard.aws.data_keys import KmsDataKeys  # a codec of another source needs no client

            self._aws = KmsDataKeys()
        return self._aws


class OpensAny(Encrypted):
    """Opens what any key has sealed that its caller may use: for people who look. ``make`` makes their data keys."""

    def __init__(self, make: Callable[[], DataKeys]) -> None:
        super().__init__("any")
        self._make = make

    def _of_aws(self) -> DataKeys:
        if self._aws is None:
            self._aws = self._make()
        return self._aws

    def _may_open(self, key: str) -> Sequence[str]:
        return (key,)


def _context(about: About) -> Context:
    return {CONTEXT: about.flow, ENVIRONMENT: rule_of(os.environ.get(_NAMES, ""))}


def _scope(context: Context) -> str:
    """Return one text for what a data key is for."""
    return " ".join(context.values())


def _cipher() -> Callable[[bytes], AESGCM]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # comes with an extra
    except ImportError as error:
        problem = "cryptography is not installed; pip install 'flowguard-aws[codec]'"
        raise SettingsError("Encrypted", problem) from error
    return AESGCM


def _decrypted(cipher: AESGCM, form: _Form, about: About) -> bytes:
    from cryptography.exceptions import InvalidTag  # comes with an extra

    try:
        return cipher.decrypt(form.nonce, form.data, form.head + about.to_bytes())
    except InvalidTag:
        raise CannotOpen(about.kind, "it was changed, or sealed as something else") from None


def _read(sealed: bytes, about: About) -> _Form:
    if not sealed.startswith(MARK):
        raise CannotOpen(about.kind, "another codec has sealed it than Encrypted")
    try:
        _, flags, key_length, data_key_length = _HEAD.unpack_from(sealed)
        key_at = _HEAD.size
        data_key_at = key_at + key_length
        nonce_at = data_key_at + data_key_length
        data_at = nonce_at + _NONCE
        key = sealed[key_at:data_key_at].decode()
    except (struct.error, UnicodeDecodeError):
        raise CannotOpen(about.kind, "it is not whole") from None
    if len(sealed) <= data_at:
        raise CannotOpen(about.kind, "it is not whole")
    return _Form(
        sealed[:nonce_at],
        bool(flags & _COMPRESSED),
        key,
        sealed[data_key_at:nonce_at],
        sealed[nonce_at:data_at],
        sealed[data_at:],
    )


def _key_problems(key: object, opens: Any) -> tuple[str, ...]:
    if not isinstance(key, str) or not key:
        return (f"key is {shown(key)}; write the alias, id or ARN of a KMS key: 'alias/orders'",)
    if isinstance(opens, str) or not all(isinstance(name, str) and name for name in opens):
        return (f"opens is {shown(opens)}; write a tuple of keys: opens=('alias/orders-2025',)",)
    return ()


def _bound_problems(interval: Any, largest: object) -> tuple[str, ...]:
    of_interval = span_problem(interval)
    if of_interval is not None:
        return (f"interval {of_interval}",)
    if not timedelta(0) < interval <= _LONGEST_INTERVAL:
        return (f"interval is {interval}; it is positive, and at most {_LONGEST_INTERVAL}",)
    return () if (problem := largest_problem(largest)) is None else (problem,)

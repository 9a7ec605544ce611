"""The places that keys come from, for signatures and for tokens.

They are the setting itself, a parameter of Systems Manager, or a secret of Secrets Manager.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from flowguard.aws import botocore_errors
from flowguard.aws.faults import is_refusal
from flowguard.aws.transport.time_left import seconds_left
from flowguard.clock import Clock
from flowguard.errors import KeyUnavailable, SettingsError
from flowguard.settings import Settings
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire import tokens
from flowguard.wire.signing import SETTING, UNSIGNED, Keyring, Keys, KeySigner, Signer
from flowguard.wire.tokens import Tokens

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients


FIRST_KEY: Final = "k1"
"""The id of a stored secret without one, such as a template generates."""

PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try, of which half is drawn. Many environments that begin at once are throttled."""

_JITTER: Final = random.SystemRandom()
"""It has no state that environments restored from one snapshot would share."""


class _Stores(NamedTuple):
    """What loads stored keys. ``draw`` and ``pause`` spread it."""

    clients: Clients
    clock: Clock
    draw: random.Random
    pause: Callable[[float], None]


def aws_signer(
    settings: Settings,
    clients: Clients,
    clock: Clock,
    draw: random.Random = _JITTER,
    pause: Callable[[float], None] = time.sleep,
) -> Signer:
    """Return a signer that loads stored keys when it first needs them.

    Raises :class:`SettingsError` for malformed keys.
    """
    if settings.signing_keys is None:
        return UNSIGNED
    stores = _Stores(clients, clock, draw, pause)
    return KeySigner(_keyring(settings.signing_keys, SETTING, stores))


def aws_tokens(
    settings: Settings,
    clients: Clients,
    clock: Clock,
    draw: random.Random = _JITTER,
    pause: Callable[[float], None] = time.sleep,
) -> Tokens:
    """Return what makes and reads tokens, with the token keys, or else with the signing keys.

    Raises :class:`SettingsError` for malformed keys.
    """
    stores = _Stores(clients, clock, draw, pause)
    if settings.token_keys is not None:
        return Tokens(_keyring(settings.token_keys, tokens.SETTING, stores), settings.answers_url)
    if settings.signing_keys is not None:
        return Tokens(_keyring(settings.signing_keys, SETTING, stores), settings.answers_url)
    return Tokens(None)


def _keyring(setting: SecretStr, name: str, stores: _Stores) -> Keyring:
    text = setting.get_secret_value().strip()
    store, _, place = text.partition(":")
    match store:
        case "ssm" if place:
            return _stored(stores, place, lambda: Keys.parse(_parameter(stores.clients, place), name))
        case "secretsmanager" if place:
            return _stored(stores, place, lambda: Keys.parse(_secret(stores.clients, place, name), name))
        case "ssm" | "secretsmanager":
            raise SettingsError(name, f"{store}: is followed by no name")
        case _:
            keys = Keys.parse(text, name)
            return Keyring(lambda: keys, stores.clock)


def _stored(stores: _Stores, place: str, load: Callable[[], Keys]) -> Keyring:
    """Make a keyring that tries again where the store is throttled or does not answer, while the invocation lasts.

    At last it raises :class:`KeyUnavailable`, which costs no attempt of a run.
    """

    def patient() -> Keys:
        for longest in (*PAUSES, inf):
            try:
                return load()
            except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
                seconds = longest * (1 + stores.draw.random()) / 2
                if seconds >= seconds_left() or is_refusal(error):
                    raise KeyUnavailable(place, str(error), refused=is_refusal(error)) from error
            stores.pause(seconds)
        raise AssertionError("the last try returns or raises")

    return Keyring(patient, stores.clock, stores.draw)


def _parameter(clients: Clients, place: str) -> str:
    answer: Any = clients.ssm.get_parameter(Name=place, WithDecryption=True)
    return _with_id(str(answer["Parameter"]["Value"]))


def _secret(clients: Clients, place: str, setting: str) -> str:
    answer: Any = clients.secretsmanager.get_secret_value(SecretId=place)
    if "SecretString" not in answer:
        raise SettingsError(setting, "the secret is binary; store text of the form id:secret,id:secret")
    return _with_id(str(answer["SecretString"]))


def _with_id(stored: str) -> str:
    """Return what is stored as ``id:secret``. A generated secret stands there alone, and has the first id."""
    return stored if ":" in stored else f"{FIRST_KEY}:{stored.strip()}"

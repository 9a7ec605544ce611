"""The places that keys come from, for signatures and for tokens.

They are the setting itself, a parameter of Systems Manager, or a secret of Secrets Manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from flowguard.clock import Clock
from flowguard.errors import SettingsError
from flowguard.settings import Settings
from flowguard.wire import tokens
from flowguard.wire.signing import SETTING, UNSIGNED, Keyring, Keys, KeySigner, Signer
from flowguard.wire.tokens import Tokens

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients


def aws_signer(settings: Settings, clients: Clients, clock: Clock) -> Signer:
    """Return a signer that loads stored keys when it first needs them.

    Raises :class:`SettingsError` for malformed keys.
    """
    if settings.signing_keys is None:
        return UNSIGNED
    return KeySigner(_keyring(settings.signing_keys, SETTING, clients, clock))


def aws_tokens(settings: Settings, clients: Clients, clock: Clock) -> Tokens:
    """Return what makes and reads tokens, with the token keys, or else with the signing keys.

    Raises :class:`SettingsError` for malformed keys.
    """
    if settings.token_keys is not None:
        return Tokens(_keyring(settings.token_keys, tokens.SETTING, clients, clock))
    if settings.signing_keys is not None:
        return Tokens(_keyring(settings.signing_keys, SETTING, clients, clock))
    return Tokens(None)


def _keyring(setting: SecretStr, name: str, clients: Clients, clock: Clock) -> Keyring:
    said = setting.get_secret_value().strip()
    store, _, place = said.partition(":")
    match store:
        case "ssm" if place:
            return Keyring(lambda: Keys.parse(_parameter(clients, place), name), clock)
        case "secretsmanager" if place:
            return Keyring(lambda: Keys.parse(_secret(clients, place, name), name), clock)
        case "ssm" | "secretsmanager":
            raise SettingsError(name, f"{store}: is followed by no name")
        case _:
            keys = Keys.parse(said, name)
            return Keyring(lambda: keys, clock)


def _parameter(clients: Clients, place: str) -> str:
    found: Any = clients.ssm.get_parameter(Name=place, WithDecryption=True)
    return str(found["Parameter"]["Value"])


def _secret(clients: Clients, place: str, setting: str) -> str:
    found: Any = clients.secretsmanager.get_secret_value(SecretId=place)
    if "SecretString" not in found:
        raise SettingsError(setting, "the secret is binary; store text of the form id:secret,id:secret")
    return str(found["SecretString"])

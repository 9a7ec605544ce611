"""The places that signing keys come from.

They are the setting itself, a parameter of Systems Manager, or a secret of Secrets Manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowguard.clock import Clock
from flowguard.errors import SettingsError
from flowguard.settings import Settings
from flowguard.wire.signing import SETTING, UNSIGNED, Keys, KeySigner, Signer

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients


def aws_signer(settings: Settings, clients: Clients, clock: Clock) -> Signer:
    """Return a signer that loads stored keys when it first needs them.

    Raises :class:`SettingsError` for malformed keys.
    """
    if settings.signing_keys is None:
        return UNSIGNED
    said = settings.signing_keys.get_secret_value().strip()
    store, _, name = said.partition(":")
    match store:
        case "ssm" if name:
            return KeySigner(lambda: Keys.parse(_parameter(clients, name)), clock)
        case "secretsmanager" if name:
            return KeySigner(lambda: Keys.parse(_secret(clients, name)), clock)
        case "ssm" | "secretsmanager":
            raise SettingsError(SETTING, f"{store}: is followed by no name")
        case _:
            keys = Keys.parse(said)
            return KeySigner(lambda: keys, clock)


def _parameter(clients: Clients, name: str) -> str:
    found: Any = clients.ssm.get_parameter(Name=name, WithDecryption=True)
    return str(found["Parameter"]["Value"])


def _secret(clients: Clients, name: str) -> str:
    found: Any = clients.secretsmanager.get_secret_value(SecretId=name)
    if "SecretString" not in found:
        raise SettingsError(SETTING, "the secret is binary; store text of the form id:secret,id:secret")
    return str(found["SecretString"])

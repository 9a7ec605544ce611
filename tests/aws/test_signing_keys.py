"""Where signing keys come from. Systems Manager and Secrets Manager are moto's, as far as it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.signing_keys import aws_signer
from flowguard.client import FlowClient
from flowguard.clock import ManualClock
from flowguard.errors import SettingsError
from flowguard.settings import Settings
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.moto import EmbeddedAWS
from flowguard.wire.signing import UNSIGNED, Signer

SECRET = "s3cret-" + "x" * 32
KEYS = f"k1:{SECRET}"


@pytest.fixture
def aws() -> Iterator[EmbeddedAWS]:
    with EmbeddedAWS() as found:
        yield found


def signer(setting: str | None) -> Signer:
    given = {} if setting is None else {"FLOWGUARD_SIGNING_KEYS": setting}
    return aws_signer(Settings.from_environment(given), Clients(), ManualClock())


def test_messages_are_not_signed_unless_keys_are_set() -> None:
    assert signer(None) is UNSIGNED


def test_keys_may_stand_in_the_setting_itself() -> None:
    assert str(signer(KEYS).sign("it")).startswith("k1.")


@pytest.mark.parametrize("kind", ["ssm", "secretsmanager"])
def test_stored_keys_are_loaded_when_they_are_first_needed(aws: EmbeddedAWS, kind: str) -> None:
    store(aws, kind, f"{KEYS}\n")
    with intercept(Recorder()) as calls:
        stored = signer(f"{kind}:/flowguard/keys")
        assert calls.count(kind) == 0
        signed = [stored.sign("it") for _ in range(2)]
    assert calls.count(kind) == 1
    assert signed == [signer(KEYS).sign("it")] * 2


@pytest.mark.parametrize("kind", ["ssm", "secretsmanager"])
def test_stored_keys_that_are_malformed_are_never_shown(aws: EmbeddedAWS, kind: str) -> None:
    store(aws, kind, SECRET)
    with pytest.raises(SettingsError) as caught:
        signer(f"{kind}:/flowguard/keys").sign("it")
    assert SECRET not in str(caught.value)


def test_a_binary_secret_is_refused(aws: EmbeddedAWS) -> None:
    aws.client("secretsmanager").create_secret(Name="keys", SecretBinary=KEYS.encode())
    with pytest.raises(SettingsError, match="the secret is binary; store text of the form id:secret,id:secret"):
        signer("secretsmanager:keys").sign("it")


@pytest.mark.parametrize("setting", ["ssm:", "secretsmanager:", "", SECRET, "k1:short"])
def test_a_malformed_setting_is_refused_at_once_and_never_shown(setting: str) -> None:
    with pytest.raises(SettingsError) as caught:
        signer(setting)
    assert caught.value.setting == "FLOWGUARD_SIGNING_KEYS"
    assert SECRET not in str(caught.value)
    assert "short" not in str(caught.value)


def test_settings_show_no_secret() -> None:
    settings = Settings.from_environment({"FLOWGUARD_SIGNING_KEYS": KEYS})
    assert SECRET not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    with pytest.raises(ValueError, match="table") as caught:
        Settings.model_validate({"table": "x", "signing_keys": KEYS})
    assert SECRET not in str(caught.value)


def test_a_client_of_the_environment_signs_with_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWGUARD_SIGNING_KEYS", KEYS)
    client: Any = FlowClient.from_environment()
    assert client._signer.is_on
    monkeypatch.delenv("FLOWGUARD_SIGNING_KEYS")
    client = FlowClient.from_environment()
    assert client._signer is UNSIGNED


def store(aws: EmbeddedAWS, kind: str, text: str) -> None:
    if kind == "ssm":
        aws.client("ssm").put_parameter(Name="/flowguard/keys", Value=text, Type="SecureString")
    else:
        aws.client("secretsmanager").create_secret(Name="/flowguard/keys", SecretString=text)

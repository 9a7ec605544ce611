"""Where signing keys come from. Systems Manager and Secrets Manager are moto's, as far as it is installed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pydantic import SecretStr

from flowguard.aws.clients import Clients
from flowguard.aws.signing_keys import PAUSES, aws_signer, aws_tokens
from flowguard.aws.transport.time_left import KEPT_MS, within
from flowguard.client import FlowClient
from flowguard.clock import ManualClock
from flowguard.errors import KeyUnavailable, SettingsError
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.moto import EmbeddedAWS
from flowguard.wire.signing import UNSIGNED, Signer
from flowguard.wire.tokens import Tokens

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


@pytest.mark.slow("starts a process")
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
def test_a_stored_secret_that_stands_alone_as_templates_generate_it_has_the_first_id(
    aws: EmbeddedAWS, kind: str
) -> None:
    store(aws, kind, f"{SECRET}\n")
    assert signer(f"{kind}:/flowguard/keys").sign("it") == signer(f"k1:{SECRET}").sign("it")


@pytest.mark.parametrize("kind", ["ssm", "secretsmanager"])
def test_stored_keys_that_are_malformed_are_never_shown(aws: EmbeddedAWS, kind: str) -> None:
    store(aws, kind, f"{SECRET},{SECRET}")
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


@pytest.mark.parametrize("setting", ["ssm:", "secretsmanager:"])
def test_a_store_without_a_name_is_refused_by_that(setting: str) -> None:
    with pytest.raises(SettingsError, match=f"{setting} is followed by no name"):
        signer(setting)


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


# -- tokens -----------------------------------------------------------------------------------------------------------

ROW = "0" * 32


def tokens(**given: str) -> Tokens:
    return aws_tokens(Settings.from_environment(given), Clients(), ManualClock())


def test_tokens_need_a_key() -> None:
    with pytest.raises(SettingsError, match="FLOWGUARD_TOKEN_KEYS: is not set"):
        tokens().make("orders", ROW, 1)


def test_tokens_have_keys_of_their_own_or_else_those_for_signing() -> None:
    signing = tokens(FLOWGUARD_SIGNING_KEYS=KEYS).make("orders", ROW, 1)
    assert tokens(FLOWGUARD_TOKEN_KEYS=KEYS).make("orders", ROW, 1) == signing
    both = tokens(FLOWGUARD_SIGNING_KEYS=KEYS, FLOWGUARD_TOKEN_KEYS=f"t1:{SECRET}")
    assert both.make("orders", ROW, 1).startswith("t1.")


def test_token_keys_alone_sign_no_message() -> None:
    assert aws_signer(Settings.from_environment({"FLOWGUARD_TOKEN_KEYS": KEYS}), Clients(), ManualClock()) is UNSIGNED


@pytest.mark.parametrize("kind", ["ssm", "secretsmanager"])
def test_stored_token_keys_are_loaded_once_when_they_are_first_needed(aws: EmbeddedAWS, kind: str) -> None:
    store(aws, kind, KEYS)
    with intercept(Recorder()) as calls:
        stored = tokens(FLOWGUARD_TOKEN_KEYS=f"{kind}:/flowguard/keys")
        assert calls.count(kind) == 0
        made = stored.make("orders", ROW, 1)
        assert stored.read(made, ["orders"], 0).row_id == ROW
    assert calls.count(kind) == 1


@pytest.mark.parametrize("setting", ["ssm:", "secretsmanager:", "", SECRET, "k1:short"])
def test_malformed_token_keys_are_refused_at_once_by_their_own_name(setting: str) -> None:
    with pytest.raises(SettingsError) as caught:
        tokens(FLOWGUARD_TOKEN_KEYS=setting)
    assert caught.value.setting == "FLOWGUARD_TOKEN_KEYS"
    assert SECRET not in str(caught.value)


def test_stored_token_keys_that_are_malformed_or_binary_are_refused_by_their_own_name(aws: EmbeddedAWS) -> None:
    aws.client("secretsmanager").create_secret(Name="binary", SecretBinary=KEYS.encode())
    aws.client("secretsmanager").create_secret(Name="bad", SecretString=f"{SECRET},{SECRET}")
    for name in ("binary", "bad"):
        with pytest.raises(SettingsError) as caught:
            tokens(FLOWGUARD_TOKEN_KEYS=f"secretsmanager:{name}").make("orders", ROW, 1)
        assert caught.value.setting == "FLOWGUARD_TOKEN_KEYS"
        assert SECRET not in str(caught.value)


def store(aws: EmbeddedAWS, kind: str, text: str) -> None:
    if kind == "ssm":
        aws.client("ssm").put_parameter(Name="/flowguard/keys", Value=text, Type="SecureString")
    else:
        aws.client("secretsmanager").create_secret(Name="/flowguard/keys", SecretString=text)


# -- many at once -----------------------------------------------------------------------------------------------------


class Busy:
    """Systems Manager, which reads 40 parameters of an account in a second."""

    def __init__(self) -> None:
        self.taken: Counter[int] = Counter()
        self.now = 0.0

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        self.taken[int(self.now)] += 1
        if self.taken[int(self.now)] > 40:
            raise refusal("ThrottlingException", call)
        return {"Parameter": {"Value": KEYS}}


def refusal(code: str, call: ApiCall) -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return ClientError(response, call.operation)


def test_two_hundred_environments_that_start_at_once_all_get_their_keys(aws: EmbeddedAWS) -> None:
    settings, clients, busy = Settings(signing_keys=SecretStr("ssm:/flowguard/keys")), Clients(), Busy()
    with intercept(busy):
        for seed in range(200):
            busy.now = 0.0
            assert aws_signer(settings, clients, ManualClock(), random.Random(seed), busy.pause).sign("it") is not None
            assert busy.now <= sum(PAUSES)
    assert busy.taken[0] > 100, "they did start at once"


@pytest.mark.parametrize("code", ["AccessDeniedException", "ParameterNotFound"])
def test_a_refusal_that_does_not_pass_is_not_waited_for(code: str, aws: EmbeddedAWS) -> None:
    def refuses(call: ApiCall, proceed: Proceed) -> Response:
        raise refusal(code, call)

    def pause(seconds: float) -> None:
        raise AssertionError("it waits")

    settings = Settings(token_keys=SecretStr("ssm:/flowguard/keys"))
    with (
        intercept(refuses),
        pytest.raises(KeyUnavailable, match=f"/flowguard/keys cannot be used now: .*{code}") as met,
    ):
        aws_tokens(settings, Clients(), ManualClock(), pause=pause).make("orders", ROW, 1)
    assert met.value.refused


def test_stored_keys_that_are_malformed_are_not_waited_for(aws: EmbeddedAWS) -> None:
    pauses: list[float] = []

    def answers(call: ApiCall, proceed: Proceed) -> Response:
        return {"Parameter": {"Value": "k1:short"}}

    settings = Settings(signing_keys=SecretStr("ssm:/flowguard/keys"))
    with intercept(answers), pytest.raises(SettingsError):
        aws_signer(settings, Clients(), ManualClock(), random.Random(0), pauses.append).sign("it")
    assert pauses == []


def test_a_store_that_stays_busy_is_given_up_after_a_few_tries(aws: EmbeddedAWS) -> None:
    pauses: list[float] = []

    def refuses(call: ApiCall, proceed: Proceed) -> Response:
        raise refusal("ThrottlingException", call)

    settings = Settings(signing_keys=SecretStr("ssm:/flowguard/keys"))
    with intercept(refuses), pytest.raises(KeyUnavailable, match="ThrottlingException") as met:
        aws_signer(settings, Clients(), ManualClock(), random.Random(0), pauses.append).sign("it")
    assert not met.value.refused
    assert len(pauses) == len(PAUSES)
    assert all(one <= most for one, most in zip(pauses, PAUSES, strict=True))


@pytest.mark.parametrize("remaining", [2_000, 400, 0])
def test_nobody_waits_for_keys_until_the_function_is_killed(remaining: int, aws: EmbeddedAWS) -> None:
    """Its records are returned, and come again, where it says so in time."""
    waited = 0.0

    def pause(seconds: float) -> None:
        nonlocal waited
        waited += seconds

    def refuses(call: ApiCall, proceed: Proceed) -> Response:
        raise refusal("ThrottlingException", call)

    settings = Settings(signing_keys=SecretStr("ssm:/flowguard/keys"))
    with (
        intercept(refuses),
        within(lambda: remaining - round(waited * 1000)),
        pytest.raises(KeyUnavailable, match="ThrottlingException"),
    ):
        aws_signer(settings, Clients(), ManualClock(), random.Random(0), pause).sign("it")
    assert waited * 1000 <= max(remaining - KEPT_MS, 0)

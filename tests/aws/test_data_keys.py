"""Data keys of KMS, on a client that answers as KMS does."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws.data_keys import KmsDataKeys
from flowguard.aws.faults import is_outage
from flowguard.errors import KeyUnavailable
from flowguard.sim.moto import EmbeddedAWS

CONTEXT = {"flowguard-flow": "orders"}


class Kms:
    """Answers one call after the other from ``answers``: an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[dict[str, Any]] = []

    def generate_data_key(self, **params: Any) -> Any:
        return self._answer(params)

    def decrypt(self, **params: Any) -> Any:
        return self._answer(params)

    def _answer(self, params: dict[str, Any]) -> Any:
        self.calls.append(params)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Decrypt")


def test_a_data_key_is_made_in_its_context() -> None:
    kms = Kms({"Plaintext": b"secret", "CiphertextBlob": b"sealed", "KeyId": "arn:k"})
    made = KmsDataKeys(lambda: kms).make("alias/k", CONTEXT)
    assert (made.secret, made.sealed, made.key) == (b"secret", b"sealed", "arn:k")
    assert kms.calls == [{"KeyId": "alias/k", "KeySpec": "AES_256", "EncryptionContext": CONTEXT}]


def test_a_data_key_is_opened_by_the_first_key_that_has_sealed_it() -> None:
    kms = Kms(refused("IncorrectKeyException"), {"Plaintext": b"secret"})
    assert KmsDataKeys(lambda: kms).opened(b"sealed", ["a", "b", "c"], CONTEXT) == b"secret"
    assert [call["KeyId"] for call in kms.calls] == ["a", "b"]
    assert all(call["EncryptionContext"] == CONTEXT and call["CiphertextBlob"] == b"sealed" for call in kms.calls)


def test_none_opens_what_none_has_sealed() -> None:
    kms = Kms(refused("IncorrectKeyException"), refused("IncorrectKeyException"))
    assert KmsDataKeys(lambda: kms).opened(b"sealed", ["a", "b"], CONTEXT) is None


def test_none_opens_what_was_changed() -> None:
    kms = Kms(refused("InvalidCiphertextException"))
    assert KmsDataKeys(lambda: kms).opened(b"sealed", ["a", "b"], CONTEXT) is None


@pytest.mark.parametrize("length", [0, 6_145, 7_000])
def test_none_opens_what_has_no_length_of_a_data_key_and_nobody_is_asked(length: int) -> None:
    kms = Kms()
    assert KmsDataKeys(lambda: kms).opened(b"x" * length, ["a"], CONTEXT) is None
    assert kms.calls == []


@pytest.mark.parametrize("length", [1, 6_144])
def test_the_shortest_and_the_longest_are_asked_for(length: int) -> None:
    assert KmsDataKeys(lambda: Kms({"Plaintext": b"secret"})).opened(b"x" * length, ["a"], CONTEXT) == b"secret"


def test_what_is_malformed_is_no_outage() -> None:
    kms = Kms(refused("ValidationException"), {"Plaintext": b"secret"})
    assert KmsDataKeys(lambda: kms).opened(b"sealed", ["alias/mal formed", "b"], CONTEXT) == b"secret"
    assert KmsDataKeys(lambda: Kms(refused("ValidationException"))).opened(b"sealed", ["a"], CONTEXT) is None


@pytest.mark.parametrize(
    "error",
    [
        *(
            refused(code)
            for code in (
                "AccessDeniedException",
                "ThrottlingException",
                "KMSInvalidStateException",
                "NotFoundException",
            )
        ),
        EndpointConnectionError(endpoint_url="https://kms"),
    ],
    ids=str,
)
def test_whatever_else_it_says_passes_as_an_outage(error: Exception) -> None:
    with pytest.raises(KeyUnavailable) as making:
        KmsDataKeys(lambda: Kms(error)).make("alias/k", CONTEXT)
    with pytest.raises(KeyUnavailable) as opening:
        KmsDataKeys(lambda: Kms(error)).opened(b"sealed", ["alias/k"], CONTEXT)
    for raised in (making.value, opening.value):
        assert raised.key == "alias/k"
        code = error.response["Error"]["Code"] if isinstance(error, ClientError) else "EndpointConnectionError"
        assert raised.why.startswith(f"{code}: ")
        assert is_outage(raised)


@pytest.mark.parametrize("code", ["DisabledException", "AccessDeniedException", "ThrottlingException"])
def test_a_key_that_is_refused_hides_none_after_it(code: str) -> None:
    kms = Kms(refused(code), refused("IncorrectKeyException"), {"Plaintext": b"secret"})
    assert KmsDataKeys(lambda: kms).opened(b"sealed", ["a", "b", "c"], CONTEXT) == b"secret"
    assert [call["KeyId"] for call in kms.calls] == ["a", "b", "c"]


def test_the_first_refusal_is_the_outage_where_no_key_opens_it() -> None:
    kms = Kms(refused("DisabledException"), refused("AccessDeniedException"), refused("IncorrectKeyException"))
    with pytest.raises(KeyUnavailable, match="DisabledException") as raised:
        KmsDataKeys(lambda: kms).opened(b"sealed", ["a", "b", "c"], CONTEXT)
    assert (raised.value.key, len(kms.calls)) == ("a", 3)


def test_what_was_changed_is_no_outage_of_another_key() -> None:
    kms = Kms(refused("DisabledException"), refused("InvalidCiphertextException"))
    assert KmsDataKeys(lambda: kms).opened(b"sealed", ["a", "b", "c"], CONTEXT) is None


def test_a_service_that_does_not_answer_is_asked_once() -> None:
    kms = Kms(EndpointConnectionError(endpoint_url="https://kms"))
    with pytest.raises(KeyUnavailable, match="EndpointConnectionError"):
        KmsDataKeys(lambda: kms).opened(b"sealed", ["a", "b"], CONTEXT)


def test_the_client_is_made_once_and_with_the_first_call() -> None:
    made: list[Kms] = []

    def make() -> Kms:
        made.append(Kms(*[{"Plaintext": b"s"}] * 2))
        return made[-1]

    keys = KmsDataKeys(make)
    assert not made
    keys.opened(b"sealed", ["a"], {})
    keys.opened(b"sealed", ["a"], {})
    assert len(made) == 1


def test_a_mistake_of_ours_is_none_of_kms() -> None:
    with pytest.raises(TypeError):
        KmsDataKeys(lambda: Kms(TypeError("no"))).make("alias/k", CONTEXT)
    with pytest.raises(TypeError):
        KmsDataKeys(lambda: Kms(TypeError("no"))).opened(b"sealed", ["alias/k"], CONTEXT)


def test_an_engine_that_others_have_made_answers_alike() -> None:
    with EmbeddedAWS() as aws:
        kms = aws.client("kms")
        names = []
        for name in ("alias/shop", "alias/other"):
            made_key = kms.create_key()["KeyMetadata"]
            kms.create_alias(AliasName=name, TargetKeyId=made_key["KeyId"])
            names.append(made_key["Arn"])
        keys = KmsDataKeys(lambda: kms)
        made = keys.make("alias/shop", CONTEXT)
        assert made.key == names[0]
        assert len(made.secret) == 32
        assert keys.opened(made.sealed, ["alias/shop"], CONTEXT) == made.secret
        assert keys.opened(made.sealed, ["alias/shop"], {"flowguard-flow": "carts"}) is None
        with pytest.raises(KeyUnavailable, match="NotFoundException"):
            keys.make("alias/unknown", CONTEXT)

"""Requests are signed as botocore signs them, byte for byte."""

from __future__ import annotations

import datetime
import hmac
import random
from typing import Any, Final

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoresCredentials

from flowguard.aws.transport.credentials import Credentials
from flowguard.aws.transport.signature import Signer

REQUESTS: Final = 4_000
LETTERS: Final = "abcXYZ019 \t-_./+=%~!*'();:@&$,?#[]é☃\U0001f600"


def a_text(draw: random.Random, most: int, letters: str = LETTERS) -> str:
    return "".join(draw.choices(letters, k=draw.randint(1, most)))


def a_request(draw: random.Random) -> dict[str, str]:
    """Headers of a request, in any order."""
    names = ["content-type", "x-amz-target", "x-amzn-query-mode", "x-amz-content", "x-more", "range"]
    chosen = draw.sample(names, draw.randint(0, len(names)))
    return {name: a_text(draw, 40) for name in chosen}


@pytest.mark.slow("signs thousands of requests twice")
def test_thousands_of_requests_are_signed_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, plain = random.Random(7), LETTERS[:16].replace(" ", "").replace("\t", "")
    begun = datetime.datetime(2026, 11, 26, 23, tzinfo=datetime.UTC)
    for service, region in (("dynamodb", "eu-west-1"), ("sqs", "us-gov-west-1"), ("events", "cn-north-1")):
        signer, credentials = Signer(service, region), Credentials("AK", "a")
        for number in range(REQUESTS // 3):
            if number % 7 == 0:
                token = a_text(draw, 300, plain) if draw.random() < 0.8 else None
                credentials = Credentials(a_text(draw, 20, plain), a_text(draw, 40, plain), token)
            moment = begun + datetime.timedelta(seconds=draw.randint(0, 7_200))
            monkeypatch.setattr("botocore.auth.get_current_datetime", lambda moment=moment: moment)
            headers, body = a_request(draw), draw.randbytes(draw.choice((0, 1, 60, 3_000)))
            theirs = botocores(credentials, service, region, headers, body)
            signed = {**headers, "host": f"{service}.{region}.example.com", "x-amz-date": f"{moment:%Y%m%dT%H%M%SZ}"}
            if credentials.token is not None:
                signed["x-amz-security-token"] = credentials.token
            assert signer.authorization(signed, body, credentials) == theirs


def botocores(keys: Credentials, service: str, region: str, headers: dict[str, str], body: bytes) -> str:
    request: Any = AWSRequest("POST", f"https://{service}.{region}.example.com/", dict(headers), body)
    SigV4Auth(BotocoresCredentials(*keys), service, region).add_auth(request)
    found: str = request.headers["Authorization"]
    return found


def test_the_key_of_a_day_is_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    digest = hmac.digest

    def counted(*given: Any) -> bytes:
        made[-1] += 1
        return digest(*given)

    monkeypatch.setattr(hmac, "digest", counted)
    signer = Signer("sqs", "eu-west-1")
    for day, secret in (("20261126", "a"), ("20261126", "a"), ("20261127", "a"), ("20261127", "b"), ("20261127", "b")):
        made.append(0)
        signer.authorization({"x-amz-date": f"{day}T000000Z"}, b"", Credentials("AK", secret))
    assert made == [4, 0, 4, 4, 0]


def test_a_secret_is_in_no_text_of_credentials() -> None:
    keys = Credentials("AKIAIOSFODNN7EXAMPLE", "my-secret", "my-token")
    for text in (repr(keys), str(keys), f"{keys}", repr([keys])):
        assert "my-" not in text
        assert "AKIAIOSFODNN7EXAMPLE" in text

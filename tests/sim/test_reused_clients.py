"""A client is made once, and only within the block."""

from __future__ import annotations

from typing import Any

import boto3
import botocore.session
import pytest
from botocore.config import Config

from flowguard.sim.reused_clients import SameClients


def client(service: Any, **options: Any) -> Any:
    return boto3.client(service, region_name="us-east-1", **options)


def test_a_client_of_a_block_is_that_of_the_next() -> None:
    same = SameClients()
    with same.kept():
        first, other = client("sqs"), client("sns")
        assert client("sqs") is first
    with same.kept():
        assert client("sqs") is first
        assert client("sns") is other
        assert client("sqs", endpoint_url="http://127.0.0.1:1") is not first
    assert client("sqs") is not first


def test_equal_configs_share_a_client() -> None:
    with SameClients().kept():
        assert client("sqs", config=Config()) is client("sqs", config=Config())
        assert client("sqs", config=Config(read_timeout=1)) is not client("sqs", config=Config(read_timeout=2))


def test_what_cannot_be_compared_is_made_anew() -> None:
    anything = object()
    with SameClients().kept():
        assert client("sqs", use_ssl=anything) is not client("sqs", use_ssl=anything)


def test_so_is_one_of_botocore_in_the_same_region(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_botocore() -> Any:
        return botocore.session.Session().create_client("sqs")

    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with SameClients().kept():
        assert of_botocore() is of_botocore()
        first = of_botocore()
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        assert of_botocore() is not first
    assert of_botocore() is not of_botocore()

"""DynamoDB answered at botocore's HTTP layer: parameters are serialised and signed, answers parsed, nothing is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from zlib import crc32

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Answer = dict[str, Any]


def a_session() -> boto3.session.Session:
    """Of an account that does not exist."""
    return boto3.session.Session(
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE", aws_secret_access_key="a secret", region_name="us-east-1"
    )


def answer(client: DynamoDBClient, make: Callable[[str], Answer]) -> None:
    """Let the client be answered with what ``make`` returns for an operation, such as ``UpdateItem``."""

    def before_send(request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse:
        body = json.dumps(make(event_name.rpartition(".")[2])).encode()
        headers: Any = {"Content-Type": "application/x-amz-json-1.0", "x-amz-crc32": str(crc32(body))}
        return AWSResponse(request.url, 200, headers, _Raw(body))

    events: Any = client.meta.events  # its stubs know of no handler that answers
    events.register("before-send.dynamodb", before_send)


@contextmanager
def recorded(client: DynamoDBClient) -> Iterator[list[tuple[str, Answer]]]:
    """The operations called while the block runs, in order, each with its parameters as the caller gave them."""
    found: list[tuple[str, Answer]] = []

    def before_parameter_build(params: Answer, event_name: str, **_: Any) -> None:
        found.append((event_name.rpartition(".")[2], dict(params)))

    client.meta.events.register_first("before-parameter-build.dynamodb", before_parameter_build)
    try:
        yield found
    finally:
        client.meta.events.unregister("before-parameter-build.dynamodb", before_parameter_build)


class _Raw:
    """The part of a urllib3 response that botocore reads."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._body

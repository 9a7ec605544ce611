"""boto3 clients, made when first needed and then kept: a function that sends nothing to SNS never loads SNS."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_scheduler import EventBridgeSchedulerClient
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

_CONFIG = Config(retries={"mode": "standard", "max_attempts": 3}, connect_timeout=2, read_timeout=5)
"""A call that hangs must not use up the lease: botocore's own defaults wait for a minute."""


class Clients:
    """``endpoint_urls`` maps a service's boto3 name to where an emulator listens; the rest go to AWS."""

    def __init__(
        self, session: boto3.session.Session | None = None, endpoint_urls: dict[str, str] | None = None
    ) -> None:
        self._session = session
        self._endpoint_urls = endpoint_urls or {}

    def _client(self, service: Any) -> Any:
        session = self._session if self._session is not None else boto3.session.Session()
        return session.client(service, config=_CONFIG, endpoint_url=self._endpoint_urls.get(service))

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        client: DynamoDBClient = self._client("dynamodb")
        return client

    @cached_property
    def sqs(self) -> SQSClient:
        client: SQSClient = self._client("sqs")
        return client

    @cached_property
    def sns(self) -> SNSClient:
        client: SNSClient = self._client("sns")
        return client

    @cached_property
    def events(self) -> EventBridgeClient:
        client: EventBridgeClient = self._client("events")
        return client

    @cached_property
    def lambda_(self) -> LambdaClient:
        client: LambdaClient = self._client("lambda")
        return client

    @cached_property
    def scheduler(self) -> EventBridgeSchedulerClient:
        client: EventBridgeSchedulerClient = self._client("scheduler")
        return client

    @cached_property
    def s3(self) -> S3Client:
        client: S3Client = self._client("s3")
        return client

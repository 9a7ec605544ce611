"""AWS clients that are made when first needed and then kept.

A function that sends nothing to SNS never loads SNS.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import botocore.session
from botocore.config import Config
from botocore.exceptions import NoRegionError

from flowguard.aws.request_bodies import write_bodies
from flowguard.aws.service_models import ServiceModels
from flowguard.errors import SettingsError

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_scheduler import EventBridgeSchedulerClient
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

_AGENT = f"Botocore/{botocore.__version__} lang/python#{sys.version_info.major}.{sys.version_info.minor} lib/flowguard"
"""What a request says of its sender. botocore would put it together anew each time: a quarter of a call's CPU."""

_CONFIG = Config(retries={"mode": "standard", "max_attempts": 3}, connect_timeout=2, read_timeout=5, user_agent=_AGENT)
"""A call that hangs must not use up the lease: botocore's own defaults wait for a minute."""

_BY_CONSTRUCTION = _CONFIG.merge(Config(parameter_validation=False, max_pool_connections=20))
"""For DynamoDB, whose calls are all made here: what botocore would check again is right by construction, and checking
costs a fifth of a call's CPU. What is wrong in a user's recorded write, DynamoDB itself says.

Ten handlers may call it while ten commits are made."""

_ONCE = _BY_CONSTRUCTION.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))
"""For writes that must not come late: botocore repeats what was not answered, and the first one may still be done."""

_MAKING = threading.Lock()


class NoRegion(SettingsError):
    """No AWS region is set. No service was asked."""


class Clients:
    """The AWS clients of one session, each made when it is first needed.

    ``session`` is a boto3 session of the caller's own, with its credentials and region; else botocore's default.
    Without one boto3 itself is not loaded: its clients are botocore's, and the rest of it (resources, transfers) costs
    a tenth of a cold start. ``endpoint_urls`` maps a service's name to where an emulator listens.
    """

    def __init__(self, session: Session | None = None, endpoint_urls: dict[str, str] | None = None) -> None:
        self._session = session
        self._endpoint_urls = endpoint_urls or {}

    @cached_property
    def _create(self) -> Callable[..., Any]:
        """Return the function that makes a client, from one session for all clients.

        Each session reads botocore's tables of endpoints and defaults anew, which takes 40 ms of CPU.
        """
        if self._session is not None:
            return self._session.client
        session = botocore.session.Session()
        session.register_component("data_loader", ServiceModels(session.get_component("data_loader")))
        return session.create_client

    def _client(self, service: str, config: Config = _CONFIG) -> Any:
        try:
            with _MAKING:  # botocore's sessions are not made for threads, its clients are
                return self._create(service, config=config, endpoint_url=self._endpoint_urls.get(service))
        except NoRegionError:
            problem = (
                f"no AWS region is set, so {service} was not asked; set it, or hand in Clients(a session with one)"
            )
            raise NoRegion("AWS_DEFAULT_REGION", f"{problem}. Nothing was written or sent") from None

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        client: DynamoDBClient = self._client("dynamodb", _BY_CONSTRUCTION)
        write_bodies(client)
        return client

    @cached_property
    def dynamodb_once(self) -> DynamoDBClient:
        """Make no call twice by itself."""
        client: DynamoDBClient = self._client("dynamodb", _ONCE)
        write_bodies(client)
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
    def ssm(self) -> Any:
        return self._client("ssm")

    @cached_property
    def secretsmanager(self) -> Any:
        return self._client("secretsmanager")

    @cached_property
    def s3(self) -> S3Client:
        client: S3Client = self._client("s3")
        return client


_KEY: Final = "clients"
_prepared: dict[str, Clients] = {}


def prepare_clients(*services: str) -> None:
    """Make the clients that a function needs at each event, where this process is Lambda's.

    A handler is made while Lambda initialises the function, with more CPU than its events have; with SnapStart that is
    done before the first of them. Elsewhere this does nothing. What goes wrong is said with the first event.
    """
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        clients = prepared_clients()
        with suppress(Exception):
            for service in services:
                getattr(clients, service)
            _prepared[_KEY] = clients


def prepared_clients() -> Clients:
    """Return the clients of this process, or new ones where none are prepared."""
    return _prepared.get(_KEY) or Clients()

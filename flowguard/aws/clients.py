"""AWS clients that are made when first needed and then kept.

A function that sends nothing to SNS never loads SNS.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors
from flowguard.aws.transport.choice import why_botocore
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

    from flowguard.aws.botocore_clients import BotocoreClients

logger = logging.getLogger("flowguard")

_MAKING = threading.RLock()


class NoRegion(SettingsError):
    """No AWS region is set. No service was asked."""


class Clients:
    """The AWS clients of one session, each made when it is first needed.

    ``session`` is a boto3 session of the caller's own, with its credentials and region; else botocore's default.
    ``endpoint_urls`` maps a service's name to where an emulator listens. Without either, the environment chooses who
    makes the calls of a message (:mod:`flowguard.aws.transport.choice`).
    """

    def __init__(self, session: Session | None = None, endpoint_urls: dict[str, str] | None = None) -> None:
        self._session = session
        self._endpoint_urls = endpoint_urls or {}

    @cached_property
    def _why_botocore(self) -> str | None:
        """Return why botocore makes all calls. None where the lean client makes those that it can."""
        is_own = self._session is not None or self._endpoint_urls
        return "a session or an endpoint was handed in" if is_own else why_botocore(os.environ)

    @cached_property
    def _botocore(self) -> BotocoreClients:
        from flowguard.aws.botocore_clients import BotocoreClients  # a third of a cold start, which may not be needed

        return BotocoreClients(self._session)

    def _client(self, service: str, *, once: bool = False) -> Any:
        if self._why_botocore is None:
            from flowguard.aws.transport.made import json_client  # loads TLS, as botocore does for itself

            made = json_client(
                service,
                os.environ,
                lambda: self._botocore.session,
                lambda: self._botocore_client(service, once=once),
                once=once,
            )
            if made is not None:
                logger.debug("calls of %s are made by the lean client", service)
                return made
        why = self._why_botocore or "the lean client has no such service, or no credentials that it can use"
        logger.debug("calls of %s are made by boto3: %s", service, why)
        return self._botocore_client(service, once=once)

    def _botocore_client(self, service: str, *, once: bool) -> Any:
        try:
            with _MAKING:  # botocore's sessions are not made for threads, its clients are
                return self._botocore.client(service, self._endpoint_urls.get(service), once=once)
        except botocore_errors.NoRegionError:
            problem = (
                f"no AWS region is set, so {service} was not asked; set it, or hand in Clients(a session with one)"
            )
            raise NoRegion("AWS_DEFAULT_REGION", f"{problem}. Nothing was written or sent") from None

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        client: DynamoDBClient = self._client("dynamodb")
        return client

    @cached_property
    def dynamodb_once(self) -> DynamoDBClient:
        """Make no call twice by itself."""
        client: DynamoDBClient = self._client("dynamodb", once=True)
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
    def kms(self) -> Any:
        return self._client("kms")

    @cached_property
    def s3(self) -> S3Client:
        client: S3Client = self._client("s3")
        return client


_KEY: Final = "clients"
_prepared: dict[str, Clients] = {}
_connected: list[Any] = []
"""The clients that have been connected, or were tried to."""

_INITIALISED = "AWS_LAMBDA_INITIALIZATION_TYPE"


def prepare_clients(*services: str, unconnected: Iterable[str] = ()) -> None:
    """Make the clients that a function needs at each event, where this process is Lambda's, and connect them.

    Those that are ``unconnected`` are called by few events, and open a connection with the first call.

    A handler is made while Lambda initialises the function, with more CPU than its events have; with SnapStart that is
    done before the first of them. Elsewhere this does nothing. What goes wrong is said with the first event.
    """
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        clients = prepared_clients()
        with suppress(Exception):
            made = {service: getattr(clients, service) for service in services}
            _prepared[_KEY] = clients
            if os.environ.get(_INITIALISED) != "snap-start":  # a snapshot's connections are nobody's
                _connect(made[service] for service in services if service not in unconnected)


def _connect(clients: Iterable[Any]) -> None:
    """Open connections for the first event. Clients of botocore open none before they need it."""
    new = [client for client in clients if hasattr(type(client), "connect") and client not in _connected]
    _connected.extend(new)  # a module has many handlers; where one cannot connect, the others would wait as long
    for client in new:
        client.connect()


def prepared_clients() -> Clients:
    """Return the clients of this process, or new ones where none are prepared."""
    return _prepared.get(_KEY) or Clients()

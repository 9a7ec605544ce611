"""What the engines of this process share: clients, and what is created by calls of theirs.

While the block of an engine runs, every boto3 client of the process talks to it, user code's too, and the environment
names an account that does not exist: nothing can reach a real one. There can be one at a time in a process.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from flowguard.codecs.kept_keys import standing_in
from flowguard.sim.account import REGION, environment, isolated, only_one, session_here
from flowguard.sim.limits.refusing import Refusing
from flowguard.sim.simulated_keys import SIMULATED_DATA_KEYS
from flowguard.sim.table_keys import create_run_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient


class AWSInProcess(ABC):
    """An AWS for one block. ``refusing`` makes destinations refuse for good: ``aws.refusing.deny("sqs:emails")``."""

    _one = threading.Lock()

    def __init__(self, *, seed: int = 0, region: str = REGION) -> None:
        self.seed = seed
        self.region = region
        self.refusing = Refusing()
        self._clients: dict[str, Any] = {}
        self._making_client = threading.Lock()  # sessions are not thread-safe
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(only_one(self._one))
            opened.enter_context(standing_in(SIMULATED_DATA_KEYS))
            opened.enter_context(environment({**isolated(self.region), **self._credentials()}))
            self._open(opened)
            self._session = session_here()
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.clear()
        self._exit.close()

    def _credentials(self) -> dict[str, str]:
        """Return environment variables with made-up credentials."""
        return {}

    @abstractmethod
    def _open(self, opened: ExitStack) -> None:
        """Install what answers calls until the block ends."""

    @abstractmethod
    def create_function(self, name: str) -> None:
        """Let a function exist. It is not run: an invocation is accepted, and a synchronous one returns null."""

    @overload
    def client(self, service: Literal["dynamodb"]) -> DynamoDBClient: ...
    @overload
    def client(self, service: Literal["events"]) -> EventBridgeClient: ...
    @overload
    def client(self, service: Literal["lambda"]) -> LambdaClient: ...
    @overload
    def client(self, service: Literal["s3"]) -> S3Client: ...
    @overload
    def client(self, service: Literal["sns"]) -> SNSClient: ...
    @overload
    def client(self, service: Literal["sqs"]) -> SQSClient: ...
    @overload
    def client(self, service: str) -> Any: ...
    def client(self, service: str) -> Any:
        """Return the block's one client of this service."""
        with self._making_client:
            if service not in self._clients:
                make: Any = self._session.client  # typed for the services that boto3-stubs knows by name
                self._clients[service] = make(service)
            return self._clients[service]

    def create_table(self, name: str) -> None:
        """Create a run table. Its keys are ``pk`` and ``sk``, it is on demand, and items expire by ``ttl``."""
        create_run_table(self.client("dynamodb"), name)

    def create_queue(self, name: str, **attributes: str) -> str:
        """Create a queue and return its URL. Attributes are SQS's own, such as ``VisibilityTimeout="30"``."""
        given: Any = attributes  # whatever SQS has, checked by SQS
        return self.client("sqs").create_queue(QueueName=name, Attributes=given)["QueueUrl"]

    def queue_arn(self, queue_url: str) -> str:
        answer = self.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
        return answer["Attributes"]["QueueArn"]

    def create_topic(self, name: str) -> str:
        """Create a topic and return its ARN."""
        return self.client("sns").create_topic(Name=name)["TopicArn"]

    def subscribe(self, topic_arn: str, queue_url: str, *, raw: bool = False) -> str:
        """Subscribe the queue to the topic and return the subscription's ARN.

        What is published arrives as a notification, or with ``raw`` as it is.
        """
        return self.client("sns").subscribe(
            TopicArn=topic_arn,
            Protocol="sqs",
            Endpoint=self.queue_arn(queue_url),
            Attributes={"RawMessageDelivery": json.dumps(raw)},
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]

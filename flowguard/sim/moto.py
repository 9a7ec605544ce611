"""AWS inside this process, on moto. Its tables, queues and topics are gone when the block ends.

While the block runs, every boto3 client of the process talks to it, user code's too, and the environment names an
account that does not exist: nothing can reach a real one. Calls are made one at a time. Functions are not run here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload
from weakref import WeakSet

from botocore.client import BaseClient
from botocore.credentials import Credentials

from flowguard.errors import SettingsError
from flowguard.sim.account import REGION, environment, isolated, new_session, only_one
from flowguard.sim.calls import ApiCall, Interceptor, Proceed, Response, intercept, one_at_a_time
from flowguard.sim.keyed import create_run_table
from flowguard.sim.limits.refusing import Refusing
from flowguard.sim.strict.interceptor import Strict
from flowguard.sim.strict.state import items_of_any_size

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient


class EmbeddedAWS:
    """A whole AWS for one block. It is in the region ``region``.

    An equal ``seed`` and equal calls give equal ids: message ids, receipts, subscriptions. There can be one at a time
    in a process, for moto keeps its state in the process. What AWS documents as too large or malformed is refused as
    AWS refuses it; ``refusing`` makes destinations refuse for good: ``aws.refusing.deny("sqs:emails")``.
    """

    _open = threading.Lock()

    def __init__(self, *, seed: int = 0, region: str = REGION) -> None:
        self.seed = seed
        self.region = region
        self.refusing = Refusing()
        self._clients: dict[str, Any] = {}
        self._making_client = threading.Lock()  # sessions are not thread-safe
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(only_one(self._open))
            opened.enter_context(environment(isolated(self.region)))
            opened.enter_context(_moto(self.seed))
            opened.enter_context(intercept(one_at_a_time(), innermost=True))
            opened.enter_context(intercept(_adopting(), innermost=True))
            opened.enter_context(intercept(Strict(self.refusing), innermost=True))
            self._session = new_session()
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.clear()
        self._exit.close()

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
        """Return the ARN of the queue at this URL."""
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


@contextmanager
def _moto(seed: int) -> Iterator[None]:
    """Run moto's engines with its dummy credentials for the block.

    Its source of ids is seeded, and put back afterwards as it was.
    """
    try:
        # here, since it is heavy and comes with an extra
        from moto import mock_aws
        from moto.moto_api._internal import mock_random
    except ImportError as error:
        raise SettingsError("EmbeddedAWS", "moto is not installed; pip install 'flowguard[local]'") from error
    ids = mock_random.getstate()
    with mock_aws(config={"lambda": {"use_docker": False}}):
        mock_random.seed(seed)
        try:
            with items_of_any_size():
                yield
        finally:
            mock_random.setstate(ids)


def _adopting() -> Interceptor:
    """Return an interceptor that brings each client under moto.

    A client that was made before moto was imported would go to the real AWS otherwise, and one that was made without
    credentials could sign nothing.
    """
    from moto.core.models import patch_client  # heavy

    adopted: WeakSet[BaseClient] = WeakSet()

    def adopt(call: ApiCall, proceed: Proceed) -> Response:
        if call.client not in adopted:
            patch_client(call.client)
            client: Any = call.client  # its signer is private: boto3 has no other way to give it credentials
            signer = client._request_signer
            if signer._credentials is None:
                signer._credentials = Credentials("embedded", "embedded")
            adopted.add(call.client)
        return proceed()

    return adopt

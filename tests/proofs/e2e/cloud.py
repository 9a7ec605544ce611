"""A deployment on MiniStack, and what a test does with it: it sends, looks into tables, and collects messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from boto3.session import Session
from botocore.config import Config

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.settings import Settings
from tests.proofs.e2e.actions import CLIENT, LEAN

REGION: Final = "us-east-1"
ACCOUNT: Final = "123456789012"
STACKS: Final = ("flows", "others")
TEXTS: Final = "long-texts"
"""The bucket of texts that no item holds."""
SIGNING_KEYS: Final = "ssm:/flowguard/signing-keys"

Item = Mapping[str, Any]


@dataclass(frozen=True)
class Received:
    """A message that a flow has sent. ``id`` is that of the message, which its copies share."""

    id: str
    body: Any
    attributes: Mapping[str, str]


@dataclass
class Cloud:
    """The services of one endpoint. ``received`` has what was collected, by queue."""

    endpoint_url: str
    switches: Path
    received: dict[str, list[Received]] = field(default_factory=dict)
    _clients: dict[str, Any] = field(default_factory=dict)
    _urls: dict[str, str] = field(default_factory=dict)

    @cached_property
    def session(self) -> Session:
        return Session(ACCOUNT, "test", region_name=REGION)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            make: Any = self.session.client
            found = make(service, endpoint_url=self.endpoint_url, config=Config(retries={"max_attempts": 5}))
            self._clients[service] = found
        return self._clients[service]

    @property
    def environment(self) -> Mapping[str, str]:
        """What a command of flowguard needs to work here."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "FLOWGUARD_SIGNING_KEYS": SIGNING_KEYS,
        }

    @cached_property
    def flows(self) -> FlowClient:
        """A client of the flows. It signs what it sends, as their functions do."""
        clients = Clients(self.session, dict.fromkeys(("sqs", "ssm", "dynamodb"), self.endpoint_url))
        return FlowClient.of(aws_services(Settings.model_validate({"signing_keys": SIGNING_KEYS}), clients))

    # -- queues

    def url(self, queue: str) -> str:
        if queue not in self._urls:
            self._urls[queue] = self.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]
        return self._urls[queue]

    def send(
        self,
        queue: str,
        payload: object,
        attributes: Mapping[str, str] | None = None,
        *,
        copies: int = 1,
        group: str | None = None,
    ) -> None:
        """Send the same message once or more often. Each copy has a message id of its own, as from a sender."""
        given = _attributes(attributes or {})
        for _ in range(copies):
            fifo = {} if group is None else {"MessageGroupId": group, "MessageDeduplicationId": uuid4().hex}
            self.client("sqs").send_message(
                QueueUrl=self.url(queue), MessageBody=json.dumps(payload), MessageAttributes=given, **fifo
            )

    def publish(self, topic: str, payload: object, attributes: Mapping[str, str] | None = None) -> None:
        arn = f"arn:aws:sns:{REGION}:{ACCOUNT}:{topic}"
        given = _attributes(attributes or {})
        self.client("sns").publish(TopicArn=arn, Message=json.dumps(payload), MessageAttributes=given)

    def let_send(self, queue: str, service: str, source_arn: str) -> str:
        """Let a topic or rule send to a queue of the template, and return the queue's ARN."""
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": service},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": source_arn}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.client("sqs").set_queue_attributes(QueueUrl=self.url(queue), Attributes={"Policy": policy})
        return arn

    def put_event(self, source: str, detail_type: str, detail: object) -> None:
        entry = {"Source": source, "DetailType": detail_type, "Detail": json.dumps(detail)}
        answer = self.client("events").put_events(Entries=[entry])
        assert not answer["FailedEntryCount"], answer

    def collect(self, queue: str) -> list[Received]:
        """Take what has come to a queue that no function reads, and return all of it so far, copies included."""
        found = self.received.setdefault(queue, [])
        while batch := self._received(queue):
            found.extend(batch)
        return found

    def distinct(self, queue: str) -> list[Received]:
        """Collect, and leave out copies, as a receiver does."""
        return list({one.id: one for one in self.collect(queue)}.values())

    def _received(self, queue: str) -> list[Received]:
        sqs, url = self.client("sqs"), self.url(queue)
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
        found = []
        for message in answer.get("Messages", ()):
            attributes = {name: one["StringValue"] for name, one in message.get("MessageAttributes", {}).items()}
            name = attributes.get("uniquerequestid", message["MessageId"])
            found.append(Received(name, json.loads(message["Body"]), attributes))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found

    def depth(self, queue: str) -> int:
        """Return how many messages a queue has."""
        return sum(self.depths(queue))

    def depths(self, queue: str) -> tuple[int, ...]:
        """Return how many messages of a queue are visible, how many a function has, and how many are delayed."""
        sizes = ("", "NotVisible", "Delayed")
        names = [f"ApproximateNumberOfMessages{size}" for size in sizes]
        answer = self.client("sqs").get_queue_attributes(QueueUrl=self.url(queue), AttributeNames=names)
        return tuple(int(answer["Attributes"][name]) for name in names)

    # -- tables

    def item(self, table: str, **key: str) -> Item | None:
        wanted = {name: TypeSerializer().serialize(value) for name, value in key.items()}
        found = self.client("dynamodb").get_item(TableName=table, Key=wanted, ConsistentRead=True).get("Item")
        return None if found is None else _plain(found)

    def items(self, table: str) -> list[Item]:
        pages = self.client("dynamodb").get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        return [_plain(item) for page in pages for item in page["Items"]]

    def put(self, table: str, item: Item) -> None:
        stored = {name: TypeSerializer().serialize(value) for name, value in item.items()}
        self.client("dynamodb").put_item(TableName=table, Item=stored)

    # -- deaths

    def kill(self, stage: str, event: str, object_id: str, times: int = 1) -> None:
        """Have the function of a stage killed at an event of an object, that many times."""
        new = self.switches / f".{stage}.{event}.{object_id}"
        new.write_text(str(times))
        new.rename(new.with_name(new.name[1:]))

    def deaths(self, stage: str = "*", event: str = "*", object_id: str = "*") -> int:
        return len(list(self.switches.glob(f"died.{stage}.{event}.{object_id}.*")))

    # -- functions

    @cached_property
    def lean_functions(self) -> frozenset[str]:
        """The names of those that are asked to call by the lean client."""
        pages = self.client("lambda").get_paginator("list_functions").paginate()
        functions = [one for page in pages for one in page["Functions"]]
        return frozenset(
            one["FunctionName"] for one in functions if one["Environment"]["Variables"].get(CLIENT) == LEAN
        )

    def clients(self, kind: str) -> frozenset[str]:
        """Return the names of the functions that have worked by this client."""
        return frozenset(one.name.split(".", 2)[2] for one in self.switches.glob(f"client.{kind}.*"))

    @cached_property
    def fed(self) -> Sequence[str]:
        """The queues that functions read."""
        pages = self.client("lambda").get_paginator("list_event_source_mappings").paginate()
        arns = [one["EventSourceArn"] for page in pages for one in page["EventSourceMappings"]]
        return [arn.rpartition(":")[2] for arn in arns if ":sqs:" in arn]

    def settled(self, *queues: str) -> bool:
        """Answer whether nothing is left in the queues that functions read, or in these of them."""
        return not any(self.depth(queue) for queue in queues or self.fed)

    def function_url(self, function: str) -> str:
        """Return where MiniStack serves a function URL: its own host cannot be resolved."""
        url = self.client("lambda").get_function_url_config(FunctionName=function)["FunctionUrl"]
        return f"{self.endpoint_url}/_aws/lambda-url/{url.removeprefix('https://').partition('.')[0]}"


def _attributes(given: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: {"DataType": "Number" if name == "requestedat" else "String", "StringValue": text}
        for name, text in given.items()
    }


def _plain(item: Mapping[str, Any]) -> Item:
    found = {name: TypeDeserializer().deserialize(value) for name, value in item.items()}
    return {name: _number(value) for name, value in found.items()}


def _number(value: Any) -> Any:
    match value:
        case Decimal() if value == value.to_integral_value():
            return int(value)
        case dict():
            return {name: _number(one) for name, one in value.items()}
        case _:
            return value

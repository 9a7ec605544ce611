"""DynamoDB Local and ElasticMQ together: tables, queues, clients, and what lies in them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import boto3
import botocore.session
from botocore.loaders import Loader, create_loader
from pydantic import SecretStr

from flowguard.aws.clients import Clients
from flowguard.aws.items import Item
from flowguard.aws.services import aws_services, aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.aws.transport.credentials import Credentials
from flowguard.aws.writes import from_item
from flowguard.client import FlowClient
from flowguard.events import Observer, log
from flowguard.settings import Settings
from flowguard.worker.ports import Services
from tests.aws.transport.clients import LeanClients

_loader: Loader = create_loader()
"""One for all clients of the process: reading botocore's tables of a service is most of what a new client costs."""


_COUNT: Final = "ApproximateNumberOf"

TOKEN_KEYS = SecretStr("k1:what-all-functions-of-a-sandbox-make-their-tokens-with")
SIGNING_KEYS = SecretStr("k1:what-all-functions-of-a-sandbox-sign-their-messages-with")


@dataclass(frozen=True)
class Sandbox:
    """``access_key`` names a database of DynamoDB Local; queues are shared by all that use the same ElasticMQ.

    Functions have keys where it is ``signed``. Where it is ``lean``, DynamoDB and SQS are called by the lean client.
    """

    dynamodb_url: str
    sqs_url: str
    access_key: str = field(default_factory=lambda: uuid.uuid4().hex[:20])
    signed: bool = False
    lean: bool = False

    @cached_property
    def clients(self) -> Clients:
        urls = {"dynamodb": self.dynamodb_url, "sqs": self.sqs_url}
        if self.lean:
            return LeanClients(Credentials(self.access_key, "local"), "us-east-1", urls)
        return Clients(self.session(), urls)

    def session(self) -> boto3.session.Session:
        core = botocore.session.Session()
        core.register_component("data_loader", _loader)
        return boto3.session.Session(
            botocore_session=core,
            aws_access_key_id=self.access_key,
            aws_secret_access_key="local",
            region_name="us-east-1",
        )

    def services(self, observer: Observer = log) -> Services:
        settings = Settings(token_keys=TOKEN_KEYS, signing_keys=SIGNING_KEYS if self.signed else None)
        return aws_services(settings, self.clients, observer=observer)

    @cached_property
    def client(self) -> FlowClient:
        return FlowClient(self.services().sender)

    def store(self) -> DynamoDBStore:
        return aws_store(Settings(), self.clients)

    # -- tables

    def create_tables(self, *names: str) -> None:
        """The table of the run items, and the users' own, whose key is ``id``."""
        self._create_table("flowguard", "pk", "sk")
        for name in names:
            self._create_table(name, "id")

    def _create_table(self, name: str, *keys: str) -> None:
        kinds: Any = ("HASH", "RANGE")
        self.clients.dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, kinds, strict=False)],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        )

    def scan(self, table: str) -> Iterator[Item]:
        """Every item of a table, as DynamoDB's low-level API writes it."""
        for page in self.clients.dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
            yield from page["Items"]

    def rows(self, table: str) -> dict[str, dict[str, Any]]:
        """The rows of a users' table by their ``id``."""
        return {row["id"]: row for row in map(from_item, self.scan(table))}

    # -- queues

    def create_queue(
        self, name: str, *, visibility: int = 5, dead_letters_to: str | None = None, max_receives: int = 5
    ) -> str:
        """An empty queue; a new one, where there was one of that name. Answers its URL."""
        sqs = self.clients.sqs
        attributes: Any = {"VisibilityTimeout": str(visibility)}
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        if dead_letters_to is not None:
            target = {"deadLetterTargetArn": self.arn(dead_letters_to), "maxReceiveCount": str(max_receives)}
            attributes["RedrivePolicy"] = json.dumps(target)
        if any(url.endswith(f"/{name}") for url in sqs.list_queues(QueueNamePrefix=name).get("QueueUrls", [])):
            sqs.delete_queue(QueueUrl=self.url(name))
        return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    def url(self, queue: str) -> str:
        return self.clients.sqs.get_queue_url(QueueName=queue)["QueueUrl"]

    def arn(self, queue: str) -> str:
        return f"arn:aws:sqs:us-east-1:123456789012:{queue}"

    def waiting(self, queue: str) -> int:
        """How many messages a queue holds: visible, in flight and delayed."""
        return sum(self.counts(queue).values())

    def counts(self, queue: str) -> dict[str, int]:
        """How many messages of a queue are visible, in flight (``NotVisible``) and delayed, in the words of SQS."""
        attributes = self.clients.sqs.get_queue_attributes(QueueUrl=self.url(queue), AttributeNames=["All"])
        numbers = {name: int(n) for name, n in attributes["Attributes"].items() if name.startswith(_COUNT)}
        return {name.removeprefix(_COUNT): n for name, n in numbers.items()}

    def take(self, queue: str) -> list[Any]:
        """All visible messages of a queue, in boto3's words, taken out of it."""
        sqs, url = self.clients.sqs, self.url(queue)
        found: list[Any] = []
        while more := sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
        ).get("Messages"):
            found += more
            entries: Any = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(more)]
            sqs.delete_message_batch(QueueUrl=url, Entries=entries)
        return found


def id_of(message: Any) -> str:
    """The ``uniquerequestid`` of a message as boto3 shows it."""
    return str(message["MessageAttributes"]["uniquerequestid"]["StringValue"])

"""The store on each engine: one contract, judged by moto, by the AWS in memory and by AWS's own implementation."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import boto3

from flowguard.aws.clients import Clients
from flowguard.local.embedded import EmbeddedAWS
from flowguard.local.keyed import create_run_table, create_table
from flowguard.local.memory.aws import MemoryAWS

ENGINES = ("moto", "memory", "dynamodb-local")


@contextmanager
def on_moto() -> Iterator[Clients]:
    """Clients of an empty embedded AWS with the table ``flowguard`` and the users' table ``carts`` (key ``id``)."""
    with EmbeddedAWS() as aws:
        yield _set_up(aws)


@contextmanager
def on_memory() -> Iterator[Clients]:
    """The same on the AWS in memory."""
    with MemoryAWS() as aws:
        yield _set_up(aws)


def _set_up(aws: EmbeddedAWS) -> Clients:
    clients = Clients()
    aws.create_table("flowguard")
    create_table(clients.dynamodb, "carts", "id")
    aws.client("s3").create_bucket(Bucket="long-texts")
    return clients


def on_dynamodb_local(url: str) -> Clients:
    """The same on DynamoDB Local, under an access key of its own: a database of its own."""
    session = boto3.session.Session(
        aws_access_key_id=uuid.uuid4().hex[:20], aws_secret_access_key="local", region_name="us-east-1"
    )
    clients = Clients(session, {"dynamodb": url})
    create_run_table(clients.dynamodb, "flowguard")
    create_table(clients.dynamodb, "carts", "id")
    return clients

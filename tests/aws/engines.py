"""The store on each engine: one contract, judged by moto, by the AWS in memory and by AWS's own implementation."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.transport.credentials import Credentials
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.reused_clients import SameClients
from flowguard.sim.table_keys import create_run_table, create_table
from tests.aws.transport.clients import LeanClients, session

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MOTO: Final = pytest.param("moto", marks=pytest.mark.long("once more on moto, which is slow"))
IN_PROCESS = (MOTO, "memory")
LEAN: Final = "dynamodb-local, lean"
"""The real engine, asked by flowguard's own client instead of botocore's."""

ENGINES = (*IN_PROCESS, "dynamodb-local")
ENGINES_AND_CLIENTS: Final = (*ENGINES, pytest.param(LEAN, marks=pytest.mark.proof("once more by the lean client")))
EVERY_STATE: Final = (
    "memory",
    pytest.param("dynamodb-local", marks=pytest.mark.long("every small state, on a real engine")),
    pytest.param("moto", marks=pytest.mark.long("every small state, on moto")),
)
"""The same engines, for tables of every small state."""


def on_moto() -> AbstractContextManager[Clients]:
    """Clients of an empty embedded AWS with the table ``flowguard`` and the users' table ``carts`` (key ``id``)."""
    return in_process("moto")


def on_memory() -> AbstractContextManager[Clients]:
    """The same on the AWS in memory."""
    return in_process("memory")


@contextmanager
def in_process(engine: str) -> Iterator[Clients]:
    with empty(engine):
        yield _set_up(same_clients())


@contextmanager
def empty(engine: str) -> Iterator[AWSInProcess]:
    """An AWS of the process with nothing in it."""
    with EmbeddedAWS() if engine == "moto" else MemoryAWS() as aws, kept():
        yield aws


kept: Final = SameClients().kept
"""Reuses clients from block to block: to make one takes longer than a test, and they keep nothing from call to call."""


@functools.cache
def same_clients() -> Clients:
    """Those of flowguard, for the same reason; to be used within a block of an AWS of the process."""
    return Clients()


def _set_up(clients: Clients) -> Clients:
    create_run_table(clients.dynamodb, "flowguard")
    create_table(clients.dynamodb, "carts", "id")
    clients.s3.create_bucket(Bucket="long-texts")
    return clients


def on_dynamodb_local(url: str, *, lean: bool = False) -> Clients:
    """The same on DynamoDB Local, in the one database of this process, whose two tables are emptied."""
    clients = _lean_clients(url) if lean else _local_clients(url)
    there = clients.dynamodb.list_tables()["TableNames"]
    for table in there:
        _clear(clients.dynamodb, table)
    if "flowguard" not in there:
        create_run_table(clients.dynamodb, "flowguard")
    if "carts" not in there:
        create_table(clients.dynamodb, "carts", "id")
    return clients


def _clear(dynamodb: DynamoDBClient, table: str) -> None:
    """Remove the items of one of the two tables, which takes a fraction of making it anew; or another table."""
    names = {"flowguard": ("pk", "sk"), "carts": ("id",)}.get(table)
    if names is None:
        dynamodb.delete_table(TableName=table)
        return
    for page in dynamodb.get_paginator("scan").paginate(TableName=table):
        for item in page["Items"]:
            dynamodb.delete_item(TableName=table, Key={name: item[name] for name in names})


@functools.cache
def _local_keys() -> Credentials:
    """An access key of this process, and so a database: each costs threads until the engine ends."""
    return Credentials(uuid.uuid4().hex[:20], "local")


@functools.cache
def _local_clients(url: str) -> Clients:
    return Clients(session(_local_keys(), "us-east-1"), {"dynamodb": url})


@functools.cache
def _lean_clients(url: str) -> Clients:
    return LeanClients(_local_keys(), "us-east-1", {"dynamodb": url})

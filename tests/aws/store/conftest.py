"""The store on each engine in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.settings import Settings
from tests.aws.engines import on_memory


@pytest.fixture
def store(clients: Clients) -> DynamoDBStore:
    return aws_store(Settings(), clients)


@pytest.fixture
def memory() -> Iterator[DynamoDBStore]:
    """The store in memory alone: for what is refused before any engine is asked."""
    with on_memory() as clients:
        yield aws_store(Settings(), clients)

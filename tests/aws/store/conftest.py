"""The store on each engine in turn."""

from __future__ import annotations

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.settings import Settings


@pytest.fixture
def store(clients: Clients) -> DynamoDBStore:
    return aws_store(Settings(), clients)

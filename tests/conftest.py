"""What tests of several modules share: the engines, and botocore's tables."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager

import botocore.session
import pytest

from flowguard.sim.moto import EmbeddedAWS
from tests.engines.dynamodb_local import dynamodb_local
from tests.engines.elasticmq import elasticmq
from tests.engines.ministack import ministack
from tests.engines.process import EngineMissing


@pytest.fixture(scope="session", autouse=True)
def service_models() -> Iterator[None]:
    """Share what botocore reads of a service among all sessions: to parse it is most of what a new client costs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", functools.cache(botocore.session.create_loader))
        yield


@pytest.fixture
def embedded() -> Iterator[EmbeddedAWS]:
    """An empty AWS of this test's own, in the process."""
    with EmbeddedAWS() as aws:
        yield aws


@pytest.fixture(scope="session")
def dynamodb_local_url() -> Iterator[str]:
    """One DynamoDB Local for the whole session; use an access key or a table of your own."""
    yield from _or_skip(dynamodb_local())


@pytest.fixture(scope="session")
def elasticmq_url() -> Iterator[str]:
    """One ElasticMQ for the whole session; use queues of your own."""
    yield from _or_skip(elasticmq())


@pytest.fixture(scope="session")
def ministack_url() -> Iterator[str]:
    """One MiniStack for the whole session; use queues of your own."""
    yield from _or_skip(ministack())


def _or_skip(engine: AbstractContextManager[str]) -> Iterator[str]:
    """Where it has not been fetched, the test is skipped; in CI, which must not pass by skipping, it fails."""
    try:
        with engine as endpoint_url:
            yield endpoint_url
    except EngineMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))

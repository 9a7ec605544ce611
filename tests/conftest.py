"""What tests of several modules share: the engines."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from flowguard.local.embedded import EmbeddedAWS
from tests.engines.dynamodb_local import dynamodb_local
from tests.engines.process import EngineMissing


@pytest.fixture
def embedded() -> Iterator[EmbeddedAWS]:
    """An empty AWS of this test's own, in the process."""
    with EmbeddedAWS() as aws:
        yield aws


@pytest.fixture(scope="session")
def dynamodb_local_url() -> Iterator[str]:
    """One DynamoDB Local for the whole session; use an access key or a table of your own.

    Where it has not been fetched, the test is skipped; in CI, which must not pass by skipping, it fails.
    """
    try:
        with dynamodb_local() as endpoint_url:
            yield endpoint_url
    except EngineMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowguard.aws.clients import Clients
from tests.aws.engines import ENGINES, on_dynamodb_local, on_memory, on_moto


@pytest.fixture(params=ENGINES)
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """boto3 clients of each engine in turn, with an empty table."""
    if request.param == "moto":
        with on_moto() as found:
            yield found
    elif request.param == "memory":
        with on_memory() as found:
            yield found
    else:
        yield on_dynamodb_local(request.getfixturevalue("dynamodb_local_url"))

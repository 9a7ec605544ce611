from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from flowguard.aws.clients import Clients
from flowguard.sim.in_process import AWSInProcess
from tests.aws.engines import ENGINES_AND_CLIENTS, IN_PROCESS, LEAN, empty, in_process, on_dynamodb_local


@pytest.fixture(params=ENGINES_AND_CLIENTS)
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """Clients of each engine in turn, with an empty table."""
    if request.param in ("dynamodb-local", LEAN):
        yield on_dynamodb_local(request.getfixturevalue("dynamodb_local_url"), lean=request.param == LEAN)
    else:
        with in_process(request.param) as found:
            yield found


@pytest.fixture(params=IN_PROCESS)
def aws(request: pytest.FixtureRequest) -> Iterator[AWSInProcess]:
    """Each AWS of the process in turn, with nothing in it."""
    with empty(request.param) as found:
        yield found


@pytest.fixture(params=IN_PROCESS)
def with_s3(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """The same of the engines that have S3 too, with an empty bucket ``long-texts``."""
    with in_process(request.param) as found:
        yield found


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """What flowguard's logger is told to warn of."""
    said: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    kept, logger = Kept(logging.WARNING), logging.getLogger("flowguard")
    logger.addHandler(kept)
    yield said
    logger.removeHandler(kept)

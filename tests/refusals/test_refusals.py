"""Each engine refuses what AWS refuses, with its code and its HTTP status, and takes what is just within the limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.refusals import items, others, queues
from tests.refusals.case import Case, Places
from tests.refusals.engines import IN_PROCESS, REAL, in_process, real
from tests.refusals.outcome import outcome

CASES = (*items.cases(), *queues.cases(), *others.cases())


def rows() -> Iterator[Any]:
    """Engine by engine, so that each is opened once."""
    for engine in (*IN_PROCESS, *REAL.values()):
        for case in CASES:
            if engine in (*IN_PROCESS, REAL.get(case.service)):
                yield pytest.param(
                    engine,
                    case,
                    id=f"{engine}-{case.service}: {case.name}".encode("ascii", "replace").decode(),
                    marks=pytest.mark.proof("starts ElasticMQ") if engine == "elasticmq" else (),
                )


@pytest.fixture(scope="module")
def places(request: pytest.FixtureRequest) -> Iterator[Places]:
    """One engine for all its rows: they do not meet, and most leave nothing behind."""
    if request.param in IN_PROCESS:
        with in_process(request.param) as found:
            yield found
    else:
        yield real(request.param, request.getfixturevalue(f"{request.param.replace('-', '_')}_url"))


@pytest.mark.parametrize(("places", "case"), [*rows()], indirect=["places"], scope="module")
def test_what_aws_refuses_is_refused(places: Places, case: Case) -> None:
    client = places.client(case.service)
    assert outcome(lambda: case.call(client, places)) == case.expected(places.engine)

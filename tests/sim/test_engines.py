"""The engines are siblings: each answers what it is asked, and neither knows the other."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flowguard.sim
from flowguard.clock import Clock, ManualClock
from flowguard.sim.calls import intercept
from flowguard.sim.engine import Engine, Snapshots
from flowguard.sim.engines import in_memory, on_moto
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.provision import AutoProvisioner
from tests.refusals.engines import IN_PROCESS
from tests.refusals.outcome import Refused, Simply, outcome
from tests.trees import nodes, parsed

KNOW_THE_ENGINES = {"engines.py", "memory_and_moto.py", "moto.py", "aws.py", "world.py"}


@pytest.fixture(params=IN_PROCESS)
def aws(request: pytest.FixtureRequest) -> Iterator[AWSInProcess]:
    with IN_PROCESS[request.param]() as found:
        yield found


def invoke(aws: Engine, kind: str, payload: bytes = b"{}") -> Any:
    return aws.client("lambda").invoke(FunctionName="price", InvocationType=kind, Payload=payload)


@pytest.mark.parametrize("make", [in_memory, on_moto])
def test_each_is_an_engine_and_none_is_the_other(make: Callable[[Clock], Engine]) -> None:
    engine = make(ManualClock())
    assert isinstance(engine, Engine)
    assert isinstance(engine, Snapshots) is (make is in_memory)
    assert not issubclass(MemoryAWS, EmbeddedAWS)
    assert not issubclass(EmbeddedAWS, MemoryAWS)


def test_nothing_but_who_makes_one_names_an_engine() -> None:
    """What works on an engine works on any: there is no cast to one, and no question which it is."""
    for path in Path(flowguard.sim.__path__[0]).rglob("*.py"):
        names = {one.id for one in nodes(parsed(path.read_text(encoding="utf-8"))) if isinstance(one, ast.Name)}
        assert not names & {"EmbeddedAWS", "MemoryAWS"} or path.name in KNOW_THE_ENGINES, path


@pytest.mark.parametrize(("kind", "status", "body"), [("Event", 202, b""), ("RequestResponse", 200, b"null")])
def test_a_function_accepts_and_is_not_run(aws: AWSInProcess, kind: str, status: int, body: bytes) -> None:
    aws.create_function("price")
    answer = invoke(aws, kind)
    assert (answer["StatusCode"], answer["Payload"].read()) == (status, body)


def test_a_payload_that_lambda_refuses_is_refused_by_a_function_that_a_world_supplies(aws: AWSInProcess) -> None:
    with intercept(AutoProvisioner(aws, {}, "flowguard")):
        assert outcome(lambda: invoke(aws, "Event")) is Simply.TAKEN
        assert outcome(lambda: invoke(aws, "Event", b"{")) == Refused("InvalidRequestContentException")


def test_a_function_with_a_callback_answers_in_a_world_too() -> None:
    with MemoryAWS() as aws, intercept(AutoProvisioner(aws, {}, "flowguard")):
        aws.on_invoke("price", lambda event: event["amount"] * 2)
        assert json.loads(invoke(aws, "RequestResponse", b'{"amount": 3}')["Payload"].read()) == 6

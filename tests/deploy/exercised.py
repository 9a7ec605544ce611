"""The samples of the shipped flows, run: which function made which call on which resource."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.sender import AWSSender
from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.deploy.derive import needs_of
from flowguard.deploy.found import FunctionKind, find_functions
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.names.ids import SeededIds
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.functions import Functions, ServedFunction
from flowguard.sim.limits.queues import queue_name
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.recording import RecordedRecord, plan, read_recording
from flowguard.sim.stored_keys import Believing
from flowguard.sim.world import START, World
from tests.deploy.mishaps import Mishap
from tests.flows.samples import SAMPLES, sample

Made = tuple[str, str, str]
"""A function, an action and a resource."""

QUIET: Final = Mishap("nothing")


def needs(*modules: str, options: DeployOptions | None = None) -> Deployment:
    return needs_of(find_functions(modules), options if options is not None else DeployOptions())


def granted(needed: Deployment) -> set[Made]:
    """All that the functions may do."""
    return {
        (function.name, action, one.name)
        for function in needed.functions
        for one in function.permissions
        for action in one.actions
    }


@dataclass
class Noting:
    """An interceptor that notes the calls of the function that runs."""

    running: list[str | None] = field(default_factory=list)
    made: set[Made] = field(default_factory=set)

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if self.running and (function := self.running[-1]) is not None:
            self.made |= {(function, action, name) for action, name in actions_of(call)}
        return proceed()

    @contextmanager
    def by(self, function: str | None) -> Iterator[None]:
        """Take what is called for the function's. None is the world itself."""
        self.running.append(function)
        try:
            yield
        finally:
            self.running.pop()

    def noting(self, function: ServedFunction, name: str) -> ServedFunction:
        def handler(event: Any) -> Any:
            with self.by(name):
                return function.handler(event)

        return replace(function, handler=handler)

    def fetching(self, arrive: Callable[[int], None]) -> Callable[[int], None]:
        def fetch(now: int) -> None:
            with self.by(None):
                arrive(now)

        return fetch


def actions_of(call: ApiCall) -> Iterator[tuple[str, str]]:
    """The IAM actions that AWS checks for a call, each with its resource."""
    params: Mapping[str, Any] = call.params
    if call.operation in ("CreateQueue", "CreateTable"):
        return  # the simulator's own
    if call.service == "dynamodb":
        yield from _of_dynamodb(call.operation, params)
    elif call.service == "sqs":
        action = call.operation.removesuffix("Batch")
        yield f"sqs:{action}", params["QueueName"] if action == "GetQueueUrl" else queue_name(params)
    elif call.operation == "CreateSchedule":
        yield "scheduler:CreateSchedule", params["GroupName"]
        yield "iam:PassRole", params["Target"]["RoleArn"]
    else:
        raise AssertionError(f"{call.service} {call.operation} is not known here")


def _of_dynamodb(operation: str, params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    match operation:
        case "TransactWriteItems":
            for entry in params["TransactItems"]:
                for kind, action in entry.items():
                    yield f"dynamodb:{kind}Item", action["TableName"]
        case "BatchWriteItem" | "BatchGetItem":
            for table in params["RequestItems"]:
                yield f"dynamodb:{operation}", table
        case "BatchExecuteStatement":
            for one in params["Statements"]:
                yield _of_statement(one["Statement"])
        case _:
            yield f"dynamodb:{operation}", params["TableName"]


def _of_statement(text: str) -> tuple[str, str]:
    """The action that AWS checks for a statement of PartiQL, and its table."""
    found = re.match(r'(INSERT INTO|UPDATE) "([^"]+)"', text)
    assert found is not None, text
    return f"dynamodb:PartiQL{found[1].split()[0].capitalize()}", found[2]


def nobody(client: FlowClient) -> None:
    """Ask for nothing."""


def exercised(
    needed: Deployment, folder: str | None, mishap: Mishap = QUIET, asks: Callable[[FlowClient], object] = nobody
) -> set[Made]:
    """What the functions do with every sample of a folder, each delivered twice, and with what is asked beside it."""
    planned = plan([one for record in _records(folder) for one in mishap.of(record)], repeat=2)
    noting = Noting()
    with (
        MemoryAWS() as aws,
        intercept(noting),  # before the world, whose interceptors answer some calls themselves
        mishap.broken(),  # as well
        World(needed.flows, aws=aws, start=planned[0].at if planned else START, passed=mishap) as world,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(AWSSender, "queue_url", _looked_up)
        patch.setattr(world, "arrive", noting.fetching(world.arrive))
        _note_functions(world.source.functions, needed, noting)
        mishap.world = world
        asks(_client(world))
        for one in planned:
            world.put(one.recorded.envelope, one.recorded.raw, at=one.at)
        for _ in world.run():
            pass
    return noting.made


def _records(folder: str | None) -> Iterator[RecordedRecord]:
    for file in sorted((SAMPLES / folder).glob("*.json")) if folder is not None else ():
        for record in read_recording(sample(f"{folder}/{file.name}")):
            if isinstance(record, RecordedRecord):
                yield record


def _client(world: World) -> FlowClient:
    """A client beside the functions."""
    services = aws_services(world.settings, Clients(), clock=world.clock, ids=SeededIds(7))
    return FlowClient.of(services._replace(signer=Believing()))


_QUEUE_URL = AWSSender.queue_url


def _looked_up(sender: AWSSender, name: str) -> str:
    """Look the URL up each time: functions are processes of their own, and here they share one sender."""
    sender._urls.pop(name, None)
    return _QUEUE_URL(sender, name)


def _note_functions(functions: Functions, needed: Deployment, noting: Noting) -> None:
    reader = {queue.name: queue.reader for queue in needed.queues}
    of_kind = {one.definition.kind: one.name for one in needed.functions}
    for queue, function in functions.by_queue.items():
        functions.by_queue[queue] = noting.noting(function, reader.get(queue) or "nobody")
    if FunctionKind.ANSWERS in of_kind:
        functions.answers = noting.noting(functions.answers, of_kind[FunctionKind.ANSWERS])
    killed = {one.name for one in needed.functions if one.definition.kind is FunctionKind.KILLED}
    given_up_to = {queue.name: queue.give_up_to or "" for queue in needed.queues}
    of_killed = {
        queue: noting.noting(replace(one, handler=_through(given_up_to[queue], one.handler)), name)
        for queue, one in functions._dead_of.items()
        if (name := reader.get(given_up_to[queue])) in killed and name is not None
    }
    functions._dead_of = {**functions._dead_of, **of_killed}


def _through(queue: str, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Hand the records over as SQS does that has moved them to this queue."""

    def moved(event: Any) -> Any:
        arns = [record["eventSourceARN"] for record in event["Records"]]
        return handler(
            {
                "Records": [
                    {**record, "eventSourceARN": f"{arn.rpartition(':')[0]}:{queue}"}
                    for record, arn in zip(event["Records"], arns, strict=True)
                ]
            }
        )

    return moved

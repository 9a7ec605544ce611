"""Whoever dies at whatever call of a batch that shares its calls: all its records end as if nobody had died."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.scene import Scene, record, scene
from tests.scene import orders as writing
from tests.worker.runtime.mishaps import Died
from tests.worker.test_together import BATCH, attaching, ignoring, items, next_hops, orders, plain, together
from tests.worker.test_together_unleased import unleased

COUNT = 3
FLOWS = {"supersede": plain, "ignore": ignoring, "attach": attaching, "unleased": unleased, "writes": writing}


class End(NamedTuple):
    """What is there at last: the statuses, what was sent to each queue and written, and how often handlers ran."""

    statuses: list[Status]
    sent: dict[str, list[str]]
    written: list[str]
    handled: int


def strike(at: int, how: str, made: list[str]) -> Callable[[ApiCall, Proceed], Response]:
    """Something happens to the call of this number: before it, after it, or in the middle of a batch."""

    def struck(call: ApiCall, proceed: Proceed) -> Response:
        made.append(call.operation)
        if len(made) != at:
            return proceed()
        if how == "in the middle of" and "Statements" in call.params:
            some = list(call.params["Statements"])[: COUNT // 2 + 1]
            call.client.batch_execute_statement(Statements=some)  # type: ignore[attr-defined]  # of a client of DynamoDB
        if how == "after":
            proceed()
        raise Died

    return struck


def lost(at: int, how: str, made: list[str]) -> Callable[[ApiCall, Proceed], Response]:
    """The call fails, or its answer is lost. The worker lives on."""

    def struck(call: ApiCall, proceed: Proceed) -> Response:
        made.append(call.operation)
        if len(made) != at:
            return proceed()
        if how == "after":
            proceed()
            raise ReadTimeoutError(endpoint_url="https://dynamodb")
        response: Any = {
            "Error": {"Code": "ThrottlingException", "Message": "slow"},
            "ResponseMetadata": {"HTTPStatusCode": 400},
        }
        raise ClientError(response, call.operation)

    return struck


def deliver(at: Scene, messages: list[Any], receives: int) -> list[Any]:
    """Those that come again."""
    records = [record(message, place) for place, message in enumerate(messages)]
    for one in records:
        one["attributes"]["ApproximateReceiveCount"] = str(receives)
    left = {one["itemIdentifier"] for one in at.handler({"Records": records})["batchItemFailures"]}
    return [message for message, one in zip(messages, records, strict=True) if one["messageId"] in left]


def until_acked(at: Scene, messages: list[Any], receives: int = 1) -> None:
    for receive in range(receives, receives + 4):
        if not (messages := deliver(at, messages, receive)):
            return
        at.clock.advance(seconds=61)
    raise AssertionError(f"{len(messages)} messages were not done with")


def end_of(at: Scene) -> End:
    sent: dict[str, list[str]] = {}
    for queue in ("emails", "close-order", "completed", "dead"):
        sent[queue] = sorted({f"{one['Body']} {told(one)}" for one in at.sent(queue)})
    written = sorted(map(str, at.aws.client("dynamodb").scan(TableName="orders")["Items"]))
    return End([item.status for item in items(at, COUNT) if item is not None], sent, written, len(at.script.handled))


def told(message: Any) -> str:
    """What the attributes of a message say but its time: its id, its place in its run."""
    said = sorted(message["MessageAttributes"].items())
    return ", ".join(f"{name} {one['StringValue']}" for name, one in said if name != "requestedat")


def hops(at: Scene) -> Iterator[list[Any]]:
    yield orders(at, COUNT)
    yield next_hops(at, COUNT)


@cache
def undisturbed(flow: str) -> tuple[End, tuple[int, ...]]:
    """How it ends where nothing goes wrong, and how many calls each of the two invocations makes."""
    with scene(FLOWS[flow]) as at:
        together(at)
        calls = []
        for messages in hops(at):
            made: list[str] = []
            with intercept(strike(-1, "", made)):
                assert deliver(at, messages, 1) == []
            calls.append(len(made))
        return end_of(at), tuple(calls)


@pytest.mark.slow("strikes at each call of a run")
@pytest.mark.parametrize("hop", [0, 1])
@pytest.mark.parametrize("how", ["before", "in the middle of", "after"])
@pytest.mark.parametrize("flow", FLOWS)
def test_whoever_dies_at_whatever_call_all_records_end_as_if_nobody_had(flow: str, how: str, hop: int) -> None:
    wanted, calls = undisturbed(flow)
    for number in range(1, calls[hop] + 1):
        with scene(FLOWS[flow]) as at:
            together(at)
            for place, messages in enumerate(hops(at)):
                if place == hop:
                    with pytest.raises(Died), intercept(strike(number, how, [])):
                        deliver(at, messages, 1)
                    at.clock.advance(seconds=61)
                until_acked(at, messages, 2 if place == hop else 1)
            found = end_of(at)
            assert found.statuses == wanted.statuses, (number, how)
            assert (found.sent, found.written) == (wanted.sent, wanted.written), (number, how)
            assert wanted.handled <= found.handled <= wanted.handled + COUNT, (number, how)


@pytest.mark.slow("strikes at each call of a run")
@pytest.mark.parametrize("hop", [0, 1])
@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("flow", FLOWS)
def test_whatever_call_fails_or_is_not_answered_all_records_end_as_if_it_had_been(
    flow: str, how: str, hop: int
) -> None:
    wanted, calls = undisturbed(flow)
    for number in range(1, calls[hop] + 1):
        with scene(FLOWS[flow]) as at:
            together(at)
            for place, messages in enumerate(hops(at)):
                if place == hop:
                    with intercept(lost(number, how, [])):
                        left = deliver(at, messages, 1)
                    at.clock.advance(seconds=61)
                    until_acked(at, left, 2)
                else:
                    until_acked(at, messages)
            found = end_of(at)
            assert found[:2] == wanted[:2], (number, how)
            assert found.handled <= wanted.handled + (1 if flow == "attach" else 0), (number, how)


def test_each_of_these_invocations_shares_its_calls() -> None:
    for flow in FLOWS.values():
        with scene(flow) as at:
            together(at)
            at.deliver(*orders(at, COUNT))
            assert at.calls.count(BATCH) > 0

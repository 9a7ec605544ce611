"""Whatever a handler raises, returns, records or sends, and whatever a message says: its run ends, or it is named.

Each case is a run of its own: COMPLETED, or FAILED with a dead letter that can be read, within the attempts of its
policy; and a newer request for the same object goes through afterwards.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.destinations import Bus, Function, Topic
from flowguard.errors import NotProcessed, Reject
from flowguard.events import EventType
from flowguard.flow import Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Next, Outcome
from flowguard.protocol.run import Status
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.reused_clients import SameClients
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import hostile
from flowguard.worker.dead_letters import Letter
from tests.scene import START, Scene, scene


class Asked(BaseModel):
    """``harmless`` requests end well whatever the case of the moment is."""

    order_id: str
    harmless: bool = False


class Kept(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    value: Any = None


INBOX = "arn:aws:sqs:us-east-1:123456789012:price-order"

Case = Callable[[Step[Kept]], Any]


class Now:
    """The case that the handler carries out."""

    case: Case = staticmethod(lambda step: Done())


class Try(Stage[Asked, Kept], name="price-order", retry=RetryPolicy(attempts=2, backoff=Fixed(1), jitter=0), then="on"):
    def handle(self, asked: Asked, step: Step[Kept]) -> Outcome:
        outcome: Outcome = Done() if asked.harmless else Now.case(step)
        return outcome


class On(Stage[Asked, Kept], name="on"):
    def handle(self, asked: Asked, step: Step[Kept]) -> Outcome:
        return Done()


class Hostile(
    Flow, name="orders", object_id="order_id", inbox="price-order", dead_letters="dead", complete_to="completed"
):
    stages = (Try, On)


@pytest.fixture(scope="module")
def place() -> Iterator[Scene]:
    """One scene for all cases, with one client for each service: each case is about an object of its own."""
    with scene(lambda script: Hostile, engine=MemoryAWS) as found, SameClients().kept():
        store = aws_store(Settings(), Clients())
        found.item = lambda object_id="o1": store.read("orders", object_id)  # type: ignore[method-assign]  # see above
        yield found


def raised(error: BaseException) -> Case:
    def case(step: Step[Kept]) -> Any:
        raise error

    return case


def also(do: Callable[[Step[Kept]], Any]) -> Case:
    """Record something, then go on as if nothing were the matter."""

    def case(step: Step[Kept]) -> Any:
        do(step)
        return Done()

    return case


def state(value: Any) -> Case:
    def case(step: Step[Kept]) -> Any:
        step.state.value = value
        return Next("on", Asked(order_id="o"))

    return case


def sampled(group: hostile.Values[Any], place: int) -> list[tuple[str, Any]]:
    """A third of the texts, another third for each way of using them."""
    return [(name, group[name]) for name in list(group)[place % 3 :: 3]]


TEXT_WAYS: dict[str, Callable[[str], Case]] = {
    "raise": lambda text: raised(ValueError(text)),
    "reject": lambda text: raised(Reject(text)),
    "tell": lambda text: lambda step: Done({"text": text, text: 1}),
    "keep": lambda text: state({text: text}),
    "write": lambda text: also(lambda step: step.put("orders", {"id": "w", "text": text, text: 1})),
    "send": lambda text: also(lambda step: step.send("emails", text)),
    "send to a bus": lambda text: also(lambda step: step.send(Bus("default", "s", "d"), text)),
    "send JSON": lambda text: also(lambda step: step.send("emails", {"text": text})),
    "send in a group": lambda text: also(lambda step: step.send("emails", "{}", group=text)),
    "send to": lambda text: also(lambda step: step.send(text, "{}")),
    "send to a topic": lambda text: also(lambda step: step.send(Topic(text), "{}")),
    "send to a function": lambda text: also(lambda step: step.send(Function(text), text)),
}

VALUE_WAYS: dict[str, Callable[[Any], Case]] = {
    "return": lambda value: lambda step: value,
    "tell": lambda value: lambda step: Done(value),
    "go on with": lambda value: lambda step: Next("on", value),
    "go on to": lambda value: lambda step: Next(value, Asked(order_id="o")),
    "keep": state,
    "send": lambda value: also(lambda step: step.send("emails", value)),
    "write": lambda value: also(lambda step: step.put("orders", {"id": "w", "value": value})),
    "write under": lambda value: also(lambda step: step.update("orders", {"id": value}, "ADD n :n", values={":n": 1})),
    "add": lambda value: also(lambda step: step.update("orders", {"id": "w"}, "ADD n :n", values={":n": value})),
    "send late": lambda value: also(lambda step: step.send("emails", "{}", delay=value)),
}


def each_case() -> Iterator[tuple[str, Case]]:
    for place, (way, case_of) in enumerate(TEXT_WAYS.items()):
        for name, text in sampled(hostile.TEXTS, place):
            yield f"{way}, {name}", case_of(text)
    for place, (way, case_of) in enumerate(VALUE_WAYS.items()):
        for name, value in [*sampled(hostile.STRUCTURES, place), *sampled(hostile.NUMBERS, place)]:
            yield f"{way}, {name}", case_of(value)
    for name in hostile.ATTRIBUTES:
        yield f"attributes, {name}", _with_attributes(name)
    for place, name in enumerate(hostile.HUGE):
        way = list(TEXT_WAYS)[place % 6]
        yield f"{way}, {name}", _huge(way, name)


@functools.cache
def cases() -> Mapping[str, Case]:
    return dict(each_case())


def _with_attributes(name: str) -> Case:
    return also(lambda step: step.send("emails", "{}", attributes=hostile.ATTRIBUTES[name]))


def _huge(way: str, name: str) -> Case:
    def case(step: Step[Kept]) -> Any:
        return TEXT_WAYS[way](hostile.HUGE[name])(step)  # made only now

    return case


GROUPS = sorted({*TEXT_WAYS, *VALUE_WAYS, "attributes"})


@pytest.mark.slow("strikes at each call of a run")
@pytest.mark.parametrize("group", GROUPS)
def test_a_run_ends_whatever_its_handler_does(place: Scene, group: str) -> None:
    for number, (name, case) in enumerate(cases().items()):
        if name.partition(", ")[0] == group:
            Now.case = case
            object_id = f"{group}-{number}"
            place.tally.events.clear()
            _carried_out(place, object_id, name)
            _is_told_briefly(place, name)


def _carried_out(at: Scene, object_id: str, name: str) -> None:
    asked = at.message(
        object_id=ObjectId(object_id),
        request_id=RequestId(f"{object_id}-run"),
        body=json.dumps({"order_id": object_id}),
    )
    for retry in range(2):
        assert at.deliver(asked._replace(retry=retry)) == [True], name
        item = at.item(object_id)
        assert item is not None, name
        if item.done:
            break
    for onward in at.sent("price-order"):
        if _stage(onward) == "orders/on":
            at.handler({"Messages": [{**onward, "eventSourceARN": INBOX}]})
    item = at.item(object_id)
    assert item is not None, name
    assert item.status in (Status.COMPLETED, Status.FAILED), name
    letters = [Letter.read(one, now=START) for one in at.sent("dead")]
    assert all(letter.problem is None for letter in letters), name
    if item.status is Status.FAILED:
        assert any(letter.is_parked and letter.error is not None for letter in letters), name
        assert len(item.error or "") < 1_500, name
    newer = asked._replace(request_id=RequestId(f"{object_id}-newer"), requested_at=START - 1)
    assert at.deliver(newer._replace(body=json.dumps({"order_id": object_id, "harmless": True}))) == [True], name
    after = at.item(object_id)
    assert after is not None
    assert (after.status, after.request_id) == (Status.COMPLETED, newer.request_id), name
    at.sent("emails"), at.sent("completed")


def _is_told_briefly(at: Scene, name: str) -> None:
    """No event is longer than a log line can bear, whatever it is about."""
    for event in at.tally.events:
        assert len(json.dumps(event.fields())) < 4_000, name


def _stage(message: Any) -> str:
    return str(message["MessageAttributes"].get("flowstage", {}).get("StringValue"))


# -- what a message says of itself -------------------------------------------------------------------------------------


def invoked(**fields: Any) -> dict[str, Any]:
    """A direct invocation with a notification of the caller's own: the way in for what no queue would take."""
    said = {"uniquerequestid": ("String", "run-1"), "requestedat": ("Number", str(START - 1_000))}
    said.update({"flowstage": ("String", "orders/price-order"), "flowguard": ("String", '{"version":1,"hop":1}')})
    said.update({name: (kind, value) for name, (kind, value) in fields.pop("attributes", {}).items()})
    return {
        "Type": "Notification",
        "MessageId": "m-1",
        "TopicArn": "arn:aws:lambda:us-east-1:123456789012:function:orders",
        "Message": '{"order_id":"o1","harmless":true}',
        "Timestamp": "2026-01-02T03:04:05.678Z",
        "MessageAttributes": {name: {"Type": kind, "Value": value} for name, (kind, value) in said.items()},
        **fields,
    }


def incoming() -> Iterator[tuple[str, Any]]:
    for name, text in sampled(hostile.IDS, 0):
        yield f"request id, {name}", invoked(attributes={"uniquerequestid": ("String", text)})
    for name, text in sampled(hostile.TEXTS, 1):
        yield f"stage, {name}", invoked(attributes={"flowstage": ("String", f"orders/{text}")})
        yield f"place, {name}", invoked(attributes={"flowguard": ("String", text)})
    for name, text in sampled(hostile.IDS, 2):
        yield f"object, {name}", invoked(attributes={"flowguard": ("String", json.dumps({"object": text}))})
        yield f"payload's object, {name}", {"order_id": text}
    for name, text in sampled(hostile.TEXTS, 0):
        yield f"message, {name}", invoked(Message=text)
        yield f"payload, {name}", text
        yield f"reply to a topic, {name}", replying_to(f"sns:{text}")
    for name, text in sampled(hostile.TEXTS, 1):
        yield f"reply to a queue, {name}", replying_to(f"sqs:{text}")
        yield f"other attribute, {name}", invoked(attributes={text: ("String", text)})
    for name in hostile.TIMES:
        yield f"time, {name}", invoked(attributes={"requestedat": ("Number", str(hostile.TIMES[name]))})
        for field in ("hop", "retry", "redrive", "version"):
            said = json.dumps({"object": "o1", field: hostile.TIMES[name]})
            yield f"{field}, {name}", invoked(attributes={"flowguard": ("String", said)})
    for name, value in sampled(hostile.STRUCTURES, 0):
        yield f"payload, {name}", value


def replying_to(destination: str) -> dict[str, Any]:
    said = json.dumps({"version": 1, "hop": 1, "object": "o1", "reply_to": destination})
    return invoked(attributes={"flowguard": ("String", said)}, Message='{"order_id":"o1"}')


INCOMING = dict(incoming())
BY_NAME = (EventType.UNREADABLE, EventType.UNROUTABLE, EventType.UNTRUSTED, EventType.EARLY)


@pytest.mark.parametrize("way", sorted({name.partition(", ")[0] for name in INCOMING}))
def test_an_invocation_that_says_anything_is_unreadable_by_name_or_its_run_ends(place: Scene, way: str) -> None:
    Now.case = raised(Reject("no"))
    for name, event in INCOMING.items():
        if name.partition(", ")[0] == way:
            place.tally.events.clear()
            try:
                place.handler(event)
            except NotProcessed:
                assert place.told(EventType.BROKEN) == 0, (name, place.tally.events[-1].facts)
                assert place.tally.count(*BY_NAME) == 1, name
            letters = [Letter.read(one, now=START) for one in place.sent("dead")]
            assert all(letter.problem is None for letter in letters), name
            assert len(letters) >= place.told(EventType.FAILED), name
    assert place.deliver(place.newer(body='{"order_id":"o1","harmless":true}')) == [True]
    item = place.item("o1")
    assert item is not None
    assert item.status in (Status.COMPLETED, Status.FAILED)

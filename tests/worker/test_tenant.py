"""All messages of a run have its tenant as their group on standard queues, whatever they are for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.client import FlowClient
from flowguard.destinations import Bus, Function, Queue, Topic
from flowguard.errors import DefinitionError
from flowguard.flow import PER_REQUEST, AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.callers import Caller
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import Cancellation, Status
from flowguard.protocol.waiting import Child, Wait, WaitPlan
from flowguard.recorded.side_messages import SideMessages
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.calls import ApiCall, Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.world import START, World
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.wire.attributes import Attribute
from flowguard.wire.bodies import bus_detail
from flowguard.wire.message import PLACE, ErrorNote, Message
from flowguard.wire.signing import UNSIGNED, statement
from flowguard.wire.tenant import tenant_for, tenant_in
from flowguard.worker.children import cancelled_requests
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redriven_messages import sent_back
from flowguard.worker.replies import answer_place
from flowguard.worker.restart import first_message_text, restart_of
from flowguard.worker.routing import Routes
from flowguard.worker.undeliverable import Undeliverable, park
from tests.aws.engines import kept
from tests.protocol.run_items import run_item
from tests.worker.test_depth import (
    ANY,
    Act,
    Circle,
    asks,
    asks_a_group,
    asks_a_group_outside,
    asks_a_queue,
    bus_event,
    envelope_of,
    rests,
    sends,
    starts,
    starts_and_hears,
)

HOUR = timedelta(hours=1)


def goes_on(step: Step[Any], circle: Circle, own: str) -> Outcome:
    return circle.after[own].message({})


def fails(step: Step[Any], circle: Circle, own: str) -> None:
    raise ValueError("on purpose")


def waits(step: Step[Any], circle: Circle, own: str) -> Outcome:
    return circle.after[own].when_all(within=timedelta(minutes=40), answer=step.event("never"))


def entries(calls: Recorder) -> list[Mapping[str, Any]]:
    """What was sent to queues and topics."""
    return [entry for call in calls.calls for entry in entries_of(call)]


def entries_of(call: ApiCall) -> list[Any]:
    return (
        [*call.params.get("PublishBatchRequestEntries", ()), *call.params.get("Entries", ())]
        if (call.operation in ("SendMessageBatch", "PublishBatch"))
        else []
    )


def played(circle: Circle, group: str | None = "acme", **attributes: str) -> list[str | None]:
    """Return the groups of all messages that one request to the flow ``a`` leads to."""
    event = sqs_event("a", {"id": "o1"}, message_id="m1", sent_at=START, attributes=attributes)
    if group is not None:
        event["Records"][0]["attributes"]["MessageGroupId"] = group
    with (
        VirtualTime(START) as clock,
        MemoryAWS(clock) as aws,
        kept(),
        World(list(circle.flows.values()), aws=aws, clock=clock) as world,
        intercept(Recorder()) as calls,
    ):
        for record in read_recording(event):
            assert isinstance(record, RecordedRecord)
            world.put(record.envelope, record.raw)
        assert sum(1 for _ in world.run()) < 80
        return [entry.get("MessageGroupId") for entry in entries(calls)]


WAYS: dict[str, tuple[Act, dict[str, Any]]] = {
    "a next hop": (goes_on, {}),
    "a message": (sends, {}),
    "a run that is started": (starts, {}),
    "a flow that is asked": (asks, {}),
    "a queue that is asked": (asks_a_queue, {}),
    "a group of a flow": (asks_a_group, {}),
    "a group outside": (asks_a_group_outside, {}),
    "the end, for who asked": (starts_and_hears, {}),
    "the end, for all": (rests, {"complete_to": "b"}),
    "a deadline": (waits, {}),
    "retries and a dead letter": (fails, {"dead_letters": "dead"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_message_of_a_run_has_its_tenant(way: str) -> None:
    act, options = WAYS[way]
    circle = Circle(a=(act, options), b=(rests, ANY))
    assert (groups := played(circle))
    assert set(groups) == {"acme"}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_without_a_tenant_has_no_group(way: str) -> None:
    act, options = WAYS[way]
    assert set(played(Circle(a=(act, options), b=(rests, ANY)), group=None)) == {None}


def test_a_flow_says_by_a_field_of_its_payload_whose_work_a_run_is() -> None:
    circle = Circle(a=(goes_on, {"tenant": "id"}))
    assert played(circle, group=None) == ["o1"]
    assert played(circle, group="acme") == ["acme"], "its sender has said so"
    assert played(circle, group="acme", **{PLACE: '{"tenant":"other"}'}) == ["other"]
    assert played(Circle(a=(goes_on, {"tenant": "nothing"})), group=None) == [None]


def test_what_a_run_asks_for_has_its_tenant_unless_the_flow_names_its_own() -> None:
    def starts_for(step: Step[Any], circle: Circle, own: str) -> None:
        step.start(circle.flows["b"], {"id": "o2"})

    def asks_for(step: Step[Any], circle: Circle, own: str) -> Outcome:
        return circle.after[own].when_all(within=HOUR, answer=step.ask(circle.flows["b"], {"id": "o2"}))

    assert played(Circle(a=(starts_for, ANY), b=(rests, ANY))) == ["acme"]
    assert played(Circle(a=(starts_for, ANY), b=(rests, {"tenant": "id"}))) == ["o2"]
    deadline, request, answer, onward = played(Circle(a=(asks_for, ANY), b=(rests, {"tenant": "id"})))
    assert (deadline, request, answer, onward) == ("acme", "o2", "o2", "acme")


def test_the_group_of_one_message_is_its_tenant_on_a_standard_queue() -> None:
    def tells(step: Step[Any], circle: Circle, own: str) -> None:
        step.send("b", {}, group="one")
        step.send("b", {}, group="")
        step.send("b", {}, group="with a space")
        step.send("c.fifo", {}, group="two")
        step.send("c.fifo", {})

    own, empty, digest, fifo, by_id = played(Circle(a=(tells, ANY), b=(rests, ANY)))
    assert (own, empty, fifo) == ("one", "acme", "two")
    assert digest is not None
    assert len(digest) == 64
    assert by_id not in (None, "acme")


def test_the_group_of_a_question_is_its_tenant_on_a_standard_queue() -> None:
    def wonders(step: Step[Any], circle: Circle, own: str) -> Outcome:
        many = {f"a{n}": "x" for n in range(8)}
        return circle.after[own].when_all(
            within=timedelta(minutes=10),
            answer=step.ask("b", {}, group="one"),
            more=step.ask("b", {}),
            full=step.ask("b", {}, attributes=many),
        )

    assert sorted(map(str, played(Circle(a=(wonders, ANY), b=(rests, {"tenant": None}))))) == ["acme"] * 4 + ["one"]


def test_a_message_with_all_attributes_of_its_own_keeps_its_group() -> None:
    def tells(step: Step[Any], circle: Circle, own: str) -> None:
        step.send("b", {}, attributes={f"a{n}": "x" for n in range(8)})

    assert played(Circle(a=(tells, ANY), b=(rests, ANY))) == ["acme"]


class Order(BaseModel):
    id: str
    customer: str = ""


class Place(Stage[Order], name="place", retry=RetryPolicy(attempts=1, backoff=Fixed(1), jitter=0)):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Orders(Flow, name="orders", object_id="id", tenant="customer"):
    stages = (Place,)


class Kept:
    """A sender that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Send] = []

    def send(self, sends: Any) -> dict[int, Any]:
        self.sent += sends
        return {}

    def postpone(self, envelope: Any, seconds: int) -> None:
        """Do nothing."""

    def hand_back(self, records: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("customer", "given", "tenant"),
    [("acme", None, "acme"), ("acme", "other", "other"), ("", None, None), ("", "", None), ("acme", "", "acme")],
)
def test_a_client_says_whose_work_it_asks_for(customer: str, given: str | None, tenant: str | None) -> None:
    sender = Kept()
    FlowClient(sender).start(Orders, Order(id="o1", customer=customer), tenant=given)
    assert json.loads(sender.sent[0].attributes[PLACE].value).get("tenant") == tenant


def test_a_tenant_is_a_field_of_the_payload() -> None:
    class Text(Stage[str], name="text"):
        def handle(self, text: str, step: Step) -> Outcome:
            return Done()

    def problem(stage: Any, tenant: Any) -> str:
        with pytest.raises(DefinitionError) as raised:
            type("Bad", (Flow,), {"stages": (stage,)}, name="bad", object_id=PER_REQUEST, tenant=tenant)
        return str(raised.value)

    assert "has no 'who'; it has id, customer" in problem(Place, "who")
    assert "tenant is 7; write a field of the payload: tenant='customer.id'" in problem(Place, 7)
    assert "'text' takes text, which has no 'who'; leave tenant out" in problem(Text, "who")


# -- what carries it --------------------------------------------------------------------------------------------------


def resolved(event: Any, flow: AnyFlow | None = None) -> Message:
    routes = Routes([Circle(a=(rests, ANY)).flows["a"] if flow is None else flow])
    return routes.resolve(envelope_of(event), START).message


def test_a_record_of_a_standard_queue_says_its_tenant_by_its_group() -> None:
    def of(queue: str, group: str) -> str | None:
        event = sqs_event(queue, {})
        event["Records"][0]["attributes"]["MessageGroupId"] = group
        return resolved(event).tenant

    assert of("a", "acme") == "acme"
    assert of("a.fifo", "acme") is None, "that orders messages"
    assert of("a", "no tenant") is None, "SQS has no such group"


def test_the_group_of_an_unknown_queue_is_no_tenant() -> None:
    """It may have been a FIFO queue."""
    event = sqs_event("a", {})
    record = event["Records"][0]
    record["attributes"]["MessageGroupId"] = "o1"
    assert envelope_of(event).tenant == "o1"
    del record["eventSourceARN"]
    assert envelope_of(event).tenant is None


def test_an_answer_says_whose_work_it_was() -> None:
    flow, asked = Circle(a=(rests, ANY)).flows["a"], FIRST._replace(depth=2)
    assert answer_place(flow, None, asked._replace(tenant="acme"))[PLACE].value == '{"depth":3,"tenant":"acme"}'
    assert answer_place(flow, None, asked)[PLACE].value == '{"depth":3}'
    of_acme = answer_place(flow, '{"name":"x"}', asked._replace(tenant="acme"))[PLACE].value
    assert of_acme == '{"answer":{"name":"x"},"tenant":"acme"}'
    assert answer_place(flow, '{"name":"x"}', asked)[PLACE].value == '{"answer":{"name":"x"}}'


def test_a_request_is_cancelled_as_its_tenants() -> None:
    child = Child("sqs:b", "b", "first", 1, "s1", "r2", 700)
    plan = WaitPlan("after", {"b": None}, asked=frozenset("b"), children={"b": child})
    wait = Wait(frozenset("b"), 0, 1_000, timed_out=True, plan=plan)
    item = run_item(request_id=RequestId("r1"), requested_at=START, done=False, wait=wait)
    cancelled = item._replace(cancellation=Cancellation(RequestId("r1"), START + 1, "a mistake"))
    [send] = cancelled_requests(Circle(a=(rests, ANY)).flows["a"], FIRST._replace(tenant="acme"), cancelled, UNSIGNED)
    assert json.loads(send.attributes[PLACE].value)["tenant"] == "acme"


def test_an_event_brings_its_tenant_over_a_bus() -> None:
    said = {PLACE: Attribute.string('{"depth":1,"tenant":"acme"}')}
    assert resolved(sqs_event("a", bus_event(json.loads(bus_detail("{}", said))))).tenant == "acme"


def test_what_is_stored_of_a_request_brings_its_tenant_back() -> None:
    for tenant, depth in (("acme", 0), ("acme", 3), (None, 3), (None, 0)):
        message = FIRST._replace(tenant=tenant, depth=depth, reply_to="sqs:replies")
        caller = Caller.of(message)
        assert caller is not None
        assert Caller.from_text(caller.to_text()) == caller
        assert (caller.tenant, caller.depth) == (tenant, depth)
        for looks in (True, False):
            plan = WaitPlan("after", {"a": None}, depth=depth, tenant=tenant, looks=looks)
            assert WaitPlan.from_text(plan.to_text()) == plan
        flow = Circle(a=(rests, {"object_id": "id", "keep_result": HOUR})).flows["a"]
        item = run_item(status=Status.RUNNING, hop=2, reset_at=9, first_message=first_message_text(message))
        restart = restart_of(flow, ObjectId("o1"), item, UNSIGNED)
        assert restart is not None
        assert (restart.message.tenant, restart.message.depth) == (tenant, depth)


def test_what_has_no_tenant_says_none_and_costs_nothing() -> None:
    assert "tenant" not in FIRST.own_attributes()[PLACE].value
    assert first_message_text(FIRST) == '["first",1,"{}",{}]'
    caller = Caller.of(FIRST._replace(reply_to="sqs:replies"))
    assert caller is not None
    assert caller.to_text() == f'["r1",{START},"sqs:replies",null,0,{{}}]'
    assert Send(Kind.SIDE, Queue("a"), "{}", "m").as_json() == ["side", "sqs:a", "{}", "m", {}]
    assert "tenant" not in Undeliverable(Kind.SIDE, Queue("a"), "m", {}).as_json()


def test_no_signature_covers_it_which_changes_only_whose_turn_it_is() -> None:
    of_acme = statement(FIRST._replace(tenant="acme"), version=1, object_id="o1")
    assert of_acme == statement(FIRST, version=1, object_id="o1")


def test_an_outbox_keeps_the_tenant_of_each_message() -> None:
    sends = (
        Send(Kind.SIDE, Queue("a"), "{}", "m1", {}, tenant="acme"),
        Send(Kind.SIDE, Queue("a"), "{}", "m2", {}, delay=3),
        Send(Kind.SIDE, Queue("a"), "{}", "m3", {}, delay=3, group="g", tenant="acme"),
    )
    outbox = Outbox(RequestId("r1"), START, sends)
    assert Outbox.from_text(outbox.to_text()) == outbox


@pytest.mark.parametrize(("attributes", "tenant"), [({}, None), ({f"a{n}": "x" for n in range(8)}, "acme")])
def test_an_outbox_says_a_tenant_where_the_attribute_does_not(attributes: dict[str, str], tenant: str | None) -> None:
    side = SideMessages(FIRST._replace(tenant="acme"), UNSIGNED, START)
    side.send("b", {}, attributes, 0, None)
    (send,) = side.recorded
    assert (send.tenant, tenant_in(send.attributes.get(PLACE)) or send.tenant) == (tenant, "acme")


def test_what_a_destination_refuses_keeps_its_tenant() -> None:
    flow = Circle(a=(rests, ANY)).flows["a"]
    error = ErrorNote("NotSent", "no", START)
    onward = FIRST._replace(hop=2, stage="after", tenant="acme")
    letter = park(flow, FIRST, Send(Kind.NEXT, Queue("a"), "{}", "own", dict(onward.own_attributes())), error)
    assert json.loads(letter.attributes[PLACE].value)["tenant"] == "acme"
    side = park(flow, onward, Send(Kind.SIDE, Queue("b"), "{}", "m1", {}, tenant="other"), error)
    assert json.loads(side.attributes[PLACE].value)["tenant"] == "acme", "the letter is of the run"
    unsent = Undeliverable.of(side.attributes)
    assert unsent is not None
    assert unsent.send("{}").tenant == "other"
    assert Undeliverable.parse({**unsent.as_json(), "tenant": 7}).tenant is None


def test_a_dead_letter_that_sqs_has_moved_goes_back_with_its_group() -> None:
    def returned(source: str, **place: Any) -> Any:
        by_sqs = {"DeadLetterQueueSourceArn": source, "MessageGroupId": "acme", "SentTimestamp": str(START)}
        said = json.dumps({"object": "o1", **place})
        received = {
            "MessageId": "m1",
            "ReceiptHandle": "h1",
            "Body": "{}",
            "Attributes": by_sqs,
            "MessageAttributes": {
                "flowstage": {"DataType": "String", "StringValue": "a/first"},
                "uniquerequestid": {"DataType": "String", "StringValue": "r1"},
                PLACE: {"DataType": "String", "StringValue": said},
            },
        }
        send = sent_back(Letter.read(received, now=START), Queue("a"))
        return json.loads(send.attributes[PLACE].value).get("tenant")

    arn = "arn:aws:sqs:us-east-1:123456789012:a"
    assert returned(arn) == "acme"
    assert returned(f"{arn}.fifo") is None
    assert returned(arn, tenant="other") == "other"


@pytest.mark.parametrize("to", [Queue("a.fifo"), Topic("arn:aws:sns:us-east-1:123456789012:t.fifo")])
def test_on_a_fifo_queue_the_group_orders_messages(to: Any) -> None:
    assert tenant_for(to, "g", "acme") == "acme"
    for other in (Queue("a"), Topic("arn:aws:sns:us-east-1:123456789012:t"), Function("f"), Bus("b", "s", "d")):
        assert tenant_for(other, "g", "acme") == "g"


FIRST = Message("a", "first", 1, ObjectId("o1"), RequestId("r1"), START, "{}")

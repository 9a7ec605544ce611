"""A chain of requests ends, whatever flows it goes through, and its end is a dead letter that says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, aws_store
from flowguard.clock import ManualClock, no_pause
from flowguard.destinations import Queue
from flowguard.events import EventType, Tally
from flowguard.flow import PER_REQUEST, AnyFlow, Flow
from flowguard.group import GroupEnd
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.callers import Caller
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import Status
from flowguard.protocol.waiting import WaitPlan
from flowguard.settings import Settings
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.delivered import Delivered
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.world import START, World
from flowguard.stage import AnyStage, Stage
from flowguard.step import Step
from flowguard.testing import batch, sqs_event
from flowguard.wire.attributes import Attribute
from flowguard.wire.bodies import bus_detail
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE, ErrorNote, Message, place_at_depth
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, signed_attributes, statement
from flowguard.worker.restart import first_message_text, restart_of
from flowguard.worker.routing import Routes
from flowguard.worker.undeliverable import park
from tests.aws.engines import kept
from tests.protocol.run_items import run_item

MOST_DELIVERIES = 80
"""After as many a circle counts as one without an end."""

HOUR = timedelta(hours=1)

Act = Callable[[Step[Any], "Circle", str], Outcome | None]
"""What the first stage of a flow does. The text is the flow's name."""


class Circle:
    """Flows of which each does what it is given to do. ``stages`` are theirs, ``flows`` they themselves, by name."""

    def __init__(self, **acts: tuple[Act, dict[str, Any]]) -> None:
        self.flows: dict[str, AnyFlow] = {}
        self.after: dict[str, AnyStage] = {}
        self.answers: list[dict[str, Any]] = []
        for name, (act, options) in acts.items():
            self._add(name, act, options)

    def _add(self, flow_name: str, act: Act, options: dict[str, Any]) -> None:
        circle = self

        class After(Stage[dict[str, Any]], name="after"):
            def handle(self, payload: dict[str, Any], step: Step[Any]) -> Outcome:
                circle.answers.append(payload)
                return Done()

        class AfterGroup(Stage[GroupEnd], name="after-group"):
            def handle(self, payload: GroupEnd, step: Step[Any]) -> Outcome:
                return Done()

        class First(Stage[dict[str, Any]], name="first", then=("after", "after-group")):
            def handle(self, payload: dict[str, Any], step: Step[Any]) -> Outcome:
                return act(step, circle, flow_name) or Done()

        class Made(
            Flow,
            name=flow_name,
            **{"object_id": PER_REQUEST, "dead_letters": "dead", "max_depth": 5, **options},
        ):
            stages = (First, After, AfterGroup)

        self.flows[flow_name] = Made
        self.after[flow_name] = After

    def group_end(self, flow: str) -> AnyStage:
        return self.flows[flow].stage("after-group")


class Played:
    """What becomes of one request to the flow ``a``."""

    def __init__(self, circle: Circle, **attributes: str) -> None:
        self.rows: list[Delivered] = []
        event = sqs_event("a", {"id": "o1"}, message_id="m1", sent_at=START, attributes=attributes)
        with (
            VirtualTime(START) as clock,
            MemoryAWS(clock) as aws,
            kept(),
            World(list(circle.flows.values()), aws=aws, clock=clock) as world,
        ):
            for one in read_recording(event):
                assert isinstance(one, RecordedRecord)
                world.put(one.envelope, one.raw)
            for row in world.run():
                self.rows.append(row)
                assert len(self.rows) < MOST_DELIVERIES, "the circle has no end"
            self.letters = taken(aws, "dead")

    @property
    def runs(self) -> list[str | None]:
        """The flows of the runs that were begun, in order."""
        return [row.flow for row in self.rows if row.hop == 1 and row.verdict == "CLAIMED"]

    @property
    def why(self) -> list[str]:
        places = [json.loads(letter["MessageAttributes"][PLACE]["StringValue"]) for letter in self.letters]
        return [place["error"][1] for place in places]


def taken(aws: MemoryAWS, queue: str) -> list[Any]:
    sqs, found = aws.client("sqs"), []
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    while more := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
    ).get("Messages"):
        found += more
        for one in more:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    return found


def other(own: str) -> str:
    """The flow that this one goes on with."""
    return "b" if own == "a" else "a"


def starts(step: Step[Any], circle: Circle, own: str) -> None:
    step.start(circle.flows[other(own)], {})


def sends(step: Step[Any], circle: Circle, own: str) -> None:
    step.send(other(own), {})


def asks(step: Step[Any], circle: Circle, own: str) -> Outcome:
    return circle.after[own].when_all(within=HOUR, answer=step.ask(circle.flows[other(own)], {}))


def asks_a_queue(step: Step[Any], circle: Circle, own: str) -> Outcome:
    return circle.after[own].when_all(within=HOUR, answer=step.ask(other(own), {}))


def asks_a_group(step: Step[Any], circle: Circle, own: str) -> Outcome:
    group = step.group(circle.flows[other(own)], [("one", {})])
    return circle.group_end(own).when_group(group, within=HOUR)


def asks_a_group_outside(step: Step[Any], circle: Circle, own: str) -> Outcome:
    return circle.group_end(own).when_group(step.group(other(own), [("one", {})]), within=HOUR)


def starts_and_hears(step: Step[Any], circle: Circle, own: str) -> None:
    step.start(circle.flows["b"], {}, reply_to="a")


def rests(step: Step[Any], circle: Circle, own: str) -> None:
    """Do nothing."""


ANY = dict[str, Any]()

CIRCLES: dict[str, tuple[Circle, list[str]]] = {
    "start": (Circle(a=(starts, ANY), b=(starts, ANY)), ["a", "b"] * 3),
    "send": (Circle(a=(sends, ANY), b=(sends, ANY)), ["a", "b"] * 3),
    "ask": (Circle(a=(asks, ANY), b=(asks, ANY)), ["a", "b"] * 3),
    "ask a queue": (Circle(a=(asks_a_queue, ANY), b=(asks_a_queue, ANY)), ["a", "b"] * 3),
    "group": (Circle(a=(asks_a_group, ANY), b=(asks_a_group, ANY)), ["a", "b"] * 3),
    "group outside": (Circle(a=(asks_a_group_outside, ANY), b=(asks_a_group_outside, ANY)), ["a", "b"] * 3),
    "reply": (Circle(a=(starts_and_hears, ANY), b=(rests, ANY)), ["a", "b"] * 3),
    "complete_to": (
        Circle(a=(rests, {"complete_to": "b"}), b=(rests, {"complete_to": "a"})),
        ["a", "b"] * 3,
    ),
    "itself": (Circle(a=(lambda step, circle, own: step.start(circle.flows["a"], {}), ANY)), ["a"] * 6),
}


@pytest.mark.parametrize("link", CIRCLES)
def test_a_circle_of_flows_ends_with_a_dead_letter_that_says_so(link: str) -> None:
    circle, runs = CIRCLES[link]
    played = Played(circle)
    assert played.runs == runs
    assert played.why == [
        "a is asked for at depth 6 of a chain of runs, and its max_depth is 5; do flows start each other in a circle?"
    ]


def test_a_run_that_asked_too_deep_gets_the_refusal_as_its_answer() -> None:
    circle = Circle(a=(asks, ANY), b=(asks, ANY))
    Played(circle)
    assert "its max_depth is 5" in json.dumps(circle.answers[0])
    assert len(circle.answers) == 6


def test_replies_of_kept_results_are_links_of_the_chain() -> None:
    """No run of ``b`` begins but the first, and yet each reply begins one of ``a``."""

    def asks_for_the_same(step: Step[Any], circle: Circle, own: str) -> None:
        step.start(circle.flows["b"], {}, object_id="one", reply_to="a")

    circle = Circle(a=(asks_for_the_same, ANY), b=(rests, {"object_id": "id", "keep_result": timedelta(days=1)}))
    played = Played(circle)
    assert played.runs == ["a", "b", "a", "a"]
    assert len(played.letters) == 1


def test_a_dead_letter_that_is_sent_back_runs_where_its_flow_goes_deeper_now() -> None:
    [letter] = Played(CIRCLES["start"][0]).letters
    deeper = Circle(a=(rests, {"max_depth": 6}), b=(rests, ANY))
    again = {name: a["StringValue"] for name, a in letter["MessageAttributes"].items()}
    assert Played(deeper, **again).runs == ["a"]
    assert Played(CIRCLES["start"][0], **again).runs == []


def test_each_attempt_and_hop_of_a_run_that_has_begun_goes_on_whatever_its_depth() -> None:
    routes = Routes([Circle(a=(rests, {"max_depth": 0})).flows["a"]])

    def too_deep(**place: int) -> bool:
        said = json.dumps({"version": 1, "depth": 3, **place})
        event = sqs_event("a", {}, attributes={"flowstage": "a/first", "uniquerequestid": "r", PLACE: said})
        return routes.resolve(envelope_of(event), START, None).too_deep is not None

    assert too_deep()
    assert too_deep(redrive=1)
    assert not too_deep(retry=1)
    assert not too_deep(hop=2)


def envelope_of(event: Any) -> Envelope:
    [one] = normalize(event)
    assert isinstance(one, Envelope)
    return one


# -- what carries it --------------------------------------------------------------------------------------------------


def test_an_event_brings_its_depth_over_a_bus_and_nothing_else_of_the_place() -> None:
    said = {PLACE: Attribute.string('{"depth":4,"hop":7,"redrive":3}')}
    event = bus_event(json.loads(bus_detail("{}", said)))
    routes = Routes([Circle(a=(rests, ANY)).flows["a"]])
    message = routes.resolve(envelope_of(sqs_event("a", event)), START).message
    assert (message.depth, message.hop, message.redrive) == (4, 1, 0)


@pytest.mark.parametrize("place", ["{", '{"depth":-1}', 7, None, '{"depth":"4"}'])
def test_an_event_whose_depth_cannot_be_read_begins_a_chain(place: Any) -> None:
    event = bus_event({"flowguard": {PLACE: place}})
    routes = Routes([Circle(a=(rests, ANY)).flows["a"]])
    assert routes.resolve(envelope_of(sqs_event("a", event)), START).message.depth == 0


def test_a_message_that_a_program_sends_on_without_the_attribute_begins_a_chain() -> None:
    routes = Routes([Circle(a=(rests, ANY)).flows["a"]])
    passed_on = {name: one.value for name, one in place_at_depth(4).items()}
    depths = [
        routes.resolve(envelope_of(sqs_event("a", {}, attributes=attributes)), START).message.depth
        for attributes in (passed_on, {})
    ]
    assert depths == [4, 0]


def bus_event(detail: Any) -> Any:
    return {
        "version": "0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail-type": "Said",
        "source": "shop",
        "account": "123456789012",
        "time": "2026-01-01T00:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail": detail,
    }


def test_a_whole_event_that_a_stage_sends_on_is_still_one() -> None:
    event = bus_event({"id": "o1"})
    plain = envelope_of(sqs_event("a", event))
    deep = envelope_of(sqs_event("a", event, attributes={PLACE: place_at_depth(1)[PLACE].value}))
    assert plain.event == deep.event is not None
    of_a_stage = sqs_event("a", event, attributes={PLACE: '{"depth":1,"hop":2}'})
    assert envelope_of(of_a_stage).event is None


def test_a_message_that_says_another_depth_is_not_the_one_that_was_signed() -> None:
    signer = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))
    said = {
        depth: signer.sign(statement(FIRST._replace(depth=depth), version=1, object_id="o1")) for depth in (0, 2, 3)
    }
    assert len(set(said.values())) == 3
    assert json.loads(signed_attributes(FIRST._replace(depth=2), signer)[PLACE].value)["sig"] == said[2]


def test_what_is_stored_of_a_request_brings_its_depth_back() -> None:
    deep = FIRST._replace(depth=4, reply_to="sqs:replies")
    for message in (deep, deep._replace(depth=0)):
        caller = Caller.of(message)
        assert caller is not None
        assert Caller.from_text(caller.to_text()) == caller
        assert caller.depth == message.depth
        plan = WaitPlan("after", {"a": None}, depth=message.depth)
        assert WaitPlan.from_text(plan.to_text()) == plan
    assert len(WaitPlan("after", {}).to_text()) < len(WaitPlan("after", {}, depth=1).to_text())


def test_what_has_no_depth_says_none() -> None:
    assert '"depth"' not in statement(FIRST, version=1, object_id="o1")
    assert statement(FIRST._replace(depth=2), version=1, object_id="o1").endswith(',"depth",2]')
    assert "depth" not in FIRST.own_attributes()[PLACE].value
    assert first_message_text(FIRST) == '["first",1,"{}",{}]'
    caller = Caller.of(FIRST._replace(reply_to="sqs:replies"))
    assert caller is not None
    assert caller.to_text() == f'["r1",{START},"sqs:replies",null,0,{{}}]'


def test_a_next_hop_that_is_parked_keeps_its_depth() -> None:
    onward = FIRST._replace(depth=4, hop=2, stage="after")
    send = Send(Kind.NEXT, Queue("a"), "{}", "own", dict(onward.own_attributes()))
    flow = Circle(a=(rests, ANY)).flows["a"]
    letter = park(flow, FIRST, send, ErrorNote("NotSent", "no", START))
    assert json.loads(letter.attributes[PLACE].value)["depth"] == 4


def test_the_work_of_a_run_that_was_reset_begins_anew_at_its_depth() -> None:
    flow = Circle(a=(rests, {"object_id": "id", "keep_result": HOUR})).flows["a"]
    for message in (FIRST._replace(depth=4), FIRST):
        item = run_item(status=Status.RUNNING, hop=2, reset_at=9, first_message=first_message_text(message))
        restart = restart_of(flow, ObjectId("o1"), item, UNSIGNED)
        assert restart is not None
        assert restart.message.depth == message.depth


def test_a_request_that_is_cancelled_and_too_deep_is_nothing() -> None:
    place = {"version": 1, "hop": 1, "depth": 9, "cancelled": "a mistake", "object": "r1"}
    attributes = {"flowstage": "a/first", "uniquerequestid": "r1", PLACE: json.dumps(place)}
    played = Played(Circle(a=(rests, ANY)), **attributes)
    assert [(row.verdict, row.acked) for row in played.rows] == [(None, True)]
    assert (played.runs, played.letters) == ([], [])


def test_of_records_that_share_their_calls_one_that_is_too_deep_is_claimed_for_nobody() -> None:
    flow = Circle(a=(rests, ANY)).flows["a"]
    records = [
        {"attributes": {"uniquerequestid": f"r{n}", PLACE: json.dumps({"depth": depth})}, "payload": {}}
        for n, depth in enumerate([0, 9, 1])
    ]
    with VirtualTime(START) as clock, MemoryAWS(clock) as aws, kept():
        aws.create_table("flowguard")
        for queue in ("a", "dead"):
            aws.create_queue(queue)
        tally = Tally()
        services = aws_services(Settings(), Clients(), clock=clock, observer=tally, pause=no_pause)
        function = lambda_handler(flow, together=True).using(services)
        event = batch(*(sqs_event("a", one["payload"], attributes=one["attributes"]) for one in records))
        with intercept(Recorder()) as calls:
            assert function(event) == {"batchItemFailures": []}
        assert len(taken(aws, "dead")) == 1
        items = [aws_store(Settings(), Clients()).read("a", ObjectId(f"r{number}")) for number in range(3)]
        assert [item is not None for item in items] == [True, False, True]
    assert tally.count(EventType.CLAIMED) == 2
    assert calls.count("dynamodb") == 2, "two claims in a call, and two commits"


FIRST = Message("a", "first", 1, ObjectId("o1"), RequestId("r1"), START, "{}")

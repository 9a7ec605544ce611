"""A run stays in its lane: whatever it sends for a stage that has that lane goes to the lane's queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.client import FlowClient
from flowguard.errors import RunFailed
from flowguard.flow import AnyFlow, Flow
from flowguard.lanes import Lane
from flowguard.limit import PerKey
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.world import START, World
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowClock, FlowRunner, sns_event, sqs_event
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import LANE, PLACE
from flowguard.wire.signing import UNSIGNED
from flowguard.worker.again import again_request
from flowguard.worker.dead_letters import Letter
from flowguard.worker.record_sources import Channel, NamedQueues
from flowguard.worker.restart import first_message_text, restart_of
from flowguard.worker.routing import Routes
from tests.aws.engines import kept
from tests.protocol.run_items import run_item
from tests.worker.test_depth import ANY, Act, Circle, asks, asks_a_group, envelope_of, rests, starts
from tests.worker.test_tenant import FIRST, Kept, fails, goes_on, waits

HOUR = timedelta(hours=1)
URGENT = {LANE: Attribute.string("urgent")}


def lanes(flow: str, **options: Any) -> dict[str, Any]:
    return {"inbox": (Lane("normal", flow), Lane("urgent", f"{flow}-urgent", weight=3)), **options}


def played(circle: Circle, queue: str = "a-urgent", **attributes: str) -> list[tuple[str, str | None]]:
    """Return the queues of all messages that one request to the flow ``a`` leads to, each with the lane it names."""
    return sent_after(circle, sqs_event(queue, {"id": "o1"}, message_id="m1", sent_at=START, attributes=attributes))


def sent_after(circle: Circle, event: Any) -> list[tuple[str, str | None]]:
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
        return [
            (call.params["QueueUrl"].rpartition("/")[2], lane_in(entry))
            for call in calls.calls
            if call.operation == "SendMessageBatch"
            for entry in call.params["Entries"]
        ]


def lane_in(entry: Mapping[str, Any]) -> str | None:
    attribute = entry.get("MessageAttributes", {}).get(LANE)
    return None if attribute is None else attribute["StringValue"]


def cancels(step: Step[Any], circle: Circle, own: str) -> None:
    step.cancel(circle.flows["b"], "o2", why="a mistake")


WAYS: dict[str, tuple[Act, list[str]]] = {
    "a next hop": (goes_on, ["a-urgent"]),
    "a run that is started": (starts, ["b-urgent"]),
    "a flow that is asked": (asks, ["a-answers", "b-urgent", "a-answers", "a-urgent"]),
    "a group of a flow": (asks_a_group, ["a-answers", "a-answers", "b-urgent", "a-answers", "a-urgent"]),
    "a deadline": (waits, ["a-answers", "a-answers", "a-answers", "a-urgent"]),
    "retries and a dead letter": (fails, ["a-urgent"] * 4 + ["dead"]),
    "an order to cancel": (cancels, ["b-urgent"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_message_of_a_run_for_a_stage_with_its_lane_goes_there(way: str) -> None:
    act, queues = WAYS[way]
    circle = Circle(a=(act, lanes("a")), b=(rests, lanes("b")))
    assert [queue for queue, _ in played(circle)] == queues


@pytest.mark.parametrize("way", WAYS)
def test_a_run_of_the_first_lane_names_it_and_stays_there(way: str) -> None:
    """The order in which another flow lists its lanes does not matter."""
    act, queues = WAYS[way]
    for others in (lanes("b"), {"inbox": lanes("b")["inbox"][::-1]}):
        sent = played(Circle(a=(act, lanes("a")), b=(rests, others)), "a")
        assert [queue for queue, _ in sent] == [queue.removesuffix("-urgent") for queue in queues]
        assert {lane for queue, lane in sent if queue.startswith("b")} <= {"normal"}


@pytest.mark.parametrize("way", ["a next hop", "a run that is started", "a flow that is asked"])
def test_a_request_may_name_its_lane_in_the_queue_of_another(way: str) -> None:
    act, queues = WAYS[way]
    circle = Circle(a=(act, lanes("a")), b=(rests, lanes("b")))
    assert [queue for queue, _ in played(circle, "a", lane="urgent")] == queues
    assert [queue for queue, _ in played(circle, "a-urgent", lane="normal")] == [
        queue.removesuffix("-urgent") for queue in queues
    ]


def test_a_lane_that_a_flow_does_not_have_says_nothing_and_the_queue_does() -> None:
    circle = Circle(a=(goes_on, lanes("a")))
    assert played(circle, "a", lane="by-night") == [("a", "normal")]
    assert played(circle, "a-urgent", lane="by-night") == [("a-urgent", "urgent")]


def test_a_flow_without_lanes_sends_what_it_always_did() -> None:
    for act, queues in WAYS.values():
        circle = Circle(a=(act, ANY), b=(rests, ANY))
        plain = [queue.removesuffix("-urgent").replace("a-answers", "a") for queue in queues]
        assert played(circle, "a", lane="urgent") == [(queue, None) for queue in plain]


def test_a_started_flow_may_be_given_another_lane() -> None:
    def starts_in(lane: str | None) -> list[tuple[str, str | None]]:
        def act(step: Step[Any], circle: Circle, own: str) -> None:
            step.start(circle.flows["b"], {}, lane=lane)

        return played(Circle(a=(act, lanes("a")), b=(rests, lanes("b"))))

    assert starts_in(None) == [("b-urgent", "urgent")]
    assert starts_in("normal") == [("b", "normal")]


def test_a_record_that_no_queue_brought_is_tried_again_in_the_lane_that_it_names() -> None:
    def by_topic(**attributes: str) -> str:
        circle = Circle(a=(fails, lanes("a")))
        event = sns_event("told", {"id": "o1"}, message_id="m1", published_at=START, attributes=attributes)
        return sent_after(circle, event)[0][0]

    assert by_topic(lane="urgent") == "a-urgent"
    assert by_topic() == "a"


class Work(BaseModel):
    name: str
    of: str


class Do(Stage[Work], name="do", limit=PerKey("of", per=timedelta(minutes=1), count=1)):
    def handle(self, work: Work, step: Step) -> Outcome:
        return Done()


class Works(Flow, name="works", object_id="name", inbox=(Lane("normal", "works"), Lane("urgent", "works-urgent"))):
    stages = (Do,)


def test_a_run_that_waits_at_a_limit_comes_back_in_its_lane() -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        for number in range(3):
            runner.send(Works, Work(name=f"w{number}", of="acme"), lane="urgent")
        result = runner.run()
        assert len(result.deliveries) > 3, "some have waited"
        assert {delivered.queue for delivered in result.deliveries} == {"works-urgent"}
        assert [run.status for run in result.runs()] == ["COMPLETED"] * 3


class Bursts(
    Flow,
    name="bursts",
    object_id="name",
    debounce=timedelta(seconds=30),
    inbox=(Lane("normal", "bursts"), Lane("urgent", "bursts-urgent")),
):
    stages = (Do,)


@pytest.mark.parametrize(("flow", "queue"), [(Works, "works"), (Bursts, "bursts")])
@pytest.mark.parametrize(("lane", "end"), [({}, ""), ({"lane": "urgent"}, "-urgent")])
def test_what_no_queue_brought_waits_in_the_lane_that_it_names(
    flow: AnyFlow, queue: str, lane: dict[str, str], end: str
) -> None:
    """For a place of a limit, or for the end of a burst."""
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.serve(flow)
        for number in range(2):
            work = Work(name=f"w{number}", of="acme")
            runner.deliver(sns_event("told", work, message_id=f"m{number}", published_at=START, attributes=lane))
        result = runner.run()
        assert {delivered.queue for delivered in result.deliveries} == {None, f"{queue}{end}"}
        assert [run.status for run in result.runs()] == ["COMPLETED"] * 2


# -- what carries it --------------------------------------------------------------------------------------------------


def flow_of(act: Act = rests, **options: Any) -> AnyFlow:
    return Circle(a=(act, lanes("a", **options))).flows["a"]


@pytest.mark.parametrize(
    ("lane", "queue", "named"), [(None, "a", None), ("normal", "a", "normal"), ("urgent", "a-urgent", "urgent")]
)
def test_a_client_says_the_lane(lane: str | None, queue: str, named: str | None) -> None:
    sender = Kept()
    FlowClient(sender).start(flow_of(), {"id": "o1"}, lane=lane)
    (send,) = sender.sent
    assert (str(send.to), send.attributes.get(LANE)) == (
        f"sqs:{queue}",
        None if named is None else Attribute.string(named),
    )


def test_a_lane_that_there_is_not_is_refused() -> None:
    sender = Kept()
    with pytest.raises(RunFailed, match="a has no lane 'fast'; it has normal, urgent"):
        FlowClient(sender).start(flow_of(), {"id": "o1"}, lane="fast")
    plain = Circle(a=(rests, ANY)).flows["a"]
    with pytest.raises(RunFailed, match="a has no lane 'fast'; it has none"):
        FlowClient(sender).start(plain, {"id": "o1"}, lane="fast")
    assert sender.sent == []


def test_a_run_that_is_reset_begins_in_its_lane() -> None:
    flow = flow_of(object_id="id", keep_result=HOUR)
    item = run_item(
        status=Status.RUNNING, hop=2, reset_at=9, first_message=first_message_text(FIRST._replace(carried=URGENT))
    )
    restart = restart_of(flow, ObjectId("o1"), item, UNSIGNED)
    assert restart is not None
    assert (str(restart.send.to), restart.send.attributes[LANE]) == ("sqs:a-urgent", URGENT[LANE])


def test_a_run_that_is_begun_anew_begins_in_its_lane() -> None:
    flow = flow_of(object_id="id")
    item = run_item(request_id=RequestId("r1"), requested_at=START)
    _, send = again_request(flow, FIRST._replace(carried=URGENT), item, START, UNSIGNED)
    assert (str(send.to), send.attributes[LANE]) == ("sqs:a-urgent", URGENT[LANE])


def letter(flow: AnyFlow | None, source: str, lane: str | None = None) -> Letter:
    named = {} if lane is None else {LANE: {"DataType": "String", "StringValue": lane}}
    received = {
        "MessageId": "m1",
        "ReceiptHandle": "h1",
        "Body": "{}",
        "Attributes": {
            "DeadLetterQueueSourceArn": f"arn:aws:sqs:us-east-1:123456789012:{source}",
            "SentTimestamp": str(START),
        },
        "MessageAttributes": {
            "flowstage": {"DataType": "String", "StringValue": "a/first"},
            "uniquerequestid": {"DataType": "String", "StringValue": "r1"},
            PLACE: {"DataType": "String", "StringValue": json.dumps({"object": "o1"})},
            **named,
        },
    }
    return Letter.read(received, now=START, flow=flow)


def test_a_dead_letter_is_of_the_lane_that_it_names_or_came_by() -> None:
    flow = flow_of()
    assert letter(flow, "a").carried == letter(flow, "other").carried == {LANE: Attribute.string("normal")}
    assert letter(flow, "a-urgent").carried == URGENT
    assert letter(flow, "a", "urgent").carried == URGENT
    assert letter(None, "a-urgent").carried == {}
    assert letter(Circle(a=(rests, ANY)).flows["a"], "a-urgent", "urgent").carried == {}


def test_the_queues_of_all_lanes_bring_requests_and_hops() -> None:
    flow = flow_of()
    queues = NamedQueues([flow])
    for queue in ("a", "a-urgent"):
        origins = queues.origins(envelope_of(sqs_event(queue, {})), flow, flow.entry())
        assert origins == {Channel.ENTRY, Channel.STAGE}
        assert queues.origins(envelope_of(sqs_event(queue, {})), flow, None) == {Channel.ENTRY, Channel.STAGE}
    other = queues.origins(envelope_of(sqs_event("a-other", {})), flow, flow.entry())
    assert other == {Channel.UNNAMED}


def test_a_plain_message_is_for_the_flow_of_its_lane() -> None:
    circle = Circle(a=(rests, lanes("a")), b=(rests, lanes("b")))
    routes = Routes(list(circle.flows.values()))
    for queue, flow in (("a", "a"), ("b", "b"), ("a-urgent", "a"), ("b-urgent", "b")):
        assert routes.resolve(envelope_of(sqs_event(queue, {"id": "o1"})), START).flow.name == flow

"""A new kind of destination, or a new source: each goes everywhere that the others go.

Where a place asks for the kind, mypy names the one that is forgotten. These tests are for all other places: whoever
adds a member adds an example of it here, and the places that do not know it fail by its name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.cli import main
from flowguard.destinations import Bus, Destination, Function, Queue, Topic, destination, parse_destination
from flowguard.flow import AnyFlow
from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import Kind, Outbox, Send, largest
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.posted_messages import as_posted
from flowguard.testing import (
    FlowRunner,
    MemoryAWS,
    dynamodb_event,
    invocation,
    kafka_event,
    kinesis_event,
    sns_event,
    sns_to_sqs_event,
    sqs_event,
)
from flowguard.testing.explorer import replay
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import Envelope, Source, normalize, normalize_record, resend
from flowguard.wire.home import Home, is_local
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redriven_messages import sent_back

HERE: Final = f"{REGION}:{ACCOUNT_ID}"
HOME: Final = Home("aws", REGION, ACCOUNT_ID)

DESTINATIONS: Final[Mapping[type, Destination]] = {
    Queue: Queue("told"),
    Topic: Topic(f"arn:aws:sns:{HERE}:told"),
    Function: Function("told"),
    Bus: Bus("told", "shop", "told"),
}
"""An example of each kind. Its name is ``told``, and it is in the account and region of the simulator."""


BLUE: Final = Attribute.string("blue")


class Order(BaseModel):
    order_id: str
    to: str = "sqs:told"


class Take(Stage[Order], name="take", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send(parse_destination(order.to), {"order": order.order_id}, attributes={"tenant": BLUE})
        return Done()


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Take,)


class Change(BaseModel):
    """What a table's stream says of an order."""

    keys: Order
    to: str = "sqs:told"


class TakeChange(Stage[Change], name="take", inbox="orders"):
    def handle(self, change: Change, step: Step) -> Outcome:
        step.send(parse_destination(change.to), {"order": change.keys.order_id}, attributes={"tenant": BLUE})
        return Done()


class Changes(Flow, name="orders", object_id="keys.order_id"):
    stages = (TakeChange,)


SOURCES: Final[Mapping[Source, Any]] = {
    Source.SQS: sqs_event("orders", Order(order_id="o1")),
    Source.SNS_SQS: sns_to_sqs_event("orders", Order(order_id="o1")),
    Source.SNS_LAMBDA: sns_event("orders", Order(order_id="o1")),
    Source.INVOCATION: invocation(Order(order_id="o1")),
    Source.KINESIS: kinesis_event("orders", Order(order_id="o1")),
    Source.DYNAMODB: dynamodb_event("orders", {"order_id": {"S": "o1"}}, {"order_id": {"S": "o1"}}),
    Source.KAFKA: kafka_event("orders", {"order_id": "o1"}, key="o1"),
}
"""A request as each source brings it."""


def test_each_kind_of_destination_and_each_source_has_an_example() -> None:
    assert DESTINATIONS.keys() == set(get_args(Destination))
    assert SOURCES.keys() == set(Source)


# -- what is done with every destination

every_destination = pytest.mark.parametrize("to", DESTINATIONS.values(), ids=lambda to: type(to).__name__)


def service_of(to: Destination) -> str:
    """As boto3 names it."""
    return str(to).partition(":")[0]


def a_send(to: Destination) -> Send:
    return Send(Kind.SIDE, to, '{"a":1}', "run-1.1.0", {"tenant": BLUE})


@every_destination
def test_a_destination_is_written_as_text_and_read(to: Destination) -> None:
    assert parse_destination(str(to)) == destination(to) == to
    outbox = Outbox(RequestId("run-1"), 1, (a_send(to),))
    assert Outbox.from_text(outbox.to_text()) == outbox


@every_destination
def test_a_send_has_a_size_and_a_largest_one(to: Destination) -> None:
    send = a_send(to)
    assert len(send.body) < send.size < largest(to)
    assert send.checked() == send


@every_destination
def test_a_destination_is_at_home_in_one_account_and_region(to: Destination) -> None:
    assert is_local(to, HOME)
    before = str(to).removesuffix("told").removesuffix(f"arn:aws:sns:{HERE}:")
    assert not is_local(parse_destination(f"{before}arn:aws:{service_of(to)}:{REGION}:999999999999:told"), HOME)


@every_destination
def test_what_is_sent_is_read_as_its_service_takes_it(to: Destination) -> None:
    posted = as_posted(a_send(to), 1)
    assert (posted.to, posted.name) == (f"{service_of(to)}:told", "told")
    assert "a" in posted.body


@every_destination
def test_a_stage_sends_there_and_a_reply_goes_there(to: Destination, flow_runner: FlowRunner) -> None:
    flow_runner.send(Orders, Order(order_id="o1", to=str(to)), reply_to=to)
    result = flow_runner.run()
    assert [one.to for one in result.messages] == ["told", "told"]
    assert len(result.sent("told")) == 2, "under an id of its own each"
    assert "told" in str(result), "the time line names it"


@every_destination
def test_what_it_refuses_for_good_is_parked_and_can_be_sent_after_all(
    to: Destination, flow_runner: FlowRunner, flow_engine: MemoryAWS
) -> None:
    flow_engine.refusing.deny(f"{service_of(to)}:told")
    flow_runner.send(Orders, Order(order_id="o1", to=str(to)))
    result = flow_runner.run()
    assert result.run("o1").status == "COMPLETED"
    [found] = result.dead_letters
    letter = Letter.read(
        {
            "MessageId": "m-1",
            "ReceiptHandle": "r-1",
            "Body": json.dumps(found.body, separators=(",", ":")),
            "MessageAttributes": attributes_to(Attribute.to_sqs_api, found.attributes),
        },
        now=0,
    )
    assert letter.kind == "unsent"
    assert letter.to == to
    back = sent_back(letter, to)
    assert (back.to, back.body, back.attributes["tenant"]) == (to, '{"order":"o1"}', BLUE)


@every_destination
def test_the_explorer_lets_it_refuse(to: Destination) -> None:
    """At the third call, which sends: the first claims and the second commits."""
    trace = replay(Orders, [Order(order_id="o1", to=str(to))], "f3")
    assert trace.violations == ()
    assert "told" in "\n".join(trace.timeline)


# -- what is done with every source

every_source = pytest.mark.parametrize(("source", "event"), SOURCES.items(), ids=list(SOURCES))


class Valued(BaseModel):
    """What a topic of Kafka says of an order."""

    key: str
    value: Order


class TakeValue(Stage[Valued], name="take", inbox="orders"):
    def handle(self, valued: Valued, step: Step) -> Outcome:
        step.send(parse_destination(valued.value.to), {"order": valued.key}, attributes={"tenant": BLUE})
        return Done()


class Values(Flow, name="orders", object_id="key"):
    stages = (TakeValue,)


FLOWS: Final[Mapping[Source, AnyFlow]] = {Source.DYNAMODB: Changes, Source.KAFKA: Values}
"""The flow of a source that writes the payload itself."""

PAYLOADS: Final[Mapping[Source, Any]] = {
    Source.DYNAMODB: {"change": "INSERT", "keys": {"order_id": "o1"}, "new": {"order_id": "o1"}},
    Source.KAFKA: {"key": "o1", "value": {"order_id": "o1"}},
}
AN_ORDER: Final = {"order_id": "o1", "to": "sqs:told"}


def envelope_of(event: Any) -> Envelope:
    [found] = normalize(event, invocation_id="call-1")
    assert isinstance(found, Envelope)
    return found


@every_source
def test_a_record_is_read_and_what_was_read_is_read_as_the_same(source: Source, event: Any) -> None:
    found = envelope_of(event)
    assert (found.source, json.loads(found.message)) == (source, PAYLOADS.get(source, AN_ORDER))
    again = normalize_record(found.record)
    assert (again.source, again.message, again.message_id) == (source, found.message, found.message_id)
    assert again.record == found.record


@every_source
def test_a_record_is_sent_again_as_itself(source: Source, event: Any) -> None:
    body, attributes = resend(envelope_of(event), {"again": Attribute.string("1")})
    assert json.loads(json.loads(body)["Message"]) == PAYLOADS.get(source, AN_ORDER)
    assert attributes == {"again": Attribute.string("1")}


@every_source
def test_a_record_starts_a_run_and_a_copy_of_it_starts_none(
    source: Source, event: Any, flow_runner: FlowRunner
) -> None:
    result = flow_runner.serve(FLOWS.get(source, Orders)).deliver(event, event).run()
    assert result.verdicts == ["CLAIMED", "DONE"]
    assert len(result.sent("told")) == 1


@every_source
def test_only_a_queue_and_a_stream_are_told_which_record_is_left(source: Source, event: Any) -> None:
    """All others get the event back as an error, or its result."""
    envelope = envelope_of(event)
    assert source.is_queue is (envelope.queue_arn is not None)
    assert source.takes_names is (envelope.source_arn is not None)


@every_source
def test_the_commands_print_and_replay_it(source: Source, event: Any, tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event), encoding="utf-8")
    printed = CliRunner().invoke(main, ["normalize", str(file)])
    assert (printed.exit_code, json.loads(printed.stdout)["eventSource"] != "") == (0, True)
    replayed = CliRunner().invoke(
        main, ["replay", str(file), "--flow", f"tests.test_additions:{FLOWS.get(source, Orders).__name__}"]
    )
    assert (replayed.exit_code, "CLAIMED" in replayed.stdout) == (0, True), replayed.output


@every_source
def test_the_explorer_delivers_it(source: Source, event: Any) -> None:
    trace = replay(FLOWS.get(source, Orders), [event], "d1")
    assert trace.violations == ()
    assert sum(" take, hop 1, receive 2" in line for line in trace.timeline) == 1, "once more after its worker died"

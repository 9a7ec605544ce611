"""What the records of an invocation do after one of them has met a failure outside its stage."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from flowguard import Callback, Done, Flow, Outcome, Stage, Step
from flowguard.clock import ManualClock
from flowguard.errors import EnvelopeError, TooEarly
from flowguard.events import EventType, Tally
from flowguard.names.ids import ObjectId, RequestId
from flowguard.payload.codec import Codecs
from flowguard.protocol.outbox import Send
from flowguard.testing import sqs_event
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import Message
from flowguard.worker.callbacks import Callbacks
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.outages import Outages
from flowguard.worker.ports import Refusal, Services
from flowguard.worker.routing import Arrival


class Answered(Stage[dict[str, Any]], name="answered"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Asking(Flow, name="asking", object_id="id", callbacks=(Callback("from-others", id="ref"),)):
    stages = (Answered,)


class Brief(Flow, name="brief", object_id="id", retention=timedelta(hours=1)):
    stages = (Answered,)


@dataclass
class Down:
    """A store that does not answer, and a sender that notes what it hands back."""

    asked: int = 0
    back: list[tuple[str, int]] = field(default_factory=list)
    codecs: Codecs = field(default_factory=Codecs)

    def __getattr__(self, name: str) -> Any:
        self.asked += 1
        raise TimeoutError("no answer")

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        raise AssertionError("nothing is sent")

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        raise AssertionError("nothing is busy")

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        self.back += [(envelope.message_id, seconds) for envelope, seconds in records]


def services(down: Any, told: Tally) -> Services:
    return Services(
        store=down,
        sender=down,
        clock=ManualClock(),
        observer=told,
        draw=random.Random(0),
        is_outage=lambda error: isinstance(error, TimeoutError),
    )


def record(name: str, receives: int = 1) -> Envelope:
    (found,) = normalize(sqs_event("from-others", {"ref": name}, message_id=name, receive_count=receives))
    assert isinstance(found, Envelope)
    return found


def test_answers_that_meet_an_outage_come_back_after_a_pause_and_only_the_first_asks() -> None:
    down, told = Down(), Tally()
    endings = Callbacks((Asking,), services(down, told)).take_all([record("a1"), record("a2"), record("a3", 10)])
    assert [ending.ack for ending in endings] == [False] * 3
    assert (down.asked, down.back) == (1, [("a1", 6), ("a2", 6), ("a3", 41)])
    assert (told.count(EventType.BROKEN), told.count(EventType.RETURNED)) == (1, 2)


def test_an_answer_that_cannot_be_read_keeps_no_other_from_being_settled() -> None:
    down, told = Down(), Tally()
    (unread,) = normalize(sqs_event("from-others", {"other": 1}, message_id="a0"))
    assert isinstance(unread, Envelope)
    Callbacks((Asking,), services(down, told)).take_all([unread, record("a1")])
    assert down.asked == 1


def outages(flows: Sequence[type[Flow]] = (Asking,)) -> Outages:
    world = services(Down(), Tally())
    return Outages(world, Emitter(world.observer), flows)


@pytest.mark.parametrize("error", [EnvelopeError("r", "body", "is no JSON"), TypeError("a mistake")])
def test_an_error_of_one_record_is_no_outage(error: Exception) -> None:
    met = outages()
    assert met.ending(record("a1"), error).backs_off
    assert met.left_alone(record("a2")) is None


def test_a_record_that_is_not_of_an_outage_comes_back_when_its_ending_says_so() -> None:
    met = outages()
    assert met.again_in(Ending(record("a1"), ack=False, again_in=0)) == 0
    assert met.again_in(Ending(record("a1"), ack=False)) is None


def test_a_record_that_is_done_with_does_not_come_back() -> None:
    assert outages().again_in(Ending(record("a1"), ack=True, backs_off=True)) is None


@pytest.mark.parametrize(
    ("error", "shortest", "longest"),
    [
        (EnvelopeError("r", "body", "is no JSON"), 100, 200),
        (TooEarly("r", "body.time", "is to come"), 5, 10),
        (TypeError("a mistake"), 5, 10),
    ],
)
def test_what_a_deployment_may_bring_comes_back_in_minutes_and_any_other_error_sooner(
    error: Exception, shortest: int, longest: int
) -> None:
    met = outages()
    again_in = met.again_in(met.ending(record("a1"), error))
    assert again_in is not None
    assert shortest <= again_in <= longest


def test_a_message_of_a_known_flow_comes_back_by_the_time_that_this_flow_keeps_messages() -> None:
    met, envelope = outages([Asking, Brief]), record("a1", receives=90)
    arrival = Arrival(envelope, Asking, None, Message("asking", "", 1, ObjectId("o"), RequestId("r"), 0, ""))
    again_in = met.again_in(met.ending(envelope, TimeoutError())._replace(arrival=arrival))
    assert again_in is not None
    assert again_in > 2_000


def test_where_its_flow_is_not_known_the_flow_that_keeps_messages_shortest_counts() -> None:
    ending = outages([Asking, Brief]).ending(record("a1", receives=90), TimeoutError())
    assert outages([Asking, Brief]).again_in(ending) == pytest.approx(3_600 * 2 / 7 / 70 * 0.58, abs=2)

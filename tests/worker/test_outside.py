"""Answers that are found by the id that they are awaited under: how they are read, and what is sent for them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from flowguard.callback import Callback
from flowguard.destinations import Bus, Topic
from flowguard.errors import EnvelopeError, RunFailed
from flowguard.flow import Flow
from flowguard.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.verdicts import AnswerVerdict
from flowguard.protocol.waiting import GivenAnswer
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize, normalize_record
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.worker.emitter import Emitter
from flowguard.worker.outside import FoundAnswer, OutsideAnswers, answer_message, read_outside
from flowguard.worker.ports import Refusal
from tests.waits import STAGES, START, WITHIN, AnyOf, Carts, Progress, WaitScene, record, wait_scene

ADDRESS = AnswerAddress("carts", ObjectId("c1"), RequestId("run-1"), START, 1, "a")
ROW = AwaitingRow("paid", ADDRESS, "some", START)
GIVEN = FoundAnswer(Carts, "paid", GivenAnswer("7"))


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene() as found:
        yield found


def for_paid(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(a=step.event("paid"), within=WITHIN)


def envelope(payload: object = "{}", queue: str = "parcels", **attributes: str) -> Envelope:
    named = {name: Attribute.string(value) for name, value in attributes.items()}
    return normalize_record(record(named, payload if isinstance(payload, str) else json.dumps(payload), queue))


def outside(at: WaitScene) -> OutsideAnswers:
    return OutsideAnswers(at.services, Emitter(at.services.observer))


# -- settling ----------------------------------------------------------------------------------------------------------


def test_an_answer_from_a_queue_sends_the_next_hop_and_no_copy_of_itself(at: WaitScene) -> None:
    at.begin(for_paid)
    at.waiting("answers")
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.verdict, ending.ack) == (AnswerVerdict.RESUMED, AnswerVerdict.RESUMED, True)
    assert at.waiting("answers") == []
    assert at.resume() == 1


def test_an_answer_that_nobody_repeats_leaves_a_copy_in_the_queue_of_answers(at: WaitScene) -> None:
    at.begin(for_paid)
    at.waiting("answers")
    assert outside(at).settle(GIVEN, envelope(), queued=False)[0] is AnswerVerdict.RESUMED
    [copy] = at.waiting("answers")
    assert copy["body"] == '{"status":"COMPLETED","result":7}'


def test_one_of_two_runs_that_is_not_committed_yet_keeps_the_record(at: WaitScene) -> None:
    at.begin(for_paid)
    other = ADDRESS._replace(hop=2)
    at.waits.save([AwaitingRow("paid", other, "some", START)])
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack, ending.why) == (AnswerVerdict.EARLY, False, "its hop is not committed yet")


class Refusing:
    """Takes nothing for one object."""

    def __init__(self, sender: Any, object_id: str) -> None:
        self._sender = sender
        self._object_id = object_id

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        refused = {place: Refusal("throttled") for place, one in enumerate(sends) if one.group == self._object_id}
        taken = [one for place, one in enumerate(sends) if place not in refused]
        return {**refused, **self._sender.send(taken)}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        raise AssertionError("nothing is postponed here")


@pytest.mark.parametrize("refused", ["c1", "c2"])
def test_the_next_hop_of_one_run_that_is_not_taken_keeps_the_record(refused: str, at: WaitScene) -> None:
    at.begin(for_paid)
    at.begin(for_paid, object_id=ObjectId("c2"), body='{"cart_id":"c2"}', request_id=RequestId("run-2"))
    services = replace(at.services, sender=Refusing(at.services.sender, refused))
    settling = OutsideAnswers(services, Emitter(services.observer))
    verdict, ending = settling.settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack) == (AnswerVerdict.RESUMED, False)
    assert "throttled" in ending.why


@pytest.mark.parametrize(("keep", "verdict"), [(None, "UNKNOWN"), (timedelta(hours=1), "EARLY")])
def test_an_answer_that_nothing_waits_for_is_unknown_unless_it_is_kept(
    keep: timedelta | None, verdict: str, at: WaitScene
) -> None:
    told, ending = outside(at).settle(GIVEN._replace(keep_early=keep), envelope(), queued=True)
    assert (told, ending.ack) == (AnswerVerdict(verdict), True)


# -- several runs of which one cannot read it --------------------------------------------------------------------------


def row_of(at: WaitScene, object_id: str, hop: int = 1, stage: str = "renamed") -> None:
    """Leave a row of a stage that there is no more, as a deployment does."""
    run = RequestId("run-1" if object_id == "c1" else "run-2")
    address = AnswerAddress("carts", ObjectId(object_id), run, START, hop, "a")
    at.waits.save([AwaitingRow("paid", address, stage, START)])


def second(at: WaitScene) -> None:
    at.begin(for_paid, object_id=ObjectId("c2"), body='{"cart_id":"c2"}', request_id=RequestId("run-2"))


@pytest.mark.parametrize("queued", [True, False])
def test_a_row_whose_run_is_over_keeps_no_answer_from_the_others(queued: bool, at: WaitScene) -> None:
    at.begin(for_paid)
    row_of(at, "gone")
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=queued)
    assert (verdict, ending.ack) == (AnswerVerdict.RESUMED, True)


def test_an_answer_to_runs_that_are_over_has_their_verdict(at: WaitScene) -> None:
    row_of(at, "c1")
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack) == (AnswerVerdict.EXPIRED, True)


@pytest.mark.parametrize("hop", [1, 2], ids=["waiting", "early"])
def test_an_answer_that_one_of_two_runs_cannot_read_stays_for_it(hop: int, at: WaitScene) -> None:
    at.begin(for_paid)
    second(at)
    [row] = [one for one in at.waits.waiting_for("carts", "paid") if one.address.object_id == "c2"]
    at.waits.save([row._replace(stage="renamed", address=row.address._replace(hop=hop))])
    for _ in range(2):  # its queue delivers it again
        with pytest.raises(RunFailed, match="carts has no stage 'renamed'"):
            outside(at).settle(GIVEN, envelope(), queued=True)
    item = at.item("c1")
    assert item.wait is None or not item.wait.waiting or item.wait.end is not None


class Buggy(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def broken(cls, value: int) -> int:
        raise RuntimeError("a validator with a bug")


class Nested(BaseModel):
    cart_id: str = ""
    a: Buggy


class Bugged(Stage[Nested], name="some"):
    def handle(self, payload: Nested, step: Step) -> Outcome:
        return Done()


class BuggedCarts(Flow, name="carts", object_id="cart_id"):
    stages = (Bugged,)


def test_a_bug_in_a_validator_is_no_refusal_of_the_answer(at: WaitScene) -> None:
    row_of(at, "gone", stage="some")
    with pytest.raises(RuntimeError, match="a validator with a bug"):
        outside(at).settle(FoundAnswer(BuggedCarts, "paid", GivenAnswer('{"a":7}')), envelope(), queued=True)


# -- the copy ----------------------------------------------------------------------------------------------------------


def test_the_copy_says_what_it_is_for_and_names_itself(at: WaitScene) -> None:
    found = answer_message(GIVEN, ROW, START, at.services)
    assert (found.kind, found.to, found.id) == (Kind.SIDE, Carts.answers, "paid.a.answer")
    assert found.attributes == {
        REQUEST_ID: Attribute.string("paid.a.answer"),
        REQUESTED_AT: Attribute.number(START),
        PLACE: Attribute.string(json.dumps({"answer": ADDRESS.as_json()}, separators=(",", ":"))),
    }


def test_the_copy_of_a_failure_is_a_failure(at: WaitScene) -> None:
    failed = GivenAnswer('{"failed":true,"type":"OutOfStock","text":"none left"}', failed=True)
    found = answer_message(GIVEN._replace(answer=failed), ROW, START, at.services)
    assert json.loads(found.body) == {"status": "FAILED", "error": "OutOfStock: none left"}


# -- reading -----------------------------------------------------------------------------------------------------------


class Declares(
    Flow,
    name="declares",
    object_id="cart_id",
    callbacks=(
        Callback("parcels", id="ref", failed="error"),
        Callback("payments", keep_early=timedelta(hours=1)),
    ),
):
    stages = STAGES


class DeclaresMore(
    Flow,
    name="declares-more",
    object_id="cart_id",
    callbacks=(
        Callback(Topic("arn:aws:sns:us-east-1:123456789012:told"), id="ref"),
        Callback(Bus("default", "shop", "Paid"), id="id", prefix="payment/", answer="paid.amount"),
        Callback("elsewhere", id="ref", failed="error.code"),
    ),
):
    stages = STAGES


def bus_event(source: str = "shop", detail_type: str = "Paid") -> Envelope:
    event = {
        "version": "0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail-type": detail_type,
        "source": source,
        "account": "123456789012",
        "time": "2026-01-01T00:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail": {"id": "o1", "paid": {"amount": 7}},
    }
    [found] = normalize(event, invocation_id="i-1")
    assert isinstance(found, Envelope)
    return found


def test_an_event_is_known_by_its_source_and_type() -> None:
    assert read_outside([DeclaresMore], bus_event()) == FoundAnswer(DeclaresMore, "payment/o1", GivenAnswer("7"))
    assert read_outside([DeclaresMore], bus_event(source="another")) is None
    assert read_outside([DeclaresMore], bus_event(detail_type="Refused")) is None


def test_a_message_of_no_topic_and_no_bus_is_neither() -> None:
    assert read_outside([DeclaresMore], envelope({"ref": "r"}, "parcels")) is None


@pytest.mark.parametrize(("error", "failed"), [({"code": 7}, True), ({"code": 0}, False), ("code", False), (7, False)])
def test_a_field_is_found_in_objects_only(error: object, failed: bool) -> None:
    found = read_outside([DeclaresMore], envelope({"ref": "r", "error": error}, "elsewhere"))
    assert found is not None
    assert found.answer.failed is failed


def test_an_answer_that_json_cannot_write_is_refused_by_its_record() -> None:
    with pytest.raises(EnvelopeError, match="body"):
        read_outside([Declares], envelope('{"ref": "r", "text": "\\ud800"}'))


class DeclaresOne(Flow, name="declares-one", object_id="cart_id", callbacks=(Callback("parcels", id="ref"),)):
    stages = STAGES


def test_a_record_of_no_declared_queue_is_read_only_where_there_is_one_callback() -> None:
    elsewhere = envelope({"ref": "r"}, "elsewhere")
    assert read_outside([Declares], elsewhere) is None
    assert read_outside([], elsewhere) is None
    found = read_outside([DeclaresOne], elsewhere)
    assert found is not None
    assert found.awaited_id == "r"


def test_the_words_of_a_failure_are_kept_as_they_are() -> None:
    found = read_outside([Declares], envelope({"ref": "r", "error": "gone"}))
    assert found is not None
    assert json.loads(found.answer.text)["text"] == "gone"
    assert found.answer.failed


def test_where_no_field_names_what_is_awaited_the_messages_own_id_does() -> None:
    found = read_outside([Declares], envelope("paid", "payments", uniquerequestid="r"))
    assert found == FoundAnswer(Declares, "r", GivenAnswer('"paid"'), timedelta(hours=1))
    with pytest.raises(EnvelopeError, match=r"attributes\.uniquerequestid.*is not there, and names what is awaited"):
        read_outside([Declares], envelope("paid", "payments"))

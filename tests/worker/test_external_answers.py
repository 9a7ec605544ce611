"""Answers that are found by the id that they are awaited under: how they are read, and what is sent for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from flowguard.callback import Callback
from flowguard.destinations import Bus, Topic
from flowguard.errors import EnvelopeError, RunFailed, SettingsError
from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import AwaitingRow, Status
from flowguard.protocol.run_orders import failed_answer
from flowguard.protocol.waiting import GivenAnswer
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize, normalize_record
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.worker.emitter import Emitter
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.external_answers import (
    HELD,
    KEPT_TO_END_MS,
    ROWS_A_PART,
    ExternalAnswers,
    answer_message,
    read_outside,
)
from flowguard.worker.ports import Refusal
from flowguard.worker.record_sources import NamedQueues
from tests.waits import SCRIPT, STAGES, START, WITHIN, Admits, AnyOf, Carts, Progress, WaitScene, record, wait_scene
from tests.worker.runtime.mishaps import Died

ADDRESS = AnswerAddress("carts", ObjectId("c1"), RequestId("run-1"), START, 1, "a")
DAY = 86_400_000
ROW = AwaitingRow("paid", ADDRESS, "some", START)
GIVEN = ExternalAnswer(Carts, "paid", GivenAnswer("7"))


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene() as found:
        yield found


def for_paid(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(a=step.event("paid"), within=WITHIN)


def envelope(payload: object = "{}", queue: str = "parcels", **attributes: str) -> Envelope:
    named = {name: Attribute.string(value) for name, value in attributes.items()}
    return normalize_record(record(named, payload if isinstance(payload, str) else json.dumps(payload), queue))


def outside(at: WaitScene) -> ExternalAnswers:
    return ExternalAnswers(at.services, Emitter(at.services.observer))


# -- settling ----------------------------------------------------------------------------------------------------------


def test_an_answer_from_a_queue_sends_the_next_hop_and_no_copy_of_itself(at: WaitScene) -> None:
    at.begin_and_look(for_paid)
    at.waiting("answers")
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.verdict, ending.ack) == (AnswerVerdict.RESUMED, AnswerVerdict.RESUMED, True)
    assert at.waiting("answers") == []
    assert at.resume() == 1


# -- answers that are quicker than the look at their wait -------------------------------------------------------------


def again(sent: int, receives: int = 2) -> Envelope:
    """The record of an answer that was sent at this time, and is received for the second time."""
    attributes = {"ApproximateReceiveCount": str(receives), "SentTimestamp": str(sent)}
    return normalize_record({**record({}, "{}", "parcels"), "attributes": attributes})


def test_an_answer_quicker_than_the_look_waits_for_it_and_each_mail_is_sent_once(at: WaitScene) -> None:
    at.begin(for_paid)
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack, ending.again_in, ending.why) == (AnswerVerdict.RESUMED, False, 20, HELD)
    assert (ending.backs_off, ending.verdict) == (False, AnswerVerdict.RESUMED)
    assert [event.facts["is_held"] for event in at.tally.events if event.type is EventType.ANSWERED] == [True]
    assert at.waiting("carts") == []
    assert at.deliver(*at.waiting("answers"))
    assert at.resume() == 1, "the look proves what was sent, and the run goes on"
    assert (len(at.waiting("mails")), at.told(EventType.FLUSHED)) == (1, 0)
    at.clock.advance(seconds=20)
    _, ending = outside(at).settle(GIVEN, again(START), queued=True)
    assert (ending.ack, at.waiting("carts")) == (True, [])


def test_where_nobody_looks_the_answer_that_comes_again_lets_the_run_go_on(at: WaitScene) -> None:
    """The worker died before it sent anything, so the resumed hop sends it."""
    at.begin(for_paid)
    at.waiting("mails")
    at.waiting("answers")
    outside(at).settle(GIVEN, envelope(), queued=True)
    at.clock.advance(seconds=20)
    for sooner in (again(START + 1), again(START, receives=1)):
        assert not outside(at).settle(GIVEN, sooner, queued=True)[1].ack
    _, ending = outside(at).settle(GIVEN, again(START), queued=True)
    assert (ending.ack, at.resume()) == (True, 1)
    assert (len(at.waiting("mails")), at.told(EventType.FLUSHED)) == (1, 1)


def test_an_answer_that_nobody_repeats_is_left_to_the_look_or_its_copy(at: WaitScene) -> None:
    at.begin(for_paid)
    at.waiting("answers")
    verdict, ending = outside(at).settle(GIVEN, again(START - 60_000), queued=False)
    assert (verdict, ending.ack, at.waiting("carts")) == (AnswerVerdict.RESUMED, True, [])
    assert at.deliver(*at.waiting("answers")), "its copy"
    assert at.resume() == 1


@pytest.mark.parametrize("looked", ["c1", "c2"])
def test_an_answer_for_two_runs_waits_for_the_look_at_either(looked: str, at: WaitScene) -> None:
    for object_id in ("c1", "c2"):
        about = {"object_id": ObjectId(object_id), "body": json.dumps({"cart_id": object_id})}
        begin = at.begin_and_look if object_id == looked else at.begin
        begin(for_paid, request_id=RequestId(f"run-{object_id}"), **about)
        at.waiting("answers")
    _, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (ending.ack, ending.again_in, len(at.waiting("carts"))) == (False, 20, 1)


@pytest.mark.parametrize("queued", [True, False])
def test_a_second_click_before_the_run_goes_on_sends_no_second_message(queued: bool, at: WaitScene) -> None:
    """The resumed hop would send its own mails again for a copy of its message."""
    at.begin_and_look(for_paid)
    assert outside(at).settle(GIVEN, envelope(), queued=queued)[1].ack
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=queued)
    assert (verdict, ending.ack) == (AnswerVerdict.DUPLICATE, not queued)
    assert len(at.waiting("carts")) == 1


def test_a_wait_beside_which_nothing_is_sent_needs_no_look(at: WaitScene) -> None:
    SCRIPT.mails = False
    at.begin(for_paid)
    assert outside(at).settle(GIVEN, envelope(), queued=True)[1].ack
    assert at.resume() == 1


def test_an_answer_that_nobody_repeats_leaves_a_copy_in_the_queue_of_answers(at: WaitScene) -> None:
    at.begin_and_look(for_paid)
    at.waiting("answers")
    assert outside(at).settle(GIVEN, envelope(), queued=False)[0] is AnswerVerdict.RESUMED
    [copy] = at.waiting("answers")
    assert copy["body"] == '{"status":"COMPLETED","result":7}'


def test_one_of_two_runs_that_is_not_committed_yet_keeps_the_record(at: WaitScene) -> None:
    at.begin_and_look(for_paid)
    other = ADDRESS._replace(hop=2)
    at.waits.save([AwaitingRow("paid", other, "some", START)])
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack, ending.why) == (AnswerVerdict.EARLY, False, "its hop is not committed yet")
    assert ending.backs_off, "it comes again after a growing pause, however long the hop takes"


class Refusing:
    """Takes nothing for one object."""

    def __init__(self, sender: Any, object_id: str, *, for_minutes: bool = False) -> None:
        self._sender = sender
        self._object_id = object_id
        self._refusal = Refusal("throttled", for_minutes=for_minutes)

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        refused = {place: self._refusal for place, one in enumerate(sends) if one.group == self._object_id}
        taken = [one for place, one in enumerate(sends) if place not in refused]
        return {**refused, **self._sender.send(taken)}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        raise AssertionError("nothing is postponed here")

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        raise AssertionError("nothing is postponed here")


@pytest.mark.parametrize("for_minutes", [False, True], ids=["throttled", "denied"])
@pytest.mark.parametrize("refused", ["c1", "c2"])
def test_the_next_hop_of_one_run_that_is_not_taken_keeps_the_record(
    refused: str, for_minutes: bool, at: WaitScene
) -> None:
    at.begin_and_look(for_paid)
    at.begin_and_look(for_paid, object_id=ObjectId("c2"), body='{"cart_id":"c2"}', request_id=RequestId("run-2"))
    services = at.services._replace(sender=Refusing(at.services.sender, refused, for_minutes=for_minutes))
    settling = ExternalAnswers(services, Emitter(services.observer))
    verdict, ending = settling.settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack, ending.for_minutes) == (AnswerVerdict.RESUMED, False, for_minutes)
    assert "throttled" in ending.why


class Noting(Refusing):
    """Notes what kinds of messages are to be sent."""

    kinds: tuple[Kind, ...] = ()

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        self.kinds = (*self.kinds, *(one.kind for one in sends))
        return super().send(sends)


def test_a_next_hop_that_is_denied_to_an_answer_over_http_is_left_to_the_copy(at: WaitScene) -> None:
    at.begin_and_look(for_paid)
    sender = Noting(at.services.sender, "c1", for_minutes=True)
    services = at.services._replace(sender=sender)
    [over_http] = normalize({}, invocation_id="paid")
    assert isinstance(over_http, Envelope)
    verdict, _ = ExternalAnswers(services, Emitter(services.observer)).settle(GIVEN, over_http, queued=False)
    assert verdict is AnswerVerdict.RESUMED
    assert sender.kinds == (Kind.SIDE, Kind.NEXT), "its copy sends it again; a dead letter would be a false alarm"


def test_a_next_hop_that_is_denied_for_minutes_to_an_answer_of_a_queue_is_parked(
    at: WaitScene, denied_for_minutes: None
) -> None:
    at.begin_and_look(for_paid)
    sender = Noting(at.services.sender, "c1", for_minutes=True)
    services = at.services._replace(sender=sender)
    verdict, _ = ExternalAnswers(services, Emitter(services.observer)).settle(GIVEN, again(START, 3), queued=True)
    assert verdict is AnswerVerdict.RESUMED
    assert sender.kinds == (Kind.NEXT, Kind.DEAD), "it has no copy"


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
    at.begin_and_look(for_paid, object_id=ObjectId("c2"), body='{"cart_id":"c2"}', request_id=RequestId("run-2"))


@pytest.mark.parametrize("queued", [True, False])
def test_a_row_whose_run_is_over_keeps_no_answer_from_the_others(queued: bool, at: WaitScene) -> None:
    at.begin_and_look(for_paid)
    row_of(at, "gone")
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=queued)
    assert (verdict, ending.ack) == (AnswerVerdict.RESUMED, True)


def test_an_answer_to_runs_that_are_over_has_their_verdict(at: WaitScene) -> None:
    row_of(at, "c1")
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack) == (AnswerVerdict.EXPIRED, True)


@pytest.mark.parametrize(
    ("only", "names", "went_on"),
    [
        (None, (), ["c1", "c2"]),
        (("c2", "run-2", START), (), ["c2"]),
        (("c2", "run-2", START), ("a",), ["c2"]),
        (("c2", "run-2", START), ("b",), []),
        (("c1", "run-2", START), (), []),
        (("c2", "run-1", START), (), []),
        (("c2", "run-2", START + 1), (), []),
    ],
)
def test_an_answer_may_be_for_one_run_of_those_that_wait_for_its_id(
    only: tuple[ObjectId, RequestId, int] | None, names: tuple[str, ...], went_on: list[str], at: WaitScene
) -> None:
    at.begin_and_look(for_paid)
    second(at)
    verdict, _ = outside(at).settle(GIVEN._replace(only=only, names=names), envelope(), queued=False)
    assert verdict is (AnswerVerdict.RESUMED if went_on else AnswerVerdict.UNKNOWN)
    waits = {cart: at.item(cart).wait for cart in ("c1", "c2")}
    assert [cart for cart, wait in waits.items() if wait is None or wait.end is not None] == went_on
    assert len(at.waiting("answers")) == len(went_on), "nobody else gets a copy"


@pytest.mark.parametrize("hop", [1, 2], ids=["waiting", "early"])
def test_an_answer_that_one_of_two_runs_cannot_read_stays_for_it(hop: int, at: WaitScene) -> None:
    at.begin_and_look(for_paid)
    second(at)
    [row] = [one for one in at.waits.waiting_for("carts", "paid") if one.address.object_id == "c2"]
    at.rewrite(row, stage="renamed", address=row.address._replace(hop=hop))
    for _ in range(2):  # its queue delivers it again
        with pytest.raises(RunFailed, match="carts has no stage 'renamed'"):
            outside(at).settle(GIVEN, envelope(), queued=True)
    item = at.item("c1")
    assert item.wait is None or not item.wait.waiting or item.wait.end is not None


@pytest.mark.parametrize("stage", ["a-renamed", "z-renamed"])
@pytest.mark.parametrize("days", [-30, 0, 30])
def test_a_late_worker_of_another_release_keeps_no_answer_from_the_run(stage: str, days: int, at: WaitScene) -> None:
    """It saves its rows after another attempt was committed, whose wait was longer, as long or shorter."""
    at.begin_and_look(for_paid)
    [row] = at.waits.waiting_for("carts", "paid")
    at.waits.save([row._replace(stage=stage, expires_at=row.expires_at + days * DAY)])
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack) == (AnswerVerdict.RESUMED, True)
    assert [one.stage for one in at.waits.waiting_for("carts", "paid")] == ["some"]


@pytest.mark.parametrize(("stage", "late", "failed"), [("admits", "some", 0), ("some", "admits", 1)])
def test_a_failure_counts_as_the_stage_of_the_committed_attempt_says(
    stage: str, late: str, failed: int, at: WaitScene
) -> None:
    kinds: dict[str, Any] = {"some": AnyOf, "admits": Admits}
    names = "abc" if stage == "admits" else "a"
    at.begin_and_look(
        lambda step: kinds[stage].when_all(**{name: step.event(f"paid-{name}") for name in names}, within=WITHIN)
    )
    [row] = at.waits.waiting_for("carts", "paid-a")
    at.waits.save([row._replace(stage=late)])
    refused = GIVEN._replace(awaited_id="paid-a", answer=failed_answer("Refused", "no"))
    outside(at).settle(refused, envelope(), queued=True)
    assert (at.wait.spare < 0) == bool(failed)


def test_of_rows_of_several_releases_one_is_met_before_the_commit_and_after_the_run(at: WaitScene) -> None:
    at.begin_and_look(for_paid)
    [row] = at.waits.waiting_for("carts", "paid")
    at.waits.save([row._replace(stage=stage, address=row.address._replace(hop=2)) for stage in ("renamed", "some")])
    assert sorted(one.address.hop for one in at.waits.waiting_for("carts", "paid")) == [1, 2]
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack) == (AnswerVerdict.EARLY, False), "its hop may be committed yet"
    at.resume()
    verdict, ending = outside(at).settle(GIVEN, envelope(), queued=True)
    assert (verdict, ending.ack) == (AnswerVerdict.DUPLICATE, True)


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


class BuggedCarts(Flow, name="carts", object_id="cart_id", trust_senders=True):
    stages = (Bugged,)


def test_a_bug_in_a_validator_is_no_refusal_of_the_answer(at: WaitScene) -> None:
    row_of(at, "gone", stage="some")
    with pytest.raises(RuntimeError, match="a validator with a bug"):
        outside(at).settle(ExternalAnswer(BuggedCarts, "paid", GivenAnswer('{"a":7}')), envelope(), queued=True)


# -- the copy ----------------------------------------------------------------------------------------------------------


def test_the_copy_says_what_it_is_for_and_names_itself(at: WaitScene) -> None:
    found = answer_message(GIVEN, ROW, START, at.services)
    assert (found.kind, found.to) == (Kind.SIDE, Carts.answers)
    assert re.sub("[0-9a-f]{16}", "…", found.id) == "run-1-….1.answer.…"
    assert found.attributes == {
        REQUEST_ID: Attribute.string(found.id),
        REQUESTED_AT: Attribute.number(START),
        PLACE: Attribute.string(json.dumps({"answer": ADDRESS.as_json()}, separators=(",", ":"))),
    }
    assert found.delay == 20, "it comes when the run has gone on, and sends its message no second time"


def test_the_copy_of_a_failure_is_a_failure(at: WaitScene) -> None:
    failed = GivenAnswer('{"failed":true,"type":"OutOfStock","text":"none left"}', failed=True)
    found = answer_message(GIVEN._replace(answer=failed), ROW, START, at.services)
    assert json.loads(found.body) == {"status": "FAILED", "error": "OutOfStock: none left"}


class BelievesSigned(Flow, name="carts", object_id="cart_id"):
    stages = STAGES


def test_no_copy_is_sent_that_its_flow_would_not_believe(at: WaitScene) -> None:
    row_of(at, "c1", stage="some")
    with pytest.raises(SettingsError, match="carts believes answers only with a signature"):
        outside(at).settle(GIVEN._replace(flow=BelievesSigned), envelope(), queued=False)
    assert at.waiting("answers") == []


# -- reading -----------------------------------------------------------------------------------------------------------


class Declares(
    Flow,
    name="declares",
    object_id="cart_id",
    callbacks=(
        Callback("parcels", id="ref", failed="error"),
        Callback("payments", keep_early=timedelta(hours=1)),
    ),
    trust_senders=True,
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
    trust_senders=True,
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


def read(flows: list[AnyFlow], found: Envelope) -> ExternalAnswer | None:
    answers = read_outside(found, NamedQueues(flows))
    assert len(answers) <= 1
    return answers[0] if answers else None


def test_a_record_is_read_as_each_callback_of_its_queue_says() -> None:
    parties = (Callback("parcels", id="ref"), Callback("parcels", id="of"))

    class Again(Flow, name="again", object_id="cart_id", callbacks=parties, trust_senders=True):
        stages = STAGES

    queues = NamedQueues([Declares, Again])
    both = read_outside(envelope({"ref": "r", "of": "o"}), queues)
    assert [(answer.flow, answer.awaited_id) for answer in both] == [(Declares, "r"), (Again, "r"), (Again, "o")]
    [last] = read_outside(envelope({"of": "o"}), queues)
    assert last.awaited_id == "o", "what names nothing as one of them says may do so as another says"
    with pytest.raises(EnvelopeError, match=r"body\.ref"):
        read_outside(envelope({}), queues)


def test_an_event_is_known_by_its_source_and_type() -> None:
    assert read([DeclaresMore], bus_event()) == ExternalAnswer(DeclaresMore, "payment/o1", GivenAnswer("7"))
    assert read([DeclaresMore], bus_event(source="another")) is None
    assert read([DeclaresMore], bus_event(detail_type="Refused")) is None


def test_a_message_of_no_topic_and_no_bus_is_neither() -> None:
    assert read([DeclaresMore], envelope({"ref": "r"}, "parcels")) is None


@pytest.mark.parametrize(("error", "failed"), [({"code": 7}, True), ({"code": 0}, False), ("code", False), (7, False)])
def test_a_field_is_found_in_objects_only(error: object, failed: bool) -> None:
    found = read([DeclaresMore], envelope({"ref": "r", "error": error}, "elsewhere"))
    assert found is not None
    assert found.answer.failed is failed


def test_an_answer_that_json_cannot_write_is_refused_by_its_record() -> None:
    with pytest.raises(EnvelopeError, match="body"):
        read([Declares], envelope('{"ref": "r", "text": "\\ud800"}'))


class DeclaresOne(
    Flow, name="declares-one", object_id="cart_id", callbacks=(Callback("parcels", id="ref"),), trust_senders=True
):
    stages = STAGES


class DeclaresTopic(
    Flow,
    name="declares-topic",
    object_id="cart_id",
    callbacks=(Callback(Topic("arn:aws:sns:eu-west-1:123456789012:parcels"), id="ref"),),
    trust_senders=True,
):
    stages = STAGES


def test_a_record_of_no_declared_queue_is_no_answer() -> None:
    elsewhere = envelope({"ref": "r"}, "elsewhere")
    for flow in (Declares, DeclaresOne):
        assert read([flow], elsewhere) is None
    assert read([], elsewhere) is None


def test_what_names_no_source_is_the_answer_of_the_only_callback_that_may_have_sent_it() -> None:
    raw = envelope({"ref": "r"}, "declares-topic-parcels")
    [invoked] = normalize({"ref": "r"}, invocation_id="i")
    assert isinstance(invoked, Envelope)
    for flow, came in ((DeclaresTopic, raw), (DeclaresTopic, invoked), (DeclaresOne, invoked)):
        found = read([flow], came)
        assert found is not None
        assert found.awaited_id == "r"
    assert read([DeclaresTopic, DeclaresOne], raw) is None


def test_the_words_of_a_failure_are_kept_as_they_are() -> None:
    found = read([Declares], envelope({"ref": "r", "error": "gone"}))
    assert found is not None
    assert json.loads(found.answer.text)["text"] == "gone"
    assert found.answer.failed


def test_where_no_field_names_what_is_awaited_the_messages_own_id_does() -> None:
    found = read([Declares], envelope("paid", "payments", uniquerequestid="r"))
    assert found == ExternalAnswer(Declares, "r", GivenAnswer('"paid"'), timedelta(hours=1))
    with pytest.raises(EnvelopeError, match=r"attributes\.uniquerequestid.*is not there, and names what is awaited"):
        read([Declares], envelope("paid", "payments"))


# -- many who wait for one id ------------------------------------------------------------------------------------------


class Invocation:
    """The time that an invocation has left each time it looks, in ms."""

    def __init__(self, *left: int) -> None:
        self._left = iter(left)

    def remaining(self) -> int | None:
        return next(self._left)


PARTS = 2
"""Runs a part, so that a few are several parts."""


def wait_for_paid(at: WaitScene, runs: int) -> None:
    """Let so many runs begin to wait for one event."""
    for number in range(runs):
        named = f"c{number}"
        at.begin_and_look(
            for_paid,
            object_id=ObjectId(named),
            body=json.dumps({"cart_id": named}),
            request_id=RequestId(f"run-{number}"),
        )
    at.waiting("carts")


@pytest.fixture
def many(at: WaitScene, monkeypatch: pytest.MonkeyPatch) -> WaitScene:
    """Seven runs that wait for one event."""
    monkeypatch.setattr("flowguard.worker.external_answers.ROWS_A_PART", PARTS)
    wait_for_paid(at, 7)
    return at


def spread(at: WaitScene, *left: int, given: ExternalAnswer = GIVEN, queued: bool = True) -> tuple[Any, Any]:
    settling = ExternalAnswers(at.services, Emitter(at.services.observer), Invocation(*left))
    return settling.settle(given, envelope(), queued=queued)


def test_what_many_wait_for_is_settled_in_parts_and_each_part_goes_on_at_once(many: WaitScene) -> None:
    plenty, little = KEPT_TO_END_MS + 1, KEPT_TO_END_MS
    _, ending = spread(many, plenty, little)
    assert (ending.ack, ending.again_in, ending.why) == (False, 0, "4 runs have it, and more wait for it")
    assert many.verdicts() == ["RESUMED"] * 4
    assert len(many.waiting("carts")) == 4, "their next hops are sent before the others are settled"
    _, ending = spread(many, plenty)
    assert ending.ack
    assert many.verdicts() == ["RESUMED"] * 7, "nobody is settled twice"
    assert len(many.waiting("carts")) == 3


def test_a_worker_that_dies_in_a_part_leaves_the_place_before_it(many: WaitScene) -> None:
    spread(many, 0)
    services = many.services._replace(sender=Refusing(many.services.sender, "nobody"))
    settling = ExternalAnswers(services, Emitter(services.observer), Invocation(10_000, 10_000, 10_000))

    def no_more(call: ApiCall, proceed: Proceed, /) -> Response:
        raise ConnectionError

    with intercept(no_more), pytest.raises(ConnectionError):
        settling.settle(GIVEN, envelope(), queued=True)
    _, ending = spread(many, 10_000, 10_000, 10_000)
    assert ending.ack
    assert many.verdicts() == ["RESUMED"] * 7


def test_a_run_that_is_not_committed_yet_is_met_again_whatever_came_after_it(many: WaitScene) -> None:
    rows = list(many.waits.waiting_for("carts", "paid"))
    early = rows[2].address._replace(hop=2)
    many.waits.save([AwaitingRow("paid", early, "some", START)])
    order = [row.address for row in many.waits.waiting_for("carts", "paid")]
    _, ending = spread(many, *[10_000] * 3, 0)
    assert not ending.ack
    before = len(many.verdicts())
    _, ending = spread(many, *[10_000] * 4)
    assert (ending.ack, ending.why) == (False, "its hop is not committed yet")
    assert len(many.verdicts()) - before == len(order) - order.index(early) // PARTS * PARTS


def test_a_run_that_is_left_to_another_message_is_met_again_whatever_came_after_it(many: WaitScene) -> None:
    """The worker that ended its wait died before it could send anything, and this invocation has no time for all."""
    first = next(iter(many.waits.waiting_for("carts", "paid")))
    many.waits.settle(first.address, GivenAnswer("7"))
    for left in ([0], [10_000, 0]):
        _, ending = spread(many, *left)
        assert (ending.ack, ending.again_in, ending.why) == (False, 20, HELD)
    many.resume()
    assert many.item(first.address.object_id).status is Status.WAITING
    many.clock.advance(seconds=20)
    settling = ExternalAnswers(many.services, Emitter(many.services.observer), Invocation(0))
    assert settling.settle(GIVEN, again(START), queued=True)[1].again_in == 0
    many.resume()
    assert many.item(first.address.object_id).status is Status.COMPLETED


def test_another_message_for_the_same_id_begins_with_the_first(many: WaitScene) -> None:
    spread(many, 0)
    assert len(list(many.waits.waiting_for("carts", "paid", "another"))) == 7
    assert len(list(many.waits.waiting_for("carts", "paid", envelope().own_id))) == 7 - PARTS


def test_the_copies_of_an_answer_that_nobody_repeats_are_put_into_the_queue_part_by_part(many: WaitScene) -> None:
    many.waiting("answers")
    spread(many, 0, queued=False)
    assert len(many.waiting("answers")) == PARTS


@pytest.mark.proof("two thousand runs begin to wait and go on")
def test_a_thousandfold_event_is_delivered_whole_by_invocations_that_have_time_for_ten_parts(at: WaitScene) -> None:
    count, parts = 2_000, 10
    wait_for_paid(at, count)
    deliveries, onward, acked = 0, 0, False
    while not acked and deliveries < count:
        _, ending = spread(at, *[10_000] * (parts - 1), 0)
        deliveries, onward, acked = deliveries + 1, onward + len(at.waiting("carts")), ending.ack
    assert (acked, onward) == (True, count)
    assert at.verdicts() == ["RESUMED"] * count, "nobody is met twice"
    assert deliveries == count // (parts * ROWS_A_PART) + 1, "the last finds nobody left"


def test_where_no_time_is_set_all_get_it_however_many_wait(many: WaitScene) -> None:
    _, ending = outside(many).settle(GIVEN, envelope(), queued=True)
    assert ending.ack
    assert many.verdicts() == ["RESUMED"] * 7


def test_the_ending_of_a_record_that_is_seen_again_has_the_verdict_of_those_that_have_the_answer(
    many: WaitScene,
) -> None:
    verdict, ending = spread(many, 0)
    assert (ending.ack, ending.verdict, verdict) == (False, AnswerVerdict.RESUMED, AnswerVerdict.RESUMED)


def refusing(at: WaitScene, *left: int) -> ExternalAnswers:
    """Nothing is taken for the first one who waits."""
    first = next(iter(at.waits.waiting_for("carts", "paid"))).address.object_id
    services = at.services._replace(sender=Refusing(at.services.sender, first))
    return ExternalAnswers(services, Emitter(services.observer), Invocation(*left))


@pytest.mark.parametrize("left", [[0], [10_000, 0], [10_000] * 3])
def test_a_next_hop_that_is_not_taken_is_met_again_whatever_came_after_it(many: WaitScene, left: list[int]) -> None:
    _, ending = refusing(many, *left).settle(GIVEN, envelope(), queued=True)
    assert (ending.ack, ending.backs_off, ending.again_in) == (False, True, None)
    assert "throttled" in ending.why
    assert len(list(many.waits.waiting_for("carts", "paid", envelope().own_id))) == 7, "it begins with the first"


@pytest.mark.parametrize("left", [[10_000, 0], [10_000] * 3])
def test_a_run_that_cannot_read_it_is_met_again_whatever_came_after_it(many: WaitScene, left: list[int]) -> None:
    first = next(iter(many.waits.waiting_for("carts", "paid")))
    many.rewrite(first, stage="renamed")
    with pytest.raises(RunFailed, match="carts has no stage 'renamed'"):
        spread(many, *left)
    assert len(list(many.waits.waiting_for("carts", "paid", envelope().own_id))) == 7, "it begins with the first"


# -- an early answer is for one wait -----------------------------------------------------------------------------------

KEPT = ExternalAnswer(Carts, "paid", GivenAnswer("7"), timedelta(hours=1))


def for_early_paid(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(a=step.event("paid", keep_early=True), within=WITHIN)


def sent_at(by: str, moment: int, receives: int = 1) -> Envelope:
    """The message of this id that was sent to the callback's queue at that moment."""
    received = normalize_record({**record({}, "{}", "parcels"), "messageId": by})
    assert isinstance(received, Envelope)
    counted = {"SentTimestamp": str(moment), "ApproximateReceiveCount": str(receives)}
    sent = {**received.received["attributes"], **counted}
    return received._replace(received={**received.received, "attributes": sent})


def comes(at: WaitScene, text: str, by: str, moment: int) -> None:
    """An answer comes through its queue, as a message of its own."""
    at.move_to(moment)
    outside(at).settle(KEPT._replace(answer=GivenAnswer(text)), sent_at(by, moment), queued=True)


def by_sns(body: str, published: str) -> str:
    arn = "arn:aws:sns:us-east-1:123456789012:told"
    said = {"Type": "Notification", "MessageId": "n-1", "TopicArn": arn, "Timestamp": published}
    return json.dumps({**said, "Message": body, "Signature": "s", "SignatureVersion": "1", "UnsubscribeURL": "u"})


@pytest.mark.parametrize(
    ("body", "sent", "given_at"),
    [
        (by_sns("{}", "2027-01-15T07:59:59.000Z"), {"SentTimestamp": str(START - 500)}, START - 1_000),
        ("{}", {"SentTimestamp": str(START - 500)}, START - 500),
        ("{}", {}, START),
    ],
    ids=["by a topic", "by a queue", "by nobody who says when"],
)
def test_an_early_answer_is_as_old_as_the_first_who_took_it_says(
    at: WaitScene, body: str, sent: dict[str, str], given_at: int
) -> None:
    came = normalize_record({**record({}, body, "parcels"), "attributes": sent})
    outside(at).settle(KEPT, came, queued=True)
    [item] = at.aws.client("dynamodb").scan(TableName="flowguard")["Items"]
    assert item["given_at"] == {"N": str(given_at)}


def begins(at: WaitScene, number: int) -> None:
    at.begin_and_look(for_early_paid, request_id=RequestId(f"run-{number}"), requested_at=START + number)


def got(at: WaitScene) -> list[int | None]:
    at.resume()
    return [payload.a for _, payload in SCRIPT.got]


def test_an_answer_that_a_run_waited_for_is_not_the_next_ones(at: WaitScene) -> None:
    begins(at, 1)
    comes(at, "7", "m-1", START + 10)
    assert got(at) == [7]
    begins(at, 2)
    assert got(at) == [7], "it waits for an answer of its own"
    comes(at, "8", "m-2", START + 20)
    assert got(at) == [7, 8]


@pytest.mark.parametrize("waits_first", [False, True])
def test_a_copy_that_comes_after_keep_early_is_not_the_next_runs(at: WaitScene, waits_first: bool) -> None:
    """A queue keeps its messages longer than a callback its early answers."""
    if waits_first:
        begins(at, 1)
    comes(at, "7", "m-1", START + 10)
    if not waits_first:
        begins(at, 1)
    assert got(at) == [7]
    at.clock.advance(seconds=7_200)
    outside(at).settle(KEPT, sent_at("m-1", START + 10), queued=True)
    begins(at, 2)
    assert got(at) == [7]


def test_a_run_goes_on_with_the_first_of_two_early_answers_of_which_it_needs_one(at: WaitScene) -> None:
    SCRIPT.mails = False
    comes(at, "7", "m-1", START + 10)
    outside(at).settle(KEPT._replace(awaited_id="shipped"), sent_at("m-2", START + 20), queued=True)

    def waits(step: Step[Progress]) -> Outcome:
        a, b = (step.event(name, keep_early=True) for name in ("paid", "shipped"))
        return AnyOf.when_any(a=a, b=b, within=WITHIN)

    at.begin(waits)
    assert got(at) == [7]
    assert at.waits.early("carts", "shipped", START + 30, "another") is not None, "nobody has used it"


def test_an_early_answer_is_used_up_by_the_wait_that_it_ends(at: WaitScene) -> None:
    comes(at, "7", "m-1", START + 10)
    begins(at, 1)
    assert got(at) == [7]
    begins(at, 2)
    assert got(at) == [7]
    used = [event for event in at.tally.events if event.facts.get("was_early")]
    assert [event.facts["verdict"] for event in used] == ["RESUMED"]


def test_a_newer_answer_takes_the_place_of_an_early_one_that_nobody_used(at: WaitScene) -> None:
    comes(at, "7", "m-1", START + 10)
    comes(at, "8", "m-2", START + 20)
    comes(at, "7", "m-1", START + 10)
    begins(at, 1)
    assert got(at) == [8]
    replaced = [event.facts for event in at.tally.events if event.facts.get("replaces")]
    assert replaced == [{"flow": "carts", "id": "paid", "verdict": "EARLY", "replaces": True}]


def test_a_newer_answer_that_comes_when_a_run_has_one_is_the_next_ones(at: WaitScene) -> None:
    begins(at, 1)
    comes(at, "7", "m-1", START + 10)
    comes(at, "8", "m-2", START + 20)
    assert got(at) == [7]
    begins(at, 2)
    assert got(at) == [7, 8]


@pytest.mark.parametrize("after", [False, True])
def test_a_worker_that_dies_while_it_takes_an_early_answer_has_taken_it_or_left_it(after: bool, at: WaitScene) -> None:
    """Meanwhile the answer's time to be kept is over: only what was taken is there."""
    comes(at, "7", "m-1", START + 10)
    at.clock.advance(seconds=3_500)

    def dies(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "TransactWriteItems" and not after:
            raise Died
        answer = proceed()
        if call.operation == "TransactWriteItems":
            raise Died
        return answer

    with intercept(dies), suppress(Died):
        begins(at, 1)
    at.clock.advance(seconds=120)
    begins(at, 1)
    assert got(at) == ([7] if after else [])

"""Who is answered with which end, in which order, and what is lost where nobody takes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.errors import SendFailed, TextGone
from flowguard.events import EventType, Tally
from flowguard.flow import ATTACH, AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.callers import Caller, Callers, LeftEnd, StoredEnd, asker_key
from flowguard.protocol.outbox import Outbox, Send
from flowguard.protocol.run import Claim, ResetOnce, RunItem, Status
from flowguard.verdicts import Verdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize_record
from flowguard.wire.message import Message
from flowguard.worker.caller_answers import ASKERS_A_CALL, MOST_ASKERS, CallerAnswers
from flowguard.worker.emitter import Emitter
from flowguard.worker.lifetimes import Lifetimes
from flowguard.worker.place_store import PlaceStore
from flowguard.worker.ports import CallerLists, Refusal, Services
from flowguard.worker.routing import Arrival
from tests.protocol.run_items import run_item
from tests.scene import Orders, Script, record, two_stages
from tests.worker.test_batch import Others

NOW = 1_800_000_000_000
KEPT = timedelta(days=14) // timedelta(milliseconds=1)
OBJECT, RUN, OLDER = ObjectId("o1"), RequestId("run-2"), RequestId("run-1")


class Shared(Flow, name="orders", object_id="order_id", on_conflict=ATTACH, dead_letters="dead"):
    stages = two_stages(Script())


# -- what stands in for AWS -------------------------------------------------------------------------------------------


@dataclass
class Lists:
    """Lists of callers with these pages of rows. ``done`` is what was done, in order."""

    done: list[tuple[Any, ...]]
    pages: Sequence[Sequence[Caller]] = ()
    are_open: bool = True

    def attach(
        self, flow: str, object_id: ObjectId, callers: Callers, caller: Caller, until: int, row_until: int
    ) -> bool:
        assert row_until == Lifetimes(Shared).of_caller(NOW)
        self.done.append(("attach", flow, object_id, callers.term, caller.request_id, until))
        return self.are_open

    def rows(self, flow: str, object_id: ObjectId, term: str) -> Iterable[Sequence[Caller]]:
        self.done.append(("rows", flow, object_id, term))
        return self.pages

    def forget(self, flow: str, object_id: ObjectId, term: str, callers: Sequence[Caller]) -> None:
        self.done.append(("forget", term, *(one.request_id for one in callers)))

    def reset(
        self, flow: str, object_id: ObjectId, by: str, at: int, now: int, order: ResetOnce | None = None
    ) -> RunItem | None:
        raise AssertionError("nothing is reset")

    def stored_end(self, flow: str, object_id: ObjectId) -> StoredEnd | None:
        raise AssertionError("no end is read")

    def forget_askers(self, flow: str, object_id: ObjectId, keys: Sequence[str]) -> None:
        self.done.append(("forget askers", *keys))


@dataclass
class World(Others):
    """Store and sender. What goes to a destination of ``refusing`` is refused so."""

    done: list[tuple[Any, ...]] = field(default_factory=list)
    pages: Sequence[Sequence[Caller]] = ()
    are_open: bool = True
    refusing: Mapping[str, Refusal] = field(default_factory=dict)
    told: Tally = field(default_factory=Tally)

    @property
    def places(self) -> PlaceStore:
        raise AssertionError("no stage here has a limit")

    @property
    def callers(self) -> CallerLists:
        return Lists(self.done, self.pages, self.are_open)

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        self.done += [("send", str(one.to), request_of(one)) for one in sends]
        return {place: self.refusing[str(one.to)] for place, one in enumerate(sends) if str(one.to) in self.refusing}

    @property
    def answering(self) -> CallerAnswers:
        return CallerAnswers(
            Services(store=self, sender=self, clock=ManualClock(NOW), observer=self.told), Emitter(self.told)
        )

    def lost(self) -> list[Mapping[str, Any]]:
        return [event.facts for event in self.told.events if event.type is EventType.LOST]


def request_of(send: Send) -> str:
    return str(json.loads(send.body)["request_id"])


def arrival(flow: AnyFlow = Shared, **changes: Any) -> Arrival:
    message = Message("orders", "price-order", 1, OBJECT, RUN, NOW - 1_000, '{"order_id":"o1"}')._replace(**changes)
    envelope = normalize_record(record(message))
    assert isinstance(envelope, Envelope)
    return Arrival(envelope, flow, None, message)


def caller(number: int, **more: Any) -> Caller:
    return Caller(RequestId(f"caller-{number}"), 500, "sqs:replies", **more)


def callers(*numbers: int, rows: bool = False) -> Callers:
    return Callers("term-1", {caller(number).key: caller(number).to_text() for number in numbers}, rows)


def item(**changes: Any) -> RunItem:
    """The item of a run that has ended, and whose list of callers is closed."""
    found = run_item(
        request_id=OLDER,
        requested_at=1_000,
        status=Status.COMPLETED,
        stage="close-order",
        lease_until=0,
        committed_at=NOW - 5_000,
        result='{"total":7}',
        answered=callers(1, 2),
        answered_by=OLDER,
    )
    return found._replace(**changes)


def claim(message: Message, **changes: Any) -> Claim:
    return Claim(message, item(request_id=RUN, status=Status.RUNNING, answered=None, **changes), None)


def bodies(sends: Sequence[Send]) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in sends]


# -- attaching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("are_open", [True, False])
def test_a_caller_is_attached_where_the_list_is_still_open(are_open: bool) -> None:
    world = World(are_open=are_open)
    asks = arrival(reply_to="sqs:replies")
    assert world.answering.attach(asks, item(callers=callers())) is are_open
    assert world.done == [("attach", "orders", OBJECT, "term-1", RUN, Lifetimes(Shared).of_run(NOW))]


def test_a_request_that_wants_no_answer_is_attached_to_nothing_and_where_there_is_no_list_none_is() -> None:
    world = World()
    assert world.answering.attach(arrival(), item(callers=callers()))
    assert world.answering.attach(arrival(), item(callers=None))
    assert not world.answering.attach(arrival(reply_to="sqs:replies"), item(callers=None))
    assert world.done == []


def test_an_item_that_is_to_be_there_for_longer_is() -> None:
    world = World()
    later = Lifetimes(Shared).of_run(NOW) // 1_000 + 60
    world.answering.attach(arrival(reply_to="sqs:replies"), item(callers=callers(), ttl=later))
    assert world.done[0][-1] == later * 1_000


# -- answers of a run that has ended ----------------------------------------------------------------------------------


def test_those_whom_the_item_holds_get_the_end_and_no_row_is_read() -> None:
    world = World()
    answers = bodies(world.answering.answered(arrival(), item()))
    assert {(one["request_id"], one["run"], one["status"]) for one in answers} == {
        ("caller-1", "run-1", "COMPLETED"),
        ("caller-2", "run-1", "COMPLETED"),
    }
    assert [one["result"] for one in answers] == [{"total": 7}] * 2
    assert world.done == []


@pytest.mark.parametrize(
    "changes", [{"answered": None}, {"answered_by": RUN}, {"status": Status.RUNNING}, {"status": Status.WAITING}]
)
def test_a_run_that_has_not_ended_or_another_ones_list_is_answered_by_nobody(changes: dict[str, Any]) -> None:
    assert World().answering.answered(arrival(), item(**changes)) == ()


def test_a_failed_run_answers_with_its_error_and_a_completed_one_without_that_of_an_earlier_attempt() -> None:
    answering, asks = World().answering, arrival(reply_to="sqs:replies")
    [failed] = bodies(answering.answer(asks, item(status=Status.FAILED, error="Boom: no", result=None)))
    [unsaid] = bodies(answering.answer(asks, item(status=Status.FAILED, error=None, result=None)))
    [completed] = bodies(answering.answer(asks, item(error="Boom: no")))
    assert (failed["status"], failed["error"], unsaid["error"]) == ("FAILED", "Boom: no", "")
    assert "error" not in completed


def test_a_request_that_wants_no_answer_gets_none() -> None:
    assert World().answering.answer(arrival(), item()) == ()


def test_an_end_that_is_gone_is_no_answer() -> None:
    gone = TextGone("texts", "result-1", "NoSuchKey")
    for found in (World().answering.answered, World().answering.answer):
        with pytest.raises(TextGone):
            found(arrival(reply_to="sqs:replies"), item(lost=gone))


def test_rows_are_answered_page_by_page_each_before_it_is_forgotten() -> None:
    world = World(pages=[[caller(3), caller(4)], [caller(5)]])
    left = world.answering.answered(arrival(), item(answered=callers(1, rows=True)))
    assert world.done == [
        ("rows", "orders", OBJECT, "term-1"),
        ("send", "sqs:replies", "caller-3"),
        ("send", "sqs:replies", "caller-4"),
        ("forget", "term-1", "caller-3", "caller-4"),
        ("send", "sqs:replies", "caller-5"),
        ("forget", "term-1", "caller-5"),
    ]
    assert [request_of(one) for one in left] == ["caller-1"]


def test_a_caller_whom_nothing_can_be_sent_is_lost_and_keeps_no_other_from_its_answer() -> None:
    world = World(pages=[[caller(3, carried={"tenant": Attribute.string("\0")}), caller(4)]])
    world.answering.answered(arrival(), item(answered=callers(rows=True)))
    assert [one for one in world.done if one[0] == "send"] == [("send", "sqs:replies", "caller-4")]
    [facts] = world.lost()
    assert (facts["for_request"], facts["to"]) == ("caller-3", "sqs:replies")
    assert "a message to sqs:replies" in facts["why"]


# -- answers that are sent for another run ----------------------------------------------------------------------------


def test_what_is_not_taken_now_keeps_the_record_and_its_rows() -> None:
    world = World(pages=[[caller(3)]], refusing={"sqs:replies": Refusal("throttled")})
    with pytest.raises(SendFailed, match="sqs:replies"):
        world.answering.answered(arrival(), item(answered=callers(rows=True)))
    assert [one[0] for one in world.done] == ["rows", "send"]
    assert world.lost() == []


def test_what_is_refused_for_good_and_cannot_be_parked_is_lost_and_the_record_goes_on() -> None:
    refusing = {name: Refusal("no such queue", final=True) for name in ("sqs:replies", "sqs:dead")}
    world = World(pages=[[caller(3)]], refusing=refusing)
    world.answering.answered(arrival(), item(answered=callers(rows=True)))
    assert world.done[-1] == ("forget", "term-1", "caller-3")
    assert world.lost() == [
        {
            "for_request": "run-1",
            "to": "sqs:replies",
            "id": caller(3).reply_id("orders", OBJECT),
            "why": "no such queue",
        }
    ]


# -- requests that are turned away ------------------------------------------------------------------------------------


def test_where_nobody_knows_who_has_the_object_nothing_is_said_of_it() -> None:
    assert World().answering.turned_away(arrival(reply_to="sqs:replies"), Verdict.IGNORED, None) == ()


def test_an_outbox_of_another_run_answers_nothing_of_this_one() -> None:
    theirs = item(outbox=Outbox(OLDER, NOW, ()))
    assert len(World().answering.turned_away(arrival(reply_to="sqs:replies"), Verdict.IGNORED, theirs)) == 1


# -- what a claim finds of other runs ---------------------------------------------------------------------------------


def askers(*requests: str) -> dict[str, str]:
    return {asker_key(RequestId(name)): Caller(RequestId(name), 500, "sqs:replies").to_text() for name in requests}


def flushed(world: World, flow: AnyFlow = Shared, **changes: Any) -> World:
    comes = arrival(flow)
    world.answering.flush(comes, claim(comes.message, **changes))
    return world


def test_a_run_adopts_those_whose_runs_it_took_over_but_not_its_own_request() -> None:
    world = flushed(World(), callers=callers(), askers=askers("run-1", "run-2"))
    assert world.done == [("attach", "orders", OBJECT, "term-1", OLDER, Lifetimes(Shared).of_run(NOW))]


def test_an_adopted_request_keeps_an_item_no_shorter_than_it_is_to_be_there() -> None:
    later = Lifetimes(Shared).of_run(NOW) // 1_000 + 60
    world = flushed(World(), callers=callers(), askers=askers("run-1"), ttl=later)
    assert world.done[0][-1] == later * 1_000


def test_where_there_is_no_list_nobody_is_adopted() -> None:
    assert flushed(World(), callers=None, askers=askers("run-1")).done == []


def test_a_flow_that_takes_no_callers_says_that_it_took_the_object() -> None:
    world = flushed(World(), Orders, askers=askers("run-1", "run-2"))
    assert world.done == [("send", "sqs:replies", "run-1")]


@pytest.mark.parametrize("number", [1, MOST_ASKERS, MOST_ASKERS + 1, ASKERS_A_CALL + 1])
def test_many_who_were_told_are_forgotten_at_once_and_few_by_the_commit(number: int) -> None:
    noted = askers(*(f"older-{one}" for one in range(number)))
    world = flushed(World(), Orders, askers=noted)
    forgotten = [one[1:] for one in world.done if one[0] == "forget askers"]
    keys = sorted(noted) if number > MOST_ASKERS else []
    assert forgotten == [tuple(keys[at : at + ASKERS_A_CALL]) for at in range(0, len(keys), ASKERS_A_CALL)]
    assert sum(one[0] == "send" for one in world.done) == number


END = StoredEnd(OLDER, NOW - 5_000, "COMPLETED", "7")


def left(read: Any = lambda: END, *, of: RequestId = OLDER, at: int = NOW - 5_000, held: Callers | None = None) -> Any:
    return LeftEnd(of, at, callers(1) if held is None else held, read)


def unread() -> StoredEnd:
    raise AssertionError("nobody asked for it")


def test_the_callers_of_the_run_before_get_its_end_before_the_next_run_does_anything() -> None:
    assert flushed(World(), left_end=left()).done == [("send", "sqs:replies", "caller-1")]
    rows = flushed(World(pages=[[caller(3)]]), left_end=left(held=callers(rows=True)))
    assert [one[0] for one in rows.done] == ["rows", "send", "forget"]


@pytest.mark.parametrize(
    "found",
    [
        left(unread, of=RUN),
        left(unread, held=callers()),
        left(unread, at=NOW - KEPT - 1),
    ],
    ids=["its own end", "nobody asked", "so old that no message of it is queued"],
)
def test_nobody_is_answered_where_nobody_waits(found: LeftEnd) -> None:
    assert flushed(World(), left_end=found).done == []


def test_an_end_whose_messages_may_just_be_queued_is_still_answered() -> None:
    assert len(flushed(World(), left_end=left(at=NOW - KEPT)).done) == 1


def test_an_end_of_another_run_that_is_gone_is_lost_and_one_that_cannot_be_read_now_keeps_the_record() -> None:
    def gone() -> StoredEnd:
        raise TextGone("texts", "result-1", "NoSuchKey")

    def down() -> StoredEnd:
        raise ConnectionError("no way")

    world = flushed(World(), left_end=left(gone))
    [facts] = world.lost()
    assert (facts["for_request"], world.done) == ("run-1", [])
    with pytest.raises(ConnectionError, match="no way"):
        flushed(World(), left_end=left(down))

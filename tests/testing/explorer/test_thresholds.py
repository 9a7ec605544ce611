"""Small worlds that cross what only large ones do: lists that go on in rows, parts, turns and pages of a query."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard import ATTACH, Callback, Done, Flow, Outcome, Queue, Stage, Step
from flowguard.aws.waits import DynamoDBWaits
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.protocol.run import AwaitingRow
from flowguard.sim.world import START
from flowguard.testing import sqs_event
from flowguard.testing.explorer import Later, View, explore, in_memory
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import DEATHS, OF_DELIVERIES, Schedule
from flowguard.testing.explorer.run.fault_effects import LAST_RECEIVE
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.search.next_schedules import choices_in
from flowguard.testing.explorer.search.runs import Runs
from flowguard.testing.explorer.search.search import Search
from flowguard.worker.external_answers import ExternalAnswers
from tests.testing.explorer.histories import history_of


class Wanted(BaseModel):
    order_id: str


class Opened(BaseModel):
    gate: str


class Ask(Stage[Wanted], name="ask", then=("go-on", "late"), inbox="to-ask"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return GoOn.when_all(gate=step.event("gate"), within=timedelta(minutes=10), on_timeout="late")


class GoOn(Stage[Opened], name="go-on", inbox="to-go-on"):
    def handle(self, opened: Opened, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD gone_on :one", values={":one": 1})
        return Done(opened.gate)


class Late(Stage[dict[str, Any]], name="late", inbox="to-go-on"):
    def handle(self, nothing: dict[str, Any], step: Step) -> Outcome:
        return Done("late")


class Waiters(
    Flow,
    name="waiters",
    object_id="order_id",
    answers="to-answers",
    callbacks=(Callback("gates", id="id", answer="opened"),),
):
    """Runs that wait for one event."""

    stages = (Ask, GoOn, Late)


class Count(Stage[Wanted], name="count", then="close", inbox="to-count"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD made :one", values={":one": 1})
        return Close.message(wanted)


class Close(Stage[Wanted], name="close", inbox="to-close"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return Done("made")


class Made(Flow, name="made", object_id="order_id", on_conflict=ATTACH, answers="to-count", reply_to=("readers",)):
    """What several ask for, and is made once."""

    stages = (Count, Close)


TABLES: Final = {"totals": "day"}
OPENED: Final = Later(
    sqs_event("gates", {"id": "gate", "opened": "wide"}, message_id="gate-1", sent_at=START + 60_000),
    timedelta(minutes=1),
)


ORDERS: Final = tuple(Wanted(order_id=f"o{number}") for number in range(3))


def asked(reader: str) -> Any:
    message, _ = Made.request(
        Wanted(order_id="o1"), request_id=RequestId(reader), requested_at=START, reply_to=Queue("readers")
    )
    return sqs_event("to-count", message.body, attributes=message.attributes(), message_id=reader, sent_at=START)


READERS: Final = tuple(asked(f"reader-{number}") for number in range(4))


def pages_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a query ends after its first item, as it does after 1 MB."""
    monkeypatch.setattr("flowguard.sim.memory.querying.LARGEST_PAGE", 1)


def one_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run item holds one caller, as it holds sixteen."""
    for module in ("flowguard.protocol.callers", "flowguard.aws.caller_lists"):
        monkeypatch.setattr(f"{module}.MOST_HELD", 1)


def two_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is two runs, as it is fifty, and an invocation has the time for one part."""
    monkeypatch.setattr("flowguard.worker.external_answers.ROWS_A_PART", 2)
    monkeypatch.setattr(ExternalAnswers, "_has_time", lambda self: False)


def calls(history: History, operation: str) -> list[str]:
    return [str(one.site) for one in history.calls if one.operation == operation]


@pytest.fixture
def callers(monkeypatch: pytest.MonkeyPatch) -> None:
    one_held(monkeypatch)
    pages_of_one(monkeypatch)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    two_a_part(monkeypatch)
    pages_of_one(monkeypatch)


# -- callers that are rows --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("callers")
def test_callers_are_rows_and_read_page_by_page() -> None:
    history = history_of(Made, READERS, "none", tables=TABLES)
    assert len(list(history.events(EventType.ATTACHED))) == 3
    assert calls(history, "PutItem") == ["flowguard"] * 2, "the item holds one of three"
    assert calls(history, "Query") == ["flowguard"] * 2, "a page for each row"


@pytest.mark.proof("explores callers that are rows")
@pytest.mark.usefixtures("callers")
def test_every_fault_at_callers_that_are_rows_is_survived() -> None:
    report = explore(Made, READERS, tables=TABLES, bound=40, walks=20)
    assert report.ok, str(report)
    assert report.schedules > 300


# -- an event in parts ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("parts")
def test_an_event_takes_an_invocation_for_each_part() -> None:
    history = history_of(Waiters, [*ORDERS, OPENED], "none", tables=TABLES)
    came = [one for one in history.deliveries if one.queue == "gates"]
    assert [one.receive for one in came] == [1, 2]
    assert [sum(event.type is EventType.ANSWERED for event in one.events) for one in came] == [2, 1]
    assert calls(history, "Query") == ["find rows"] * 5, (
        "a page for each row, and for the one after a part; the second begins at its place"
    )
    assert all_went_on(View(history)) is None


def all_went_on(view: View) -> str | None:
    """Who waited when the event came has it, once."""
    gone_on = sum(one["gone_on"] for one in view.table("totals"))
    return None if gone_on == len(ORDERS) else f"{gone_on} went on"


def of_the_event(first: History) -> Iterator[Schedule]:
    """Every fault from the event on. One that SQS gives up reaches nobody, until somebody sends it back."""
    came = next(place for place, one in enumerate(first.deliveries, 1) if one.queue == "gates")
    for choice in choices_in(first):
        at = came if choice.kind in OF_DELIVERIES else first.deliveries[came - 1].calls[0]
        if choice.at >= at and not (choice.kind in DEATHS and choice.more == LAST_RECEIVE):
            yield Schedule((choice,))


@pytest.mark.proof("explores an event in parts")
@pytest.mark.usefixtures("parts")
def test_whatever_fails_at_a_part_each_run_that_waits_has_the_event_once() -> None:
    with Sandbox([Waiters], [*ORDERS, OPENED], TABLES, in_memory, 0) as sandbox:
        search = Search(Runs(sandbox), invariants=(all_went_on,), invariants_only=True)
        schedules = list(of_the_event(search.references()))
        found = {one.id: list(search.check(one)[1].values()) for one in schedules}
    assert len(schedules) > 100
    assert {name: [one.rule for one in wrong] for name, wrong in found.items() if wrong} == {}


def test_a_place_that_is_kept_too_soon_is_noticed(parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next part's last row, as if it were settled: who is in it misses the event."""
    keep = DynamoDBWaits.keep_place

    def further(self: DynamoDBWaits, flow: str, awaited_id: str, by: str, row: AwaitingRow, until: int) -> None:
        *_, last = self.waiting_for(flow, awaited_id)
        keep(self, flow, awaited_id, by, last, until)

    monkeypatch.setattr(DynamoDBWaits, "keep_place", further)
    history = history_of(Waiters, [*ORDERS, OPENED], "none", tables=TABLES)
    assert all_went_on(View(history)) == "2 went on"

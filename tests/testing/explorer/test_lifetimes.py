"""A run that waits for longer than items live otherwise: whoever attaches meanwhile is told its end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import ATTACH, Done, Flow, Outcome, Stage, Step
from flowguard.aws import caller_lists, expressions, waits
from flowguard.aws.caller_lists import DynamoDBCallers
from flowguard.aws.waits import DynamoDBWaits
from flowguard.destinations import Queue
from flowguard.names.ids import RequestId
from flowguard.protocol import callers
from flowguard.sim.world import START
from flowguard.testing import Later, replay, sqs_event
from flowguard.testing.explorer.checks.lifetimes import no_life_is_shortened
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.life import RowKind, Shortened, kind_of
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.worker.lifetimes import Lifetimes
from tests.testing.explorer import waiting

Patch = pytest.MonkeyPatch


class Wanted(BaseModel):
    page: str = "tea"


class Decided(BaseModel):
    decision: str = "nobody decided"


class Collect(Stage[Wanted], name="collect", then="ask", inbox="to-collect"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return Ask.message(wanted)


class Ask(Stage[Wanted], name="ask", then="close", inbox="to-ask"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return Close.when_all(
            decision=step.event(f"decided/{wanted.page}"), within=timedelta(days=60), on_timeout=Close
        )


class Close(Stage[Decided], name="close", inbox="to-close"):
    def handle(self, decided: Decided, step: Step) -> Outcome:
        return Done({"decision": decided.decision})


class Shared(Flow, name="shared", object_id="page", on_conflict=ATTACH, long_delays=True, answers="shared-answers"):
    stages = (Collect, Ask, Close)


def asked(number: int) -> Any:
    message, _ = Shared.request(
        Wanted(), request_id=RequestId(f"r-{number}"), requested_at=START - 9 + number, reply_to=Queue("replies")
    )
    return sqs_event("to-collect", Wanted(), attributes=message.attributes(), message_id=f"m-{number}")


def found(schedule: str = "none", number: int = 4) -> set[str]:
    trace = replay(Shared, [asked(one) for one in range(number)], schedule)
    return {problem.rule for violation in trace.violations for problem in violation.problems}


def held_at_most(number: int, patch: Patch) -> None:
    """A run item holds so many callers, so that few of them are more than it holds."""
    for module in (callers, caller_lists):
        patch.setattr(module, "MOST_HELD", number)


@pytest.mark.proof("replays a flow four times")
@pytest.mark.parametrize("most_held", [0, 1, 2, 16])
def test_whoever_attaches_before_a_long_wait_is_told_its_end(most_held: int, monkeypatch: Patch) -> None:
    held_at_most(most_held, monkeypatch)
    assert found() == set()


@pytest.mark.proof("explores flows")
def test_rows_that_live_no_longer_than_an_item_leave_callers_without_an_answer(monkeypatch: Patch) -> None:
    held_at_most(1, monkeypatch)
    monkeypatch.setattr(Lifetimes, "of_caller", Lifetimes.of_run)
    assert "I16" in found()


# -- that no write shortens a life -------------------------------------------------------------------------------------


def shortened(flows: Any, messages: Any, schedule: str = "none", **more: Any) -> set[str]:
    """The kinds of items whose lives a write has shortened though something needs them, as the findings name them."""
    trace = replay(flows, messages, schedule, **more)
    problems = [problem for violation in trace.violations for problem in violation.problems]
    begins = "a write shortened the life of a "
    return {one.text.removeprefix(begins) for one in problems if one.text.startswith(begins)}


def forgets_the_deadline(patch: Patch) -> None:
    patch.setattr(Lifetimes, "of_claim", lambda lifetimes, moment, message: lifetimes.of_run(moment))


def commits_what_it_needs_itself(patch: Patch) -> None:
    patch.setattr(Lifetimes, "not_before", lambda lifetimes, found, needed, moment: needed - 1_000)


def saves_rows_for_less(patch: Patch) -> None:
    """With keys that do not say until when."""
    save, item = DynamoDBWaits.save, waits._item

    def without_expiry(row: Any) -> Any:
        return {**item(row), "sk": {"S": item(row)["sk"]["S"].partition("#")[0]}}

    def twice(store: DynamoDBWaits, rows: Any) -> None:
        save(store, rows)
        save(store, [row._replace(expires_at=row.expires_at - 57 * 86_400_000) for row in rows])

    patch.setattr(waits, "_item", without_expiry)
    patch.setattr(DynamoDBWaits, "save", twice)


def attaches_for_less(patch: Patch) -> None:
    changed = DynamoDBCallers._changed

    def for_less(lists: DynamoDBCallers, flow: str, object_id: Any, change: Any, until: int) -> Any:
        changed(lists, flow, object_id, change, until)
        loose = change["ConditionExpression"].replace(expressions._LIVES_LONGER, "#ttl <> :ttl")
        return changed(lists, flow, object_id, {**change, "ConditionExpression": loose}, until - 86_400_000)

    patch.setattr(DynamoDBCallers, "_changed", for_less)


SHORTER: dict[str, tuple[Callable[[Patch], None], str]] = {
    "the claim after a wait": (forgets_the_deadline, "run item"),
    "a commit": (commits_what_it_needs_itself, "run item"),
    "rows of a wait": (saves_rows_for_less, "row of a wait"),
}


@pytest.mark.parametrize("who", SHORTER)
def test_whoever_shortens_a_life_is_noticed(who: str, monkeypatch: Patch) -> None:
    shortens, what = SHORTER[who]
    asks: Any = {"asks": ("paid",)} if what == "row of a wait" else {}
    given: Any = (waiting.FLOWS, [waiting.Order(order_id="o1", **asks)])
    assert shortened(*given, tables=waiting.TABLES) == set()
    shortens(monkeypatch)
    assert what in shortened(*given, tables=waiting.TABLES)


def test_who_attaches_and_shortens_the_life_of_the_run_is_noticed(monkeypatch: Patch) -> None:
    attaches_for_less(monkeypatch)
    assert "run item" in shortened(Shared, [asked(one) for one in range(2)])


def attached_before_the_commit() -> set[str]:
    """What is shortened where a caller attaches two seconds after a commit was planned, and before it is made."""
    return shortened(Shared, [asked(0), Later(asked(1), by=timedelta(seconds=2))], "z2-2")


def test_a_commit_that_is_held_up_shortens_no_life_that_a_caller_has_asked_for(monkeypatch: Patch) -> None:
    assert attached_before_the_commit() == set()
    monkeypatch.setattr(Lifetimes, "_of_callers_since", lambda lifetimes, moment: 0)
    assert attached_before_the_commit() == {"run item"}


@pytest.mark.parametrize("kind", RowKind)
def test_a_life_may_be_shortened_only_where_the_table_says_why(kind: RowKind) -> None:
    history = History(Schedule(), START)
    history.shortened.append(Shortened(kind, "run#shared#tea run", 1, START, 9_000_000, 1_000))
    [problem] = no_life_is_shortened(history, [Shared])
    assert (problem.rule, problem.text) == ("I15", f"a write shortened the life of a {kind.value}")
    assert list(no_life_is_shortened(history, [])), "nobody knows what a flow that is not there needs"


def test_each_item_of_the_table_has_a_kind() -> None:
    keys = {
        RowKind.RUN: ("run#f#o", "run"),
        RowKind.CALLER: ("run#f#o", "caller#t#k"),
        RowKind.ORDER: ("run#f#o", "order#d"),
        RowKind.CANCEL: ("run#f#o", "cancel#d"),
        RowKind.HISTORY: ("run#f#o", "told#1"),
        RowKind.AWAITED: ("wait#f#i", "digest"),
        RowKind.EARLY: ("wait#f#i", "early"),
        RowKind.PLACE: ("wait#f#i", "#place#d"),
        RowKind.GROUP: ("group#f#k#0", "0"),
        RowKind.LIMIT: ("limit#f#s#l#d", "limit"),
        RowKind.CALL: ("run#f#o", "turn#t"),
        RowKind.OTHER: ("mine", "run"),
    }
    assert {kind: kind_of({"pk": {"S": pk}, "sk": {"S": sk}}) for kind, (pk, sk) in keys.items()} == {
        kind: kind for kind in RowKind
    }

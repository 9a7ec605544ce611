"""Who takes an answer that is kept before its wait: looked at, noted, settled row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from flowguard.events import EventType
from flowguard.ids import ObjectId
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.verdicts import AnswerVerdict
from flowguard.protocol.waiting import Kept
from flowguard.sim.calls import Recorder, intercept
from flowguard.worker.outside import WHO_WAITED, _Users
from flowguard.worker.settler import user_of
from tests.waits import START, WITHIN, AnyOf, wait_scene
from tests.worker.test_outside import ADDRESS, GIVEN, KEPT, another_begins, comes, outside, sent_at

EARLY, RESUMED, DUPLICATE = AnswerVerdict.EARLY, AnswerVerdict.RESUMED, AnswerVerdict.DUPLICATE
ROWS: Final = tuple(AwaitingRow("paid", ADDRESS._replace(object_id=ObjectId(name)), "some", START) for name in "abc")
A, B, C = ROWS
ANOTHER: Final = "another wait"


class FakeWaits:
    """Gives verdicts by the object, and notes what it is asked. What is kept is used by ``used_by`` already."""

    def __init__(self, verdicts: Mapping[str, AnswerVerdict], used_by: str = "") -> None:
        self.verdicts = dict(verdicts)
        self.used_by = used_by
        self.asked: list[str] = []
        self.uses: list[str] = []

    def verdict(self, address: Any) -> AnswerVerdict:
        self.asked.append(address.object_id)
        return self.verdicts[address.object_id]

    def use_early(self, flow: str, awaited_id: str, by: str, who: str, *, until: int) -> bool:
        self.uses.append(who)
        if self.used_by not in ("", who):
            return False
        self.used_by = who
        return True


def users(waits: FakeWaits, found: Any = KEPT) -> _Users:
    return _Users(waits, found, "m-1", START)  # type: ignore[arg-type]  # as much of it as is asked


def who(row: AwaitingRow) -> str:
    return user_of(row.address)


# -- the look before it is kept ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "used_by", "asked"),
    [
        ({"a": RESUMED, "b": DUPLICATE, "c": EARLY}, who(A), "abc"),
        ({"a": EARLY, "b": RESUMED, "c": RESUMED}, WHO_WAITED, "abc"),
        ({"a": RESUMED, "b": RESUMED, "c": RESUMED}, WHO_WAITED, "ab"),
        ({"a": DUPLICATE, "b": EARLY, "c": DUPLICATE}, "", "abc"),
    ],
)
def test_it_is_kept_for_the_run_that_waits_or_for_all_where_several_do(
    verdicts: dict[str, AnswerVerdict], used_by: str, asked: str
) -> None:
    waits = FakeWaits(verdicts)
    looking = users(waits)
    rows = looking.look(iter(ROWS))
    assert (looking.who, "".join(waits.asked), waits.uses) == (used_by, asked, [])
    assert (None if rows is None else list(rows)) == (list(ROWS) if used_by else None)


def test_what_is_not_kept_is_for_all_and_nobody_is_looked_at() -> None:
    waits = FakeWaits({})
    looking = users(waits, GIVEN)
    rows = looking.look(iter(ROWS))
    assert rows is not None
    assert looking.admitted(rows) == (list(ROWS), [])
    looking.note_copy([DUPLICATE])
    assert (waits.asked, waits.uses) == ([], [])


def test_a_run_whose_stage_cannot_read_it_does_not_take_it() -> None:
    waits = FakeWaits({"a": RESUMED, "b": RESUMED})
    looking = users(waits)
    looking.look(iter([A._replace(stage="gone"), B]))
    assert (looking.who, waits.asked) == (who(B), ["b"])


# -- what an earlier delivery has written -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "takes", "uses"),
    [
        (Kept(is_new=True), who(A), []),
        (Kept(is_new=False, used_by=""), who(A), [who(A)]),
        (Kept(is_new=False, used_by=ANOTHER), ANOTHER, []),
        (Kept(is_new=False, used_by=WHO_WAITED), WHO_WAITED, []),
        (Kept(is_new=False, used_by=None), WHO_WAITED, []),
    ],
)
def test_a_copy_is_for_whom_the_first_delivery_has_named(kept: Kept, takes: str, uses: list[str]) -> None:
    waits = FakeWaits({"a": RESUMED})
    looking = users(waits)
    looking.look(iter([A]))
    looking.meet(kept)
    assert (looking.who, waits.uses) == (takes, uses)


def test_a_copy_of_one_that_a_later_wait_has_used_meanwhile_is_for_nobody_else() -> None:
    waits = FakeWaits({"a": RESUMED}, used_by=ANOTHER)
    looking = users(waits)
    looking.look(iter([A]))
    looking.meet(Kept(is_new=False, used_by=""))
    assert looking.admitted([A]) == ([], [])


def test_where_nobody_can_take_it_a_copy_notes_nothing() -> None:
    waits = FakeWaits({"a": DUPLICATE})
    looking = users(waits)
    looking.look(iter([A]))
    looking.meet(Kept(is_new=False, used_by=""))
    assert (looking.who, waits.uses) == ("", [])


# -- the rows that are settled ----------------------------------------------------------------------------------------


def kept_for_anybody(waits: FakeWaits) -> _Users:
    looking = users(waits)
    assert looking.look(iter(ROWS)) is None
    looking.meet(Kept(is_new=True))
    waits.asked.clear()
    return looking


def test_the_first_run_that_has_begun_to_wait_since_takes_it_and_none_that_has_not() -> None:
    waits = FakeWaits({"a": DUPLICATE, "b": EARLY, "c": EARLY})
    looking = kept_for_anybody(waits)
    waits.verdicts["c"] = RESUMED
    assert looking.admitted(ROWS) == ([A, C], [B])
    assert (waits.asked, waits.uses) == (["b", "c"], [who(C)]), "what was over is not looked at again"
    waits.verdicts["b"] = RESUMED
    assert looking.admitted([B]) == ([], [])


def test_who_finds_it_used_by_another_wait_gets_nothing() -> None:
    waits = FakeWaits({"a": EARLY, "b": EARLY, "c": EARLY}, used_by=ANOTHER)
    looking = kept_for_anybody(waits)
    waits.verdicts["a"] = RESUMED
    assert looking.admitted([A]) == ([], [])


def test_a_run_that_has_gone_on_takes_nothing() -> None:
    waits = FakeWaits({"a": EARLY, "b": EARLY, "c": EARLY})
    looking = kept_for_anybody(waits)
    waits.verdicts["a"] = DUPLICATE
    assert looking.admitted([A]) == ([A], [])
    assert waits.uses == []


@pytest.mark.parametrize(
    ("is_new", "verdicts", "uses"),
    [(False, [DUPLICATE], [WHO_WAITED]), (False, [AnswerVerdict.EXPIRED], []), (True, [DUPLICATE], [])],
)
def test_a_copy_that_is_a_duplicate_says_that_it_is_used(
    is_new: bool, verdicts: list[AnswerVerdict], uses: list[str]
) -> None:
    waits = FakeWaits({"a": DUPLICATE})
    looking = users(waits)
    looking.look(iter([A]))
    looking.meet(Kept(is_new, used_by=None if is_new else ""))
    looking.note_copy(verdicts)
    assert waits.uses == uses


def test_what_is_said_to_be_used_is_not_said_again() -> None:
    waits = FakeWaits({"a": RESUMED})
    looking = users(waits)
    looking.look(iter([A]))
    looking.meet(Kept(is_new=False, used_by=""))
    looking.note_copy([DUPLICATE])
    assert waits.uses == [who(A)]


# -- what it costs, and what is told ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "calls"),
    [
        (0, ["Query", "PutItem", "Query"]),
        (1, ["Query", "GetItem", "PutItem", "UpdateItem"]),
        (3, ["Query", "GetItem", "GetItem", "PutItem", "UpdateItem", "UpdateItem", "UpdateItem"]),
    ],
)
def test_it_costs_a_look_at_two_runs_at_most(waiting: int, calls: list[str]) -> None:
    with wait_scene() as at:
        for number in range(waiting):
            another_begins(at, number)
        with intercept(Recorder()) as made:
            comes(at, "7", "m-1", START + 10)
        assert [call.operation for call in made.calls if call.service == "dynamodb"] == calls


def test_a_run_that_has_not_begun_to_wait_is_told_of() -> None:
    with wait_scene() as at:
        at.begin(lambda step: AnyOf.when_any(a=step.event("something else"), within=WITHIN))
        at.waits.save([AwaitingRow("paid", ADDRESS._replace(hop=2), "some", START)])
        outside(at).settle(KEPT, sent_at("m-1", START), queued=True)
        [told] = [event for event in at.tally.events if event.type is EventType.ANSWERED]
        assert told.facts == {"name": "a", "verdict": "EARLY", "failed": False}

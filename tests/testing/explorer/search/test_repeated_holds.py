"""A hold-up that would be the same as one that was run is left out, and nothing is lost by that."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import boto3
import pytest

from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, Report, explore
from flowguard.testing.explorer.record.history import CallRecord, DeliveryRecord, History
from flowguard.testing.explorer.record.schedule import Choice, FaultKind, Schedule
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.search.next_schedules import choices_in
from flowguard.testing.explorer.search.pairs import Second
from flowguard.testing.explorer.search.repeated_holds import RepeatedHolds
from flowguard.testing.explorer.search.search import Search
from tests.testing.explorer import handlers
from tests.testing.explorer.histories import history_of

ORDERS = PlainFunction("orders", handlers.put)
MESSAGES = [sqs_event("orders", {"order_id": "o1", "amount": 5})]


def noted(*schedules: str) -> RepeatedHolds:
    """What is known after these schedules of a handler that makes one call."""
    holds = RepeatedHolds()
    for schedule in schedules:
        holds.note(Schedule.parse(schedule), history_of(ORDERS, MESSAGES, schedule))
    return holds


def is_left_out(schedule: str, holds: RepeatedHolds) -> bool:
    return holds.seconds_after(Schedule.parse(schedule)) is not None


@pytest.mark.parametrize(
    ("schedule", "leaves_out"),
    [
        ("z1-2", True),  # the other worker makes one call, and then nothing is left to wait for
        ("z1-1", False),  # it went on after that call
        ("z1", False),  # it waits for no number of calls
        ("z1-2.a2", False),
        ("d1", False),
    ],
)
def test_who_waited_for_more_calls_than_there_were_waits_as_long_for_any_greater_number(
    schedule: str, leaves_out: bool
) -> None:
    holds = noted(schedule)
    assert is_left_out("z1-3", holds) is leaves_out
    assert is_left_out("z1-999", holds) is leaves_out
    assert not any(is_left_out(other, holds) for other in ("z1", "z2-3", "d1", "a1", "v1", "z1-3.a2", "none"))


def test_the_pairs_that_begin_with_it_are_still_there() -> None:
    holds, history = noted("z1-2"), history_of(ORDERS, MESSAGES, "z1-2")
    left_out = Schedule.parse("z1-3")
    seconds = holds.seconds_after(left_out)
    assert seconds
    assert [second.choice for second in seconds] == list(choices_in(history, after=left_out.choices[-1]))


def made(text: str, number: int) -> CallRecord:
    """A call as ``WORKER:PLACE``. Behind it ``=`` says that it reads, ``!`` that its worker was held up before it, and
    ``+`` that it is made a second later.
    """
    worker, _, place = text.rstrip("=!+").partition(":")
    at = 1_000 if text.endswith("+") else 0
    service = "sqs" if place == "queue" else "dynamodb"
    return CallRecord(
        number,
        at,
        int(worker),
        service,
        "SendMessage" if service == "sqs" else "GetItem" if "=" in text else "PutItem",
        place,
        Site("orders.py", number, "handler"),
        applied=1,
        held=(FaultKind.HELD_UP,) if "!" in text else (),
        places=((service, place),),
    )


def history_with(calls: str) -> History:
    made_calls = [made(text, number) for number, text in enumerate(calls.split(), 1)]
    deliveries = [DeliveryRecord(worker, 0, "orders", worker, 1, 0, from_dlq=False) for worker in (1, 2, 3)]
    return History(Schedule(), 0, calls=made_calls, deliveries=deliveries)


def stood_for(calls: str) -> list[int]:
    """The numbers of calls for which z2-1 stands, in which these were made."""
    history = history_with(calls)
    holds = RepeatedHolds()
    holds.note(Schedule.parse("z2-1"), history, commutes=True)
    return [more for more in range(2, 10) if is_left_out(f"z2-{more}", holds)]


@pytest.mark.parametrize(
    ("calls", "others"),
    [
        ("1:a 2:b 1:a! 2:b 2:c 2:b", [2, 3]),  # but not 4: what comes of the end of 2 may differ
        ("1:a 2:b 1:a! 1:c 2:b 2:c 2:b", [2]),
        ("1:a 2:b 1:a! 2:a 2:b", []),
        ("1:a 2:b= 1:a=! 2:a= 2:b", [2]),
        ("1:a 2:b 1:a=! 2:a 2:b", []),
        ("1:a 2:b 1:queue! 2:queue 2:b", []),
        ("1:a 2:b 1:queue! 2:b 2:queue 2:b", [2]),
        ("1:a 2:b 1:a! 3:b 3:b", []),  # whoever comes next may be another one then
        ("1:a 2:b 1:a! 2:b+ 2:b", []),  # it would go on later
        ("1:a 2:b 1:a!+ 2:b 2:b", []),
        ("1:a 2:b 1:a! 2:b 1:c 2:b", []),
        ("1:a 1:b! 2:b 2:c", []),  # it went on before
        ("1:a 2:b 2:b 2:b", [2, 3, 4, 5, 6, 7, 8, 9]),  # it was dead
        ("1:a", []),  # nobody made the call that it waited for
    ],
)
def test_calls_that_commute_with_those_of_the_held_worker_may_come_before_them(calls: str, others: list[int]) -> None:
    assert stood_for(calls) == others


def test_nothing_is_said_of_calls_that_commute_where_records_may_meet_unseen() -> None:
    holds = RepeatedHolds()
    holds.note(Schedule.parse("z2-1"), history_with("1:a 2:b 1:a! 2:b 2:b"))
    assert not is_left_out("z2-2", holds)


def test_what_may_follow_in_a_pair_has_the_numbers_of_that_schedule() -> None:
    """Calls 3 and 4 of ``z2-1`` are 4 and 3 of ``z2-2``."""
    about = (PlainFunction("orders", in_three_items), THREE)
    first = next(schedule for schedule in ("z1-1", "z2-1") if moved(history_of(*about, schedule, tables=TABLES)))
    held = Schedule.parse(first).choices[0]
    holds = RepeatedHolds()
    holds.note(Schedule.parse(first), history_of(*about, first, tables=TABLES), commutes=True)
    other = Choice(held.at, held.kind, held.more + 1)
    seconds = holds.seconds_after(Schedule((other,)))
    history = history_of(*about, Schedule((other,)).id, tables=TABLES)
    assert seconds is not None
    assert sorted(second.choice for second in seconds) == sorted(choices_in(history, after=other))


def moved(history: History) -> bool:
    return any(made.held for made in history.calls)


TABLES = {"orders": "order_id", "bills": "order_id", "parcels": "order_id"}
THREE = [sqs_event("orders", {"order_id": name}, message_id=name) for name in ("o1", "o2")]


def in_three_items(event: dict[str, Any], context: object) -> None:
    dynamodb = boto3.client("dynamodb")
    for record in event["Records"]:
        name = {"S": json.loads(record["body"])["order_id"]}
        for table in TABLES:
            dynamodb.put_item(TableName=table, Item={"order_id": name})


def in_one_item(event: dict[str, Any], context: object) -> None:
    dynamodb = boto3.client("dynamodb")
    for record in event["Records"]:
        name = {"S": json.loads(record["body"])["order_id"]}
        last = dynamodb.get_item(TableName="orders", Key={"order_id": {"S": "last"}}, ConsistentRead=True)
        dynamodb.put_item(TableName="bills", Item={"order_id": name, "after": last.get("Item", {}).get("name", name)})
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": "last"}, "name": name})


class EachHold(RepeatedHolds):
    """The whole search."""

    def seconds_after(self, schedule: Schedule) -> tuple[Second, ...] | None:
        return None


def explored(handler: Any) -> Report:
    return explore(PlainFunction("orders", handler), MESSAGES, tables={"totals": "day"}, bound=5, walks=0)


@pytest.mark.parametrize("handler", [handlers.put, handlers.add])
def test_no_end_and_no_violation_is_lost(handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few = explored(handler)
    monkeypatch.setattr("flowguard.testing.explorer.search.search.RepeatedHolds", EachHold)
    every = explored(handler)
    assert few.schedules < every.schedules
    assert (few.ends, few.pairs_left, few.coverage, few.singles_left) == (
        every.ends,
        every.pairs_left,
        every.coverage,
        every.singles_left,
    )
    assert Counter(one.rule for one in few.violations) == Counter(one.rule for one in every.violations)


@pytest.mark.proof("explores two records together, with each hold-up and without")
@pytest.mark.parametrize("handler", [in_three_items, in_one_item])
def test_nothing_is_lost_where_records_meet(handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    about: Any = {"tables": TABLES, "bound": 0, "walks": 0, "invariants_only": True}

    def explored_together() -> Report:
        with monkeypatch.context() as patch:
            patch.setattr(Search, "_parts", lambda *_: [])
            return explore(PlainFunction("orders", handler), THREE, **about)

    few = explored_together()
    monkeypatch.setattr("flowguard.testing.explorer.search.search.RepeatedHolds", EachHold)
    every = explored_together()
    assert few.schedules < every.schedules
    assert (few.ends, few.coverage) == (every.ends, every.coverage)

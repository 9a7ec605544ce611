"""A run that fails by right, also when it is sent back: no violation. And one that fails in another way: one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flowguard.testing import sqs_event
from flowguard.testing.explorer import explore, replay
from flowguard.testing.explorer.record.history import History
from flowguard.wire.message import Message
from flowguard.worker.plan import Planner
from tests.testing.explorer import seeded
from tests.testing.explorer.histories import history_of

ORDER = seeded.Order(order_id="o1")
TWINS = [seeded.BrokenOne, seeded.BrokenTwin]
SAME: list[Any] = [
    sqs_event(queue, {"order_id": "o1"}, message_id=f"message-{queue}", attributes={"uniquerequestid": "both"})
    for queue in ("orders", "orders.fifo")
]
NO_OBJECT: Any = sqs_event("orders", {"order_id": ""})
Patch = pytest.MonkeyPatch


def places(history: History, queue: str) -> list[str]:
    """Of dead letters their hop and redrive, of other messages the ids without their digests; in their order, copies
    once."""
    found = [one for one in history.posted if one.name == queue]
    return list(dict.fromkeys(f"{m.place.hop}r{m.place.redrive}" if m.is_letter else _plain(m.id) for m in found))


def _plain(own: str | None) -> str:
    return re.sub(r"-[0-9a-f]{16}\.", ".", own or "")


@pytest.mark.parametrize(
    ("flow", "schedule", "letters", "told"),
    [
        (seeded.BrokenOne, "none", ["1r1"], ["request-1.1.0"]),
        (seeded.BrokenOne, "r1", ["1r1", "1r2"], ["request-1.1.0", "request-1.1r1.0"]),
        (seeded.BrokenOne, "r1-1", ["1r1", "1r2"], ["request-1.1.0", "request-1.1r1.0"]),
        (
            seeded.BrokenOne,
            "r1.r2",
            ["1r1", "1r2", "1r3"],
            ["request-1.1.0", "request-1.1r1.0", "request-1.1r2.0"],
        ),
        (seeded.BrokenSecond, "r1", ["2r1", "2r2"], ["request-1.2.0", "request-1.2r1.0"]),
        (seeded.BrokenSecond, "r1-1", ["2r1", "2r2"], ["request-1.2.0", "request-1.2r1.0"]),
        (seeded.BrokenSecond, "d2.d5-1.r1", ["1r1", "2r1"], ["request-1.1.0", "request-1.2.0"]),
        (
            seeded.BrokenSecond,
            "d2.d5-1.r1.r2",
            ["1r1", "2r1", "2r2"],
            ["request-1.1.0", "request-1.2.0", "request-1.2r1.0"],
        ),
    ],
)
def test_a_run_that_fails_again_leaves_the_next_letter_and_tells_so_once_more(
    flow: Any, schedule: str, letters: list[str], told: list[str]
) -> None:
    history = history_of(flow, [ORDER], schedule, tables=seeded.TABLES)
    assert places(history, f"{flow.name}-dead-letters") == letters
    assert places(history, "told") == told
    assert {one.name for one in history.posted if one.is_letter} == {f"{flow.name}-dead-letters"}
    assert history.tables["totals"] == ()
    assert replay(flow, [ORDER], schedule, tables=seeded.TABLES, failing=["o1"]).violations == ()


@pytest.mark.proof("explores all single faults and some pairs")
@pytest.mark.parametrize(
    "flow",
    [
        seeded.BrokenOne,
        pytest.param(seeded.BrokenTwin, marks=pytest.mark.long("fails in another stage")),
        pytest.param(seeded.BrokenSecond, marks=pytest.mark.long("fails in another stage")),
    ],
)
def test_what_always_fails_is_not_broken_by_anything(flow: Any) -> None:
    report = explore(flow, [ORDER], tables=seeded.TABLES, bound=20, walks=0, failing=["o1"])
    assert report.ok, str(report)
    assert report.ends == 1


def test_a_message_without_an_object_is_a_dead_letter_again() -> None:
    flow = seeded.flow_of(seeded.PlainPut)
    for schedule in ("r1", "r1-1", "r1.r2"):
        assert replay(flow, [NO_OBJECT], schedule, tables=seeded.TABLES).violations == ()
    history = history_of(flow, [NO_OBJECT], "r1.r2", tables=seeded.TABLES)
    assert places(history, "flow-plain-put-dead-letters") == ["1r1", "1r2", "1r3"]


@pytest.mark.parametrize("schedule", ["none", "r1", "r2", "d1-1", "d2.d5-1.r1"])
def test_two_flows_that_one_request_started_fail_each_on_their_own(schedule: str) -> None:
    assert replay(TWINS, SAME, schedule, tables=seeded.TABLES, failing=["o1"]).violations == ()


@pytest.mark.parametrize("schedule", ["d1-1", "d2-1", "e2", "t2"])
@pytest.mark.parametrize("flow", [seeded.BrokenSecond, seeded.flow_of(seeded.AddThenFail)])
def test_what_fails_anyhow_may_fail_sooner_when_it_is_disturbed(flow: Any, schedule: str) -> None:
    """Before what it does undisturbed: SQS gives it up at another hop, or its own call is refused."""
    assert replay(flow, [ORDER], schedule, tables=seeded.TABLES).violations == ()


def test_what_it_does_before_it_fails_is_done_again_when_it_is_sent_back() -> None:
    (found,) = replay(seeded.flow_of(seeded.AddThenFail), [ORDER], "r1", tables=seeded.TABLES).violations
    assert [(one.where, one.expected, one.found) for one in found.problems] == [("totals", 1, 2)]
    assert found.site is not None
    assert found.site.line == seeded.guilty_line("AddThenFail")
    assert "runs again after a redrive" in found.fix


# -- and with a guard taken away


def wrong(schedule: str, flow: Any = seeded.BrokenOne) -> set[tuple[str, str]]:
    found = replay(flow, [ORDER], schedule, tables=seeded.TABLES).violations
    return {(one.rule, problem.where) for one in found for problem in one.problems}


def test_a_second_failure_that_nobody_is_told_of_is_seen(monkeypatch: Patch) -> None:
    to_be_told: Any = Planner._listeners

    def once(planner: Planner) -> Any:
        return [] if planner.message.redrive else to_be_told(planner)

    monkeypatch.setattr(Planner, "_listeners", once)
    assert wrong("r1") == {("equivalence", "sqs:told")}


def test_a_second_failure_that_is_told_as_a_copy_of_the_first_is_seen(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Message, "hop_id", property(lambda m: f"{m.request_id}.{m.hop}"))
    assert ("equivalence", "sqs:told") in wrong("r1")


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_second_letter_with_another_number_than_the_next_is_seen(monkeypatch: Patch, ahead: int) -> None:
    redriven: Any = Message.redriven

    def numbered(message: Message, error: Any) -> Message:
        found: Message = redriven(message, error)
        return found._replace(redrive=message.redrive + ahead) if message.redrive else found

    monkeypatch.setattr(Message, "redriven", numbered)
    assert ("equivalence", "sqs:broken-one-dead-letters") in wrong("r1")


def test_the_mark_of_another_redrive_than_the_commits_own_is_seen(monkeypatch: Patch) -> None:
    hop_id: Any = Message.hop_id
    one_more = property(lambda m: hop_id.fget(m._replace(redrive=m.redrive + 1) if m.redrive else m))
    monkeypatch.setattr(Message, "hop_id", one_more)
    assert ("equivalence", "sqs:emails") in wrong("d2.d5-1.r1", seeded.BrokenSecond)

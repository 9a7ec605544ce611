"""An insider who knows every address and may send to every queue, at each point where a flow waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

from flowguard import ATTACH, Done, Flow, Outcome, Stage, Step
from flowguard.aws import expressions
from flowguard.testing.explorer import UnmetSchedule, explore, replay
from flowguard.testing.explorer.record.schedule import OF_INSIDERS, Schedule
from flowguard.testing.explorer.search.next_schedules import insiders
from flowguard.worker.record_sources import RecordKind
from flowguard.worker.trust import Trust
from tests.testing.explorer import waiting
from tests.testing.explorer.histories import history_of

OF_A_FLOW: Final = waiting.Order(order_id="o1")
OF_EVERYBODY: Final = waiting.Order(order_id="o1", asks=("stock", "parcel", "paid", "approval"))


class Trusting(
    waiting.Waits,
    name="waits",
    object_id="order_id",
    answers="to-answers",
    complete_to="ended",
    callbacks=waiting.Waits.callbacks,
    on_conflict=ATTACH,
    trust_senders=True,
):
    """The same flow, which believes whoever may send to its queues."""

    stages = waiting.Waits.stages


def attacked(schedules: Iterable[str], flows: Any = waiting.FLOWS, **more: Any) -> dict[str, set[str]]:
    """The rules that each schedule breaks."""
    found = {}
    for one in schedules:
        trace = replay(flows, [OF_A_FLOW], one, tables=waiting.TABLES, **more)
        found[one] = {problem.rule for violation in trace.violations for problem in violation.problems}
    return found


@pytest.mark.parametrize("order", [OF_A_FLOW, OF_EVERYBODY])
def test_nothing_of_an_insider_changes_a_run_and_the_true_answer_still_settles_it(order: waiting.Order) -> None:
    trace = replay(waiting.FLOWS, [order], "i2", tables=waiting.TABLES)
    assert trace.ok, str(trace)
    assert any("sends" in line and "forged records" in line for line in trace.timeline)


def test_every_kind_of_record_is_forged_and_refused_in_every_queue() -> None:
    history = history_of(waiting.FLOWS, [OF_EVERYBODY], "i2", tables=waiting.TABLES)
    came = [one for one in history.deliveries if one.record in history.forged]
    kinds = {said.value for said in RecordKind}
    queues = {"to-begin", "to-go-on", "to-find", "to-answers", "finds", "carriers-answers", "payments"}
    assert {(one.queue, history.forged[one.record]) for one in came} == {
        (queue, said) for queue in queues for said in kinds
    }
    acked = [(one.queue, history.forged[one.record]) for one in came if one.acked]
    assert acked == 4 * [("to-begin", RecordKind.REQUEST.value)], "copies of the request, but for one that is to tell"
    names = [one.address.name for one in came if one.queue == "to-answers" and one.address is not None]
    assert sorted(names) == ["approval", "deadline", "paid", "parcel", "stock"]


def test_an_exploration_tries_an_insider_after_each_change_of_what_is_awaited() -> None:
    history = history_of(waiting.FLOWS, [OF_A_FLOW], "none", tables=waiting.TABLES)
    points = [str(choice) for choice in insiders(history, {"waits"})]
    assert points == ["i2", "i4"], "the wait is committed, and answered"
    assert attacked(points) == {"i2": set(), "i4": set()}
    assert list(insiders(history, ())) == []


# -- what an exploration would have found ------------------------------------------------------------------------------


@pytest.mark.proof("explores a flow that waits")
def test_an_exploration_finds_that_whoever_may_send_can_answer() -> None:
    given: Any = {"tables": waiting.TABLES, "bound": 0, "walks": 0, "for_good": False}
    report = explore([Trusting, waiting.Finds], [OF_A_FLOW], insider=True, **given)
    of_insiders = [one for one in report.violations if Schedule.parse(one.schedule).has(OF_INSIDERS)]
    broken = {(problem.rule, problem.where) for one in of_insiders for problem in one.problems}
    harmless = {RecordKind.REQUEST, RecordKind.RETRY}  # a retry that no stage can read is parked before its claim
    kinds = {said.value for said in RecordKind if said not in harmless}
    assert broken >= {("I19", one) for one in {*kinds, "run#waits#o1"}}
    assert explore(waiting.FLOWS, [OF_A_FLOW], **given).ok


@pytest.mark.slow("explores flows and handlers")
def test_a_flow_that_trusts_its_senders_is_attacked_where_that_is_asked_for_alone() -> None:
    flows = [Trusting, waiting.Finds]
    for insider in (None, False):
        with pytest.raises(UnmetSchedule, match="no run waits"):
            attacked(["i2"], flows, insider=insider)
    assert attacked(["i2"], flows, insider=True)["i2"] >= {"I19", "equivalence"}


class Onward(waiting.GoOn, name="go-on", then="close", inbox="to-go-on"):
    """The hop after the wait goes on through a FIFO queue."""

    def handle(self, answers: waiting.Answers, step: Step) -> Outcome:
        return Close.message(waiting.Part(part_id="p1"))


class Close(Stage[waiting.Part], name="close", inbox="to-close.fifo"):
    def handle(self, part: waiting.Part, step: Step) -> Outcome:
        return Done()


class InOrder(Flow, name="waits", object_id="order_id", answers="to-answers", callbacks=waiting.Waits.callbacks):
    stages = (waiting.Begin, Onward, waiting.Late, Close)


@pytest.mark.slow("explores flows and handlers")
def test_a_message_under_the_id_of_the_next_hop_keeps_it_from_no_fifo_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = [InOrder, waiting.Finds]
    assert attacked(["i2"], flows) == {"i2": set()}
    monkeypatch.setattr("flowguard.aws.sender._deduplication_id", lambda send: send.id)
    assert attacked(["i2"], flows)["i2"]


def test_a_request_that_repeats_the_id_of_a_run_and_takes_it_over_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for policy, condition in expressions.FIRST_HOP.items():
        monkeypatch.setitem(expressions.FIRST_HOP, policy, f"{condition} OR requested_at < :requested_at")
    assert "I19" in attacked(["i2"])["i2"]


GUARDS: Final = {
    "signatures of orders": ("check_order", lambda *_: None),
    "signatures of hops": ("_is_signed", lambda *_: False),
}
"""What the forged records meet. The sources are another guard, which alone does not keep an insider out."""


@pytest.mark.parametrize("guard", GUARDS)
def test_a_check_that_is_taken_away_is_noticed(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trust, *GUARDS[guard])
    assert "I19" in attacked(["i2"])["i2"]

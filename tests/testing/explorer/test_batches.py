"""Several records at once: what a schedule meets, whose report is whose, and that a batch ends as its records do."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from flowguard import Done, Flow, Outcome, Retry, Stage, Step
from flowguard.aws import batch_calls
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.protocol.run import Committed
from flowguard.sim.engines import in_memory
from flowguard.sim.functions import Batching
from flowguard.testing import lambda_events
from flowguard.testing.explorer import explore, replay
from flowguard.testing.explorer.record.history import DeliveryRecord, History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.report.page import page_of_schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Needs, Sandbox
from flowguard.testing.explorer.run.told_records import told_record
from flowguard.testing.lambda_events import SENT_AT
from tests.testing.explorer.seeded import TABLES, Order

TOGETHER: Final[dict[str, Any]] = {"batch": 10, "together": True, "tables": TABLES}


class Pack(Stage[Order], name="pack", inbox="orders", then="ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("labels", {"order": order.order_id, "amount": order.amount})
        return Ship.message(order)


class Ship(Stage[Order], name="ship", inbox="packs"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class PackOrder(Flow, name="pack-order", object_id="order_id", complete_to="packed"):
    stages = (Pack, Ship)


class PackAtOnce(Stage[Order], name="pack", inbox="orders", then="ship", lease=False):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("labels", {"order": order.order_id, "amount": order.amount})
        return ShipAtOnce.message(order)


class ShipAtOnce(Stage[Order], name="ship", inbox="packs", lease=False):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("shipments", {"order": order.order_id})
        return Done()


class PackUnleased(Flow, name="pack-unleased", object_id="order_id", complete_to="packed"):
    stages = (PackAtOnce, ShipAtOnce)


class Fails(Stage[Order], name="fails", inbox="orders"):
    """Fails for one of the objects."""

    def handle(self, order: Order, step: Step) -> Outcome:
        if order.order_id == "o2":
            raise Retry("not yet")
        return Done()


class FailsOnce(Flow, name="fails-once", object_id="order_id"):
    stages = (Fails,)


TWO: Final = [Order(order_id="o1"), Order(order_id="o2", amount=7)]


def history_of(flow: Any, messages: Any, schedule: str = "none", *, together: bool = True) -> History:
    needs = Needs(batching=Batching(10, together))
    with Sandbox([flow], messages, TABLES, in_memory, 0, needs=needs) as sandbox:
        return run(sandbox, Schedule.parse(schedule))


def events_of(one: DeliveryRecord) -> list[EventType]:
    return [event.type for event in one.events]


# -- what a schedule meets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("together", "claims"),
    [(True, ["BatchExecuteStatement"]), (False, ["UpdateItem", "UpdateItem"])],
    ids=["together", "one after the other"],
)
def test_a_function_of_a_flow_gets_what_waits_in_its_queue(together: bool, claims: list[str]) -> None:
    history = history_of(PackOrder, TWO, together=together)
    first, second, *later = history.deliveries
    assert [first.worker, second.worker] == [1, 1]
    assert history.given_to(1) == [first, second]
    assert [one.hop for one in later] == [2, 2]
    assert [one.shared for one in history.deliveries] == [True] * 4
    assert [one.operation for one in history.calls if one.worker == 1 and str(one.site) == "claim"] == claims
    assert history.tables["totals"][0]["amount"] == 12


def test_a_time_line_and_a_lane_show_each_record_of_a_worker() -> None:
    trace = replay(PackOrder, TWO, "none", **TOGETHER)
    shown = [line.split("s  ", 1)[1].strip() for line in trace.timeline if "hop" in line]
    assert shown == ["w1  pack, hop 1", "w1  pack, hop 1", "w3  ship, hop 2", "w3  ship, hop 2"]
    assert [lane.worker for lane in trace.lanes.lanes] == [1, 3]
    ids = re.findall(r'id="([^"]+)"', page_of_schedule(trace))
    assert len(set(ids)) == len(ids)


def test_statements_are_refused_one_by_one_and_asked_again_alone() -> None:
    history = history_of(PackOrder, TWO, "p1-2")
    shared, alone = (one for one in history.calls if str(one.site) == "claim" and one.worker == 1)
    assert (shared.entries, shared.refused, shared.applied) == (2, (2,), 1)
    assert [alone.operation, alone.applied] == ["UpdateItem", 1]
    assert [version.key for version in history.versions[:2]] == ["run#pack-order#o1", "run#pack-order#o2"]


def test_where_all_statements_are_refused_none_is_carried_out() -> None:
    history = history_of(PackOrder, TWO[:1] + TWO, "p2-11.p2-1")
    assert history.at_rest
    assert history.latest().keys() == {"run#pack-order#o1", "run#pack-order#o2"}


def test_the_run_table_is_refused_for_statements_too() -> None:
    history = history_of(PackOrder, TWO, "f1")
    asked = [one for one in history.calls if str(one.site) != "hand back"]
    assert [one.operation for one in asked[:2]] == ["BatchExecuteStatement", "UpdateItem"]
    assert {one.error for one in asked} == {"AccessDeniedException"}
    assert history.versions == []
    assert not any(one.acked for one in history.deliveries)


def test_a_death_takes_all_records_of_its_event_with_it() -> None:
    history = history_of(PackOrder, TWO, "d1-1")
    assert [one.died for one in history.deliveries[:2]] == [True, True]
    assert [(one.from_dlq, one.shared) for one in history.deliveries[2:4]] == [(True, True)] * 2
    assert {item.status for item in history.latest().values()} == {"COMPLETED"}, "one death ends no run"


def test_each_record_of_an_event_may_come_twice() -> None:
    history = history_of(PackOrder, TWO, "x2")
    assert list(history.copies.values()) == [2]
    assert [one.text for one in history.notes] == ["delivery 2 happens twice"]


# -- whose report is whose ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
def test_what_is_reported_is_of_the_record_that_it_is_about(together: bool) -> None:
    history = history_of(FailsOnce, TWO, together=together)
    good, bad = history.deliveries[:2]
    assert EventType.COMPLETED in events_of(good)
    assert EventType.RETRIED not in events_of(good)
    assert EventType.RETRIED in events_of(bad)
    assert EventType.COMPLETED not in events_of(bad)


@pytest.mark.parametrize("together", [True, False])
def test_of_two_copies_of_one_message_each_has_its_own_reports(together: bool) -> None:
    """The second meets the first one's commit, and both send; only the first one's send is refused."""
    message, _ = PackOrder.request(Order(order_id="o1"), request_id=RequestId("r1"), requested_at=SENT_AT)
    copies = [
        lambda_events.sqs_event("orders", message.body, attributes=message.attributes(), message_id=one)
        for one in ("first", "second")
    ]
    history = history_of(PackOrder, copies, together=together)
    first, second = history.deliveries[:2]
    assert [EventType.COMMITTED in events_of(one) for one in (first, second)] == [True, False]
    assert EventType.DONE in events_of(second)
    sent = [[str(one.facts["id"]) for one in given.events if one.type is EventType.SENT] for given in (first, second)]
    assert sent[0] == sent[1]
    assert len(sent[0]) == 2, "a label, and the next hop"


def test_a_send_that_is_refused_keeps_its_own_record_alone() -> None:
    calls = history_of(PackOrder, TWO).calls
    sends = next(one.number for one in calls if one.operation == "SendMessageBatch")
    first, second = history_of(PackOrder, TWO, f"p{sends}-2").deliveries[:2]
    assert [first.acked, second.acked] == [True, False]
    assert [EventType.NOT_SENT in events_of(one) for one in (first, second)] == [False, True]
    assert second.failures == (second.message_id,)


def test_where_no_frame_shows_a_record_none_is_said() -> None:
    assert told_record() is None


# -- how a batch has to end --------------------------------------------------------------------------------------------

EACH_WAY: Final = pytest.mark.parametrize(
    "together",
    [True, pytest.param(False, marks=pytest.mark.long("the records come one after the other"))],
    ids=["together", "one after the other"],
)


@pytest.mark.proof("explores every single fault of a flow, twice")
@EACH_WAY
def test_a_batch_ends_as_its_records_do_under_every_fault(together: bool) -> None:
    messages = [*TWO, Order(order_id="o1", amount=2)]
    report = explore(PackOrder, messages, **{**TOGETHER, "together": together}, bound=30, walks=20)
    assert report.ok, str(report)
    assert report.ends == 3, "o1 is asked for twice: the newer request counts, or both"


@pytest.mark.proof("explores every single fault of a flow")
def test_a_batch_without_leases_ends_as_its_records_do_under_every_fault() -> None:
    messages = [*TWO, Order(order_id="o1", amount=2)]
    report = explore(PackUnleased, messages, **TOGETHER, bound=30, walks=20)
    assert report.ok, str(report)


def test_records_without_leases_are_read_in_one_request_and_committed_in_another() -> None:
    calls = [(str(one.site), one.operation) for one in history_of(PackUnleased, TWO).calls]
    own = [one for one in calls if one[0] != "dispatch"]
    assert own == [("claim", "BatchGetItem"), ("commit", "BatchExecuteStatement")] * 2


def test_what_a_run_had_to_send_before_goes_where_its_stage_sends() -> None:
    """The next request sends it, since the message of the run's last hop was parked, and the next run takes over."""
    trace = replay(PackUnleased, TWO, "f4.r1", **TOGETHER)
    assert trace.ok, trace.violations


def test_what_shared_calls_leave_unanswered_is_not_taken_for_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(self: Any, *given: Any) -> Any:
        return Committed()

    monkeypatch.setattr(batch_calls.DynamoDBBatches, "_committed", all_of_them)
    trace = replay(PackOrder, TWO, "p2-1", **TOGETHER)
    assert {problem.rule for one in trace.violations for problem in one.problems} >= {"equivalence"}


@pytest.mark.proof("explores flows")
def test_a_fence_that_shared_calls_do_not_see_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is held up before the commits. Meanwhile another one has the records, and commits them."""
    assert replay(PackOrder, TWO, "v2", **TOGETHER).ok
    real = batch_calls.DynamoDBBatches._committed

    def blind(self: Any, claim: Any, commit: Any, found: Any) -> Any:
        fenced = found.get("Error", {}).get("Code") == "ConditionalCheckFailed"
        return Committed() if fenced else real(self, claim, commit, found)

    monkeypatch.setattr(batch_calls.DynamoDBBatches, "_committed", blind)
    assert not replay(PackOrder, [*TWO, Order(order_id="o1", amount=2)], "v2", **TOGETHER).ok

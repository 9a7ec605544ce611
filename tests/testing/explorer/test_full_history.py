"""The rows of a full history disturb no comparison of ends, whatever goes wrong when they are written."""

from __future__ import annotations

from typing import Final

import pytest

from flowguard import Done, Flow, Outcome, Retry, Stage, Step
from flowguard.testing.explorer import explore
from tests.testing.explorer.seeded import TABLES, Order


class Told(Stage[Order], name="told", inbox="orders", then="again"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("labels", {"order": order.order_id})
        return Again.message(order)


class Again(Stage[Order], name="again", inbox="again.fifo"):
    """Fails once, and is retried in place."""

    def handle(self, order: Order, step: Step) -> Outcome:
        if step.attempt == 1:
            raise Retry("not yet")
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class First(Told, name="first", then="last"):
    """Fails once, and sends its message again."""

    def handle(self, order: Order, step: Step) -> Outcome:
        if step.attempt == 1:
            raise Retry("not yet")
        return Last.message(order)


class Last(Stage[Order], name="last", inbox="last"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class InPlace(Flow, name="in-place", object_id="order_id", complete_to="told-to", full_history=True):
    stages = (Told, Again)


class SentAgain(Flow, name="sent-again", object_id="order_id", complete_to="told-to", full_history=True):
    stages = (First, Last)


ORDER: Final = Order(order_id="o1")


@pytest.mark.proof("explores flows")
def test_some_faults_at_a_flow_with_a_full_history() -> None:
    report = explore(SentAgain, [ORDER], tables=TABLES, bound=0, walks=0, most=4, for_good=False)
    assert report.ok, str(report)


@pytest.mark.proof("explores every single fault")
@pytest.mark.parametrize(
    "flow", [InPlace, pytest.param(SentAgain, marks=pytest.mark.long("one run of the flow of which two are explored"))]
)
def test_a_flow_with_a_full_history_leaves_the_undisturbed_end_under_every_fault(flow: type[Flow]) -> None:
    report = explore(flow, [ORDER], tables=TABLES, bound=0, walks=0)
    assert report.ok, str(report)
    assert any(one.endswith("TransactWriteItems of tell") for one in report.coverage)


@pytest.mark.long("explores every single fault once more, of two runs")
def test_two_runs_of_an_object_that_has_a_full_history_leave_an_undisturbed_end() -> None:
    report = explore(SentAgain, [ORDER, Order(order_id="o1", amount=7)], tables=TABLES, bound=0, walks=0)
    assert report.ok, str(report)


@pytest.mark.long("explores every single fault once more, of a batch")
def test_a_batch_whose_commits_go_alone_leaves_the_undisturbed_end() -> None:
    orders = [ORDER, Order(order_id="o2", amount=7)]
    report = explore(SentAgain, orders, tables=TABLES, bound=0, walks=0, batch=10, together=True)
    assert report.ok, str(report)

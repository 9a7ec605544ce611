"""Of orders that commute one is run, and no end is lost by that."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.sim.world import START
from flowguard.testing.explorer import Later
from flowguard.testing.explorer.record.schedule import Choice, FaultKind, Schedule
from flowguard.testing.explorer.run.inbox import arn_of
from flowguard.testing.explorer.search.right_ends import RightEnds
from flowguard.testing.explorer.search.runs import Runs
from flowguard.testing.explorer.search.search import Search
from flowguard.testing.lambda_events import sqs_event
from tests.proofs.prove.cases import CASES
from tests.testing.explorer.histories import history_of
from tests.testing.explorer.interleaved import CountStock
from tests.testing.explorer.interleaved import Order as Stocked
from tests.testing.explorer.search.worlds import TABLES, Booked, Hesitating, Kept, Order, Replaced, runs_of
from tests.testing.explorer.waiting import Finds, Part


class EveryOrder(RightEnds):
    """The whole search, which takes each order for one that may end differently."""

    def commutes(self, history: Any) -> bool:
        return False


def learnt(kind: type[RightEnds], flow: Any, orders: Any) -> RightEnds:
    with runs_of(flow, *orders) as runs:
        right = kind(runs)
        right.learn(runs.run_one_by_one(Schedule()), lambda: False)
        return right


def wholes(right: RightEnds) -> set[str]:
    return {order.end.digest for order in right.ordered if order.is_whole}


o1, o2 = Order(order_id="o1"), Order(order_id="o2")


@pytest.mark.proof("explores flows")
@pytest.mark.parametrize(
    ("flow", "orders", "run", "of"),
    [
        (Booked, (o1, o2), 1, 6),
        (Booked, (o1, o2, Order(order_id="o3")), 1, 90),
        (Booked, (o1, o1), 5, 5),
        (Replaced, (o1, o2), 6, 6),
        (Replaced, (o1, o2, Order(order_id="o3", shelf="b")), 12, 90),
        (CountStock, (Stocked(order_id="o1"), Stocked(order_id="o2", amount=2)), 1, 6),
        (Kept, (o1, o2), 2, 2),
    ],
    ids=["apart", "three apart", "one object", "one item", "one of three apart", "numbers", "kept in a module"],
)
def test_the_orders_that_are_run_have_all_ends_that_there_are(flow: Any, orders: Any, run: int, of: int) -> None:
    reduced, every = learnt(RightEnds, flow, orders), learnt(EveryOrder, flow, orders)
    assert (reduced.has_all, every.has_all) == (True, True)
    assert reduced.ends.keys() == every.ends.keys()
    assert wholes(reduced) == wholes(every)
    assert (reduced.orders, every.orders) == (run, of)


def copies(*orders: Order) -> Iterator[Any]:
    for order in orders:
        for _ in range(2):
            yield sqs_event(arn_of("hesitations"), order.model_dump_json(), message_id=f"m-{order.order_id}")


@pytest.mark.proof("explores a flow")
def test_a_copy_is_put_off_once_and_no_end_is_lost_by_that() -> None:
    messages = [*copies(o1), *copies(o2)]
    reduced, every = learnt(RightEnds, Hesitating, messages), learnt(EveryOrder, Hesitating, messages)
    assert (reduced.has_all, reduced.ends.keys()) == (True, every.ends.keys())
    assert (len(every.ends), reduced.orders) == (2, 52)


@pytest.mark.proof("explores a flow")
def test_a_copy_of_an_answer_is_put_off_once() -> None:
    """It stays in its queue until the run has gone on."""
    (case,) = (case for case in CASES if case.name == "wait-event")
    with case.sandbox() as sandbox:
        runs = Runs(sandbox, case.free)
        right = RightEnds(runs)
        right.learn(runs.run_one_by_one(Schedule()), lambda: False)
    assert (right.has_all, len(right.ends), right.orders) == (True, 1, 93)


@pytest.mark.parametrize(("flow", "are_known"), [(Booked, True), (Replaced, False)], ids=["one order", "one of six"])
def test_the_order_in_which_the_time_ran_out_says_nothing_of_the_others(flow: Any, are_known: bool) -> None:
    with runs_of(flow, o1, o2) as runs:
        right = RightEnds(runs)
        right.learn(runs.run_one_by_one(Schedule()), lambda: True)
        assert (right.orders, right.are_known) == (1, are_known)


def test_what_a_stub_remembers_may_depend_on_each_order() -> None:
    def asked(stub: Any) -> int:
        with runs_of(Booked, o1, o2, stubs={"ssm.GetParameter": stub}) as runs:
            right = RightEnds(runs)
            right.learn(runs.run_one_by_one(Schedule()), lambda: False)
            return right.orders

    assert asked({"Parameter": {"Value": "x"}}) == 1
    assert asked(lambda params: {"Parameter": {"Value": "x"}}) == 6


# -- a delivery that cannot come later hides one that can


class Collected(BaseModel):
    a: dict[str, int] | None = None
    b: dict[str, int] | None = None
    c: dict[str, int] | None = None


class Collect(Stage[Order], name="collect", then=("won", "late"), inbox="to-collect"):
    def handle(self, order: Order, step: Step) -> Outcome:
        asks: dict[str, Any] = {name: step.ask(Finds, Part(part_id=f"p{name}")) for name in "cab"}
        return Won.when(quorum=2, within=timedelta(minutes=10), on_timeout="late", **asks)


class Won(Stage[Collected], name="won", inbox="to-won"):
    def handle(self, collected: Collected, step: Step) -> Outcome:
        step.put("closed", {"order_id": "o1", "by": "".join(n for n in "abc" if getattr(collected, n))})
        return Done()


class Late(Stage[dict[str, Any]], name="late", inbox="to-won"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class FirstTwo(Flow, name="first-two", object_id="order_id", answers="to-answers"):
    """Goes on with the first two answers of three: which they are decides its end."""

    stages = (Collect, Won, Late)


def answers_of() -> dict[str, Any]:
    """The messages that answer the run, by what they are for."""
    history = history_of([FirstTwo, Finds], [o1], "none", tables=TABLES)
    found: dict[str, Any] = {}
    for message in history.posted:
        attributes = {name: attribute.value for name, attribute in message.attributes.items()}
        for name in "abc":
            if f'"name":"{name}"' in attributes.get("flowguard", "") and '"answer":' in attributes["flowguard"]:
                found[name] = (message.body, attributes)
    return found


@pytest.mark.proof("explores flows")
def test_an_answer_that_comes_twice_hides_no_order_of_the_others() -> None:
    posted = answers_of()

    def answer(name: str, copy: int) -> Later:
        body, attributes = posted[name]
        event = sqs_event(
            arn_of("to-answers"), body, attributes=attributes, message_id=f"m-{name}-{copy}", sent_at=START + 60_000
        )
        return Later(event, timedelta(minutes=1))

    messages = (o1, answer("a", 1), answer("a", 2), answer("b", 1), answer("c", 1))
    reduced, every = learnt(RightEnds, FirstTwo, messages), learnt(EveryOrder, FirstTwo, messages)
    assert (reduced.has_all, every.has_all) == (True, True)
    assert reduced.ends.keys() == every.ends.keys()
    assert len(every.ends) == 3
    assert reduced.orders < every.orders


def test_an_order_in_which_one_run_comes_last_explains_an_end_before_the_bound_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a death: its message, and a copy of it, come when all others are done."""
    monkeypatch.setattr("flowguard.testing.explorer.search.right_ends.MOST_ORDERS", 1)
    orders = [o1, o1, o2, Order(order_id="o3")]
    with runs_of(Replaced, *orders) as runs:
        right = RightEnds(runs)
        right.learn(runs.run_one_by_one(Schedule()), lambda: False)
        assert (right.has_all, right.orders) == (False, 1)
        late = runs.run_one_by_one(Schedule(tuple(Choice(at, FaultKind.REORDERED, 2) for at in (1, 2, 3, 4, 5, 6))))
        end = runs.end(late)
        assert end.digest not in right.ends
        assert right.differences(end, (frozenset(),)) == []
        assert right.orders < 5


def test_an_end_that_no_order_explains_by_right_asks_for_no_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.testing.explorer.search.right_ends.MOST_ORDERS", 1)
    with runs_of(Replaced, o1, o2, Order(order_id="o3")) as runs:
        search = Search(runs, ())
        search.references()
        history, violations = search.check(Schedule.parse("f1"))
        assert len(history.refusals) == 1
        assert (violations, search.right.has_all, search.right.orders) == ({}, False, 1)
        _, violations = search.check(Schedule.parse("d2"))
        assert violations == {}
        assert search.right.orders > 1, "what undisturbed records may lead to is looked for"


def test_what_differs_from_the_ends_until_now_runs_no_order() -> None:
    with runs_of(Replaced, o1, o2) as runs:
        right = RightEnds(runs)
        first = runs.run_one_by_one(Schedule())
        end, other = runs.end(first), runs.end(runs.run_one_by_one(Schedule.parse("o1-1")))
        assert right.differences_so_far(end, (frozenset(),)) == [], "nothing is known yet"
        right.learn(first, lambda: True)
        assert right.differences_so_far(end, (frozenset(),)) == []
        assert right.differences_so_far(other, (frozenset(),)) != []
        assert right.orders == 1

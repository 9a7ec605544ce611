"""What a hop does before its commit (I17): histories that break it, and a guard that is taken away."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.aws import expressions
from flowguard.protocol.memo import Memo
from flowguard.protocol.run import RunItem
from flowguard.testing.explorer import explore
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.record.history import History, Version
from tests.testing.explorer.histories import history_of


class Order(BaseModel):
    order_id: str


class Count(Stage[Order], name="count"):
    def handle(self, order: Order, step: Step) -> Outcome:
        bill = step.once("bill", lambda: step.key("bill"))
        with step.apply("count"):
            step.update("totals", {"day": "today"}, "ADD orders :one", values={":one": 1})
        return Done(bill)


class Counted(Flow, name="counted", object_id="order_id"):
    stages = (Count,)


TABLES = {"totals": "day"}
ORDER = Order(order_id="o1")
CLAIM, BILL, BLOCK, COMMIT = range(4)


def history() -> History:
    return history_of(Counted, [ORDER], "none", tables=TABLES)


def problems(found: History) -> list[str]:
    return [problem.text for problem in broken(found, [Counted], ()) if problem.rule == "I17"]


def item_at(found: History, place: int) -> RunItem:
    item = found.versions[place].item
    assert item is not None
    return item


def again(found: History, place: int, worker: int, **texts: str) -> None:
    """One more version after this place, in which the hop remembers these texts alone."""
    item, version = item_at(found, place), found.versions[place]
    results = {name: (lambda text=text: text) for name, text in texts.items()}
    memo = Memo(item.request_id, item.hop, results, 1)
    found.versions.insert(place + 1, Version(version.key, 99, worker, item._replace(memo=memo)))


def test_nothing_is_wrong_with_what_is_right() -> None:
    found = history()
    assert len(found.versions) == 4
    assert problems(found) == []


FORGED: list[tuple[Callable[[History, int], None], list[str]]] = [
    (
        lambda found, own: again(found, CLAIM, own + 1, bill="1"),
        ["a worker that did not own the hop remembered 'bill'", "'bill' was remembered twice"],
    ),
    (lambda found, own: again(found, CLAIM, own, more="1"), ["the hop has forgotten 'more'"]),
    (lambda found, own: again(found, BILL, own, bill="1"), ["'bill' was remembered twice"] * 2),
    (lambda found, own: again(found, COMMIT, own, more="1"), ["'more' was remembered after the commit of its hop"]),
]


@pytest.mark.parametrize(("forged", "found"), FORGED)
def test_a_history_that_breaks_it_is_noticed(forged: Callable[[History, int], None], found: list[str]) -> None:
    made = history()
    forged(made, made.versions[CLAIM].worker)
    assert problems(made) == found


def test_what_is_left_of_another_hop_is_no_memory_of_this_one() -> None:
    made = history()
    again(made, CLAIM, made.versions[CLAIM].worker, other="1")
    forged = item_at(made, CLAIM + 1)
    assert forged.memo is not None
    made.versions[CLAIM + 1] = Version(
        made.versions[0].key, 99, made.versions[0].worker, forged._replace(memo=forged.memo._replace(hop=7))
    )
    assert problems(made) == []


@pytest.mark.proof("explores every single fault")
def test_a_fence_that_is_taken_away_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explore(Counted, [ORDER], tables=TABLES, bound=0, walks=0, for_good=False)
    assert whole.ok, str(whole)
    monkeypatch.setattr(expressions, "REMEMBER", f"({expressions.REMEMBER}) OR attribute_exists(pk)")
    report = explore(Counted, [ORDER], tables=TABLES, bound=0, walks=0, for_good=False)
    assert "I17" in {violation.rule for violation in report.violations}, str(report)

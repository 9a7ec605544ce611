"""Failed runs that are undone, with one guard taken away at a time: the explorer has to notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.errors import Reject
from flowguard.failed import Failure
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import Kind
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing.explorer import Report, explore
from flowguard.verdicts import Verdict
from flowguard.worker.ending import acked
from flowguard.worker.plan import Planner
from flowguard.worker.turned_away import TurnedAway

pytestmark = pytest.mark.proof("explores every single fault, once for each guard")

Patch = pytest.MonkeyPatch


class Order(BaseModel):
    order_id: str


class Held(BaseModel):
    amount: int = 0


class Hold(Stage[Order, Held], name="hold", then="pay"):
    def handle(self, order: Order, step: Step[Held]) -> Outcome:
        step.state.amount = 3
        step.update("stock", {"sku": "tea"}, "ADD held :more", values={":more": 3})
        return Pay.message(order)


class Pay(Stage[Order, Held], name="pay"):
    def handle(self, order: Order, step: Step[Held]) -> Outcome:
        raise Reject("declined")


class Free(Stage[Failure, Held], name="free"):
    def handle(self, failure: Failure, step: Step[Held]) -> Outcome:
        step.update("stock", {"sku": "tea"}, "ADD held :less", values={":less": -step.state.amount})
        step.state.amount = 0
        return Done()


class Sell(Flow, name="sell", object_id="order_id", on_failed=Free, complete_to="told"):
    stages = (Hold, Pay, Free)


def explored(**about: Any) -> Report:
    return explore(Sell, [Order(order_id="o1")], tables={"stock": "sku"}, bound=0, failing=["o1"], **about)


def letter_with_the_next_hop(patch: Patch) -> None:
    patch.setattr(Kind, "phase", property(lambda kind: 2 - 2 * (kind is Kind.NEXT)))


def without(kind: Kind) -> Callable[[Patch], None]:
    def commit_less(patch: Patch) -> None:
        whole = Planner.giving_up

        def giving_up(self: Planner, *args: Any) -> Any:
            commit = whole(self, *args)
            assert commit.outbox is not None
            sends = tuple(send for send in commit.outbox.sends if send.kind is not kind)
            return commit._replace(outbox=commit.outbox._replace(sends=sends))

        patch.setattr(Planner, "giving_up", giving_up)

    return commit_less


def drops_a_letter_that_is_sent_back(patch: Patch) -> None:
    whole = TurnedAway._refused

    def refused(self: TurnedAway, arrival: Any, answer: Any) -> Any:
        dropped = answer.verdict is Verdict.GIVEN_UP
        return acked(arrival, answer.verdict) if dropped else whole(self, arrival, answer)

    patch.setattr(TurnedAway, "_refused", refused)


@pytest.mark.parametrize(
    ("mutant", "rule"),
    [
        pytest.param(letter_with_the_next_hop, "I7", marks=pytest.mark.long("another promise is broken")),
        pytest.param(without(Kind.DEAD), "I6", marks=pytest.mark.long("another message is missing")),
        pytest.param(without(Kind.NEXT), "I6", marks=pytest.mark.long("another message is missing")),
        (drops_a_letter_that_is_sent_back, "I6"),
    ],
    ids=["letter with the next hop", "no letter", "no next hop", "drops a letter"],
)
def test_a_guard_of_undoing_that_is_taken_away_is_noticed(
    mutant: Callable[[Patch], None], rule: str, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    report = explored(walks=0)
    assert rule in {violation.rule for violation in report.violations}, str(report)


def test_with_all_guards_there_is_nothing_to_notice() -> None:
    report = explored(walks=10)
    assert report.ok, str(report)

"""What is compared: three pieces of business, and each of the six ways in which they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowguard.project.declared import declared_tables
from flowguard.testing import sqs_event
from flowguard.testing.explorer import Explored, Invariant, PlainFunction, View
from flowguard.testing.explorer.run.explored import modules_of
from tests.proofs.compare import check_then_act, mark_first, one_write, powertools, with_flowguard, with_once

VISIBILITY: Final = 180
TIMEOUT: Final = 30
"""Seconds: a sixth, as AWS advises."""

BOOKKEEPING: Final = {"idempotency": ["expiration", "in_progress_expiration"]}
"""When a record of Powertools expires depends on when it was written."""

HAND_WRITTEN: Final = {
    "check then act": check_then_act,
    "mark first": mark_first,
    "one write": one_write,
    "Powertools": powertools,
    "@once": with_once,
}
ORDER: Final = {"order_id": "o1", "day": "monday", "amount": 5}
CHANGES: Final = (
    {"order_id": "o1", "request_id": "r1", "requested_at": 1, "address": "old street"},
    {"order_id": "o1", "request_id": "r2", "requested_at": 2, "address": "new street"},
)


@dataclass(frozen=True, slots=True)
class Way:
    """A piece of business, written in one way."""

    name: str
    explored: Sequence[Explored]
    messages: Sequence[Any]
    invariants: Sequence[Invariant]
    failing: Sequence[str] = ()
    """The objects whose runs are to fail."""

    @property
    def free(self) -> Mapping[str, Sequence[str]]:
        """What may differ at the end, of the tables that it has."""
        return {
            table: names for table, names in BOOKKEEPING.items() if table in declared_tables(modules_of(self.explored))
        }

    @property
    def arguments(self) -> dict[str, Any]:
        """What :func:`explore` is called with."""
        return {
            "flows": self.explored,
            "messages": self.messages,
            "invariants": self.invariants,
            "free": self.free,
            "failing": self.failing,
        }


def charges() -> list[Way]:
    """An order is charged, and then confirmed by the function of a second queue."""
    messages, invariants = [sqs_event("charges", ORDER)], [nothing_is_applied_twice, nothing_is_lost]
    ways = [
        Way(
            name,
            [function("charges", module.charge), function("confirmations", module.confirm)],
            messages,
            invariants,
        )
        for name, module in HAND_WRITTEN.items()
    ]
    request = with_flowguard.Order.model_validate(ORDER)
    return [*ways, Way("flowguard", [with_flowguard.ChargeOrder], [request], invariants)]


def changes() -> list[Way]:
    """Two requests for one order: the newer address is to stay."""
    messages = [sqs_event("changes", change) for change in CHANGES]
    requests = [with_flowguard.Change(order_id="o1", address=str(change["address"])) for change in CHANGES]
    invariants = [the_newest_stays]
    ways = [
        Way(name, [function("changes", module.save)], messages, invariants) for name, module in HAND_WRITTEN.items()
    ]
    return [*ways, Way("flowguard", [with_flowguard.SaveAddress], requests, invariants)]


def declined() -> list[Way]:
    """An order is charged, its customer declines, and what was charged is taken back."""
    messages, invariants = [sqs_event("charges", ORDER)], [all_is_taken_back, nothing_is_taken_back_twice]
    ways = [
        Way(
            name,
            [function("charges", module.charge), function("confirmations", module.decline)],
            messages,
            invariants,
        )
        for name, module in HAND_WRITTEN.items()
    ]
    request = with_flowguard.Order.model_validate(ORDER)
    return [*ways, Way("flowguard", [with_flowguard.DeclineOrder], [request], invariants, failing=["o1"])]


def function(queue: str, handler: Any) -> PlainFunction:
    return PlainFunction(queue, handler, visibility=VISIBILITY, timeout=TIMEOUT)


def nothing_is_applied_twice(view: View) -> None:
    amount, orders = _applied(view)
    assert amount <= 5, f"{amount} was charged"
    assert orders <= 1, f"{orders} were confirmed"


def nothing_is_lost(view: View) -> None:
    amount, orders = _applied(view)
    assert _is_parked(view) or amount >= 5, f"{amount} was charged"
    assert _is_parked(view) or orders >= 1, f"{orders} were confirmed"


def all_is_taken_back(view: View) -> None:
    amount, _ = _applied(view)
    is_parked = any("take-back failed" in end.body["error"] for end in view.sent("ends"))
    assert is_parked or amount <= 0, f"{amount} stays charged"


def nothing_is_taken_back_twice(view: View) -> None:
    amount, _ = _applied(view)
    assert amount >= 0, f"{-amount} too much was taken back"


def the_newest_stays(view: View) -> None:
    address = view.item("addresses", order_id="o1")
    newest = address is None or address["address"] == "new street"
    assert _is_parked(view) or newest, "the older address stayed"


def _applied(view: View) -> tuple[int, int]:
    """What was charged, and how many orders were confirmed."""
    total, confirmed = view.item("totals", day="monday"), view.item("confirmed", day="monday")
    return (total or {}).get("amount", 0), (confirmed or {}).get("orders", 0)


def _is_parked(view: View) -> bool:
    """A request whose run has failed is not over: it waits among the dead letters."""
    return any(run.status == "FAILED" for run in view.runs())

"""What is explored: the shipped flows, and flows made for the guards. A new primitive is proved by a case of its own.

The order is that in which mutants are tried: who kills most for its schedules comes first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from flowguard.attributes import Attribute
from flowguard.flow import AnyFlow
from flowguard.ids import RequestId
from flowguard.local.world import START
from flowguard.testing import sns_event, sns_to_sqs_event, sqs_event
from flowguard.testing.explorer.inbox import Given, Later
from flows.take_payment.flow import TakePayment
from flows.take_payment.models import PaymentRequested
from flows.triggered_cache.flow import TriggeredCache
from flows.validate_cart.flow import ValidateCart
from tests.prove.flows import (
    TABLES,
    Chain,
    Checks,
    Counts,
    CountsFirst,
    Each,
    Everywhere,
    First,
    Guards,
    Hasty,
    Impatient,
    Lone,
    LoneFirst,
    Notes,
    Opened,
    Order,
    Pair,
    Patient,
    Slow,
    Starter,
)
from tests.prove.in_order import InOrder, InOrderAlone, InOrderFirst
from tests.prove.judge import Case
from tests.prove.mutant import ROOT
from tests.prove.promises import (
    ALWAYS,
    TENANT,
    a_dead_letter_names_the_mistake,
    a_result_stays,
    what_is_carried_goes_along,
)
from tests.prove.telling import what_is_told_is_so


def _sample(name: str) -> Any:
    return json.loads((ROOT / "samples" / name).read_text())


def _payment(**about: Any) -> PaymentRequested:
    return PaymentRequested(payment_id="p1", merchant_id="m1", card="c1", amount=Decimal(5), **about)


def _order(fail: str = "", amount: int = 5) -> Order:
    return Order(order_id="o1", amount=amount, fail=fail)


def _request(
    flow: AnyFlow,
    queue: str,
    order: Order,
    own: str = "request-1",
    *,
    at: int = 0,
    sent: int | None = None,
    group: str | None = None,
    record: str | None = None,
    **place: Any,
) -> Any:
    """A request as a record. ``at`` and ``sent`` are ms after the start. ``place`` are fields of the message."""
    message, _ = flow.request(order, request_id=RequestId(own), requested_at=START + at)
    message = message._replace(**place)
    about: Any = {"message_id": record or own, "sent_at": START + (at if sent is None else sent), "group": group}
    return sqs_event(queue, message.body, attributes=message.attributes(), **about)


_SAME_GROUP: Final = [
    _request(InOrder, "orders.fifo", _order("queued:1:error", 3), "request-1", group="o1"),
    _request(InOrder, "orders.fifo", _order("", 5), "request-2", at=1_000, group="o1"),
]
_SAME_TIME: Final = [
    _request(Pair, "to-open", _order(amount=3), "request-a"),
    _request(Pair, "to-open", _order(amount=5), "request-b"),
]
_REPEATED: Final = [
    _request(Pair, "to-open", _order()),
    _request(Pair, "to-open", _order(), at=1_000, record="repeated"),
]
_REPEATED_FIRST: Final = [
    _request(First, "to-open", _order()),
    _request(First, "to-open", _order(), at=1_000, record="repeated"),
]
_REPEATED_OUT_OF_ORDER: Final = [
    _request(InOrder, "orders.fifo", _order("queued:1:error"), at=1_000, group="o1"),
    _request(InOrder, "orders.fifo", _order("queued:1:error"), record="repeated", group="another"),
]
_BACK_TO_THE_EARLIER_COPY: Final = ["z1-1.e4"]
"""The later copy's worker fails, and the earlier copy comes while nobody is at work."""

_BEHIND_ITS_HOP: Final = [
    _request(InOrder, "orders.fifo", _order("settled:2:error"), group="o1"),
    Later(
        _request(InOrder, "orders.fifo", _order("settled:2:error"), record="repeated", group="another"),
        timedelta(seconds=9),
    ),
]
_BEHIND_ITS_END: Final = [
    _request(InOrderAlone, "single.fifo", _order("single:1:error"), group="o1"),
    Later(
        _request(InOrderAlone, "single.fifo", _order("single:1:error"), record="repeated", group="o1"),
        timedelta(minutes=1),
    ),
]
_BEHIND_ANOTHER: Final = [
    _request(InOrderAlone, "single.fifo", _order("single:2:error"), "request-2", at=1_000, sent=0, group="o1"),
    Later(_request(InOrderAlone, "single.fifo", _order(amount=3), group="another"), timedelta(seconds=9)),
]
_GONE_IN_ORDER: Final = [_request(InOrder, "settle.fifo", _order(), stage="settled", hop=2, group="o1")]
_SAME_TIME_RETRIED: Final = [
    _request(Pair, "to-open", _order(amount=3), "request-b"),
    Later(_request(Pair, "to-open", _order(amount=5), "request-a", retry=1), timedelta(seconds=9)),
]
_OLDER_BUT_GREATER: Final = [
    _request(Pair, "to-open", _order(amount=3), "request-a", at=1_000, sent=0),
    _request(Pair, "to-open", _order(amount=5), "request-b", sent=0),
]
_ASKED_BEFORE_THE_END: Final = [
    _request(First, "to-open", _order(amount=3), "request-a"),
    _request(First, "to-open", _order(amount=5), "request-b", at=10, sent=1_000),
]
_CARRIED: Final = [
    _request(Pair, "to-open", _order("shut:1:error"), carried={TENANT: Attribute.string("t1")}),
]
_ASKED_AGAIN: Final = [
    _request(Counts, "to-count", _order(amount=3), "request-a"),
    _request(Counts, "to-count", _order(amount=5), "request-b", at=60_000),
]
_FIRST_OF_TWO: Final = _request(Impatient, "to-open", _order(amount=3), "request-b")


def _abandoned(own: str, at: int, seconds: float) -> Sequence[Given]:
    """A request that comes when, after a death, nobody has worked on the object for long: leases last for 30 s."""
    second = _request(Impatient, "to-open", _order(amount=5), own, at=at, sent=at)
    return [_FIRST_OF_TWO, Later(second, timedelta(seconds=seconds))]


_BEHIND: Final = _request(Impatient, "to-open", _order(amount=3), "request-b", at=500, sent=0)
_OLDER_WHEN_ABANDONED: Final = [_BEHIND, *_abandoned("request-c", 0, 40)[1:]]
_ENDED_AT_THAT_MOMENT: Final = [
    _request(CountsFirst, "to-count", _order(amount=3), "request-a"),
    Later(_request(CountsFirst, "to-count", _order(amount=5), "request-b"), timedelta(seconds=1)),
]
_REDRIVEN_BESIDE_FIRST: Final = [
    _request(First, "to-open", _order()),
    _request(First, "to-open", _order(), record="redriven", sent=1_000, redrive=1),
]
_REDRIVEN_WHEN_DONE: Final = [
    _request(CountsFirst, "to-count", _order()),
    Later(_request(CountsFirst, "to-count", _order(), record="redriven", redrive=1), timedelta(minutes=1)),
]
_ANOTHER_REDRIVEN: Final = [
    _request(First, "to-open", _order(amount=3), "request-a"),
    _request(First, "to-open", _order(amount=5), "request-b", redrive=1),
]


def _shut(record: str, **place: Any) -> Any:
    """The second hop's message, from somebody else."""
    body = Opened(**_order().model_dump(), opened=True).model_dump_json()
    return _request(Pair, "to-shut", _order(), stage="shut", hop=2, body=body, record=record, **place)


_SHUT_REDRIVEN: Final = [_request(Pair, "to-open", _order()), Later(_shut("redriven", redrive=1), timedelta(seconds=9))]
_SHUT_RETRIED: Final = [*_SHUT_REDRIVEN, Later(_shut("retried", retry=1), timedelta(seconds=12))]
_RETRIED_BEHIND_A_REDRIVE: Final = [
    _request(First, "to-open", _order(), record="redriven", redrive=1),
    Later(_request(First, "to-open", _order(), retry=1), timedelta(seconds=9)),
]
_SHUT_EARLY: Final = [_request(Pair, "to-open", _order()), Later(_shut("early"), timedelta(seconds=9))]
_SHUT_THOUGH_FAILED: Final = [
    _request(Pair, "to-open", _order("open:9:reject")),
    Later(_shut("failed"), timedelta(seconds=9)),
]
_RETRIED_BESIDE_A_NEWER: Final = [
    _request(Pair, "to-open", _order("shut:1:after", 3), "request-a"),
    Later(_request(Pair, "to-open", _order(amount=5), "request-b", at=15_000), timedelta(seconds=15)),
]
_NOTED_TOO_LATE: Final[Sequence[Given]] = [
    _order(),
    Later(_request(Notes, "to-note", _order(), "noting"), timedelta(minutes=5)),
]
_REDRIVEN_BESIDE: Final = [
    _request(Pair, "to-open", _order()),
    _request(Pair, "to-open", _order(), record="redriven", sent=1_000, redrive=1),
]
_PASSED_IN_ORDER: Final = [
    _request(InOrder, "orders.fifo", _order("settled:1:error"), group="o1"),
    _request(InOrder, "orders.fifo", _order("settled:1:error"), record="repeated", group="o1"),
]
_REDRIVEN_IN_ORDER: Final = [
    _request(InOrder, "orders.fifo", _order("queued:1:error"), record="redriven", group="o1", redrive=1),
    _request(InOrder, "orders.fifo", _order("queued:1:error"), group="another"),
]
_WITHOUT_ITS_STATE: Final = [
    _request(Pair, "to-shut", _order(), stage="shut", hop=2, body=Opened(order_id="o1", opened=True).model_dump_json()),
]
_TOLD_ALREADY: Final = {"ended": ["error"]}
"""Why a run failed, where that depends on who gave it up."""

_NAMED: Final = [a_dead_letter_names_the_mistake]

_COPIES_OF_A_RETRY: Final = [f"x3.{fault}{call}" for call in range(7, 13) for fault in ("a", "d", "z")]
"""The retry of the middle hop comes once more while the last hop's worker is dead, or held up."""

_FLUSHED_IN_PART: Final = ["d3.p5-1", "d3.p5-2", "a2.p4-1", "a2.p4-2"]
"""The first run's worker dies with its messages unsent, and of what the next run sends for it one is refused."""

OWN: Final = (
    Case("chain", [Chain], [_order()], TABLES, invariants=[a_result_stays]),
    Case("superseded", [Pair], [_order(amount=3), _order(amount=5)], TABLES, also=_FLUSHED_IN_PART),
    Case("retried", [Pair], [_order("open:1:error,shut:1:after")], TABLES),
    Case("carried", [Pair], _CARRIED, TABLES, invariants=[what_is_carried_goes_along, a_result_stays]),
    Case("rejected", [Pair], [_order("shut:9:reject")], TABLES, free=_TOLD_ALREADY),
    Case("first-wins", [First], [_order(amount=3), _order(amount=5)], TABLES),
    Case("same-time", [Pair], _SAME_TIME, TABLES),
    Case("used-up", [Lone], [_order("alone:9:slow")], TABLES),
    Case("fails-otherwise", [Lone], [_order("alone:2:error,alone:9:slow")], TABLES),
    Case("superseded-in-between", [Pair], [_order(amount=3), _order(amount=5)], TABLES, only=("v6",)),
    Case("asked-again", [Counts], _ASKED_AGAIN, TABLES),
    Case("asked-again-while-busy", [Counts], _ASKED_AGAIN, TABLES, only=("z4-1.e7",)),
    Case("asked-much-later", [Counts], [_order(amount=3), Later(_order(), timedelta(days=15))], TABLES, only=("none",)),
    Case("given-up", [Lone], [_order("alone:9:patient")], TABLES),
    Case("asks-too-much", [Lone], [_order("alone:9:too-long")], TABLES),
    Case("asks-too-much-first", [LoneFirst], [_order("alone:9:patient")], TABLES),
    Case("asks-too-much-of-sqs", [First], [_order("open:9:too-long")], TABLES),
    Case("waits-as-superseded", [Hasty], [_order("alone:1:patient")], TABLES),
    Case("without-its-state", [Pair], _WITHOUT_ITS_STATE, TABLES),
    Case("each", [Each], [_order(amount=3), _order(amount=5)], TABLES),
    Case("abandoned", [Impatient, Slow], _abandoned("request-c", 40_000, 40), TABLES, timed=True),
    Case("abandoned-same-time", [Impatient, Slow], _abandoned("request-c", 0, 40), TABLES, timed=True),
    Case("abandoned-same-time-less", [Impatient, Slow], _abandoned("request-a", 0, 40), TABLES, timed=True),
    Case("abandoned-not-yet", [Impatient, Slow], _abandoned("request-c", 30_000, 30.5), TABLES, timed=True),
    Case("abandoned-and-older", [Impatient, Slow], _OLDER_WHEN_ABANDONED, TABLES, timed=True),
    Case("ended-at-that-moment", [CountsFirst], _ENDED_AT_THAT_MOMENT, TABLES, timed=True),
    Case("asked-before-the-end", [First], _ASKED_BEFORE_THE_END, TABLES),
    Case("repeated", [Pair], _REPEATED, TABLES, also=_BACK_TO_THE_EARLIER_COPY),
    Case("repeated-first", [First], _REPEATED_FIRST, TABLES, also=_BACK_TO_THE_EARLIER_COPY),
    Case("repeated-out-of-order", [InOrder], _REPEATED_OUT_OF_ORDER, TABLES),
    Case("older-but-greater", [Pair], _OLDER_BUT_GREATER, TABLES),
    Case("retried-and-superseded", [Pair], [_order("open:1:error", 3), _order(amount=5)], TABLES),
    Case("retried-late-and-superseded", [Pair], [_order("shut:1:error", 3), _order(amount=5)], TABLES),
    Case("middle-retried", [Chain], [_order("middle:1:error")], TABLES, also=_COPIES_OF_A_RETRY),
    Case("redriven-beside", [Pair], _REDRIVEN_BESIDE, TABLES),
    Case("redriven-beside-first", [First], _REDRIVEN_BESIDE_FIRST, TABLES),
    Case("redriven-when-done", [CountsFirst], _REDRIVEN_WHEN_DONE, TABLES, timed=True),
    Case("another-redriven", [First], _ANOTHER_REDRIVEN, TABLES),
    Case("shut-redriven", [Pair], _SHUT_REDRIVEN, TABLES, timed=True, only=("d5", "d6", "d7")),
    Case("shut-early", [Pair], _SHUT_EARLY, TABLES, timed=True, only=("d2",)),
    Case("shut-though-failed", [Pair], _SHUT_THOUGH_FAILED, TABLES, timed=True, only=("x1",)),
    Case("retried-beside-a-newer", [Pair], _RETRIED_BESIDE_A_NEWER, TABLES, timed=True),
    Case("retried-behind-a-redrive", [First], _RETRIED_BEHIND_A_REDRIVE, TABLES, timed=True, only=("d2",)),
    Case("shut-retried-behind-a-redrive", [Pair], _SHUT_RETRIED, TABLES, timed=True, only=("d6.d8",)),
    Case("rejected-and-redriven", [Pair], [_order("shut:9:reject")], TABLES, free=_TOLD_ALREADY, only=("t7.r1",)),
    Case("noted-too-late", [Checks, Notes], _NOTED_TOO_LATE, TABLES, only=("x2-1",)),
    Case("in-order", [InOrder], _SAME_GROUP, TABLES),
    Case("in-order-behind-its-hop", [InOrder], _BEHIND_ITS_HOP, TABLES, timed=True),
    Case("in-order-behind-its-end", [InOrderAlone], _BEHIND_ITS_END, TABLES, timed=True),
    Case("in-order-behind-another", [InOrderAlone], _BEHIND_ANOTHER, TABLES, timed=True),
    Case("in-order-gone", [InOrder], _GONE_IN_ORDER, TABLES),
    Case("same-time-retried", [Pair], _SAME_TIME_RETRIED, TABLES, timed=True, only=("d2",)),
    Case("in-order-much-later", [InOrder], [_order("queued:1:too-long", 3)], TABLES),
    Case("in-order-passed", [InOrder], _PASSED_IN_ORDER, TABLES),
    Case("in-order-redriven", [InOrder], _REDRIVEN_IN_ORDER, TABLES),
    Case("in-order-used-up", [InOrderFirst], [_order("queued:9:error", 3)], TABLES),
    Case("everywhere", [Everywhere], [_order()], TABLES, free={"default": ["flowguard"], "worker": ["Records"]}),
    Case("starts", [Starter, Lone], [_order()], TABLES, free={"answers": ["request_id", "error"]}),
    Case("guarded", [Guards], [_order()], TABLES, free=_TOLD_ALREADY),
    Case("guarded-in-vain", [Guards], [_order(amount=-5)], TABLES, free=_TOLD_ALREADY),
    Case("patient", [Patient], [_order("patiently:1:error")], TABLES),
    Case("no-such-stage", [Lone], [_request(Lone, "to-alone", _order(), stage="no-such")], TABLES, invariants=_NAMED),
    Case("no-such-version", [Pair], [_request(Pair, "to-open", _order(), version=9)], TABLES, free=_TOLD_ALREADY),
    Case(
        "no-payload", [Lone], [_request(Lone, "to-alone", _order(), body="{}", object_id="")], TABLES, invariants=_NAMED
    ),
    Case("plain-sqs", [Lone, Pair], [sqs_event("to-alone", {"order_id": "o1"})], TABLES),
    Case("plain-sns", [Lone, Pair], [sns_to_sqs_event("to-alone", {"order_id": "o1"})], TABLES),
    Case("retried-from-sns", [Lone], [sns_event("orders", {"order_id": "o1", "fail": "alone:9:error"})], TABLES),
    Case("from-sns", [Lone], [sns_event("orders", {"order_id": "o1"})], TABLES),
)

SHIPPED: Final = (
    Case("validate-cart", [ValidateCart], [_sample("validate_cart/01-request.json")]),
    Case("triggered-cache", [TriggeredCache], [_sample("triggered_cache/01-reset.json")]),
    Case("take-payment", [TakePayment], [_payment()]),
    Case(
        "take-payment-flaky", [TakePayment], [_payment(gateway_script=("down", "ok"))], free={"payments": ["attempt"]}
    ),
)

CASES: Final[Sequence[Case]] = (
    *(replace(case, invariants=(*case.invariants, *ALWAYS, what_is_told_is_so)) for case in OWN),
    *SHIPPED,
)

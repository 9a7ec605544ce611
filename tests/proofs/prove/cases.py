"""What is explored: the shipped flows, and flows made for the guards. A new primitive is proved by a case of its own.

The order is that in which mutants are tried: who kills most for its schedules comes first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from flowguard.testing import sns_event, sns_to_sqs_event, sqs_event
from flowguard.testing.explorer.run.inbox import Later
from flows.appointments.flow import BookAppointment
from flows.appointments.invariants import each_slot_is_of_the_appointment_that_names_it, no_booking_has_two_slots
from flows.appointments.models import AppointmentWanted
from flows.orders.flow import PlaceOrder, ReceiveGoods
from flows.orders.invariants import what_was_received_is_there_or_sold, what_was_sold_is_what_the_orders_have
from flows.orders.models import GoodsReceived, OrderPlaced
from flows.take_payment.flow import TakePayment
from flows.take_payment.models import PaymentRequested
from flows.triggered_cache.flow import TriggeredCache
from flows.validate_cart.flow import ValidateCart
from tests.proofs.prove import given, keyed
from tests.proofs.prove.awkward import (
    LONG_ID,
    LONGEST_ID,
    STRANGE_ID,
    STRANGE_NAME,
    Strangers,
    strange,
    what_is_said_of_an_error_is_short,
)
from tests.proofs.prove.bursts import BURST, Renders
from tests.proofs.prove.cancelling import (
    SHARED,
    Builds,
    Digs,
    Shares,
    Stops,
    StopsSharing,
    each_caller_is_told_one_end_under_one_id,
    what_is_cancelled_has_ended_so_and_left_nothing,
)
from tests.proofs.prove.fanned import FROM_A_BUS, ORDERED, Bills, Packs
from tests.proofs.prove.flows import (
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
    Pair,
    Patient,
    Slow,
    Starter,
)
from tests.proofs.prove.given import abandoned, order, request
from tests.proofs.prove.in_order import InOrder, InOrderAlone, InOrderFirst
from tests.proofs.prove.judge import Case
from tests.proofs.prove.keyed import Keyed, KeyedByWish, KeyedEach, an_order_is_one_run
from tests.proofs.prove.mutant import ROOT
from tests.proofs.prove.promises import (
    ALWAYS,
    a_dead_letter_names_the_mistake,
    a_result_stays,
    what_is_carried_goes_along,
)
from tests.proofs.prove.sooner import (
    Reserves,
    Soon,
    what_is_applied_at_once_is_applied_once,
    what_is_reserved_is_what_the_last_commit_says,
)
from tests.proofs.prove.telling import what_is_told_is_so
from tests.proofs.prove.texts import OFFLOAD_ABOVE, Recalls
from tests.proofs.prove.undoing import Undoes, what_is_held_is_what_the_order_says
from tests.proofs.prove.unleased import Unleased
from tests.proofs.prove.waiting import (
    CARRIER,
    EVERYBODY,
    EVERYBODY_ELSE,
    LOST,
    PAID,
    Finds,
    Waits,
    WaitsFirst,
    Wanted,
    payment,
)


def _sample(name: str) -> Any:
    return json.loads((ROOT / "samples" / name).read_text())


def _payment(**about: Any) -> PaymentRequested:
    return PaymentRequested(payment_id="p1", merchant_id="m1", card="c1", amount=Decimal(5), **about)


def _wanted(booking_id: str) -> AppointmentWanted:
    return AppointmentWanted(booking_id=booking_id, patient="p", doctor="dr-lee", days=(date(2026, 1, 5),))


_BACK_TO_THE_EARLIER_COPY: Final = ["z1-1.e4"]
"""The later copy's worker fails, and the earlier copy comes while nobody is at work."""

_TOLD_ALREADY: Final = {"ended": ["error"]}
"""Why a run failed, where that depends on who gave it up."""

_UNTIL_PARKED: Final = ("none", "f1", "f2", "r1")
"""Of what no release here reads: it waits, is parked, and is parked again when it is sent back."""

_NAMED: Final = [a_dead_letter_names_the_mistake]

_ONE_RUN: Final = [an_order_is_one_run]

_CANCELLED: Final = [what_is_cancelled_has_ended_so_and_left_nothing]
_HELD: Final = [what_is_held_is_what_the_order_says]
_AT_ONCE: Final = [what_is_applied_at_once_is_applied_once]

_APPOINTED: Final = [no_booking_has_two_slots, each_slot_is_of_the_appointment_that_names_it]

_SOLD: Final = [what_was_received_is_there_or_sold, what_was_sold_is_what_the_orders_have]

_RESERVED: Final = [what_is_reserved_is_what_the_last_commit_says]

_BOUNDED: Final = [what_is_said_of_an_error_is_short]

_NEWER: Final = [Wanted(names=("found",)), Wanted(names=("found",), amount=7, part="other")]

_NEWER_ANSWERED: Final = [Wanted(names=("parcel",)), Wanted(names=("parcel",), amount=7)]

_SENT_BACK: Final = ["d1-1.r1", "a2-1.r1", "a12-1"]
"""A run is redriven and waits; a deadline is given up by SQS."""

_COPIES_OF_A_RETRY: Final = [f"x3.{fault}{call}" for call in range(7, 13) for fault in ("a", "d", "z")]
"""The retry of the middle hop comes once more while the last hop's worker is dead, or held up."""

_FLUSHED_IN_PART: Final = ["d3.p5-1", "d3.p5-2", "a2.p4-1", "a2.p4-2"]
"""The first run's worker dies with its messages unsent, and of what the next run sends for it one is refused."""

WAITING: Final = (
    Case("wait-all", [Waits, Finds], [Wanted(names=("found", "parcel"))], TABLES, answers=CARRIER, share=70),
    Case("wait-any", [Waits, Finds], [Wanted(names=("found", "paid"), quorum=1)], TABLES, answers=PAID, share=50),
    Case(
        "wait-quorum",
        [Waits],
        [Wanted(names=("parcel", "paid", "approved"), quorum=2)],
        TABLES,
        answers=EVERYBODY,
        share=40,
    ),
    Case("wait-event", [Waits], [Wanted(names=("paid",)), payment(20), payment(30)], TABLES, share=60),
    Case("wait-token", [Waits], [Wanted(names=("approved",))], TABLES, answers={"approved": {"yes": True}}, share=40),
    Case(
        "wait-mixed",
        [Waits, Finds],
        [Wanted(names=("found", "paid", "approved"))],
        TABLES,
        answers=EVERYBODY_ELSE,
        share=50,
    ),
    Case("wait-newer", [Waits, Finds], _NEWER, TABLES, share=50),
    Case("wait-newer-answered", [Waits], _NEWER_ANSWERED, TABLES, answers=CARRIER, share=40),
    Case("wait-newer-ignored", [WaitsFirst], _NEWER_ANSWERED, TABLES, answers=CARRIER, share=40),
    Case("wait-times-out", [Waits, Finds], [Wanted(names=("found", "parcel"))], TABLES, share=40, also=_SENT_BACK),
    Case("wait-fails", [Waits], [Wanted(names=("parcel", "paid"))], TABLES, answers={**LOST, **PAID}, share=50),
    Case("wait-for-what-fails", [Waits, Finds], [Wanted(names=("found", "paid"), part="nowhere")], TABLES, share=50),
)

OWN: Final = (
    Case("chain", [Chain], [order()], TABLES, invariants=[a_result_stays]),
    Case("superseded", [Pair], [order(amount=3), order(amount=5)], TABLES, also=_FLUSHED_IN_PART),
    Case("retried", [Pair], [order("open:1:error,shut:1:after")], TABLES),
    Case("carried", [Pair], given.CARRIED, TABLES, invariants=[what_is_carried_goes_along, a_result_stays]),
    Case("rejected", [Pair], [order("shut:9:reject")], TABLES, free=_TOLD_ALREADY),
    Case("first-wins", [First], [order(amount=3), order(amount=5)], TABLES),
    Case("same-time", [Pair], given.SAME_TIME, TABLES),
    Case("used-up", [Lone], [order("alone:9:slow")], TABLES),
    Case("fails-otherwise", [Lone], [order("alone:2:error,alone:9:slow")], TABLES),
    Case("superseded-in-between", [Pair], [order(amount=3), order(amount=5)], TABLES, only=("v6",)),
    Case("asked-again", [Counts], given.ASKED_AGAIN, TABLES),
    Case("asked-again-while-busy", [Counts], given.ASKED_AGAIN, TABLES, only=("z4-1.e7",)),
    Case("asked-much-later", [Counts], [order(amount=3), Later(order(), timedelta(days=15))], TABLES, only=("none",)),
    Case("given-up", [Lone], [order("alone:9:patient")], TABLES),
    Case("asks-too-much", [Lone], [order("alone:9:too-long")], TABLES),
    Case("asks-too-much-first", [LoneFirst], [order("alone:9:patient")], TABLES),
    Case("asks-too-much-of-sqs", [First], [order("open:9:too-long")], TABLES),
    Case("waits-as-superseded", [Hasty], [order("alone:1:patient")], TABLES),
    Case("without-its-state", [Pair], given.WITHOUT_ITS_STATE, TABLES),
    Case("each", [Each], [order(amount=3), order(amount=5)], TABLES),
    Case("abandoned", [Impatient, Slow], abandoned("request-c", 40_000, 40), TABLES, timed=True),
    Case("abandoned-same-time", [Impatient, Slow], abandoned("request-c", 0, 40), TABLES, timed=True),
    Case("abandoned-same-time-less", [Impatient, Slow], abandoned("request-a", 0, 40), TABLES, timed=True),
    Case("abandoned-not-yet", [Impatient, Slow], abandoned("request-c", 30_500, 30.5), TABLES, timed=True),
    Case("abandoned-and-older", [Impatient, Slow], given.OLDER_WHEN_ABANDONED, TABLES, timed=True),
    Case("ended-at-that-moment", [CountsFirst], given.ENDED_AT_THAT_MOMENT, TABLES, timed=True),
    Case("asked-before-the-end", [First], given.ASKED_BEFORE_THE_END, TABLES),
    Case("asked-by-a-slow-clock", [Pair], given.ASKED_BY_A_SLOW_CLOCK, TABLES, share=60),
    Case("asked-by-a-slow-clock-alone", [First], given.ASKED_BY_A_SLOW_CLOCK_ALONE, TABLES, share=40),
    Case("asked-by-a-fast-clock", [Pair], given.ASKED_BY_A_FAST_CLOCK, TABLES, share=60),
    Case("repeated", [Pair], given.REPEATED, TABLES, also=_BACK_TO_THE_EARLIER_COPY),
    Case("repeated-first", [First], given.REPEATED_FIRST, TABLES, also=_BACK_TO_THE_EARLIER_COPY),
    Case("repeated-out-of-order", [InOrder], given.REPEATED_OUT_OF_ORDER, TABLES),
    Case("older-but-greater", [Pair], given.OLDER_BUT_GREATER, TABLES),
    Case("retried-and-superseded", [Pair], [order("open:1:error", 3), order(amount=5)], TABLES),
    Case("retried-late-and-superseded", [Pair], [order("shut:1:error", 3), order(amount=5)], TABLES),
    Case("middle-retried", [Chain], [order("middle:1:error")], TABLES, also=_COPIES_OF_A_RETRY),
    Case("redriven-beside", [Pair], given.REDRIVEN_BESIDE, TABLES),
    Case("redriven-beside-first", [First], given.REDRIVEN_BESIDE_FIRST, TABLES),
    Case("redriven-when-done", [CountsFirst], given.REDRIVEN_WHEN_DONE, TABLES, timed=True),
    Case("another-redriven", [First], given.ANOTHER_REDRIVEN, TABLES),
    Case("shut-redriven", [Pair], given.SHUT_REDRIVEN, TABLES, timed=True, only=("d5", "d6", "d7")),
    Case("shut-early", [Pair], given.SHUT_EARLY, TABLES, timed=True, only=("d2",)),
    Case("shut-though-failed", [Pair], given.SHUT_THOUGH_FAILED, TABLES, timed=True, only=("x1",)),
    Case("retried-beside-a-newer", [Pair], given.RETRIED_BESIDE_A_NEWER, TABLES, timed=True),
    Case("retried-behind-a-redrive", [First], given.RETRIED_BEHIND_A_REDRIVE, TABLES, timed=True, only=("d2",)),
    Case("shut-retried-behind-a-redrive", [Pair], given.SHUT_RETRIED, TABLES, timed=True, only=("d6.d8",)),
    Case("rejected-and-redriven", [Pair], [order("shut:9:reject")], TABLES, free=_TOLD_ALREADY, only=("t7.r1",)),
    Case("noted-too-late", [Checks, Notes], given.NOTED_TOO_LATE, TABLES, only=("x2-1",)),
    Case("in-order", [InOrder], given.SAME_GROUP, TABLES),
    Case("in-order-behind-its-hop", [InOrder], given.BEHIND_ITS_HOP, TABLES, timed=True),
    Case("in-order-behind-its-end", [InOrderAlone], given.BEHIND_ITS_END, TABLES, timed=True),
    Case("in-order-behind-another", [InOrderAlone], given.BEHIND_ANOTHER, TABLES, timed=True),
    Case("in-order-gone", [InOrder], given.GONE_IN_ORDER, TABLES),
    Case("same-time-retried", [Pair], given.SAME_TIME_RETRIED, TABLES, timed=True, only=("d2",)),
    Case("in-order-much-later", [InOrder], [order("queued:1:too-long", 3)], TABLES),
    Case("in-order-passed", [InOrder], given.PASSED_IN_ORDER, TABLES),
    Case("in-order-redriven", [InOrder], given.REDRIVEN_IN_ORDER, TABLES),
    Case("in-order-used-up", [InOrderFirst], [order("queued:9:error", 3)], TABLES),
    Case("everywhere", [Everywhere], [order()], TABLES, free={"default": ["flowguard"], "worker": ["Records"]}),
    Case("starts", [Starter, Lone], [order()], TABLES, free={"answers": ["request_id", "error"]}),
    Case("guarded", [Guards], [order()], TABLES, free=_TOLD_ALREADY),
    Case("guarded-in-vain", [Guards], [order(amount=-5)], TABLES, free=_TOLD_ALREADY),
    Case("sooner", [Soon], [order("sooner:1:error,later:1:error")], TABLES, invariants=_AT_ONCE, share=80),
    Case(
        "sooner-rejected", [Soon], [order("later:9:reject")], TABLES, free=_TOLD_ALREADY, invariants=_AT_ONCE, share=60
    ),
    Case("taken-back", [Reserves], [order(amount=3), order(amount=5)], TABLES, invariants=_RESERVED, share=80),
    Case(
        "taken-back-retried",
        [Reserves],
        [order(amount=3), order("take-back:1:error", 5)],
        TABLES,
        invariants=_RESERVED,
        share=60,
    ),
    Case("undone", [Undoes], [order("settle:9:reject")], TABLES, free=_TOLD_ALREADY, invariants=_HELD, share=80),
    Case(
        "undone-retried",
        [Undoes],
        [order("settle:9:reject,undo:1:error,undone:1:error")],
        TABLES,
        free=_TOLD_ALREADY,
        invariants=_HELD,
        share=40,
    ),
    Case(
        "undone-in-vain",
        [Undoes],
        [order("settle:9:reject,undo:9:reject")],
        TABLES,
        free=_TOLD_ALREADY,
        invariants=_HELD,
        share=60,
    ),
    Case(
        "undone-and-superseded",
        [Undoes],
        [order("settle:9:reject", 3), order("hold:9:reject", 5)],
        TABLES,
        free=_TOLD_ALREADY,
        invariants=_HELD,
        share=60,
    ),
    Case("cancelled", [Builds, Digs, Stops], [order()], TABLES, invariants=_CANCELLED, share=20),
    Case(
        "cancelled-shared",
        [Shares, StopsSharing],
        SHARED,
        TABLES,
        free={"replies": ["run", "error"]},
        invariants=[each_caller_is_told_one_end_under_one_id],
        share=20,
    ),
    Case("unleased", [Unleased], [order("shut:1:error")], TABLES, invariants=[a_result_stays], share=60),
    Case("unleased-rejected", [Unleased], [order("shut:9:reject")], TABLES, free=_TOLD_ALREADY, share=40),
    Case("unleased-superseded", [Unleased], [order(amount=3), order(amount=5)], TABLES, share=60),
    Case("patient", [Patient], [order("patiently:1:error")], TABLES),
    Case(
        "no-such-version-alone",
        [Lone],
        [request(Lone, "to-alone", order(), version=9)],
        TABLES,
        invariants=_NAMED,
        only=_UNTIL_PARKED,
    ),
    Case("no-such-version", [Pair], [request(Pair, "to-open", order(), version=9)], TABLES, only=_UNTIL_PARKED),
    Case(
        "no-payload", [Lone], [request(Lone, "to-alone", order(), body="{}", object_id="")], TABLES, invariants=_NAMED
    ),
    Case("plain-sqs", [Lone, Pair], [sqs_event("to-alone", {"order_id": "o1"})], TABLES),
    Case("plain-sns", [Lone, Pair], [sns_to_sqs_event("to-alone", {"order_id": "o1"})], TABLES),
    Case("retried-from-sns", [Lone], [sns_event("orders", {"order_id": "o1", "fail": "alone:9:error"})], TABLES),
    Case("from-sns", [Lone], [sns_event("orders", {"order_id": "o1"})], TABLES),
    Case("from-a-bus", [Pair], FROM_A_BUS, TABLES, also=["x2"]),
    Case("burst", [Renders], BURST, TABLES),
    Case("fanned-out", [Bills, Packs], [sns_event(ORDERED, {"order_id": "o1"})], TABLES),
    Case("one-id-for-two", [Pair], given.ONE_ID_FOR_TWO, TABLES),
    Case("used-again", [Counts], given.USED_AGAIN, TABLES),
    Case("keyed", [Keyed], keyed.SENT_TWICE, TABLES, invariants=_ONE_RUN),
    Case("keyed-every-way", [Keyed], keyed.SENT_EVERY_WAY, TABLES, invariants=_ONE_RUN),
    Case("keyed-much-later", [Keyed], keyed.SENT_MUCH_LATER, TABLES, invariants=_ONE_RUN, only=("none",)),
    Case("keyed-each", [KeyedEach], keyed.EACH_SENT_TWICE, TABLES, invariants=_ONE_RUN),
    Case("keyed-nameless", [KeyedByWish], keyed.NAMELESS, TABLES, invariants=_NAMED, timed=True),
    Case("long-texts", [Recalls], [order()], TABLES, offload_above=OFFLOAD_ABOVE),
    Case("long-texts-superseded", [Recalls], [order(amount=3), order()], TABLES, offload_above=OFFLOAD_ABOVE),
    Case("strange", [Strangers], [strange(STRANGE_ID, STRANGE_ID)], TABLES, invariants=_BOUNDED),
    Case("strange-retried", [Strangers], [strange("o1", LONG_ID, "raise")], TABLES, invariants=_BOUNDED),
    Case(
        "strange-rejected",
        [Strangers],
        [strange("o1", LONG_ID, "reject")],
        TABLES,
        free=_TOLD_ALREADY,
        invariants=_BOUNDED,
    ),
    Case(
        "strange-object",
        [Strangers],
        [sqs_event("to-strange", {"order_id": STRANGE_NAME})],
        TABLES,
        invariants=_BOUNDED,
    ),
    *WAITING,
    Case("longest-ids", [Strangers], [strange(LONGEST_ID, LONGEST_ID)], TABLES, invariants=_BOUNDED),
)

SHIPPED: Final = (
    Case("validate-cart", [ValidateCart], [_sample("validate_cart/01-request.json")]),
    Case("triggered-cache", [TriggeredCache], [_sample("triggered_cache/01-reset.json")]),
    Case("take-payment", [TakePayment], [_payment()]),
    Case(
        "take-payment-flaky", [TakePayment], [_payment(gateway_script=("down", "ok"))], free={"payments": ["attempt"]}
    ),
    Case(
        "orders",
        [ReceiveGoods, PlaceOrder],
        [
            GoodsReceived(delivery_id="d-1", sku="tea", pieces=4),
            OrderPlaced(order_id="o-1", customer="c", lines={"tea": 3}),
        ],
        invariants=_SOLD,
        share=40,
    ),
    Case("appointments", [BookAppointment], [_wanted("b-1"), _wanted("b-2")], invariants=_APPOINTED, share=40),
)

CASES: Final[Sequence[Case]] = (
    *(replace(case, invariants=(*case.invariants, *ALWAYS, what_is_told_is_so)) for case in OWN),
    *SHIPPED,
)

SINGLES: Final = 50
"""Single faults of a flow of ours that CI tries. Before a release all of them are tried, and pairs."""


def with_few_schedules(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases as CI explores them: the shipped flows as they are, of each other one some faults."""
    shipped = {case.name for case in SHIPPED}
    return [
        case if case.name in shipped else replace(case, share=min(SINGLES, case.share or SINGLES)) for case in cases
    ]

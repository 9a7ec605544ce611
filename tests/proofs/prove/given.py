"""The messages that start the cases: requests at chosen times, copies of them, and what comes later than the rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from flowguard.flow import AnyFlow
from flowguard.names.ids import RequestId
from flowguard.sim.world import START
from flowguard.testing import sqs_event
from flowguard.testing.explorer.run.inbox import Given, Later
from flowguard.wire.attributes import Attribute
from tests.proofs.prove.flows import Counts, CountsFirst, First, Impatient, Notes, Opened, Order, Pair
from tests.proofs.prove.in_order import InOrder, InOrderAlone
from tests.proofs.prove.promises import TENANT


def order(fail: str = "", amount: int = 5) -> Order:
    return Order(order_id="o1", amount=amount, fail=fail)


def request(
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


SAME_GROUP: Final = [
    request(InOrder, "orders.fifo", order("queued:1:error", 3), "request-1", group="o1"),
    request(InOrder, "orders.fifo", order("", 5), "request-2", at=1_000, group="o1"),
]
SAME_TIME: Final = [
    request(Pair, "to-open", order(amount=3), "request-a"),
    request(Pair, "to-open", order(amount=5), "request-b"),
]
REPEATED: Final = [
    request(Pair, "to-open", order()),
    request(Pair, "to-open", order(), at=1_000, record="repeated"),
]
REPEATED_FIRST: Final = [
    request(First, "to-open", order()),
    request(First, "to-open", order(), at=1_000, record="repeated"),
]
REPEATED_OUT_OF_ORDER: Final = [
    request(InOrder, "orders.fifo", order("queued:1:error"), at=1_000, group="o1"),
    request(InOrder, "orders.fifo", order("queued:1:error"), record="repeated", group="another"),
]
BEHIND_ITS_HOP: Final = [
    request(InOrder, "orders.fifo", order("settled:2:error"), group="o1"),
    Later(
        request(InOrder, "orders.fifo", order("settled:2:error"), record="repeated", group="another"),
        timedelta(seconds=9),
    ),
]
BEHIND_ITS_END: Final = [
    request(InOrderAlone, "single.fifo", order("single:1:error"), group="o1"),
    Later(
        request(InOrderAlone, "single.fifo", order("single:1:error"), record="repeated", group="o1"),
        timedelta(minutes=1),
    ),
]
BEHIND_ANOTHER: Final = [
    request(InOrderAlone, "single.fifo", order("single:2:error"), "request-2", at=1_000, sent=0, group="o1"),
    Later(request(InOrderAlone, "single.fifo", order(amount=3), group="another"), timedelta(seconds=9)),
]
GONE_IN_ORDER: Final = [request(InOrder, "settle.fifo", order(), stage="settled", hop=2, group="o1")]
SAME_TIME_RETRIED: Final = [
    request(Pair, "to-open", order(amount=3), "request-b"),
    Later(request(Pair, "to-open", order(amount=5), "request-a", retry=1), timedelta(seconds=9)),
]
OLDER_BUT_GREATER: Final = [
    request(Pair, "to-open", order(amount=3), "request-a", at=1_000, sent=0),
    request(Pair, "to-open", order(amount=5), "request-b", sent=0),
]
_HOUR: Final = 3_600_000
ASKED_BY_A_SLOW_CLOCK: Final = [
    request(Pair, "to-open", order(amount=3), "request-a", sent=0),
    request(Pair, "to-open", order("shut:1:error"), "request-b", at=-5 * _HOUR, sent=1_000),
]
ASKED_BY_A_SLOW_CLOCK_ALONE: Final = [request(First, "to-open", order("open:1:error"), at=-5 * _HOUR, sent=0)]
ASKED_BY_A_FAST_CLOCK: Final = [
    request(Pair, "to-open", order("open:1:error", 3), "request-a", at=_HOUR // 5, sent=0),
    request(Pair, "to-open", order(), "request-b", at=1_000),
]
ASKED_BEFORE_THE_END: Final = [
    request(First, "to-open", order(amount=3), "request-a"),
    request(First, "to-open", order(amount=5), "request-b", at=10, sent=1_000),
]
CARRIED: Final = [
    request(Pair, "to-open", order("shut:1:error"), carried={TENANT: Attribute.string("t1")}),
]
ASKED_AGAIN: Final = [
    request(Counts, "to-count", order(amount=3), "request-a"),
    request(Counts, "to-count", order(amount=5), "request-b", at=60_000),
]
FIRST_OF_TWO: Final = request(Impatient, "to-open", order(amount=3), "request-b")


def abandoned(own: str, at: int, seconds: float) -> Sequence[Given]:
    """A request that comes when, after a death, nobody has worked on the object for long: leases last for 30 s."""
    second = request(Impatient, "to-open", order(amount=5), own, at=at, sent=at)
    return [FIRST_OF_TWO, Later(second, timedelta(seconds=seconds))]


BEHIND: Final = request(Impatient, "to-open", order(amount=3), "request-b", at=500, sent=0)
OLDER_WHEN_ABANDONED: Final = [BEHIND, *abandoned("request-c", 0, 40)[1:]]
ENDED_AT_THAT_MOMENT: Final = [
    request(CountsFirst, "to-count", order(amount=3), "request-a"),
    Later(request(CountsFirst, "to-count", order(amount=5), "request-b"), timedelta(seconds=1)),
]
REDRIVEN_BESIDE_FIRST: Final = [
    request(First, "to-open", order()),
    request(First, "to-open", order(), record="redriven", sent=1_000, redrive=1),
]
REDRIVEN_WHEN_DONE: Final = [
    request(CountsFirst, "to-count", order()),
    Later(request(CountsFirst, "to-count", order(), record="redriven", redrive=1), timedelta(minutes=1)),
]
ANOTHER_REDRIVEN: Final = [
    request(First, "to-open", order(amount=3), "request-a"),
    request(First, "to-open", order(amount=5), "request-b", redrive=1),
]


def shut(record: str, **place: Any) -> Any:
    """The second hop's message, from somebody else."""
    body = Opened(**order().model_dump(), opened=True).model_dump_json()
    return request(Pair, "to-shut", order(), stage="shut", hop=2, body=body, record=record, **place)


SHUT_REDRIVEN: Final = [request(Pair, "to-open", order()), Later(shut("redriven", redrive=1), timedelta(seconds=9))]
SHUT_RETRIED: Final = [*SHUT_REDRIVEN, Later(shut("retried", retry=1), timedelta(seconds=12))]
RETRIED_BEHIND_A_REDRIVE: Final = [
    request(First, "to-open", order(), record="redriven", redrive=1),
    Later(request(First, "to-open", order(), retry=1), timedelta(seconds=9)),
]
SHUT_EARLY: Final = [request(Pair, "to-open", order()), Later(shut("early"), timedelta(seconds=9))]
SHUT_THOUGH_FAILED: Final = [
    request(Pair, "to-open", order("open:9:reject")),
    Later(shut("failed"), timedelta(seconds=9)),
]
RETRIED_BESIDE_A_NEWER: Final = [
    request(Pair, "to-open", order("shut:1:after", 3), "request-a"),
    Later(request(Pair, "to-open", order(amount=5), "request-b", at=15_000), timedelta(seconds=15)),
]
NOTED_TOO_LATE: Final[Sequence[Given]] = [
    order(),
    Later(request(Notes, "to-note", order(), "noting"), timedelta(minutes=5)),
]
REDRIVEN_BESIDE: Final = [
    request(Pair, "to-open", order()),
    request(Pair, "to-open", order(), record="redriven", sent=1_000, redrive=1),
]
PASSED_IN_ORDER: Final = [
    request(InOrder, "orders.fifo", order("settled:1:error"), group="o1"),
    request(InOrder, "orders.fifo", order("settled:1:error"), record="repeated", group="o1"),
]
REDRIVEN_IN_ORDER: Final = [
    request(InOrder, "orders.fifo", order("queued:1:error"), record="redriven", group="o1", redrive=1),
    request(InOrder, "orders.fifo", order("queued:1:error"), group="another"),
]
WITHOUT_ITS_STATE: Final = [
    request(Pair, "to-shut", order(), stage="shut", hop=2, body=Opened(order_id="o1", opened=True).model_dump_json()),
]
ONE_ID_FOR_TWO: Final = [
    request(Pair, "to-open", order(amount=3), "request-1"),
    request(Pair, "to-open", Order(order_id="o2", amount=5), "request-1", record="another"),
]
"""Two objects that are asked for under one request id."""

USED_AGAIN: Final[Sequence[Given]] = [
    *ASKED_AGAIN,
    Later(request(Counts, "to-count", order(amount=7), "request-a", at=86_400_000, record="again"), timedelta(days=1)),
]
"""An id that is used for another request, when one between the two has had the object."""

"""The ways of a message through the runtime, each a row: what is answered, what is done, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

import pytest
from pydantic import BaseModel

from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.errors import ConditionFailed, NotHeld, Reject, RunFailed, TooLarge, WriteDenied
from flowguard.failed import Failure
from flowguard.flow import AnyFlow, Flow
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import Committed, Fenced, FencedBy, Refused, RunItem, Status
from flowguard.retry import Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.verdicts import Verdict
from flowguard.wire.envelope import Envelope, normalize_record
from flowguard.wire.message import Message
from flowguard.worker.asks import Claiming, Committing, Judging
from flowguard.worker.ports import Refusal
from flowguard.worker.routing import Arrival
from flowguard.worker.runtime import MOST_CALLS
from tests.protocol.run_items import run_item
from tests.scene import record
from tests.worker.replayed import Recorded, Replayed, given

NOW = 1_800_000_000_000
DAY = timedelta(days=1) // timedelta(milliseconds=1)


class Order(BaseModel):
    order_id: str


def flow_of(handle: Callable[[], object], *, lease: bool, on_failed: bool) -> AnyFlow:
    class PriceOrder(
        Stage[Order],
        name="price-order",
        inbox="price-order",
        then="close-order",
        lease=lease,
        retry=RetryPolicy(attempts=2, backoff=Fixed(20), jitter=0),
    ):
        def handle(self, order: Order, step: Step) -> Outcome:
            handle()
            return Done()

    class CloseOrder(Stage[Order], name="close-order", inbox="price-order"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    class Undo(Stage[Failure], name="undo", inbox="price-order"):
        def handle(self, failure: Failure, step: Step) -> Outcome:
            return Done()

    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", on_failed=Undo if on_failed else None):
        stages = (PriceOrder, CloseOrder, Undo) if on_failed else (PriceOrder, CloseOrder)

    return Orders


def item(**changes: Any) -> RunItem:
    """The item of the message's own run, whose first hop is not committed."""
    first = {"request_id": RequestId("run-1"), "hop": 1, "done": False, "requested_at": NOW - 1_000}
    return run_item()._replace(**{"owner": Owner("another"), "lease_until": NOW - 1, **first, **changes})


def another(**changes: Any) -> RunItem:
    """The item of an older request's run."""
    return item(**{"request_id": RequestId("run-0"), "requested_at": NOW - 9_000, **changes})


def left_by(request_id: str, *kinds: Kind) -> Outbox:
    sends = tuple(Send(kind, Queue("somewhere"), "{}", f"id-{place}", {}) for place, kind in enumerate(kinds))
    return Outbox(RequestId(request_id), NOW - 500, sends)


def boom() -> NoReturn:
    raise RuntimeError("gateway down")


def reject() -> NoReturn:
    raise Reject("out of stock")


def nothing() -> None:
    return


def too_large(what: str) -> TooLarge:
    return TooLarge(what, {}, 400_000)


@dataclass
class Row:
    """One way. ``does`` is all that is done before the ending; ``ends`` says ack or keep, the verdict, the sends."""

    name: str
    answers: Sequence[Recorded]
    does: str
    ends: str
    handle: Callable[[], object] = nothing
    message: dict[str, Any] = field(default_factory=dict)
    arrival: dict[str, Any] = field(default_factory=dict)
    lease: bool = True
    fifo: bool = False
    called: bool = False
    on_failed: bool = False
    refusals: dict[int, Refusal] = field(default_factory=dict)


def refused(verdict: Verdict, found: RunItem | None = None) -> list[Recorded]:
    return [Refused(verdict, item() if found is None else found)]


NOT_HELD = NotHeld({"orders": None})
SECOND = {"hop": 2, "stage": "close-order"}
LATE = {"since": NOW - DAY}
RESTING = item(retry=1, kills=-1)
"""As the release of a failed attempt leaves it."""

VERDICTS = (
    Row("done", refused(Verdict.DONE, item(done=True)), "claim", "ack DONE"),
    Row(
        "done, and its outbox is still there",
        refused(Verdict.DONE, item(done=True, outbox=left_by("run-1", Kind.SIDE, Kind.NEXT))),
        "claim",
        "ack DONE, sends side next",
    ),
    Row(
        "another worker is at it",
        refused(Verdict.BUSY, item(lease_until=NOW + 4_500)),
        "claim, postpone 5",
        "keep BUSY",
    ),
    Row(
        "another worker is at it to the very moment",
        refused(Verdict.BUSY, item(lease_until=NOW)),
        "claim, postpone 1",
        "keep BUSY",
    ),
    Row("the hop before is open", refused(Verdict.EARLY), "claim", "keep EARLY"),
    Row("a later attempt is there", refused(Verdict.DUPLICATE), "claim", "ack DUPLICATE"),
    Row("an older request", refused(Verdict.STALE, another(requested_at=NOW)), "claim", "ack STALE"),
    Row("a newer run has the object", refused(Verdict.SUPERSEDED, another()), "claim", "ack SUPERSEDED"),
    Row("a run that is not disturbed", refused(Verdict.IGNORED, another()), "claim", "ack IGNORED"),
    Row("no item for a later hop", [Refused(Verdict.GONE, None)], "claim", "ack GONE, sends dead", message=SECOND),
    Row(
        "a redriven letter of a run that went on",
        refused(Verdict.GIVEN_UP, item(status=Status.FAILED)),
        "claim",
        "ack GIVEN_UP, sends dead",
    ),
    Row("no run item can hold the message", [RunFailed("a key of 3,000 bytes")], "claim", "ack None, sends dead"),
)

WITHOUT_RUN = (
    Row("names no object", [], "", "ack None, sends dead", message={"object_id": ""}),
    Row("too deep in a chain", [], "", "ack None, sends dead", message={"depth": 10_000}),
)

COMMITS = (
    Row("committed", [given(), Committed()], "claim, commit", "ack CLAIMED"),
    Row("a newer run came", [given(), Fenced(FencedBy.NEWER_RUN, None)], "claim, commit", "ack SUPERSEDED"),
    Row("another attempt came", [given(), Fenced(FencedBy.OTHER_ATTEMPT, None)], "claim, commit", "keep BUSY"),
    Row("the item expired", [given(), Fenced(FencedBy.EXPIRED, None)], "claim, commit", "keep BUSY"),
    Row("another has done it, not shown", [given(), Fenced(FencedBy.FINISHED, None)], "claim, commit", "keep BUSY"),
    Row(
        "another has done it",
        [given(), Fenced(FencedBy.FINISHED, item(done=True, outbox=left_by("run-1", Kind.NEXT)))],
        "claim, commit",
        "ack DONE, sends next",
    ),
    Row(
        "asked again where nothing was answered",
        [None, given(), None, Committed()],
        "claim, claim, commit, commit",
        "ack CLAIMED",
    ),
    Row(
        "a condition of its own fails",
        [given(), ConditionFailed("orders", "x = 1", None)],
        "claim, commit, send side",
        "ack CLAIMED",
    ),
    Row(
        "too large, and the letter fits",
        [given(), too_large("the state"), Committed()],
        "claim, commit, commit",
        "ack CLAIMED, sends dead",
    ),
    Row(
        "too large, and the letter fits not",
        [given(), too_large("the state"), too_large("the letter"), Committed()],
        "claim, commit, commit, send dead, commit",
        "ack CLAIMED",
    ),
    Row(
        "not held once",
        [given(), NOT_HELD, Committed()],
        "claim, commit, commit",
        "ack CLAIMED",
    ),
    Row(
        "not held too often",
        [given(), *[NOT_HELD] * MOST_CALLS],
        f"claim, {', '.join(['commit'] * MOST_CALLS)}, send side",
        "ack CLAIMED",
    ),
    Row(
        "the database is away",
        [given(), ConnectionError("reset")],
        "claim, commit, release",
        "ConnectionError",
    ),
    Row("the database is away from the first", [ConnectionError("reset")], "claim", "ConnectionError"),
)

FAILURES = (
    Row("fails once", [given()], "claim, send side", "ack CLAIMED", handle=boom),
    Row(
        "fails, and its queue is away",
        [given()],
        "claim, send side, release",
        "keep CLAIMED",
        handle=boom,
        refusals={0: Refusal("throttled")},
    ),
    Row(
        "fails, and its queue is gone for good",
        [given(), Committed()],
        "claim, send side, commit",
        "ack CLAIMED, sends dead",
        handle=boom,
        refusals={0: Refusal("malformed", final=True)},
    ),
    Row(
        "fails, and its queue is denied since a day",
        [given(), Committed()],
        "claim, send side, commit",
        "ack CLAIMED, sends dead",
        handle=boom,
        message=LATE,
        refusals={0: Refusal("denied", for_minutes=True)},
    ),
    Row(
        "fails for the last time",
        [given(item()), Committed()],
        "claim, commit",
        "ack CLAIMED, sends dead",
        handle=boom,
        message={"retry": 1},
    ),
    Row("rejects", [given(), Committed()], "claim, commit", "ack CLAIMED, sends dead", handle=reject),
    Row(
        "rejects, where a stage undoes it",
        [given(), Committed()],
        "claim, commit",
        "ack CLAIMED, sends dead next",
        handle=reject,
        on_failed=True,
    ),
    Row(
        "rejects, where a stage undoes it, and nothing fits",
        [
            given(),
            too_large("the failure"),
            too_large("without payload"),
            too_large("replies"),
            Committed(),
        ],
        "claim, commit, send dead, commit, commit, commit",
        "ack CLAIMED",
        handle=reject,
        on_failed=True,
    ),
    Row(
        "rejects, and a newer run came",
        [given(), Fenced(FencedBy.NEWER_RUN, None)],
        "claim, commit",
        "ack SUPERSEDED",
        handle=reject,
    ),
    Row(
        "its table is denied, and its record is a day old",
        [given(), WriteDenied("no", ["prices"])],
        "claim, commit, release",
        "ack None, sends dead",
        message=LATE,
    ),
    Row(
        "its table is denied to a direct call, of a stage without a lease",
        [given(), WriteDenied("no", ["prices"])],
        "claim, commit, release",
        "ack None, sends dead",
        called=True,
        lease=False,
        on_failed=True,
    ),
    Row(
        "fails in its place",
        [given()],
        "claim, count the attempt, postpone 20",
        "keep CLAIMED",
        handle=boom,
        fifo=True,
    ),
)

BEGINS = (
    Row(
        "in place, at the attempt of the item",
        [Refused(Verdict.DUPLICATE, RESTING), given(RESTING), Committed()],
        "claim, claim, commit",
        "ack CLAIMED",
        fifo=True,
    ),
    Row(
        "the function was killed before",
        [given(item(lease_until=NOW - 1)), Committed()],
        "claim, note 1 kills, commit",
        "ack CLAIMED",
    ),
    Row(
        "the function was killed too often",
        [given(item(kills=4)), Committed()],
        "claim, note 5 kills, commit",
        "ack CLAIMED, sends dead",
    ),
    Row(
        "takes the object from a run that was at work",
        [given(another(outbox=left_by("run-0", Kind.SIDE, Kind.NEXT), done=True)), Committed()],
        "claim, send side, commit",
        "ack CLAIMED",
    ),
    Row(
        "what the run before left cannot be sent now",
        [given(another(outbox=left_by("run-0", Kind.SIDE), done=True))],
        "claim, send side, release",
        "SendFailed",
        refusals={0: Refusal("throttled")},
    ),
    Row(
        "only looks, and the hop may be begun",
        [given()],
        "read",
        "NotBegun",
        arrival={"begins": False},
    ),
    Row(
        "only looks, and the hop is done",
        refused(Verdict.DONE, item(done=True)),
        "read",
        "ack DONE",
        arrival={"begins": False},
    ),
)

UNLEASED = (
    Row("read, and committed", [given(), Committed()], "read, commit", "ack CLAIMED", lease=False),
    Row(
        "takes the object from a run at work",
        [given(another()), given(another()), Committed()],
        "read, claim, commit",
        "ack CLAIMED",
        lease=False,
    ),
    Row(
        "moved, and still open",
        [given(), Refused(Verdict.CLAIMED, item()), given(), Committed()],
        "read, commit, claim, commit",
        "ack CLAIMED",
        lease=False,
    ),
    Row(
        "moved, and done",
        [given(), Refused(Verdict.DONE, item(done=True))],
        "read, commit",
        "ack DONE",
        lease=False,
    ),
    Row(
        "moved while its end is committed",
        [given(), Refused(Verdict.CLAIMED, item()), given(), Committed()],
        "read, commit, claim, commit",
        "ack CLAIMED, sends dead",
        handle=reject,
        lease=False,
    ),
    Row(
        "the database is away, and there is nothing to release",
        [given(), ConnectionError("reset")],
        "read, commit",
        "ConnectionError",
        lease=False,
    ),
)

ROWS = (*VERDICTS, *WITHOUT_RUN, *COMMITS, *FAILURES, *BEGINS, *UNLEASED)


def arrival_of(row: Row) -> Arrival:
    first = Message("orders", "price-order", 1, ObjectId("o1"), RequestId("run-1"), NOW - 1_000, '{"order_id":"o1"}')
    message = first._replace(**row.message)
    source = "price-order.fifo" if row.fifo else "price-order"
    received = {
        **record(message, receives=3 if "since" in row.message else 1),
        "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:{source}",
    }
    if row.called:
        received |= {"eventSource": "aws:lambda", "eventSourceARN": None}
    envelope = normalize_record(received)
    assert isinstance(envelope, Envelope)
    flow = flow_of(row.handle, lease=row.lease, on_failed=row.on_failed)
    return Arrival(envelope, flow, flow.stage(message.stage), message)._replace(**row.arrival)


def word(replayed: Replayed, arrival: Arrival) -> str:
    try:
        ending = replayed.run(arrival)
    except Exception as error:
        return type(error).__name__
    sends = f", sends {' '.join(send.kind.value for send in ending.sends)}" if ending.sends else ""
    verdict = None if ending.verdict is None else ending.verdict.name
    return f"{'ack' if ending.ack else 'keep'} {verdict}{sends}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_way_through_the_runtime(row: Row) -> None:
    replayed = Replayed(row.answers, row.refusals, ManualClock(NOW))
    assert (word(replayed, arrival_of(row)), ", ".join(replayed.did)) == (row.ends, row.does)


def test_what_is_asked_again_is_asked_under_the_same_owner() -> None:
    """The first may have been granted, and its answer lost."""
    replayed = Replayed([None, given(), None, Committed()], clock=ManualClock(NOW))
    assert replayed.run(arrival_of(COMMITS[0])).ack
    first, second, *commits = replayed.asks
    assert isinstance(first, Claiming)
    assert isinstance(second, Claiming)
    assert first.request.owner == second.request.owner
    assert commits[0] == commits[1]


def test_what_moved_is_claimed_under_another_owner() -> None:
    row = next(row for row in UNLEASED if row.name == "moved, and still open")
    replayed = Replayed(row.answers, clock=ManualClock(NOW))
    assert replayed.run(arrival_of(row)).ack
    read, commit, claim, _ = replayed.asks
    assert isinstance(read, Judging)
    assert isinstance(commit, Committing)
    assert isinstance(claim, Claiming)
    assert read.request.owner != claim.request.owner


def test_what_was_read_a_retention_ago_is_claimed_and_not_committed() -> None:
    """Another may have been there, and its item may have expired since."""
    clock = ManualClock(NOW)
    row = Row("", [given(), given(), Committed()], "", "", lease=False)
    arrival = arrival_of(row)
    late = [arrival.flow.retention // timedelta(milliseconds=1)]
    stalling = Row("", row.answers, "", "", handle=lambda: clock.advance(ms=late.pop() if late else 0), lease=False)
    replayed = Replayed(row.answers, clock=clock)
    assert replayed.run(arrival_of(stalling)).ack
    assert replayed.did == ["read", "claim", "commit"]

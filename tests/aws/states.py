"""Every small state that the claim's table tells apart: a stored item, and a message that meets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, islice, product
from typing import Any, Final

from flowguard.aws.items import ASKER, number, record_item, run_key
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.callers import Caller, Callers, asker_key, caller_key
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import LONGEST_LEASE, ClaimRequest
from flowguard.protocol.waiting import Late, WaitPlan
from flowguard.wire.message import ErrorNote, Message

NOW = 1_000_000
BELIEVED = LONGEST_LEASE // timedelta(milliseconds=1)
LEASES = {
    "alive": NOW + 5_000,
    "over": NOW,
    "nearly abandoned": NOW - 100_000,
    "abandoned": NOW - 100_001,
    "longest": NOW + BELIEVED,
    "of a fast clock": NOW + BELIEVED + 1,
}
STATES = {
    "running": ("RUNNING", False),
    "done": ("RUNNING", True),
    "completed": ("COMPLETED", True),
    "failed": ("FAILED", True),
    "waiting": ("WAITING", True),
}
ATTEMPTS = ((0, 0), (0, 1), (1, 0))
STORED = (500, "request-m")
ENDED_AT = 501
OTHERS = {
    "older": (499, "request-z"),
    "newer": (502, "request-a"),
    "newer, before its end": (501, "request-a"),
    "lesser id": (500, "request-a"),
    "greater id": (500, "request-z"),
}


@dataclass(frozen=True)
class Meeting:
    """One case. ``item`` is the stored item as DynamoDB's low-level API writes it, None where there is none."""

    says: str
    item: dict[str, Any] | None
    request: ClaimRequest


def under(policy: OnConflict, kind: str) -> Iterator[Meeting]:
    """Each case of a kind as it is under this policy, once."""
    cases = {meeting.says.replace(meeting.request.on_conflict, ""): meeting for meeting in KINDS[kind]()}
    for meeting in cases.values():
        yield Meeting(meeting.says, meeting.item, meeting.request._replace(on_conflict=policy))


def meetings() -> Iterator[Meeting]:
    """Every case there is."""
    return chain.from_iterable(kind() for kind in KINDS.values())


def _no_item() -> Iterator[Meeting]:
    for hop, policy in product((1, 2), OnConflict):
        yield Meeting(f"no item, hop {hop}", None, request(STORED, hop=hop, policy=policy))


def _same_request() -> Iterator[Meeting]:
    for stored_hop, hop, state, stored_attempt, attempt in product((1, 2), (1, 2, 3), STATES, ATTEMPTS, ATTEMPTS):
        workers = product(("alive", "over", "longest", "of a fast clock"), ("mine", "other"))
        for lease, owner in workers if (hop == stored_hop and state == "running") else [("alive", "other")]:
            yield Meeting(
                f"same request, item at hop {stored_hop} {state} {stored_attempt} lease {lease} owner {owner}; "
                f"message hop {hop} {attempt}",
                item(stored_hop, state, stored_attempt, lease, owner),
                request(STORED, hop=hop, attempt=attempt),
            )


def _same_request_at_another_time() -> Iterator[Meeting]:
    workers = tuple(product(("alive", "over"), ("mine", "other")))
    for time, state, attempt, worker, policy in product((499, 501, 502), STATES, ATTEMPTS, workers, OnConflict):
        yield Meeting(
            f"the same request at {time} instead of {STORED[0]}, {attempt}; item {state} {worker}, {policy}",
            item(1, state, (0, 0), *worker),
            request((time, STORED[1]), attempt=attempt, policy=policy),
        )
    for time, state in product((499, 501), STATES):
        yield Meeting(
            f"a later hop of the same request at {time} instead of {STORED[0]}, item {state}",
            item(2, state, (0, 0), "over", "other"),
            request((time, STORED[1]), hop=2, attempt=(1, 0)),
        )
        yield Meeting(
            f"the next hop of the same request at {time} instead of {STORED[0]}, item {state}",
            item(1, state, (0, 0), "over", "other"),
            request((time, STORED[1]), hop=2),
        )


def _texts() -> Iterator[Meeting]:
    """What only a first hop tells apart: whether the message has the text that has claimed it."""
    workers = product(("alive", "over", "of a fast clock"), ("mine", "other"))
    attempts = product(ATTEMPTS, ATTEMPTS)
    for (says, text), worker, (stored_attempt, attempt), time, policy in product(
        TEXTS.items(), workers, attempts, (499, 500, 501), OnConflict
    ):
        yield Meeting(
            f"{says}; item at {stored_attempt} {worker}, message {attempt} at {time}, {policy}",
            {**item(1, "running", stored_attempt, *worker), **text},
            request((time, STORED[1]), attempt=attempt, policy=policy),
        )
    for (says, text), state, hop in product(TEXTS.items(), STATES, (1, 2)):
        stored = {**item(hop, state, (0, 0), "over", "other"), **text}
        yield Meeting(f"{says}; item at hop {hop} {state}", stored, request(STORED, hop=hop))
        yield Meeting(f"{says}; item at hop {hop} {state}, another request", stored, request(OTHERS["newer"], hop=hop))


def _other_requests() -> Iterator[Meeting]:
    for (which, other), hop, state, lease, policy in product(OTHERS.items(), (1, 2), STATES, LEASES, OnConflict):
        yield Meeting(
            f"{which} request, item {state} lease {lease}; message hop {hop}, {policy}",
            item(1, state, (0, 0), lease, "other"),
            request(other, hop=hop, policy=policy),
        )


def _other_requests_at_later_hops() -> Iterator[Meeting]:
    for (which, other), state in product(OTHERS.items(), STATES):
        yield Meeting(
            f"a later attempt of a {which} request's hop 2, item at hop 2 {state}",
            item(2, state, (0, 0), "over", "other"),
            request(other, hop=2, attempt=(1, 0)),
        )


def _waits() -> Iterator[Meeting]:
    """What only an item that waits tells apart: how far its wait is, and when its deadline is over."""
    for (says, about), hop, resumed in product(WAITS.items(), (2, 3), (False, True)):
        stored = item(1, "waiting", (0, 0), "over", "other", wait(**about))
        asked = request(STORED, hop=hop)
        asked = asked._replace(message=asked.message._replace(resumed=resumed))
        yield Meeting(f"a wait that is {says}; hop {hop}, resumed {resumed}", stored, asked)
    for over, lease in product((0, 100_000, 100_001), LEASES):
        stored = item(1, "waiting", (0, 0), lease, "other", wait(deadline=NOW - over))
        asked = request(OTHERS["newer"], policy=OnConflict.IGNORE)
        yield Meeting(f"a newer request, deadline over by {over} ms, lease {lease}", stored, asked)
        resumed = {**item(2, "running", (0, 0), lease, "other"), **wait(deadline=NOW - over), **late(1, "a")}
        yield Meeting(f"a newer request, the hop after a wait over by {over} ms, lease {lease}", resumed, asked)


def _failures() -> Iterator[Meeting]:
    """What only an item tells apart in which stands where a run failed: this one, or the one before it."""
    runs = (STORED, (STORED[0], "request-a"), (STORED[0] - 1, STORED[1]))
    ends = tuple(product(runs, (False, True)))
    for stored_hop, failed_hop, state, (whose, undone), attempt in product(
        (1, 2, 3), (1, 2), ("running", "done", "failed"), ends, ((0, 0), (1, 0))
    ):
        if whose == STORED and failed_hop > stored_hop:
            continue
        stored = {**item(stored_hop, state, attempt, "over", "other"), **failed(whose, failed_hop, undone)}
        for hop, redrive in product((1, 2, 3), (0, 1, 2)):
            yield Meeting(
                f"{whose} failed at hop {failed_hop}, undone {undone}; item at hop {stored_hop} {state} {attempt}; "
                f"message hop {hop}, redrive {redrive}",
                stored,
                request(STORED, hop=hop, attempt=(redrive, 0)),
            )


def _callers() -> Iterator[Meeting]:
    """What only a flow that takes callers tells apart: how fresh its end is, and who was answered with it."""
    for (which, other), state, lease, (says, lists), fresh_since, to in product(
        OTHERS.items(), STATES, ("over", "abandoned"), LISTS.items(), (0, 501), ("sqs:replies", "sqs:elsewhere")
    ):
        asked = request(other, policy=OnConflict.ATTACH)._replace(fresh_since=fresh_since)
        asked = asked._replace(message=asked.message._replace(reply_to=to))
        stored = {**item(1, state, (0, 0), lease, "other"), **lists}
        about = f"{which} caller to {to}, item {state} lease {lease}"
        yield Meeting(f"{about}, {says}, fresh since {fresh_since}", stored, asked)


def _own_hops_of_callers() -> Iterator[Meeting]:
    for state, (says, lists), redrive, asks, hop in product(STATES, LISTS.items(), (0, 1), (False, True), (1, 2, 3)):
        asked = request(STORED, hop=hop, attempt=(redrive, 0), policy=OnConflict.ATTACH)
        asked = asked._replace(message=asked.message._replace(reply_to="sqs:replies" if asks else None))
        stored = {**item(2, state, (0, 0), "over", "other"), **lists}
        yield Meeting(f"its own hop {hop}, redrive {redrive}, asks {asks}, item {state}, {says}", stored, asked)
    for state, (says, lists), lease in product(STATES, LISTS.items(), ("alive", "over")):
        asked = request(STORED, policy=OnConflict.ATTACH)
        stored = {**item(1, state, (0, 0), lease, "other"), **lists}
        yield Meeting(f"its own first hop, item at it, {state} lease {lease}, {says}", stored, asked)


def _askers() -> Iterator[Meeting]:
    for (which, other), policy, asker in product(OTHERS.items(), OnConflict, (STORED, OTHERS["newer"], (1, "gone"))):
        asked = request(other, policy=policy)
        asked = asked._replace(message=asked.message._replace(reply_to="sqs:replies"))
        noted = Caller(RequestId(asker[1]), asker[0], "sqs:replies")
        stored = {
            **item(1, "running", (0, 0), "abandoned", "other"),
            f"{ASKER}{asker_key(noted.request_id)}": {"S": noted.to_text()},
        }
        yield Meeting(f"{which} request that asks, {policy}, {asker[1]} asked before", stored, asked)


def _fast_clocks() -> Iterator[Meeting]:
    """What workers have left whose clocks are fast, and those whose clocks are right."""
    long_ago, ahead = NOW - 100_001, NOW + BELIEVED + 1
    times = product((long_ago, long_ago + 1), (None, long_ago, long_ago + 1, ahead - 1, ahead))
    for (asked, committed), state, lease in product(times, STATES, ("longest", "of a fast clock")):
        found = {**item(1, state, (0, 0), lease, "other"), "requested_at": number(asked)}
        if committed is not None:
            found["committed_at"] = number(committed)
        for policy, run in product((OnConflict.IGNORE, OnConflict.ATTACH), (NOW - 1, NOW + 2 * BELIEVED)):
            yield Meeting(
                f"asked for at {asked}, committed at {committed}, {state}, lease {lease}; {policy}, a request of {run}",
                found,
                request((run, "request-n"), policy=policy),
            )


def _cancelled() -> Iterator[Meeting]:
    """Every first hop of the other kinds once more, by the message that cancels its request."""
    for state, worker, (stored_attempt, attempt), policy in product(
        STATES, ("alive", "over"), product(ATTEMPTS, ATTEMPTS), OnConflict
    ):
        stored = item(1, state, stored_attempt, worker, "other")
        yield _cancelling(
            Meeting(
                f"item at {stored_attempt} {state} {worker}, message {attempt}, {policy}",
                stored,
                request(STORED, attempt=attempt, policy=policy),
            )
        )
    for kind in KINDS.values():
        if kind not in (_texts, _cancelled):  # a message that cancels has another text than its request
            yield from (_cancelling(meeting) for meeting in kind() if meeting.request.message.hop == 1)
    yield from (_cancelling(meeting) for meeting in islice(_texts(), None, None, 7))


def _cancelling(meeting: Meeting) -> Meeting:
    message = meeting.request.message._replace(cancelled="not wanted")
    return Meeting(f"{meeting.says}, cancelled", meeting.item, meeting.request._replace(message=message))


KINDS: dict[str, Callable[[], Iterator[Meeting]]] = {
    "no item": _no_item,
    "the same request": _same_request,
    "the same request at another time": _same_request_at_another_time,
    "the text of a first hop": _texts,
    "another request": _other_requests,
    "a later hop of another request": _other_requests_at_later_hops,
    "a wait": _waits,
    "a failure": _failures,
    "a caller": _callers,
    "a hop of a flow that takes callers": _own_hops_of_callers,
    "a request that asks": _askers,
    "a fast clock": _fast_clocks,
    "a request that is cancelled": _cancelled,
}
"""The cases by what they are about. A mutant is shown only those kinds which can tell it apart."""


def _held(*requests: tuple[int, str], rows: bool = False) -> dict[str, Any]:
    callers = [Caller(RequestId(one), time, "sqs:replies") for time, one in requests]
    return record_item(Callers("term", {one.key: one.to_text() for one in callers}, rows))


def _text(digest: str, epoch: int = 7) -> dict[str, Any]:
    return {"first_text": {"S": digest}, "text_epoch": number(epoch)}


_SAME: Final = Message("flow", "stage-1", 1, ObjectId("object"), RequestId(STORED[1]), 500, "{}").text_digest

TEXTS: dict[str, dict[str, Any]] = {
    "no text": {},
    "another text": _text("another"),
    "another text of an earlier claim": _text("another", 6),
    "another text of no claim": {"first_text": {"S": "another"}},
    "the same text": _text(_SAME),
}
"""What the item says of the text that has claimed its first hop. The epoch of :func:`item` is 7."""

LISTS: dict[str, dict[str, Any]] = {
    "no list": {},
    "an open list": {"callers": _held((501, "request-a"), rows=True)},
    "answered others": {"answered": _held((1, "request-x"), (1, "request-a")), "answered_by": {"S": STORED[1]}},
    "answered it": {"answered": _held(*OTHERS.values()), "answered_by": {"S": STORED[1]}},
    "it was carried out before": {
        "answered": _held(),
        "answered_by": {"S": "request-a"},
        "answered_key": {"S": caller_key(RequestId("request-a"), 501)},
        "callers": _held(),
    },
    "reset": {"callers": _held(), "reset_at": number(600), "reset_by": {"S": "reset"}},
    "reset after it answered it": {"answered": _held(*OTHERS.values()), "reset_at": number(600)},
}
"""Who is answered with the end of the run, or was with that of the run before."""


def item(
    hop: int, state: str, attempt: tuple[int, int], lease: str, owner: str, waits: dict[str, Any] | None = None
) -> dict[str, Any]:
    status, done = STATES[state]
    return {
        **run_key("flow", ObjectId("object")),
        "request_id": {"S": STORED[1]},
        "requested_at": number(STORED[0]),
        "version": number(1),
        "status": {"S": status},
        "stage": {"S": f"stage-{hop}"},
        "hop": number(hop),
        "retry": number(attempt[1]),
        "redrive": number(attempt[0]),
        "epoch": number(7),
        "owner": {"S": owner},
        "lease_until": number(LEASES[lease]),
        "done": {"BOOL": done},
        "stages": {"M": {f"stage-{hop}": {"S": STORED[1]}}},
        "ttl": number(5_000),
        **({"committed_at": number(ENDED_AT)} if done else {}),
        **((waits or wait()) if status == "WAITING" else {}),
    }


def late(hop: int, *names: str) -> dict[str, Any]:
    """What came too late for the hop."""
    return {"late": record_item(Late(hop, frozenset(names)))}


def failed(run: tuple[int, str], hop: int, undone: bool) -> dict[str, Any]:
    """Where a run failed for good."""
    note = ErrorNote("Reject", "sold out", NOW)
    return {"failed": record_item(FailedHop(RequestId(run[1]), run[0], hop, 0, note, undone))}


WAITS: dict[str, dict[str, Any]] = {
    "one of two is missing": {"waiting": ("a", "b"), "spare": 0, "answered": ("c",)},
    "answered": {"waiting": (), "spare": 0, "answered": ("a", "b")},
    "enough are answered": {"waiting": ("b",), "spare": 1, "answered": ("a",)},
    "failed": {"waiting": ("b",), "spare": -1, "answered": ("a",)},
    "timed out": {"waiting": ("a",), "spare": 0, "timed_out": True},
}
"""What a wait may have come to."""


def wait(
    waiting: tuple[str, ...] = ("a",),
    spare: int = 0,
    deadline: int = NOW + 60_000,
    timed_out: bool = False,
    room: int = 1_000,
    answered: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The attributes of an item that waits."""
    stored: dict[str, Any] = {
        "spare": number(spare),
        "deadline": number(deadline),
        "room": number(room),
        "plan": {"S": WaitPlan("stage-2", dict.fromkeys([*waiting, *answered])).to_text()},
        "answers": {"M": {name: {"M": {"text": {"S": "{}"}}} for name in answered}},
        **({"timed_out": {"BOOL": True}} if timed_out else {}),
    }
    return {"wait": {"M": stored}, **({"waiting": {"SS": list(waiting)}} if waiting else {})}


def request(
    run: tuple[int, str],
    *,
    hop: int = 1,
    attempt: tuple[int, int] = (0, 0),
    policy: OnConflict = OnConflict.SUPERSEDE,
    owner: str = "mine",
    now: int = NOW,
) -> ClaimRequest:
    redrive, retry = attempt
    message = Message(
        flow="flow",
        stage=f"stage-{hop}",
        version=1,
        object_id=ObjectId("object"),
        request_id=RequestId(run[1]),
        requested_at=run[0],
        body="{}",
        hop=hop,
        retry=retry,
        redrive=redrive,
    )
    return ClaimRequest(
        message=message,
        owner=Owner(owner),
        now=now,
        lease_until=now + 10_000,
        on_conflict=policy,
        abandoned_before=now - 100_000,
        expires_at=now + 1_000_000,
        fresh_since=run[0],
    )

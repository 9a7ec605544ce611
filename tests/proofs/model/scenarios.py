"""The worlds that are searched: who asks for what, and what may go wrong how often."""

from __future__ import annotations

from typing import NamedTuple

from flowguard.protocol.conflict import OnConflict
from tests.proofs.model.world import Budget


class Scenario(NamedTuple):
    """``requests`` are the runs asked for at the beginning, greater is newer; ``repeated`` those that their sender asks
    for once more, under the same id and with a later time; ``forged`` those that somebody else asks for too, with a
    payload of his own; ``again`` those that come once more when the item has
    expired. ``receives`` is the queue's maxReceiveCount, 0 for none. ``is_fifo`` says so of the last stage's queue.
    ``by_payload``: the senders give no ids, and the flow names its requests by a field of the payload.

    ``flows``, ``parties`` and ``events`` are the names that the first hop waits for: other flows answer them, parties
    outside that are asked, and somebody who is not. ``needed`` of them are enough, all by default. Of ``failing`` the
    answer is a failure, ``silent`` events never happen, ``unasked`` parties answer before they are asked, ``is_direct``
    says that events come over HTTP and are given once. Without ``has_deadline`` the deadline lies far ahead.

    ``undoes`` says that the flow has an ``on_failed`` stage.

    The tests leave out what ``is_long``; the command does not."""

    name: str
    about: str
    budget: Budget
    requests: tuple[int, ...] = (1,)
    repeated: tuple[int, ...] = ()
    forged: tuple[int, ...] = ()
    by_payload: bool = False
    again: tuple[int, ...] = ()
    hops: int = 2
    attempts: int = 2
    on_conflict: OnConflict = OnConflict.SUPERSEDE
    receives: int = 0
    is_fifo: bool = False
    apart: int = 0
    """ms between one request and the next: 0 where all are asked for before the first commit."""
    is_long: bool = False
    flows: tuple[str, ...] = ()
    parties: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    needed: int | None = None
    failing: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    is_direct: bool = False
    has_deadline: bool = False
    undoes: bool = False
    cancelled: tuple[int, ...] = ()
    """The requests that come once more as cancelled, before the request itself or after it."""
    lease: bool = True
    """Whether the stages claim their hops before they handle them."""
    in_rows: bool = False
    """The item holds no callers: all of them are rows."""
    shares: bool = False
    """Whether each record comes with one of another object, whose claim and commit are made by the same calls."""

    @property
    def waits(self) -> bool:
        return bool(self.flows or self.parties or self.events)

    @property
    def is_calm(self) -> bool:
        """Nothing is ever repeated, so that nothing may be there twice."""
        b = self.budget
        happens = b.crashes or b.doubles or b.lapses or b.lost or b.refused or b.expiries or b.kills
        return not (happens or self.receives)


_IGNORE = OnConflict.IGNORE
_ATTACH = OnConflict.ATTACH
_LEASED = (
    Scenario("calm", "a redrive, and nothing else amiss", Budget(rejects=1, redrives=1)),
    Scenario("used-up", "attempts used up, and nothing else amiss", Budget(failures=5, redrives=1), hops=1),
    Scenario("chain", "two hops: crashes, second deliveries, leases that end early", Budget(1, 0, 0, 1, 1)),
    Scenario("sends", "two hops: batches of sends that are taken in part", Budget(crashes=1, doubles=1, refused=2)),
    Scenario("lost", "answers to applied writes are lost", Budget(crashes=1, failures=2, lost=1), hops=1),
    Scenario("newer", "a newer request meets a run", Budget(1, 0, 0, 0, 1, 0, 1), (1, 2), is_long=True),
    Scenario("newer-fails", "a newer request meets a run that fails", Budget(1, 0, 1, 1, refused=1), (1, 2), hops=1),
    Scenario(
        "ignore",
        "the first keeps the object, until it has ended or is abandoned",
        Budget(crashes=1, rejects=1, doubles=1, abandoned=1),
        (1, 2),
        hops=1,
        on_conflict=_IGNORE,
    ),
    Scenario(
        "ignore-later",
        "the same, and the second request is asked for after the first run's commits",
        Budget(crashes=1, rejects=1, doubles=1, abandoned=1),
        (1, 2),
        hops=1,
        on_conflict=_IGNORE,
        apart=60_000,
    ),
    Scenario("retry", "failing attempts and their copies", Budget(2, 2, 0, 1, 1), hops=1, attempts=3, is_long=True),
    Scenario("exhausted", "failing more often than the policy allows", Budget(1, 3, 0, 1, 1), hops=1),
    Scenario("reject", "messages that can never work", Budget(1, 0, 1, 1, 1, 0, 1), is_long=True),
    Scenario(
        "fifo-used-up",
        "attempts used up on a FIFO queue, and nothing else amiss",
        Budget(failures=5),
        hops=1,
        is_fifo=True,
    ),
    Scenario("fifo", "failing attempts on a FIFO queue", Budget(1, 3, 0, 1, 1), hops=1, attempts=2, is_fifo=True),
    Scenario(
        "fifo-again",
        "an attempt on a FIFO queue fails while another worker asks for it",
        Budget(failures=2, doubles=1),
        hops=1,
        attempts=3,
        is_fifo=True,
    ),
    Scenario("fifo-redrive", "dead letters of a FIFO queue moved back", Budget(0, 1, 1, 1, redrives=1), is_fifo=True),
    Scenario(
        "fifo-ignore",
        "a request meets a run that waits for its next attempt",
        Budget(crashes=1, failures=1, abandoned=1),
        (1, 2),
        on_conflict=_IGNORE,
        is_fifo=True,
    ),
    Scenario("redrive", "dead letters moved back", Budget(1, 0, 2, 1, 1, redrives=2), hops=1),
    Scenario("redrive-later", "dead letters of a later hop moved back", Budget(1, 0, 1, 1, 0, redrives=2)),
    Scenario(
        "redrive-newer", "dead letters moved back after a newer run", Budget(0, 0, 1, 1, redrives=2), (1, 2), hops=1
    ),
    Scenario("redrive-both", "the same, two hops and a crash", Budget(1, 0, 1, 0, redrives=2), (1, 2), is_long=True),
    Scenario("killed", "a function that dies each time", Budget(3, 0, 0, 1), hops=1, receives=2, is_long=True),
    Scenario("kills", "a function is killed in its handler each time", Budget(rejects=1, redrives=1, kills=7), hops=1),
    Scenario(
        "kills-retry",
        "a function is killed four times, and then an attempt fails",
        Budget(failures=1, kills=6),
        hops=1,
    ),
    Scenario("kills-lost", "a function is killed, and answers are lost", Budget(lost=2, kills=4), hops=1),
    Scenario("killed-later", "a later hop's function dies each time", Budget(3), receives=2),
    Scenario(
        "repeated",
        "a request is asked for again, under its id and with a later time",
        Budget(crashes=1, failures=1, doubles=1, lapses=1),
        repeated=(1,),
        hops=1,
    ),
    Scenario(
        "repeated-redrive",
        "the same, and it fails for good",
        Budget(crashes=1, rejects=1, redrives=1),
        repeated=(1,),
        hops=1,
    ),
    Scenario(
        "repeated-fifo",
        "the same on a FIFO queue",
        Budget(crashes=1, failures=1, doubles=1, lapses=1),
        repeated=(1,),
        hops=1,
        is_fifo=True,
    ),
    Scenario(
        "forged",
        "somebody else's message has the request's id, a later time, and a payload of his own",
        Budget(crashes=1, failures=1, doubles=1, lapses=1),
        forged=(1,),
        hops=1,
    ),
    Scenario(
        "forged-fifo",
        "the same on a FIFO queue",
        Budget(crashes=1, failures=1, doubles=1, lapses=1),
        forged=(1,),
        hops=1,
        is_fifo=True,
    ),
    Scenario(
        "forged-lost",
        "the same, and answers to applied writes are lost",
        Budget(failures=1, lost=1),
        forged=(1,),
        hops=1,
    ),
    Scenario(
        "once-per-key",
        "an order without an id is sent again, under another message id and later",
        Budget(crashes=1, failures=1, doubles=1, lapses=1),
        repeated=(1,),
        by_payload=True,
        hops=1,
    ),
    Scenario(
        "once-per-key-redrive",
        "the same, and it fails for good",
        Budget(crashes=1, rejects=1, redrives=1),
        repeated=(1,),
        by_payload=True,
        hops=1,
    ),
    Scenario("undo", "a run fails for good and is undone", Budget(1, 0, 1, 1), undoes=True),
    Scenario("undo-calm", "the same, and its letter is moved back", Budget(rejects=1, redrives=1), undoes=True),
    Scenario("undo-sends", "the same, and sends are taken in part", Budget(1, 0, 1, refused=1), hops=1, undoes=True),
    Scenario("undo-lost", "the same, and answers to applied writes are lost", Budget(rejects=1, lost=2), undoes=True),
    Scenario(
        "undo-redrive",
        "a run is undone, or its undoing fails, and letters are moved back",
        Budget(1, 0, 2, redrives=2),
        hops=1,
        undoes=True,
    ),
    Scenario("undo-newer", "a newer request meets a run that is undone", Budget(1, 0, 2), (1, 2), undoes=True),
    Scenario(
        "undo-killed",
        "a function that dies each time",
        Budget(3, redrives=1),
        hops=1,
        receives=2,
        is_long=True,
        undoes=True,
    ),
    Scenario("expiry-alone", "the item expires under a worker, and nobody asks again", Budget(expiries=1)),
    Scenario("expiry", "the item expires under a worker", Budget(0, 0, 0, 1, 1, expiries=1), again=(1, 2), hops=1),
    Scenario("expiry-later", "the item expires between two hops", Budget(expiries=1, doubles=1), again=(1,)),
    Scenario("wait-all", "a run waits for two flows", Budget(crashes=1, doubles=1), flows=("a", "b")),
    Scenario(
        "wait-any", "a run waits for one of two flows", Budget(crashes=1), flows=("a", "b"), needed=1, has_deadline=True
    ),
    Scenario(
        "wait-event",
        "a run waits for what may happen before it waits",
        Budget(crashes=1),
        events=("x",),
    ),
    Scenario(
        "wait-event-fails",
        "the same, and an attempt fails",
        Budget(crashes=1, failures=1),
        events=("x",),
        is_long=True,
    ),
    Scenario(
        "wait-mixed",
        "a run waits for an event or a flow",
        Budget(crashes=1),
        flows=("a",),
        events=("x",),
        needed=1,
        has_deadline=True,
    ),
    Scenario("newer-wait", "a newer request meets a run that waits", Budget(crashes=1), (1, 2), flows=("a",)),
    Scenario(
        "newer-event", "the same, and both wait for one event", Budget(crashes=1), (1, 2), events=("x",), is_long=True
    ),
    Scenario("wait-lost", "answers to applied writes are lost", Budget(lost=2, refused=1), flows=("a",)),
    Scenario(
        "wait-party",
        "a run waits for a party outside, which may know the id before it is asked",
        Budget(crashes=1),
        parties=("p",),
        unasked=("p",),
    ),
    Scenario(
        "wait-direct", "an answer over HTTP is given once", Budget(crashes=1, refused=1), events=("x",), is_direct=True
    ),
    Scenario(
        "wait-timeout",
        "nobody answers",
        Budget(crashes=1, lost=1, early=2),
        events=("x",),
        silent=("x",),
        has_deadline=True,
    ),
    Scenario(
        "wait-failed", "one of two flows fails", Budget(crashes=1), flows=("a", "b"), failing=("b",), has_deadline=True
    ),
    Scenario(
        "wait-spare",
        "one of two flows fails, and one is enough",
        Budget(crashes=1),
        flows=("a", "b"),
        failing=("b",),
        needed=1,
    ),
    Scenario(
        "wait-redrive", "the hop after a wait fails for good and is redriven", Budget(1, 0, 1, redrives=1), flows=("a",)
    ),
    Scenario(
        "wait-ignore",
        "a run that waits keeps its object",
        Budget(crashes=1, abandoned=1),
        (1, 2),
        flows=("a",),
        on_conflict=_IGNORE,
    ),
    Scenario(
        "attach",
        "requests that meet a run are answered with its end",
        Budget(crashes=1, doubles=1, lost=1),
        (1, 2),
        hops=1,
        on_conflict=_ATTACH,
    ),
    Scenario(
        "attach-hops", "the same, of a run of two hops", Budget(crashes=1, refused=1), (1, 2), on_conflict=_ATTACH
    ),
    Scenario(
        "attach-rows",
        "callers that the item does not hold",
        Budget(crashes=1, doubles=1),
        (1, 2),
        hops=1,
        on_conflict=_ATTACH,
        in_rows=True,
    ),
    Scenario(
        "attach-fails", "a run with callers fails", Budget(crashes=1, rejects=1), (1, 2), hops=1, on_conflict=_ATTACH
    ),
    Scenario(
        "attach-later",
        "one caller, and a request from after the end, whose claim finds callers that were not answered",
        Budget(crashes=1),
        (1, 2, 3),
        hops=1,
        on_conflict=_ATTACH,
        apart=700,
    ),
    Scenario(
        "attach-abandoned",
        "a run with callers is abandoned and taken over",
        Budget(crashes=1, abandoned=1),
        (1, 2),
        on_conflict=_ATTACH,
    ),
    Scenario("attach-reset", "a run with callers is reset", Budget(resets=1), (1, 2), on_conflict=_ATTACH),
    Scenario(
        "attach-reset-dies",
        "the same, while workers die",
        Budget(crashes=1, resets=1),
        (1, 2),
        on_conflict=_ATTACH,
        is_long=True,
    ),
    Scenario(
        "attach-reset-first",
        "a run of one hop is reset, or its end",
        Budget(crashes=1, resets=1),
        (1, 2),
        hops=1,
        on_conflict=_ATTACH,
        apart=700,
    ),
    Scenario(
        "undo-reset",
        "a run that fails for good is reset, before or while it is undone",
        Budget(rejects=1, resets=1),
        on_conflict=_ATTACH,
        undoes=True,
    ),
    Scenario("cancel", "a run is cancelled", Budget(crashes=1, doubles=1, cancels=1)),
    Scenario("cancel-late", "the same, and leases end early", Budget(doubles=1, lapses=1, cancels=1)),
    Scenario("cancel-lost", "the same, and answers to applied writes are lost", Budget(1, lost=1, cancels=1), hops=1),
    Scenario("cancel-twice", "a run is cancelled twice", Budget(crashes=1, cancels=2), hops=1),
    Scenario("cancel-undo", "a run is cancelled and undone", Budget(crashes=1, cancels=1), undoes=True),
    Scenario("cancel-newer", "a newer request meets a cancelled run", Budget(crashes=1, cancels=1), (1, 2), hops=1),
    Scenario(
        "cancel-attach",
        "a run with callers is cancelled",
        Budget(crashes=1, cancels=1),
        (1, 2),
        hops=1,
        on_conflict=_ATTACH,
    ),
    Scenario(
        "cancel-wait", "a run that waits is cancelled", Budget(crashes=1, cancels=1), flows=("a",), has_deadline=True
    ),
    Scenario(
        "cancel-child",
        "a request comes once more as cancelled",
        Budget(crashes=1, doubles=1, lost=1),
        hops=1,
        cancelled=(1,),
    ),
    Scenario(
        "cancel-child-fails", "the same, and attempts fail", Budget(crashes=1, failures=1), hops=1, cancelled=(1,)
    ),
    Scenario("cancel-child-hops", "the same, of a run of two hops", Budget(crashes=1), cancelled=(1,)),
    Scenario("cancel-child-newer", "the same, and a newer request", Budget(crashes=1), (1, 2), hops=1, cancelled=(1,)),
    Scenario(
        "cancel-child-first",
        "the same, and an older request that keeps the object",
        Budget(crashes=1),
        (1, 2),
        hops=1,
        cancelled=(2,),
        on_conflict=_IGNORE,
    ),
    Scenario(
        "cancel-child-alone",
        "a request that nobody sent comes as cancelled",
        Budget(crashes=2, doubles=1),
        (),
        hops=1,
        cancelled=(1,),
    ),
    Scenario(
        "cancel-child-undo", "a request comes as cancelled, and is undone", Budget(1), cancelled=(1,), undoes=True
    ),
    Scenario(
        "cancel-child-wait",
        "a run that waits gets its request as cancelled",
        Budget(crashes=1),
        flows=("a",),
        cancelled=(1,),
        has_deadline=True,
        is_long=True,
    ),
)

_QUICK = (
    "calm",
    "chain",
    "lost",
    "exhausted",
    "killed-later",
    "undo-calm",
    "undo-lost",
    "cancel-late",
    "repeated-redrive",
)
_QUICK_TOO = ("expiry-alone", "expiry", "expiry-later", "wait-lost", "wait-direct", "wait-redrive")


def _without_lease(scenario: Scenario) -> Scenario:
    """The same world, whose stages read their hops and let the commit take them."""
    is_quick = scenario.name in (*_QUICK, *_QUICK_TOO)
    name, about = f"unleased-{scenario.name}", f"without a lease: {scenario.about}"
    return scenario._replace(name=name, about=about, lease=False, is_long=not is_quick)


def _sharing(scenario: Scenario) -> Scenario:
    """The same world, in which each record shares its claim and commit with another object's."""
    about = f"in shared calls: {scenario.about}"
    return scenario._replace(name=f"shared-{scenario.name}", about=about, shares=True, is_long=False)


_UNLEASED = tuple(
    _without_lease(scenario)
    for scenario in _LEASED
    if scenario.on_conflict is OnConflict.SUPERSEDE
    and not (scenario.is_fifo or scenario.budget.kills or scenario.forged)
)
_UNANSWERED = (
    Scenario("newer-lost", "a newer request, and lost answers", Budget(crashes=1, lost=1), (1, 2), hops=1),
    Scenario("early-lost", "leases end early, and lost answers", Budget(1, doubles=1, lapses=1, lost=1), hops=1),
)
_SHARED = tuple(
    _sharing(scenario)
    for scenario in (*_UNANSWERED, *_LEASED, *map(_without_lease, _UNANSWERED), *_UNLEASED)
    if scenario.budget.lost
    and not scenario.budget.kills
    and not (scenario.waits or scenario.undoes or scenario.on_conflict is _ATTACH)
)
"""Those in which a shared call may stay without an answer: any other is, state by state, the world without them."""
SCENARIOS = (*_LEASED, *_UNLEASED, *_SHARED)

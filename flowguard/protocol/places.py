"""The places of a limit's key, and the order of turns in its line.

They are pure functions of one item, and each write of the item is the result of one of them. A place is free where
fewer hold one than may. It is taken by a hop before which fewer stand in line than places are free: so a newcomer
passes nobody, and who comes when its turn is there waits for nobody else.

::

    take ── no place ──▶ join the line … called ──▶ take ── handler ── commit ──▶ give back, and call the next
                                         (a hint)    └ died: the place lapses with the lease

Who was called and does not come is dropped from the line after :data:`GRACE`. It joins again when it looks, and has its
old arrival then.

A key may be paused: it has no free place then. Who holds one keeps it, and the line waits until the pause is over.
A key that has paused itself (:mod:`flowguard.protocol.breaker`) has one place again after some time, for a trial.

A limit by time has such places too. A start takes one under a name of its own, nobody gives it back, and it lapses
when its window is over. So it is known when the next one is free, and who stands in line is called for that moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard, TypeVar

from flowguard.startup.named_tuple import NamedTuple

_Entry = TypeVar("_Entry")

GRACE: Final = 20_000
"""ms after a call in which the hop has to come. Until then nobody behind it takes its place."""

SKEW: Final = 5_000
"""ms for which a place is held beyond its lease: the clock of who looks may be fast by so much."""

APART: Final = 2 * SKEW
"""ms by which two clocks differ at most, if each is wrong by up to :data:`SKEW`. A time that lies further ahead was
written by a clock that is too fast."""

LONGEST_WINDOW: Final = 901_000
"""ms. The longest ``per`` with its margin: no start counts for longer."""

LONGEST_AHEAD: Final = 2_000
"""ms by which a start is noted ahead of its handler, at most."""

UNSEEN_FOR: Final = 3_600_000
"""ms after which who stands in line and does not look is dropped from it: its run may be long over."""

LONGEST_LINE: Final = 50
"""Of more than so many the latest stand outside of the line, and join at a later look. Each write pays for all."""

MOST_AT_ONCE: Final = 100

COMES_EARLY: Final = 2_000
"""ms. A hop that comes so much earlier than its call comes by its look. Its call is on its way and is not repeated."""


class Holder(NamedTuple):
    """The owner of a hop's claim, who holds a place until the lease ends (ms). A start has no owner."""

    owner: str
    until: int

    @property
    def lapses_at(self) -> int:
        """Return the last ms in which it counts. A window has its margin already."""
        return self.until + SKEW if self.owner else self.until


class Waiter(NamedTuple):
    """A hop in line since ``arrival``. It last looked at ``seen_at``, and is called for ``called_at``, or not yet (0).

    All are in ms.
    """

    arrival: int
    object_id: str
    seen_at: int
    called_at: int = 0


class KeyPause(NamedTuple):
    """Nothing of the key begins since then (ms), and why.

    A key that has paused itself is tried from ``until`` (ms) on, by one hop at a time: the ``trial`` is the name of its
    place. ``until`` is 0 for a pause that somebody has made, and has to end.
    """

    since: int
    why: str
    until: int = 0
    trial: str = ""


class Places(NamedTuple):
    """The item of a key, by the tokens of hops. ``pause`` is None where hops may begin.

    ``failed`` has the times (ms) of attempts that have failed lately, where such failures pause the key.
    """

    held: Mapping[str, Holder] = {}
    line: Mapping[str, Waiter] = {}
    pause: KeyPause | None = None
    failed: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.held and not self.line


NOBODY: Final = Places()


class Terms(NamedTuple):
    """What a decision is made by beside the item. Times are in ms.

    A place of a limit by time is held for the ``window``, others as long as a lease, for the ``longest_lease`` at most.
    """

    at_once: int
    now: int
    longest_lease: int
    window: int = 0


class Hop(NamedTuple):
    """A hop that wants a place, since ``arrival`` (ms). Its copies and attempts have the same token."""

    token: str
    object_id: str
    arrival: int


class Change(NamedTuple):
    """The item after a decision.

    ``granted`` says that the hop has a place now, ``calls`` are the waiters to be called. ``tripped`` is the pause that
    the key begins by itself, or goes on with after a trial, ``healed`` the one that it ends.
    """

    after: Places
    granted: bool = False
    calls: tuple[Hop, ...] = ()
    tripped: KeyPause | None = None
    healed: KeyPause | None = None


def taken(
    places: Places, hop: Hop, holder: Holder, terms: Terms, name: str = "", *, ended: str | None = None
) -> Change:
    """Give the hop a place if its turn has come. It is held under the hop's token, or under a ``name``.

    A hop that holds one keeps it. Of two owners the later one gets it when the first has given it back, has ``ended``
    and could not, or its lease is over: a run that was reset has a new owner while the first one's handler may be at
    work. While the key is paused it gets none, but that of a trial. A trial that has ended says how by the write that
    gives its place back, so its retry takes the place over only when its lease is over.
    """
    live, name = settled(places, terms), name or hop.token
    there = live.held.get(name)
    is_mine = there is not None and there.owner == holder.owner
    if there is None:
        granted = before(live, first_seen(live, hop)) < free(live, terms)
    else:
        is_left = there.until <= terms.now or (there.owner == ended and not _is_trial(live, name))
        granted = is_mine or (is_left and _may_begin(live, terms, name))
    if granted:
        pause = live.pause if live.pause is None or is_mine else live.pause._replace(trial=name)
        live = Places({**live.held, name: holder}, _without(live.line, hop.token), pause, live.failed)
    return called(live, terms)._replace(granted=granted)


def joined(places: Places, hop: Hop, terms: Terms) -> Change:
    """Let the hop stand in line. It has found no place, and its claim is released: it may be called, once more too.

    A full line is left by the one that came last. Who stands there, and has looked lately, changes nothing.
    """
    live = settled(places, terms)
    hop, there = first_seen(live, hop), live.line.get(hop.token)
    mine = Waiter(hop.arrival, hop.object_id, terms.now)
    if there is not None and terms.now - there.seen_at < UNSEEN_FOR // 4:
        mine = mine._replace(seen_at=there.seen_at)
    if there is not None and there.called_at - terms.now >= COMES_EARLY:
        mine = mine._replace(called_at=there.called_at)
    line = {**live.line, hop.token: mine}
    live = live._replace(line={token: line[token] for token in _in_order(line)[:LONGEST_LINE]})
    return called(live, terms)


def given_back(places: Places, name: str, owner: str, terms: Terms) -> Change:
    """Free the place of this name, unless another owner has it by now."""
    holder = places.held.get(name)
    if holder is not None and holder.owner == owner:
        places = places._replace(held=_without(places.held, name))
    return called(settled(places, terms), terms)


def withdrawn(places: Places, hop: Hop, terms: Terms) -> Change:
    """Let the hop leave the line. A later attempt, which has arrived at another time, stays, and may be called again.

    The call that has come may have been for that one.
    """
    waiter = places.line.get(hop.token)
    if waiter is not None and waiter.arrival <= hop.arrival:
        places = places._replace(line=_without(places.line, hop.token))
    elif waiter is not None:
        places = places._replace(line={**places.line, hop.token: waiter._replace(called_at=0)})
    return called(settled(places, terms), terms)


def settled(places: Places, terms: Terms) -> Places:
    """Drop those whose leases or windows are over, and those in line who do not come.

    A lease that ends later than any can is of a worker whose clock was fast. It counts as over. A start may
    be of another ``per``, and stays as long as the longest window. A limit by time, which was another before, pauses
    nothing itself: no start is given back, so no trial would end.
    """
    if terms.window and is_own(places.pause):
        places = places._replace(pause=None)
    return places._replace(
        held={token: holder for token, holder in places.held.items() if _is_held(holder, terms)},
        line={token: waiter for token, waiter in places.line.items() if _is_awaited(waiter, terms)},
    )


def called(places: Places, terms: Terms) -> Change:
    """Call as many of the first in line as places are free, or are known to lapse.

    Nobody is called twice, but for who could come by far earlier than it was called for. Nor is a hop whose place an
    earlier owner holds: it is called when that gives it back.
    """
    first = zip(_in_order(_others_line(places)), openings(places, terms), strict=False)
    due = {token: at for token, at in first if not 0 < places.line[token].called_at <= at + GRACE}
    line = {**places.line, **{token: places.line[token]._replace(called_at=at) for token, at in due.items()}}
    calls = [Hop(token, line[token].object_id, line[token].arrival) for token in due]
    return Change(places._replace(line=line), calls=tuple(calls))


def openings(places: Places, terms: Terms) -> list[int]:
    """Return when places are free (ms), the first ones first. When a hop at work gives its place back nobody knows."""
    if places.pause is not None:
        return [max(tried_at(places.pause, terms.now), terms.now)] * min(_unheld(places, terms), trials(places))
    ends = sorted(holder.lapses_at + 1 for holder in places.held.values()) if terms.window else []
    return [terms.now] * free(places, terms) + ends[max(len(ends) - terms.at_once, 0) :]


def free(places: Places, terms: Terms) -> int:
    """Return how many places may be taken. A start takes none of a limit of hops at work."""
    if places.pause is None:
        return _unheld(places, terms)
    return min(_unheld(places, terms), trials(places)) if tried_at(places.pause, terms.now) <= terms.now else 0


def is_own(pause: KeyPause | None) -> TypeGuard[KeyPause]:
    """Answer whether the key has paused itself."""
    return pause is not None and pause.until > 0


def tried_at(pause: KeyPause, now: int) -> int:
    """Return when a key that has paused itself is tried (ms). A time that lies too far ahead is of a fast clock."""
    return pause.until if pause.until <= now + LONGEST_WINDOW + APART else now


def trials(places: Places) -> int:
    """Return how many hops may try a paused key. A key that has paused itself is tried by one at a time."""
    return int(is_own(places.pause) and places.pause.trial not in places.held)


def first_seen(places: Places, hop: Hop) -> Hop:
    """Return the hop as it came first: a copy of its message knows nothing of its turn."""
    waiter = places.line.get(hop.token)
    return hop if waiter is None else hop._replace(arrival=min(waiter.arrival, hop.arrival))


def before(places: Places, hop: Hop) -> int:
    """Return how many stand in line before the hop, as it came first."""
    mine = (hop.arrival, hop.token)
    return sum((waiter.arrival, token) < mine for token, waiter in _others_line(places).items())


def paused(places: Places, pause: KeyPause) -> Change:
    """Pause the key. An earlier pause keeps its time and reason, but for one of the key's own."""
    is_kept = places.pause is not None and not is_own(places.pause)
    return Change(places if is_kept else places._replace(pause=pause))


def resumed(places: Places) -> Change:
    """End the pause of the key. Nobody is called: who looks next calls those whose turn has come."""
    return Change(places._replace(pause=None, failed=()))


def lapses_in(places: Places, now: int) -> int:
    """Return after how many ms a place may lapse first, or the turn of one who was called."""
    ends = [holder.until + SKEW for holder in places.held.values()]
    ends += [waiter.called_at + GRACE for waiter in places.line.values() if waiter.called_at]
    return max(min(ends, default=now) - now, 0)


def _unheld(places: Places, terms: Terms) -> int:
    counts = sum(1 for holder in places.held.values() if holder.owner or terms.window)
    return max(terms.at_once - counts, 0)


def _may_begin(places: Places, terms: Terms, name: str) -> bool:
    """Answer whether a hop may take over a place that an earlier owner has left, under its name.

    While the key is paused it may where it is the trial then: that was its own, or nobody's.
    """
    if places.pause is None:
        return True
    is_trial = _is_trial(places, name) or trials(places) > 0
    return is_trial and tried_at(places.pause, terms.now) <= terms.now


def _is_trial(places: Places, name: str) -> bool:
    return places.pause is not None and places.pause.trial == name


def _is_held(holder: Holder, terms: Terms) -> bool:
    longest = terms.longest_lease if holder.owner else LONGEST_WINDOW + SKEW
    return terms.now <= holder.lapses_at and holder.until <= terms.now + longest


def _is_awaited(waiter: Waiter, terms: Terms) -> bool:
    """Answer whether who stands in line may still come. A call that lies too far ahead is of a clock that was fast."""
    now = terms.now
    if waiter.called_at and not now - GRACE <= waiter.called_at <= now + LONGEST_WINDOW + APART:
        return False
    return waiter.seen_at + UNSEEN_FOR >= now


def _others_line(places: Places) -> Mapping[str, Waiter]:
    """Return the line without hops whose place is still held, by an earlier owner of the same hop."""
    return {token: waiter for token, waiter in places.line.items() if token not in places.held}


def _in_order(line: Mapping[str, Waiter]) -> list[str]:
    return sorted(line, key=lambda token: (line[token].arrival, token))


def _without(of: Mapping[str, _Entry], token: str) -> Mapping[str, _Entry]:
    return {name: entry for name, entry in of.items() if name != token}

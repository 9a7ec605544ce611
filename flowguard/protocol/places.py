"""The places of a limit's key, and the order of turns in its line.

They are pure functions of one item, and each write of the item is the result of one of them. A place is free where
fewer hold one than may. It is taken by a hop before which fewer stand in line than places are free: so a newcomer
passes nobody, and who comes when its turn is there waits for nobody else.

::

    take ── no place ──▶ join the line … called ──▶ take ── handler ── commit ──▶ give back, and call the next
                                         (a hint)    └ died: the place lapses with the lease

Who was called and does not come is dropped from the line after :data:`GRACE`. It joins again when it looks, and has its
old arrival then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from flowguard.startup.named_tuple import NamedTuple

_Entry = TypeVar("_Entry")

GRACE: Final = 20_000
"""ms after a call in which the hop has to come. Until then nobody behind it takes its place."""

SKEW: Final = 5_000
"""ms for which a place is held beyond its lease: the clock of who looks may be fast by so much."""

UNSEEN_FOR: Final = 3_600_000
"""ms after which who stands in line and does not look is dropped from it: its run may be long over."""

LONGEST_LINE: Final = 50
"""Of more than so many the latest stand outside of the line, and join at a later look. Each write pays for all."""

MOST_AT_ONCE: Final = 100


class Holder(NamedTuple):
    """The owner of a hop's claim, who holds a place until the lease ends (ms)."""

    owner: str
    until: int


class Waiter(NamedTuple):
    """A hop in line since ``arrival``. It last looked at ``seen_at``, and was called at ``called_at``, or not (0).

    All are in ms.
    """

    arrival: int
    object_id: str
    seen_at: int
    called_at: int = 0


class Places(NamedTuple):
    """The item of a key, by the tokens of hops."""

    held: Mapping[str, Holder] = {}
    line: Mapping[str, Waiter] = {}

    @property
    def is_empty(self) -> bool:
        return not self.held and not self.line


NOBODY: Final = Places()


class Terms(NamedTuple):
    """What a decision is made by beside the item. Times are in ms."""

    at_once: int
    now: int
    longest_lease: int


class Hop(NamedTuple):
    """A hop that wants a place, since ``arrival`` (ms). Its copies and attempts have the same token."""

    token: str
    object_id: str
    arrival: int


class Change(NamedTuple):
    """The item after a decision.

    ``granted`` says that the hop has a place now, ``calls`` are the waiters to be called.
    """

    after: Places
    granted: bool = False
    calls: tuple[Hop, ...] = ()


def taken(places: Places, hop: Hop, holder: Holder, terms: Terms) -> Change:
    """Give the hop a place if its turn has come. A hop that holds one keeps it, under its new owner."""
    live = settled(places, terms)
    granted = hop.token in live.held or before(live, first_seen(live, hop)) < free(live, terms)
    if granted:
        live = Places({**live.held, hop.token: holder}, _without(live.line, hop.token))
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
    if hop.token not in live.held:
        line = {**live.line, hop.token: mine}
        live = live._replace(line={token: line[token] for token in _in_order(line)[:LONGEST_LINE]})
    return called(live, terms)


def given_back(places: Places, hop: Hop, owner: str, terms: Terms) -> Change:
    """Free the hop's place, unless another owner has it by now."""
    holder = places.held.get(hop.token)
    if holder is not None and holder.owner == owner:
        places = places._replace(held=_without(places.held, hop.token))
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
    """Drop those whose leases are over, and those in line who do not come.

    A lease that ends later than any can is of a worker whose clock was fast. It counts as over.
    """
    since, until = terms.now - SKEW, terms.now + terms.longest_lease
    return Places(
        {token: holder for token, holder in places.held.items() if since <= holder.until <= until},
        {token: waiter for token, waiter in places.line.items() if _is_awaited(waiter, terms.now)},
    )


def called(places: Places, terms: Terms) -> Change:
    """Call the first in line, as many as places are free. Nobody is called twice."""
    first = _in_order(places.line)[: free(places, terms)]
    due = [token for token in first if not places.line[token].called_at]
    line = {**places.line, **{token: places.line[token]._replace(called_at=terms.now) for token in due}}
    calls = [Hop(token, line[token].object_id, line[token].arrival) for token in due]
    return Change(places._replace(line=line), calls=tuple(calls))


def free(places: Places, terms: Terms) -> int:
    """Return how many places nobody holds."""
    return max(terms.at_once - len(places.held), 0)


def first_seen(places: Places, hop: Hop) -> Hop:
    """Return the hop as it came first: a copy of its message knows nothing of its turn."""
    waiter = places.line.get(hop.token)
    return hop if waiter is None else hop._replace(arrival=min(waiter.arrival, hop.arrival))


def before(places: Places, hop: Hop) -> int:
    """Return how many stand in line before the hop, as it came first."""
    mine = (hop.arrival, hop.token)
    return sum((waiter.arrival, token) < mine for token, waiter in places.line.items())


def lapses_in(places: Places, now: int) -> int:
    """Return after how many ms a place may lapse first, or the turn of one who was called."""
    ends = [holder.until + SKEW for holder in places.held.values()]
    ends += [waiter.called_at + GRACE for waiter in places.line.values() if waiter.called_at]
    return max(min(ends, default=now) - now, 0)


def _is_awaited(waiter: Waiter, now: int) -> bool:
    """Answer whether who stands in line may still come. A call that lies ahead is of a clock that was fast."""
    if waiter.called_at and not now - GRACE <= waiter.called_at <= now + SKEW:
        return False
    return waiter.seen_at + UNSEEN_FOR >= now


def _in_order(line: Mapping[str, Waiter]) -> list[str]:
    return sorted(line, key=lambda token: (line[token].arrival, token))


def _without(of: Mapping[str, _Entry], token: str) -> Mapping[str, _Entry]:
    return {name: entry for name, entry in of.items() if name != token}

"""Take the places of a call under ``@once`` before its function, and give them back after its result is stored.

::

    key ── CLAIM ── a place is free ──▶ the function ── FINISH ──▶ the place is given back
                      └ none: the key is freed, and the call raises LimitReached

No message of ours could be sent to a call that waits. So nobody stands in line: a place goes to who comes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from flowguard.clock import Clock
from flowguard.errors import LimitReached, PlacesBusy, RunFailed, shown
from flowguard.key_table import KeyTable
from flowguard.limit import PerKey
from flowguard.names.ids import Ids
from flowguard.payload.call_keys import NoKey, read_key
from flowguard.protocol.entry import LONGEST_LEASE, KeyClaim
from flowguard.protocol.places import LONGEST_AHEAD, Change, Holder, Hop, Places, Terms, given_back, openings, taken
from flowguard.startup.named_tuple import NamedTuple
from flowguard.worker.place_store import GiveBack, PlaceKey, PlaceStore, Seen, Take

OF_CALLS: Final = "@once"
"""What stands for a flow in the items of these limits. No flow has such a name."""

MOST_LIMITS: Final = 3

MOST_STARTS: Final = 3
"""How often starts are noted anew, where their writes take too long to say when the function begins."""

SHORTEST_REST: Final = 10
"""s for which a record is hidden that has found no place, when it was received for the first time."""

LONGEST_REST: Final = 900

GROWTH: Final = 1.5
"""Each further receive hides a record for so many times as long, for :data:`LONGEST_REST` at most."""

_MOST_GROWTHS: Final = 30


class Wanted(NamedTuple):
    """A place of this limit that a call wants. ``key`` names its item."""

    limit: PerKey
    key: PlaceKey


class _Taken(NamedTuple):
    limit: PerKey
    key: PlaceKey
    name: str
    holder: Holder
    seen: Seen | None = None


def wanted(name: str, limits: Sequence[PerKey], argument: Any, call: str) -> tuple[Wanted, ...]:
    """Return the places that a call with this argument wants, in the order in which it takes them. Starts are last.

    ``call`` is its key under ``@once``, which says of which shard it is.

    Raises :class:`NoKey`, which quotes nothing of the argument, where a limit has no usable key.
    """
    places = [(limit, _place(limit, argument, call)) for limit in limits]
    in_order = sorted(places, key=lambda pair: pair[0].window > 0)
    return tuple(Wanted(limit, PlaceKey(OF_CALLS, name, place)) for limit, place in in_order if place is not None)


def _place(limit: PerKey, argument: Any, call: str) -> str | None:
    if isinstance(limit.key, str):
        return limit.shard_of(limit.place_of_value(read_key(limit.key, argument)), call)
    try:
        return limit.place_of(argument, call)
    except RunFailed as error:
        raise NoKey(str(error)) from None


class CallPlaces:
    """The places of one call. It lives as long as that."""

    def __init__(self, claim: KeyClaim, places: PlaceStore, clock: Clock, ids: Ids) -> None:
        self._claim = claim
        self._store = places
        self._clock = clock
        self._ids = ids
        self._token = sha256(claim.ask.key.encode()).hexdigest()[:32]
        """A call that takes over the key of one that has died gets its place too. It shows nothing of the key."""
        self._taken: list[_Taken] = []
        self._starts: list[_Taken] = []
        """Those that count, and are not given back."""
        self._again = 0
        """How often starts were noted anew."""
        self._ahead = 0
        """How far ahead starts are noted (ms): as late as the function was after those before."""

    def take(self, wanted: Sequence[Wanted]) -> None:
        """Take one place of each limit. Raises :class:`LimitReached` if a limit has none free, and takes none then."""
        for limit, key in wanted:
            self._take(self._mine(limit, key, self._clock.now()))
        self.begin_now()

    def begin_now(self) -> None:
        """Note all starts anew while one is late, ahead by that time. Raises :class:`LimitReached` where that fails.

        They count from then on, whatever becomes of the call.
        """
        self._taken = [*self._taken, *self._starts]
        while late := self._late(self._taken):
            if self._again == MOST_STARTS:
                raise self._none(late[0][1].limit, 0)
            self._again += 1
            self._ahead = min(self._ahead + max(age for age, _ in late), LONGEST_AHEAD)
            for mine in [mine for mine in self._taken if mine.limit.window]:
                self._take(mine)
        self._starts = [mine for mine in self._taken if mine.limit.window]
        self._taken = [mine for mine in self._taken if not mine.limit.window]

    @property
    def are_late(self) -> bool:
        """Answer whether a start is too old by now for the function to begin."""
        return bool(self._late(self._starts))

    @property
    def holds(self) -> bool:
        """Answer whether the call holds a place, or may do so: one that it could not give back."""
        return bool(self._taken)

    def give_back(self) -> None:
        """Give back what the call holds. A place that stays lapses with the lease, or goes to the key's next call."""
        held, self._taken = self._taken, []
        for mine in held:
            try:
                self._free(mine)
            except Exception:  # the call has ended in its own way
                self._taken.append(mine)

    def _take(self, mine: _Taken) -> None:
        limit, key, name, holder, seen = mine
        ends = (self._clock.now() + LONGEST_LEASE) // 1000
        free = Take(name, holder, limit.most_of(key.place), ends) if seen is None else None
        hop, before = Hop(self._token, "", self._claim.ask.now), self._claim.before
        ended = None if before is None else before.ended  # any other owner may have the key by now, and be at work

        def decide(places: Places) -> Change:
            terms = self._terms(limit, key)
            return taken(places, hop, self._mine(limit, key, terms.now).holder, terms, name, ended=ended)

        others = [other for other in self._taken if other.key != key]
        self._taken = [*others, mine]  # also one whose write is not answered is given back
        try:
            change, seen = self._store.change(key, decide, self._ids.new(), seen, short=free)
        except PlacesBusy as error:
            raise self._none(limit, 0) from error
        except Exception:
            self.give_back()
            raise
        if not change.granted:
            self._taken = others
            raise self._none(limit, self._none_before(self._terms(limit, key), seen.places))
        self._taken = [*others, mine._replace(holder=seen.places.held[name], seen=seen)]

    @staticmethod
    def _none_before(terms: Terms, places: Places) -> int:
        """Return for how many seconds no place is free. 0 where a call at work may give one back at any moment."""
        opens = openings(places, terms)[:1]
        return sum(-((terms.now - at) // 1000) for at in opens)

    def _none(self, limit: PerKey, seconds: int) -> LimitReached:
        """Give back what was taken of other limits."""
        self.give_back()
        return LimitReached(self._claim.ask.name, limit.title, seconds)

    def _late(self, places: Sequence[_Taken]) -> list[tuple[int, _Taken]]:
        """Return the starts that are too old, each with its age (ms)."""
        now = self._clock.now()
        ages = [(now - mine.holder.until + mine.limit.window, mine) for mine in places if mine.limit.window]
        return [(age, mine) for age, mine in ages if age > mine.limit.margin // 2]

    def _mine(self, limit: PerKey, key: PlaceKey, now: int) -> _Taken:
        """Return the place that the call takes now. A start has the name of its call, so that each counts."""
        owner = self._claim.ask.owner
        if limit.window:
            return _Taken(limit, key, owner, Holder("", now + self._ahead + limit.window))
        return _Taken(limit, key, self._token, Holder(owner, self._claim.ask.lease_until))

    def _free(self, mine: _Taken) -> None:
        self._store.change(
            mine.key,
            lambda places: given_back(places, mine.name, mine.holder.owner, self._terms(mine.limit, mine.key)),
            self._ids.new(),
            short=GiveBack(mine.name, mine.holder),
        )

    def _terms(self, limit: PerKey, key: PlaceKey) -> Terms:
        return Terms(limit.most_of(key.place), self._clock.now(), LONGEST_LEASE, limit.window)


def rest_of(record: Mapping[str, Any], seconds: int, draw: Callable[[], float] = random.random) -> int:
    """Return for how many seconds a record is hidden that has found no place, and none will be free for ``seconds``.

    It is longer at each receive, so that a hundred of them last a day. Those that meet at a key are spread.
    """
    attributes = record.get("attributes")
    counted = attributes.get("ApproximateReceiveCount") if isinstance(attributes, Mapping) else None
    received = int(counted) if isinstance(counted, str) and counted.isdecimal() else 1
    grown = min(SHORTEST_REST * GROWTH ** min(max(received - 1, 0), _MOST_GROWTHS), LONGEST_REST)
    return round(max(grown, seconds) + grown / 2 * draw())


# -- mistakes of a definition


def limit_problems(limits: Any, table: KeyTable | None) -> list[str]:
    """List what is wrong with the limits of a function under ``@once``, whose keys are in this table."""
    if not all(isinstance(limit, PerKey) for limit in limits):
        return [f"limit is {shown(limits)}; write PerKey('body.customer', at_once=3), or a tuple of several"]
    if len(limits) > MOST_LIMITS:
        return [f"limit has {len(limits)} of at most {MOST_LIMITS}"]
    problems = [f"limit: {problem}" for limit in limits for problem in limit.call_problems()]
    names = [limit.title for limit in limits]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems += [f"limit: two are named {name!r}; give one of them another name" for name in twice]
    if isinstance(table, KeyTable) and table[1:] != ("pk", "sk", "ttl"):
        fix = "name one that has 'pk', 'sk' and the TTL attribute 'ttl', as flowguard's own: table='other'"
        problems.append(f"limit: its places are beside its keys, and its table has other names for these; {fix}")
    return problems

"""Take the places of a hop before its handler. Give them back after its commit. Stand in line for them.

::

    no place ─ its own message, delayed (the look) ─ the claim is released ─ join the line ─ ack
    a place is free ─ the first in line is called: its message, which it has left ─ claim, take, handle, commit

The look alone keeps a waiter alive: everything else may fail. It comes again and again, until the hop is done.

Of a limit by time each call of the handler takes a place, which nobody gives back. Who waits for one is called ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from flowguard.errors import OtherRelease, PlacesBusy, TooLarge
from flowguard.events import EventType
from flowguard.limit import PerKey
from flowguard.protocol.claims import found_note, is_left_over, queued_key
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Send
from flowguard.protocol.places import (
    LONGEST_AHEAD,
    Change,
    Holder,
    Hop,
    Places,
    Terms,
    first_seen,
    given_back,
    joined,
    lapses_in,
    taken,
    withdrawn,
)
from flowguard.protocol.run import BackOff, Claim
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote
from flowguard.wire.turn import Turn
from flowguard.worker.claim_phase import release
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending, acked, kept
from flowguard.worker.hop_memory import NoPlace
from flowguard.worker.lifetimes import longest_lease
from flowguard.worker.look_times import LONGEST_LOOK, SELDOM, SHORTEST_LOOK, rest_before_look
from flowguard.worker.place_store import Changed, DecideBy, GiveBack, PlaceKey, Return, Seen, Short, Take
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival
from flowguard.worker.turn_messages import TurnMessages

_MS: Final = timedelta(milliseconds=1)

LEAST_IN_PLACE: Final = 60_000
"""ms until a record that waits in its place is seen again, at least."""

LOST_AFTER: Final = 2 * LONGEST_LOOK
"""ms after which a look that has not come is lost."""

MOST_STARTS: Final = 3
"""How often starts are noted anew, where their writes take too long to say when the handler begins."""


class _Taken(NamedTuple):
    """A place that was asked for, under a name in the key's item."""

    limit: PerKey
    key: PlaceKey
    name: str
    holder: Holder
    seen: Seen | None = None


class _Full(NamedTuple):
    """A limit without a place, and the item that says so. None where it is not known, for the ``error`` if any."""

    limit: PerKey
    key: PlaceKey
    seen: Seen | None = None
    error: Exception | None = None
    is_late: bool = False
    """The place is free, and its start was written too late."""


class HopPlaces:
    """The places of one attempt of a hop. It lives as long as that."""

    def __init__(self, services: Services, emitter: Emitter, arrival: Arrival, claim: Claim | None) -> None:
        """``claim`` is None for a hop that was not claimed: it can only leave the line."""
        self._services = services
        self._emitter = emitter
        self._arrival = arrival
        self._claim = claim
        self._taken: list[_Taken] = []
        message, now = arrival.message, services.clock.now()
        self._turn = message.turn
        since = now if self._turn is None else min(self._turn.arrival, now)
        self._messages = TurnMessages(services, emitter, arrival)
        self._hop = Hop(self._messages.token, message.object_id, since)
        self._line = None if self._turn is None else self._turn.place
        """The place whose line the hop leaves where it does not begin."""
        self._calls = 0
        """How often the handler is called under this claim."""
        self._ahead = 0
        """How far ahead starts are noted (ms): as late as the handler was after those before."""

    # -- take and give back

    def take(self, payload: Any) -> None:
        """Take the places of all limits of the stage, or none, before each call of the handler.

        Starts come last. The limit of the hop's line comes before others of its kind. A repeated call of the handler
        keeps its places, and counts by time. Raises :class:`NoPlace` where a place is not free, and for the look of
        a failed attempt. Its retry rests. Raises :class:`OtherRelease` for a key's item that this one cannot read.
        """
        if is_left_over(self._own_claim):
            raise NoPlace(self._left_over)
        limits = [limit for limit in self._limits if limit.window or not self._calls]
        places = [(limit, limit.place_of(payload, self._hop.object_id)) for limit in limits]
        waits_for = None if self._turn is None else self._turn.place
        for limit, place in sorted(places, key=lambda pair: (pair[0].window > 0, pair[1] != waits_for)):
            if place is not None:
                self._take(self._mine(limit, self._key(place), self._services.clock.now()))
        if self._turn is not None and waits_for in [place for _, place in places]:
            self._line = None
            self._messages.forget()
        self._begin_now()
        self._taken = [mine for mine in self._taken if not mine.limit.window]  # the call counts, whatever becomes of it
        self._calls += 1

    def _take(self, mine: _Taken) -> None:
        """Take a place, or note once more that it is taken. Raises :class:`NoPlace` where none is free."""
        limit, key, name, holder, seen = mine
        ends = (self._services.clock.now() + longest_lease(self._arrival)) // 1000
        free = Take(name, holder, limit.most_of(key.place), ends) if self._turn is None and seen is None else None
        before = self._own_claim.before  # of a run that was reset it has another owner than the handler at work
        ended = None if before is None else before.owner

        def decide(places: Places, terms: Terms) -> Change:
            return taken(places, self._hop, self._mine(limit, key, terms.now).holder, terms, name, ended=ended)

        others = [other for other in self._taken if other.key != key]
        self._taken = [*others, mine]
        try:
            change, seen = self._change(limit, key, decide, seen, short=free)
        except OtherRelease:  # nothing says whether it may begin, and its end gives back what it has
            raise
        except Exception as error:
            full = _Full(limit, key, error=None if isinstance(error, PlacesBusy) else error)
            raise self._no_place(full) from error
        if not change.granted:
            self._taken = others
            raise self._no_place(_Full(limit, key, seen))
        self._taken = [*others, mine._replace(holder=seen.places.held[name], seen=seen)]

    def _begin_now(self) -> None:
        """Note all starts anew if one is late, ahead by that time. Raises :class:`NoPlace` where that does not help."""
        for _ in range(MOST_STARTS):
            if self._late() is None:
                return
            for mine in [mine for mine in self._taken if mine.limit.window]:
                self._take(mine)
        late = self._late()
        if late is not None:
            raise self._no_place(_Full(late.limit, late.key, is_late=True))

    def _late(self) -> _Taken | None:
        """Return a start that is too old. Later ones are noted ahead by its age."""
        now = self._services.clock.now()
        ages = [(now - mine.holder.until + mine.limit.window, mine) for mine in self._taken if mine.limit.window]
        late = [(age, mine) for age, mine in ages if age > mine.limit.margin // 2]
        if not late:
            return None
        self._ahead = min(self._ahead + max(age for age, _ in late), LONGEST_AHEAD)
        return late[0][1]

    def _mine(self, limit: PerKey, key: PlaceKey, now: int) -> _Taken:
        """Return the place that the hop takes now: of a limit by time each call of its handler has one of its own."""
        owner = self._own_claim.item.owner
        if limit.window:
            return _Taken(limit, key, f"{owner}{self._calls or ''}", Holder("", now + self._ahead + limit.window))
        return _Taken(limit, key, self._hop.token, Holder(owner, self._own_claim.item.lease_until))

    def _no_place(self, full: _Full) -> NoPlace:
        """Give back what was taken of other limits: nobody waits with a place."""
        self._give_back()
        return NoPlace(lambda: self._parked(full))

    def failed(self, raised: Sequence[type[BaseException]]) -> None:
        """Give back the places whose keys count the failure. The others stay until the attempt has ended."""
        held, self._taken = self._taken, []
        for mine in held:
            if (rule := mine.limit.pause_after) is not None and rule.counts(raised):
                self._free(mine, raised, is_over=False)
            else:
                self._taken.append(mine)

    def end(self, raised: Sequence[type[BaseException]] = (), *, is_over: bool = False) -> None:
        """Give back what the attempt holds, and leave the line where it stands there. A place that stays lapses."""
        self._give_back(raised, is_over=is_over)
        if self._line is not None and self._withdraw(self._line):
            self._messages.forget()

    def _give_back(self, raised: Sequence[type[BaseException]] = (), *, is_over: bool = False) -> None:
        """Give back the places, and call the next in line."""
        held, self._taken = self._taken, []
        for mine in held:
            self._free(mine, raised, is_over=is_over)

    def _free(self, mine: _Taken, raised: Sequence[type[BaseException]], *, is_over: bool) -> None:
        limit, key, name, holder, seen = mine
        how = Return(lambda places, terms: given_back(places, name, holder.owner, terms), GiveBack(name, holder))
        if limit.pause_after is not None or (seen is not None and seen.places.pause is not None):
            from flowguard.worker.key_pauses import with_outcome  # few keys pause themselves

            how = with_outcome(how, limit, seen, self._services.clock.now(), raised, is_over=is_over)
        with suppress(Exception):  # the place lapses with the lease
            self._change(limit, key, how.decide, short=how.short, frees=True)

    def _withdraw(self, place: str) -> bool:
        """Leave a line, and answer whether this attempt of the hop stood there.

        Of a limit that the stage has no more nothing is changed: nobody is served there.
        """
        name = place.partition("#")[0]
        stood_there = False

        def left(places: Places, terms: Terms) -> Change:
            nonlocal stood_there
            waiter = places.line.get(self._hop.token)
            stood_there = waiter is not None and waiter.arrival <= self._hop.arrival
            return withdrawn(places, self._hop, terms)

        for limit in self._limits:
            if limit.title == name:
                with suppress(Exception):  # who does not come is dropped
                    self._change(limit, self._key(place), left)
        return stood_there

    # -- stand in line

    def _left_over(self) -> Ending:
        """Acknowledge a look whose attempt has failed. Its note goes back into the item, for a copy of the look."""
        self._line = None
        note = found_note(self._own_claim)
        assert note is not None  # noqa: S101 - it is what has told so
        with suppress(Exception):  # a copy of the look is one more attempt, as any copy during a rest
            self._services.store.back_off(self._own_claim, note)
        self._emitter.emit(EventType.DUPLICATE, self._arrival)
        return acked(self._arrival, Verdict.DUPLICATE)

    def _parked(self, full: _Full) -> Ending:
        """Stand in line, and acknowledge the message once its look is sent. Raises what keeps the record in its queue.

        The line is joined last: a call must find nobody at work on its hop.
        """
        line, self._line = self._line, None
        if full.error is not None:
            raise full.error
        if line is not None and line != full.key.place:
            self._withdraw(line)
        if self._arrival.envelope.retried_in_place:
            return self._kept_in_place(full)
        if full.seen is not None:
            self._hop = first_seen(full.seen.places, self._hop)
        if not self._is_heir:
            return self._ended_copy(full)
        turn = Turn(self._hop.arrival, full.key.place)
        try:
            can_be_called = not full.is_late and self._messages.keep(self._again(turn))
            delay = self._delay(full, can_be_called=can_be_called)
            look = self._again(turn._replace(look=self._own_claim.item.epoch), delay)
        except TooLarge:
            return self._kept_in_place(full)
        return self._looks_again(full, look, delay)

    def _looks_again(self, full: _Full, look: Send, delay: int) -> Ending:
        refusal = self._services.sender.send([look]).get(0)
        self._emitter.sent(self._arrival.message, look, refusal)
        if refusal is not None:
            self._release(None)
            why = f"its look was not sent to {look.to}: {refusal.why}"
            return kept(self._arrival, Verdict.CLAIMED, "").kept(why, for_minutes=refusal.for_minutes)
        self._release(self._note(full, delay), queued=self._arrival.envelope.source.is_stream)
        self._emitter.emit(EventType.IN_LINE, self._arrival, limit=full.limit.title, delay=delay)
        self._join(full)
        return acked(self._arrival, Verdict.CLAIMED)

    @property
    def _is_heir(self) -> bool:
        """Answer whether this copy of the hop is the one that looks again.

        A call is not: the look is under way. An earlier look is not, nor a copy of one. Where the item does not say
        which look is the last, each is: then one of two ends when it looks again.
        """
        if self._turn is None:
            return True
        note, now = found_note(self._own_claim), self._services.clock.now()
        if self._turn.is_call or note is None or note.look is None:
            return not self._turn.is_call
        return self._turn.look >= note.look or note.until + LOST_AFTER < now

    def _ended_copy(self, full: _Full) -> Ending:
        """Acknowledge a copy of a hop whose look is under way. It stays in line, and may have taken its text before."""
        with suppress(Exception):  # its look comes
            self._messages.keep(self._again(Turn(self._hop.arrival, full.key.place)))
        self._release(found_note(self._own_claim))
        self._emitter.emit(EventType.IN_LINE, self._arrival, limit=full.limit.title)
        self._join(full)
        return acked(self._arrival, Verdict.CLAIMED)

    def _kept_in_place(self, full: _Full) -> Ending:
        """Leave the record in its queue, which brings it again. There is no queue for a look, or none takes it.

        It stays the one that looks. Each receive counts, so it looks seldom.
        """
        lapses = SELDOM if full.seen is None else lapses_in(full.seen.places, self._services.clock.now())
        delay = self._bounded(max(lapses, LEAST_IN_PLACE)) // 1000
        number = 0 if self._turn is None else self._turn.look
        self._release(self._note(full, delay)._replace(look=number))
        self._services.sender.postpone(self._arrival.envelope, delay)
        self._emitter.emit(EventType.IN_LINE, self._arrival, limit=full.limit.title, delay=delay)
        return kept(self._arrival, Verdict.CLAIMED, f"no place is free of the limit {full.limit.title}")

    def _again(self, turn: Turn, delay: int = 0) -> Send:
        return self._messages.again(turn, self._own_claim.item.epoch, delay)

    def _join(self, full: _Full) -> None:
        """Stand in line, unless the hop was late: it would be called at once."""
        if full.is_late:
            return
        with suppress(Exception):  # the look joins
            self._change(full.limit, full.key, lambda places, terms: joined(places, self._hop, terms), full.seen)

    def _release(self, note: BackOff | None, *, queued: bool = False) -> None:
        release(self._services, self._own_claim, note, queued_key(self._own_claim.item) if queued else "")

    def _note(self, full: _Full, delay: int) -> BackOff:
        """Return what the item says of the hop meanwhile. The number tells which look is the last."""
        now, pause = self._services.clock.now(), None if full.seen is None else full.seen.places.pause
        paused = "" if pause is None else f", whose key {'has paused itself' if pause.until else 'is paused'}"
        note = ErrorNote("Waiting", f"for a place of the limit {full.limit.title}{paused}", now)
        return BackOff(note, now + delay * 1000, self._own_claim.item.epoch)

    def _delay(self, full: _Full, *, can_be_called: bool) -> int:
        """Return after how many seconds the hop looks again. Looks are spread."""
        places = None if full.seen is None else full.seen.places
        ms = rest_before_look(places, self._hop, self._terms(full.limit, full.key), can_be_called=can_be_called)
        ms += round(max(ms, SHORTEST_LOOK) / 2 * self._services.draw.random())
        return -(-min(max(self._bounded(ms), SHORTEST_LOOK), LONGEST_LOOK) // 1000)

    def _bounded(self, ms: int) -> int:
        """Return a rest after which nobody takes the run for abandoned yet: it looks three times before that."""
        flow = self._arrival.flow
        return ms if flow.on_conflict is OnConflict.SUPERSEDE else min(ms, flow.abandoned_after // _MS // 3)

    # -- the key's item

    def _change(
        self,
        limit: PerKey,
        key: PlaceKey,
        decide: DecideBy,
        seen: Seen | None = None,
        *,
        short: Short | None = None,
        frees: bool = False,
    ) -> Changed:
        """Change the item of a key, and call whose turn has come."""
        changed = self._services.store.places.change(
            key,
            lambda places: decide(places, self._terms(limit, key)),
            self._services.ids.new(),
            seen,
            short=short,
            frees=frees,
        )
        self._messages.follow(key, changed.change)
        return changed

    def _terms(self, limit: PerKey, key: PlaceKey) -> Terms:
        return Terms(limit.most_of(key.place), self._services.clock.now(), longest_lease(self._arrival), limit.window)

    def _key(self, place: str) -> PlaceKey:
        return PlaceKey(self._arrival.flow.name, self._arrival.message.stage, place)

    @property
    def _limits(self) -> tuple[PerKey, ...]:
        stage = self._arrival.stage
        return () if stage is None else stage.limits

    @property
    def _own_claim(self) -> Claim:
        assert self._claim is not None  # noqa: S101 - a hop that was not claimed takes nothing
        return self._claim

"""Give back a place whose end says whether what a stage calls is away. Tell of keys that pause themselves.

It is loaded for limits that have ``pause_after``, and for the trial of a key that has paused itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from flowguard.errors import KeyUnavailable, OtherRelease, SettingsError, WorkerFenced
from flowguard.events import EventType
from flowguard.limit import PerKey
from flowguard.protocol.breaker import answered, failed
from flowguard.protocol.places import Change
from flowguard.worker.emitter import Emitter
from flowguard.worker.place_store import PlaceKey, Return, Seen
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival

_OUTSIDE: Final = (KeyUnavailable, OtherRelease, SettingsError, WorkerFenced)
"""What flowguard raises in a handler for reasons that lie outside of it, maybe before anything was called."""


def with_outcome(
    how: Return, limit: PerKey, seen: Seen | None, now: int, raised: Sequence[type[BaseException]], *, is_over: bool
) -> Return:
    """Return how to give back the place of a handler that was called, so that its key learns the handler's outcome.

    ``how`` gives the place back without an outcome, ``seen`` is the item after it was taken. ``raised`` has the classes
    of the handler's errors. ``is_over`` is False where something outside the stage has ended the attempt, which is no
    outcome of the handler.

    A write of the whole item pauses the key, and ends its pause. So one entry is changed only by a hop that does not
    try a paused key, and while fewer failures are noted than would pause it with this one.
    """
    place, rule = how.short, limit.pause_after
    assert place is not None  # noqa: S101 - each place has an entry
    name, owner, pause = place.token, place.holder.owner, None if seen is None else seen.places.pause
    tries = pause is not None and pause.trial == name
    if rule is not None and rule.counts(raised):
        noted = place._replace(failed_at=now, few=rule.failures - 1)
        made = rule.rule
        return Return(
            lambda places, terms: failed(places, name, owner, terms, made), noted if noted.few and not tries else None
        )
    if tries and is_over and not any(issubclass(kind, _OUTSIDE) for kind in raised):
        return Return(lambda places, terms: answered(places, name, owner, terms), None)
    return how


def tell(services: Services, emitter: Emitter, arrival: Arrival, key: PlaceKey, change: Change) -> None:
    """Tell that a key has paused itself, or that this is over. The row that others look at is a hint."""
    facts = {"limit": key.place.partition("#")[0], "key": key.place}
    if change.tripped is not None:
        emitter.emit(EventType.KEY_PAUSED, arrival, **facts, why=change.tripped.why, until=change.tripped.until)
        with suppress(Exception):  # who looks sees an earlier time, or nothing
            services.store.places.tell_pause(key, change.tripped, services.ids.new())
    if change.healed is not None:
        emitter.emit(EventType.KEY_RESUMED, arrival, **facts)
        with suppress(Exception):  # the row expires
            services.store.places.tell_end(key)

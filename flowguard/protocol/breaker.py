"""How a key pauses itself, and is tried again. Pure functions of its item, as those of its places.

::

    open ── so many failures within a time ──▶ paused until now + rest ── then one hop at a time ──▶ trial
      ▲                                             ▲                                                  │
      │                                             └── it fails by such an error: the same rest again ┤
      └──────────────── it ends in any other way: what failed answers ─────────────────────────────────┘

A failure is noted by the write that gives the place of its attempt back, so it counts once. A trial whose handler was
not called, or that died, says nothing: the next one is made.
"""

from __future__ import annotations

from flowguard.protocol.places import APART, Change, KeyPause, Places, Terms, given_back
from flowguard.startup.named_tuple import NamedTuple


class Rule(NamedTuple):
    """So many ``failures`` ``within`` a time pause the key for a ``rest``. Times are in ms. ``why`` says it."""

    failures: int
    within: int
    rest: int
    why: str


def failed(places: Places, name: str, owner: str, terms: Terms, rule: Rule) -> Change:
    """Free the place of an attempt that has failed, and note that. The last failure that is needed pauses the key.

    A trial that fails moves the end of the pause on. A key that is paused counts no other failures: they are of hops
    that began before it. A place that another owner has by now, or nobody, counts none.
    """
    if not _holds(places, name, owner):
        return given_back(places, name, owner, terms)
    pause, until = places.pause, terms.now + rule.rest
    if pause is None:
        places = noted(places, terms.now, rule)
    elif pause.trial == name:
        places = places._replace(pause=pause._replace(until=until, trial=""))
    change = given_back(places, name, owner, terms)
    return change._replace(tripped=None if places.pause == pause else places.pause)


def noted(places: Places, now: int, rule: Rule) -> Places:
    """Note a failure beside those that still count. Those that lie ahead are of a clock that was fast."""
    times = (*(at for at in places.failed if now - rule.within < at <= now + APART), now)
    if len(times) < rule.failures:
        return places._replace(failed=times)
    return places._replace(pause=KeyPause(now, rule.why, now + rule.rest), failed=())


def answered(places: Places, name: str, owner: str, terms: Terms) -> Change:
    """Free the place of an attempt that has ended in any other way. That of a trial ends the pause."""
    pause = places.pause
    if pause is None or pause.trial != name or not _holds(places, name, owner):
        return given_back(places, name, owner, terms)
    return given_back(places._replace(pause=None, failed=()), name, owner, terms)._replace(healed=pause)


def _holds(places: Places, name: str, owner: str) -> bool:
    holder = places.held.get(name)
    return holder is not None and holder.owner == owner

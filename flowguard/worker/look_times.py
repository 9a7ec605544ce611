"""When a hop that waits for a place looks again, so that whatever was to call it may fail."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard.protocol.places import GRACE, Hop, Places, Terms, before, is_own, lapses_in, openings
from flowguard.retry import LONGEST_SQS_DELAY

SHORTEST_LOOK: Final = 5_000
"""ms between two looks, at least."""

LONGEST_LOOK: Final = LONGEST_SQS_DELAY // timedelta(milliseconds=1)

UNCALLED_LOOK: Final = 10_000
"""ms until who cannot be called looks again, near the head of the line: before its turn is over, if that comes."""

MOST_LOOKERS: Final = 3
"""So many of the first in line look when a place may lapse. All look after half of what they have waited."""

FIRST_LOOK: Final = 10_000
"""ms after which a hop looks for the first time, where no place may lapse before that."""

SELDOM: Final = 600_000
"""ms between two looks, at most: all that was to call the hop may have failed."""


def rest_before_look(places: Places | None, hop: Hop, terms: Terms, *, can_be_called: bool) -> int:
    """Return after how many ms a hop looks, at the earliest. ``places`` is None where nobody knows them.

    Somebody of each line looks when a place may lapse. By time, and for the trial of a key that has paused itself, a
    hop is called for that moment, and looks later. Of a key that somebody has paused nobody hurries: when it is resumed
    nobody knows.
    """
    rest = min(max((terms.now - hop.arrival) // 2, FIRST_LOOK), SELDOM)
    place = MOST_LOOKERS if places is None else before(places, hop)
    is_own_pause = places is not None and is_own(places.pause)
    if can_be_called and (terms.window or is_own_pause):
        opens = [] if places is None else openings(places, terms)[place:]
        if opens or terms.window:
            return (opens[0] - terms.now if opens else max(rest, terms.window)) + GRACE
    if places is None or place >= MOST_LOOKERS or (places.pause is not None and not is_own_pause):
        return rest
    return min(rest, lapses_in(places, terms.now) if can_be_called else UNCALLED_LOOK)

"""The requests that wait: the same for the same seed, down to who answers them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from tests.proofs.soak.odds import Odds
from tests.proofs.soak.request import Asked, ending, trouble
from tests.proofs.soak.waits.flow import NAMES, Waits, Wanted

SILENT, FAILS = 0.15, 0.15
"""The shares of requests one of whose names nobody answers, and whose quote is an error."""


def waits(number: int, odds: Odds) -> dict[str, Wanted]:
    """By request id. What goes wrong in their stages goes wrong before they wait."""
    draw, ends = random.Random(f"{odds.seed} waits"), random.Random(f"{odds.seed} endings of waits")
    found = {}
    for place in range(number):
        before = trouble(draw, odds)
        failing = tuple(attempt for attempt in before.failing if attempt.startswith("1."))
        found[f"wait-{odds.seed}-{place:06d}{ending(ends, odds)}"] = Wanted(
            item=f"item-{draw.randrange(20)}",
            silent=(draw.choice(NAMES),) if draw.random() < SILENT else (),
            fails=draw.random() < FAILS,
            trouble=before.model_copy(update={"failing": failing, "reject_at": min(before.reject_at, 1)}),
        )
    return found


def sent(asked: Mapping[str, Wanted]) -> Iterator[Asked]:
    """Spread over the first part of the soak, so that their deadlines do not prolong it."""
    for place, (request_id, wanted) in enumerate(asked.items()):
        yield Asked(place / 2, Waits, request_id, wanted)

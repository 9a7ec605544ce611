"""The requests for pages: which page, in which order, which twice, and what goes wrong with them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.proofs.soak.odds import Odds
from tests.proofs.soak.pages.flow import Pages, Reset
from tests.proofs.soak.request import Asked, ending, trouble

EACH = 100
"""Requests of one page, on average. The most wanted page has several times that, and is hardly ever complete; the least
wanted is rebuilt in peace now and then. Each adds lines to its page's history, so there must not be too many."""
LEAST = 4
"""Pages that there are at least."""

OUT_OF_ORDER, LATE, TWICE = 0.3, 0.2, 0.05
"""The shares of requests that are sent after younger ones, that SQS is asked to delay, and that are sent twice."""


class PageRequest(NamedTuple):
    """``moment`` is in ms after the soak's first one. Two of a page's requests share each: then the first to come
    is carried out."""

    reset: Reset
    moment: int


def page_requests(number: int, odds: Odds) -> dict[str, PageRequest]:
    """By request id, from the oldest to the newest."""
    draw, ends = random.Random(f"{odds.seed} pages"), random.Random(f"{odds.seed} endings of pages")
    pages = [f"page-{rank}" for rank in range(max(LEAST, number // EACH))]
    wanted = [1 / math.sqrt(rank + 1) for rank in range(len(pages))]
    seen = Counter[str]()
    found = {}
    for place in range(number):
        [page] = draw.choices(pages, wanted)
        seen[page] += 1
        reset = Reset(page=page, revision=place + 1, trouble=trouble(draw, odds))
        found[f"reset-{odds.seed}-{draw.choice('abcdefgh')}{place:06d}{ending(ends, odds)}"] = PageRequest(
            reset, seen[page] // 2
        )
    return found


def sent(asked: Mapping[str, PageRequest], odds: Odds) -> Iterator[Asked]:
    """Some after younger ones, some late, some twice."""
    draw = random.Random(f"{odds.seed} sends")
    for place, (request_id, (reset, moment)) in enumerate(asked.items()):
        position = place + (draw.uniform(1, 60) if draw.random() < OUT_OF_ORDER else 0)
        delay = draw.randint(1, 3) if draw.random() < LATE else 0
        yield Asked(position, Pages, request_id, reset, moment, delay)
        if draw.random() < TWICE:
            yield Asked(position + draw.uniform(0, 60), Pages, request_id, reset, moment, draw.randint(0, 6))

"""A model of a standard queue and its consumers: who waits how long while one tenant has a backlog.

It knows of SQS what the rows ``sqs-fair-queues`` and ``sqs-fair-noisy-tenants`` say. A tenant is found out when the
queue looks, which it does from time to time: AWS does not say how often.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NOISY_FROM = 30
"""Messages in flight of a tenant that may be noisy."""

NOISY_SHARE = 10
"""Per cent of all messages in flight, above which it is."""


class Run(NamedTuple):
    """A run that is asked for at a time (ms). Its messages, one after the other, have these groups."""

    at: int
    groups: tuple[str | None, ...]


class Consumers(NamedTuple):
    """``most`` work at once, each for ``work`` ms. The queue looks for noisy tenants every ``look`` ms."""

    most: int
    work: int
    look: int


@dataclass
class FairQueue:
    """Messages by their groups, in order of arrival. Those without a group are nobody's, and never noisy together."""

    waiting: defaultdict[str | None, deque[tuple[int, int]]] = field(default_factory=lambda: defaultdict(deque))
    in_flight: Counter[str | None] = field(default_factory=Counter)
    noisy: set[str | None] = field(default_factory=set)

    def look(self) -> None:
        """Find out which tenants are noisy. One that is stays so while it has a backlog."""
        total = self.in_flight.total()
        found = {
            group
            for group, count in self.in_flight.items()
            if group is not None and count >= NOISY_FROM and count * 100 > total * NOISY_SHARE
        }
        self.noisy = {group for group in self.noisy | found if self.waiting[group]}

    def take(self) -> tuple[str | None, int] | None:
        """Take the oldest message of a quiet tenant, or else one of the noisy tenant that has the fewest in flight."""
        some = [group for group, messages in self.waiting.items() if messages]
        quiet = [group for group in some if group not in self.noisy]
        if not some:
            return None
        if quiet:
            group = min(quiet, key=lambda each: self.waiting[each][0])
        else:
            group = min(some, key=lambda each: self.in_flight[each])
        self.in_flight[group] += 1
        return group, self.waiting[group].popleft()[1]


def delays(runs: Sequence[Run], consumers: Consumers) -> list[int]:
    """Return for each run how long its messages waited in all (ms), beside the work on them."""
    queue, free, now, number = FairQueue(), consumers.most, 0, 0
    hops, waited = [0] * len(runs), [0] * len(runs)
    events = [(run.at, 0, place, place) for place, run in enumerate(runs)]
    heapq.heapify(events)
    sent = [run.at for run in runs]
    at_work: dict[int, str | None] = {}
    looked = 0
    while events:
        now, kind, _, place = heapq.heappop(events)
        while looked + consumers.look <= now:
            looked += consumers.look
            queue.look()
        if kind == 1:  # the work is done, and the next hop's message sent
            queue.in_flight[at_work.pop(place)] -= 1
            free += 1
            hops[place] += 1
        if kind == 0 or hops[place] < len(runs[place].groups):
            number += 1
            sent[place] = now
            queue.waiting[runs[place].groups[hops[place]]].append((number, place))
        while free and (taken := queue.take()) is not None:
            group, other = taken
            waited[other] += now - sent[other]
            at_work[other], free = group, free - 1
            heapq.heappush(events, (now + consumers.work, 1, other, other))
    return waited

"""The limits on the way of a message, each with AWS's own page, and how each grows while there is a backlog."""

from __future__ import annotations

from typing import NamedTuple

from flowguard.aws_facts.dynamodb_facts import DYNAMODB_FACTS

FIRST_POLLS, POLLS_A_MINUTE, MOST_POLLS = 5, 300, 1_250
"""Batches of a standard queue's mapping at once: at first, more in each minute, at most.

https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html (older texts of that page say 1,000)
"""

CONCURRENCY = 1_000
"""Invocations at once of an account in a region, unless it asked for more.

https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
"""

NEW_TABLE = next(fact.limit for fact in DYNAMODB_FACTS if fact.name == "dynamodb-on-demand-begin") or 0
"""Write units a second of a new on-demand table.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html
"""

ITEM = next(fact.limit for fact in DYNAMODB_FACTS if fact.name == "dynamodb-partition-throughput") or 0
"""Write units a second of a partition, and so of an item.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html
"""

POLLS = "polls of the mapping"

DOUBLES_AFTER = 1_800
"""Seconds after which an on-demand table takes twice its peak, by the same page."""

UNITS_A_STAGE = 2
"""Write units of a claim and a commit: docs/proofs/performance.md, ``WRUs a stage``."""


class Load(NamedTuple):
    """Messages a second into a flow of ``stages``, each of a function of its own.

    A record takes ``ms``, its calls included, and a batch has ``batch`` of them, one after the other. ``warm`` are the
    write units that the table takes from the start. ``objects`` share the messages evenly.
    """

    messages: int = 3_000
    stages: int = 1
    ms: int = 50
    batch: int = 10
    warm: int = NEW_TABLE
    concurrency: int = CONCURRENCY
    objects: int = 1_000_000

    def bounds(self, second: int, peak: int) -> dict[str, float]:
        """Return how many messages a second each limit lets through ``second`` seconds after the first one.

        ``peak`` are the write units that the table has taken half an hour before.
        """
        polls = min(FIRST_POLLS + POLLS_A_MINUTE * second // 60, MOST_POLLS)
        a_second = 1_000 / self.ms
        units = UNITS_A_STAGE * self.stages
        return {
            POLLS: polls * a_second,
            "concurrency of the account": self.concurrency / self.stages * a_second,
            "write units of the table": max(self.warm, 2 * peak) / units,
            "write units of an item": ITEM * self.objects / units,
        }


class Course(NamedTuple):
    """What came of a load. Times in seconds; ``drained`` is None where the backlog is still there after a day.

    ``first`` is what bounds it first, beside the mapping's own beginning.
    """

    first: str
    since: int
    largest: int
    oldest: int
    drained: int | None

    def line(self, name: str) -> str:
        gone = "never" if self.drained is None else f"{self.drained:,} s"
        return f"{name:44}{self.first:28}{self.largest:>12,}{self.oldest:>10,} s{gone:>12}"


DAY = 86_400


def course(load: Load) -> Course:
    """Let the load come for a day, second by second, and return what bounds it first."""
    backlog, largest, oldest, since, peak = 0.0, 0.0, 0.0, -1, 0
    first, drained = "nothing", None
    done: list[int] = []
    for second in range(DAY):
        if second >= DOUBLES_AFTER:
            peak = max(peak, done[second - DOUBLES_AFTER])
        bounds = load.bounds(second, peak)
        least = min(bounds, key=lambda name: bounds[name])
        worked = min(backlog + load.messages, bounds[least])
        done.append(round(worked * UNITS_A_STAGE * load.stages))
        backlog += load.messages - worked
        if backlog > largest:
            largest, oldest = backlog, backlog / bounds[least]
            if since < 0 or (first == POLLS and least != POLLS):  # a mapping begins with five batches in any case
                first, since = least, second
        if largest and backlog <= 0:
            drained = second
            break
    return Course(first, since, round(largest), round(oldest), drained)

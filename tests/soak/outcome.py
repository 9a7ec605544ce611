"""What a soak left behind: the tables and queues, read once, and the workers' journal."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowguard.aws.items import read_item
from flowguard.run import RunItem
from tests.soak.flow import ACCOUNTS, DEAD, EFFECTS, EMAILS, TOLD, Order
from tests.soak.ground import Ground, id_of
from tests.soak.journal import Line

Hop = tuple[str, int]
"""A request and one of its hops."""


@dataclass(frozen=True)
class Outcome:
    """``letters``, ``told`` and ``emails`` are the ids of the messages that lie there, copies included."""

    orders: Mapping[str, Order]
    runs: Mapping[str, RunItem]
    effects: Mapping[str, dict[str, Any]]
    accounts: Mapping[str, dict[str, Any]]
    letters: Sequence[str]
    told: Sequence[str]
    emails: Sequence[str]
    journal: Sequence[Line]
    seconds: float

    @classmethod
    def read(cls, ground: Ground, orders: Mapping[str, Order], journal: Sequence[Line], seconds: float) -> Outcome:
        runs = [read_item(item) for item in ground.scan("flowguard")]
        letters, told, emails = ([id_of(message) for message in ground.take(queue)] for queue in (DEAD, TOLD, EMAILS))
        return cls(
            orders,
            {run.request_id: run for run in runs},
            ground.rows(EFFECTS),
            ground.rows(ACCOUNTS),
            letters,
            told,
            emails,
            journal,
            seconds,
        )

    def lines(self, what: str) -> list[Line]:
        return [line for line in self.journal if line["what"] == what]

    def by_sqs(self) -> set[str]:
        """The requests that the function of SQS's own dead-letter queue has ended."""
        return {line["request_id"] for line in self.lines("failed") if line["worker"] == "given-up"}

    def attempts(self) -> Counter[tuple[Hop, int]]:
        """How often each attempt was begun by a stage's worker."""
        return Counter(
            ((line["request_id"], line["hop"]), line["attempt"])
            for line in self.lines("claimed")
            if line["worker"] != "given-up"
        )

    def deaths(self) -> Counter[Hop]:
        """How often each hop was in the hands of a worker that was killed."""
        killed, held = set[str](), defaultdict[str, list[Hop]](list)
        batches: dict[str, str] = {}
        for line in self.journal:
            if line["what"] == "received":
                batches[line["worker"]] = line["batch"]
                held[line["batch"]].append((line["request_id"], json.loads(line["place"])["hop"]))
            elif line["what"] == "killed":
                killed.add(batches[line["worker"]])
        return Counter(hop for batch in killed for hop in held[batch])

    def waits(self) -> list[tuple[int, int]]:
        """Of each retried message that was received for the first time: its number, and the ms since it was sent."""
        first = [line for line in self.lines("received") if line["receives"] == 1]
        placed = [(json.loads(line["place"]).get("retry", 0), line["waited"]) for line in first]
        return [(retry, waited) for retry, waited in placed if retry]

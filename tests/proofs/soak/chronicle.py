"""The journal of a soak, told once through and boiled down to what the sums and figures ask of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from flowguard.protocol.run import FencedBy
from tests.proofs.soak.journal import Line

GIVEN_UP_WORKER = "dlq"
"""The worker of SQS's own dead-letter queue."""

Hop = tuple[str, int]
"""A request and one of its hops."""


@dataclass
class Chronicle:
    """``attempts`` counts how often each was begun by a stage's worker. ``held`` counts how often each hop was in the
    hands of a worker that was killed or stalled, ``faults`` how often a call about a request was refused, or its
    answer lost.
    """

    what: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    faults_by: Counter[str] = field(default_factory=Counter)
    attempts: Counter[tuple[Hop, int]] = field(default_factory=Counter)
    held: Counter[Hop] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    committed: set[Hop] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    """Requests that were told that another has their object."""
    fenced_by: Counter[str] = field(default_factory=Counter)
    retries: list[tuple[str, int, int]] = field(default_factory=list)
    """Request, attempt that failed, and the seconds that its retry was asked to wait."""
    waits: list[tuple[str, int, int]] = field(default_factory=list)
    """Of each retried message at its first receive: its request, its number, the ms since it was sent."""
    resumed: Counter[str] = field(default_factory=Counter)
    timed_out: Counter[str] = field(default_factory=Counter)
    """How often each run's wait was ended by an answer, and by its deadline, as workers said it."""
    answered: Counter[str] = field(default_factory=Counter)
    """Answers by their verdicts."""
    cpu: dict[str, float] = field(default_factory=dict)
    """Seconds that each process had used when it began its last batch."""
    _batches: dict[str, str] = field(default_factory=dict)
    _hops: dict[str, list[Hop]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Chronicle:
        found = cls()
        for line in lines:
            found._tell(line)
        return found

    def disturbed(self, request: str, hop: int) -> int:
        """How often something went wrong with it on its way here, each of which may have left a copy behind: a record
        that comes again once its hop is done has the next hop's message sent again, too."""
        return self.faults[request] + sum(self.held[request, before] for before in range(1, hop + 1))

    def _tell(self, line: Line) -> None:
        self.what[line["what"]] += 1
        match line["what"]:
            case "received":
                self._received(line)
            case "killed":
                self.points[line["point"]] += 1
                self.held.update(set(self._hops[line.get("of") or line["worker"]]))
            case "stalled":
                self.held.update(set(self._hops[line["worker"]]))
            case "fault":
                self.faults_by[f"{line['how']} {line['operation']}"] += 1
                self.faults.update(line["requests"])
            case "not_sent" if "request_id" in line:  # a letter that nobody believes is parked for no run
                self.faults[line["request_id"]] += 1
            case _:
                self._happened(line)

    def _happened(self, line: Line) -> None:
        """One of flowguard's own events."""
        match line["what"]:
            case "claimed" if line["worker"] != GIVEN_UP_WORKER:
                self.attempts[(line["request_id"], line["hop"]), line["attempt"]] += 1
            case "committed" | "completed":
                self.committed.add((line["request_id"], line["hop"]))
            case "stale" | "superseded":
                self.passed.add(line["request_id"])
            case "fenced":
                self.fenced_by[line["by"]] += 1
                if line["by"] == FencedBy.NEWER_RUN:
                    self.passed.add(line["request_id"])
            case "answered":
                self.answered[line["verdict"]] += 1
                self.resumed[line.get("request_id", "")] += line["verdict"] == "RESUMED"
            case "timed_out":
                self.timed_out[line["request_id"]] += 1
            case "retried":
                self.retries.append((line["request_id"], line["attempt"], line["delay"]))
            case _:
                pass

    def _received(self, line: Line) -> None:
        place = json.loads(line["place"])
        if self._batches.get(line["worker"]) != line["batch"]:
            self._batches[line["worker"]] = line["batch"]
            self._hops[line["worker"]] = []
        self._hops[line["worker"]].append((line["request_id"], place["hop"]))
        self.cpu[line["batch"].partition(".")[0]] = line["cpu"]
        if line["receives"] == 1 and place.get("retry"):
            self.waits.append((line["request_id"], place["retry"], line["waited"]))

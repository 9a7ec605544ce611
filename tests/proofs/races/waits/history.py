"""The history of each wait, put together from what DynamoDB answered: how it began, what was tried, what ended it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flowguard.verdicts import AnswerVerdict
from tests.proofs.races.history import Grant, History
from tests.proofs.races.waits.flow import direct_id
from tests.proofs.soak.journal import Line

UNKNOWN = AnswerVerdict.UNKNOWN
"""There was no row, and no call."""

VERDICTS = frozenset(one.value for one in AnswerVerdict)


class WaitKey(NamedTuple):
    object: str
    request_id: str
    hop: int


class Told(NamedTuple):
    """An answer's verdict as its worker logged it, with the last call that was made for it."""

    verdict: str
    call: Line


@dataclass(frozen=True)
class BegunWait:
    """A wait that was committed. ``answers`` and ``deadlines`` are the updates that were applied to it.

    ``next`` is the claim that follows in the item, of the run's next hop or of another request.
    """

    key: WaitKey
    answers: Sequence[Line]
    deadlines: Sequence[Line]
    next: Grant | None

    def __str__(self) -> str:
        return f"{self.key.request_id} hop {self.key.hop}"

    @property
    def ends(self) -> list[str]:
        """How it ended: once, or it does not hold what it promises."""
        ended = [end for line in self.answers if (end := end_by(line)) is not None]
        return [*ended, *("timed out" for _ in self.deadlines)]

    @property
    def made_way(self) -> bool:
        return self.next is not None and self.next.request_id != self.key.request_id

    @property
    def got(self) -> dict[str, str]:
        """The texts of the answers that count, by name."""
        return {line["name"]: line["text"] for line in self.answers if not is_failure(line)}


@dataclass(frozen=True)
class WaitHistory:
    """``tried`` are all calls about a wait's end, applied or not, by the wait that they are for."""

    waits: Mapping[WaitKey, BegunWait]
    tried: Mapping[WaitKey, Sequence[Line]]
    told: Sequence[Told]

    @classmethod
    def read(cls, history: History) -> WaitHistory:
        tried = defaultdict[WaitKey, list[Line]](list)
        for line in history.journal:
            if line["what"] in ("answer", "deadline"):
                tried[key_of(line)].append(line)
        waits = {wait.key: wait for wait in _waits(history, tried)}
        return cls(waits, tried, list(_told(history.journal)))

    def calls(self, what: str) -> list[Line]:
        return [line for lines in self.tried.values() for line in lines if line["what"] == what]


def _waits(history: History, tried: Mapping[WaitKey, Sequence[Line]]) -> Iterator[BegunWait]:
    for key, grants in history.grants.items():
        for grant, following in zip(grants, [*grants[1:], None], strict=True):
            if any(commit["status"] == "WAITING" for commit in grant.commits):
                found = WaitKey(key, grant.request_id, grant.hop)
                applied = [line for line in tried.get(found, ()) if line["yes"]]
                yield BegunWait(
                    found,
                    [line for line in applied if line["what"] == "answer"],
                    [line for line in applied if line["what"] == "deadline"],
                    following,
                )


def _told(journal: Iterable[Line]) -> Iterator[Told]:
    """A worker has its verdict from its last call for this name. It logs it, or has it from ``FlowClient.answer``.

    Of an answer that is logged and returned, the log counts. That an early answer takes another's place is no verdict
    on a wait, and names no run. One that was only looked at is no call that changes a wait.
    """
    last: dict[tuple[str, str, str], Line] = {}
    logged: set[int] = set()
    for line in journal:
        if line["what"] == "answer":
            last[line["worker"], line["request_id"], line["name"]] = line
        elif line["what"] == "answered" and line["verdict"] != UNKNOWN and not {"replaces", "looked"} & line.keys():
            call = last[line["worker"], line["request_id"], line["name"]]
            logged.add(id(call))
            yield Told(line["verdict"], call)
        elif line["what"] == "sender" and line["verdict"] in VERDICTS and line["verdict"] != UNKNOWN:
            call = last[line["worker"], line["id"].removeprefix(direct_id("")), "direct"]
            if id(call) not in logged:
                yield Told(line["verdict"], call)


def key_of(line: Line) -> WaitKey:
    return WaitKey(line["object"], line["request_id"], int(line["hop"]))


def is_failure(line: Line) -> bool:
    """Whether the answer counts against its wait."""
    return "one" in line


def end_by(line: Line) -> str | None:
    """How an answer that was applied has ended its wait; None where the wait went on."""
    found: Any = line["old"]["wait"]
    left, spare = len(found["waiting"]) - 1, found["spare"] - is_failure(line)
    if spare < 0:
        return "failed"
    return "answered" if left <= spare else None


def is_over(found: Any) -> bool:
    """Whether a wait was over when a call found it so."""
    return bool(found["timed_out"]) or found["spare"] < 0 or len(found["waiting"]) <= found["spare"]

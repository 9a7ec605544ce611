"""The sums of a soak: every line that must hold, with what was expected and what was found. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flowguard.run import ENDED, Status
from tests.soak.flow import POLICY
from tests.soak.orders import HOPS, ends_at
from tests.soak.outcome import Outcome


@dataclass(frozen=True)
class Check:
    """``strays`` names a few of those that break it."""

    name: str
    expected: int
    found: int
    strays: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.expected == self.found and not self.strays


def reconcile(outcome: Outcome) -> list[Check]:
    return [*_runs(outcome), *_messages(outcome), *_effects(outcome), *_attempts(outcome)]


def _runs(outcome: Outcome) -> Iterator[Check]:
    doomed = {request for request, order in outcome.orders.items() if ends_at(order) is not None} | outcome.by_sqs()
    ended = {request for request, run in outcome.runs.items() if run.status in ENDED and run.done}
    failed = _failed(outcome)
    yield _same("accepted = completed + dead-lettered", set(outcome.orders), ended)
    yield _same("failed are those rejected, out of attempts, or given up by SQS", doomed, failed)


def _messages(outcome: Outcome) -> Iterator[Check]:
    yield _same("each failed request has its dead letter", _failed(outcome), set(outcome.letters))
    told = {f"{request}.{run.hop}.0" for request, run in outcome.runs.items()}
    yield _same("whoever waits is told of each request", told, set(outcome.told))
    charged = {f"{request}.1.0" for request, run in outcome.runs.items() if 1 in _passed(run)}
    yield _same("each committed stage's own message was sent", charged, set(outcome.emails))


def _effects(outcome: Outcome) -> Iterator[Check]:
    expected = {f"{request}.{hop}" for request, run in outcome.runs.items() for hop in _passed(run)}
    applied = {name: int(row["applied"]) for name, row in outcome.effects.items() if "applied" in row}
    yield _same("each committed stage has its effect, no other has", expected, set(applied))
    yield Check(
        "each effect is applied once",
        len(expected),
        sum(applied.values()),
        tuple(name for name, times in applied.items() if times != 1)[:5],
    )
    for hop, what in zip(HOPS, ("charged", "shipped"), strict=True):
        due = sum(outcome.orders[request].amount for request, run in outcome.runs.items() if hop in _passed(run))
        yield Check(f"the accounts' sums: {what}", due, sum(int(row.get(what, 0)) for row in outcome.accounts.values()))


def _attempts(outcome: Outcome) -> Iterator[Check]:
    attempts, deaths = outcome.attempts(), outcome.deaths()
    late = [f"{hop} {attempt}" for hop, attempt in attempts if attempt > POLICY.attempts]
    yield Check("no attempt beyond the policy's", 0, len(late), tuple(late[:5]))
    again = [f"{hop} {attempt}" for (hop, attempt), times in attempts.items() if times > 1 + deaths[hop]]
    yield Check("no attempt begun twice but after a death", 0, len(again), tuple(again[:5]))
    retried = outcome.lines("retried")
    wrong = [
        str(line) for line in retried if not shortest(line["attempt"]) <= line["delay"] <= longest(line["attempt"])
    ]
    yield Check("no retry asked for outside the policy", 0, len(wrong), tuple(wrong[:5]))
    early = [f"{retry}: {waited} ms" for retry, waited in outcome.waits() if waited < shortest(retry) * 1000]
    yield Check("no retry came early", 0, len(early), tuple(early[:5]))


def shortest(retry: int) -> int:
    return round(POLICY.backoff.seconds(retry) * (1 - POLICY.jitter))


def longest(retry: int) -> int:
    return round(POLICY.backoff.seconds(retry))


def figures(outcome: Outcome) -> dict[str, object]:
    """What a reader wants to know beside the checks."""
    failed, attempts = _failed(outcome), outcome.attempts()
    rejected = {request for request in failed if outcome.orders[request].reject_at == outcome.runs[request].hop}
    asked = [line["delay"] for line in outcome.lines("retried")]
    killed = Counter(line["point"] for line in outcome.lines("killed"))
    return {
        "accepted": len(outcome.orders),
        "completed": len(outcome.runs) - len(failed),
        "dead-lettered": len(failed),
        "  of these given up by SQS": len(outcome.by_sqs()),
        "  of these rejected": len(rejected - outcome.by_sqs()),
        "copies of dead letters": _copies(outcome.letters),
        "copies of Complete messages": _copies(outcome.told),
        "copies of the stages' messages": _copies(outcome.emails),
        "effects": sum("applied" in row for row in outcome.effects.values()),
        "attempts": sum(attempts.values()),
        "  of these again after a death": sum(times - 1 for times in attempts.values()),
        "the most attempts of a hop": max(attempt for _, attempt in attempts),
        "retries": len(asked),
        "  their delays": f"{min(asked, default=0)} to {max(asked, default=0)} s",
        "workers killed": killed.total(),
        **{f"  {point}": times for point, times in sorted(killed.items())},
        "deliveries": len(outcome.lines("received")),
        **{f"  told {what}": len(outcome.lines(what)) for what in ("busy", "done", "duplicate", "fenced")},
        "seconds": round(outcome.seconds, 1),
    }


def _copies(ids: Sequence[str]) -> int:
    return len(ids) - len(set(ids))


def _failed(outcome: Outcome) -> set[str]:
    return {request for request, run in outcome.runs.items() if run.status is Status.FAILED}


def _passed(run: Any) -> range:
    """The hops that were committed by their stage."""
    return range(1, run.hop + (run.status is Status.COMPLETED))


def _same(name: str, expected: set[str], found: set[str]) -> Check:
    return Check(name, len(expected), len(found), tuple(sorted(expected ^ found)[:5]))

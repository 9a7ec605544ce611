"""What the processes race through here: a run that waits for others in one of four ways, and the flow that it asks.

The stage after the wait writes what it got, in the transaction of its commit.
"""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard.callback import Callback
from flowguard.errors import Reject, Retry
from flowguard.flow import PER_REQUEST, Flow
from flowguard.outcome import Done, Outcome
from flowguard.retry import Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step

EFFECTS: Final = "race-effects"
INBOX, CHILDREN, ANSWERS, ASKED, ANSWERED, EVENTS, CALLED, DIRECT = (
    *("waits", "children", "answers", "asked", "answered", "events", "called", "direct"),
)
LEASE: Final = 150
"""In ticks of the shared clock."""

WITHIN: Final = 1_000
"""Ticks from a commit to its deadline: the shortest wait that flowguard allows."""

FAIL, REJECT, CHILD_FAILS = 0.08, 0.04, 0.15

_POLICY = RetryPolicy(attempts=3, backoff=Fixed(0), max_delay=timedelta(0))
_LEASE = timedelta(milliseconds=LEASE)
_WITHIN = timedelta(milliseconds=WITHIN)


class Asked(BaseModel):
    id: str
    kind: int


class Answers(BaseModel):
    inside: str | None = None
    outside: str | None = None
    direct: str | None = None
    event: str | None = None


WAYS: Final = (("inside", "outside"), ("outside", "direct"), ("event", "outside"), ("inside", "outside", "direct"))
"""The names that each kind of request waits for: both, either, both, two of three."""

FROM_OUTSIDE: Final = frozenset({"outside", "direct", "event"})
"""The names that have a row."""


class Wait(Stage[Asked], name="wait", then=("resumed", "late", "sorry"), inbox=INBOX, retry=_POLICY, timeout=_LEASE):
    def handle(self, asked: Asked, step: Step) -> Outcome:
        _trouble()
        names = WAYS[asked.kind]
        ends: dict[str, Any] = {"within": _WITHIN, "on_timeout": Late, "on_error": Sorry}
        awaited: dict[str, Any] = {name: _awaited(name, asked, step) for name in names}
        match asked.kind:
            case 1:
                return Resumed.when_any(**awaited, **ends)
            case 3:
                return Resumed.when(**awaited, **ends, quorum=2)
            case _:
                return Resumed.when_all(**awaited, **ends)


def _awaited(name: str, asked: Asked, step: Step) -> Any:
    match name:
        case "inside":
            return step.ask(Child, asked)
        case "outside":
            return step.ask(ASKED, {"ref": step.answer_id("outside"), "until": _until(step)})
        case "direct":
            step.send(CALLED, {"id": direct_id(step.request_id), "until": _until(step)})
            return step.event(direct_id(step.request_id))
        case _:
            return step.event(f"event/{step.request_id}", keep_early=True)


def _until(step: Step) -> int:
    """About the time of the deadline, for parties that answer in the last moment."""
    return round(step.now().timestamp() * 1_000) + WITHIN


def direct_id(request: str) -> str:
    return f"direct/{request}"


def _trouble() -> None:
    luck = random.random()
    if luck < FAIL:
        raise Retry("an attempt that fails")
    if luck < FAIL + REJECT:
        raise Reject("a request that can never work")


class _Goes(Stage[Answers], abstract=True, retry=_POLICY, timeout=_LEASE, inbox=INBOX):
    """The work of the stages after a wait."""

    def work(self, got: dict[str, Any], step: Step) -> Outcome:
        step.update(
            EFFECTS,
            {"id": f"{step.request_id}.{step.hop}"},
            "ADD applied :one SET went_on = :stage, got = :got",
            values={":one": 1, ":stage": self.name, ":got": json.dumps(got, sort_keys=True)},
        )
        _trouble()
        return Done({"hop": step.hop})


class Resumed(_Goes, name="resumed"):
    def handle(self, answers: Answers, step: Step) -> Outcome:
        return self.work(answers.model_dump(exclude_none=True), step)


class Late(_Goes, name="late"):
    def handle(self, answers: Answers, step: Step) -> Outcome:
        return self.work(answers.model_dump(exclude_none=True), step)


class Sorry(_Goes, name="sorry"):
    def handle(self, answers: Answers, step: Step) -> Outcome:
        return self.work(answers.model_dump(exclude_none=True), step)


class Waits(
    Flow,
    name="waits",
    object_id="id",
    answers=ANSWERS,
    complete_to="told",
    callbacks=(
        Callback(ANSWERED, id="ref", answer="value", failed="error"),
        Callback(EVENTS, id="of", prefix="event/", answer="value", keep_early=timedelta(hours=1)),
    ),
    trust_senders=True,
):
    """The newest request takes over, also from one that waits."""

    stages = (Wait, Resumed, Late, Sorry)


class Answer(Stage[Asked], name="answer", inbox=CHILDREN, retry=_POLICY, timeout=_LEASE):
    def handle(self, asked: Asked, step: Step) -> Outcome:
        if random.random() < CHILD_FAILS:
            raise Reject("an ask that can never be answered")
        return Done(f"{step.request_id} attempt {step.attempt}")


class Child(Flow, name="child", object_id=PER_REQUEST, trust_senders=True):
    """Each ask is a run of its own."""

    stages = (Answer,)

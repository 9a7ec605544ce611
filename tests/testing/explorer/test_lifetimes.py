"""A run that waits for longer than items live otherwise: whoever attaches meanwhile is told its end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import ATTACH, Done, Flow, Outcome, Stage, Step
from flowguard.aws import caller_lists
from flowguard.destinations import Queue
from flowguard.ids import RequestId
from flowguard.protocol import callers
from flowguard.sim.world import START
from flowguard.testing import replay, sqs_event
from flowguard.worker.lifetimes import Lifetimes

Patch = pytest.MonkeyPatch


class Wanted(BaseModel):
    page: str = "tea"


class Decided(BaseModel):
    decision: str = "nobody decided"


class Collect(Stage[Wanted], name="collect", then="ask", inbox="to-collect"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return Ask.message(wanted)


class Ask(Stage[Wanted], name="ask", then="close", inbox="to-ask"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return Close.when_all(
            decision=step.event(f"decided/{wanted.page}"), within=timedelta(days=60), on_timeout=Close
        )


class Close(Stage[Decided], name="close", inbox="to-close"):
    def handle(self, decided: Decided, step: Step) -> Outcome:
        return Done({"decision": decided.decision})


class Shared(Flow, name="shared", object_id="page", on_conflict=ATTACH, long_delays=True, answers="shared-answers"):
    stages = (Collect, Ask, Close)


def asked(number: int) -> Any:
    message, _ = Shared.request(
        Wanted(), request_id=RequestId(f"r-{number}"), requested_at=START - 9 + number, reply_to=Queue("replies")
    )
    return sqs_event("to-collect", Wanted(), attributes=message.attributes(), message_id=f"m-{number}")


def found(schedule: str = "none", number: int = 4) -> set[str]:
    trace = replay(Shared, [asked(one) for one in range(number)], schedule)
    return {problem.rule for violation in trace.violations for problem in violation.problems}


def held_at_most(number: int, patch: Patch) -> None:
    """A run item holds so many callers, so that few of them are more than it holds."""
    for module in (callers, caller_lists):
        patch.setattr(module, "MOST_HELD", number)


@pytest.mark.slow("replays a flow four times")
@pytest.mark.parametrize("most_held", [0, 1, 2, 16])
def test_whoever_attaches_before_a_long_wait_is_told_its_end(most_held: int, monkeypatch: Patch) -> None:
    held_at_most(most_held, monkeypatch)
    assert found() == set()


def test_rows_that_live_no_longer_than_an_item_leave_callers_without_an_answer(monkeypatch: Patch) -> None:
    held_at_most(1, monkeypatch)
    monkeypatch.setattr(Lifetimes, "of_caller", Lifetimes.of_run)
    assert "I16" in found()

"""The time line of deliveries that changed nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowClock, FlowRunner
from flowguard.testing.story import story


class Ask(Stage[dict[str, Any]], name="ask", then="go-on"):
    def handle(self, order: dict[str, Any], step: Step) -> Outcome:
        return GoOn.when_all(paid=step.event("paid"), within=timedelta(minutes=10))


class GoOn(Stage[dict[str, Any]], name="go-on"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Payments(Flow, name="payments", object_id="order"):
    stages = (Ask, GoOn)


def test_a_record_that_changes_nothing_says_whether_it_comes_again() -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.send(Payments, {"order": "o1"})
        runner.step()
        runner.answer(Payments, "paid", {})
        late = runner.run().deliveries[-1]
        assert "nothing was left to do" in runner.timeline()
    [line] = story([replace(late, acked=False)], late.at)
    assert line.endswith(": stays in its queue")

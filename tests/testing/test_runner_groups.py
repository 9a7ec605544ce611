"""A test of a group of hundreds: it comes to rest, and what it prints fits a screen."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, GroupEnd, Outcome, Stage, Step
from flowguard.testing import FlowRunner

CLAIMS = 350


class Night(BaseModel):
    day: str
    claims: int


class Claim(BaseModel):
    claim_id: str


class Price(Stage[Claim], name="price", then="check"):
    def handle(self, claim: Claim, step: Step) -> Outcome:
        return Check.message(claim)


class Check(Stage[Claim], name="check"):
    def handle(self, claim: Claim, step: Step) -> Outcome:
        return Done()


class Repricing(Flow, name="repricing", object_id="claim_id"):
    stages = (Price, Check)


class AskAll(Stage[Night], name="ask-all", then="sum-up"):
    def handle(self, night: Night, step: Step) -> Outcome:
        asked = ((f"c{number}", Claim(claim_id=f"c{number}")) for number in range(night.claims))
        return SumUp.when_group(step.group(Repricing, asked), within=timedelta(hours=6))


class SumUp(Stage[GroupEnd], name="sum-up"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        return Done(end.requests)


class Nightly(Flow, name="nightly", object_id="day"):
    stages = (AskAll, SumUp)


@pytest.mark.proof("runs a group of hundreds")
def test_a_group_of_hundreds_comes_to_rest_and_its_report_fits_a_screen(flow_runner: FlowRunner) -> None:
    flow_runner.serve(Repricing).send(Nightly, Night(day="monday", claims=CLAIMS))
    result = flow_runner.run()
    assert result.run("monday").result == CLAIMS
    assert len(result.deliveries) > 3 * CLAIMS
    told = str(result).splitlines()
    assert len(told) < 80
    assert any("more deliveries …" in line for line in told)
    assert told[-1] == "  … 331 more runs"

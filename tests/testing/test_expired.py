"""What has expired in the run table is gone, and the time line says so."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing import FlowClock, FlowRunner


class Claim(BaseModel):
    claim_id: str
    amount: int


class Paid(BaseModel):
    amount: int = 0


class PayClaim(Stage[Claim, Paid], name="pay-claim"):
    def handle(self, claim: Claim, step: Step[Paid]) -> Outcome:
        step.state = Paid(amount=claim.amount)
        return Done(0 if step.superseded is None else step.superseded.amount)


class Claims(Flow, name="claims", object_id="claim_id"):
    stages = (PayClaim,)


class Remembered(Flow, name="remembered", object_id="claim_id", remember=timedelta(days=365)):
    stages = (PayClaim,)


@pytest.mark.parametrize(
    ("flow", "days", "before", "lines"),
    [
        (Claims, 27, 7, 0),
        (Claims, 31, 0, 1),
        (Remembered, 31, 7, 0),
        (Remembered, 400, 0, 1),
    ],
)
def test_a_second_version_after_weeks_finds_what_its_flow_remembers(
    flow: type[Flow], days: int, before: int, lines: int, flow_runner: FlowRunner, flow_clock: FlowClock
) -> None:
    flow_runner.send(flow, Claim(claim_id="c1", amount=7))
    flow_runner.run()
    flow_clock.advance(days=days)
    flow_runner.send(flow, Claim(claim_id="c1", amount=9))
    result = flow_runner.run()
    assert result.run("c1").result == before
    said = [line for line in str(result).splitlines() if f"run#{flow.name}#c1 had expired, and is gone" in line]
    assert len(said) == lines

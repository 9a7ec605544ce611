"""A failing test of a group: what pytest prints of a hundred runs fits a few screens."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)

REQUESTS = 120

NIGHT = f"""
from datetime import timedelta

from pydantic import BaseModel

from flowguard import Done, Flow, GroupEnd, Outcome, Stage, Step


class Night(BaseModel):
    day: str


class Claim(BaseModel):
    claim_id: str


class Price(Stage[Claim], name="price"):
    def handle(self, claim: Claim, step: Step) -> Outcome:
        step.send("mails", {{"claim_id": claim.claim_id}})
        return Done()


class Repricing(Flow, name="repricing", object_id="claim_id"):
    stages = (Price,)


class AskAll(Stage[Night], name="ask-all", then="sum-up"):
    def handle(self, night: Night, step: Step) -> Outcome:
        asked = ((f"c{{number}}", Claim(claim_id=f"c{{number}}")) for number in range({REQUESTS}))
        return SumUp.when_group(step.group(Repricing, asked), within=timedelta(hours=6))


class SumUp(Stage[GroupEnd], name="sum-up"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        return Done(end.requests)


class Nightly(Flow, name="nightly", object_id="day"):
    stages = (AskAll, SumUp)


def ended(flow_runner):
    flow_runner.serve(Repricing).send(Nightly, Night(day="monday"))
    return flow_runner.run()


def test_of_the_result(flow_runner):
    result = ended(flow_runner)
    assert result.run("monday").status == "FAILED"


def test_of_the_mails(flow_runner):
    result = ended(flow_runner)
    assert result.sent("mails") == []
"""


@pytest.mark.proof("runs a group of a hundred twice")
def test_a_failing_test_of_a_group_prints_a_few_screens(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", "BUILD_NUMBER"):  # where they are set pytest prints the whole of what is compared
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(test_night=NIGHT)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-Werror")
    result.assert_outcomes(failed=2)
    printed = result.stdout.str().splitlines()
    assert len(printed) < 250
    assert max(map(len, printed)) < 2_000

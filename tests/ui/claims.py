"""A flow whose drawing is dense: stages are left out, skipped and led back to, and each is undone by one of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from flowguard.failed import Failure
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.stage import Stage
from flowguard.step import Step


class Claim(BaseModel):
    claim_id: str


class CheckClaim(Stage[Claim], name="check-claim", then=("ask-adjuster", "pay")):
    def handle(self, claim: Claim, step: Step) -> Outcome:
        return AskAdjuster.message(claim)


class AskAdjuster(Stage[Claim], name="ask-adjuster", then=("decide", "escalate")):
    def handle(self, claim: Claim, step: Step) -> Outcome:
        fraud, damage = step.event(f"fraud/{claim.claim_id}"), step.event(f"damage/{claim.claim_id}")
        return Decide.when_all(fraud=fraud, damage=damage, within=timedelta(hours=48), on_timeout="escalate")


class Escalate(Stage[dict[str, Any]], name="escalate", then=("ask-adjuster", "decide")):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Decide.message({})


class Decide(Stage[dict[str, Any]], name="decide", then=("pay", "decline")):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Pay.message(Claim(claim_id=step.object_id))


class Pay(Stage[Claim], name="pay"):
    def handle(self, claim: Claim, step: Step) -> Outcome:
        return Done()


class Decline(Stage[Claim], name="decline"):
    def handle(self, claim: Claim, step: Step) -> Outcome:
        return Done()


class TakeBack(Stage[Failure], name="take-back"):
    def handle(self, failure: Failure, step: Step) -> Outcome:
        return Done()


class Claims(Flow, name="claims", object_id="claim_id", on_failed=TakeBack, trust_senders=True):
    stages = (CheckClaim, AskAdjuster, Escalate, Decide, Pay, Decline, TakeBack)

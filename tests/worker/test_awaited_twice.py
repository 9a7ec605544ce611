"""A token that two hops of one run await, one after the other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import AnswerVerdict, Done, Flow, Outcome, Stage, Step
from flowguard.events import EventType
from flowguard.outcome import AwaitedToken
from flowguard.testing import FlowRunner


class Order(BaseModel):
    order_id: str


class Decision(BaseModel):
    answer: str


class Kept(BaseModel):
    token: str = ""
    row_id: str = ""


class Decided(BaseModel):
    decision: Decision


class Once(Stage[Order, Kept], name="once", then=("decided", "once-more")):
    def handle(self, order: Order, step: Step[Kept]) -> Outcome:
        token = step.token("decision")
        step.state = Kept(token=token.text, row_id=token.row_id)
        return DecidedStage.when_all(decision=token, within=timedelta(days=1), on_timeout="once-more")


class OnceMore(Stage[dict[str, Any], Kept], name="once-more", then="decided"):
    def handle(self, nothing: dict[str, Any], step: Step[Kept]) -> Outcome:
        again = AwaitedToken(step.state.token, step.state.row_id)
        return DecidedStage.when_all(decision=again, within=timedelta(days=2))


class DecidedStage(Stage[Decided, Kept], name="decided"):
    def handle(self, answers: Decided, step: Step[Kept]) -> Outcome:
        return Done(answers)


class AskedTwice(Flow, name="asked-twice", object_id="order_id", trust_senders=True):
    stages = (Once, OnceMore, DecidedStage)


@pytest.mark.parametrize(("deliveries", "verdict"), [(0, "EXPIRED"), (1, "RESUMED")])
def test_a_token_can_be_awaited_again_but_between_the_two_waits_its_answer_is_expired(
    deliveries: int, verdict: str, flow_runner: FlowRunner
) -> None:
    flow_runner.send(AskedTwice, Order(order_id="o1"))
    token = flow_runner.run(within=timedelta(hours=23, minutes=59)).run("o1").state["token"]
    while EventType.TIMED_OUT not in flow_runner.step().deliveries[0].events:
        pass
    for _ in range(deliveries):
        assert flow_runner.step().run("o1").stage == "once-more"
    assert flow_runner.answer(AskedTwice, token, {"answer": "yes"}) is AnswerVerdict(verdict)

"""Answers that come when a wait is over, and its run has not gone on yet: each message of the run is sent once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, GroupEnd, Next, Outcome, Stage, Step
from flowguard.outcome import WaitFor, WaitForGroup
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS


class Asked(BaseModel):
    """A request, and what it is for."""

    id: str


class Answers(Stage[Asked], name="answers"):
    def handle(self, payload: Asked, step: Step[Any]) -> Outcome:
        return Done(1)


class First(Flow, name="first", object_id="id"):
    stages = (Answers,)


class AnswersToo(Stage[Asked], name="answers-too"):
    def handle(self, payload: Asked, step: Step[Any]) -> Outcome:
        return Done(2)


class Second(Flow, name="second", object_id="id"):
    stages = (AnswersToo,)


class Tells(Stage[dict[str, Any]], name="tells", then="ends"):
    def handle(self, payload: dict[str, Any], step: Step[Any]) -> Next:
        step.send("mails", {"decided": step.object_id})
        return Ends.message({})


class Ends(Stage[dict[str, Any]], name="ends"):
    def handle(self, payload: dict[str, Any], step: Step[Any]) -> Outcome:
        step.send("mails", {"ended": step.object_id})
        return Done()


class Asks(Stage[Asked], name="asks", then="tells"):
    def handle(self, payload: Asked, step: Step[Any]) -> WaitFor:
        asked: Any = {"x": step.ask(First, payload), "y": step.ask(Second, payload)}
        if payload.id == "any":
            return Tells.when_any(**asked, within=timedelta(hours=48))
        return Tells.when(quorum=1, **asked, within=timedelta(hours=48))


class Waits(Flow, name="waits", object_id="id"):
    stages = (Asks, Tells, Ends)


@pytest.mark.parametrize("how", ["any", "quorum"])
def test_the_answer_after_the_one_that_ends_a_wait_sends_nothing(how: str) -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.serve(Waits, First, Second)
        runner.send(Waits, Asked(id=how))
        result = runner.run()
    assert [message.body for message in result.sent("mails")] == [{"decided": how}, {"ended": how}]
    assert result.copies() == []


class AddsUp(Stage[GroupEnd], name="adds-up", then="ends"):
    def handle(self, payload: GroupEnd, step: Step[Any]) -> Next:
        step.send("mails", {"decided": step.object_id})
        return Ends.message({})


class AsksMany(Stage[Asked], name="asks-many", then="adds-up"):
    def handle(self, payload: Asked, step: Step[Any]) -> WaitForGroup:
        def requests() -> Iterator[tuple[str, Asked]]:
            yield from ((f"n{number}", Asked(id=f"n{number}")) for number in range(6))

        return AddsUp.when_group(step.group(First, requests()), within=timedelta(hours=48), quorum=0.5)


class Groups(Flow, name="groups", object_id="id"):
    stages = (AsksMany, AddsUp, Ends)


def test_the_answers_after_the_quorum_of_a_group_send_nothing() -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.serve(Groups, First)
        runner.send(Groups, Asked(id="night"))
        result = runner.run()
    assert [message.body for message in result.sent("mails")] == [{"decided": "night"}, {"ended": "night"}]
    assert result.copies() == []


class AsksToo(Stage[Asked], name="asks-too", then="adds-up"):
    def handle(self, payload: Asked, step: Step[Any]) -> WaitForGroup:
        requests = ((f"n{number}", Asked(id=f"n{number}")) for number in range(6))
        return AddsUp.when_group(step.group(First, requests, cancel_too=True), within=timedelta(hours=48))


class CancelledGroups(Flow, name="cancelled-groups", object_id="id"):
    stages = (AsksToo, AddsUp, Ends)


def test_a_group_that_is_cancelled_while_its_answers_come_is_cancelled_once() -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.serve(CancelledGroups, First)
        runner.send(CancelledGroups, Asked(id="night"))
        while len(runner.step().sent("first")) == 0:
            pass
        for _ in range(6):
            runner.step()
        assert runner.cancel(CancelledGroups, "night", why="ordered by mistake")
        result = runner.run()
    assert str(result.run("night", "cancelled-groups").error) == "Cancelled: ordered by mistake"
    again = [message for message in result.messages if message.to == "first"]
    assert len(again) == 6, "each request once more, as cancelled"

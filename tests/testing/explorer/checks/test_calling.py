"""Requests that meet another's run are answered with its end: the explorer notices one that is not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import ATTACH, Done, Flow, Outcome, Stage, Step
from flowguard.destinations import Queue
from flowguard.names.ids import RequestId
from flowguard.sim.world import START
from flowguard.testing import explore, replay, sqs_event
from flowguard.testing.explorer.checks.equivalence import End
from flowguard.worker.caller_answers import CallerAnswers


class PageWanted(BaseModel):
    page: str = "tea"


class Render(Stage[PageWanted], name="render", inbox="to-render"):
    def handle(self, wanted: PageWanted, step: Step) -> Outcome:
        return Done({"html": wanted.page})


class Collect(Stage[PageWanted], name="collect", then="render", inbox="to-collect"):
    def handle(self, wanted: PageWanted, step: Step) -> Outcome:
        return Render.message(wanted)


class SharedPages(Flow, name="shared-pages", object_id="page", on_conflict=ATTACH):
    stages = (Collect, Render)


def asked(number: int) -> Any:
    message, _ = SharedPages.request(
        PageWanted(), request_id=RequestId(f"r-{number}"), requested_at=START - 9 + number, reply_to=Queue("replies")
    )
    return sqs_event("to-collect", PageWanted(), attributes=message.attributes(), message_id=f"m-{number}")


def found() -> set[str]:
    report = explore(SharedPages, [asked(1), asked(2)], bound=0, walks=0, most=1)
    return {problem.rule for violation in report.violations for problem in violation.problems}


@pytest.mark.proof("each single fault of two callers")
def test_a_request_that_attaches_is_settled() -> None:
    assert not found() & {"I6", "I7", "I16"}


def test_a_caller_that_nobody_answers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CallerAnswers, "replies", lambda *arguments: ())
    assert "I16" in found()


@pytest.mark.parametrize(
    "schedule",
    ["d2.d7-1.r1", "d7.d10-1.r1", "x2-2"],
    ids=["the caller has the failed end", "the last hop is redriven", "a copy comes when all is over"],
)
def test_a_caller_keeps_the_end_that_it_was_given_whatever_becomes_of_its_run(schedule: str) -> None:
    trace = replay(SharedPages, [asked(1), asked(2)], schedule)
    assert trace.ok, str(trace)


OWN = ("sqs:replies", "r-1.1.end")


@pytest.mark.parametrize(
    ("found", "should", "final", "repeated", "allowed"),
    [
        ("failed", "completed", True, False, True),
        ("failed", "completed", False, False, False),
        ("completed | newer", "completed", False, True, True),
        ("completed | newer", "completed", False, False, False),
        ("newer", "completed", False, True, False),
        ("completed", None, False, True, False),
    ],
)
def test_another_end_is_allowed_where_a_caller_has_one_and_beside_the_right_one(
    found: str, should: str | None, final: bool, repeated: bool, allowed: bool
) -> None:
    end = End(
        {}, {OWN: found}, {}, frozenset(), "", frozenset({OWN} if final else ()), frozenset({OWN} if repeated else ())
    )
    assert end.allows(OWN, should) is allowed

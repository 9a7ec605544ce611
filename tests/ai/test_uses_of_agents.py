"""The permissions of a stage that lets an agent remember its calls are those of what it records beside them."""

from __future__ import annotations

import types
from typing import Any

from pydantic_ai import Agent

from flowguard import Done, Outcome, Stage, Step
from flowguard.ai import RememberedCalls
from flowguard.deploy.used import Uses
from flowguard.deploy.uses import uses_of
from tests.ai.agents import Question

AGENT: Agent[None, str] = Agent()


def test_remembered_calls_hide_nothing_and_need_nothing() -> None:
    def handle(self: Any, question: Question, step: Step) -> Outcome:
        kept = RememberedCalls(step, "kept")
        AGENT.run_sync("x", capabilities=[RememberedCalls(step=step, name="draft"), kept])
        step.put("answers", question)
        return Done()

    used = uses_of(
        types.new_class("Own", (Stage[Question],), {"name": "own"}, lambda names: names.update(handle=handle))
    )
    assert used == Uses(tables={"answers": frozenset({"PutItem"})}, ends=True)

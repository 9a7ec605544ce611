"""The explorer sees a model that is called twice as an effect that is done twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.ai import RememberedCalls
from flowguard.testing import explore, replay
from tests.ai.agents import Question

MODEL = "model.example"


async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask a party outside for each answer, as the SDK of a provider does."""
    headers = (info.model_settings or {}).get("extra_headers", {})
    async with httpx2.AsyncClient() as client:
        asked = {"messages": len(messages)}
        (await client.post(f"https://{MODEL}/answers", json=asked, headers=headers)).raise_for_status()
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("look", {"word": "tea"})])
    return ModelResponse(parts=[TextPart("done")])


AGENT = Agent(FunctionModel(answer))


@AGENT.tool_plain
def look(word: str) -> str:
    return word


def bare(step: Step) -> Any:
    return AGENT.run_sync("x").output


def remembered(step: Step) -> Any:
    return AGENT.run_sync("x", capabilities=[RememberedCalls(step, "draft", key_header="Idempotency-Key")]).output


def remembered_without_keys(step: Step) -> Any:
    return AGENT.run_sync("x", capabilities=[RememberedCalls(step, "draft")]).output


def flow(ask: Callable[[Step], Any]) -> type[Flow]:
    class AskModel(Stage[Question], name="ask-model", retry=RetryPolicy(attempts=3, backoff=Fixed(1))):
        def handle(self, question: Question, step: Step) -> Outcome:
            made = ask(step)
            step.put("answers", {"id": question.id, "text": made})
            return Done()

    class Asked(Flow, name="asked", object_id="id"):
        stages = (AskModel,)

    return Asked


PARTY = {MODEL: {"text": "done"}}


@pytest.mark.slow("explores an agent")
@pytest.mark.parametrize(
    ("ask", "schedule", "expected"),
    [
        (bare, "d3", False),
        (bare, "none", True),
        (remembered, "d3", True),
        (remembered, "a2", True),
        (remembered_without_keys, "a2", False),
        (remembered_without_keys, "d4", True),
    ],
)
def test_one_death_at_an_agent(ask: Callable[[Step], Any], schedule: str, expected: bool) -> None:
    """Call 2 is the first request; 3 and 4 note its answer and the tool's, where they are noted."""
    trace = replay(flow(ask), [Question(id="q-1")], schedule, tables={"answers": "id"}, outside=PARTY)
    assert trace.ok is expected, str(trace)


def explored(ask: Callable[[Step], Any]) -> Any:
    return explore(flow(ask), [Question(id="q-1")], bound=0, walks=0, tables={"answers": "id"}, outside=PARTY)


@pytest.mark.long("the deaths that show it are tried one by one above")
def test_an_agent_without_a_memory_asks_twice() -> None:
    report = explored(bare)
    assert not report.ok
    assert {problem.where for one in report.violations for problem in one.problems} == {f"outside:{MODEL}"}


@pytest.mark.proof("explores an agent")
def test_a_remembered_agent_asks_once_where_its_provider_knows_keys() -> None:
    report = explored(remembered)
    assert report.ok, str(report)


@pytest.mark.long("the deaths that show it are tried one by one above")
def test_without_keys_only_a_death_between_an_answer_and_its_note_asks_twice() -> None:
    report = explored(remembered_without_keys)
    struck = {one.struck[0].partition(" at ")[0] for one in report.violations}
    assert struck == {f"call 2, POST {MODEL}"}

"""Agents under ``RememberedCalls`` in whole runs: what is asked again, and what comes from the memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolReturn,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelHTTPError,
    RetryModelRequest,
    ToolFailed,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import BinaryImage, ModelMessagesTypeAdapter, TextPart, ToolCallPart
from pydantic_ai.models import Model as AnyModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import UsageLimits

from flowguard import Step
from flowguard.ai import RememberedCalls
from flowguard.errors import AskedOtherwise, OtherRelease, Retry, RunFailed, TooLarge
from tests.ai.agents import SECRET, WORLD, Looking, Model, calls, fails_until, logged, run
from tests.aws.engines import kept


def asks(agent: Any, step: Step, name: str = "draft", prompt: str = SECRET, **about: Any) -> Any:
    return agent.run_sync(prompt, capabilities=[RememberedCalls(step, name)], **about)


# -- what is asked once -----------------------------------------------------------------------------------------------


def test_a_later_attempt_asks_nothing_again_and_counts_each_token_once() -> None:
    looking, seen = Looking(calls("a", "b"), "done"), []

    def handle(step: Step) -> str:
        made = asks(looking.agent, step)
        seen.append((made.output, made.usage))
        fails_until(3, step)
        return str(made.output)

    assert run(handle).run("q-1").result == "done"
    assert (looking.model.asked, sorted(looking.looked)) == ([1, 2], ["a", "b"]), "tools may end in either order"
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]
    assert (seen[0][1].requests, seen[0][1].tool_calls) == (2, 2)
    assert seen[0][1].total_tokens > 0


def test_an_attempt_asks_only_for_what_is_missing() -> None:
    def look(word: str) -> str:
        if looking.looked == ["a", "b"]:
            raise ConnectionError("away")
        return word

    looking = Looking(calls("a", "b"), "done", look=look, sequential=True)
    assert run(lambda step: asks(looking.agent, step).output).run("q-1").status == "COMPLETED"
    assert (looking.model.asked, looking.looked) == ([1, 2], ["a", "b", "b"])


def test_a_place_does_not_depend_on_which_of_two_tools_ends_first() -> None:
    agent, looked, seen = Agent(Model(calls("a", "b"), "done")), list[str](), []

    def handle(step: Step) -> None:
        messages = asks(agent, step, deps=asyncio.Event()).all_messages()
        seen.append([part.content for part in messages[2].parts])
        fails_until(2, step)

    @agent.tool
    async def look(ctx: RunContext[Any], word: str) -> str:
        if word == "a":
            await ctx.deps.wait()
        ctx.deps.set()
        looked.append(word)
        return word

    run(handle)
    assert seen == [["a", "b"]] * 2
    assert looked == ["b", "a"]


def test_a_request_that_failed_is_made_again() -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("away")
        return "done"

    looking = Looking(calls("a"), flaky)
    assert run(lambda step: asks(looking.agent, step).output).run("q-1").result == "done"
    assert (looking.model.asked, looking.looked) == ([1, 2, 2], ["a"])


@pytest.mark.parametrize(("raised", "outcome"), [(ModelRetry, "retried"), (ToolFailed, "failed")])
def test_what_a_tool_tells_the_model_by_an_exception_is_remembered(
    raised: Callable[[str], Exception], outcome: str
) -> None:
    def look(word: str) -> str:
        raise raised("no such word")

    looking, seen = Looking(calls("a"), "done", look=look), []

    def handle(step: Step) -> None:
        made = asks(looking.agent, step)
        [part] = made.all_messages()[2].parts
        seen.append((part.outcome, "no such word" in str(part.content)))
        fails_until(2, step)

    run(handle)
    assert seen == [(outcome, True)] * 2
    assert (looking.model.asked, looking.looked) == ([1, 2], ["a"])


class Tea(BaseModel):
    name: str


PICTURE = BinaryImage(b"\x89PNG", media_type="image/png")


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (None, None),
        ([1, "b", None], [1, "b", None]),
        (Tea(name="green"), {"name": "green"}),
        (PICTURE, PICTURE),
        ({"picture": PICTURE}, {"picture": PICTURE}),
        ({"kind": "tool-return", "return_value": 1}, {"kind": "tool-return", "return_value": 1}),
    ],
)
def test_what_a_tool_returns_is_the_same_in_each_attempt(returned: object, expected: object) -> None:
    looking, seen = Looking(calls("a"), "done", look=lambda word: returned), []

    def handle(step: Step) -> None:
        messages = asks(looking.agent, step).all_messages()
        seen.append(messages[2].parts[0].content)
        fails_until(2, step)

    run(handle)
    assert seen == [expected, expected]
    assert looking.looked == ["a"]


def test_a_tool_return_keeps_its_content_and_metadata() -> None:
    whole = ToolReturn("there", content=["look:", PICTURE], metadata={"page": 3})
    looking, seen = Looking(calls("a"), "done", look=lambda word: whole), []

    def handle(step: Step) -> None:
        tool, user = asks(looking.agent, step).all_messages()[2].parts
        seen.append((tool.content, tool.metadata, user.content))
        fails_until(2, step)

    run(handle)
    assert seen == [("there", {"page": 3}, ["look:", PICTURE])] * 2


def test_an_async_stage_awaits_its_agent() -> None:
    from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage
    from flowguard.testing import FlowClock, FlowRunner, MemoryAWS
    from tests.ai.agents import Question

    looking = Looking(calls("a"), "done")

    class AskLater(Stage[Question], name="ask-later", retry=RetryPolicy(attempts=2, backoff=Fixed(1))):
        async def handle(self, question: Question, step: Step) -> Outcome:
            made = await looking.agent.run("x", capabilities=[RememberedCalls(step, "draft")])
            fails_until(2, step)
            return Done(made.output)

    class Later(Flow, name="later", object_id="id"):
        stages = (AskLater,)

    with FlowClock() as clock, MemoryAWS(clock) as aws, kept(), FlowRunner(aws, clock) as runner:
        runner.send(Later, Question(id="q-1"))
        assert runner.run().run("q-1").result == "done"
    assert (looking.model.asked, looking.looked) == ([1, 2], ["a"])


def test_two_agents_of_a_handler_have_memories_of_their_own() -> None:
    first, second = Looking(calls("a"), "one"), Looking(calls("a"), "two")

    def handle(step: Step) -> list[str]:
        made = [asks(first.agent, step, "first").output, asks(second.agent, step, "second").output]
        fails_until(2, step)
        return made

    assert run(handle).run("q-1").result == ["one", "two"]
    assert first.looked == second.looked == ["a"]


@pytest.mark.parametrize("shared", [True, False])
def test_a_second_run_under_a_name_is_refused(shared: bool) -> None:
    looking = Looking("done")

    def handle(step: Step) -> None:
        remembered = RememberedCalls(step, "draft")
        looking.agent.run_sync("x", capabilities=[remembered])
        looking.agent.run_sync("y", capabilities=[remembered if shared else RememberedCalls(step, "draft")])

    assert "'draft.1'; give each a name of its own" in str(run(handle).run("q-1").error)
    assert looking.model.asked == [1]


def test_a_fallback_to_another_model_keeps_its_place() -> None:
    broken = Model(lambda: (_ for _ in ()).throw(ConnectionError("away")))
    looking, tried = Looking("done"), []

    class Falls(AbstractCapability[Any]):
        async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> Any:
            tried.append(1)
            raise RetryModelRequest(model=looking.model)

    def handle(step: Step) -> str:
        made = looking.agent.run_sync("x", model=broken, capabilities=[Falls(), RememberedCalls(step, "draft")])
        fails_until(2, step)
        return str(made.output)

    assert run(handle).run("q-1").result == "done"
    assert (len(broken.asked), len(looking.model.asked), len(tried)) == (1, 1, 1)


def test_what_other_capabilities_ask_for_is_remembered_too() -> None:
    made: list[int] = []

    class Counted(WrapperModel):
        async def request(self, *given: Any) -> Any:
            made.append(1)
            return await super().request(*given)

    class Counts(AbstractCapability[Any]):
        def get_wrapper_model(self, model: AnyModel) -> AnyModel:
            return Counted(model)

    looking = Looking("done")

    def handle(step: Step) -> None:
        looking.agent.run_sync("x", capabilities=[Counts(), RememberedCalls(step, "draft")])
        fails_until(2, step)

    run(handle)
    assert made == [1]


def test_a_tool_that_a_person_approves_is_called_once_in_the_later_run() -> None:
    looked: list[str] = []
    agent: Agent[None, Any] = Agent(Model(calls("a", "b"), "done"), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def look(word: str) -> str:
        looked.append(word)
        return word

    def handle(step: Step) -> str:
        first = asks(agent, step, "first")
        history = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
        approved = DeferredToolResults(approvals={call.tool_call_id: True for call in first.output.approvals})
        remembered = RememberedCalls(step, "second")
        made = agent.run_sync(message_history=history, deferred_tool_results=approved, capabilities=[remembered])
        fails_until(2, step)
        return str(made.output)

    assert run(handle).run("q-1").result == "done"
    assert sorted(looked) == ["a", "b"], "each has a thread of its own"


def test_a_tool_that_a_person_approves_has_its_place_where_another_of_its_answer_was_called_before() -> None:
    looked: list[str] = []
    asked_for = [ToolCallPart("look", {"word": "a"}), ToolCallPart("burn", {"word": "b"})]
    agent: Agent[None, Any] = Agent(Model(asked_for, "done"), output_type=[str, DeferredToolRequests])

    def note(word: str) -> None:
        looked.append(word)

    agent.tool_plain(name="look")(note)
    agent.tool_plain(name="burn", requires_approval=True)(note)

    def handle(step: Step) -> str:
        first = asks(agent, step, "first")
        assert first.all_messages()[-1].kind == "request", "with the result of the tool that nobody approves"
        approved = DeferredToolResults(approvals={call.tool_call_id: True for call in first.output.approvals})
        remembered = RememberedCalls(step, "second")
        history = first.all_messages()
        made = agent.run_sync(message_history=history, deferred_tool_results=approved, capabilities=[remembered])
        fails_until(2, step)
        return str(made.output)

    assert run(handle).run("q-1").result == "done"
    assert looked == ["a", "b"]


def test_text_beside_tool_calls_takes_no_place() -> None:
    looking = Looking([TextPart("Let me look."), *calls("a")], "done")

    def handle(step: Step) -> str:
        made = asks(looking.agent, step)
        fails_until(2, step)
        return str(made.output)

    assert run(handle).run("q-1").result == "done"
    assert looking.looked == ["a"]


class Compacting(Model):
    """A model that makes its history shorter by a request."""

    compacted = 0

    async def compact_messages(self, request_context: Any, *, instructions: str | None = None) -> Any:
        type(self).compacted += 1
        return self._answer(request_context.messages, None)  # type: ignore[arg-type]  # it only notes it


class Compacts(AbstractCapability[Any]):
    def __init__(self, instructions: Callable[[], str | None] = lambda: None) -> None:
        self._instructions = instructions

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        wrapped = ctx.root_capability.get_wrapper_model(request_context.model)
        await wrapped.compact_messages(request_context, instructions=self._instructions())
        return request_context


def test_a_compaction_is_remembered_like_a_request() -> None:
    model = Compacting("short")
    agent, seen = Agent(model), []

    def handle(step: Step) -> None:
        compacts = Compacts(lambda: f"by attempt {step.attempt}" if step.attempt > 2 else None)
        seen.append(agent.run_sync("x", capabilities=[RememberedCalls(step, "draft"), compacts]).output)
        fails_until(4, step)

    run(handle)
    assert seen == ["short"] * 2
    assert model.asked == [1, 1], "a compaction and a request"
    assert str(WORLD.raised[-1]).startswith("'draft.1' is asked something else")


# -- what is asked otherwise ------------------------------------------------------------------------------------------


class Other(BaseModel):
    name: str


def described(text: str) -> Looking:
    looking = Looking(calls("a"), "done")
    looking.agent._function_toolset.tools["look"].description = text
    return looking


CHANGES: dict[str, Callable[[], tuple[Looking, str]]] = {
    "prompt": lambda: (Looking(calls("a"), "done"), "something else"),
    "instructions": lambda: (Looking(calls("a"), "done", instructions="be brief"), SECRET),
    "system prompt": lambda: (Looking(calls("a"), "done", system_prompt="be brief"), SECRET),
    "tool": lambda: (described("Look twice."), SECRET),
    "output": lambda: (Looking(calls("a"), "done", output_type=[str, Other]), SECRET),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_question_is_no_question_for_the_answer_that_is_there(change: str) -> None:
    before, (after, prompt) = Looking(calls("a"), "done"), CHANGES[change]()

    def handle(step: Step) -> None:
        if step.attempt == 1:
            asks(before.agent, step)
            fails_until(2, step)
        asks(after.agent, step, prompt=prompt)

    result = run(handle)
    assert result.run("q-1").status == "RUNNING", "a release that asks so may be there again"
    error = WORLD.raised[-1]
    assert isinstance(error, OtherRelease)
    assert isinstance(error, AskedOtherwise)
    assert error.call == "draft.1"
    assert (after.model.asked, after.looked) == ([], [])


def test_another_name_asks_anew() -> None:
    looking = Looking("done")

    def handle(step: Step) -> None:
        asks(looking.agent, step, f"draft-{step.attempt}", prompt=f"attempt {step.attempt}")
        fails_until(2, step)

    assert run(handle).run("q-1").status == "COMPLETED"
    assert looking.model.asked == [1, 1]


def test_another_model_and_other_settings_ask_nothing_again() -> None:
    first, second = Looking(calls("a"), "done"), Model("never")

    def handle(step: Step) -> str:
        model, settings = (None, None) if step.attempt == 1 else (second, {"temperature": 1.0})
        made = asks(first.agent, step, model=model, model_settings=settings)
        fails_until(2, step)
        return str(made.output)

    assert run(handle).run("q-1").result == "done"
    assert second.asked == []


def nothing() -> None:
    """Do nothing."""


def test_the_order_of_tools_is_no_part_of_a_question() -> None:
    def handle(step: Step) -> None:
        agent: Agent[None, str] = Agent(model)
        for name in ("a", "b") if step.attempt == 1 else ("b", "a"):
            agent.tool_plain(name=name)(nothing)
        asks(agent, step)
        fails_until(2, step)

    model = Model("done")
    assert run(handle).run("q-1").status == "COMPLETED"
    assert model.asked == [1]


def test_a_tool_that_gets_other_arguments_is_asked_something_else() -> None:
    looking = Looking(calls("a"), "done")

    class Changes(AbstractCapability[Any]):
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            return {"word": f"of attempt {ctx.deps}"}

    def handle(step: Step) -> None:
        remembered = RememberedCalls(step, "draft")
        looking.agent.run_sync("x", deps=step.attempt, capabilities=[remembered, Changes()])  # type: ignore[call-overload]  # a test's
        fails_until(2, step)

    run(handle)
    assert str(WORLD.raised[-1]).startswith("'draft.1.1' is asked something else")
    assert looking.looked == ["of attempt 1"]


# -- errors -----------------------------------------------------------------------------------------------------------


def failing(error: Exception) -> Model:
    def throw() -> str:
        raise error

    return Model(throw)


@pytest.mark.parametrize(("asked_for", "waits"), [(7.0, 7), (86_400.0, 900), (-3.0, 0)])
def test_a_provider_that_says_when_is_asked_again_then(asked_for: float, waits: int) -> None:
    model = failing(ModelHTTPError(429, "large", {"prompt": SECRET}, retry_after=asked_for))
    run(lambda step: asks(Agent(model), step))
    error = WORLD.raised[0]
    assert isinstance(error, Retry)
    assert error.after is not None
    assert error.after.total_seconds() == waits
    assert str(error) == "ModelHTTPError of the model large, status 429"
    assert len(model.asked) == 4, "as often as the policy says"


def test_another_error_of_a_provider_keeps_its_type_and_says_nothing_of_the_prompt() -> None:
    body = {"error": {"message": SECRET}}
    model = failing(
        ModelHTTPError(400, "large", body, provider_error_code="bad", provider_error_type="invalid_request")
    )
    result = run(lambda step: asks(Agent(model), step))
    error = WORLD.raised[0]
    assert isinstance(error, ModelHTTPError)
    assert error.body == body
    assert str(error) == "ModelHTTPError of the model large, status 400, code bad, type invalid_request"
    assert (len(model.asked), result.run("q-1").status) == (4, "FAILED")
    assert SECRET not in str(result.run("q-1").error)


def test_an_error_without_a_status_names_its_model() -> None:
    run(lambda step: asks(Agent(failing(ModelAPIError("large", SECRET))), step))
    assert str(WORLD.raised[0]) == "ModelAPIError of the model large"


def test_a_limit_of_usage_ends_the_run_at_once() -> None:
    looking = Looking(calls("a"), "done")
    result = run(lambda step: asks(looking.agent, step, usage_limits=UsageLimits(request_limit=1)))
    assert isinstance(WORLD.raised[0], RunFailed)
    assert WORLD.raised[0].__cause__ is None
    assert "UsageLimitExceeded: The next request would exceed the request_limit of 1; " in str(WORLD.raised[0])
    assert (len(WORLD.raised), result.run("q-1").status, looking.model.asked) == (1, "FAILED", [1])


def test_an_output_that_stays_invalid_ends_the_run_at_once_and_is_not_shown() -> None:
    model = Model([ToolCallPart("final_result", {"name": SECRET, "count": SECRET})])

    class Count(BaseModel):
        count: int

    result = run(lambda step: asks(Agent(model, output_type=Count), step))
    assert (len(WORLD.raised), result.run("q-1").status) == (1, "FAILED")
    assert "the agent of 'draft' fails for good: UnexpectedModelBehavior: " in str(WORLD.raised[0])
    assert SECRET not in str(result.run("q-1").error)


def test_what_a_model_raises_itself_is_tried_again() -> None:
    model = failing(UnexpectedModelBehavior("an empty answer"))
    run(lambda step: asks(Agent(model), step))
    assert len(model.asked) == 4


def test_a_stream_is_refused() -> None:
    async def listen(ctx: Any, events: Any) -> None: ...

    looking = Looking("done")
    result = run(lambda step: asks(looking.agent, step, event_stream_handler=listen))
    assert "a stream of a model is not remembered" in str(result.run("q-1").error)
    assert (len(WORLD.raised), looking.model.asked) == (1, [])


@pytest.mark.parametrize("name", ["", "a\n", "n" * 129, None])
def test_a_name_that_names_nothing_is_refused(name: Any) -> None:
    result = run(lambda step: RememberedCalls(step, name))
    assert "names nothing to remember" in str(result.run("q-1").error)


def test_what_is_no_step_is_refused() -> None:
    with pytest.raises(RunFailed, match=r"RememberedCalls\(step, name\) has 'draft' for its step"):
        RememberedCalls("draft", "step")  # type: ignore[arg-type]  # they are exchanged


def test_a_tool_that_no_answer_calls_has_no_place() -> None:
    looking = Looking("done")

    class Calls(AbstractCapability[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            tools = ctx.root_capability.get_wrapper_toolset(looking.agent._function_toolset)
            await tools.call_tool("look", {"word": "a"}, ctx, None)

    result = run(lambda step: looking.agent.run_sync("x", capabilities=[RememberedCalls(step, "draft"), Calls()]))
    assert "is called by no answer of the model" in str(result.run("q-1").error)
    assert looking.looked == []


# -- sizes, headers and logs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [17, pytest.param(101, marks=pytest.mark.proof("makes two hundred requests"))])
def test_a_long_conversation_is_remembered_whole(most: int) -> None:
    looking = Looking(*[calls(f"{place}") for place in range(most - 1)], "done")

    def handle(step: Step) -> None:
        asks(looking.agent, step, usage_limits=UsageLimits(request_limit=None))
        fails_until(2, step)

    assert run(handle).run("q-1").status == "COMPLETED"
    assert (len(looking.model.asked), len(looking.looked)) == (most, most - 1)


def test_a_prompt_of_a_megabyte_takes_no_room() -> None:
    looking = Looking("done")
    assert run(lambda step: asks(looking.agent, step, prompt="x" * 1_000_000).output).run("q-1").result == "done"


def test_an_answer_that_has_no_room_ends_the_run_by_name() -> None:
    looking = Looking(calls("a"), "done", look=lambda word: random.Random(7).randbytes(500_000).hex())
    result = run(lambda step: asks(looking.agent, step))
    assert isinstance(WORLD.raised[0], TooLarge)
    assert WORLD.raised[0].what == "what 'draft.1.1' is to remember"
    assert (result.run("q-1").status, len(WORLD.raised), looking.looked) == ("FAILED", 1, ["a"])


def test_each_request_has_an_idempotency_key_that_is_the_same_in_each_attempt() -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("away")
        return "done"

    looking = Looking(calls("a"), flaky, model_settings={"extra_headers": {"x-team": "tea"}, "temperature": 0.5})

    def handle(step: Step) -> None:
        looking.agent.run_sync("x", capabilities=[RememberedCalls(step, "draft", key_header="Idempotency-Key")])

    run(handle)
    settings: list[Any] = [info.model_settings for info in looking.model.infos]
    keys = [one["extra_headers"]["Idempotency-Key"] for one in settings]
    assert (len(keys), len(set(keys)), len(set(keys[1:]))) == (4, 2, 1)
    assert all(one["extra_headers"]["x-team"] == "tea" and one["temperature"] == 0.5 for one in settings)


def test_another_question_has_another_key() -> None:
    model = failing(ConnectionError("away"))

    def handle(step: Step) -> None:
        remembered = RememberedCalls(step, "draft", key_header="key")
        Agent(model).run_sync(f"attempt {step.attempt}", capabilities=[remembered])

    run(handle)
    settings: list[Any] = [info.model_settings for info in model.infos]
    assert len({one["extra_headers"]["key"] for one in settings}) == 4


def test_no_header_is_sent_that_is_not_asked_for() -> None:
    looking = Looking("done")
    run(lambda step: asks(looking.agent, step))
    assert looking.model.infos[0].model_settings is None


def test_neither_prompts_nor_answers_are_logged() -> None:
    looking = Looking(calls(SECRET), SECRET, look=lambda word: SECRET)

    def handle(step: Step) -> None:
        asks(looking.agent, step)
        fails_until(2, step)

    with logged() as lines:
        run(handle)
    assert lines
    assert SECRET not in "\n".join(lines)

"""The calls of an agent's run, each under ``step.once``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import CapabilityOrdering
from pydantic_ai.exceptions import ModelAPIError, ModelRetry, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from flowguard.ai.answers import AnsweredRequest, CalledTool
from flowguard.ai.faults import end_of, fault_of
from flowguard.ai.questions import compaction_question_of, question_of, tool_question_of
from flowguard.errors import AskedOtherwise, RunFailed, shown
from flowguard.step import AnyStep, Step

Kept = TypeVar("Kept", AnsweredRequest, CalledTool)


class RememberedCalls(AbstractCapability[Any]):
    """A capability of Pydantic AI for one run of an agent: each model request and tool call is made once in the hop.

    Give it to ``agent.run`` or ``agent.run_sync``. A later attempt of the hop gets the answers that are there, with
    their token counts, and asks the model only for what is missing. ``name`` tells apart the runs of one handler.
    Request 2 of ``draft`` is remembered as ``draft.2``, and the first tool call that it asks for as ``draft.2.1``.

    ``key_header`` is the header in which a provider, or a gateway before it, takes idempotency keys. Each request has
    its own there, the same in each attempt.

    Raises :class:`flowguard.errors.AskedOtherwise` where an attempt asks something else than what is remembered, and
    :class:`flowguard.errors.RunFailed` for streams, and for what the remembered answers make fail again: a limit of
    usage that is reached, an output that stays invalid.
    """

    def __init__(self, step: AnyStep, name: str, *, key_header: str | None = None) -> None:
        if not isinstance(step, Step):
            raise RunFailed(f"RememberedCalls(step, name) has {shown(step)} for its step")
        step.key(name)  # raises for what is no name
        self._step = step
        self._name = name
        self._key_header = key_header
        self._answered = 0
        self._raised: BaseException | None = None

    def get_ordering(self) -> CapabilityOrdering:
        """Return that this is around all other capabilities: what they ask for is remembered, too."""
        return CapabilityOrdering(position="outermost")

    async def for_run(self, ctx: RunContext[Any]) -> RememberedCalls:
        """Return a capability that begins to count anew. A second run under one name is refused by its first call."""
        return RememberedCalls(self._step, self._name, key_header=self._key_header)

    def get_wrapper_model(self, model: Model) -> Model:
        """Return the model whose requests are remembered."""
        return _RememberedModel(model, self)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Return the tools whose calls are remembered."""
        return _RememberedTools(toolset, self)

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> AgentRunResult[Any]:
        """Raise the error, or the end of the run where another attempt would meet the same one."""
        ends = None if error is self._raised else end_of(self._name, error)
        if ends is not None:
            raise ends from None
        raise error

    async def answered(
        self,
        asked: str,
        ask: Callable[[ModelSettings | None], Awaitable[ModelResponse]],
        settings: ModelSettings | None,
    ) -> ModelResponse:
        """Return the answer to the next request, which ``ask`` makes with its settings."""
        place = f"{self._answered + 1}"

        async def make() -> AnsweredRequest:
            try:
                return AnsweredRequest(asked=asked, answer=await ask(self._with_key(settings, f"{place}.{asked}")))
            except ModelAPIError as error:
                raise fault_of(error) from None

        kept = await self._once(place, asked, make, AnsweredRequest)
        self._answered += 1
        return kept.answer

    async def called(self, asked: str, ctx: RunContext[Any], call: Callable[[], Awaitable[Any]]) -> Any:
        """Return what a tool returns, or raise what it tells the model by an exception."""

        async def make() -> CalledTool:
            try:
                return CalledTool.of(asked, await call())
            except ModelRetry as error:
                return CalledTool(asked=asked, retry=error.message)
            except ToolFailed as error:
                return CalledTool(asked=asked, failed=error.message)

        kept = await self._once(f"{self._answered}.{_place_in_answer(ctx)}", asked, make, CalledTool)
        return kept.outcome()

    async def _once(self, place: str, asked: str, make: Callable[[], Awaitable[Kept]], kind: type[Kept]) -> Kept:
        async def noted() -> Kept:
            try:
                return await make()
            except Exception as error:
                self._raised = error
                raise

        name = f"{self._name}.{place}"
        kept: Kept = await self._step.once(name, noted, kind)
        if kept.asked != asked:
            raise AskedOtherwise(name)
        return kept

    def _with_key(self, settings: ModelSettings | None, place: str) -> ModelSettings | None:
        if self._key_header is None:
            return settings
        given = ModelSettings() if settings is None else settings
        headers = {**given.get("extra_headers", {}), self._key_header: self._step.key(f"{self._name}.{place}")}
        return {**given, "extra_headers": headers}


class _RememberedModel(WrapperModel):
    """A model whose answers are remembered. Everything else it leaves to the model."""

    def __init__(self, wrapped: Model, calls: RememberedCalls) -> None:
        super().__init__(wrapped)
        self._calls = calls

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        async def ask(settings: ModelSettings | None) -> ModelResponse:
            return await self.wrapped.request(messages, settings, model_request_parameters)

        return await self._calls.answered(question_of(messages, model_request_parameters), ask, model_settings)

    async def compact_messages(
        self, request_context: ModelRequestContext, *, instructions: str | None = None
    ) -> ModelResponse:
        async def ask(_: ModelSettings | None) -> ModelResponse:
            return await self.wrapped.compact_messages(request_context, instructions=instructions)

        return await self._calls.answered(compaction_question_of(request_context.messages, instructions), ask, None)

    def request_stream(self, *args: Any, **named: Any) -> NoReturn:
        raise RunFailed("a stream of a model is not remembered; call agent.run or agent.run_sync, without a handler")


@dataclass
class _RememberedTools(WrapperToolset[Any]):
    """Tools whose calls are remembered."""

    calls: RememberedCalls

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        async def call() -> Any:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)

        return await self.calls.called(tool_question_of(name, tool_args), ctx, call)


def _place_in_answer(ctx: RunContext[Any]) -> int:
    """Return which of the tool calls of the model's last answer this is. It does not depend on when it ends."""
    answer = next((message for message in reversed(ctx.messages) if isinstance(message, ModelResponse)), None)
    calls = [part.tool_call_id for part in answer.parts if isinstance(part, ToolCallPart)] if answer is not None else []
    if ctx.tool_call_id not in calls:
        raise RunFailed(
            f"the tool {ctx.tool_name!r} is called by no answer of the model, which has no place to remember"
        )
    return calls.index(ctx.tool_call_id) + 1

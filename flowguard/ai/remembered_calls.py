"""The capability of Pydantic AI with which the calls of an agent are remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import CapabilityOrdering
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from flowguard.ai.calls_of_run import CallsOfRun
from flowguard.ai.faults import end_of
from flowguard.ai.questions import compaction_question_of, question_of, tool_question_of
from flowguard.errors import RunFailed, shown
from flowguard.step import AnyStep, Step


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
        self._given = step, name, key_header
        self._calls = CallsOfRun(*self._given)

    def get_ordering(self) -> CapabilityOrdering:
        """Return that this is around all other capabilities. What they ask for is remembered, too."""
        return CapabilityOrdering(position="outermost")

    async def for_run(self, ctx: RunContext[Any]) -> RememberedCalls:
        """Return a capability that begins to count anew. A second run under one name is refused by its first call."""
        step, name, key_header = self._given
        return RememberedCalls(step, name, key_header=key_header)

    def get_wrapper_model(self, model: Model) -> Model:
        """Return the model whose requests are remembered."""
        return _RememberedModel(model, self._calls)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Return the tools whose calls are remembered."""
        return _RememberedTools(toolset, self._calls)

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> AgentRunResult[Any]:
        """Raise the ``error``, or the end of the run where another attempt would meet the same one."""
        ends = None if error is self._calls.raised else end_of(self._given[1], error)
        if ends is not None:
            raise ends from None
        raise error


class _RememberedModel(WrapperModel):
    """A model whose answers are remembered. Everything else it leaves to the model."""

    def __init__(self, wrapped: Model, calls: CallsOfRun) -> None:
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

    calls: CallsOfRun

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        async def call() -> Any:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)

        return await self.calls.called(tool_question_of(name, tool_args), ctx, call)

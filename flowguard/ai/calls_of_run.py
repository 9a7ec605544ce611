"""The calls of one run of an agent. Each has a place, and is one ``step.once``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelAPIError, ModelRetry, ToolFailed
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.settings import ModelSettings

from flowguard.ai.answers import AnsweredRequest, CalledTool
from flowguard.ai.faults import fault_of
from flowguard.errors import AskedOtherwise, RunFailed
from flowguard.step import AnyStep

Kept = TypeVar("Kept", AnsweredRequest, CalledTool)


class CallsOfRun:
    """Makes the calls of a run, or returns what the hop remembers of them."""

    def __init__(self, step: AnyStep, name: str, key_header: str | None) -> None:
        self._step = step
        self._name = name
        self._key_header = key_header
        self._answered = 0
        self.raised: BaseException | None = None
        """What a call has raised at last, of which nothing is remembered."""

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
                self.raised = error
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


def _place_in_answer(ctx: RunContext[Any]) -> int:
    """Return which of the tool calls of the model's last answer this is. It does not depend on when it ends."""
    answer = next((message for message in reversed(ctx.messages) if isinstance(message, ModelResponse)), None)
    calls = [part.tool_call_id for part in answer.parts if isinstance(part, ToolCallPart)] if answer is not None else []
    if ctx.tool_call_id not in calls:
        raise RunFailed(
            f"the tool {ctx.tool_name!r} is called by no answer of the model, which has no place to remember"
        )
    return calls.index(ctx.tool_call_id) + 1

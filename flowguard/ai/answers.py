"""What a hop remembers of a model request and of a tool call, each with the digest of what was asked."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ModelResponse, ToolReturn, ToolReturnContent


class AnsweredRequest(BaseModel):
    """The answer of a model, with the tokens that it took."""

    asked: str
    answer: ModelResponse


class CalledTool(BaseModel):
    """The result of a tool. It was returned, ``plain`` or as a ``whole``, or raised for the model to read."""

    asked: str
    plain: ToolReturnContent = None
    whole: ToolReturn | None = None
    retry: str | None = None
    failed: str | None = None

    @classmethod
    def of(cls, asked: str, returned: Any) -> CalledTool:
        """Return what is remembered of a value that a tool has returned."""
        if isinstance(returned, ToolReturn):
            return cls(asked=asked, whole=returned)
        return cls(asked=asked, plain=returned)

    def outcome(self) -> Any:
        """Return what the tool has returned, or raise what it raised."""
        if self.retry is not None:
            raise ModelRetry(self.retry)
        if self.failed is not None:
            raise ToolFailed(self.failed)
        return self.plain if self.whole is None else self.whole

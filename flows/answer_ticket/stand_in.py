"""A model that needs no provider: it looks up the orders that a question names, and writes what it found.

It answers the same to the same conversation, so that samples and explorations look the same every time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel


class StandIn(FunctionModel):
    """A model of fixed answers, in place of ``anthropic:…`` or ``openai:…``."""

    def __init__(self) -> None:
        super().__init__(answer, model_name="stand-in")


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool for each order that is named, then write the draft."""
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    question = " ".join(str(part.content) for part in parts if isinstance(part, UserPromptPart))
    orders = list(dict.fromkeys(re.findall(r"A-[0-9]+", question)))
    if orders and len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("look_up_order", {"order_id": order}) for order in orders])
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, _draft(parts))])


def _draft(parts: Sequence[ModelRequestPart]) -> dict[str, str]:
    found = [str(part.content) for part in parts if isinstance(part, ToolReturnPart) and part.outcome == "success"]
    text = f"Thank you. Your order {' and '.join(found)}." if found else "Thank you. We will call you."
    return {"subject": "Your question", "text": text}

"""The agent that drafts answers. It knows nothing of flows: a stage gives it what makes its calls remembered."""

from __future__ import annotations

import os
from typing import Final

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models import Model

from flows.answer_ticket.models import Draft
from flows.answer_ticket.stand_in import StandIn

ORDERS: Final = {"A-17": "left the warehouse on 2 January", "A-18": "waits for its payment"}
"""What a shop's own service would answer."""


def model() -> Model | str:
    """Return the model that ``TICKETS_MODEL`` names, such as ``anthropic:claude-opus-4-8``, or the stand-in."""
    return os.environ.get("TICKETS_MODEL") or StandIn()


WRITER: Final = Agent(
    model(),
    output_type=Draft,
    instructions="Draft a short answer to the customer of a tea shop. Look up each order that they name.",
    model_settings={"timeout": 60},
    defer_model_check=True,
)


@WRITER.tool_plain
def look_up_order(order_id: str) -> str:
    """Say where an order is."""
    if order_id not in ORDERS:
        raise ModelRetry(f"there is no order {order_id}; leave it out")
    return ORDERS[order_id]

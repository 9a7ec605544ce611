"""What a warehouse and a shop send, and what the flows leave behind."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


Id = Annotated[str, Field(min_length=1, max_length=100)]
Pieces = Annotated[int, Field(ge=1, le=1_000_000)]


# -- messages ---------------------------------------------------------------------------------------------------------


class GoodsReceived(Frozen):
    """What the warehouse sends for each delivery. Its id is the delivery's own."""

    delivery_id: Id
    sku: Id
    pieces: Pieces


class OrderPlaced(Frozen):
    """What the shop sends for each order: how many pieces of what."""

    order_id: Id
    customer: Id
    lines: dict[Id, Pieces] = Field(min_length=1, max_length=90)


class ItemAdded(Frozen):
    """What the shop sends when a customer adds to an order. Each addition has an id of its own."""

    addition_id: Id
    order_id: Id
    sku: Id
    pieces: Pieces


class Settled(Frozen):
    """The result of a run. ``missing`` names what there were too few pieces of."""

    status: OrderStatus
    missing: tuple[str, ...] = ()


# -- items of tables --------------------------------------------------------------------------------------------------


class OrderStatus(StrEnum):
    PLACED = "PLACED"
    REFUSED = "REFUSED"


class Order(Frozen):
    """An item of the table ``orders``."""

    order_id: str
    customer: str
    status: OrderStatus
    lines: dict[str, int]
    pieces: int


Settled.model_rebuild()

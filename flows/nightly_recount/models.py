"""What begins a night, what shops are asked, and what they answer."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class NightBegun(Frozen):
    """What the scheduler sends. The shops have the numbers from 1 to ``shops``."""

    night: str = Field(min_length=1, max_length=100)
    shops: int = Field(ge=1, le=100_000)


class ShopAsked(Frozen):
    """The request to one shop, for one night."""

    shop_night: str
    shop: str
    night: str


class Counted(Frozen):
    """What a shop answers."""

    pieces: int


class NightCounted(Frozen):
    """The result of a night."""

    pieces: int
    counted: int
    missing: int

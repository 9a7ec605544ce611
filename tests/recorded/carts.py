"""A flow whose stage is called with steps by hand."""

from __future__ import annotations

from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field

from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import step_for


class Cart(BaseModel):
    model_config = ConfigDict(validate_by_name=True)

    cart_id: str = Field(alias="cartId")
    total: Decimal = Decimal("4.20")


class CartState(BaseModel):
    total: Decimal = Decimal(0)


class Price(Stage[Cart, CartState], name="price"):
    def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Done()


class PriceCart(Flow, name="price-cart", object_id="cart_id", inbox="carts", carry=("tenant",)):
    stages = (Price,)


def price_step() -> Step[CartState]:
    """Return the step of a later attempt of a later hop."""
    return step_for(Price, object_id="c-1", request_id="r-1", hop=2, retry=3)

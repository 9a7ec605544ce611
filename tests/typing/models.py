"""A small flow that the right and the wrong usages share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from flowguard import PER_REQUEST, Done, Flow, Outcome, Stage, Step


class Cart(BaseModel):
    cart_id: str


class Priced(BaseModel):
    total: int


class CartState(BaseModel):
    total: int = 0


class Price(Stage[Cart, CartState], name="price", then=("confirm", "note", "tell")):
    def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Confirm.message(Priced(total=step.state.total))


class Confirm(Stage[Priced, CartState], name="confirm"):
    def handle(self, payload: Priced, step: Step[CartState]) -> Outcome:
        return Done(payload)


class Note(Stage[dict[str, Any], CartState], name="note"):
    def handle(self, payload: dict[str, Any], step: Step[CartState]) -> Outcome:
        return Done()


class Tell(Stage[str, CartState], name="tell"):
    def handle(self, payload: str, step: Step[CartState]) -> Outcome:
        return Done()


class Stateless(Stage[Cart], name="stateless"):
    def handle(self, payload: Cart, step: Step) -> Outcome:
        return Done()


class PriceCart(Flow, name="price-cart", object_id="cart_id"):
    stages = (Price, Confirm, Note, Tell)


class Log(Flow, name="log", object_id=PER_REQUEST):
    stages = (Stateless,)

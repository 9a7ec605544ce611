"""What must pass without a word from mypy."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, Generic, assert_type

from pydantic import BaseModel
from typing_extensions import TypeVar

from flowguard import (
    Bus,
    Done,
    Failed,
    Flow,
    FlowClient,
    GroupEnd,
    LambdaHandler,
    Next,
    Outcome,
    Queue,
    RetryPolicy,
    Stage,
    Started,
    Step,
    Topic,
    lambda_handler,
    once,
)
from flowguard.step import NoState
from flowguard.testing import step_for
from tests.typing.models import Cart, CartState, Confirm, Log, Note, Price, PriceCart, Priced, Stateless, Tell

SomePayload = TypeVar("SomePayload", bound=BaseModel)


def messages() -> None:
    assert_type(Confirm.message(Priced(total=1)), Next)
    Note.message({"any": ["thing"]})
    Tell.message("text")


def outcomes(text: str) -> Outcome:
    match text:
        case "next":
            return Confirm.message(Priced(total=1))
        case "result":
            return Done({"total": 1})
        case _:
            return Done()


class OnlyEnds(Stage[Cart, CartState], name="only-ends", then=Confirm, inbox=Queue("carts"), retry=RetryPolicy()):
    """A handler may promise more than the base asks for."""

    retry = RetryPolicy(attempts=2)

    def handle(self, payload: Cart, step: Step[CartState]) -> Done:
        return Done(payload.cart_id)


class Audited(Stage[SomePayload, CartState], Generic[SomePayload]):
    """A base class that leaves the payload open."""

    def handle(self, payload: SomePayload, step: Step[CartState]) -> Outcome:
        step.send("audit", payload)
        return self.work(payload, step)

    def work(self, payload: SomePayload, step: Step[CartState]) -> Outcome:
        return Done()


class AuditedPrice(Audited[Cart], name="audited-price"):
    def work(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Done(payload.cart_id)


class Awaits(Stage[Cart, CartState], name="awaits"):
    async def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Done(await step.once("price", price))


async def price() -> int:
    return 7


class AddsUp(Stage[GroupEnd, CartState], name="adds-up"):
    """A stage that goes on after a group."""

    def handle(self, payload: GroupEnd, step: Step[CartState]) -> Outcome:
        for _, name, answer in step.answers(Cart):
            assert_type(name, str)
            assert_type(answer, Cart | Failed)
        return AddsUp.when_group(step.group(LinesOfCarts, []), within=timedelta(hours=1), quorum=0.9)


class Lines(Stage[dict[str, Any]], name="lines"):
    """A stage of a flow that keeps no state."""

    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class LinesOfCarts(Flow, name="lines-of-carts", object_id="cart.id", inbox="carts", accepts=[1], version=2):
    stages = (Lines,)


def steps() -> None:
    step = step_for(Price, state=CartState(total=1), object_id="c-1")
    assert_type(step, Step[CartState])
    assert_type(step.state.total, int)
    step.state.total += 1
    step.state = CartState()
    step.put("carts", Cart(cart_id="c-1"))
    step.put("carts", {"id": "c-1"}, condition="attribute_not_exists(id)")
    step.send(Topic("arn:aws:sns:eu-west-1:123456789012:told"), "text")
    step.send(Bus("default", "shop", "told"), {"any": "thing"}, delay=0)
    step.start(Log, Cart(cart_id="c-1"), reply_to="replies")
    assert_type(step_for(Stateless), Step[NoState])
    assert_type(Price().handle(Cart(cart_id="c-1"), step_for(Price)), Outcome)


def starts(client: FlowClient) -> None:
    assert_type(client.start(PriceCart, Cart(cart_id="c-1"), reply_to=Queue("replies")), Started)


def handlers() -> None:
    assert_type(lambda_handler(PriceCart, Price, Confirm, Log), LambdaHandler)


@once("charge", key="order_id", payload=("order_id", "amount"), keep=timedelta(days=1))
def charge(order: dict[str, Any], *, amount: int = 1) -> Decimal:
    return Decimal(amount)


@once("greet", key=str)
async def greet(guest: str) -> str:
    return f"hello {guest}"


async def guarded() -> None:
    assert_type(charge({"order_id": "o-1"}, amount=2), Decimal)
    assert_type(await greet("Ada"), str)
    assert_type(charge.batch({"Records": []}), dict[str, Any])

"""Mistakes that mypy must refuse, each with the code of the error it must give: an ignore that is not needed is one."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from flowguard import Done, Flow, FlowClient, Next, Outcome, RetryPolicy, Stage, Step, lambda_handler, once
from flowguard.testing import step_for
from tests.typing.models import Cart, CartState, Confirm, Log, Note, Price, PriceCart, Priced, Stateless, Tell
from tests.typing.right import charge


class OtherState(BaseModel):
    count: int = 0


# -- a message for the next stage


def messages(step: Step[CartState]) -> None:
    Confirm.message(Cart(cart_id="c-1"))  # type: ignore[arg-type]
    Confirm.message({"total": 1})  # type: ignore[arg-type]
    Confirm.message(Priced(total="much"))  # type: ignore[arg-type]
    Confirm.message()  # type: ignore[call-arg]
    Note.message(Priced(total=1))  # type: ignore[arg-type]
    Note.message({1: "one"})  # type: ignore[dict-item]
    Tell.message(Priced(total=1))  # type: ignore[arg-type]
    step.send("emails", 7)  # type: ignore[arg-type]
    step.start(Price, Cart(cart_id="c-1"))  # type: ignore[arg-type]


# -- how a stage ends


class ReturnsText(Stage[Cart, CartState], name="returns-text"):
    def handle(self, payload: Cart, step: Step[CartState]) -> str:  # type: ignore[override]
        return "done"


class ReturnsPayload(Stage[Cart, CartState], name="returns-payload"):
    def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Priced(total=1)  # type: ignore[return-value]


class ReturnsTheClass(Stage[Cart, CartState], name="returns-the-class"):
    def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Done  # type: ignore[return-value]


class ForgetsToReturn(Stage[Cart, CartState], name="forgets-to-return"):
    def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:  # type: ignore[return]
        step.state.total = 1


def endings(outcome: Outcome) -> str:  # type: ignore[return]
    match outcome:  # type: ignore[exhaustive-match]
        case Next():
            return "next"


# -- what a stage takes


class HandlesAnotherPayload(Stage[Cart, CartState], name="handles-another-payload"):
    def handle(self, payload: Priced, step: Step[CartState]) -> Outcome:  # type: ignore[override]
        return Done()


class HandlesAnotherState(Stage[Cart, CartState], name="handles-another-state"):
    def handle(self, payload: Cart, step: Step[OtherState]) -> Outcome:  # type: ignore[override]
        return Done()


class HandlesNoState(Stage[Cart, CartState], name="handles-no-state"):
    def handle(self, payload: Cart, step: Step) -> Outcome:  # type: ignore[override]
        return Done()


def types_that_no_stage_has() -> None:
    def numbers(stage: Stage[int]) -> None: ...  # type: ignore[type-var]

    def states(stage: Stage[Cart, dict[str, Any]]) -> None: ...  # type: ignore[type-var]


class SaysTooMuch(Stage[Cart], name="says-too-much", nmae="typo"):  # type: ignore[call-arg]
    def handle(self, payload: Cart, step: Step) -> Outcome:
        return Done()


class WrongPolicy(Stage[Cart], name="wrong-policy", retry=3):  # type: ignore[arg-type]
    retry = RetryPolicy(3, 10)  # type: ignore[arg-type]

    def handle(self, payload: Cart, step: Step) -> Outcome:
        return Done()


class FlowSaysTooMuch(Flow, name="flow-says-too-much", object_id="cart_id", retry=3):  # type: ignore[call-arg]
    stages = (Price, Confirm)


class WrongFlow(Flow, name="wrong-flow", object_id=7, on_conflict="supersede"):  # type: ignore[arg-type]
    stages = (Cart,)  # type: ignore[assignment]


# -- the state


def states(step: Step[CartState], stateless: Step) -> None:
    _ = step.state.unknown  # type: ignore[attr-defined]
    step.state.total = "much"  # type: ignore[assignment]
    step.state = OtherState()  # type: ignore[assignment]
    _ = stateless.state.total  # type: ignore[attr-defined]
    step_for(Price, state=OtherState())  # type: ignore[misc]
    Price().handle(Cart(cart_id="c-1"), step_for(Stateless))  # type: ignore[arg-type]
    Price().handle(Priced(total=1), step_for(Price))  # type: ignore[arg-type]


def frozen(step: Step[CartState], outcome: Done) -> None:
    step.hop = 2  # type: ignore[misc]
    step.request_id = "r-2"  # type: ignore[misc, assignment]
    outcome.result = 1  # type: ignore[misc]


# -- starting a flow, serving it


def starts(client: FlowClient) -> None:
    client.start(PriceCart, 7)  # type: ignore[arg-type]
    client.start(PriceCart, [Cart(cart_id="c-1")])  # type: ignore[arg-type]
    client.start(Price, Cart(cart_id="c-1"))  # type: ignore[arg-type]
    client.start(PriceCart)  # type: ignore[call-arg]
    client.start(PriceCart(), Cart(cart_id="c-1"))  # type: ignore[arg-type]


def handlers() -> None:
    lambda_handler(Price())  # type: ignore[arg-type]
    lambda_handler(Log, "stateless")  # type: ignore[arg-type]


# -- a function without a flow


def guarded() -> None:
    charge(7)  # type: ignore[arg-type]
    charge({"order_id": "o-1"}, amount="much")  # type: ignore[arg-type]
    charge({"order_id": "o-1"}, price=1)  # type: ignore[call-arg]
    charge({"order_id": "o-1"}).unknown()  # type: ignore[attr-defined]
    once("nameless")  # type: ignore[call-arg]
    once("charge", key=7)  # type: ignore[arg-type]

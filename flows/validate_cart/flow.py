"""ValidateCart: three stages, each a Lambda function with a queue of its own."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from flowguard import SUPERSEDE, Done, Flow, Outcome, Reject, Stage, Step
from flows.validate_cart.models import (
    Cart,
    CartChecked,
    CartConfirmed,
    CartPriced,
    CartState,
    CartStatus,
    CartSubmitted,
    ConfirmationMail,
    PricedLine,
)

CARTS: Final = "carts"
TOTALS: Final = "cart-totals"
EMAILS: Final = "emails"

TABLES: Final = {CARTS: "cart_id", TOTALS: "day"}
"""The tables that the stages write to, and the name of each one's key."""

QUEUES: Final = (EMAILS,)
"""The queues beside the stages' own that messages go to."""

PRICES: Final = {"tea": Decimal("4.20"), "cup": Decimal("7.95"), "pot": Decimal("24.00"), "tin": Decimal("3.10")}
MOST_OF_A_SKU: Final = 100


class PriceCart(Stage[CartSubmitted, CartState], name="price-cart", then="check-cart", inbox="carts"):
    """Price every line."""

    def handle(self, cart: CartSubmitted, step: Step[CartState]) -> Outcome:
        if not cart.lines:
            raise Reject("the cart is empty")
        if unknown := sorted({line.sku for line in cart.lines} - PRICES.keys()):
            raise Reject(f"no price for {', '.join(unknown)}")
        step.state.lines = tuple(
            PricedLine(sku=line.sku, quantity=line.quantity, unit_price=PRICES[line.sku]) for line in cart.lines
        )
        step.state.total = sum((line.unit_price * line.quantity for line in step.state.lines), Decimal(0))
        step.put(CARTS, _cart(cart.cart_id, CartStatus.PRICED, step))
        return CheckCart.message(CartPriced(cart_id=cart.cart_id))


class CheckCart(Stage[CartPriced, CartState], name="check-cart", then="confirm-cart", inbox="carts-to-check"):
    """Refuse what no shop could deliver."""

    def handle(self, cart: CartPriced, step: Step[CartState]) -> Outcome:
        ordered: dict[str, int] = {}
        for line in step.state.lines:
            ordered[line.sku] = ordered.get(line.sku, 0) + line.quantity
        if too_many := sorted(sku for sku, quantity in ordered.items() if quantity > MOST_OF_A_SKU):
            raise Reject(f"more than {MOST_OF_A_SKU} of {', '.join(too_many)}")
        return ConfirmCart.message(CartChecked(cart_id=cart.cart_id))


class ConfirmCart(Stage[CartChecked, CartState], name="confirm-cart", inbox="carts-to-confirm"):
    """Confirm the cart, count it for its day, have the customer told."""

    def handle(self, cart: CartChecked, step: Step[CartState]) -> Outcome:
        total = step.state.total
        step.put(CARTS, _cart(cart.cart_id, CartStatus.CONFIRMED, step))
        step.update(
            TOTALS,
            {"day": step.requested_at.date().isoformat()},
            "ADD confirmed :one, revenue :total",
            values={":one": 1, ":total": total},
        )
        step.send(EMAILS, ConfirmationMail(cart_id=cart.cart_id, total=total))
        return Done(CartConfirmed(cart_id=cart.cart_id, total=total))


class ValidateCart(Flow, name="validate-cart", object_id="cart_id", on_conflict=SUPERSEDE):
    """Price, check, confirm. A cart submitted again replaces the run that is under way."""

    stages = (PriceCart, CheckCart, ConfirmCart)


def _cart(cart_id: str, status: CartStatus, step: Step[CartState]) -> Cart:
    return Cart(
        cart_id=cart_id, status=status, lines=step.state.lines, total=step.state.total, request_id=step.request_id
    )

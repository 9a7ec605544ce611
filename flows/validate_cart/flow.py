"""ValidateCart: four stages, each a Lambda function with a queue of its own. A cart with wishes waits for others."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Final

from flowguard import SUPERSEDE, Callback, Done, Failed, Flow, Outcome, Reject, Stage, Step
from flows.validate_cart.models import (
    Cart,
    CartAnswers,
    CartChecked,
    CartConfirmed,
    CartPriced,
    CartState,
    CartStatus,
    CartSubmitted,
    ConfirmationMail,
    FilterRequest,
    PricedLine,
    SearchRequest,
)

CARTS: Final = "carts"
TOTALS: Final = "cart-totals"
EMAILS: Final = "emails"

TABLES: Final = {CARTS: "cart_id", TOTALS: "day"}
"""The tables that the stages write to, and the name of each one's key."""

SEARCHES: Final = "search-requests"
FILTERS: Final = "filter-requests"

QUEUES: Final = (EMAILS, SEARCHES, FILTERS)
"""The queues beside the stages' own that messages go to."""

ANSWER_WITHIN: Final = timedelta(minutes=30)
"""How long a cart waits for search and filter. After that it goes on without its wishes."""

ANSWERS: Final = {"search": {"skus": ["tin", "pot"]}, "filter": {"refused": ["pot"]}}
"""What the explorer lets the others answer."""

PRICES: Final = {"tea": Decimal("4.20"), "cup": Decimal("7.95"), "pot": Decimal("24.00"), "tin": Decimal("3.10")}
MOST_OF_A_SKU: Final = 100


class PriceCart(Stage[CartSubmitted, CartState], name="price-cart", then=("check-cart", "add-found"), inbox="carts"):
    """Price every line. Ask others what fits the wishes, if there are any, and wait for them."""

    def handle(self, cart: CartSubmitted, step: Step[CartState]) -> Outcome:
        if not cart.lines and not cart.wishes:
            raise Reject("the cart is empty")
        if unknown := sorted({line.sku for line in cart.lines} - PRICES.keys()):
            raise Reject(f"no price for {', '.join(unknown)}")
        step.state.lines = tuple(
            PricedLine(sku=line.sku, quantity=line.quantity, unit_price=PRICES[line.sku]) for line in cart.lines
        )
        step.state.total = sum((line.unit_price * line.quantity for line in step.state.lines), Decimal(0))
        step.put(CARTS, _cart(cart.cart_id, CartStatus.PRICED, step))
        if not cart.wishes:
            return CheckCart.message(CartPriced(cart_id=cart.cart_id))
        search, allowed = step.answer_id("search"), step.answer_id("filter")
        return AddFound.when_all(
            search=step.ask(SEARCHES, SearchRequest(search_id=search, wishes=cart.wishes)),
            filter=step.ask(FILTERS, FilterRequest(filter_id=allowed, cart_id=cart.cart_id)),
            within=ANSWER_WITHIN,
        )


class AddFound(Stage[CartAnswers, CartState], name="add-found", then="check-cart", inbox="carts-to-complete"):
    """Add one of each article that was found and may be sold."""

    def handle(self, answers: CartAnswers, step: Step[CartState]) -> Outcome:
        if not isinstance(answers.search, Failed) and not isinstance(answers.filter, Failed):
            allowed = (sku for sku in dict.fromkeys(answers.search.skus) if sku not in answers.filter.refused)
            found = tuple(PricedLine(sku=sku, quantity=1, unit_price=PRICES[sku]) for sku in allowed if sku in PRICES)
            step.state.lines += found
            step.state.total += sum((line.unit_price for line in found), Decimal(0))
        if not step.state.lines:
            raise Reject("the cart is empty, and nothing was found for it")
        step.put(CARTS, _cart(step.object_id, CartStatus.PRICED, step))
        return CheckCart.message(CartPriced(cart_id=step.object_id))


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


class ValidateCart(
    Flow,
    name="validate-cart",
    object_id="cart_id",
    on_conflict=SUPERSEDE,
    callbacks=(
        Callback("search-results", id="search_id", names=("search",), failed="error"),
        Callback("filter-results", id="filter_id", names=("filter",), failed="error"),
    ),
):
    """Price, check, confirm. A cart submitted again replaces the run that is under way."""

    stages = (PriceCart, AddFound, CheckCart, ConfirmCart)


def _cart(cart_id: str, status: CartStatus, step: Step[CartState]) -> Cart:
    return Cart(
        cart_id=cart_id, status=status, lines=step.state.lines, total=step.state.total, request_id=step.request_id
    )

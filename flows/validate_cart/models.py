"""What travels between the stages of ValidateCart, what the run remembers, and what it leaves behind."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from flowguard import Failed


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class CartLine(Frozen):
    sku: str = Field(min_length=1)
    quantity: int = Field(ge=1)


class PricedLine(CartLine):
    unit_price: Decimal


# -- messages ---------------------------------------------------------------------------------------------------------


class CartSubmitted(Frozen):
    """What the shop sends. A newer one for the same cart replaces it, whatever has become of it by then.

    ``wishes`` are what the customer has described and not chosen, such as "something to keep the tea dry".
    """

    cart_id: str = Field(min_length=1)
    lines: tuple[CartLine, ...]
    wishes: tuple[str, ...] = ()


class SearchRequest(Frozen):
    """For the search. It answers with ``search_id``, which carries the id of the request that asks."""

    search_id: str
    wishes: tuple[str, ...]


class FilterRequest(Frozen):
    """For the filter, which knows what may be sold to whom. It answers with ``filter_id``."""

    filter_id: str
    cart_id: str


class SearchResult(Frozen):
    """The articles that fit the wishes."""

    skus: tuple[str, ...]


class FilterResult(Frozen):
    """The articles that this customer may not buy."""

    refused: tuple[str, ...]


class CartAnswers(Frozen):
    """The answers for ``add-found``. It goes on without wishes where one of them fails, or does not come in time."""

    search: SearchResult | Failed
    filter: FilterResult | Failed


class CartPriced(Frozen):
    cart_id: str


class CartChecked(Frozen):
    cart_id: str


class ConfirmationMail(Frozen):
    """For whoever sends the mails."""

    cart_id: str
    total: Decimal


class CartConfirmed(Frozen):
    """The result of the run."""

    cart_id: str
    total: Decimal


# -- the run's own state ----------------------------------------------------------------------------------------------


class CartState(BaseModel):
    """Kept in the run item from stage to stage, so that messages need not carry it."""

    lines: tuple[PricedLine, ...] = ()
    total: Decimal = Decimal(0)


# -- items of tables --------------------------------------------------------------------------------------------------


class CartStatus(StrEnum):
    PRICED = "PRICED"
    CONFIRMED = "CONFIRMED"


class Cart(Frozen):
    """An item of the table ``carts``: the cart as the newest request left it."""

    cart_id: str
    status: CartStatus
    lines: tuple[PricedLine, ...]
    total: Decimal
    request_id: str

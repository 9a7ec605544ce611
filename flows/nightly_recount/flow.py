"""A night's recount: each shop counts its stock by itself, and the night adds up what they answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from flowguard import Done, Failed, Flow, GroupEnd, Outcome, Reject, Stage, Step
from flows.nightly_recount.models import Counted, NightBegun, NightCounted, ShopAsked

COUNTS: Final = "shop-counts"
TOTALS: Final = "night-totals"

TABLES: Final = {COUNTS: "shop_night", TOTALS: "night"}
"""The tables that the stages write to, and the name of each one's key."""

CLOSED: Final = frozenset({"shop-00013"})
"""Shops that count nothing. A real flow would read that from somewhere, and each shop's pieces too."""

COUNT_AT_MOST: Final = timedelta(hours=6)


class CountStock(Stage[ShopAsked], name="count-stock", inbox="shops-to-count"):
    """Count the stock of one shop."""

    def handle(self, asked: ShopAsked, step: Step) -> Outcome:
        if asked.shop in CLOSED:
            raise Reject(f"{asked.shop} is closed")
        pieces = int(asked.shop.removeprefix("shop-"))
        step.put(COUNTS, {"shop_night": asked.shop_night, "night": asked.night, "pieces": pieces})
        return Done(Counted(pieces=pieces))


class CountShop(Flow, name="count-shop", object_id="shop_night"):
    """Count one shop in one night. It may be asked by anybody."""

    stages = (CountStock,)


class AskShops(Stage[NightBegun], name="ask-shops", then="add-up", inbox="nights"):
    """Ask all shops. They are made while they are saved: never are all of them in memory."""

    def handle(self, begun: NightBegun, step: Step) -> Outcome:
        group = step.group(CountShop, shops_of(begun))
        return AddUp.when_group(group, within=COUNT_AT_MOST)


class AddUp(Stage[GroupEnd], name="add-up", inbox="nights-counted"):
    """Add up what the shops have answered until now."""

    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        pieces = counted = 0
        for _, shop, answer in step.answers(Counted):
            if isinstance(answer, Failed):
                step.log.warning("%s is missing: %s", shop, answer.text)
            else:
                pieces, counted = pieces + answer.pieces, counted + 1
        total = NightCounted(pieces=pieces, counted=counted, missing=end.requests - counted)
        step.put(TOTALS, {"night": step.object_id, **total.model_dump()})
        return Done(total)


class RecountNight(Flow, name="recount-night", object_id="night"):
    """Count all shops in one night."""

    stages = (AskShops, AddUp)


def shops_of(begun: NightBegun) -> Iterator[tuple[str, ShopAsked]]:
    """Yield the requests of a night with the names of their shops."""
    for number in range(1, begun.shops + 1):
        shop = f"shop-{number:05}"
        yield shop, ShopAsked(shop_night=f"{shop}/{begun.night}", shop=shop, night=begun.night)

"""A flow that names its requests by their payload, and orders that are sent again under no id, later than before."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any, Final

from flowguard import PER_REQUEST, SUPERSEDE, Flow
from flowguard.sim.world import START
from flowguard.testing import sns_to_sqs_event, sqs_event
from flowguard.testing.explorer import View
from flowguard.testing.explorer.run.inbox import Later
from tests.proofs.prove.flows import Open, Order, Shut


class Keyed(
    Flow, name="keyed", object_id="order_id", request_id="order_id", on_conflict=SUPERSEDE, complete_to="ended"
):
    stages = (Open, Shut)


class KeyedEach(Flow, name="keyed-each", object_id=PER_REQUEST, request_id=("order_id", "amount")):
    stages = (Open, Shut)


class KeyedByWish(Flow, name="keyed-by-wish", object_id="order_id", request_id="fail"):
    """Its orders may well say nothing there."""

    stages = (Open, Shut)


def _sent(number: int, order: Order) -> Any:
    """The number is of the message: a second apart, and with an id that SQS makes anew."""
    return sqs_event("to-open", order, message_id=f"message-{number}", sent_at=START + 1_000 * number)


def _published(number: int, order: Order) -> Any:
    return sns_to_sqs_event("to-open", order, message_id=f"message-{number}", published_at=START + 1_000 * number)


_FIRST: Final = Order(order_id="o1", amount=3)
_FAILING: Final = Order(order_id="o1", amount=3, fail="open:1:error,shut:1:error")

SENT_TWICE: Final = [_sent(0, _FIRST), _sent(1, _FIRST)]
SENT_EVERY_WAY: Final = [_sent(0, _FAILING), _published(1, _FAILING)]
SENT_MUCH_LATER: Final = [_sent(0, _FIRST), Later(_sent(2, _FIRST), timedelta(days=3))]
EACH_SENT_TWICE: Final = [
    _sent(number, Order(order_id=name, amount=amount))
    for number, (name, amount) in enumerate([("o1", 23), ("o12", 3), ("o1", 23), ("o12", 3)])
]
NAMELESS: Final = [_sent(0, _FIRST)]
"""Its dead letter has no id: two copies of it that are sent back are two letters again."""


def an_order_is_one_run(view: View) -> str | None:
    """Whatever ids its messages have, and however late they were sent."""
    named: dict[str, set[str]] = defaultdict(set)
    for version in view._history.versions:
        if version.item is not None:
            named[version.key].add(version.item.request_id)
    return next((f"{key} is run for {len(ids)} requests" for key, ids in named.items() if len(ids) > 1), None)

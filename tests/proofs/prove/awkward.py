"""Data as nobody wants it, for every schedule to meet: texts at their limits, and texts that services refuse."""

from __future__ import annotations

import re
from typing import Any, Final

from flowguard import Bus, Done, Fixed, Flow, Outcome, Reject, RetryPolicy, Stage, Step
from flowguard.names.ids import RequestId
from flowguard.sim.world import START
from flowguard.testing import hostile, sqs_event
from flowguard.testing.explorer import View
from flowguard.wire.message import PLACE
from tests.proofs.prove.flows import Order

_WHOLE: Final = [text for text in hostile.TEXTS.values() if len(text) < 300 and not re.search("[\ud800-\udfff]", text)]
STRANGE: Final = " ".join(_WHOLE)
"""All of it is JSON; some characters, and most controls, SQS takes only where they are escaped."""

STRANGE_NAME: Final = " ".join(text for text in hostile.UNSENDABLE.values() if text in _WHOLE)

HALF: Final = hostile.TEXTS["the first half of a surrogate pair"]
"""No encoding holds it."""

ERROR: Final = f"line one\nline two\r\n\tline three {STRANGE} {HALF} " + "a long story " * 100
"""Of 1,300 characters and more: what is kept of it ends within the story."""

DEEP: Final = 100
STRANGE_ID: Final = "an id: ' \" \\ / % ü \U0001f9ea"
LONG_ID: Final = hostile.IDS["128 bytes"]
LONGEST_ID: Final = hostile.IDS["1,024 bytes"]

_MOST: Final = 16_384
"""Bytes of flowguard's own attribute: two errors of 500 characters, and two ids, each escaped."""
TWICE: Final = RetryPolicy(attempts=2, backoff=Fixed(10), jitter=0)


def nested(depth: int) -> Any:
    found: Any = "the bottom"
    for _ in range(depth):
        found = {"in": [found]}
    return found


class Strange(Stage[Order], name="strange", then="stranger", inbox="to-strange", retry=TWICE):
    """Records and sends what it is given, and more like it; raises it, where it is asked to."""

    def handle(self, order: Order, step: Step) -> Outcome:
        match order.fail:
            case "raise" if step.attempt == 1:
                raise ValueError(ERROR)
            case "reject":
                raise Reject(ERROR)
            case _:
                pass
        step.put("orders", {"order_id": order.order_id, "text": STRANGE})
        step.send("mails", {"strange": STRANGE, "nested": nested(DEEP)})
        step.send(Bus("default", "shop", "strange"), {"strange": STRANGE, "nested": nested(DEEP)})
        return Stranger.message(order)


class Stranger(Stage[Order], name="stranger", inbox="to-stranger.fifo", retry=TWICE):
    """Behind a FIFO queue, whose groups and ids take few characters."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("told.fifo", {"told": STRANGE}, group=order.order_id)
        return Done({"strange": STRANGE})


class Strangers(Flow, name="strangers", object_id="order_id", complete_to="ended"):
    stages = (Strange, Stranger)


def strange(order_id: str, own: str, fail: str = "") -> Any:
    """A request for an object and under an id of any text."""
    order = Order(order_id=order_id, fail=fail)
    message, _ = Strangers.request(order, request_id=RequestId(own), requested_at=START)
    return sqs_event("to-strange", message.body, attributes=message.attributes(), message_id="request-1", sent_at=START)


def what_is_said_of_an_error_is_short(view: View) -> str | None:
    """It travels with the message, and must leave room for it."""
    for one in view._history.posted:
        place = one.attributes.get(PLACE)
        if place is not None and len(place.value) > _MOST:
            return f"{one.id} to {one.to} says {len(place.value)} bytes"
    return None

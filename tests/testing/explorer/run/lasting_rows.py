"""Flows and a function that together write every kind of row that expires, for the explorer.

Records of the flows are in ``tests/worker/runtime/landed/``: change them as a release may whose runs are under way.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import (
    ATTACH,
    Callback,
    Done,
    Flow,
    GroupEnd,
    Outcome,
    PauseAfter,
    PerKey,
    RetryPolicy,
    Stage,
    Step,
    once,
)
from flowguard.destinations import Queue
from flowguard.names.ids import RequestId
from flowguard.sim.world import START
from flowguard.testing import Later, sqs_event
from flowguard.testing.explorer import PlainFunction

A_WHILE: Final = timedelta(minutes=10)


class Part(BaseModel):
    part_id: str


def of_all(part: Part) -> str:
    return "all"


class Find(Stage[Part], name="find", inbox="to-find", limit=PerKey(of_all, at_once=1, name="all")):
    """One part is looked for at a time."""

    def handle(self, part: Part, step: Step) -> Outcome:
        return Done()


class Finds(Flow, name="finds", object_id="part_id"):
    stages = (Find,)


class Night(BaseModel):
    day: str


class AskAll(Stage[Night], name="ask-all", then="sum-up", inbox="to-ask-all"):
    def handle(self, night: Night, step: Step) -> Outcome:
        asked = ((f"p{number}", Part(part_id=f"p{number}")) for number in range(2))
        return SumUp.when_group(step.group(Finds, asked), within=A_WHILE)


class SumUp(Stage[GroupEnd], name="sum-up", inbox="to-sum-up"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        step.reset(Pages, "milk")
        step.cancel(Pages, "rum", why="nobody wants it")
        return Done(end.requests)


class Nightly(Flow, name="nightly", object_id="day", answers="to-nightly", full_history=True):
    stages = (AskAll, SumUp)


class Page(BaseModel):
    page: str


class Paid(BaseModel):
    paid: dict[str, Any] | None = None


class Ask(Stage[Page], name="ask", then="close", inbox="to-ask"):
    """Every page waits for the same payment."""

    def handle(self, page: Page, step: Step) -> Outcome:
        return Close.when_all(paid=step.event("payment/monday"), within=A_WHILE, on_timeout=Close)


class Close(Stage[Paid], name="close", inbox="to-close"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        return Done()


class Pages(
    Flow,
    name="pages",
    object_id="page",
    on_conflict=ATTACH,
    answers="to-pages",
    callbacks=(Callback("payments", id="order", prefix="payment/", keep_early=A_WHILE),),
):
    stages = (Ask, Close)


class GatewayAway(Exception):
    """The gateway does not answer, whoever asks."""


RULE: Final = PauseAfter(1, errors=(GatewayAway,), within=A_WHILE, rest=A_WHILE)


class Returned(BaseModel):
    page: str


class Refund(
    Stage[Returned],
    name="refund",
    inbox="to-refund",
    retry=RetryPolicy(attempts=1),
    limit=PerKey("page", at_once=1, pause_after=RULE),
):
    """Its key pauses itself, and nobody tries it."""

    def handle(self, returned: Returned, step: Step) -> Outcome:
        raise GatewayAway


class Refunds(Flow, name="refunds", object_id="page"):
    stages = (Refund,)


@once("charge", key="order_id", keep=A_WHILE)
def charge(order: dict[str, str]) -> str:
    return order["order_id"]


@once("charge-briefly", key="order_id", keep=timedelta(minutes=1))
def charge_briefly(order: dict[str, str]) -> None:
    pass


def handler(event: Any, context: Any) -> None:
    for record in event["Records"]:
        charge({"order_id": record["body"]})


CHARGES: Final = PlainFunction("charges", handler)


def asked(page: str, number: int) -> Any:
    message, _ = Pages.request(
        Page(page=page), request_id=RequestId(f"r-{number}"), requested_at=START + number, reply_to=Queue("replies")
    )
    return sqs_event("to-ask", Page(page=page), attributes=message.attributes(), message_id=f"m-{number}")


def paid(order: str) -> Any:
    return sqs_event("payments", {"order": order}, message_id=f"paid-{order}")


EXPLORED: Final = (Nightly, Finds, Pages, Refunds, CHARGES)
MESSAGES: Final = (
    Night(day="monday"),
    *(asked(page, number) for number, page in enumerate(("tea", "tea", "milk"), 1)),
    Returned(page="beer"),
    Later(paid("monday"), by=timedelta(minutes=1)),
    Later(paid("tuesday"), by=timedelta(minutes=2)),
    sqs_event("charges", "o1", message_id="charge-1"),
    Later(sqs_event("charges", "o2", message_id="charge-2"), by=timedelta(days=1_000)),
)


def kind_of(pk: str, sk: str) -> str:
    """Name the kind of a row by its keys, as the modules describe them that write it."""
    first, kind = pk.split("#", maxsplit=1)[0], sk.strip("#").split("#")[0]
    if first == "pause":
        return "pause key"
    return f"{first} {kind}" if first != "wait" or kind in {"early", "place"} else "wait awaited"

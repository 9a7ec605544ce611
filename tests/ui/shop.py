"""Some orders of a shop, each where another one is not: what the browser tests and their pictures show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from pydantic import BaseModel

from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.clock import ManualClock
from flowguard.errors import Reject
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.settings import Settings
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing.flow_clock import FlowClock
from flowguard.testing.runner import FlowRunner
from flowguard.ui.changes import Changes
from flowguard.ui.inspected import Inspected
from tests.aws.engines import kept, same_clients

HOSTILE = "<img src=x onerror=\"document.title='struck'\"><script>document.title='struck'</script>"


class ShopOrder(BaseModel):
    order_id: str
    note: str = ""


class Payment(BaseModel):
    payment: int | None = None


class CheckOrder(Stage[ShopOrder], name="check-order", then="take-payment"):
    def handle(self, order: ShopOrder, step: Step) -> Outcome:
        return TakePayment.message(order)


class TakePayment(Stage[ShopOrder], name="take-payment", then=("ship-order", "remind")):
    def handle(self, order: ShopOrder, step: Step) -> Outcome:
        paid = step.event(f"payment/{order.order_id}")
        if order.note:
            raise Reject(f"the card is declined: {order.note}")
        return ShipOrder.when_all(payment=paid, within=timedelta(days=3), on_timeout="remind")


class ShipOrder(Stage[Payment], name="ship-order"):
    def handle(self, paid: Payment, step: Step) -> Outcome:
        if paid.payment == 13:
            raise Reject("no carrier takes it")
        return Done({"carrier": "post"})


class Remind(Stage[Payment], name="remind"):
    def handle(self, paid: Payment, step: Step) -> Outcome:
        return Done({"carrier": None})


class ShopOrders(Flow, name="orders", object_id="order_id", trust_senders=True):
    stages = (CheckOrder, TakePayment, ShipOrder, Remind)


class Shop(NamedTuple):
    """What the inspector of the shop is made of."""

    inspected: Inspected
    changes: Changes


@contextmanager
def shop(note: str = "it has expired", **given: Any) -> Iterator[Shop]:
    """The shop on the AWS in memory, some hours after its first order. The process has its own time again.

    ``note`` is what the customer wrote whose card is declined.
    """
    with ExitStack() as stack:
        with FlowClock() as clock:
            aws = stack.enter_context(MemoryAWS(clock))
            stack.enter_context(kept())
            with FlowRunner(aws, clock) as runner:
                _play(clock, runner, note)
            now = ManualClock(clock.now())
        inspected = Inspected(Settings(), same_clients(), now, {"orders": ShopOrders}, wait=0, **given)
        yield Shop(inspected, Changes(inspected, FlowClient.of(aws_services(Settings(), same_clients(), clock=now))))


def _play(clock: FlowClock, runner: FlowRunner, note: str) -> None:
    client = FlowClient.of(aws_services(Settings(), same_clients(), clock=clock))
    for number in range(1, 9):
        order = ShopOrder(order_id=f"order-{number}", note=note if number == 7 else "")
        runner.send(ShopOrders, order, request_id=f"web-{number}")
        runner.run(within=timedelta(minutes=1))
        clock.advance(minutes=25)
    for number, paid in ((1, 20), (2, 13), (4, 35)):
        client.answer(ShopOrders, f"payment/order-{number}", paid)
        runner.run(within=timedelta(minutes=1))
        clock.advance(minutes=20)

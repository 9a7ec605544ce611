"""A flow that asks others, where something is refused for good: each object is then requested by itself as well."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from flowguard import PER_REQUEST, Done, Flow, Outcome, Stage, Step
from flowguard.failed import Failed
from flowguard.testing.explorer import replay
from tests.proofs.prove.flows import Order

TABLES = {"packed": "order_id"}


class Checks(Stage[Order], name="checks"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done({"fit": True})


class Check(Flow, name="check", object_id=PER_REQUEST, reply_to=()):
    """Believes an address for its end only where that is signed for the very request."""

    stages = (Checks,)


class Packs(Stage[Order], name="packs"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("packed", {"order_id": order.order_id})
        return Done({"packed": True})


class Pack(Flow, name="pack", object_id="order_id"):
    """Has one run for the object of those that ask."""

    stages = (Packs,)


class Checked(BaseModel):
    fit: dict[str, bool] | Failed


class Packed(BaseModel):
    packed: dict[str, bool] | Failed


class Asks(Stage[Order], name="asks", then="asks-more"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("mails", {"for": order.order_id})
        return AsksMore.when_all(fit=step.ask(Check, order), within=timedelta(hours=1))


class AsksMore(Stage[Checked], name="asks-more", then="ends"):
    def handle(self, checked: Checked, step: Step) -> Outcome:
        return Ends.when_all(packed=step.ask(Pack, Order(order_id=step.object_id)), within=timedelta(hours=1))


class Ends(Stage[Packed], name="ends"):
    def handle(self, packed: Packed, step: Step) -> Outcome:
        return Done()


class Lend(Flow, name="lend", object_id="order_id"):
    stages = (Asks, AsksMore, Ends)


@pytest.mark.parametrize("refused", ["sqs:mails", "dynamodb:packed"])
def test_what_a_flow_asks_is_requested_once_more_where_a_queue_or_table_refuses(refused: str) -> None:
    calls = replay([Lend, Check, Pack], [Order(order_id="o1")], "none", tables=TABLES).timeline
    service, name = refused.split(":")
    (number, *_) = [line.split()[2] for line in calls if name in line and " w" not in line]
    more = "-1" if service == "dynamodb" else ""
    trace = replay([Lend, Check, Pack], [Order(order_id="o1")], f"f{number}{more}", tables=TABLES)
    assert "  … and asked for once more:" in trace.timeline, trace
    assert trace.ok, str(trace)

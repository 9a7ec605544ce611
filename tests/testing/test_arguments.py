"""What a test hands to the runner: what cannot be used is refused by its name, before anything changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.errors import EnvelopeError, SettingsError
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowRunner, NoFlow, sqs_event

TABLES = {"orders": "order_id"}


class Order(BaseModel):
    order_id: str


class Take(Stage[Order], name="take", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Shop(Flow, name="shop", object_id="order_id"):
    stages = (Take,)


ORDER = Order(order_id="o1")


def wrong(value: Any) -> Any:
    """What the type checker would refuse as well."""
    return value


REFUSED: dict[str, tuple[Callable[[FlowRunner], object], str]] = {
    "send(int)": (lambda runner: runner.send(wrong(int), ORDER), "send: <class 'int'> is no Flow; * send(MyFlow, pay"),
    "send(Flow)": (lambda runner: runner.send(Flow, ORDER), "flow.Flow'> is no Flow"),
    "send(Take)": (lambda runner: runner.send(wrong(Take), ORDER), "Take'> is no Flow"),
    "send(a flow's object)": (lambda runner: runner.send(wrong(Shop()), ORDER), "Shop object at *> is no Flow"),
    "send(3)": (
        lambda runner: runner.send(Shop, wrong(3)),
        "send: shop starts with 'take', which takes Order, not int",
    ),
    "send(object_id)": (lambda runner: runner.send(Shop, ORDER, object_id=""), "object_id is ''; give a text"),
    "send(request_id)": (lambda runner: runner.send(Shop, ORDER, request_id=wrong(3)), "request_id is 3; give a text"),
    "send(requested_at)": (
        lambda runner: runner.send(Shop, ORDER, requested_at=wrong("noon")),
        "requested_at is 'noon'; give ms since 1970",
    ),
    "send(reply_to)": (
        lambda runner: runner.send(Shop, ORDER, reply_to=wrong(3)),
        "reply_to is 3; give the name of a queue",
    ),
    "send(attributes)": (
        lambda runner: runner.send(Shop, ORDER, attributes={"tenant": wrong(7)}),
        "attributes is {'tenant': 7}; give each by its name",
    ),
    "serve(int)": (lambda runner: runner.serve(Shop, wrong(int)), "serve: <class 'int'> is no Flow; * serve(MyFlow)"),
    "serve([…])": (lambda runner: runner.serve(wrong([Shop])), "'>] is no Flow"),
    "table(name)": (lambda runner: runner.table(wrong(3), "sku"), "table: name is 3; give the table and its hash key"),
    "table(key)": (lambda runner: runner.table("prices", ""), "table: key is ''; give the table and its hash key"),
    "table(another key)": (
        lambda runner: runner.table("limits", "shop").table("limits", "sku"),
        "table: limits has the key shop already, not sku",
    ),
    "table(3)": (lambda runner: runner.table("prices", "sku", wrong(3)), "item 1 of prices is 3; give each item as"),
    "table(object)": (
        lambda runner: runner.table("prices", "sku", {"sku": "tea", "price": object()}),
        "item 1 of prices has price=<object object at *>, which DynamoDB cannot hold",
    ),
    "table(no key)": (
        lambda runner: runner.table("limits", "shop", {"shop": "berlin"}, {"price": 4}),
        "table: item 2 of limits: * Missing the key shop in the item",
    ),
}


@pytest.mark.parametrize(("act", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_by_name_and_changes_nothing(
    act: Callable[[FlowRunner], object], problem: str, flow_runner: FlowRunner
) -> None:
    with pytest.raises(SettingsError, match=r"flow_runner|items") as raised:
        act(flow_runner)
    assert fnmatchcase(str(raised.value), f"*{problem}*"), raised.value
    with pytest.raises(NoFlow):
        flow_runner.run()
    assert flow_runner.serve(Shop).run().tables.keys() <= {"orders", "limits"}


def test_flows_that_cannot_be_served_together_leave_the_runner_as_it_was(flow_runner: FlowRunner) -> None:
    class Shop2(Flow, name="shop", object_id="order_id"):
        stages = (Take,)

    with pytest.raises(SettingsError, match="two of its flows are named 'shop'"):
        flow_runner.serve(Shop, Shop2)
    with pytest.raises(NoFlow):
        flow_runner.run()
    flow_runner.send(Shop, ORDER)
    assert flow_runner.run().verdicts == ["CLAIMED"]


@pytest.mark.parametrize("within", [3, timedelta(seconds=-1)])
def test_a_time_that_is_none_or_past_is_refused(within: Any, flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, ORDER)
    with pytest.raises(SettingsError) as raised:
        flow_runner.run(within=within)
    assert str(raised.value).startswith(f"flow_runner.run: within is {within!r}; give a time from now on")
    assert flow_runner.run().verdicts == ["CLAIMED"], "nothing was delivered before"


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (ORDER, "event 2 of deliver: *: Order is a payload and no event; send(MyFlow, payload) asks for a run"),
        ([sqs_event("orders", ORDER)], "event 2 of deliver: *: it is a list of events; give them one by one"),
        ({"Records": [{"eventSource": "aws:sqs", "messageId": "m"}]}, "m: body"),
        (object(), "payload: is not JSON"),
    ],
)
def test_events_of_which_one_cannot_be_read_are_not_delivered(
    event: object, problem: str, flow_runner: FlowRunner
) -> None:
    flow_runner.serve(Shop)
    with pytest.raises(EnvelopeError) as raised:
        flow_runner.deliver(sqs_event("orders", ORDER), event)
    assert fnmatchcase(str(raised.value), f"*{problem}*"), raised.value
    assert flow_runner.run().deliveries == ()

"""Flows that share queues, wait where nobody would look for it, or use what cannot be read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import (
    ATTACH,
    Bus,
    Callback,
    Done,
    Flow,
    GroupEnd,
    Outcome,
    Stage,
    Step,
    Topic,
    callback_handler,
    dlq_handler,
    lambda_handler,
)

WITHIN: Final = timedelta(hours=1)
PLACED: Final = Topic("arn:aws:sns:eu-west-1:123456789012:placed")
LETTERS: Final = Topic("arn:aws:sns:eu-west-1:123456789012:letters")
PAID: Final = Bus("default", source="bank", detail_type="Paid")
SHIPPED: Final = Bus("default", source="depot", detail_type="Shipped")
LONGEST: Final = "q" * 80

TABLES: Final = {"declared": "id"}
QUEUES: Final[tuple[object, ...]] = ("mails", PLACED, 7)


class Order(BaseModel):
    order_id: str
    where: str = ""


# -- three flows that share inboxes and dead letters


class OneFirst(Stage[Order], name="first", inbox="shared-1", then="second"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return OneSecond.message(order)


class OneSecond(Stage[Order], name="second", inbox="shared-2"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class One(Flow, name="one", object_id="order_id", retention=timedelta(days=7), dead_letters="shared-letters"):
    stages = (OneFirst, OneSecond)


class TwoFirst(Stage[Order], name="first", inbox="shared-1"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Two(
    Flow,
    name="two",
    object_id="order_id",
    retention=timedelta(days=60),
    dead_letters="shared-letters",
    full_history=True,
):
    stages = (TwoFirst,)


class ThreeFirst(Stage[Order], name="first", inbox="shared-2"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Three(Flow, name="three", object_id="order_id", retention=timedelta(seconds=200), dead_letters="shared-letters"):
    stages = (ThreeFirst,)


shared = lambda_handler(One, Three, Two)
killed_two = dlq_handler(Two)


# -- a later stage waits, is cancelled, and asks whom it cancels


class Child(Stage[Order], name="child", inbox=LONGEST):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Asked(Flow, name="asked", object_id="order_id"):
    stages = (Child,)


class Enter(Stage[Order], name="enter", inbox="to-enter", then="wait"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return WaitLater.message(order)


class WaitLater(Stage[Order], name="wait", inbox="to-wait", then=("answered", "late")):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Answered.when_all(answer=step.ask(Asked, order, cancel_too=True), within=WITHIN, on_timeout="late")


class Answered(Stage[dict[str, Any]], name="answered", inbox="to-answered", then="close"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Close.message(Order(order_id=step.object_id))


class Late(Stage[dict[str, Any]], name="late", inbox="to-late"):
    def handle(self, nothing: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Close(Stage[Order], name="close", inbox="to-close"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Waiting(Flow, name="waiting", object_id="order_id", answers="answers-of-waiting", full_history=True):
    stages = (Enter, WaitLater, Answered, Late, Close)


class Stop(Stage[Order], name="stop", inbox="to-stop"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.cancel(Waiting, order.order_id, why="a mistake")
        step.cancel(Two, order.order_id, why="a mistake")
        return Done()


class Stopping(Flow, name="stopping", object_id="order_id", dead_letters=LETTERS):
    stages = (Stop,)


child = lambda_handler(Asked)
wait = lambda_handler(Waiting, WaitLater)
answered = lambda_handler(Waiting, Answered)
late = lambda_handler(Waiting, Late)
close = lambda_handler(Waiting, Close)
stop = lambda_handler(Stopping)
enter = lambda_handler(Waiting, Enter)


# -- a later stage waits, and the function of the first one reads the answers


class Begin(Stage[Order], name="begin", inbox="to-begin", then="defer"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Defer.message(order)


class Defer(Stage[Order], name="defer", inbox="to-defer", then="finish"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Finish.when_all(answer=step.ask(Asked, order), within=WITHIN)


class Finish(Stage[dict[str, Any]], name="finish", inbox="to-finish"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Deferred(Flow, name="deferred", object_id="order_id"):
    stages = (Begin, Defer, Finish)


finish = lambda_handler(Deferred, Finish)
defer = lambda_handler(Deferred, Defer)
begin = lambda_handler(Deferred, Begin)


# -- requests share a run that asks a group; two events come by one queue


class Gather(Stage[GroupEnd], name="gather", inbox="to-gather"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        return Done()


class Spread(Stage[Order], name="spread", inbox="to-spread", then="gather"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Gather.when_group(step.group("parcels", [("one", order)]), within=WITHIN)


class Sharing(
    Flow,
    name="sharing",
    object_id="order_id",
    on_conflict=ATTACH,
    callbacks=(
        Callback(PAID, id="order_id"),
        Callback(SHIPPED, id="order_id"),
        Callback("answers-of-waiting", id="order_id"),
    ),
):
    stages = (Spread, Gather)


sharing = lambda_handler(Sharing)
events = callback_handler(Sharing, Waiting)


# -- a topic is the inbox of two stages, a FIFO queue gives up to nobody's function


class FromTopic(Stage[Order], name="from-topic", then="again"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Again.message(order)


class Again(Stage[Order], name="again"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class ByTopic(Flow, name="by-topic", object_id="order_id", inbox=PLACED, long_delays=True):
    stages = (FromTopic, Again)


class InOrder(Stage[Order], name="in-order"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.token("decision")  # made, and not waited for
        return Done()


class Ordered(Flow, name="ordered", object_id="order_id", inbox="ordered.fifo"):
    stages = (InOrder,)


by_topic = lambda_handler(ByTopic)
in_order = lambda_handler(Ordered)
links = callback_handler(Ordered)


# -- what cannot be read


class Unread(Stage[Order], name="unread"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put(order.where, order)
        step.check("named", {"id": order.order_id}, condition="attribute_exists(id)")
        step.send(order.where, order)
        return Done()


class Unknown(Flow, name="unknown", object_id="order_id"):
    stages = (Unread,)


unread = lambda_handler(Unknown)

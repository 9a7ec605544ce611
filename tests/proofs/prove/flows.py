"""Flows made to be proved with: each is there for some guards that no other one meets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import boto3
from pydantic import BaseModel

from flowguard import (
    IGNORE,
    PER_REQUEST,
    SUPERSEDE,
    Bus,
    Done,
    Fixed,
    Flow,
    Function,
    Outcome,
    Queue,
    Reject,
    Retry,
    RetryPolicy,
    Stage,
    Step,
    Topic,
)
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.wire.attributes import Attribute

TABLES: Final = {"orders": "order_id", "totals": "day", "notes": "note"}

_TOPIC: Final = f"arn:aws:sns:{REGION}:{ACCOUNT_ID}"


class Order(BaseModel):
    order_id: str
    amount: int = 5
    fail: str = ""
    """What the stages do wrong, in the words of ``_misbehave``."""


class Opened(Order):
    """What the second stage gets: not what the first one got."""

    opened: bool


class Passed(BaseModel):
    """Does not say what the run is for: only the message does."""

    fail: str = ""


class Progress(BaseModel):
    amount: int = 0


def misbehave(order: Order | Passed, stage: str, step: Step[Any]) -> None:
    """``count:2:error`` fails in that stage up to that attempt; the last word says with what."""
    for one in filter(None, order.fail.split(",")):
        where, attempts, how = one.split(":")
        if where == stage and step.attempt <= int(attempts):
            match how:
                case "reject":
                    raise Reject("it can never work")
                case "after":
                    raise Retry("later, please", after=timedelta(seconds=40))
                case "too-long":
                    raise Retry("much later, please", after=timedelta(hours=1))
                case "slow":
                    raise TimeoutError("too slow")
                case "patient":
                    raise LookupError("not there yet")
                case _:
                    raise ValueError("it does not work")


CAREFUL: Final = RetryPolicy(
    attempts=3,
    backoff=Fixed(10),
    jitter=0.5,
    for_errors={
        TimeoutError: RetryPolicy(attempts=2, backoff=Fixed(20), jitter=0),
        LookupError: RetryPolicy(
            attempts=9,
            backoff=Fixed(400),
            jitter=0,
            max_delay=timedelta(seconds=300),
            give_up_after=timedelta(minutes=11),
        ),
    },
)


class Open(Stage[Order, Progress], name="open", then="shut", inbox="to-open", retry=CAREFUL):
    """State, a write, messages to the side, and the next hop."""

    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        misbehave(order, "open", step)
        step.state.amount += order.amount
        step.put("orders", {"order_id": order.order_id, "amount": order.amount, "by": step.request_id})
        step.send("mails", {"opened": order.order_id}, attributes={"kind": Attribute.string("mail")})
        step.send("mails", {"also": order.order_id})
        return Shut.message(Opened(**order.model_dump(), opened=True))


class Shut(Stage[Opened, Progress], name="shut", inbox="to-shut", retry=CAREFUL):
    """An amount that must be added once, and a result out of the state."""

    def handle(self, order: Opened, step: Step[Progress]) -> Outcome:
        misbehave(order, "shut", step)
        step.state.amount += order.amount
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        step.send("mails", {"shut": order.order_id, "amount": step.state.amount})
        return Done({"amount": step.state.amount})


class Pair(Flow, name="pair", object_id="order_id", on_conflict=SUPERSEDE, complete_to="ended", carry=("tenant",)):
    stages = (Open, Shut)


class First(Flow, name="first-wins", object_id="order_id", on_conflict=IGNORE, complete_to="ended"):
    """The first request keeps the object."""

    stages = (Open, Shut)


class Impatient(
    Flow, name="impatient", object_id="order_id", on_conflict=IGNORE, abandoned_after=timedelta(milliseconds=500)
):
    """The first request keeps the object for as long as somebody works on it."""

    stages = (Open, Shut)


class Slowly(Stage[Order], name="slowly", inbox="to-open", timeout=timedelta(minutes=10)):
    """Shares a queue, whose records therefore stay hidden for longer than other stages' leases last."""

    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Slow(Flow, name="slow", object_id="order_id"):
    stages = (Slowly,)


class Each(Flow, name="each", object_id=PER_REQUEST, complete_to="ended"):
    """Every request is a run of its own."""

    stages = (Open, Shut)


class Middle(Stage[Passed, Progress], name="middle", then="last", inbox="to-middle", retry=CAREFUL):
    """Reads the state, writes and sends nothing."""

    def handle(self, passed: Passed, step: Step[Progress]) -> Outcome:
        misbehave(passed, "middle", step)
        step.state.amount += 1
        return Last.message(passed)


class Begin(Stage[Order, Progress], name="begin", then="middle", inbox="to-begin"):
    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        step.state.amount += order.amount
        step.send("mails", {"begun": order.order_id})
        return Middle.message(Passed(fail=order.fail))


class Last(Stage[Passed, Progress], name="last", inbox="to-last"):
    def handle(self, passed: Passed, step: Step[Progress]) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": step.state.amount})
        return Done({"amount": step.state.amount})


class Chain(Flow, name="chain", object_id="order_id", on_conflict=SUPERSEDE):
    """Three hops, so that there is one between two others."""

    stages = (Begin, Middle, Last)


class Count(Stage[Order, Progress], name="count", inbox="to-count"):
    """Adds to the state that it finds, and makes a result of it."""

    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        step.state.amount += order.amount
        return Done({"amount": step.state.amount})


class Counts(Flow, name="counts", object_id="order_id", on_conflict=SUPERSEDE, complete_to="ended"):
    stages = (Count,)


class CountsFirst(Flow, name="counts-first", object_id="order_id", on_conflict=IGNORE, complete_to="ended"):
    stages = (Count,)


class Checked(Stage[Opened], name="checked", inbox="to-check"):
    """Fails for good for as long as nobody has noted the order."""

    def handle(self, order: Opened, step: Step) -> Outcome:
        client: Any = boto3.client  # of all the overloads none is needed here
        dynamodb = client("dynamodb", region_name=REGION)
        noted = dynamodb.get_item(TableName="notes", Key={"note": {"S": order.order_id}}, ConsistentRead=True)
        if "Item" not in noted:
            raise Reject("nobody has noted it")
        return Done({"noted": True})


class ToCheck(Stage[Order], name="to-check", then="checked", inbox="to-begin"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Checked.message(Opened(**order.model_dump(), opened=True))


class Checks(Flow, name="checks", object_id="order_id", complete_to="ended"):
    stages = (ToCheck, Checked)


class Note(Stage[Order], name="noted", inbox="to-note"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("notes", {"note": order.order_id})
        return Done()


class Notes(Flow, name="notes", object_id="order_id"):
    """Notes orders in the table that ``Checks`` looks at."""

    stages = (Note,)


class Alone(Stage[Order], name="alone", inbox="to-alone", retry=CAREFUL):
    """One stage that says nothing."""

    def handle(self, order: Order, step: Step) -> Outcome:
        misbehave(order, "alone", step)
        return Done()


class Lone(Flow, name="lone", object_id="order_id"):
    stages = (Alone,)


class LoneFirst(
    Flow, name="lone-first", object_id="order_id", on_conflict=IGNORE, abandoned_after=timedelta(minutes=4)
):
    """Its longest delay is as long as it takes to be taken for abandoned."""

    stages = (Alone,)


class Hasty(Flow, name="hasty", object_id="order_id", on_conflict=SUPERSEDE, abandoned_after=timedelta(minutes=4)):
    """Where the newest request wins anyway, a retry may wait for longer than that."""

    stages = (Alone,)


class Patiently(
    Stage[Order],
    name="patiently",
    inbox=f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:to-wait",
    retry=RetryPolicy(attempts=3, backoff=Fixed(1_200), jitter=0, max_delay=timedelta(hours=1)),
):
    """Its retries wait for longer than SQS can."""

    def handle(self, order: Order, step: Step) -> Outcome:
        misbehave(order, "patiently", step)
        step.put("orders", {"order_id": order.order_id})
        return Done()


class Patient(Flow, name="patient", object_id="order_id", long_delays=True):
    stages = (Patiently,)


class Spread(Stage[Order], name="spread", inbox=Topic(f"{_TOPIC}:to-spread")):
    """One message to everything that can be sent to, and more to one queue than a call takes."""

    def handle(self, order: Order, step: Step) -> Outcome:
        for number in range(11):
            step.send("many", {"number": number})
        step.send(Topic(f"{_TOPIC}:news"), {"news": order.order_id})
        step.send(Topic(f"{_TOPIC}:news.fifo"), {"news": order.order_id}, group=order.order_id)
        step.send(Function("worker"), {"work": order.order_id})
        step.send(Bus("default", "shop", "ordered"), {"ordered": order.order_id})
        step.send("late", {"late": order.order_id}, delay=60)
        step.send("told.fifo", {"told": order.order_id}, group="a group with blanks")
        return Done(order)


class Everywhere(Flow, name="everywhere", object_id="order_id"):
    stages = (Spread,)


class Starting(Stage[Order], name="starting", inbox="to-start"):
    """Starts another flow, which tells its end."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.start(Lone, order, reply_to=Queue("answers"))
        return Done()


class Starter(Flow, name="starter", object_id="order_id"):
    stages = (Starting,)


class Guarded(
    Stage[Order], name="guarded", inbox="to-guard", retry=RetryPolicy(attempts=2, backoff=Fixed(10), jitter=0)
):
    """Recorded writes with conditions of their own: one that holds, and for a negative amount one that never does."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("notes", {"note": order.order_id}, condition="attribute_not_exists(note)")
        step.delete(
            "orders", {"order_id": order.order_id}, condition="#id <> :id", names={"#id": "by"}, values={":id": 1}
        )
        if order.amount < 0:
            step.update(
                "totals",
                {"day": "monday"},
                "SET #n = :n",
                names={"#n": "amount"},
                values={":n": order.amount},
                condition="attribute_exists(#n) AND #n > :n",
            )
        return Done()


class Guards(Flow, name="guards", object_id="order_id", complete_to="ended"):
    stages = (Guarded,)

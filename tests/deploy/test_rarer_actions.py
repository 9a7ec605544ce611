"""What no run of a shipped flow needs: flows of these tests are run under mishaps, and each call is compared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard import (
    ATTACH,
    Callback,
    Done,
    Flow,
    GroupEnd,
    Outcome,
    Stage,
    Step,
    callback_handler,
    dlq_handler,
    lambda_handler,
)
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.clock import ManualClock
from flowguard.deploy.options import DeployOptions
from flowguard.protocol.callers import MOST_HELD
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_SECRETS
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.points import Point
from tests.deploy.exercised import Made, actions_of, exercised, granted, needs
from tests.deploy.mishaps import REPLIES, Mishap, random_text
from tests.deploy.test_permissions import OF_THE_WORLD, received

WITHIN: Final = timedelta(hours=1)
STOCK: Final = "stock"
TABLES: Final = {STOCK: "item"}


class Order(BaseModel):
    order_id: str


class Text(BaseModel):
    text: str = ""


# -- a run that is cancelled, and one whose answer is too long


class Late(Stage[dict[str, Any]], name="late", inbox="late"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Find(Stage[Order], name="find", inbox="to-find", then="late"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Late.when_all(paid=step.event("paid"), within=WITHIN)


class Price(Flow, name="price", object_id="order_id", callbacks=(Callback("payments", id="order_id"),)):
    stages = (Find, Late)


class Sum(Stage[dict[str, Any]], name="sum", inbox="to-sum"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Describe(Stage[Order], name="describe", inbox="to-describe"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done(Text(text=random_text(200_000)))


class Description(Flow, name="description", object_id="order_id"):
    stages = (Describe,)


class Ask(Stage[Order], name="ask", inbox="to-ask", then="sum"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Sum.when_all(price=step.ask(Price, order, cancel_too=True), within=WITHIN)


class Cart(Flow, name="cart", object_id="order_id"):
    stages = (Ask, Sum)


class Show(Stage[dict[str, Any], Text], name="show", inbox="to-show"):
    def handle(self, answers: dict[str, Any], step: Step[Text]) -> Outcome:
        return Done()


class Look(Stage[Order, Text], name="look", inbox="to-look", then="show"):
    """Leave little room in the run's item for the answer."""

    def handle(self, order: Order, step: Step[Text]) -> Outcome:
        step.state = Text(text=random_text(400_000))
        return Show.when_all(text=step.ask(Description, order), within=WITHIN)


class Listing(Flow, name="listing", object_id="order_id"):
    stages = (Look, Show)


class Cancel(Stage[Order], name="cancel", inbox="to-cancel"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.cancel(Cart, order.order_id, why="a mistake")
        return Done()


class Cancellation(Flow, name="cancellation", object_id="order_id"):
    stages = (Cancel,)


# -- a group, whose answers the function of dead letters may get


class Gather(Stage[GroupEnd], name="gather", inbox="to-gather"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        return Done(len(list(step.answers(dict))))


class Spread(Stage[Order], name="spread", inbox="to-spread", then="gather"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Gather.when_group(step.group("parcels", [("one", order)]), within=WITHIN)


class Round(Flow, name="round", object_id="order_id", callbacks=(Callback("parcels-packed", id="order_id"),)):
    stages = (Spread, Gather)


class Gathered(Stage[GroupEnd], name="gathered", inbox="gathered"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        return Done()


class Rest(Stage[Order], name="rest", inbox="to-rest"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Stop(Flow, name="round-stop", object_id="order_id"):
    stages = (Rest,)


class Visit(Stage[Order], name="visit", inbox="to-visit", then="gathered"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Gathered.when_group(step.group(Stop, [("one", order)], cancel_too=True), within=WITHIN)


class Tour(Flow, name="round-trip", object_id="order_id"):
    stages = (Visit, Gathered)


# -- items that are changed by what they are


class Wish(BaseModel):
    """How many there are to be of an item; None for no item."""

    wish: str
    item: str
    number: int | None


class Count(Stage[Wish], name="count", inbox="to-count"):
    def handle(self, wish: Wish, step: Step) -> Outcome:
        step.modify(STOCK, {"item": wish.item}, lambda _: None if wish.number is None else {"number": wish.number})
        return Done()


class Counting(Flow, name="counting", object_id="wish", on_conflict=ATTACH):
    stages = (Count,)


ask = lambda_handler(Cart, Ask)
sum_up = lambda_handler(Cart, Sum)
find = lambda_handler(Price, Find)
late = lambda_handler(Price, Late)
answers = callback_handler(Price)
describe = lambda_handler(Description)
look = lambda_handler(Listing)
cancel = lambda_handler(Cancellation)
count = lambda_handler(Counting)
spread = lambda_handler(Round, Spread)
gather = lambda_handler(Round, Gather)
packed = callback_handler(Round)
visit = lambda_handler(Tour, Visit)
rest = lambda_handler(Stop)
gathered = lambda_handler(Tour, Gathered)
killed = dlq_handler(Cart, Price)
killed_round = dlq_handler(Round)
killed_counting = dlq_handler(Counting)


def _carts(client: FlowClient) -> None:
    client.start(Cart, Order(order_id="o1"))
    client.start(Cancellation, Order(order_id="o1"))


def _listing(client: FlowClient) -> None:
    client.start(Listing, Order(order_id="o1"))


def _counts(client: FlowClient) -> None:
    for wish, number in enumerate((1, 2, 2, None)):
        client.start(Counting, Wish(wish=str(wish), item="tea", number=number), reply_to=REPLIES)


MISHAPS: Final = (
    (Mishap("nothing"), _carts),
    (Mishap("dies before each dispatch", Point.BEFORE_DISPATCH, always=True), _carts),
    (Mishap("nothing"), _listing),
    (Mishap("nothing"), _counts),
    (Mishap("many ask for the same", joined=MOST_HELD + 2), _counts),
)


@pytest.fixture(scope="module")
def runs() -> tuple[set[Made], set[Made]]:
    """What is granted, and what the runs needed."""
    needed = needs(__name__, options=DeployOptions(reply_to=(REPLIES,), settings=OF_THE_WORLD))
    made: set[Made] = set()
    for mishap, asks in MISHAPS:
        made |= exercised(needed, None, mishap, asks)
    return granted(needed), made


@pytest.mark.slow("runs what a role allows")
def test_all_that_they_need_is_granted(runs: tuple[set[Made], set[Made]]) -> None:
    allowed, made = runs
    assert sorted(made - allowed) == []


def test_an_item_is_made_changed_left_and_removed_by_what_it_is(runs: tuple[set[Made], set[Made]]) -> None:
    _, made = runs
    actions = {action for function, action, name in made if (function, name) == ("counting-count", STOCK)}
    every = {"GetItem", "PutItem", "UpdateItem", "ConditionCheckItem", "DeleteItem"}
    assert actions == {f"dynamodb:{name}" for name in every}


def test_the_end_of_a_run_with_recorded_writes_reads_who_waits_for_it(runs: tuple[set[Made], set[Made]]) -> None:
    assert ("counting-count", "dynamodb:GetItem", "flowguard") in runs[1]


def test_an_answer_that_is_too_long_is_measured_by_a_read(runs: tuple[set[Made], set[Made]]) -> None:
    assert ("listing-look", "dynamodb:GetItem", "flowguard") in runs[1]


def test_an_order_to_cancel_is_read_and_carried_on_where_requests_come(runs: tuple[set[Made], set[Made]]) -> None:
    assert {("cart-ask", "dynamodb:GetItem", "flowguard"), ("cart-ask", "sqs:SendMessage", "to-sum")} <= runs[1]


def test_a_run_that_was_asked_is_cancelled_by_the_stage_after_the_wait(runs: tuple[set[Made], set[Made]]) -> None:
    allowed, made = runs
    assert ("cart-sum-up", "sqs:SendMessage", "to-find") in made
    assert ("price-find", "dynamodb:GetItem", "flowguard") in made
    assert ("price-find", "sqs:SendMessage", "late") in made
    of_others = {
        ("description-describe", "dynamodb:GetItem", "flowguard"),
        ("cart-sum-up", "sqs:SendMessage", "to-describe"),
    }
    assert not of_others & allowed


def test_what_a_group_asks_is_cancelled_by_an_order_of_the_stage_after_the_wait(
    runs: tuple[set[Made], set[Made]],
) -> None:
    allowed, _ = runs
    assert ("round-trip-gathered", "sqs:SendMessage", "round-trip") in allowed
    assert ("round-gather", "sqs:SendMessage", "round") not in allowed, "its group was asked without cancel_too"
    assert ("cart-sum-up", "sqs:SendMessage", "cart") not in allowed, "what it cancels is no group"


def test_an_order_that_was_given_up_is_carried_out_by_the_function_of_dead_letters(
    runs: tuple[set[Made], set[Made]],
) -> None:
    for action in ("dynamodb:GetItem", "dynamodb:UpdateItem"):
        assert ("cart-killed", action, "flowguard") in runs[1]


def test_nothing_is_granted_on_a_table_that_none_of_them_needs(runs: tuple[set[Made], set[Made]]) -> None:
    allowed, made = runs
    others = ("round-", "counting-killed")  # nothing is asked of these
    assert {one for one in allowed - made if one[1].startswith("dynamodb:") and not one[0].startswith(others)} == {
        ("price-answers", "dynamodb:GetItem", "flowguard"),  # nobody answers here
        ("price-answers", "dynamodb:PutItem", "flowguard"),
        ("price-answers", "dynamodb:Query", "flowguard"),
    }


def test_a_group_that_two_invocations_save_is_sent_on_through_its_own_inbox(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(1_800_000_000_000)
    stops = iter((True, False))

    def requests() -> Iterator[tuple[str, Order]]:
        for name in ("one", "two", "three"):
            if name == "three" and next(stops):
                clock.advance(seconds=30)
            yield name, Order(order_id=name)

    def handle(self: Spread, order: Order, step: Step) -> Outcome:
        return Gather.when_group(step.group("parcels", requests()), within=WITHIN)

    monkeypatch.setattr(Spread, "handle", handle)
    for module in ("flowguard.protocol.groups", "flowguard.worker.group_planner"):
        monkeypatch.setattr(f"{module}.MOST_IN_SHARD", 2)
    needed = needs(__name__, options=DeployOptions(reply_to=(REPLIES,)))
    made: set[Made] = set()
    with MemoryAWS(clock=clock) as aws:
        aws.create_table("flowguard")
        for queue in needed.queues:
            aws.create_queue(queue.name)
        services = aws_services(Settings.model_validate(SIMULATED_SECRETS), Clients(), clock=clock)
        FlowClient.of(services).start(Round, Order(order_id="o1"))
        for name, handler, inbox in (
            ("round-spread", spread, "to-spread"),
            ("round-spread", spread, "to-spread"),
            ("round-packed", packed, "round"),
        ):
            with intercept(Recorder()) as calls:
                assert handler.using(services)(received(aws, inbox)) == {"batchItemFailures": []}
            made |= {(name, action, on) for call in calls.calls for action, on in actions_of(call)}
        assert len(received(aws, "parcels")["Messages"]) == 3
    assert {("round-spread", "sqs:SendMessage", "to-spread"), ("round-packed", "sqs:SendMessage", "parcels")} <= made
    assert sorted(made - granted(needed)) == []

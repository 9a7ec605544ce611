"""What users' own unit tests stand on: it needs no AWS, and its values are those of real runs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import testing
from flowguard.flow import Flow
from flowguard.handler import LambdaBudget
from flowguard.outcome import Done, Outcome
from flowguard.stage import Stage
from flowguard.step import NoState, Step
from flowguard.testing import (
    FakeContext,
    ManualClock,
    batch,
    bus_event,
    invocation,
    sns_event,
    sns_to_sqs_event,
    sqs_event,
    step_for,
)
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, Source, normalize
from flowguard.worker.routing import Routes

START = ManualClock().now()


class Cart(BaseModel):
    cart_id: str


class CartState(BaseModel):
    total: int = 0


class Price(Stage[Cart, CartState], name="price"):
    def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:
        step.state.total += 1
        step.put("carts", payload)
        step.send("emails", payload)
        return Done(step.state.total)


class Stateless(Stage[Cart], name="stateless"):
    def handle(self, payload: Cart, step: Step) -> Outcome:
        return Done()


class PriceCart(Flow, name="price-cart", object_id="cart_id"):
    stages = (Price,)


CART = Cart(cart_id="c-1")


def test_what_tests_a_stage_needs_neither_boto3_nor_moto_nor_pytest() -> None:
    check = (
        "import sys; from flowguard.testing import FakeContext, ManualClock, SeededIds, Tally, sqs_event, step_for;"
        "print(sorted({'boto3', 'botocore', 'moto', 'pytest', 'time_machine'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_all_of_it_is_listed_and_there() -> None:
    assert all(getattr(testing, name).__name__ == name for name in testing.__all__)
    assert set(testing.__all__) <= set(dir(testing))


def test_type_checkers_see_the_same_names_from_the_same_places() -> None:
    page = ast.parse(Path(testing.__file__).read_text(encoding="utf-8"))
    block = next(node for node in page.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names}
    assert seen == {name: f"flowguard.{module}" for name, module in testing._HOME.items()}


def test_a_name_that_is_not_there_is_missed_as_usual() -> None:
    with pytest.raises(AttributeError, match=r"module 'flowguard\.testing' has no attribute 'sqs_events'"):
        _ = testing.sqs_events  # type: ignore[attr-defined]  # on purpose


# -- steps ------------------------------------------------------------------------------------------------------------


def test_a_stage_is_tested_by_calling_it() -> None:
    step = step_for(Price)
    assert Price().handle(CART, step) == Done(1)
    assert (step.state, len(step.writes), len(step.sends)) == (CartState(total=1), 1, 1)


def test_a_step_begins_with_the_state_of_a_new_run_or_the_one_given() -> None:
    given = CartState(total=7)
    assert step_for(Price).state == CartState()
    assert step_for(Price, state=given).state is given
    assert step_for(Stateless).state == NoState()


def test_a_step_without_arguments_is_the_first_attempt_of_a_first_hop() -> None:
    step = step_for(Price)
    assert (step.object_id, step.request_id, step.hop, step.attempt) == ("object-1", "request-1", 1, 1)
    assert step.requested_at == step.now() == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_step_may_be_of_any_moment_of_a_run() -> None:
    yesterday = datetime(2025, 12, 31, 12, tzinfo=UTC)
    carried = {"tenant": Attribute.string("shop-1")}
    step = step_for(Price, object_id="c", request_id="r", hop=3, retry=2, requested_at=yesterday, attributes=carried)
    assert (step.object_id, step.request_id, step.hop, step.attempt) == ("c", "r", 3, 3)
    assert (step.requested_at, step.attributes) == (yesterday, carried)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        step_for(Price, requested_at=datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake


def test_two_steps_share_nothing() -> None:
    Price().handle(CART, step_for(Price))
    assert (step_for(Price).writes, step_for(Price).sends, step_for(Price).state) == ([], [], CartState())


# -- events -----------------------------------------------------------------------------------------------------------

Builder = Callable[..., Any]
BUILDERS: list[Builder] = [sqs_event, sns_event, sns_to_sqs_event]


def one(event: Any) -> Envelope:
    (found,) = normalize(event)
    assert isinstance(found, Envelope), found.error
    return found


@pytest.mark.parametrize(
    ("build", "source"),
    [(sqs_event, Source.SQS), (sns_event, Source.SNS_LAMBDA), (sns_to_sqs_event, Source.SNS_SQS)],
)
def test_an_event_is_read_as_what_it_stands_for(build: Builder, source: Source) -> None:
    found = one(build("carts", CART, attributes={"shop": "berlin"}))
    assert (found.source, found.message) == (source, '{"cart_id":"c-1"}')
    assert found.attributes == {"shop": Attribute.string("berlin")}


@pytest.mark.parametrize(
    ("payload", "text"), [(CART, '{"cart_id":"c-1"}'), ({"cart": 1}, '{"cart":1}'), ("ж", "ж"), ("", "")]
)
@pytest.mark.parametrize("build", BUILDERS)
def test_any_payload_of_a_stage_goes_into_an_event(build: Builder, payload: Any, text: str) -> None:
    assert one(build("carts", payload)).message == text


@pytest.mark.parametrize("build", BUILDERS)
def test_attributes_are_of_the_kind_of_their_values(build: Builder) -> None:
    given = {"text": "a", "whole": 1, "money": Decimal("4.20"), "bytes": b"\0", "own": Attribute.array(["a"])}
    assert one(build("carts", CART, attributes=given)).attributes == {
        "text": Attribute("String", "a"),
        "whole": Attribute("Number", "1"),
        "money": Attribute("Number", "4.20"),
        "bytes": Attribute("Binary", "AA=="),
        "own": Attribute("String.Array", '["a"]'),
    }


@pytest.mark.parametrize("build", BUILDERS)
def test_equal_arguments_are_one_message_delivered_twice(build: Builder) -> None:
    assert build("carts", CART) == build("carts", CART)
    ids = {one(build(place, cart)).message_id for place in ("a", "b") for cart in (CART, Cart(cart_id="c-2"))}
    assert len(ids) == 4
    assert one(build("carts", CART)).message_id != one(build("carts", CART, message_id="m-2")).message_id


def test_an_event_of_a_bus_is_read_as_one_and_goes_into_queues_and_topics() -> None:
    event = bus_event(CART, source="shop", detail_type="Cart submitted", time=START + 5_678)
    for found in (one(event), one(sqs_event("carts", event)), one(sns_event("told", event))):
        assert found.event is not None
        assert (found.message, found.event.time) == ('{"cart_id":"c-1"}', START + 5_000)
    assert bus_event(CART) == bus_event(CART)
    assert bus_event(CART)["id"] != bus_event(Cart(cart_id="c-2"))["id"]


def test_places_are_names_or_arns() -> None:
    arn = "arn:aws:sqs:us-east-1:210987654321:carts"
    assert one(sqs_event("carts", CART)).queue_arn == "arn:aws:sqs:eu-west-1:123456789012:carts"
    assert one(sqs_event(arn, CART)).queue_arn == arn
    assert one(sns_event("told", CART)).topic_arn == "arn:aws:sns:eu-west-1:123456789012:told"


def test_a_queue_says_when_and_how_often() -> None:
    found = one(sqs_event("carts", CART, sent_at=START + 5, receive_count=3))
    assert (found.sent_at, found.receive_count, found.is_fifo, found.group_id) == (START + 5, 3, False, None)


def test_a_fifo_queue_says_its_group() -> None:
    found = one(sqs_event("carts.fifo", CART))
    assert (found.is_fifo, found.group_id) == (True, "group-1")
    assert one(sqs_event("carts.fifo", CART, group="c-1")).group_id == "c-1"


def test_a_topics_message_keeps_its_id_and_time_in_every_queue() -> None:
    first, second = (one(sns_to_sqs_event(queue, CART, message_id="n-1", sent_at=START + 9)) for queue in ("a", "b"))
    assert first.message_id != second.message_id
    assert first.sns_message_id == second.sns_message_id == "n-1"
    assert (first.published_at, first.sent_at) == (START, START + 9)
    assert one(sns_to_sqs_event("a", CART, topic="told", subject="hello")).subject == "hello"


def test_a_direct_call_gives_the_payload_itself() -> None:
    assert invocation(CART) == {"cart_id": "c-1"}
    assert (invocation("text"), invocation({"a": Decimal("1.5")})) == ("text", {"a": "1.5"})
    assert one(invocation(CART)).message == '{"cart_id":"c-1"}'


def test_a_batch_has_the_records_of_its_events_in_order() -> None:
    found = batch(sqs_event("carts", "1"), sns_to_sqs_event("carts", "2"), sqs_event("carts", "3"))
    assert [one({"Records": [record]}).message for record in found["Records"]] == ["1", "2", "3"]


def test_an_event_finds_its_stage() -> None:
    arrival = Routes([PriceCart]).resolve(one(sqs_event("price-cart", CART)), START)
    assert (arrival.stage, arrival.message.object_id, arrival.message.requested_at) == (Price, "c-1", START)


# -- the context ------------------------------------------------------------------------------------------------------


def test_the_time_left_shrinks_with_the_clock_and_is_never_negative() -> None:
    clock = ManualClock()
    budget = LambdaBudget(FakeContext(timeout=timedelta(seconds=10), clock=clock))
    assert budget.remaining() == 10_000
    clock.advance(seconds=9.5)
    assert budget.remaining() == 500
    clock.advance(seconds=1)
    assert budget.remaining() == 0


def test_a_context_names_its_function() -> None:
    context = FakeContext("price-cart", aws_request_id="i-1")
    assert context.invoked_function_arn == "arn:aws:lambda:eu-west-1:123456789012:function:price-cart"
    assert (context.function_name, context.aws_request_id) == ("price-cart", "i-1")
    assert context.log_group_name == "/aws/lambda/price-cart"

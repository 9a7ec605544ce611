"""Messages are recorded under ids that stay the same, and refused where no service would take them."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.errors import RunFailed, SettingsError, TooLarge
from flowguard.flow import UNTIL_RESET, Flow
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run_orders import order_parts
from flowguard.recorded.side_messages import SideMessages
from flowguard.step import Step
from flowguard.testing import step_for
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import FLOW_STAGE, OWN_ATTRIBUTES, PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.wire.signing import UNSIGNED
from tests.recorded.carts import Cart, CartState, Price, PriceCart
from tests.sent_ids import readable

TOPIC = "arn:aws:sns:eu-west-1:123456789012:told"


def test_a_send_carries_an_id_of_its_own_and_the_time_of_the_hop(step: Step[CartState]) -> None:
    step.send("emails", {"cart": "c-1"})
    step.send(Topic("arn:aws:sns:eu-west-1:123456789012:told"), "text")
    first, second = step.sends
    assert (first.kind, first.to, first.body, readable(first.id)) == (
        Kind.SIDE,
        Queue("emails"),
        '{"cart":"c-1"}',
        "r-1.2.0",
    )
    assert first.attributes == {
        REQUEST_ID: Attribute.string(first.id),
        REQUESTED_AT: Attribute.number(ManualClock().now()),
        PLACE: Attribute.string('{"depth":1}'),
    }
    assert (readable(second.id), second.body) == ("r-1.2.1", "text")


@pytest.mark.parametrize(("own", "says"), [(7, True), (8, False)])
def test_a_send_goes_without_its_depth_where_there_is_no_room_for_it(own: int, says: bool) -> None:
    step = step_for(Price)
    step.send("emails", "text", attributes={f"own-{number}": "x" for number in range(own)})
    assert (PLACE in step.sends[0].attributes) is says


def test_a_send_that_says_its_own_place_keeps_it(step: Step[CartState]) -> None:
    step.send("carts", "text", attributes={PLACE: '{"object":"c-2"}'})
    assert step.sends[0].attributes[PLACE].value == '{"object":"c-2"}'


def test_a_handler_that_runs_again_sends_under_the_same_ids() -> None:
    def ids(retry: int) -> list[str]:
        step = step_for(Price, hop=2, retry=retry)
        step.send("emails", "one")
        step.start(PriceCart, Cart(cart_id="c-2"))
        step.send("emails", "two")
        return [readable(send.id) for send in step.sends]

    assert ids(0) == ids(4) == [f"request-1.2.{number}" for number in range(3)]


def test_a_send_takes_along_what_the_flow_carries_and_what_the_handler_adds() -> None:
    step = step_for(Price, attributes={"tenant": Attribute.string("shop-1")})
    step.send("emails", "text", attributes={"kind": Attribute.string("receipt")}, delay=60, group="c-1")
    (send,) = step.sends
    assert step.attributes == {"tenant": Attribute.string("shop-1")}
    assert {"tenant", "kind", REQUEST_ID, REQUESTED_AT, PLACE} == set(send.attributes)
    assert (send.delay, send.group) == (60, "c-1")


def test_more_attributes_than_a_message_may_have_are_refused(step: Step[CartState]) -> None:
    with pytest.raises(RunFailed, match="a message to sqs:emails has 11 attributes of at most 10"):
        step.send("emails", "text", attributes={f"a{n}": Attribute.string("x") for n in range(9)})
    assert step.sends == []


def test_a_message_that_no_service_would_take_is_refused(step: Step[CartState]) -> None:
    with pytest.raises(TooLarge, match=f"a message to sns:{TOPIC} is too large"):
        step.send(Topic(TOPIC), "x" * 262_144)
    assert step.sends == []


@pytest.mark.parametrize(
    ("to", "delay", "told"),
    [
        (Queue("emails"), 901, "a message to sqs:emails cannot be delayed by 901 s; SQS delays by 0 to 900"),
        (Queue("emails"), -1, "a message to sqs:emails cannot be delayed by -1 s; SQS delays by 0 to 900"),
        (Queue("emails.fifo"), 1, "a message to sqs:emails.fifo cannot be delayed; only standard queues do that"),
        (Topic(TOPIC), 1, f"a message to sns:{TOPIC} cannot be delayed; only standard queues do that"),
        (Function("f"), 1, "a message to lambda:f cannot be delayed; only standard queues do that"),
        (Bus("b", "s", "t"), 1, "a message to events:s|t|b cannot be delayed; only standard queues do that"),
    ],
)
def test_a_delay_that_would_not_be_kept_is_refused(
    step: Step[CartState], to: Destination, delay: int, told: str
) -> None:
    with pytest.raises(RunFailed) as caught:
        step.send(to, "text", delay=delay)
    assert str(caught.value) == told


def test_a_payload_that_json_cannot_hold_is_refused_by_its_type(step: Step[CartState]) -> None:
    with pytest.raises(TypeError, match="dict cannot become JSON"):
        step.send("emails", {"secret": object()})
    assert step.sends == []


# -- starting another flow --------------------------------------------------------------------------------------------


def test_a_started_flow_gets_a_request_of_its_own() -> None:
    step = step_for(Price, request_id="r-1", hop=2, attributes={"tenant": Attribute.string("shop-1")})
    step.start(PriceCart, Cart(cart_id="c-2"), reply_to="told")
    (send,) = step.sends
    assert (send.kind, send.to, readable(send.id), send.group) == (Kind.SIDE, Queue("carts"), "r-1.2.0", "c-2")
    assert set(send.attributes) == {*OWN_ATTRIBUTES, "tenant"}
    assert send.attributes[REQUEST_ID].value == send.id
    assert send.attributes[FLOW_STAGE].value == "price-cart/price"
    place = json.loads(send.attributes[PLACE].value)
    assert place.pop("sig").startswith("under-test.")
    assert place == {"version": 1, "hop": 1, "object": "c-2", "reply_to": "sqs:told", "depth": 1}


def test_a_started_flow_that_names_its_requests_by_their_payload_does_so(step: Step[CartState]) -> None:
    class KeyedCart(Flow, name="price-cart", object_id="cart_id", request_id="cart_id"):
        stages = (Price,)

    step.start(KeyedCart, Cart(cart_id="c-2"))
    (send,) = step.sends
    assert send.attributes[REQUEST_ID].value == "c-2"
    assert send.id != "c-2", "the message has an id of its own, by which a FIFO queue knows copies of it"


def test_a_started_flow_may_be_given_its_object_and_no_other_than_its_payloads(step: Step[CartState]) -> None:
    step.start(PriceCart, Cart(cart_id="c-2"), object_id="c-2")
    assert '"object":"c-2"' in step.sends[0].attributes[PLACE].value
    with pytest.raises(RunFailed, match="object_id='c-3' contradicts the payload's 'cart_id'"):
        step.start(PriceCart, Cart(cart_id="c-2"), object_id="c-3")


def test_a_flow_is_not_started_with_what_it_does_not_take(step: Step[CartState]) -> None:
    wrong: Any = CartState()
    with pytest.raises(TypeError, match="price-cart starts with 'price', which takes Cart, not CartState"):
        step.start(PriceCart, wrong)
    assert step.sends == []


def test_orders_to_reset_and_cancel_take_along_what_the_flow_carries() -> None:
    class Cached(Flow, name="price-cart", object_id="cart_id", keep_result=UNTIL_RESET):
        stages = (Price,)

    tenant = Attribute.string("shop-1")
    step = step_for(Price, attributes={"tenant": tenant})
    step.reset(Cached, "c-2")
    step.cancel(Cached, "c-2", why="not wanted")
    assert [send.attributes["tenant"] for send in step.sends] == [tenant, tenant]


class Kept(Flow, name="price-cart", object_id="cart_id", keep_result=UNTIL_RESET):
    stages = (Price,)


class Trusting(Flow, name="price-cart", object_id="cart_id", keep_result=UNTIL_RESET, trust_senders=True):
    stages = (Price,)


def test_a_flow_that_keeps_no_result_is_not_reset(step: Step[CartState]) -> None:
    with pytest.raises(RunFailed, match="price-cart keeps no result that could be reset"):
        step.reset(PriceCart, "c-1")
    assert step.sends == []


def test_an_order_to_reset_that_nobody_would_believe_is_refused() -> None:
    messages = SideMessages(step_for(Price)._message, UNSIGNED, 1)
    with pytest.raises(SettingsError, match="believes orders to reset only with a signature"):
        messages.reset(Kept, "c-1")
    messages.reset(Trusting, "c-1")
    assert len(messages.recorded) == 1


def test_an_order_to_cancel_goes_where_requests_of_the_object_go() -> None:
    step = step_for(Price)
    step.cancel(Kept, "c-2", why="not wanted")
    (send,) = step.sends
    assert (send.to, send.group) == (Queue("price-cart"), "c-2")
    key, place = order_parts(send.attributes[PLACE].value) or ("", {})
    assert (place[key]["object"], place[key]["why"]) == ("c-2", "not wanted")


@pytest.mark.parametrize(
    ("delay", "instead"),
    [
        (timedelta(minutes=1), "60"),
        (1.2, "2"),
        (math.inf, "30"),
        (timedelta.max, str(math.ceil(timedelta.max.total_seconds()))),
        ("30", "30"),
        (True, "30"),
    ],
    ids=str,
)
def test_a_delay_is_in_whole_seconds(step: Step[CartState], delay: Any, instead: str) -> None:
    with pytest.raises(RunFailed, match=f"write whole seconds: delay={instead}$"):
        step.send("emails", "text", delay=delay)


def test_the_longest_delay_is_a_quarter_of_an_hour(step: Step[CartState]) -> None:
    step.send("emails", "text", delay=900)
    assert step.sends[0].delay == 900


def test_a_destination_that_is_none_is_refused(step: Step[CartState]) -> None:
    with pytest.raises(RunFailed):
        step.send("no queue's name", "text")
    assert step.sends == []

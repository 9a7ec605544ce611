"""A step records what a handler asks for. Nothing of it has happened when the handler returns."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flowguard.clock import ManualClock
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.errors import RunFailed, TooLarge, TooManyWrites
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import Kind
from flowguard.stage import Stage
from flowguard.step import NoState, Step
from flowguard.testing import step_for
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import FLOW_STAGE, OWN_ATTRIBUTES, PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.writes import Check, Condition, Delete, Put, Update
from tests.sent_ids import readable

TOPIC = "arn:aws:sns:eu-west-1:123456789012:told"


class Cart(BaseModel):
    model_config = ConfigDict(validate_by_name=True)

    cart_id: str = Field(alias="cartId")
    total: Decimal = Decimal("4.20")


class CartState(BaseModel):
    total: Decimal = Decimal(0)


class Price(Stage[Cart, CartState], name="price"):
    def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Done()


class PriceCart(Flow, name="price-cart", object_id="cart_id", inbox="carts", carry=("tenant",)):
    stages = (Price,)


@pytest.fixture
def step() -> Step[CartState]:
    return step_for(Price, object_id="c-1", request_id="r-1", hop=2, retry=3)


# -- what it tells ----------------------------------------------------------------------------------------------------


def test_a_step_knows_its_run_and_attempt(step: Step[CartState]) -> None:
    assert (step.object_id, step.request_id, step.hop, step.attempt) == ("c-1", "r-1", 2, 4)


def test_times_are_of_the_clock_that_was_handed_in() -> None:
    clock = ManualClock()
    step = step_for(Price, clock=clock)
    clock.advance(seconds=1.5)
    assert step.requested_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert step.now() == datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


def test_the_state_is_changed_in_place_or_replaced(step: Step[CartState]) -> None:
    step.state.total += 1
    assert step.state == CartState(total=Decimal(1))
    step.state = CartState(total=Decimal(2))
    assert step.state.total == 2


def test_a_flow_without_state_cannot_be_given_any_by_mistake() -> None:
    with pytest.raises(ValidationError):
        NoState.model_validate({"total": 1})


def test_its_log_says_which_run_it_is_about(step: Step[CartState], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "flowguard.stage"):
        step.log.info("priced %s lines", 3)
    (line,) = caplog.records
    said = vars(line)
    assert line.getMessage() == "priced 3 lines"
    assert (said["request_id"], said["stage"], said["hop"]) == ("r-1", "price", 2)


# -- writes -----------------------------------------------------------------------------------------------------------


def test_writes_are_recorded_in_order(step: Step[CartState]) -> None:
    step.put("carts", {"id": "c-1"}, condition="#s <> :s", names={"#s": "status"}, values={":s": "SENT"})
    step.update("totals", {"day": "monday"}, "ADD n :one", values={":one": 1}, condition="attribute_exists(n)")
    step.delete("drafts", {"id": "c-1"})
    assert step.writes == [
        Put("carts", {"id": "c-1"}, Condition("#s <> :s", {"#s": "status"}, {":s": "SENT"})),
        Update(
            "totals",
            {"day": "monday"},
            Condition("ADD n :one", {}, {":one": 1}),
            Condition("attribute_exists(n)"),
        ),
        Delete("drafts", {"id": "c-1"}),
    ]


def test_a_model_is_written_by_its_aliases_with_its_decimals(step: Step[CartState]) -> None:
    step.put("carts", Cart(cart_id="c-1"))
    assert step.writes == [Put("carts", {"cartId": "c-1", "total": Decimal("4.20")})]


def test_an_item_may_hold_floats(step: Step[CartState]) -> None:
    step.put("carts", {"id": "c-1", "weight": 0.5})
    assert step.writes == [Put("carts", {"id": "c-1", "weight": 0.5})]


def test_what_becomes_of_a_mapping_later_does_not_change_what_was_recorded(step: Step[CartState]) -> None:
    item = {"id": "c-1"}
    step.put("carts", item)
    step.delete("drafts", item)
    item["id"] = "c-2"
    assert step.writes == [Put("carts", {"id": "c-1"}), Delete("drafts", {"id": "c-1"})]


def test_the_hundredth_write_is_refused(step: Step[CartState]) -> None:
    for number in range(99):
        step.put("carts", {"id": str(number)})
    with pytest.raises(TooManyWrites, match=r"stage 'price' records more than 99 writes; one commit is one transact"):
        step.delete("carts", {"id": "0"})
    assert len(step.writes) == 99


# -- messages ---------------------------------------------------------------------------------------------------------


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
    }
    assert (readable(second.id), second.body) == ("r-1.2.1", "text")


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
    assert {"tenant", "kind", REQUEST_ID, REQUESTED_AT} == set(send.attributes)
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
    assert send.attributes[PLACE].value == '{"version":1,"hop":1,"object":"c-2","reply_to":"sqs:told"}'


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


# -- what is to happen where a condition does not hold -----------------------------------------------------------------


def test_a_check_is_recorded_with_its_condition(step: Step[CartState]) -> None:
    step.check("stores", {"id": "s-1"}, "#o = :yes", names={"#o": "open"}, values={":yes": True})
    assert step.writes == [Check("stores", {"id": "s-1"}, Condition("#o = :yes", {"#o": "open"}, {":yes": True}))]


def test_each_kind_of_write_says_what_follows(step: Step[CartState]) -> None:
    step.put("carts", {"id": "c-1"}, condition="attribute_not_exists(id)", else_reject=True)
    step.update("stock", {"id": "pen"}, "ADD n :n", values={":n": 1}, condition="n > :n", else_go_on="pen")
    step.delete("drafts", {"id": "c-1"}, condition="attribute_exists(id)", else_go_on="draft")
    step.check("stores", {"id": "s-1"}, "attribute_exists(id)", else_reject=True)
    found = [write.condition for write in step.writes]
    assert [(one.reject, one.go_on) for one in found if one is not None] == [
        (True, None),
        (False, "pen"),
        (False, "draft"),
        (True, None),
    ]


def test_a_write_that_was_refused_is_left_out_and_the_others_are_not() -> None:
    step = step_for(Price, refused={"pen": {"id": "pen", "n": 0}, "ink": None})
    for name in ("pen", "ink", "paper"):
        step.update("stock", {"id": name}, "ADD n :n", values={":n": -1}, condition="n > :n", else_go_on=name)
    assert [write.key for write in step.writes if isinstance(write, Update)] == [{"id": "paper"}]
    assert step.refused["pen"] == {"id": "pen", "n": 0}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"else_reject": True}, "has none; write condition="),
        ({"else_go_on": "pen"}, "has none; write condition="),
        ({"condition": "n > :n", "else_reject": True, "else_go_on": "pen"}, "write one of them"),
        ({"condition": "n > :n", "else_go_on": ""}, "else_go_on is ''; write a name"),
        ({"condition": "n > :n", "else_go_on": True}, "else_go_on is True; write a name"),
    ],
)
def test_a_write_that_says_it_badly_is_refused(step: Step[CartState], options: dict[str, Any], problem: str) -> None:
    with pytest.raises(RunFailed, match=re.escape(problem)):
        step.update("stock", {"id": "pen"}, "ADD n :n", values={":n": 1}, **options)
    assert step.writes == []


def test_two_writes_of_one_name_are_refused_also_where_the_first_was_left_out() -> None:
    step = step_for(Price, refused={"pen": None})
    step.delete("stock", {"id": "pen"}, condition="n > :n", else_go_on="pen")
    with pytest.raises(RunFailed, match="two writes have else_go_on='pen'"):
        step.delete("stock", {"id": "ink"}, condition="n > :n", else_go_on="pen")


def test_a_check_needs_a_condition(step: Step[CartState]) -> None:
    with pytest.raises(RunFailed, match="has no condition"):
        step.check("stores", {"id": "s-1"}, "")


def test_a_check_and_a_write_of_one_item_are_refused(step: Step[CartState]) -> None:
    step.check("stock", {"id": "pen"}, "n > :n", values={":n": 1})
    with pytest.raises(RunFailed, match="check and update of"):
        step.update("stock", {"id": "pen"}, "ADD n :n", values={":n": 1})


def test_a_token_makes_the_link_with_which_a_person_answers() -> None:
    token = step_for(Price).token("approval")
    link = token.link("https://example.com/answers/", choices=("yes", "no"), with_comment=True)
    assert link == f"https://example.com/answers/{token.text}?answer=yes&answer=no&comment=yes"
    assert token.link("https://example.com", failed=True) == f"https://example.com/{token.text}?failed=true"


def test_a_link_that_cannot_be_made_ends_the_run_and_shows_no_token() -> None:
    token = step_for(Price).token("approval")
    with pytest.raises(RunFailed, match="no link can be made: the base of a link is a URL without query") as refused:
        token.link("example.com/answers?to=you")
    assert token.text not in str(refused.value)
    with pytest.raises(RunFailed, match="no link can be made: the choices of a link: there are more than 8"):
        token.link("https://example.com", choices=("yes",) * 9)

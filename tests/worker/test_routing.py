"""From an envelope to a stage: whose message it is, which run, hop and attempt, and since when it was asked for."""

from __future__ import annotations

import json
import re
import types
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from flowguard.clock import ManualClock
from flowguard.destinations import Queue, Topic
from flowguard.errors import EnvelopeError, OtherRelease, SettingsError, TooEarly, Untrusted
from flowguard.flow import PER_REQUEST, Flow
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import Kind
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import invocation, sns_event, sns_to_sqs_event, sqs_event
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.worker.routing import Arrival, Routes, Unroutable
from flowguard.worker.undeliverable import Undeliverable

START = ManualClock().now()
MINUTE = 60_000


class Cart(BaseModel):
    cart_id: str


CART = Cart(cart_id="c-1")


class Price(Stage[Cart], name="price", then="confirm", inbox="carts"):
    def handle(self, payload: Cart, step: Step) -> Outcome:
        return Done()


class Confirm(Stage[dict[str, Any]], name="confirm", inbox="carts-to-confirm"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Reset(Stage[str], name="reset"):
    def handle(self, payload: str, step: Step) -> Outcome:
        return Done()


class PriceCart(Flow, name="price-cart", object_id="cart_id", version=2, accepts=(1,), carry=("tenant",)):
    stages = (Price, Confirm)


class ResetCache(Flow, name="reset-cache", object_id=PER_REQUEST):
    stages = (Reset,)


class ResetAll(Flow, name="reset-all", object_id=PER_REQUEST, inbox=Topic("arn:aws:sns:us-east-1:123456789012:resets")):
    stages = (Reset,)


class Misjudged(BaseModel):
    """A payload whose own check is broken."""

    cart_id: str

    @field_validator("cart_id")
    @classmethod
    def is_known(cls, cart_id: str) -> str:
        return {"c-1": cart_id}[cart_id]


class Misjudge(Stage[Misjudged], name="misjudge"):
    def handle(self, payload: Misjudged, step: Step) -> Outcome:
        return Done()


class MisjudgeCart(Flow, name="misjudge-cart", object_id="cart_id"):
    stages = (Misjudge,)


ROUTES = Routes([PriceCart])


def envelope(event: Any, **options: Any) -> Envelope:
    (found,) = normalize(event, **options)
    assert isinstance(found, Envelope), found.error
    return found


def arrive(event: Any, *, routes: Routes = ROUTES, now: int = START) -> Arrival:
    return routes.resolve(envelope(event), now)


def addressed(stage: str, place: str = "{}", payload: Any = CART, **more: Any) -> Any:
    """A direct message with flowguard's attributes."""
    queue = "carts-to-confirm" if stage.endswith("/confirm") else "carts"
    return sqs_event(queue, payload, attributes={FLOW_STAGE: stage, PLACE: place, REQUEST_ID: "r-1", **more})


# -- which flow and stage ---------------------------------------------------------------------------------------------


def test_a_message_that_names_its_stage_is_for_that_stage() -> None:
    arrival = arrive(addressed("price-cart/confirm", '{"hop":2,"object":"c-9"}'))
    assert (arrival.flow, arrival.stage, arrival.problem) == (PriceCart, Confirm, None)
    assert (arrival.message.hop, arrival.message.object_id) == (2, "c-9")


def test_a_message_that_names_none_is_for_the_first_stage_of_the_only_flow() -> None:
    arrival = arrive(sqs_event("any-queue", CART))
    assert (arrival.stage, arrival.message.object_id, arrival.payload) == (Price, "c-1", CART)


@pytest.mark.parametrize(("queue", "flow"), [("carts", PriceCart), ("reset-cache", ResetCache)])
def test_several_flows_are_told_apart_by_the_queue_of_their_first_stage(queue: str, flow: type[Flow]) -> None:
    assert arrive(sqs_event(queue, CART), routes=Routes([PriceCart, ResetCache])).flow is flow


def test_several_flows_on_one_queue_are_told_apart_by_what_their_messages_say() -> None:
    routes = Routes([PriceCart, ResetCache])
    assert arrive(addressed("reset-cache/reset"), routes=routes).flow is ResetCache
    assert arrive(addressed("price-cart/price"), routes=routes).flow is PriceCart


def test_only_flows_whose_first_stage_is_served_are_entered() -> None:
    routes = Routes([PriceCart, Confirm, ResetCache])
    assert arrive(sqs_event("any-queue", CART), routes=routes).flow is ResetCache


def test_a_flow_that_is_entered_through_a_topic_is_told_by_no_queue() -> None:
    routes = Routes([ResetAll, PriceCart, ResetCache])
    assert arrive(sqs_event("reset-cache", CART), routes=routes).flow is ResetCache


@pytest.mark.parametrize("event", [sqs_event("other", CART), invocation(CART), sns_event("told", CART)])
def test_what_could_be_for_several_flows_is_for_none(event: Any) -> None:
    with pytest.raises(Unroutable, match=r"names no flow \(flowstage\), and its queue tells none of price-cart/price,"):
        arrive(event, routes=Routes([PriceCart, ResetCache]))


@pytest.mark.parametrize("named", ["reset-cache/reset", "", "/", "price-cart-2/price"])
def test_a_message_of_a_flow_that_is_not_served_stays_where_it_is(named: str) -> None:
    with pytest.raises(Unroutable, match=r"is not served here; price-cart/price, price-cart/confirm is") as caught:
        arrive(addressed(named))
    assert repr(named) in str(caught.value)


def test_what_a_message_names_is_shown_as_far_as_it_is_needed() -> None:
    with pytest.raises(Unroutable) as caught:
        arrive(addressed("x" * 200_000))
    assert len(str(caught.value)) < 200


def test_a_message_of_a_stage_that_is_not_served_stays_where_it_is() -> None:
    with pytest.raises(Unroutable, match="price-cart/confirm is not served here; price-cart/price is"):
        arrive(addressed("price-cart/confirm", '{"hop":2,"object":"c-1"}'), routes=Routes([PriceCart, Price]))


# -- what can never work keeps its place, so that its run can be ended ------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "place", "payload", "told"),
    [
        ("price-cart/pay", '{"hop":2,"object":"c-9"}', CART, "price-cart has no stage 'pay'; it has price, confirm"),
        (
            "price-cart/price",
            '{"hop":2,"object":"c-9","version":3}',
            CART,
            "price-cart does not read version 3, only [1, 2]",
        ),
        ("price-cart/price", '{"hop":2}', "no json", "the payload of price is no Cart: the whole: Invalid JSON"),
        ("price-cart/price", '{"hop":2}', {}, "the payload of price is no Cart: cart_id: Field required"),
        ("price-cart/price", '{"hop":2}', {"cart_id": ""}, "the payload has no usable 'cart_id' to name the object by"),
    ],
)
def test_what_can_never_work_says_why_and_which_hop_it_is(stage: str, place: str, payload: Any, told: str) -> None:
    arrival = arrive(addressed(stage, place, payload))
    assert told in str(arrival.problem)
    assert (arrival.flow, arrival.message.request_id, arrival.message.hop) == (PriceCart, "r-1", 2)


def test_a_bug_in_a_payloads_own_check_is_not_taken_for_a_bad_message_but_for_another_release() -> None:
    routes = Routes([MisjudgeCart])
    assert arrive(sqs_event("carts", CART), routes=routes).message.object_id == "c-1"
    arrival = arrive(sqs_event("carts", {"cart_id": "c-2"}), routes=routes)
    assert isinstance(arrival.problem, OtherRelease)
    assert str(arrival.problem) == "the payload of misjudge cannot be read: a validator raises KeyError"


@pytest.mark.parametrize("version", [1, 2])
def test_an_accepted_version_is_read(version: int) -> None:
    arrival = arrive(addressed("price-cart/price", f'{{"version":{version}}}'))
    assert (arrival.problem, arrival.message.version) == (None, version)


def test_a_message_that_says_no_version_is_of_the_flows_own() -> None:
    assert arrive(sqs_event("carts", CART)).message.version == 2


def test_a_payload_that_cannot_be_read_leaves_the_object_as_it_is_named() -> None:
    arrival = arrive(addressed("price-cart/price", '{"object":"c-9"}', "no json"))
    assert (arrival.payload, arrival.problem, arrival.message.object_id) == (None, None, "c-9")


def test_a_payload_is_decoded_once_where_its_object_is_compared() -> None:
    assert arrive(addressed("price-cart/price", '{"object":"c-1"}')).payload == CART


def test_who_only_looks_reads_what_a_stage_would_refuse() -> None:
    forged = envelope(addressed("price-cart/nowhere", '{"object":"c-9"}'))
    assert ROUTES.resolve(forged, START, trust=None).message.object_id == "c-9"
    with pytest.raises(Untrusted):
        ROUTES.resolve(forged, START)


def test_what_no_bus_sent_is_no_event() -> None:
    assert not arrive(sqs_event("carts", CART)).message.is_event


def test_a_later_hops_payload_is_not_read() -> None:
    assert arrive(addressed("price-cart/confirm", '{"object":"c-9","hop":2}', {"cart_id": "c-1"})).payload is None


def test_the_flow_carries_the_attributes_it_names_and_no_other() -> None:
    arrival = arrive(sqs_event("carts", CART, attributes={"tenant": "shop-1", "colour": "red"}))
    assert arrival.message.carried == {"tenant": Attribute.string("shop-1")}


def test_a_carried_attribute_that_no_queue_takes_is_refused_by_name() -> None:
    """Only a direct invocation brings one, and nothing that the flow sends could carry it."""
    event = sqs_event("carts", CART, attributes={"tenant": "\0"}, message_id="m-1")
    with pytest.raises(EnvelopeError, match=r"m-1: attributes: the message has the character .* in the attribute 'ten"):
        arrive(event)


def test_an_attempt_says_its_number() -> None:
    error = '"error":["OSError","gone",5]'
    message = arrive(addressed("price-cart/price", f'{{"retry":3,"redrive":1,{error},"reply_to":"sqs:me"}}')).message
    assert message.attempt == (1, 3)
    assert message.first_error is not None
    assert (message.first_error.type, message.reply_to) == ("OSError", "sqs:me")


def test_a_redriven_message_begins_without_the_error_that_ended_it() -> None:
    error = '"error":["OSError","gone",5],"attempts":3'
    message = arrive(addressed("price-cart/price", f'{{"redrive":1,{error}}}')).message
    assert (message.attempt, message.first_error, message.attempts) == ((1, 0), None, None)


def test_a_queues_own_count_says_nothing_about_the_attempt() -> None:
    assert arrive(sqs_event("carts.fifo", CART, receive_count=3)).message.retry == 0
    assert arrive(sqs_event("carts", CART, receive_count=3)).message.retry == 0


# -- the request id, first found --------------------------------------------------------------------------------------


def with_id(build: Any, **options: Any) -> Any:
    return build("carts", CART, attributes={REQUEST_ID: "r-1"}, message_id="m-1", **options)


@pytest.mark.parametrize(
    ("event", "request_id", "weak"),
    [
        (with_id(sqs_event), "r-1", False),
        (with_id(sns_to_sqs_event), "r-1", False),
        (with_id(sns_event), "r-1", False),
        (sns_to_sqs_event("carts", CART, message_id="n-1"), "n-1", False),
        (sns_event("told", CART, message_id="n-1"), "n-1", False),
        (sqs_event("carts", CART, message_id="m-1"), "m-1", True),
    ],
)
def test_a_request_is_named_by_the_strongest_id_there_is(event: Any, request_id: str, weak: bool) -> None:
    arrival = arrive(event)
    assert (arrival.message.request_id, arrival.weak_id) == (request_id, weak)


def test_a_direct_call_is_named_by_its_invocation() -> None:
    arrival = ROUTES.resolve(envelope(invocation(CART), invocation_id="i-1"), START)
    assert (arrival.message.request_id, arrival.weak_id) == ("i-1", False)


def test_an_empty_request_id_is_no_id() -> None:
    with pytest.raises(EnvelopeError, match=r"m-1: attributes.uniquerequestid: is empty"):
        arrive(sqs_event("carts", CART, attributes={REQUEST_ID: ""}, message_id="m-1"))


@pytest.mark.parametrize(
    ("request_id", "told"),
    [("x" * 1_025, "has 1,025 bytes of at most 1,024"), ("a\x01", "has the character U+0001, which SQS refuses")],
)
def test_a_request_id_that_could_not_travel_on_is_refused(request_id: str, told: str) -> None:
    with pytest.raises(EnvelopeError, match=f"m-1: attributes.uniquerequestid: {re.escape(told)}"):
        arrive(sqs_event("carts", CART, attributes={REQUEST_ID: request_id}, message_id="m-1"))
    assert arrive(sqs_event("carts", CART, attributes={REQUEST_ID: "x" * 1_024})).message.request_id


# -- the flow's own rule for the request id ---------------------------------------------------------------------------


class KeyedCart(
    Flow, name="price-cart", object_id=PER_REQUEST, request_id="cart_id", accepts=(1,), entries=("confirm",)
):
    stages = (Price, Confirm)


KEYED = Routes([KeyedCart])


@pytest.mark.parametrize(
    "event",
    [
        sqs_event("carts", CART),
        sns_to_sqs_event("carts", CART),
        sns_event("told", CART),
        invocation(CART),
        sqs_event("carts", CART, attributes={PLACE: '{"retry":2}', FLOW_STAGE: "price-cart/price"}),
        sqs_event("carts", CART, attributes={PLACE: '{"redrive":1,"weak":true}', REQUEST_ID: "m-1"}),
    ],
)
def test_a_rule_names_the_request_whoever_sent_it(event: Any) -> None:
    arrival = arrive(event, routes=KEYED)
    assert (arrival.message.request_id, arrival.message.object_id, arrival.weak_id) == ("c-1", "c-1", False)
    assert (arrival.payload, arrival.problem) == (CART, None)


@pytest.mark.parametrize("event", [with_id(sqs_event), with_id(sns_to_sqs_event), with_id(sns_event)])
def test_the_senders_own_id_counts_before_the_rule(event: Any) -> None:
    assert arrive(event, routes=KEYED).message.request_id == "r-1"


def test_a_payload_is_not_read_where_the_sender_names_its_request() -> None:
    event = sqs_event("carts", "no json", attributes={REQUEST_ID: "r-1", PLACE: '{"object":"r-1"}'})
    assert arrive(event, routes=KEYED).problem is None


@pytest.mark.parametrize(("stage", "place"), [("price", '{"hop":2}'), ("confirm", '{"hop":1}')])
def test_a_rule_is_for_requests_at_the_first_stage(stage: str, place: str) -> None:
    attributes = {FLOW_STAGE: f"price-cart/{stage}", PLACE: place}
    arrival = arrive(sqs_event("carts", CART, attributes=attributes, message_id="m-1"), routes=KEYED)
    assert (arrival.message.request_id, arrival.weak_id) == ("m-1", True)


@pytest.mark.parametrize("stage", ["price", "confirm"])
def test_a_weak_id_counts_where_no_rule_names_the_request(stage: str) -> None:
    hop = 1 if stage == "price" else 2
    attributes = {FLOW_STAGE: f"price-cart/{stage}", PLACE: f'{{"weak":true,"hop":{hop}}}', REQUEST_ID: "m-1"}
    routes = ROUTES if stage == "price" else KEYED
    queue = "carts" if stage == "price" else "carts-to-confirm"
    assert arrive(sqs_event(queue, CART, attributes=attributes), routes=routes).message.request_id == "m-1"


@pytest.mark.parametrize("place", ["{}", '{"object":"c-9"}', '{"object":"c-9","retry":1}'])
@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ("no json", "the payload of price is no Cart: the whole: Invalid JSON"),
        ({}, "the payload of price is no Cart: cart_id: Field required"),
        ({"cart_id": ""}, "the payload has no usable 'cart_id' to name the request by"),
        ({"cart_id": "a\0"}, "the payload's 'cart_id', which names the request, has the character U+0000"),
        (
            {"cart_id": "x" * 1_025},
            "the payload's 'cart_id', which names the request, has 1,025 bytes of at most 1,024",
        ),
    ],
)
def test_a_request_that_its_rule_cannot_name_has_no_id_no_object_and_says_why(
    payload: Any, told: str, place: str
) -> None:
    event = sqs_event("carts", payload, attributes={PLACE: place, FLOW_STAGE: "price-cart/price"}, message_id="m-1")
    arrival = arrive(event, routes=KEYED)
    assert told in str(arrival.problem)
    assert (arrival.message.request_id, arrival.message.object_id, arrival.weak_id) == ("", "", False)


def test_a_bug_in_a_payloads_own_check_is_no_reason_to_give_a_request_up() -> None:
    class KeyedMisjudged(Flow, name="misjudge-cart", object_id="cart_id", request_id="cart_id"):
        stages = (Misjudge,)

    arrival = arrive(sqs_event("carts", {"cart_id": "c-2"}), routes=Routes([KeyedMisjudged]))
    assert isinstance(arrival.problem, OtherRelease)


def test_a_payload_is_decoded_once_where_it_names_the_request_and_the_object() -> None:
    decoded: list[str] = []

    class Counted(BaseModel):
        cart_id: str

        @field_validator("cart_id")
        @classmethod
        def count(cls, cart_id: str) -> str:
            decoded.append(cart_id)
            return cart_id

    def handle(self: object, payload: Counted, step: Step) -> Outcome:
        return Done()

    base: Any = Stage
    stage = types.new_class("Count", (base[Counted],), {"name": "count"}, lambda space: space.update(handle=handle))

    class KeyedCount(Flow, name="count-cart", object_id="cart_id", request_id="cart_id"):
        stages = (stage,)

    assert arrive(sqs_event("carts", CART), routes=Routes([KeyedCount])).message.object_id == "c-1"
    assert decoded == ["c-1"]


def test_a_version_that_is_not_read_is_the_first_thing_wrong() -> None:
    event = sqs_event("carts", {}, attributes={PLACE: '{"version":9}', FLOW_STAGE: "price-cart/price"})
    arrival = arrive(event, routes=KEYED)
    assert (str(arrival.problem), arrival.message.object_id) == ("price-cart does not read version 9, only [1]", "")


def test_another_object_than_the_one_of_the_named_request_is_not_believed() -> None:
    event = sqs_event("carts", CART, attributes={PLACE: '{"object":"c-9"}', FLOW_STAGE: "price-cart/price"})
    with pytest.raises(Untrusted, match="it names the object 'c-9', and that is not the request id"):
        arrive(event, routes=KEYED)


def test_a_request_that_has_no_id_may_not_have_its_end_reported_elsewhere() -> None:
    place = '{"reply_to":"sqs:arn:aws:sqs:us-east-1:999999999999:elsewhere"}'
    event = sqs_event("carts", {}, attributes={PLACE: place, FLOW_STAGE: "price-cart/price"})
    with pytest.raises(Untrusted, match="reply_to"):
        arrive(event, routes=KEYED)


# -- events of EventBridge --------------------------------------------------------------------------------------------

EVENT_ID = "6a7e8feb-b491-4cf7-a9f1-bf3703467718"
EVENT: Any = {
    "version": "0",
    "id": EVENT_ID,
    "detail-type": "Cart submitted",
    "source": "shop",
    "account": "123456789012",
    "time": "2025-12-31T23:59:59Z",
    "region": "eu-west-1",
    "resources": [],
    "detail": {"cart_id": "c-1"},
}
ways_of_an_event = pytest.mark.parametrize(
    "event",
    [sqs_event("carts", EVENT), sns_to_sqs_event("carts", EVENT), sns_event("told", EVENT), EVENT],
    ids=["sqs", "sns-sqs", "sns-lambda", "invocation"],
)


@ways_of_an_event
def test_an_event_of_eventbridge_is_a_request_under_its_own_id_and_time(event: Any) -> None:
    arrival = arrive(event)
    message = arrival.message
    assert (arrival.payload, message.body, message.object_id) == (CART, '{"cart_id":"c-1"}', "c-1")
    assert (message.request_id, arrival.weak_id, message.requested_at) == (EVENT_ID, False, START - 1_000)


@ways_of_an_event
def test_a_flow_names_the_requests_of_events_by_their_detail(event: Any) -> None:
    assert arrive(event, routes=KEYED).message.request_id == "c-1"


def test_the_attributes_beside_an_event_count_before_what_it_says() -> None:
    said: dict[str, Any] = {REQUEST_ID: "r-1", REQUESTED_AT: START - 7}
    message = arrive(sqs_event("carts", EVENT, attributes=said)).message
    assert (message.request_id, message.requested_at) == ("r-1", START - 7)


def test_copies_of_a_flows_own_event_are_one_request() -> None:
    """EventBridge gives each an id of its own. The flow that sent them gave them one, in their detail."""
    own = {"uniquerequestid": "r-1.1.0", "requestedat": str(START - 7), "flowstage": "other/stage", "flowguard": "{}"}
    for number in (1, 2):
        copy = {**EVENT, "id": f"{EVENT_ID[:-1]}{number}", "detail": {"cart_id": "c-1", "flowguard": own}}
        message = arrive(sqs_event("carts", copy)).message
        assert (message.request_id, message.requested_at) == ("r-1.1.0", START - 7)
        assert (message.flow, message.stage) == ("price-cart", "price")


def test_an_event_from_the_far_future_is_refused_as_any_other_request() -> None:
    with pytest.raises(
        EnvelopeError, match=r"body.time: \d+ is more than 0:15:00 ahead; is the sender's clock right\?"
    ):
        arrive(sqs_event("carts", {**EVENT, "time": "2026-01-01T00:15:01Z"}))
    assert arrive(sqs_event("carts", {**EVENT, "time": "2026-01-01T00:15:00Z"})).message.requested_at


@pytest.mark.parametrize(("sent_at", "now"), [(START, START + 60 * MINUTE), (START + 60 * MINUTE, START)])
def test_an_events_time_is_measured_by_the_later_of_the_queues_clock_and_ones_own(sent_at: int, now: int) -> None:
    event = sqs_event("carts", {**EVENT, "time": "2026-01-01T01:00:00Z"}, sent_at=sent_at)
    assert since(event, now=now) == START + 60 * MINUTE


def test_over_a_bus_come_plain_requests_and_nothing_else() -> None:
    """A detail is its sender's: what it says of stage, hop or reply_to is not read."""
    place = '{"hop":2,"object":"c-9","reply_to":"sqs:arn:aws:sqs:us-east-1:999999999999:theirs"}'
    forged = {"cart_id": "c-1", "flowguard": {"flowstage": "price-cart/confirm", "flowguard": place}}
    message = arrive(sqs_event("carts", {**EVENT, "detail": forged})).message
    assert (message.stage, message.hop, message.object_id, message.reply_to) == ("price", 1, "c-1", None)


@pytest.mark.parametrize("place", ['{"hop":2,"object":"c-1"}', '{"hop":1}', "{}"])
def test_what_flowguard_sent_is_a_payload_whatever_it_looks_like(place: str) -> None:
    stage = "confirm" if '"hop":2' in place else "price"
    queue = "carts" if stage == "price" else "carts-to-confirm"
    event = sqs_event(queue, EVENT, attributes={FLOW_STAGE: f"price-cart/{stage}", PLACE: place})
    assert json.loads(arrive(event).message.body) == EVENT


def test_a_retry_of_an_event_says_that_it_is_one() -> None:
    event = sqs_event("carts", EVENT, attributes={PLACE: '{"retry":1,"event":true}', REQUEST_ID: EVENT_ID})
    message = arrive(event).message
    assert (message.body, message.is_event) == ('{"cart_id":"c-1"}', True)
    place = json.loads(message.own_attributes()[PLACE].value)
    assert (place["event"], "event" in message.next("confirm", "{}").own_attributes()[PLACE].value) == (True, False)


# -- requested_at, first found ----------------------------------------------------------------------------------------


def since(event: Any, *, now: int = START) -> int:
    return arrive(event, now=now).message.requested_at


def test_a_request_is_as_old_as_its_sender_says() -> None:
    said = {REQUESTED_AT: START - 7}
    assert since(sqs_event("carts", CART, attributes=said)) == START - 7
    assert since(sns_to_sqs_event("carts", CART, attributes=said)) == START - 7


def test_else_it_is_as_old_as_the_topic_says_and_else_as_the_queue_says() -> None:
    assert since(sns_to_sqs_event("carts", CART, published_at=START - 5, sent_at=START)) == START - 5
    assert since(sqs_event("carts", CART, sent_at=START - 3)) == START - 3


def test_a_direct_call_is_asked_for_now() -> None:
    assert since(invocation(CART), now=START + 1) == START + 1


@pytest.mark.parametrize(
    ("ahead", "refused"),
    [
        (15 * MINUTE, None),
        (15 * MINUTE + 1, TooEarly),
        (24 * 60 * MINUTE, TooEarly),
        (24 * 60 * MINUTE + 1, EnvelopeError),
    ],
)
def test_a_request_from_the_far_future_would_shut_out_every_later_one(
    ahead: int, refused: type[EnvelopeError] | None
) -> None:
    event = sqs_event("carts", CART, attributes={REQUESTED_AT: START + ahead})
    if refused is None:
        assert since(event) == START + ahead
        return
    with pytest.raises(refused, match=r"is more than 0:15:00 ahead; is the sender's clock right\?") as raised:
        since(event)
    assert type(raised.value) is refused


def test_what_waited_long_in_its_queue_is_measured_by_now() -> None:
    event = sqs_event("carts", CART, attributes={REQUESTED_AT: START + 60 * MINUTE})
    assert since(event, now=START + 60 * MINUTE) == START + 60 * MINUTE


def test_what_the_queues_clock_has_seen_is_not_from_the_future() -> None:
    event = sqs_event("carts", CART, attributes={REQUESTED_AT: START + 60 * MINUTE}, sent_at=START + 60 * MINUTE)
    assert since(event, now=START) == START + 60 * MINUTE, "it is the function's clock that is slow"


@pytest.mark.parametrize(("sent_at", "now"), [(START + 60 * MINUTE, START), (START, START + 60 * MINUTE)])
def test_so_it_is_with_the_time_of_a_topic(sent_at: int, now: int) -> None:
    event = sns_to_sqs_event("carts", CART, published_at=START + 60 * MINUTE, sent_at=sent_at)
    assert since(event, now=now) == START + 60 * MINUTE


def test_a_time_may_have_fifteen_digits() -> None:
    assert since(sqs_event("carts", CART, attributes={REQUESTED_AT: f"{START:015}"})) == START


@pytest.mark.parametrize("value", ["yesterday", "", "-1", "1.5", "1e12", f"{START:016}", "9" * 16, "9" * 5_000])
def test_what_is_no_time_is_told_by_its_field(value: str) -> None:
    event = sqs_event("carts", CART, attributes={REQUESTED_AT: value}, message_id="m-1")
    with pytest.raises(EnvelopeError) as caught:
        since(event)
    assert str(caught.value).startswith(f"m-1: attributes.requestedat: {value[:40]!r} is not whole milliseconds since")


@pytest.mark.parametrize(
    ("value", "legal"),
    [(999_999_999, True), (1_000_000_000, False), (99_999_999_999, False), (100_000_000_000, True)],
)
def test_a_time_in_seconds_is_not_taken_for_one_in_milliseconds(value: int, legal: bool) -> None:
    event = sqs_event("carts", CART, attributes={REQUESTED_AT: value}, message_id="m-1")
    if legal:
        assert since(event) == value
        return
    with pytest.raises(EnvelopeError, match=f"m-1: attributes.requestedat: {value} looks like seconds"):
        since(event)


def test_a_message_that_could_not_be_sent_is_for_no_stage() -> None:
    parked = Undeliverable(Kind.SIDE, Queue("emails"), "r-1.2.0", {}).as_json()
    with pytest.raises(EnvelopeError, match=r"attributes.flowguard: .* none for a stage: use 'flowguard dlq redrive'"):
        arrive(addressed("price-cart/price", json.dumps({"object": "c-1", "unsent": parked})))


def test_a_place_that_cannot_be_read_is_told_by_its_field() -> None:
    with pytest.raises(EnvelopeError, match=r"attributes.flowguard: has 'hop' 0; it is a whole number of at least 1"):
        arrive(addressed("price-cart/price", '{"hop":0}'))


# -- what a function serves -------------------------------------------------------------------------------------------


def test_a_flow_alone_is_served_whole() -> None:
    assert Routes([PriceCart]).serves(PriceCart) == (Price, Confirm)
    assert Routes([PriceCart]).serves(ResetCache) == ()


def test_stages_after_their_flow_are_all_that_is_served() -> None:
    routes = Routes([PriceCart, Confirm, ResetCache])
    assert routes.flows == (PriceCart, ResetCache)
    assert (routes.serves(PriceCart), routes.serves(ResetCache)) == ((Confirm,), (Reset,))


def test_a_flow_may_be_listed_before_each_of_its_stages() -> None:
    assert Routes([PriceCart, Price, PriceCart, Confirm]).serves(PriceCart) == (Price, Confirm)


NAMESAKE = types.new_class(
    "Namesake",
    (Flow,),
    {"name": "price-cart", "object_id": "cart_id"},
    lambda space: space.update(stages=(Price, Confirm)),
)


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        ([], "it serves nothing; give it a flow: lambda_handler(ValidateCart)"),
        ([Price], "Price is no flow, nor a stage of the flow before it"),
        ([ResetCache, Price], "Price is no flow, nor a stage of the flow before it"),
        ([PriceCart, "price"], "'price' is no flow, nor a stage of the flow before it"),
        ([PriceCart, Stage], "Stage is no flow, nor a stage of the flow before it"),
        ([PriceCart, NAMESAKE], "two of its flows are named 'price-cart'"),
    ],
)
def test_what_cannot_be_served_is_told_at_import(targets: list[object], told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Routes(targets)
    assert (caught.value.setting, caught.value.problem) == ("lambda_handler", told)

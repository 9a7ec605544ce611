"""What a message may say of itself. Each forged one is refused before anything is claimed, sent or written."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from flowguard.clock import ManualClock
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.errors import Untrusted
from flowguard.events import EventType
from flowguard.flow import PER_REQUEST, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.groups import GroupPlan, Member, bound_key
from flowguard.settings import Settings
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sns_to_sqs_event, sqs_event
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, ErrorNote, Message
from flowguard.wire.signing import Keyring, Keys, KeySigner, signed_attributes
from flowguard.worker.dead_letters import Letter
from flowguard.worker.plan import dead_letter, retried
from flowguard.worker.record_sources import NamedQueues
from flowguard.worker.redriven_messages import check_returnable
from flowguard.worker.routing import Arrival, Routes
from flowguard.worker.trust import Trust
from tests.scene import ENGINES, START, Order, Orders, Scene, record, scene

pytestmark = pytest.mark.usefixtures("denied_for_minutes")

SECRET = "secret-" + "x" * 32
ATTACKERS = "arn:aws:sqs:eu-west-1:999999999999:theirs"
OWN = "arn:aws:lambda:eu-west-1:123456789012:function:price"


class Cart(BaseModel):
    cart_id: str

    @field_validator("cart_id")
    @classmethod
    def is_known(cls, cart_id: str) -> str:
        if cart_id == "broken":
            raise KeyError(cart_id)
        return cart_id


class Price(Stage[Cart], name="price", then="confirm", inbox="carts"):
    def handle(self, payload: Cart, step: Step) -> Outcome:
        return Done()


class Confirm(Stage[dict[str, Any]], name="confirm", inbox="carts"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class PriceCart(Flow, name="price-cart", object_id="cart_id"):
    stages = (Price, Confirm)


class OpenCart(Flow, name="open-cart", object_id="cart_id", entries=("confirm",)):
    stages = (Price, Confirm)


class EachCart(Flow, name="each-cart", object_id=PER_REQUEST):
    stages = (Price, Confirm)


LISTED: tuple[Destination, ...] = (Queue("replies"), Queue(ATTACKERS), Bus("default", "shop", "Paid"))


class ListedCart(Flow, name="listed-cart", object_id="cart_id", reply_to=LISTED):
    stages = (Price, Confirm)


class SilentCart(Flow, name="silent-cart", object_id="cart_id", reply_to=()):
    stages = (Price, Confirm)


ROUTES = Routes([PriceCart, OpenCart, EachCart, ListedCart, SilentCart])


def signer(keys: str = f"k1:{SECRET}") -> KeySigner:
    return KeySigner(Keyring(lambda: Keys.parse(keys), ManualClock()))


def judged(event: Any, trust: Trust = Trust()) -> Arrival:  # noqa: B008 - a value that never changes
    (found,) = normalize(event)
    assert isinstance(found, Envelope), found.error
    return ROUTES.resolve(found, START, trust)


def named(flow: str = "price-cart", stage: str = "price", *, body: Any = None, **place: Any) -> Any:
    """A message to a flow's queue that says this of itself."""
    attributes = {FLOW_STAGE: f"{flow}/{stage}", PLACE: json.dumps(place), REQUEST_ID: "r-1"}
    return sqs_event("carts", {"cart_id": "c-1"} if body is None else body, attributes=attributes, message_id="m-1")


def refused(event: Any, trust: Trust = Trust()) -> tuple[str, str]:  # noqa: B008 - a value that never changes
    with pytest.raises(Untrusted) as caught:
        judged(event, trust)
    assert caught.value.record == "m-1"
    assert len(caught.value.problem) < 300
    return caught.value.field.removeprefix("attributes."), caught.value.problem


# -- where a request enters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [{}, {"retry": 1}, {"redrive": 1}, {"hop": 1, "object": "c-1"}])
@pytest.mark.parametrize("stage", ["confirm", "nowhere", "", "x" * 9_999])
def test_a_first_hop_at_another_stage_than_the_first_is_refused(stage: str, place: dict[str, Any]) -> None:
    field, problem = refused(named(stage=stage, **place))
    assert field == FLOW_STAGE
    assert problem.startswith(f"a first hop at {stage!r:.40}")
    assert problem.endswith("enters price-cart; let it enter at price, or name that stage in the flow's entries=(…)")


def test_a_flow_may_be_entered_where_it_says_so() -> None:
    assert judged(named("open-cart", "confirm")).stage is Confirm
    assert judged(named("open-cart", "price")).stage is Price
    assert refused(named("open-cart", "nowhere"))[1].startswith("a first hop at 'nowhere'")


def test_a_payload_is_read_as_the_stage_takes_it_at_which_it_enters() -> None:
    arrival = judged(named("open-cart", "confirm", object="c-1"))
    assert arrival.payload == {"cart_id": "c-1"}


def test_a_later_hop_may_be_at_any_stage() -> None:
    assert judged(named(stage="confirm", hop=2, object="c-1")).stage is Confirm
    assert judged(named(stage="nowhere", hop=2, object="c-1")).problem is not None, "its run fails, as it always did"


def test_a_later_hops_payload_is_its_own_and_says_nothing_of_the_object() -> None:
    assert judged(named(stage="confirm", hop=2, object="c-9", body={"cart_id": "c-1"})).message.object_id == "c-9"


# -- which object it is for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flow", "stage", "body"),
    [
        ("price-cart", "price", {"cart_id": "c-1"}),
        ("price-cart", "price", {"cart_id": 7}),  # no Cart, but it says whose it is
        ("price-cart", "price", {"cart_id": "broken"}),
        ("open-cart", "confirm", {"cart_id": "c-1", "total": 7}),
    ],
)
@pytest.mark.parametrize("place", [{}, {"retry": 1}, {"redrive": 2}, {"version": 99}])
def test_a_request_that_names_another_object_than_its_payload_is_refused(
    flow: str, stage: str, body: Any, place: dict[str, Any]
) -> None:
    field, problem = refused(named(flow, stage, body=body, object="victim", **place))
    assert (field, problem) == (
        "flowguard.object",
        "it names the object 'victim', and that is not the payload's 'cart_id'; leave it out",
    )
    assert judged(named(flow, stage, body=body, object=str(body["cart_id"]), **place)).message.object_id


@pytest.mark.parametrize("body", ["no json", "[" * 100_000, "[]", {}, {"cart_id": ""}, {"cart_id": [1]}])
def test_an_object_that_the_payload_does_not_name_is_taken_as_it_is_named(body: Any) -> None:
    assert judged(named(body=body, object="c-9")).message.object_id == "c-9"


@pytest.mark.parametrize("hop", [1, 2])
def test_where_each_request_is_a_run_of_its_own_the_object_is_the_request(hop: int) -> None:
    stage = "price" if hop == 1 else "confirm"
    assert judged(named("each-cart", stage, hop=hop, object="r-1")).message.object_id == "r-1"
    assert refused(named("each-cart", stage, hop=hop, object="r-2")) == (
        "flowguard.object",
        "it names the object 'r-2', and that is not the request id; leave it out",
    )


# -- who may be told of the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hop", [1, 2])
@pytest.mark.parametrize(
    "to", [Queue(ATTACKERS), Topic("arn:aws:sns:us-east-1:123456789012:told"), Function("999999999999:f"), Topic("t")]
)
def test_nobody_in_another_account_or_region_is_told(to: Destination, hop: int) -> None:
    place: dict[str, Any] = {"hop": hop, "object": "c-1", "reply_to": str(to)}
    for trust in (Trust(), Trust(function_arn=OWN)):
        field, problem = refused(named(stage="price" if hop == 1 else "confirm", **place), trust)
        assert field == "flowguard.reply_to"
        assert problem.startswith(f"'{str(to)[:30]}"[:30])
        assert problem.endswith("add it to the reply_to=(…) of price-cart, or sign messages")


def test_a_signature_proves_nothing_where_no_keys_are_set() -> None:
    assert refused(named(reply_to="sqs:" + ATTACKERS, sig="k1.00"))[0] == "flowguard.reply_to"


@pytest.mark.parametrize("to", ["sqs:replies", "sqs:arn:aws:sqs:eu-west-1:123456789012:replies"])
def test_who_is_in_the_queues_own_account_and_region_is_told(to: str) -> None:
    assert judged(named(reply_to=to)).message.reply_to == to


def test_the_functions_own_arn_says_more_than_the_record() -> None:
    event = named(reply_to="sqs:arn:aws:sqs:eu-west-1:999999999999:replies")
    event["Records"][0]["eventSourceARN"] = "arn:aws:sqs:eu-west-1:999999999999:carts"
    assert judged(event).message.reply_to
    assert refused(event, Trust(function_arn=OWN))[0] == "flowguard.reply_to"


@pytest.mark.parametrize(
    ("flow", "to", "allowed"),
    [
        *(("listed-cart", str(to), True) for to in LISTED),
        ("listed-cart", "sqs:replies-2", False),
        ("listed-cart", "sqs:arn:aws:sqs:eu-west-1:123456789012:replies", False),
        ("listed-cart", "events:shop|Refunded|default", False),
        ("listed-cart", "events:other|Paid|default", False),
        ("silent-cart", "sqs:replies", False),
    ],
)
def test_a_list_of_destinations_is_exact(flow: str, to: str, allowed: bool) -> None:
    if allowed:
        assert judged(named(flow, reply_to=to)).message.reply_to == to
        return
    field, problem = refused(named(flow, reply_to=to))
    assert field == "flowguard.reply_to"
    assert f"is not in the reply_to=(…) of {flow}; add it there, or sign messages" in problem


# -- signed messages --------------------------------------------------------------------------------------------------

MESSAGE = Message(
    flow="price-cart",
    stage="price",
    version=1,
    object_id=ObjectId("c-1"),
    request_id=RequestId("r-1"),
    requested_at=START,
    body='{"cart_id":"c-1"}',
)
FORGED = {
    "a later hop": {"stage": "confirm", "hop": 2},
    "a retry": {"retry": 1},
    "a redrive": {"redrive": 1},
    "a word to somebody": {"reply_to": "sqs:replies"},
    "since when it goes round": {"since": START - 5},
}
ERROR = ErrorNote("OSError", "gone", 5)


def event_of(body: str, attributes: Any) -> Any:
    return sqs_event("carts", body, attributes=attributes, message_id="m-1")


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED)
def test_what_only_flowguard_may_say_has_to_be_signed(changes: dict[str, Any]) -> None:
    trust, message = Trust(signer()), MESSAGE._replace(**changes)
    good = signed_attributes(message, trust.signer)
    assert judged(event_of(message.body, good), trust).message == message
    field, problem = refused(event_of(message.body, message.own_attributes()), trust)
    assert field == "flowguard.sig"
    assert problem.startswith("it carries no signature, and messages with a hop, retry, redrive or reply_to")
    other = signed_attributes(message, signer(f"k1:other-{SECRET}"))
    assert "another secret" in refused(event_of(message.body, other), trust)[1]
    assert (
        "not known here"
        in refused(event_of(message.body, signed_attributes(message, signer(f"k2:{SECRET}"))), trust)[1]
    )
    assert judged(event_of(message.body, message.own_attributes())).message == message, "where they are not signed"
    assert judged(event_of(message.body, good)).message == message, "a signature is no harm there"


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (FLOW_STAGE, "open-cart/price"),
        (REQUEST_ID, "r-2"),
        ("requestedat", START + 1),
    ],
)
def test_attributes_that_were_changed_are_refused(attribute: str, value: Any) -> None:
    trust = Trust(signer())
    attributes = {**signed_attributes(MESSAGE._replace(reply_to="sqs:me"), trust.signer), attribute: value}
    assert refused(event_of(MESSAGE.body, attributes), trust)[0] == "flowguard.sig"


@pytest.mark.parametrize("key", ["object", "version", "hop", "retry", "redrive", "reply_to", "since"])
def test_a_place_that_was_changed_is_refused(key: str) -> None:
    claims = {"stage": "confirm", "hop": 2, "retry": 1, "redrive": 1, "reply_to": "sqs:me", "since": START - 5}
    trust, message = Trust(signer()), MESSAGE._replace(**claims)  # type: ignore[arg-type]  # one table for all fields
    attributes = signed_attributes(message, trust.signer)
    for change in ({}, {key: "sqs:mine" if key == "reply_to" else "c-2" if key == "object" else 3}):
        said = {name: value for name, value in json.loads(attributes[PLACE].value).items() if name != key} | change
        if said.get("hop", 1) == 1:
            continue  # that is refused for its stage
        changed = {**attributes, PLACE: Attribute.string(json.dumps(said))}
        assert refused(event_of(message.body, changed), trust)[0] == "flowguard.sig"


def test_another_payload_under_a_signature_is_refused() -> None:
    trust = Trust(signer())
    attributes = signed_attributes(MESSAGE._replace(stage="confirm", hop=2), trust.signer)
    assert refused(event_of('{"total":0}', attributes), trust)[0] == "flowguard.sig"


def test_a_plain_request_needs_no_signature_and_a_wrong_one_is_refused() -> None:
    trust = Trust(signer())
    assert judged(named(), trust).stage is Price
    wrong = signed_attributes(MESSAGE, signer(f"k1:other-{SECRET}"))
    assert refused(event_of(MESSAGE.body, wrong), trust)[0] == "flowguard.sig"


def test_a_flow_that_trusts_its_senders_needs_no_signature_though_the_others_of_its_function_do() -> None:
    class Trusting(Flow, name="trusting", object_id="cart_id", trust_senders=True):
        stages = (Price, Confirm)

    event = named("trusting", "confirm", hop=2, object="c-1")
    assert Routes([Trusting]).resolve(received(event), START, Trust(signer())).stage is Confirm
    assert refused(named(stage="confirm", hop=2, object="c-1"), Trust(signer()))[0] == "flowguard.sig"


def test_a_signed_word_may_go_anywhere() -> None:
    trust = Trust(signer())
    for flow in ("price-cart", "listed-cart", "silent-cart"):
        message = MESSAGE._replace(flow=flow, reply_to="sqs:arn:aws:sqs:us-east-1:999999999999:partner")
        assert judged(event_of(message.body, signed_attributes(message, trust.signer)), trust).message == message


def test_a_dead_letter_that_its_rule_could_not_name_is_signed_without_an_id() -> None:
    """What the rule reads when it comes back is not what was signed."""

    class Noted(Flow, name="carts", object_id=PER_REQUEST, request_id=lambda cart: cart.cart_id):
        stages = (Price, Confirm)

    nameless = Message("carts", "price", 1, ObjectId(""), RequestId(""), START, '{"cart_id":"c-1"}')
    [found] = normalize(sqs_event("carts", nameless.body))
    assert isinstance(found, Envelope)
    letter = dead_letter(Noted, nameless, ErrorNote("RunFailed", "no id", START), found, signer())
    back = sqs_event("carts", letter.body, attributes=letter.attributes)
    [again] = normalize(back)
    assert isinstance(again, Envelope)
    arrival = Routes([Noted]).resolve(again, START, Trust(signer()))
    assert (arrival.message.request_id, arrival.message.redrive, arrival.problem) == ("c-1", 1, None)
    [forged] = normalize(sqs_event("carts", letter.body, attributes={**letter.attributes, REQUEST_ID: "c-1"}))
    assert isinstance(forged, Envelope)
    with pytest.raises(Untrusted, match="its signature is of another message"):
        Routes([Noted]).resolve(forged, START, Trust(signer()))


def test_a_signature_does_not_open_a_stage_or_change_an_object() -> None:
    trust = Trust(signer())
    for changes, field in (({"stage": "confirm"}, FLOW_STAGE), ({"object_id": "victim"}, "flowguard.object")):
        message = MESSAGE._replace(**changes)  # type: ignore[arg-type]  # one table for both fields
        assert refused(event_of(message.body, signed_attributes(message, trust.signer)), trust)[0] == field


def received(event: Any) -> Envelope:
    (found,) = normalize(event)
    assert isinstance(found, Envelope)
    return found


WAYS = {
    "to its queue": lambda body, attributes: sqs_event("carts", body, attributes=attributes),
    "to a FIFO queue": lambda body, attributes: sqs_event("carts.fifo", body, attributes=attributes, receive_count=3),
    "through a topic": lambda body, attributes: sns_to_sqs_event("carts", body, attributes=attributes),
    "as a call": lambda body, attributes: {
        "Records": [
            {
                "messageId": "m-1",
                "body": body,
                "attributes": {},
                "messageAttributes": attributes_to(Attribute.to_sqs_record, attributes),
                "eventSource": "aws:lambda",
            }
        ]
    },
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_signature_survives_every_way_retry_delay_and_redrive(way: Any) -> None:
    trust = Trust(signer(), OWN)
    message = MESSAGE._replace(body='{"cart_id":"c-1","Ü":"\\ud83d\\ude00"}', reply_to="sqs:" + ATTACKERS)
    first = received(way(message.body, signed_attributes(message, trust.signer)))
    assert ROUTES.resolve(first, START, trust).message == message
    again, now = message, first
    delays = (5, 86_400, 900, 86_400) if first.queue_arn is not None else ()  # a call is tried again by who called
    for number, delay in enumerate(delays, 1):
        again = again.again(ERROR)
        send = retried(again, now, delay, trust.signer)
        now = received(sqs_event("carts", send.body, attributes=send.attributes, message_id=f"retry-{number}"))
        assert ROUTES.resolve(now, START, trust).message == again
    letter = dead_letter(PriceCart, again, ERROR, now, trust.signer)
    back = received(sqs_event("carts", letter.body, attributes=letter.attributes))
    assert ROUTES.resolve(back, START, trust).message.attempt == (1, 0)


# -- on the engine, with the runtime ----------------------------------------------------------------------------------

KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "in the inbox of a later stage": ({"stage": "close-order"}, "eventSourceARN"),
    "at no stage": ({"stage": "pay"}, FLOW_STAGE),
    "for another object": ({"object_id": "victim"}, "flowguard.object"),
    "told elsewhere": ({"reply_to": "sqs:" + ATTACKERS}, "flowguard.reply_to"),
    "a later hop told elsewhere": (
        {"stage": "close-order", "hop": 2, "reply_to": "sqs:" + ATTACKERS, "body": '{"total":7}'},
        "flowguard.reply_to",
    ),
}
SIGNED_KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "a later hop": ({"stage": "close-order", "hop": 2, "body": '{"total":7}'}, "flowguard.sig"),
    "a retry": ({"retry": 9}, "flowguard.sig"),
    "a redrive": ({"redrive": 9}, "flowguard.sig"),
    "told": ({"reply_to": "sqs:emails"}, "flowguard.sig"),
}


@pytest.fixture(params=ENGINES)
def at(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with scene(engine=request.param) as found:
        yield found


@pytest.fixture
def signed() -> Iterator[Scene]:
    with scene(settings=Settings.from_environment({"FLOWGUARD_SIGNING_KEYS": f"k1:{SECRET}"})) as found:
        yield found


def nothing_came_of(at: Scene, changes: dict[str, Any], field: str) -> None:
    before, told = at.item(), at.told(EventType.CLAIMED)
    forged = at.message(**{"requested_at": START, **changes})
    assert at.deliver(forged) == [False], "it stays in its queue"
    assert at.calls == []
    assert at.item() == before
    last = at.tally.events[-1]
    assert (last.type, last.facts["field"]) == (
        EventType.UNTRUSTED,
        field if field == "eventSourceARN" else f"attributes.{field}",
    )
    assert last.facts["record"] in last.facts["why"]
    assert at.told(EventType.CLAIMED) == told
    assert [at.sent(queue) for queue in ("emails", "completed", "dead")] == [[], [], []]


@pytest.mark.parametrize(("changes", "field"), KINDS.values(), ids=KINDS)
def test_a_forged_message_takes_no_run_over_and_nothing_comes_of_it(
    at: Scene, changes: dict[str, Any], field: str
) -> None:
    nothing_came_of(at, {"request_id": "forged", **changes}, field)
    at.deliver(at.message())
    for queue in ("emails", "completed", "dead"):
        at.sent(queue)
    nothing_came_of(at, {"request_id": "run-1" if changes.get("hop") else "forged", **changes}, field)


@pytest.mark.parametrize(("changes", "field"), SIGNED_KINDS.values(), ids=SIGNED_KINDS)
def test_where_messages_are_signed_no_other_takes_part_in_a_run(
    signed: Scene, changes: dict[str, Any], field: str
) -> None:
    assert signed.deliver(signed.message()) == [True]
    for queue in ("emails", "completed", "dead"):
        signed.sent(queue)
    nothing_came_of(signed, changes, field)


def pass_on(at: Scene, queue: str) -> Any:
    """What an event source mapping does: hands the queue's messages to the function."""
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}"
    return at.handler([{**found, "EventSourceARN": arn} for found in at.sent(queue)])


def undelayed(call: ApiCall, proceed: Proceed, /) -> Response:
    """The engine's queues run on the machine's clock: there nobody waits for a retry."""
    for entry in call.params.get("Entries", ()):
        if "DelaySeconds" in entry:
            entry["DelaySeconds"] = 0
    return proceed()


def test_a_signed_run_goes_through_retry_redrive_and_the_start_of_another_flow(signed: Scene) -> None:
    def fail(step: Step[Any]) -> None:
        raise OSError("gone")

    def start(step: Step[Any]) -> None:
        step.start(Orders, Order(order_id="o2"), reply_to=ATTACKERS)

    signed.script.closing = fail
    assert signed.deliver(signed.message()) == [True]
    with intercept(undelayed):
        for _ in range(5):
            assert pass_on(signed, "close-order") == {"batchItemFailures": []}
    (letter,) = signed.sent("dead")
    assert "sig" in json.loads(letter["MessageAttributes"][PLACE]["StringValue"])
    signed.script.closing = start
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:close-order"
    assert signed.handler([{**letter, "EventSourceARN": arn}]) == {"batchItemFailures": []}
    signed.script.closing = lambda step: None
    pass_on(signed, "price-order")
    pass_on(signed, "close-order")
    assert signed.told(EventType.UNTRUSTED) == 0
    assert signed.told(EventType.COMPLETED) == 2
    assert signed.told(EventType.NOT_SENT) == 1, "the engine has no such account, so that is where it was sent"


def test_what_could_not_be_sent_is_parked_with_a_signature(signed: Scene) -> None:
    sqs = signed.aws.client("sqs")
    for queue in ("close-order", "emails"):
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"])
    signed.receives = 3
    assert signed.deliver(signed.message()) == [True]
    letters = [Letter.read(found, now=START) for found in signed.sent("dead")]
    assert sorted(letter.message.stage for letter in letters if letter.message) == ["close-order", "price-order"]
    for letter in letters:
        check_returnable(letter, signer())
        with pytest.raises(ValueError, match="another secret"):
            check_returnable(letter, signer(f"k1:other-{SECRET}"))
        if letter.unsent is not None:
            with pytest.raises(ValueError, match="so anybody may have written it"):
                check_returnable(replace(letter, unsent=letter.unsent._replace(to=Queue(ATTACKERS))), signer())


def test_the_functions_own_arn_comes_from_lambda(at: Scene) -> None:
    class Context:
        invoked_function_arn = f"arn:aws:lambda:{REGION}:999999999999:function:price"

    here = f"sqs:arn:aws:sqs:{REGION}:{ACCOUNT_ID}:emails"
    assert at.deliver(at.message(reply_to=here), context=Context()) == [False]
    assert at.deliver(at.message(reply_to=here)) == [True]


# -- I19: no attribute makes a function send to, or write under, what its flow does not name --------------------------

queue_names = st.sampled_from(["emails", "completed", "dead", "theirs", ATTACKERS, "https://evil.example/1/q", ""])
destinations = st.one_of(
    queue_names.map(lambda name: f"sqs:{name}"),
    st.sampled_from(["sns:told", "sns:arn:aws:sns:us-east-1:999999999999:t", "lambda:999999999999:f", "events:a|b"]),
    st.text(max_size=30),
)
texts = st.one_of(st.sampled_from(["o1", "victim", "run-1"]), st.text(max_size=10))
numbers = st.one_of(st.integers(0, 3), st.integers())
place = st.fixed_dictionaries(
    {},
    optional={
        "object": texts,
        "hop": numbers,
        "retry": numbers,
        "redrive": numbers,
        "version": numbers,
        "reply_to": destinations,
        "error": st.just(["OSError", "gone", 5]),
        "sig": st.text(max_size=20),
    },
)
stages = st.sampled_from(["orders/price-order", "orders/close-order", "orders/pay", "orders/", "others/x", ""])
NAMED = {"price-order", "close-order", "emails", "completed", "dead"}


class Seen:
    """Where the calls of a function went."""

    def __init__(self) -> None:
        self.queues: set[str] = set()
        self.keys: set[str] = set()
        self.others: set[str] = set()

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.service == "dynamodb":
            for _, one in [pair for item in call.params.get("TransactItems", ()) for pair in item.items()] or [
                ("", call.params)
            ]:
                self.keys |= {f"{one['TableName']}/{'/'.join(v['S'] for v in one['Key'].values())}"}
        elif call.service == "sqs":
            self.queues.add(str(call.params.get("QueueUrl") or call.params.get("QueueName")).rpartition("/")[2])
        else:
            self.others.add(f"{call.service}.{call.operation}")
        return proceed()


@pytest.mark.parametrize("keys", [None, f"k1:{SECRET}"])
def test_no_attribute_makes_a_function_send_to_or_write_under_what_its_flow_does_not_name(keys: str | None) -> None:
    environment = {} if keys is None else {"FLOWGUARD_SIGNING_KEYS": keys}
    with scene(settings=Settings.from_environment(environment)) as at:

        @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(place, st.none() | stages, st.none() | texts)
        def attack(said: dict[str, Any], stage: str | None, request_id: str | None) -> None:
            forged = record(at.message())
            forged["messageId"] = f"m-{random.random()}"
            attributes = {PLACE: json.dumps(said), FLOW_STAGE: stage, REQUEST_ID: request_id}
            forged["messageAttributes"] = {
                name: Attribute.string(value).to_sqs_record() for name, value in attributes.items() if value
            }
            seen = Seen()
            with intercept(seen):
                at.handler({"Records": [forged]})
            asked = {said["reply_to"].removeprefix("sqs:")} if str(said.get("reply_to")).startswith("sqs:") else set()
            allowed = NAMED | ({name for name in asked if name.isalnum()} if keys is None else set())
            assert seen.queues <= allowed
            assert seen.others == set()
            runs = {key for key in seen.keys if key.startswith("flowguard/")}
            later = int(said.get("hop") or 1) > 1
            assert later or all("#o1/" in key for key in runs), runs
            assert not (later and keys and runs)
            assert seen.keys - runs <= {"orders/o1"}

        attack()


# -- orders to cancel what a group has asked ---------------------------------------------------------------------------


class Trusting(Flow, name="price-cart", object_id="cart_id", answers="answers", trust_senders=True):
    stages = (Price, Confirm)


class Signed(Flow, name="price-cart", object_id="cart_id", answers="answers"):
    stages = (Price, Confirm)


def of_group(key: str, to: str = "sqs:shops", flow: str = "shop", stage: str = "count") -> GroupCancelOrder:
    address = AnswerAddress("price-cart", ObjectId("c1"), RequestId("r1"), START, 1, "group.0.0")
    return GroupCancelOrder(address, Member(0, 0), GroupPlan(key, 1, to, START, flow, stage), 1, "why", 0, None, {})


def check(flow: type[Flow], order: GroupCancelOrder) -> None:
    brought = received(sqs_event("answers", "{}"))
    signed = order._replace(address=order.address._replace(signature=signer().sign(order.statement)))
    Trust(signer()).check_order(brought, flow, signed if flow is Signed else order, NamedQueues([flow]))


BOUND = bound_key("g-1", "sqs:shops", "shop", "count")


def test_the_key_of_a_group_says_where_its_requests_went_where_nothing_is_signed() -> None:
    check(Trusting, of_group(BOUND))
    check(Trusting, of_group(f"{BOUND}<3 {BOUND}"))
    for forged in (
        of_group("g-1"),
        of_group(BOUND, to="sqs:mails"),
        of_group(BOUND, flow="mails"),
        of_group(BOUND, stage="mails"),
        of_group(f"g-1<3 {BOUND}"),
        of_group(f"{BOUND}<3 g-1"),
    ):
        with pytest.raises(Untrusted, match="its requests did not go to"):
            check(Trusting, forged)


def test_with_signatures_an_older_key_is_believed() -> None:
    check(Signed, of_group("g-1"))


@pytest.mark.parametrize(
    ("key", "is_believed"), [("k", False), (bound_key("k", "sqs:searches", "search", "found"), True)]
)
def test_an_unsigned_order_cancels_what_its_key_says_went_there(key: str, is_believed: bool) -> None:
    class Believes(Flow, name="believes", object_id="cart_id", trust_senders=True):
        stages = (Price, Confirm)

    address = AnswerAddress("believes", ObjectId("c1"), RequestId("r"), 5, 1, "group.0.0")
    plan = GroupPlan(key, 1, "sqs:searches", 1, "search", "found")
    order = GroupCancelOrder(address, Member(0, 0), plan, 1, "why", 0)
    place = json.dumps(order.as_json(None))
    [brought] = normalize(sqs_event("believes", "{}", attributes={PLACE: Attribute.string(place)}))
    assert isinstance(brought, Envelope)
    with nullcontext() if is_believed else pytest.raises(Untrusted, match="its requests did not go to 'sqs:searches'"):
        Trust().check_order(brought, Believes, order, NamedQueues([Believes]))

"""A flow is checked as a whole when its class is defined, and makes the messages that start its runs."""

from __future__ import annotations

import re
import types
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr, field_serializer

from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.errors import DefinitionError, PayloadLost, RunFailed
from flowguard.flow import ATTACH, IGNORE, LONGEST_OBJECT_ID, PER_REQUEST, SUPERSEDE, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.retry import RetryPolicy
from flowguard.stage import AnyStage, Stage
from flowguard.step import Step


class Customer(BaseModel):
    id: str
    vip: bool = False


class Cart(BaseModel):
    cart_id: str
    number: int = 0
    uuid: UUID | None = None
    price: float = 0
    lines: list[str] = []
    customer: Customer | None = None
    buyer: Customer = Customer(id="b-1")
    notes: dict[str, Any] = {}


class CartState(BaseModel):
    total: int = 0


class OtherState(BaseModel):
    total: int = 0


def stage(name: str, takes: Any = Cart, state: Any = CartState, **options: Any) -> AnyStage:
    """A stage class of this name that ends its run."""

    def handle(self: object, payload: Any, step: Step[Any]) -> Outcome:
        return Done()

    base: Any = Stage
    made: AnyStage = types.new_class(
        name.title(), (base[takes, state],), {"name": name, **options}, lambda space: space.update(handle=handle)
    )
    return made


PRICE = stage("price", then="confirm")
CONFIRM = stage("confirm")


def define(*stages: Any, base: type[Flow] = Flow, listed: Any = None, **options: Any) -> type[Flow]:
    """A flow class named Made, complete but for what a test leaves out or changes."""
    given = {"name": "made", "object_id": "cart_id", **options}
    members = {"stages": (stages or (PRICE, CONFIRM)) if listed is None else listed}
    return types.new_class("Made", (base,), given, lambda space: space.update(members))


def problems(*stages: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(DefinitionError) as caught:
        define(*stages, **options)
    assert caught.value.what == "flow Made"
    return caught.value.problems


# -- what a class says, and what it leaves out ------------------------------------------------------------------------


def test_the_first_stage_is_where_requests_enter() -> None:
    assert define(PRICE, CONFIRM).entry() is PRICE


def test_what_a_flow_leaves_out_has_a_default() -> None:
    made = define()
    assert (made.on_conflict, made.version, made.accepts) == (SUPERSEDE, 1, frozenset({1}))
    assert (made.max_hops, made.max_depth) == (50, 16)
    assert (made.inbox, made.dead_letters, made.complete_to) == (Queue("made"), Queue("made-dead-letters"), None)
    assert (made.carry, made.retention, made.abandoned_after) == ((), timedelta(days=14), timedelta(days=1))


def test_queues_are_named_by_a_bare_text() -> None:
    made = define(inbox="carts", dead_letters="dead", complete_to="ended")
    assert (made.inbox, made.dead_letters, made.complete_to) == (Queue("carts"), Queue("dead"), Queue("ended"))


def test_a_flow_always_reads_its_own_version() -> None:
    assert define(version=3, accepts=(2,)).accepts == {2, 3}


def test_a_stage_without_an_inbox_reads_the_flows() -> None:
    own = stage("own", inbox="own-queue")
    made = define(stage("first", then="own"), own, inbox="carts")
    assert (made.inbox_of(made.entry()), made.inbox_of(own)) == (Queue("carts"), Queue("own-queue"))


def test_a_flow_can_be_derived_from_another() -> None:
    made = define(base=define(), listed=(PRICE, CONFIRM), name="second", on_conflict=IGNORE)
    assert (made.name, made.stages, made.on_conflict) == ("second", (PRICE, CONFIRM), IGNORE)


def test_an_unknown_stage_is_answered_with_those_there_are() -> None:
    assert define().stage("confirm") is CONFIRM
    with pytest.raises(RunFailed, match=r"made has no stage 'pay'; it has price, confirm"):
        define().stage("pay")


# -- mistakes of the flow's own options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"name": ""}, 'it has no name; messages carry it, so give one: class …(Flow, name="validate-cart")'),
        *[
            ({"name": name}, f"its name {name!r} must be 1 to 64 of: a-z, A-Z, 0-9, '-', '_'")
            for name in ("a/b", "a#b", "a b", "ä", "a.b", "x" * 65)
        ],
        (
            {"object_id": ""},
            "it does not say what a run is for; give object_id='<a field of the first payload>' or PER_REQUEST",
        ),
        ({"version": 0}, "versions [0] must be whole numbers from 1"),
        ({"accepts": (0,)}, "versions [0, 1] must be whole numbers from 1"),
        ({"max_hops": 0}, "max_hops is 0; a run has at least one hop"),
        ({"retention": timedelta(0)}, "retention and abandoned_after must be positive"),
        ({"abandoned_after": timedelta(0)}, "retention and abandoned_after must be positive"),
        ({"inbox": Function("f")}, "its inbox lambda:f is no queue or topic"),
        ({"inbox": Bus("b", "s", "t")}, "its inbox events:s|t|b is no queue or topic"),
        (
            {"carry": tuple("abcdefg")},
            "it carries 7 attributes; beside flowguard's own SQS has room for 6",
        ),
        (
            {"carry": ("tenant", "flowguard", "uniquerequestid")},
            "it carries flowguard, uniquerequestid, which flowguard sets itself; leave it out",
        ),
        ({"carry": "tenant"}, "carry is 'tenant'; write a tuple of attribute names: carry=('tenant',)"),
    ],
)
def test_a_wrong_option_is_told_with_its_cure(options: dict[str, Any], told: str) -> None:
    (problem,) = problems(**options)
    assert told in problem


# -- mistakes of its stages -------------------------------------------------------------------------------------------


class Base(Stage[Cart, CartState], abstract=True):
    pass


BASE_OF_A_STAGE = types.new_class("BaseOfAStage", (CONFIRM,), {"abstract": True})
"""Its ``name`` is that of the stage it derives from, and so none of its own."""


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ((), "it has no stages; list them, the first is where requests enter: stages = (FirstStage, …)"),
        ([PRICE, CONFIRM], "its stages are no tuple; write stages = (FirstStage, …), with a comma even after a single"),
        (CONFIRM, "its stages are no tuple; write stages = (FirstStage, …), with a comma even after a single one"),
        ((PRICE, "confirm"), "its stages have 'confirm', which is no stage class"),
        ((PRICE, Cart), "its stages have <class 'tests.test_flow.Cart'>, which is no stage class"),
        ((PRICE, CONFIRM()), "its stages have an instance of Confirm; list the class"),
        ((PRICE, Base), "its stages have Base, which is a base class without a name; list what derives from it"),
        ((BASE_OF_A_STAGE,), "its stages have BaseOfAStage, which is a base class without a name"),
        ((Stage,), "its stages have Stage, which is a base class without a name; list what derives from it"),
        (
            (PRICE, CONFIRM, stage("confirm")),
            "2 of its stages are named 'confirm'; messages could not tell them apart",
        ),
        ((PRICE,), "stage 'price' goes on to 'confirm', which is not among its stages: price"),
        (
            (stage("price", then=Base),),
            "stage 'price' goes on to \"<class 'tests.test_flow.Base'>\", which is not among",
        ),
        (
            (PRICE, CONFIRM, stage("pay", then="confirm")),
            "no stage leads to 'pay'; name it in another stage's then=, or leave it out",
        ),
        (
            (PRICE, stage("confirm", state=OtherState)),
            "its stages disagree on the run's state (price: CartState, confirm: OtherState); a run has one: give "
            "all the same, as in Stage[…, CartState]",
        ),
        (
            (stage("price", retry=RetryPolicy(max_delay=timedelta(hours=1))),),
            "stage 'price' may delay a retry by 1:00:00, and SQS delays by at most 0:15:00; lower its max_delay, or "
            "say long_delays=True",
        ),
    ],
)
def test_a_wrong_list_of_stages_is_told_with_its_cure(listed: Any, told: str) -> None:
    (problem,) = problems(listed=listed)
    assert told in problem


def test_a_run_that_waits_for_its_retry_must_not_be_taken_for_abandoned() -> None:
    with pytest.raises(DefinitionError, match="after 1 day, 0:00:00 the run is taken for abandoned"):

        class Hasty(Flow, name="hasty", object_id="cart_id", on_conflict=IGNORE, long_delays=True):
            stages = (stage("price", then=(), retry=RetryPolicy(max_delay=timedelta(days=2))),)


def test_stages_that_only_lead_to_each_other_are_not_reached() -> None:
    island = (stage("ebb", then="flood"), stage("flood", then="ebb"))
    assert len(problems(PRICE, CONFIRM, *island)) == 2


def test_a_circle_of_stages_is_legal() -> None:
    assert define(stage("poll", then=("poll", "confirm")), CONFIRM).max_hops == 50


def test_a_flow_that_says_long_delays_may_have_them() -> None:
    assert define(stage("price", retry=RetryPolicy(max_delay=timedelta(hours=1))), long_delays=True).long_delays


def test_all_mistakes_of_a_flow_are_told_at_once() -> None:
    found = problems(
        PRICE, stage("pay", state=OtherState), name="no good", object_id="order_id", version=0, max_hops=0, carry="x"
    )
    assert len(found) == 8


# -- what a run is for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("object_id", ["cart_id", "number", "uuid", "buyer.id", "customer.id", "notes.shop.id"])
def test_an_object_is_named_by_a_field_and_dots_reach_inside(object_id: str) -> None:
    assert define(object_id=object_id).object_id == object_id


@pytest.mark.parametrize(
    ("object_id", "told"),
    [
        ("id", "object_id is 'id', but Cart has no 'id'; it has cart_id, number, uuid, price, lines, customer, buyer"),
        ("buyer.name", "object_id is 'buyer.name', but Customer has no 'name'; it has id, vip"),
        ("lines", "object_id is 'lines', which is a list; an object is named by text, int or UUID"),
        ("buyer", "object_id is 'buyer', which is a Customer; an object is named by text, int or UUID"),
        ("price", "object_id is 'price', which is a float; an object is named by text, int or UUID"),
        ("buyer.vip", "object_id is 'buyer.vip', which is a bool; an object is named by text, int or UUID"),
        ("cart_id.b", "object_id is 'cart_id.b', but what 'b' is looked for in has no fields: it is str"),
    ],
)
def test_an_object_id_that_the_payload_lacks_is_told(object_id: str, told: str) -> None:
    (problem,) = problems(object_id=object_id)
    assert told in problem


def test_text_has_no_fields_to_name_an_object_by() -> None:
    (problem,) = problems(stage("read", str))
    assert problem == "'read' takes text, which has no 'cart_id'; use object_id=PER_REQUEST"
    assert define(stage("read", str), object_id=PER_REQUEST).object_of("hello", RequestId("r-1")) == "r-1"


def test_what_is_inside_a_dict_is_not_known_before_there_is_a_message() -> None:
    made = define(stage("read", dict), object_id="cart.id")
    assert made.object_of({"cart": {"id": 7}}, RequestId("r-1")) == "7"
    with pytest.raises(RunFailed, match=r"^the payload has no usable 'cart.id' to name the object by$"):
        made.object_of({"cart": "secret"}, RequestId("r-1"))


@pytest.mark.parametrize(
    ("object_id", "cart", "found"),
    [
        ("cart_id", Cart(cart_id="c-1"), "c-1"),
        ("cart_id", Cart(cart_id="ж"), "ж"),
        ("number", Cart(cart_id="c-1"), "0"),
        ("uuid", Cart(cart_id="c", uuid=UUID(int=1)), "00000000-0000-0000-0000-000000000001"),
        ("customer.id", Cart(cart_id="c", customer=Customer(id="u-1")), "u-1"),
        (PER_REQUEST, Cart(cart_id="c"), "r-1"),
    ],
)
def test_the_object_of_a_payload(object_id: Any, cart: Cart, found: str) -> None:
    assert define(object_id=object_id).object_of(cart, RequestId("r-1")) == found


@pytest.mark.parametrize(
    ("object_id", "cart"),
    [
        ("cart_id", Cart(cart_id="")),
        ("uuid", Cart(cart_id="c")),
        ("customer.id", Cart(cart_id="c")),
        ("notes.id", Cart(cart_id="c", notes={"id": True})),
        ("notes.id", Cart(cart_id="c", notes={"id": 1.5})),
        ("cart_id", Cart(cart_id="ж" * (LONGEST_OBJECT_ID // 2 + 1))),
    ],
)
def test_a_payload_without_a_usable_object_cannot_be_run(object_id: str, cart: Cart) -> None:
    with pytest.raises(RunFailed, match="the payload"):
        define(object_id=object_id).object_of(cart, RequestId("r-1"))


# -- what names a request ---------------------------------------------------------------------------------------------


def test_a_flow_names_its_requests_by_the_field_it_says() -> None:
    assert define().request_id is None
    assert define(request_id=("cart_id", "number")).request_id == ("cart_id", "number")


def test_a_wrong_rule_for_the_request_id_is_reported_with_the_other_mistakes() -> None:
    found = problems(request_id="id", object_id="order_id")
    assert [problem.partition(",")[0] for problem in found] == ["object_id is 'order_id'", "request_id is 'id'"]
    assert problems(request_id=()) == (
        "request_id is (); write a field ('order.id'), a tuple of fields, or a function of the payload",
    )


def draw() -> RequestId:
    return RequestId("drawn")


@pytest.mark.parametrize(
    ("rule", "given", "found"),
    [
        (None, draw, "drawn"),
        ("cart_id", draw, "c-1"),
        ("cart_id", RequestId("own"), "own"),
        (("cart_id", "number"), draw, '["c-1","3"]'),
        (lambda cart: f"{type(cart).__name__}-{cart.cart_id}", draw, "Cart-c-1"),
    ],
)
def test_a_request_that_is_given_no_id_is_named_by_the_rule(rule: Any, given: Any, found: str) -> None:
    message, _ = define(request_id=rule).request(Cart(cart_id="c-1", number=3), request_id=given, requested_at=1)
    assert message.request_id == found


def test_the_rule_reads_what_the_stage_will_read() -> None:
    class Own(Cart):
        cart_id: str = "in Python alone"

        @field_serializer("cart_id")
        def sent(self, cart_id: str) -> str:
            return "on the wire"

    flow = define(object_id="number", request_id=lambda cart: f"{type(cart).__name__} {cart.cart_id}")
    message, _ = flow.request(Own(), request_id=draw, requested_at=1)
    assert message.request_id == "Cart on the wire"


def test_a_request_that_its_rule_cannot_name_is_refused() -> None:
    flow = define(request_id="customer.id")
    with pytest.raises(RunFailed, match=r"the payload has no usable 'customer.id' to name the request by"):
        flow.request(Cart(cart_id="c-1"), request_id=draw, requested_at=1)


def test_the_object_of_each_request_is_named_by_the_rule_too() -> None:
    flow = define(object_id=PER_REQUEST, request_id="cart_id")
    message, _ = flow.request(Cart(cart_id="c-1"), request_id=draw, requested_at=1)
    assert (message.object_id, message.request_id) == ("c-1", "c-1")


class Paid(Cart):
    card: SecretStr


def test_a_request_whose_payload_its_stage_would_read_otherwise_is_refused() -> None:
    class Pay(Stage[Paid], name="pay"):
        def handle(self, payload: Paid, step: Step) -> Outcome:
            return Done()

    paid = Paid(cart_id="c-1", card=SecretStr("4111-1111"))
    with pytest.raises(
        PayloadLost, match="the payload of 'pay' would not be read again as it is: card: a secret"
    ) as no:
        define(Pay).request(paid, request_id=draw, requested_at=1)
    assert "4111" not in str(no.value)


# -- requests ---------------------------------------------------------------------------------------------------------


def request(flow: type[Flow], payload: Any, **options: Any) -> tuple[Any, Destination]:
    return flow.request(payload, request_id=RequestId("r-1"), requested_at=1_000, **options)


def test_a_request_is_the_first_hop_of_a_run() -> None:
    message, to = request(define(inbox="carts", version=2), Cart(cart_id="c-1", number=3))
    assert to == Queue("carts")
    assert (message.flow, message.stage, message.version, message.hop, message.retry) == ("made", "price", 2, 1, 0)
    assert (message.object_id, message.request_id, message.requested_at) == ("c-1", "r-1", 1_000)
    assert Cart.model_validate_json(message.body) == Cart(cart_id="c-1", number=3)


def test_a_request_may_name_its_object_where_the_payload_does_not_and_who_is_to_be_told() -> None:
    topic = Topic("arn:aws:sns:eu-west-1:123456789012:ended")
    message, _ = request(define(stage("read", dict[str, Any])), {}, object_id="other", reply_to=topic)
    assert (message.object_id, message.reply_to) == (ObjectId("other"), f"sns:{topic.arn}")


@pytest.mark.parametrize(
    ("object_id", "given", "told"),
    [
        ("cart_id", "other", "object_id='other' contradicts the payload's 'cart_id'; leave object_id out"),
        (PER_REQUEST, "other", "object_id='other' contradicts the request id; leave object_id out"),
        ("cart_id", "", "object_id='' is empty"),
        ("cart_id", "x" * 1_025, f"object_id={'x' * 39!r:.40} … has 1,025 bytes of at most 1,024"),
        ("cart_id", "a\0", "object_id='a\\x00' has the character U+0000, which SQS refuses"),
    ],
)
def test_a_request_for_another_object_than_the_payloads_is_refused(object_id: Any, given: str, told: str) -> None:
    flow = define(object_id=object_id)
    assert request(flow, Cart(cart_id="c-1"), object_id="c-1" if object_id == "cart_id" else "r-1")
    with pytest.raises(RunFailed) as caught:
        request(flow, Cart(cart_id="c-1"), object_id=given)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("request_id", "told"),
    [
        ("", "the request id '' is empty"),
        ("é" * 513, "has 1,026 bytes of at most 1,024"),
        ("\ud800", "has the character U+D800, which SQS refuses"),
    ],
)
def test_a_request_id_that_cannot_travel_is_refused(request_id: str, told: str) -> None:
    with pytest.raises(RunFailed, match=re.escape(told)):
        define().request(Cart(cart_id="c-1"), request_id=RequestId(request_id), requested_at=1)


def test_a_request_that_is_told_where_the_flow_tells_nobody_is_refused_unless_it_is_signed() -> None:
    flow = define(reply_to=("replies", Topic("arn:aws:sns:eu-west-1:123456789012:ended")))
    assert request(flow, Cart(cart_id="c-1"), reply_to=Queue("replies"))
    assert request(flow, Cart(cart_id="c-1"), reply_to=Queue("others"), signed=True)
    with pytest.raises(RunFailed, match=r"made tells nobody at 'sqs:others'; add it to the flow's reply_to=\(…\)"):
        request(flow, Cart(cart_id="c-1"), reply_to=Queue("others"))


# -- what messages may say --------------------------------------------------------------------------------------------


def test_a_flow_is_entered_at_its_first_stage_and_where_it_says_so() -> None:
    first, second = stage("price", Cart), stage("confirm", Cart)
    flow = define(first, second, entries=("confirm", "price"))
    assert flow.entries == ("price", "confirm")
    assert define().entries == ("price",)


def test_a_flow_tells_whom_it_lists() -> None:
    assert define(reply_to=("replies", Queue("others"))).reply_to == (Queue("replies"), Queue("others"))
    assert define(reply_to=()).reply_to == ()
    assert define().reply_to is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"entries": "price"}, "entries is 'price'; write a tuple of the names of stages: entries=('confirm-cart',)"),
        ({"entries": (3,)}, "entries is (3,); write a tuple of the names of stages: entries=('confirm-cart',)"),
        ({"entries": ("pay",)}, "requests enter at 'pay', which is not among its stages: price, confirm"),
        (
            {"reply_to": "replies"},
            "reply_to is 'replies'; write a tuple of destinations or names: reply_to=('replies',)",
        ),
        ({"reply_to": ("",)}, "reply_to is ('',); write a tuple of destinations or names: reply_to=('replies',)"),
        ({"reply_to": (3,)}, "reply_to is (3,); write a tuple of destinations or names: reply_to=('replies',)"),
        ({"max_hops": 1_000_001}, "max_hops is 1000001; a run has at least one hop, and at most 1,000,000"),
        ({"max_depth": -1}, "max_depth is -1; a chain has no runs before one, or up to 1,000,000"),
        ({"max_depth": 1_000_001}, "max_depth is 1000001; a chain has no runs before one, or up to 1,000,000"),
        ({"version": 10**15}, "versions [1000000000000000] must be whole numbers from 1 to 999,999,999,999,999"),
    ],
)
def test_what_messages_may_say_is_checked_when_the_flow_is_defined(options: dict[str, Any], told: str) -> None:
    assert problems(**options) == (told,)


def test_a_request_for_each_is_a_run_of_its_own() -> None:
    assert request(define(object_id=PER_REQUEST), Cart(cart_id="c-1"))[0].object_id == "r-1"


@pytest.mark.parametrize(("takes", "name"), [(Cart, "Cart"), (dict[str, Any], "dict"), (str, "str")])
def test_a_request_with_another_payload_is_refused_by_name(takes: Any, name: str) -> None:
    flow = define(stage("read", takes), object_id=PER_REQUEST)
    with pytest.raises(TypeError, match=f"^made starts with 'read', which takes {name}, not Customer$"):
        request(flow, Customer(id="u-1"))


@pytest.mark.parametrize(
    ("policy", "requested_at", "before"),
    [(IGNORE, 70_000, 10_000), (IGNORE, 101_000, 40_000), (ATTACH, 70_000, 40_000)],
    ids=["by its own time", "which may lie ahead", "by now"],
)
def test_a_run_is_abandoned_under_ignore_by_the_time_of_the_request(
    policy: OnConflict, requested_at: int, before: int
) -> None:
    class Patient(Flow, name="patient", object_id="cart_id", on_conflict=policy, abandoned_after=timedelta(minutes=1)):
        stages = (PRICE, CONFIRM)

    assert Patient.abandoned_before(100_000, requested_at) == before

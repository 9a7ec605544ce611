"""What a group has asked is cancelled with its run, or by the stage after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pydantic import SecretStr

from flowguard.aws.services import aws_store
from flowguard.client import FlowClient
from flowguard.events import EventType
from flowguard.flow import Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Outcome
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.groups import MOST_IN_SHARD, SHARDS_A_TURN, GroupPlan, Member, bound_key, group_key
from flowguard.protocol.run import RunItem, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE
from flowguard.wire.signing import UNSIGNED
from flowguard.worker.children import group_cancel_message
from flowguard.worker.group_cancels import _asker
from tests.aws.engines import same_clients
from tests.waits import (
    DEADLINE,
    SCRIPT,
    WITHIN,
    Cart,
    Late,
    Progress,
    Searched,
    SignedCarts,
    WaitScene,
    placed,
    wait_scene,
)
from tests.worker.runtime.mishaps import Died, dies_at

WHY = "ordered by mistake"
IN_A_TURN = MOST_IN_SHARD * SHARDS_A_TURN
KEYS = "k1:" + "s" * 40


class Search(Flow, name="search", object_id="cart_id", trust_senders=True):
    stages = (Searched,)


class SignedSearch(Flow, name="search", object_id="cart_id"):
    stages = (Searched,)


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene() as found:
        found.function = lambda_handler(found.flow, Search).using(found.services)
        yield found


def group_of(*names: str, to: type[Flow] = Search, cancel_too: bool = True, quorum: float | None = None) -> Any:
    def waits(step: Step[Progress]) -> Outcome:
        group = step.group(to, ((name, Cart(cart_id=name)) for name in names), cancel_too=cancel_too)
        return Late.when_group(group, within=WITHIN, on_timeout="sorry", quorum=quorum)

    return waits


def place(one: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(one["messageAttributes"][PLACE]["stringValue"]))


def with_key(at: WaitScene, key: str) -> list[dict[str, Any]]:
    """Take what lies in the queue of answers, and keep what has this key."""
    return [one for one in at.waiting("answers") if key in place(one)]


def asked(at: WaitScene) -> list[dict[str, Any]]:
    """Deliver the group's messages until there are no more. What is asked then."""
    while own := with_key(at, "group"):
        assert at.deliver(*own)
    return at.waiting("searches")


def cancel(at: WaitScene) -> None:
    """Cancel the run that waits, and let its message end it."""
    assert FlowClient.of(at.services).cancel(at.flow, "c1", why=WHY)
    at.resume()


def ended(at: WaitScene, object_id: str) -> tuple[Status, str] | None:
    item: RunItem | None = aws_store(Settings(), same_clients()).read("search", ObjectId(object_id))
    return None if item is None else (item.status, str(item.error))


CANCELLED = (Status.FAILED, f"Cancelled: {WHY}")


def test_a_cancelled_run_cancels_what_its_group_has_asked_and_has_not_answered(at: WaitScene) -> None:
    at.begin(group_of("a", "b", "c"))
    first, second, third = sorted(asked(at), key=lambda one: str(one["body"]))
    assert at.deliver(first)
    assert all(at.deliver(one) for one in at.waiting("answers"))
    cancel(at)
    assert at.waiting("searches") == [], "the commit has one order, whatever the group's size"
    [order] = with_key(at, "cancel_group")
    assert at.deliver(order)
    cancelled = at.waiting("searches")
    assert [one["body"] for one in cancelled] == ["cancelled", "cancelled"]
    assert all(at.deliver(one) for one in cancelled)
    assert all(at.deliver(one) for one in (second, third)), "a request that comes after it finds an ended run"
    assert (ended(at, "a"), ended(at, "b"), ended(at, "c")) == ((Status.COMPLETED, "None"), CANCELLED, CANCELLED)
    assert all(at.deliver(one) for one in at.waiting("answers")), "the end that each request has finds nobody who waits"


def test_without_cancel_too_they_go_on(at: WaitScene) -> None:
    at.begin(group_of("a", cancel_too=False))
    requests = asked(at)
    cancel(at)
    assert with_key(at, "cancel_group") == []
    assert at.deliver(*requests)
    assert ended(at, "a") == (Status.COMPLETED, "None")


def test_what_is_carried_goes_along_and_so_do_the_tenant_and_the_depth(at: WaitScene) -> None:
    at.begin(group_of("a"), carried={"tenant": Attribute.string("north")}, tenant="acme", depth=3)
    [request] = asked(at)
    cancel(at)
    [order] = with_key(at, "cancel_group")
    assert at.deliver(order)
    [cancelled] = at.waiting("searches")
    assert cancelled["messageAttributes"]["tenant"]["stringValue"] == "north"
    assert (place(cancelled)["tenant"], place(cancelled)["depth"]) == ("acme", place(request)["depth"]) == ("acme", 4)
    named = [one["messageAttributes"]["uniquerequestid"]["stringValue"] for one in (request, cancelled)]
    assert named[0] == named[1]


def test_a_request_that_names_itself_is_cancelled_under_that_name(at: WaitScene) -> None:
    class Named(Flow, name="search", object_id="cart_id", request_id="cart_id", trust_senders=True):
        stages = (Searched,)

    at.begin(group_of("own", to=Named))
    asked(at)
    cancel(at)
    assert at.deliver(*with_key(at, "cancel_group"))
    [cancelled] = at.waiting("searches")
    assert cancelled["messageAttributes"]["uniquerequestid"]["stringValue"] == "own"


def assert_cancels(step: Step[Progress], number: int) -> None:
    assert step.cancel_children(why=WHY) == number


# -- by the stage after it ---------------------------------------------------------------------------------------------


def test_the_stage_after_a_group_cancels_those_that_have_not_answered(at: WaitScene) -> None:
    counted: list[int] = []

    def late(step: Step[Progress]) -> None:
        counted.extend((step.cancel_children(why=WHY), step.cancel_children(why=WHY)))

    SCRIPT.resumed = late
    at.begin(group_of("a", "b"))
    first, _ = sorted(asked(at), key=lambda one: str(one["body"]))
    assert at.deliver(first)
    assert all(at.deliver(one) for one in at.waiting("answers"))
    at.time_out(DEADLINE)
    assert at.resume() == 1
    assert counted == [2, 0], "who has answered is not known before; what is recorded once is recorded"
    assert at.deliver(*with_key(at, "cancel_group"))
    [cancelled] = at.waiting("searches")
    assert at.deliver(cancelled)
    assert ended(at, "b") == CANCELLED
    assert at.item().status is Status.COMPLETED


def test_an_answer_that_comes_while_they_are_cancelled_is_told_so(at: WaitScene) -> None:
    SCRIPT.resumed = lambda step: assert_cancels(step, 2)
    at.begin(group_of("a", "b", quorum=0.5))
    first, second = sorted(asked(at), key=lambda one: str(one["body"]))
    assert at.deliver(first)
    assert all(at.deliver(one) for one in at.waiting("answers"))
    assert at.resume() == 1
    [order] = with_key(at, "cancel_group")
    assert at.deliver(second)
    assert at.deliver(order)
    cancelled = at.waiting("searches")
    assert all(at.deliver(one) for one in [*cancelled, *at.waiting("answers")])
    assert ended(at, "b") == (Status.COMPLETED, "None"), "it had ended before"


# -- several turns, and what dies --------------------------------------------------------------------------------------


def many(at: WaitScene, number: int = IN_A_TURN + 1) -> dict[str, Any]:
    """Cancel a run whose group is larger than a turn. Return the order to cancel what it has asked."""
    at.begin(group_of(*(f"s{place}" for place in range(number))))
    asked(at)
    cancel(at)
    [order] = with_key(at, "cancel_group")
    return order


@pytest.mark.slow("strikes at each call of a run")
def test_a_turn_cancels_some_shards_and_the_next_goes_on_from_there(at: WaitScene) -> None:
    first = many(at)
    with intercept(Recorder()) as calls:
        assert at.deliver(first)
    assert [call.operation for call in calls.calls].count("Query") == 2 * SHARDS_A_TURN, "each is closed, and read anew"
    assert len(at.waiting("searches")) == IN_A_TURN
    [second] = with_key(at, "cancel_group")
    assert place(second)["cancel_group"]["name"] == f"group.{SHARDS_A_TURN}.0"
    assert at.deliver(first), "a copy under its own id: its worker may have died before it sent the message after it"
    assert len(at.waiting("searches")) == IN_A_TURN
    [again] = with_key(at, "cancel_group")
    assert place(again) == place(second)
    assert at.deliver(second)
    assert len(at.waiting("searches")) == 1
    assert with_key(at, "cancel_group") == []


@pytest.mark.slow("strikes at each call of a run")
def test_copies_do_not_add_up(at: WaitScene) -> None:
    first = many(at)
    assert at.deliver(first)
    [second] = with_key(at, "cancel_group")
    assert at.deliver(second)
    at.waiting("searches")
    at.waiting("answers")
    copy = {**first, "messageId": "another"}
    assert not at.function({"Records": [copy]})["batchItemFailures"]
    assert with_key(at, "cancel_group") == []


@pytest.mark.slow("strikes at each call of a run")
def test_a_letter_of_the_order_that_is_sent_back_goes_on(at: WaitScene) -> None:
    first = many(at)

    def throttles(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch" and "cancel_group" in str(call.params):
            raise ClientError({"Error": {"Code": "RequestThrottled", "Message": "slowly"}}, call.operation)
        return proceed()

    with intercept(throttles):
        assert not at.deliver(first)
    assert with_key(at, "cancel_group") == []
    copy = {**first, "messageId": "of the letter that was sent back"}
    assert not at.function({"Records": [copy]})["batchItemFailures"]
    assert len(with_key(at, "cancel_group")) == 1


def test_what_was_never_asked_is_not_cancelled(at: WaitScene) -> None:
    at.begin(group_of(*(f"s{place}" for place in range(2 * IN_A_TURN + 1))))
    [own] = with_key(at, "group")
    cancel(at)
    assert at.deliver(own), "it asks nothing any more"
    assert with_key(at, "cancel_group") == []
    assert at.waiting("searches") == []


@pytest.mark.slow("strikes at each call of a run")
def test_of_a_run_that_is_cancelled_between_two_turns_the_first_turns_are_cancelled(at: WaitScene) -> None:
    at.begin(group_of(*(f"s{place}" for place in range(IN_A_TURN + 1))))
    assert at.deliver(*with_key(at, "group"))
    asked_before = at.waiting("searches")
    [own] = with_key(at, "group")
    cancel(at)
    assert at.deliver(own)
    assert at.deliver(*with_key(at, "cancel_group"))
    assert len(asked_before) == len(at.waiting("searches")) == IN_A_TURN
    assert with_key(at, "cancel_group") == []


@pytest.mark.slow("strikes at each call of a run")
@pytest.mark.parametrize(("operation", "requests"), [("GetItem", 0), ("UpdateItem", IN_A_TURN)])
def test_a_run_that_is_cancelled_while_it_asks_cancels_all_that_it_asks(
    at: WaitScene, operation: str, requests: int
) -> None:
    """Before the note of its begin a turn asks nothing. After it the order knows of its shards."""
    at.begin(group_of(*(f"s{place}" for place in range(IN_A_TURN + 1))))
    [own] = with_key(at, "group")
    before = [operation]

    def cancels(call: ApiCall, proceed: Proceed) -> Response:
        done = proceed()
        if call.operation in before:
            before.clear()
            assert FlowClient.of(at.services).cancel(at.flow, "c1", why=WHY)
        return done

    with intercept(cancels):
        assert at.deliver(own)
    assert len(at.waiting("searches")) == requests
    at.resume()
    orders = with_key(at, "cancel_group")
    assert not orders or at.deliver(*orders)
    assert len(at.waiting("searches")) == requests


def test_a_turn_notes_its_begin_where_its_group_is_cancelled_with_its_run(at: WaitScene) -> None:
    for cancel_too, calls in ((True, ["GetItem", "UpdateItem", "Query", "UpdateItem"]), (False, None)):
        at.begin(
            group_of("a", cancel_too=cancel_too), request_id=f"run-{cancel_too}", requested_at=DEADLINE - cancel_too
        )
        [own] = [one for one in at.waiting("answers") if "group" in place(one)]
        assert at.deliver(own)
        assert at.calls == (calls or ["GetItem", "Query", "UpdateItem"])


def test_requests_that_are_not_taken_now_are_cancelled_again(at: WaitScene) -> None:
    at.begin(group_of("a", "b"))
    asked(at)
    cancel(at)
    [order] = with_key(at, "cancel_group")

    def throttles(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise ClientError({"Error": {"Code": "RequestThrottled", "Message": "slowly"}}, call.operation)
        return proceed()

    with intercept(throttles):
        assert not at.deliver(order)
    assert at.told(EventType.BROKEN) == 1
    assert at.deliver(order)
    assert len(at.waiting("searches")) == 2


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["Query", "UpdateItem", "SendMessageBatch"])
def test_the_worker_of_the_order_may_die_at_any_call(at: WaitScene, operation: str, after: bool) -> None:
    at.begin(group_of("a", "b"))
    requests = asked(at)
    cancel(at)
    [order] = with_key(at, "cancel_group")
    with intercept(dies_at(operation, after=after)), pytest.raises(Died):
        at.deliver(order)
    assert at.deliver(order)
    assert all(at.deliver(one) for one in at.waiting("searches"))
    assert all(at.deliver(one) for one in requests)
    assert (ended(at, "a"), ended(at, "b")) == (CANCELLED, CANCELLED)


def test_the_rows_may_be_gone(at: WaitScene) -> None:
    at.begin(group_of("a"))
    asked(at)
    cancel(at)
    [order] = with_key(at, "cancel_group")
    dynamodb = at.aws.client("dynamodb")
    for item in dynamodb.scan(TableName="flowguard")["Items"]:
        if item["pk"]["S"].startswith("group#"):
            dynamodb.delete_item(TableName="flowguard", Key={name: item[name] for name in ("pk", "sk")})
    assert at.deliver(order)
    assert at.waiting("searches") == []


# -- trust -------------------------------------------------------------------------------------------------------------


def test_where_messages_are_signed_a_forged_order_cancels_nobody() -> None:
    with wait_scene(SignedCarts, settings=Settings(signing_keys=SecretStr(KEYS))) as at:
        at.function = lambda_handler(at.flow, SignedSearch).using(at.services)
        at.begin(group_of("a", "b", to=SignedSearch), tenant="acme")
        asked(at)
        cancel(at)
        [order] = with_key(at, "cancel_group")
        given = place(order)["cancel_group"]
        plan, end, why, depth, tenant, carried = given["rest"]
        assert (tenant, carried) == ("acme", [])
        larger = [plan[0], 2 * MOST_IN_SHARD, *plan[2:]]
        for forged in (
            {**given, "sig": None},
            {**given, "hop": 2},
            {**given, "rest": [plan, end, "no reason", depth, tenant, carried]},
            {**given, "rest": [larger, end + 1, why, depth, tenant, carried]},
            {**given, "rest": [plan, end, why, depth + 1, tenant, carried]},
            {**given, "rest": [plan, end, why, depth, "another", carried]},
            {**given, "rest": [plan, end, why, depth, tenant, ["uniquerequestid"]]},
            {**given, "rest": [plan, end, why, depth]},
            {**given, "rest": [[*plan[:2], "sqs:others", *plan[3:]], end, why, depth, tenant, carried]},
        ):
            assert not at.deliver(placed({"cancel_group": forged}, "{}"))
        assert at.told(EventType.UNTRUSTED) == 9
        assert at.waiting("searches") == []
        assert at.deliver(order)
        assert all(at.deliver(one) for one in at.waiting("searches"))
        assert ended(at, "a") == CANCELLED


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("more", [(), (None, {}), ("acme", {"b": Attribute.string("2"), "a": Attribute.number(1)})])
def test_an_order_is_read_as_it_was_signed(is_sealed: bool, more: Any) -> None:
    member = Member(0, 0)
    address = AnswerAddress("f", ObjectId("o"), RequestId("r"), 5, 1, member.text, True)
    group = GroupPlan("k", 1, "sqs:x", 1, "f", "s", 1, {}, is_sealed)
    order = GroupCancelOrder(address, member, group, 1, "why", 0, *more)
    beside = {**(order.carried or {}), "another": Attribute.string("that is not carried")}
    read = GroupCancelOrder.parse(order.as_json("a signature")["cancel_group"], beside)
    assert read.statement == order.statement
    assert read._replace(address=address) == order


@pytest.mark.parametrize("changed", [{}, {"a": Attribute.string("2")}, {"a": Attribute.number(1)}], ids=str)
def test_the_signature_of_an_order_covers_what_is_carried(changed: dict[str, Attribute]) -> None:
    address = AnswerAddress("f", ObjectId("o"), RequestId("r"), 5, 1, "group.0.0")
    group = GroupPlan("k", 1, "sqs:x", 1, "f", "s")
    order = GroupCancelOrder(address, Member(0, 0), group, 1, "why", 0, None, {"a": Attribute.string("1")})
    assert GroupCancelOrder.parse(order.as_json(None)["cancel_group"], changed).statement != order.statement


@pytest.mark.parametrize("carried", [None, {}, {"tenant": Attribute.string("north"), "other": Attribute.string("b")}])
def test_an_order_carries_on_what_its_flow_names_alone(at: WaitScene, carried: dict[str, Attribute] | None) -> None:
    address = AnswerAddress("f", ObjectId("o"), RequestId("r"), 5, 1, "group.0.0")
    order = GroupCancelOrder(
        address, Member(0, 0), GroupPlan("k", 1, "sqs:x", 1, "f", "s"), 1, "why", 3, "acme", carried
    )
    asker = _asker(at.flow, order)
    assert asker.carried == ({"tenant": Attribute.string("north")} if carried else {})
    assert (asker.tenant, asker.depth) == ("acme", 3)
    send = group_cancel_message(at.flow, order, asker, UNSIGNED)
    assert json.loads(send.attributes[PLACE].value)["tenant"] == "acme", "its queue is fair to tenants"


def test_an_order_of_the_first_form_is_carried_out() -> None:
    """It says nothing of tenant and attributes, and its key nothing of where its requests went."""
    with wait_scene(SignedCarts, settings=Settings(signing_keys=SecretStr(KEYS))) as at:
        at.function = lambda_handler(at.flow, SignedSearch).using(at.services)
        at.begin(group_of("a", to=SignedSearch), tenant="acme")
        asked(at)
        cancel(at)
        [order] = with_key(at, "cancel_group")
        first = GroupCancelOrder.parse(place(order)["cancel_group"], {})._replace(tenant=None, carried=None)
        assert at.deliver(placed(first.as_json(at.services.signer.sign(first.statement)), "{}"))
        [cancelled] = at.waiting("searches")
        assert "tenant" not in place(cancelled)
        assert at.deliver(cancelled)
        assert ended(at, "a") == CANCELLED


@pytest.mark.parametrize(
    "changes",
    [
        {"to": "sqs:mails"},
        {"flow": "others"},
        {"stage": "others"},
        {"key": group_key("of no group that may be cancelled")},
        {"key": f"g-1<1 {bound_key('g-2', 'sqs:mails', 'search', 'searched')}", "to": "sqs:mails"},
    ],
    ids=str,
)
def test_a_forged_order_without_signatures_reaches_no_other_queue(at: WaitScene, changes: dict[str, Any]) -> None:
    """Who reads the flow's queues knows the key. It says where the requests went."""
    at.begin(group_of("a", "b"))
    asked(at)
    cancel(at)
    [order] = with_key(at, "cancel_group")
    read = GroupCancelOrder.parse(place(order)["cancel_group"], {})
    forged = read._replace(group=read.group._replace(**changes))
    assert at.waiting("mails")
    assert not at.deliver(placed(forged.as_json(None), "{}"))
    assert at.told(EventType.UNTRUSTED) == 1
    assert at.waiting("mails") == at.waiting("searches") == []
    assert at.deliver(order)
    assert len(at.waiting("searches")) == 2


PLAN = ["k", 100, "sqs:x", 1, "f", "s", 1, {}]


@pytest.mark.parametrize("wrong", [-1, 0, 101, 10**9, 10**400, True, 1.0, "1", None, float("nan")], ids=str)
@pytest.mark.parametrize("of_plan", [True, False])
def test_a_number_of_an_order_is_bounded(of_plan: bool, wrong: Any) -> None:
    address = AnswerAddress("f", ObjectId("o"), RequestId("r"), 5, 1, "group.0.0").as_json()
    size = wrong if wrong != 101 else 100_001
    rest = [[*PLAN[:1], size, *PLAN[2:]], 1, "why", 0] if of_plan else [PLAN, wrong, "why", 0]
    with pytest.raises(ValueError, match="'size' is no whole number" if of_plan else "'end' is no whole number"):
        GroupCancelOrder.parse({**address, "rest": rest}, {})


@pytest.mark.parametrize(
    ("end", "shard", "fits"),
    [(1, 0, True), (2, 1, True), (2, 0, True), (3, 0, False), (1, 1, False), (2, 9_999, False)],
)
def test_an_order_names_shards_of_its_group(end: int, shard: int, fits: bool) -> None:
    address = AnswerAddress("f", ObjectId("o"), RequestId("r"), 5, 1, f"group.{shard}.0").as_json()
    said = {**address, "rest": [PLAN, end, "why", 0]}
    if fits:
        assert GroupCancelOrder.parse(said, {}).end == end
    else:
        with pytest.raises(ValueError, match="'end' is no whole number"):
            GroupCancelOrder.parse(said, {})


@pytest.mark.parametrize(
    ("place", "wrong", "why"),
    [
        (3, -1, "'moment' is no whole number"),
        (3, 10**15, "'moment' is no whole number"),
        (6, 0, "'version' is no whole number"),
        (6, 10**15, "'version' is no whole number"),
        (2, "nowhere", "nowhere"),
        (0, "", "whose key is that of no group"),
        (0, "k<x k", "whose key is that of no group"),
        (0, "k<99999 k", "whose key is that of no group"),
        (0, "k" * 65, "whose key is that of no group"),
        (0, "k<1 " * 50 + "k", "whose key is that of no group"),
    ],
)
def test_what_an_order_says_of_its_group_is_checked(place: int, wrong: Any, why: str) -> None:
    address = AnswerAddress("f", ObjectId("o"), RequestId("r"), 5, 1, "group.0.0").as_json()
    plan = [*PLAN[:place], wrong, *PLAN[place + 1 :]]
    with pytest.raises(ValueError, match=why):
        GroupCancelOrder.parse({**address, "rest": [plan, 1, "why", 0]}, {})


@pytest.mark.parametrize(
    "more",
    [[-1], [1_000_001], ["0"], [0, None], [0, None, {}], [0, None, "a"]],
    ids=str,
)
def test_what_an_order_says_of_its_run_is_checked(more: list[Any]) -> None:
    address = AnswerAddress("f", ObjectId("o"), RequestId("r"), 5, 1, "group.0.0").as_json()
    with pytest.raises(ValueError, match="is an order to cancel a group"):
        GroupCancelOrder.parse({**address, "rest": [PLAN, 1, "why", *more]}, {})


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "x",
        {"flow": "carts"},
        {"name": "a"},
        {"rest": None},
        {"rest": [[1], 1, "why", 0]},
        {"rest": [["k", 1, "sqs:x", 1, "f", "s", 1, []], 1, "why", 0]},
        {"rest": [["k", 1, "sqs:x", 1, "f", "s", 1, {}], 1, "", 0]},
        {"rest": [["k", 1, "sqs:x", 1, "f", "s", 1, {}], "1", "why", 0]},
    ],
    ids=str,
)
def test_an_order_that_says_no_group_is_unreadable(at: WaitScene, broken: Any) -> None:
    at.begin(group_of("a"))
    asked(at)
    cancel(at)
    [order] = with_key(at, "cancel_group")
    whole = place(order)["cancel_group"]
    said = {**whole, **broken} if isinstance(broken, dict) and len(broken) == 1 and "flow" not in broken else broken
    assert not at.deliver(placed({"cancel_group": said}, "{}"))
    assert at.told(EventType.UNREADABLE) == 1
    assert at.waiting("searches") == []

"""ValidateCart: a cart is confirmed once, and only as the newest request left it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from flowguard import Done, Reject
from flowguard.events import EventType
from flowguard.protocol.run import Status
from flowguard.sim.calls import intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.testing import step_for
from flowguard.worker.runtime import LEASE_WITHOUT_LAMBDA
from flowguard.writes import Put, Update
from flows.validate_cart import handlers
from flows.validate_cart.flow import QUEUES, TABLES, CheckCart, ConfirmCart, PriceCart, ValidateCart
from flows.validate_cart.models import (
    CartChecked,
    CartConfirmed,
    CartLine,
    CartPriced,
    CartState,
    CartSubmitted,
    PricedLine,
)
from tests.flows.world import Death, Died, Meanwhile, World

DAY = "2026-01-02"
REPLIES = "shop-replies"


@pytest.fixture
def world() -> Iterator[World]:
    functions = {
        "carts": handlers.price_cart,
        "carts-to-check": handlers.check_cart,
        "carts-to-confirm": handlers.confirm_cart,
    }
    with MemoryAWS(region="eu-west-1") as aws:
        yield World(aws, ValidateCart, functions, tables=TABLES, queues=(*QUEUES, REPLIES))


def confirmed(world: World) -> Decimal | None:
    totals = world.item("cart-totals", DAY)
    return None if totals is None else totals["confirmed"]


# -- a stage is a plain method ----------------------------------------------------------------------------------------


def submitted(*lines: tuple[str, int]) -> CartSubmitted:
    return CartSubmitted(cart_id="c-1", lines=tuple(CartLine(sku=sku, quantity=quantity) for sku, quantity in lines))


def priced(*lines: tuple[str, int]) -> CartState:
    found = tuple(PricedLine(sku=sku, quantity=quantity, unit_price=Decimal("4.20")) for sku, quantity in lines)
    return CartState(lines=found, total=Decimal("8.40"))


def test_a_cart_is_priced_line_by_line() -> None:
    step = step_for(PriceCart, object_id="c-1", request_id="r-1")
    assert PriceCart().handle(submitted(("tea", 2), ("cup", 6)), step) == CheckCart.message(CartPriced(cart_id="c-1"))
    assert [line.unit_price for line in step.state.lines] == [Decimal("4.20"), Decimal("7.95")]
    assert step.state.total == Decimal("56.10")
    (write,) = step.writes
    assert isinstance(write, Put)
    assert (write.table, write.item["status"], write.item["request_id"]) == ("carts", "PRICED", "r-1")
    assert not step.sends


@pytest.mark.parametrize(
    ("cart", "why"),
    [(submitted(), "the cart is empty"), (submitted(("tea", 1), ("unicorn", 1)), "no price for unicorn")],
)
def test_what_cannot_be_priced_is_rejected(cart: CartSubmitted, why: str) -> None:
    step = step_for(PriceCart)
    with pytest.raises(Reject, match=why):
        PriceCart().handle(cart, step)
    assert not step.writes


def test_no_one_can_order_more_than_a_hundred_of_a_thing_in_however_many_lines() -> None:
    step = step_for(CheckCart, state=priced(("tea", 60), ("tea", 41)), hop=2)
    with pytest.raises(Reject, match="more than 100 of tea"):
        CheckCart().handle(CartPriced(cart_id="c-1"), step)


def test_a_cart_that_can_be_delivered_goes_on() -> None:
    step = step_for(CheckCart, state=priced(("tea", 60), ("tea", 40)), hop=2)
    assert CheckCart().handle(CartPriced(cart_id="c-1"), step) == ConfirmCart.message(CartChecked(cart_id="c-1"))
    assert not step.writes


def test_a_confirmed_cart_is_written_counted_and_mailed() -> None:
    step = step_for(ConfirmCart, state=priced(("tea", 2)), object_id="c-1", request_id="r-1", hop=3)
    outcome = ConfirmCart().handle(CartChecked(cart_id="c-1"), step)
    assert outcome == Done(CartConfirmed(cart_id="c-1", total=Decimal("8.40")))
    cart, totals = step.writes
    assert isinstance(cart, Put)
    assert cart.item["status"] == "CONFIRMED"
    assert isinstance(totals, Update)
    assert (totals.table, totals.change.expression) == ("cart-totals", "ADD confirmed :one, revenue :total")
    (mail,) = step.sends
    assert (str(mail.to), mail.body) == ("sqs:emails", '{"cart_id":"c-1","total":"8.40"}')


# -- the whole flow ---------------------------------------------------------------------------------------------------


def test_a_submitted_cart_is_confirmed_and_whoever_asked_is_told(world: World) -> None:
    assert world.deliver("validate_cart/01-request.json") == {"batchItemFailures": []}
    world.work()
    assert world.item("carts", "cart-2001") == {
        "cart_id": "cart-2001",
        "status": "CONFIRMED",
        "lines": [
            {"sku": "tea", "quantity": 2, "unit_price": Decimal("4.20")},
            {"sku": "cup", "quantity": 6, "unit_price": Decimal("7.95")},
        ],
        "total": Decimal("56.10"),
        "request_id": "cart-2001-request-1",
    }
    assert world.item("cart-totals", DAY) == {"day": DAY, "confirmed": 1, "revenue": Decimal("56.10")}
    assert list(world.messages("emails").values()) == [{"cart_id": "cart-2001", "total": "56.10"}]
    (reply,) = world.messages(REPLIES).values()
    assert (reply["status"], reply["result"]) == ("COMPLETED", {"cart_id": "cart-2001", "total": "56.10"})
    assert world.run("cart-2001").stages == {}


def test_duplicates_of_every_message_change_nothing(world: World) -> None:
    world.deliver("validate_cart/01-request.json")
    world.deliver("validate_cart/02-duplicate.json")
    world.work(copies=3)
    world.deliver("validate_cart/02-duplicate.json")
    world.work(copies=3)
    assert confirmed(world) == 1
    assert len(world.messages("emails")) == 1
    assert len(world.messages(REPLIES)) == 1
    assert world.count(EventType.COMMITTED, EventType.COMPLETED) == 3


@pytest.mark.parametrize("committed", [False, True])
def test_a_worker_that_dies_at_its_commit_is_made_good_by_the_next_delivery(world: World, committed: bool) -> None:
    with intercept(Death("TransactWriteItems", made=committed)), pytest.raises(Died):
        world.deliver("validate_cart/01-request.json")
    assert (world.item("carts", "cart-2001") is not None) is committed
    world.clock.advance(seconds=LEASE_WITHOUT_LAMBDA.total_seconds())
    world.deliver("validate_cart/02-duplicate.json")
    world.work()
    assert confirmed(world) == 1
    assert world.count(EventType.COMMITTED, EventType.COMPLETED) == (2 if committed else 3)  # the dead tell nothing


def test_a_newer_request_takes_over_and_only_it_is_confirmed(world: World) -> None:
    world.deliver("validate_cart/01-request.json")
    world.deliver("validate_cart/03-newer.json")
    world.work()
    assert world.run("cart-2001").request_id == "cart-2001-request-2"
    cart = world.item("carts", "cart-2001")
    assert cart is not None
    assert (cart["status"], cart["total"]) == ("CONFIRMED", Decimal("36.60"))
    assert confirmed(world) == 1
    assert [mail["total"] for mail in world.messages("emails").values()] == ["36.60"]
    assert world.count(EventType.TOOK_OVER) == 1
    assert world.count(EventType.SUPERSEDED) == 1


@pytest.mark.parametrize("ended", [False, True])
def test_an_older_request_that_comes_late_is_dropped(world: World, ended: bool) -> None:
    world.deliver("validate_cart/03-newer.json")
    if ended:
        world.work()
    assert world.deliver("validate_cart/04-older.json") == {"batchItemFailures": []}
    world.work()
    cart = world.item("carts", "cart-2001")
    assert cart is not None
    assert (cart["request_id"], cart["total"]) == ("cart-2001-request-2", Decimal("36.60"))
    assert confirmed(world) == 1
    assert world.count(EventType.STALE) == 1


def test_a_stale_workers_business_writes_are_refused_together_with_its_state(world: World) -> None:
    """The old run has claimed its last stage; just before its commit the newer request is claimed and priced."""
    world.deliver("validate_cart/01-request.json")
    world.work("carts-to-check")
    with intercept(Meanwhile("TransactWriteItems", lambda: world.deliver("validate_cart/03-newer.json"))):
        world.work("carts-to-confirm")
    assert world.count(EventType.FENCED) == 1
    cart = world.item("carts", "cart-2001")
    assert cart is not None
    assert (cart["status"], cart["request_id"]) == ("PRICED", "cart-2001-request-2")
    assert confirmed(world) is None
    assert world.messages("emails") == world.messages(REPLIES) == {}
    run = world.run("cart-2001")
    assert run.status is Status.RUNNING
    assert run.state is not None
    assert CartState.model_validate_json(run.state).total == Decimal("36.60")

    world.work()
    assert confirmed(world) == 1
    assert [mail["total"] for mail in world.messages("emails").values()] == ["36.60"]


def test_a_cart_published_to_the_topic_runs_under_the_notifications_id(world: World) -> None:
    world.deliver("validate_cart/05-sns-to-sqs.json")
    world.work()
    cart = world.item("carts", "cart-2002")
    assert cart is not None
    assert (cart["status"], cart["total"]) == ("CONFIRMED", Decimal("36.40"))
    assert world.count(EventType.WEAK_ID) == 0


def test_a_direct_invocation_is_answered_at_once(world: World) -> None:
    answer = world.deliver("validate_cart/06-invocation.json")
    assert answer["verdict"] == "CLAIMED"
    world.work()
    assert confirmed(world) == 1


def test_an_empty_cart_ends_in_the_dead_letters_and_whoever_asked_is_told(world: World) -> None:
    assert world.deliver("validate_cart/07-empty-cart.json") == {"batchItemFailures": []}
    world.work()
    assert list(world.messages("validate-cart-dead-letters")) == ["cart-2004-request-1"]
    run = world.run("cart-2004")
    assert (run.status, run.error) == (Status.FAILED, "Reject: the cart is empty")
    assert world.item("carts", "cart-2004") is None
    (reply,) = world.messages(REPLIES).values()
    assert (reply["status"], reply["error"]) == ("FAILED", "Reject: the cart is empty")


def test_a_payload_that_does_not_validate_starts_no_run(world: World) -> None:
    assert world.deliver("validate_cart/08-bad-payload.json") == {"batchItemFailures": []}
    assert list(world.messages("validate-cart-dead-letters")) == ["cart-2005-request-1"]
    assert world.count(EventType.CLAIMED) == 0


def test_one_bad_record_does_not_harm_the_others_of_its_batch(world: World) -> None:
    assert world.deliver("envelopes/mixed-batch.json") == {"batchItemFailures": []}
    world.work()
    cart = world.item("carts", "cart-1001")
    assert cart is not None
    assert cart["status"] == "CONFIRMED"

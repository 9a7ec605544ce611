"""The orders: order and stock change together or not at all, and every sum counts each message once."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from flowguard.events import EventType
from flowguard.sim.calls import intercept
from flowguard.testing import FlowResult, FlowRunner, MemoryAWS
from flows.orders.flow import AddToOrder, PlaceOrder, ReceiveGoods
from flows.orders.models import GoodsReceived, ItemAdded, OrderPlaced
from tests.flows.mishaps import Copies, Death, Meanwhile
from tests.flows.samples import sample


@pytest.fixture
def shop(flow_runner: FlowRunner) -> FlowRunner:
    """Four tins of tea and one cup are there."""
    flow_runner.serve(ReceiveGoods, PlaceOrder, AddToOrder)
    flow_runner.send(ReceiveGoods, GoodsReceived(delivery_id="d-1", sku="tea", pieces=4))
    flow_runner.send(ReceiveGoods, GoodsReceived(delivery_id="d-2", sku="cup", pieces=1))
    flow_runner.run()
    return flow_runner


def ordering(shop: FlowRunner, order_id: str = "o-1", /, **lines: int) -> FlowRunner:
    shop.send(PlaceOrder, OrderPlaced(order_id=order_id, customer="ada@x", lines=lines))
    return shop


def adding(shop: FlowRunner, addition_id: str = "a-1", order_id: str = "o-1", pieces: int = 1) -> FlowRunner:
    shop.send(AddToOrder, ItemAdded(addition_id=addition_id, order_id=order_id, sku="tea", pieces=pieces))
    return shop


def stock(result: FlowResult) -> dict[str, int]:
    return {row["sku"]: row["pieces"] for row in result.table("stock")}


def lines(result: FlowResult, order_id: str = "o-1") -> dict[str, int] | None:
    found = result.item("orders", order_id=order_id)
    return None if found is None else dict(found["lines"])


# -- together, or not at all ------------------------------------------------------------------------------------------


def test_an_order_takes_what_it_names_from_the_stock(shop: FlowRunner) -> None:
    result = ordering(shop, tea=3, cup=1).run()
    assert (lines(result), stock(result)) == ({"tea": 3, "cup": 1}, {"tea": 1, "cup": 0})
    assert result.run("o-1").result == {"status": "PLACED", "missing": []}


def test_an_order_that_lacks_one_thing_takes_nothing_and_says_what(shop: FlowRunner) -> None:
    result = ordering(shop, tea=3, cup=2).run()
    assert (lines(result), stock(result)) == ({}, {"tea": 4, "cup": 1})
    assert result.run("o-1").result == {"status": "REFUSED", "missing": ["cup"]}


@pytest.mark.parametrize("made", [False, True])
def test_a_function_that_dies_at_its_commit_leaves_all_or_nothing(shop: FlowRunner, made: bool) -> None:
    with intercept(Death("TransactWriteItems", made=made)):
        died = ordering(shop, tea=3, cup=1).step()
    assert (lines(died), stock(died)) == (
        ({"tea": 3, "cup": 1}, {"tea": 1, "cup": 0}) if made else (None, {"tea": 4, "cup": 1})
    )
    result = shop.run()
    assert (lines(result), stock(result)) == ({"tea": 3, "cup": 1}, {"tea": 1, "cup": 0})


def test_of_two_orders_for_the_last_pieces_one_is_refused(shop: FlowRunner) -> None:
    with intercept(Meanwhile("TransactWriteItems", lambda: ordering(shop, "o-2", tea=3).step())):
        result = ordering(shop, "o-1", tea=3).step()
    assert (lines(result, "o-1"), lines(result, "o-2")) == ({}, {"tea": 3})
    assert stock(result)["tea"] == 1


def test_an_order_whose_run_item_is_gone_is_not_taken_again(shop: FlowRunner, flow_engine: MemoryAWS) -> None:
    ordering(shop, tea=3).run()
    expired = {"pk": {"S": "run#place-order#o-1"}, "sk": {"S": "run"}}
    flow_engine.client("dynamodb").delete_item(TableName="flowguard", Key=expired)
    result = ordering(shop, tea=1).run()
    assert (lines(result), stock(result)["tea"]) == ({"tea": 3}, 1)
    assert result.run("o-1").status == "FAILED"


# -- each message counts once -----------------------------------------------------------------------------------------


def test_however_often_they_are_sent_and_delivered_each_message_counts_once(shop: FlowRunner) -> None:
    for _ in ("sent", "and sent again"):
        ordering(shop, tea=1).run()
        adding(adding(shop, "a-1"), "a-2")
        with intercept(Copies(3)):
            shop.run()
    result = shop.run()
    assert (lines(result), stock(result)["tea"]) == ({"tea": 3}, 1)
    assert result.item("stock", sku="tea") == {"sku": "tea", "pieces": 1, "received": 4, "sold": 3}


@pytest.mark.slow("runs a flow of many additions")
def test_an_order_grows_with_its_additions_and_with_nothing_else(shop: FlowRunner) -> None:
    """No list of the ids that were counted."""
    before = ordering(shop, tea=1).run().item("orders", order_id="o-1")
    after = adding(adding(shop), "a-2", pieces=2).run().item("orders", order_id="o-1")
    assert before is not None
    assert after == {**before, "lines": {"tea": 4}, "pieces": 4}


@pytest.mark.parametrize("made", [False, True])
def test_an_addition_whose_function_died_counts_once(shop: FlowRunner, made: bool) -> None:
    ordering(shop, tea=1).run()
    with intercept(Death("TransactWriteItems", made=made)):
        adding(shop).step()
    result = shop.run()
    assert (lines(result), stock(result)["tea"]) == ({"tea": 2}, 2)


def test_an_addition_that_comes_before_its_order_waits_for_it(shop: FlowRunner) -> None:
    early = adding(shop).step()
    assert (early.count(EventType.RETRIED), stock(early)["tea"]) == (1, 4)
    result = ordering(shop, tea=1).run()
    assert (lines(result), stock(result)["tea"]) == ({"tea": 2}, 2)


@pytest.mark.parametrize("cups", [0, 9])
def test_an_addition_to_no_order_or_to_a_refused_one_becomes_a_dead_letter(shop: FlowRunner, cups: int) -> None:
    if cups:
        ordering(shop, cup=cups).run()
    result = adding(shop).run()
    assert stock(result)["tea"] == 4
    assert [str(letter.id) for letter in result.dead_letters] == ["a-1"]


def test_an_addition_that_lacks_stock_leaves_the_order_as_it_was(shop: FlowRunner) -> None:
    ordering(shop, tea=1).run()
    result = adding(shop, pieces=9).run()
    assert (lines(result), stock(result)["tea"]) == ({"tea": 1}, 3)
    assert result.run("a-1").result == {"status": "REFUSED", "missing": ["tea"]}


@pytest.mark.parametrize("pieces", [0, -3])
def test_nobody_takes_less_than_a_piece(pieces: int) -> None:
    with pytest.raises(ValidationError, match="pieces"):
        ItemAdded(addition_id="a-1", order_id="o-1", sku="tea", pieces=pieces)
    with pytest.raises(ValidationError, match="lines"):
        OrderPlaced(order_id="o-1", customer="ada@x", lines={"tea": pieces})


def test_the_samples_end_as_their_page_says(flow_runner: FlowRunner) -> None:
    flow_runner.serve(ReceiveGoods, PlaceOrder, AddToOrder)
    names = (
        "01-tea 02-tea-sent-again 03-cups 04-order 05-order-sent-again 06-more-than-there-is 07-added "
        "08-added-sent-again 09-added-before-its-order 10-the-order"
    )
    for name in names.split():
        flow_runner.deliver(sample(f"orders/{name}.json"))
    result = flow_runner.run()
    assert stock(result) == {"tea": 3, "cup": 1}
    assert [lines(result, f"or-700{number}") for number in (1, 2, 3)] == [{"tea": 5, "cup": 1}, {}, {"tea": 2}]

"""Writes are recorded for one transaction, each with what follows if its condition does not hold."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from flowguard.errors import RunFailed, TooManyWrites
from flowguard.items.writes import Check, Condition, Delete, Put, Update
from flowguard.step import Step
from flowguard.testing import step_for
from tests.recorded.carts import Cart, CartState, Price


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

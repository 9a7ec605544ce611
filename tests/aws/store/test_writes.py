"""Recorded writes: applied with the commit, all of them or none."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.store import DynamoDBStore
from flowguard.errors import ConditionFailed, ConditionRejected, NotHeld, WriteInvalid
from flowguard.items.writes import Check, Condition, Delete, Put, Update
from flowguard.protocol.run import FencedBy
from flowguard.sim.calls import Recorder, intercept
from tests.aws.store.run import cart, claimed, commit, counted, fenced, stored


def test_recorded_writes_are_applied_with_the_commit_in_one_call(clients: Clients, store: DynamoDBStore) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "gone"}})
    claim = claimed(store)
    with intercept(Recorder()) as calls:
        store.commit(
            claim, commit(counted(), Put("carts", {"id": "c2", "price": 1.5}), Delete("carts", {"id": "gone"}))
        )
    assert [call.operation for call in calls.calls] == ["TransactWriteItems"]
    assert (cart(clients, "c1")["n"], cart(clients, "c2")["price"]) == ({"N": "1"}, {"N": "1.5"})
    assert cart(clients, "gone") is None
    assert stored(store).done


def test_a_stale_worker_writes_neither_state_nor_business_data(clients: Clients, store: DynamoDBStore) -> None:
    old = claimed(store)
    claimed(store, (501, "request-n"))
    assert fenced(store.commit(old, commit(counted()))) is FencedBy.NEWER_RUN
    assert cart(clients, "c1") is None


def test_a_condition_of_the_callers_own_refuses_the_whole_commit_and_shows_the_item(
    clients: Clients, store: DynamoDBStore
) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "n": {"N": "7"}})
    put = Put("carts", {"id": "c1"}, Condition("attribute_not_exists(id)"))
    with pytest.raises(ConditionFailed, match=r"carts.*attribute_not_exists\(id\).*does not match") as raised:
        store.commit(claimed(store), commit(Put("carts", {"id": "c9"}), put))
    assert raised.value.item == {"id": "c1", "n": 7}
    assert not stored(store).done
    assert cart(clients, "c9") is None


def test_the_fence_is_told_rather_than_the_callers_condition_when_both_fail(
    clients: Clients, store: DynamoDBStore
) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}})
    old = claimed(store)
    claimed(store, (501, "request-n"))
    put = Put("carts", {"id": "c1"}, Condition("attribute_not_exists(id)"))
    assert fenced(store.commit(old, commit(put))) is FencedBy.NEWER_RUN


def test_an_update_has_names_and_values_for_both_its_change_and_its_condition(
    clients: Clients, store: DynamoDBStore
) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "status": {"S": "open"}})
    change = Condition("SET #s = :new", {"#s": "status"}, {":new": "paid", ":old": "open"})
    store.commit(claimed(store), commit(Update("carts", {"id": "c1"}, change, Condition("#s = :old"))))
    assert cart(clients, "c1")["status"] == {"S": "paid"}


def test_the_condition_of_an_update_has_names_and_values_of_its_own(clients: Clients, store: DynamoDBStore) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "status": {"S": "open"}})
    change = Condition("SET #t = :t", {"#t": "total"}, {":t": 7})
    is_open = Condition("#s = :open", {"#s": "status"}, {":open": "open"})
    store.commit(claimed(store), commit(Update("carts", {"id": "c1"}, change, is_open)))
    assert cart(clients, "c1")["total"] == {"N": "7"}


def test_a_condition_that_fails_for_want_of_an_item_shows_none(store: DynamoDBStore) -> None:
    put = Put("carts", {"id": "c1"}, Condition("attribute_exists(id)"))
    with pytest.raises(ConditionFailed) as raised:
        store.commit(claimed(store), commit(put))
    assert raised.value.item is None


def test_a_delete_whose_condition_does_not_hold_deletes_nothing(clients: Clients, store: DynamoDBStore) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "status": {"S": "open"}})
    is_paid = Condition("#s = :paid", {"#s": "status"}, {":paid": "paid"})
    with pytest.raises(ConditionFailed) as raised:
        store.commit(claimed(store), commit(Delete("carts", {"id": "c1"}, is_paid)))
    assert raised.value.item == {"id": "c1", "status": "open"}
    assert cart(clients, "c1") is not None


def test_a_malformed_write_is_named_and_nothing_is_written(store: DynamoDBStore) -> None:
    twice = (Put("carts", {"id": "c1"}), Put("carts", {"id": "c1"}))
    with pytest.raises(WriteInvalid, match=r"'carts' are to one item, \{'id': 'c1'\}; record one"):
        store.commit(claimed(store), commit(*twice))
    assert not stored(store).done


def test_a_write_that_cannot_be_applied_is_named_however_the_engine_says_so(store: DynamoDBStore) -> None:
    """AWS cancels the transaction with ValidationError for that action; DynamoDB Local refuses the whole request."""
    update = Update("carts", {"id": "c1"}, Condition("SET total = missing + :one", {}, {":one": 1}))
    with pytest.raises(WriteInvalid, match="DynamoDB refuses"):
        store.commit(claimed(store), commit(update))
    assert not stored(store).done


def test_a_check_changes_nothing_and_refuses_what_is_written_beside_it(clients: Clients, store: DynamoDBStore) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "shop"}, "open": {"BOOL": False}})
    is_open = Check("carts", {"id": "shop"}, Condition("#o = :yes", {"#o": "open"}, {":yes": True}))
    claim = claimed(store)
    with pytest.raises(ConditionFailed) as raised:
        store.commit(claim, commit(counted(), is_open))
    assert raised.value.item == {"id": "shop", "open": False}
    assert cart(clients, "c1") is None
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "shop"}, "open": {"BOOL": True}})
    store.commit(claim, commit(counted(), is_open))
    assert (cart(clients, "c1")["n"], cart(clients, "shop")["open"]) == ({"N": "1"}, {"BOOL": True})


def absent(cart_id: str, **said: Any) -> Put:
    return Put("carts", {"id": cart_id, "new": True}, Condition("attribute_not_exists(id)", **said))


def test_every_write_that_the_handler_can_do_without_is_told_with_its_item(
    clients: Clients, store: DynamoDBStore
) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "n": {"N": "7"}})
    needs = Delete("carts", {"id": "c3"}, Condition("attribute_exists(id)", go_on="third"))
    with pytest.raises(NotHeld) as raised:
        store.commit(claimed(store), commit(absent("c1", go_on="first"), absent("c2", go_on="second"), needs))
    assert raised.value.refused == {"first": {"id": "c1", "n": 7}, "third": None}
    assert str(raised.value) == "these writes did not hold: first, third"
    assert cart(clients, "c2") is None
    assert not stored(store).done


@pytest.mark.parametrize(
    ("others", "error"),
    [((), ConditionFailed), ((absent("c1"),), ConditionFailed), ((absent("c1", reject=True),), ConditionRejected)],
)
def test_the_strictest_of_the_conditions_that_do_not_hold_decides(
    clients: Clients, store: DynamoDBStore, others: tuple[Put, ...], error: type[Exception]
) -> None:
    for one in ("c0", "c1", "c2"):
        clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": one}})
    with pytest.raises(error, match=r"'carts' does not hold \(attribute_not_exists\(id\)\)"):
        store.commit(claimed(store), commit(absent("c2", go_on="third"), absent("c0"), *others))

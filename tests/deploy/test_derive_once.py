"""What a deployment needs of functions under ``@once``: beside flows, or alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flowguard import KeyTable, PerKey, lambda_handler, once
from flowguard.deploy.found import FunctionKind, find_functions
from flowguard.deploy.needs import Deployment, Role, Target
from flowguard.deploy.problems import CannotDeploy
from flowguard.once_function import OnceFunction
from flowguard.settings import Settings
from tests.deploy.test_derive import MODULE, Deploy, Shop, deploy, refusal

__all__ = ["deploy"]

DAY = 86_400
Charge = OnceFunction[[dict[str, Any]], None]


def charge_of(name: str = "charge", **options: Any) -> Charge:
    """A function under ``@once`` of the module."""

    def charge(record: dict[str, Any]) -> None: ...

    charge.__module__ = MODULE
    given: dict[str, Any] = {"key": "body.order_id", **options}
    guard: Callable[[Callable[[dict[str, Any]], None]], Charge] = once(name, **given)
    return guard(charge)


def tables(needed: Deployment) -> list[tuple[str, tuple[str, ...], str | None, bool]]:
    return [(one.name, one.key.names, one.ttl, one.existing) for one in needed.tables]


# -- a batch ----------------------------------------------------------------------------------------------------------


def test_a_batch_is_a_function_that_reads_a_queue_of_the_rules_name(deploy: Deploy) -> None:
    charge = charge_of()
    needed = deploy(charge=charge, handler=charge.batch)
    [function] = needed.functions
    assert (function.name, function.definition.handler, function.definition.kind) == (
        "charge-handler",
        f"{MODULE}.handler",
        FunctionKind.ONCE,
    )
    assert (function.reads, function.owner, needed.names, needed.flows) == (("charge",), "charge", ("charge",), ())
    [queue, dead] = needed.queues
    assert (queue.name, queue.role, queue.reader, queue.give_up_to) == (
        "charge",
        Role.INBOX,
        "charge-handler",
        "charge-dead-letters",
    )
    assert queue.visibility == 6 * function.timeout
    assert queue.max_receive_count * queue.visibility == 21_000, "nearly six hours, as the page of @once says"
    assert (queue.retention, dead.retention) == (4 * DAY, 10 * DAY), "a letter's age counts from its first sending"
    assert (dead.name, dead.role, dead.owner, queue.owner) == (
        "charge-dead-letters",
        Role.DEAD_LETTERS,
        "charge",
        "charge",
    )
    assert needed.notes == ()


def test_it_may_write_its_keys_and_read_its_queue_and_nothing_else(deploy: Deploy) -> None:
    settings = {"signing_keys": "ssm:/keys", "bucket": "long-texts", "table": "runs"}
    [function] = deploy({"settings": settings}, handler=charge_of().batch).functions
    assert [(one.on, one.name, one.actions) for one in function.permissions if one.on is not Target.LOGS] == [
        (Target.BUCKET, "long-texts/flowguard/*", ("s3:ListBucket",)),
        (Target.OBJECTS, "long-texts/flowguard/*", ("s3:GetObject", "s3:PutObject")),
        (Target.QUEUE, "charge", ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")),
        (Target.TABLE, "runs", ("dynamodb:UpdateItem",)),
    ]
    assert dict(function.environment) == {"FLOWGUARD_TABLE": "runs", "FLOWGUARD_BUCKET": "long-texts"}


def test_one_with_limits_may_put_the_items_of_their_keys_and_hide_its_records(deploy: Deploy) -> None:
    limit = PerKey("body.merchant", at_once=1)
    [function] = deploy(handler=charge_of(limit=limit, table="keys").batch).functions
    hides = ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl")
    assert [(one.on, one.name, one.actions) for one in function.permissions if one.on is not Target.LOGS] == [
        (Target.QUEUE, "charge", (*hides, "sqs:ReceiveMessage")),
        (Target.TABLE, "keys", ("dynamodb:PutItem", "dynamodb:UpdateItem")),
    ]
    [note] = deploy(charge=charge_of(limit=limit)).notes
    assert note.endswith("give its role dynamodb:PutItem and dynamodb:UpdateItem on the table 'flowguard'")


@pytest.mark.parametrize(("receives", "is_noted"), [(99, True), (100, False)])
def test_a_queue_that_gives_up_what_waits_for_a_place_is_noted(deploy: Deploy, receives: int, is_noted: bool) -> None:
    options: dict[str, Any] = {"queues": {"charge": {"max_receive_count": receives}}}
    free, limited = charge_of().batch, charge_of(limit=PerKey("body.merchant", at_once=1))
    assert deploy(options, handler=free).notes == ()
    notes = deploy(options, handler=limited.batch).notes
    assert [f"its queue 'charge' gives a record up after {receives} receives: each" in note for note in notes] == (
        [True] * is_noted
    )
    assert not any("receives" in note for note in deploy(options, charge=limited).notes), "what calls it is another's"
    options = {"queues": {"other": {"max_receive_count": receives}}, "functions": {"handler": {"queue": "other"}}}
    assert len(deploy(options, handler=limited.batch).notes) == is_noted


def test_the_options_name_its_queue(deploy: Deploy) -> None:
    options = {
        "functions": {f"{MODULE}.handler": {"queue": "orders", "timeout": 20, "window": 3}},
        "queues": {"orders": {"max_receive_count": 7, "existing": True}},
    }
    needed = deploy(options, handler=charge_of().batch)
    [queue, dead] = needed.queues
    assert (queue.name, queue.visibility, queue.max_receive_count, queue.made) == ("orders", 123, 7, False)
    assert (dead.name, dead.made) == ("orders-dead-letters", True)


def test_a_fifo_queue_brings_a_record_at_a_time_so_that_none_is_given_up_with_the_one_before_it(
    deploy: Deploy,
) -> None:
    options: dict[str, Any] = {"queue": "orders.fifo"}
    needed = deploy({"functions": {"handler": options}}, handler=charge_of().batch)
    assert [one.name for one in needed.queues] == ["orders-dead-letters.fifo", "orders.fifo"]
    assert [one.batch_size for one in needed.functions] == [1]
    given = deploy({"functions": {"handler": {**options, "batch_size": 4}}}, handler=charge_of().batch)
    assert [one.batch_size for one in given.functions] == [4]
    standard = deploy({"functions": {"handler": {"queue": "orders-fifo"}}}, handler=charge_of().batch)
    assert [one.batch_size for one in standard.functions] == [10]


def test_a_name_has_the_signs_that_lambda_and_sqs_take(deploy: Deploy) -> None:
    [function] = deploy(handler=charge_of("shop:cards/charge.v2").batch).functions
    assert (function.name, function.reads) == ("shop-cards-charge-v2-handler", ("shop-cards-charge-v2",))
    told = refusal(deploy, {"functions": {"handler": {"name": "h"}}}, handler=charge_of("c" * 81).batch)
    assert "would have a name of 81 characters, and SQS takes 80; give" in told
    assert "or queue = for @once" in told


def test_a_handler_of_two_names_is_one_function_and_other_methods_are_none(deploy: Deploy) -> None:
    charge = charge_of()
    needed = deploy(one=charge.batch, two=charge.batch, read=charge.read)
    assert [one.name for one in needed.functions] == ["charge-one"]


def test_a_queue_has_one_reader(deploy: Deploy) -> None:
    told = refusal(deploy, one=charge_of("charge").batch, two=charge_of("charge").batch)
    assert f"{MODULE}.two reads 'charge' and gives up to 'charge-dead-letters', and 'charge' is another" in told
    assert f'name another queue: [functions."{MODULE}.two"] queue = "…"' in told
    assert "and 'placed' is another function's" in refusal(
        deploy, {"functions": {"handler": {"queue": "placed"}}}, shop=lambda_handler(Shop), handler=charge_of().batch
    )
    assert "and 'placed-dead-letters' is another function's" in refusal(
        deploy,
        {"functions": {"one": {"queue": "placed-dead-letters"}, "two": {"queue": "placed"}}},
        one=charge_of("one").batch,
        two=charge_of("two").batch,
    )


def test_a_function_of_a_flow_has_the_queue_of_its_stages(deploy: Deploy) -> None:
    told = refusal(deploy, {"functions": {"shop": {"queue": "orders"}}}, shop=lambda_handler(Shop))
    assert "shop_handlers.shop has queue = 'orders', which is for functions under @once; its flow says inbox=" in told


def test_results_that_live_shorter_than_records_are_a_note(deploy: Deploy) -> None:
    assert deploy(handler=charge_of(keep=timedelta(days=14)).batch).notes == ()
    [note] = deploy(handler=charge_of(keep=timedelta(days=13)).batch).notes
    assert "keeps results for 13 days, 0:00:00, and its queues keep a record for up to 14 days" in note


# -- what others call -------------------------------------------------------------------------------------------------


def test_a_function_that_others_call_has_its_table_and_a_note_on_what_its_caller_needs(deploy: Deploy) -> None:
    needed = deploy(charge=charge_of())
    assert (needed.functions, needed.queues, needed.names) == ((), (), ("charge",))
    assert tables(needed) == [("flowguard", ("pk", "sk"), "ttl", False)]
    assert needed.notes == (
        f"{MODULE}.charge is under @once('charge'), and what calls it is your own: give its role dynamodb:UpdateItem "
        "on the table 'flowguard'",
    )
    [note] = deploy({"settings": {"bucket": "texts", "prefix": "here/"}}, charge=charge_of(table="keys")).notes
    assert note.endswith("on the table 'keys', s3:GetObject and s3:PutObject on texts/here/*")


def test_one_that_is_imported_is_its_own_modules(deploy: Deploy) -> None:
    imported = charge_of("elsewhere")
    imported.__module__ = "elsewhere"
    assert deploy(handler=charge_of().batch, imported=imported).names == ("charge",)
    assert deploy(handler=imported.batch).names == ("elsewhere",), "a handler is where it is made"


def test_a_flow_and_what_is_done_once_are_deployed_together(deploy: Deploy) -> None:
    charge = charge_of(table=KeyTable("idempotency"))
    needed = deploy(shop=lambda_handler(Shop), charge=charge, handler=charge.batch, refund=charge_of("refund"))
    assert [one.name for one in needed.functions] == ["charge-handler", "shop"]
    assert [one.name for one in needed.tables] == ["flowguard", "idempotency", "parcels"]
    assert needed.names == ("shop", "charge", "refund")
    assert needed.owners == "shop charge refund"
    assert [note.split(" is under ")[0] for note in needed.notes if "@once" in note] == [f"{MODULE}.refund"]
    dead = {one.name: one.owner for one in needed.queues if one.role is Role.DEAD_LETTERS}
    assert dead == {"charge-dead-letters": "charge", "shop-dead-letters": "shop"}


def test_what_is_done_once_can_be_chosen_by_its_name(deploy: Deploy) -> None:
    charge = charge_of()
    deploy(shop=lambda_handler(Shop), charge=charge, handler=charge.batch)
    assert [one.attribute for one in find_functions([f"{MODULE}:charge"])] == ["handler"]
    assert [one.attribute for one in find_functions([f"{MODULE}:Shop"])] == ["shop"]
    with pytest.raises(CannotDeploy, match="serves 'nobody'; they serve charge, shop"):
        find_functions([f"{MODULE}:nobody"])


# -- the tables of keys -----------------------------------------------------------------------------------------------


def test_a_table_has_the_keys_and_the_expiry_of_its_rule(deploy: Deploy) -> None:
    handlers = {
        "one": charge_of("one", table=KeyTable("sorted", "tenant", "order", "gone_at")).batch,
        "two": charge_of("two", table=KeyTable("plain")).batch,
        "three": charge_of("three", table="alike").batch,
        "four": charge_of("four", table="alike").batch,
    }
    needed = deploy({"tables": {"plain": {"existing": True}}}, **handlers)
    assert tables(needed) == [
        ("sorted", ("tenant", "order"), "gone_at", False),
        ("plain", ("id",), "expiration", True),
        ("alike", ("pk", "sk"), "ttl", False),
    ]
    assert {one.key.types for one in needed.tables} == {("S", "S"), ("S",)}


def test_a_table_is_flowguards_own_where_the_rule_names_it(deploy: Deploy) -> None:
    needed = deploy(shop=lambda_handler(Shop), handler=charge_of(table=Settings().table).batch)
    assert [one.name for one in needed.tables] == ["flowguard", "parcels"]


@pytest.mark.parametrize(
    "table",
    [KeyTable("flowguard"), KeyTable("flowguard", "pk", "sk", "expires"), KeyTable("parcels")],
    ids=["another-key", "another-expiry", "declared-otherwise"],
)
def test_a_table_that_cannot_hold_both_is_named(table: KeyTable, deploy: Deploy) -> None:
    told = refusal(deploy, shop=lambda_handler(Shop), handler=charge_of(table=table).batch)
    assert f"{MODULE}.handler keeps its keys in the table {table.name!r} under {table.key}" in told
    assert "name another table: @once(…, table=…)" in told


def test_a_table_that_a_stage_writes_too_expires(deploy: Deploy) -> None:
    table = KeyTable("parcels", "order_id")
    needed = deploy(shop=lambda_handler(Shop), handler=charge_of(table=table).batch)
    assert tables(needed) == [
        ("flowguard", ("pk", "sk"), "ttl", False),
        ("parcels", ("order_id",), "expiration", False),
    ]


def test_a_name_that_dynamodb_does_not_take_is_named(deploy: Deploy) -> None:
    assert "'k' is no table's name" in refusal(deploy, handler=charge_of(table="k").batch)


@pytest.mark.parametrize(("chosen", "existing"), [({"warm_writes": 4_000}, False), ({"existing": True}, True)])
def test_a_table_of_keys_is_made_unless_the_options_say_that_it_is_there(
    deploy: Deploy, chosen: dict[str, Any], existing: bool
) -> None:
    needed = deploy({"tables": {"flowguard": chosen}}, handler=charge_of().batch)
    assert tables(needed) == [("flowguard", ("pk", "sk"), "ttl", existing)]

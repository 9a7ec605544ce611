"""The cases of the recall: each kind of bug once, and sound code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowguard.testing import batch, bus_event, sns_event, sqs_event
from flowguard.testing.explorer import PlainFunction
from tests.proofs.recall import flows, kept, needs, objects, records, sends, shop, sound, sources, waits, writes
from tests.proofs.recall.case import Case

ORDER: Final = {"order_id": "o1", "amount": 5, "version": 1}
OTHER: Final = {"order_id": "o2", "amount": 7, "version": 1}
CHANGED: Final = {"order_id": "o1", "amount": 7, "version": 2}
STOCK: Final = {"stock": [{"sku": "shelf", "n": 5, "moved": "none"}, {"sku": "truck", "n": 0}]}


TEA: Final = {"order_id": "o1", "amount": 2, "sku": "tea"}
MORE_TEA: Final = {"order_id": "o2", "amount": 1, "sku": "tea"}
SHOP: Final[Any] = {
    "tables": {**shop.TABLES, "lines": ("order_id", "line")},
    "items": {"stock": [{"sku": "tea", "n": 5}], "prices": [{"sku": "tea", "price": 4}]},
    "buckets": {"orders": {"monday.csv": "1,2"}},
}
CREATED: Final = {
    "Records": [{"eventSource": "aws:s3", "s3": {"bucket": {"name": "orders"}, "object": {"key": "monday.csv"}}}]
}


def _of(handler: Callable[..., Any], **about: Any) -> PlainFunction:
    return PlainFunction("orders", handler, **about)


def _bug(kind: str, handler: Any, *messages: Any, rule: str = "", **about: Any) -> Case:
    of = handler if isinstance(handler, type | list) else _of(handler)
    return Case(kind, of, messages or (ORDER,), about, rule)


def _sound(kind: str, handler: Any, *messages: Any, **about: Any) -> Case:
    of = handler if isinstance(handler, type | list | PlainFunction) else _of(handler)
    return Case(kind, of, messages or (ORDER,), about, sound=True)


BUGS: Final = (
    _bug("adds without a condition", writes.adds),
    _bug("appends to a list", writes.appends),
    _bug("writes under a random key", writes.logs_under_a_new_id),
    _bug("writes under the time", writes.logs_under_the_time),
    _bug("checks, then acts", writes.checks_then_adds),
    _bug("marks as done, then acts", writes.marks_then_adds),
    _bug("reads, then writes back", writes.reads_then_writes, ORDER, CHANGED),
    _bug("keeps whichever arrives last", writes.keeps_the_last, ORDER, CHANGED, rule="not one after the other"),
    _bug("goes on after an error", writes.swallows),
    _bug("tries again by itself", writes.tries_again),
    _bug("ignores UnprocessedItems", writes.leaves_what_was_not_taken),
    _bug("moves in two steps", writes.moves_in_two_steps, items=STOCK),
    _bug("relies on an old read", writes.reads_what_may_be_old),
    _bug("relies on an old batch of reads", writes.reads_a_batch_that_may_be_old),
    _bug("sends to a queue without an id", sends.sends),
    _bug("publishes to a topic without an id", sends.publishes),
    _bug("puts an event without an id", sends.puts_an_event),
    _bug("invokes a function without an id", sends.invokes),
    _bug("ignores failed entries", sends.does_not_look),
    Case("the second of two functions adds", [_of(sends.forwards), PlainFunction("counted", writes.adds)], (ORDER,)),
    _bug("appends to an object", objects.appends_to_an_object, buckets=["reports"]),
    _bug("stores under a random key", objects.stores_under_a_new_name, buckets=["reports"]),
    _bug("keeps records in its module", kept.gathers, ORDER, OTHER, rule="module state"),
    _bug("loses the error of a thread", waits.puts_in_threads),
    _bug("adds in threads", waits.adds_in_threads),
    _bug("adds in an event loop", waits.adds_in_a_loop),
    _bug("polls the clock, then adds", waits.polls_until_a_time),
    _bug("waits for ever", waits.waits_for_ever, rule="undisturbed"),
    _bug("turns for ever", waits.turns_for_ever, rule="undisturbed"),
    _bug("tries for ever", waits.tries_for_ever, rule="does not end"),
    _bug("reads from no bucket", needs.reads_from_no_bucket, rule="undisturbed"),
    _bug("uses a reserved word", needs.uses_a_reserved_word, rule="undisturbed"),
    _bug("queries no index", needs.queries_no_index, rule="undisturbed"),
    _bug("gives half a key", needs.gives_half_a_key, rule="undisturbed"),
    _bug("uses a table that is not declared", writes.counts_in_a_table_nobody_named, rule="undisturbed"),
    _bug("exits", needs.exits, rule="undisturbed"),
    _bug("asks for a secret", needs.asks_for_a_secret, rule="undisturbed"),
    _bug("posts over HTTP", needs.posts, rule="undisturbed"),
    Case(
        "answers failures that nobody reads",
        PlainFunction("orders", records.answers_what_failed, partial=False),
        (batch(sqs_event("orders", ORDER), sqs_event("orders", OTHER)),),
    ),
    Case(
        "forgets records after a failure", PlainFunction("orders", records.stops_at_the_first, batch=2), (ORDER, OTHER)
    ),
    Case(
        "carries over from the record before",
        PlainFunction("orders", records.carries_over, batch=2),
        (ORDER, {"order_id": "o2", "gift": "yes"}),
    ),
    Case(
        "adds for each of a batch",
        PlainFunction("orders", writes.adds, batch=2, partial=False),
        (ORDER, OTHER),
    ),
    Case(
        "adds for a notification",
        PlainFunction("orders", sources.of_a_topic, direct=True),
        (sns_event("orders", ORDER),),
    ),
    Case("adds for an event", PlainFunction("orders", sources.of_a_bus, direct=True), (bus_event(ORDER),)),
    Case("adds for a caller", PlainFunction("orders", sources.of_a_caller, direct=True), (ORDER,)),
    _bug("marks at the end", shop.marks_at_the_end, TEA, MORE_TEA, **SHOP),
    _bug("reserves, then notes it", shop.reserves_then_notes_it, TEA, MORE_TEA, **SHOP),
    _bug("accepts, then ships", shop.accepts_then_ships, TEA, MORE_TEA, **SHOP),
    _bug("takes what fails for poison", shop.takes_what_fails_for_poison, TEA, MORE_TEA, **SHOP),
    _bug("locks without an end", shop.locks_without_an_end, TEA, MORE_TEA, **SHOP),
    _bug("says when", shop.says_when, TEA, MORE_TEA, **SHOP),
    _bug("adds a line to an object", shop.adds_a_line, TEA, MORE_TEA, **SHOP),
    _bug("keeps records in a class of another module", shop.knows_skus, TEA, MORE_TEA, rule="module state", **SHOP),
    _bug("keeps records in an object", shop.gathers_two, TEA, MORE_TEA, rule="module state", **SHOP),
    Case("counts an object", PlainFunction("orders", shop.counts_an_object, direct=True), (CREATED,), SHOP),
    _bug("a stage adds by itself", flows.CountsItself, flows.PAID),
    _bug("a stage records the time", flows.RecordsTheTime, flows.PAID),
    _bug("a stage never works", flows.NeverWorks, flows.PAID, rule="undisturbed"),
    _bug(
        "a stage writes what the stage before it read",
        flows.WritesWhatItSaw,
        flows.PAID,
        flows.OTHER_PAID,
        rule="not one after the other",
    ),
)

SOUND: Final = (
    _sound("puts", sound.puts),
    _sound("deletes", sound.deletes),
    _sound("puts once", sound.puts_once),
    _sound("counts in one transaction", sound.counts_in_one_transaction, ORDER, OTHER),
    _sound("keeps the newer", sound.keeps_the_newer, ORDER, CHANGED),
    _sound("adds under a version", sound.adds_under_a_version, ORDER, OTHER),
    _sound("sends with an id", sound.sends_with_an_id),
    _sound("sends with its id in the body", sound.sends_with_its_id_in_the_body, same={"emails": "id"}),
    _sound("looks at UnprocessedItems", sound.looks_at_what_was_not_taken),
    _sound("looks at failed entries", sound.retries_what_was_refused),
    _sound("stores an object", objects.stores, buckets=["reports"]),
    _sound("keeps a cache in its module", kept.remembers, ORDER, OTHER),
    _sound("sleeps and looks", waits.sleeps_and_looks),
    _sound("puts in a pool of threads", waits.puts_in_a_pool),
    _sound("puts in an event loop", waits.puts_in_a_loop),
    _sound("tries again later", waits.tries_again_later),
    _sound("makes no call", waits.does_nothing),
    _sound(
        "asks for a parameter that is given",
        needs.asks_for_a_parameter,
        stubs={"ssm.GetParameter": {"Parameter": {"Value": "tea"}}},
    ),
    _sound("fails as it should", sound.refuses_to_work, failing=["orders"]),
    _sound(
        "answers failures that are read",
        PlainFunction("orders", records.answers_what_failed),
        batch(sqs_event("orders", ORDER), sqs_event("orders", OTHER)),
    ),
    _sound(
        "lists all records from a failure on",
        PlainFunction("orders", records.lists_all_from_the_first, batch=2),
        ORDER,
        OTHER,
    ),
    _sound("puts a batch", PlainFunction("orders", records.puts_each, batch=3, partial=False), ORDER, OTHER, CHANGED),
    _sound(
        "puts for an API",
        PlainFunction("orders", sources.of_an_api, direct=True),
        {"httpMethod": "POST", "path": "/orders", "body": '{"order_id": "o1"}'},
    ),
    _sound("looks up prices", shop.looks_up_prices, TEA, MORE_TEA, **SHOP),
    _sound("reserves in one transaction", shop.reserves_in_one_transaction, TEA, MORE_TEA, **SHOP),
    _sound("writes what it read", shop.writes_what_it_read, TEA, MORE_TEA, **SHOP),
    _sound("writes lines", shop.writes_lines, TEA, MORE_TEA, **SHOP),
    _sound("ships in order", shop.ships_in_order, TEA, MORE_TEA, **SHOP),
    _sound("a stage records", flows.CountsWithTheStep, flows.PAID),
    _sound("two stages record", flows.TellsInTheEnd, flows.PAID),
    _sound("two runs add up", flows.AddsUp, flows.PAID, flows.OTHER_PAID),
)

MISSED: Final[dict[str, str]] = {}
"""Kinds that the explorer does not find yet, each with the reason."""

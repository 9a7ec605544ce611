"""Cases from public bug trackers, written before the explorer's code was read by whoever wrote them.

Each names where its bug, or its cure, was told of: facts and shapes are from there, and no code. ``HELD_BACK`` was
measured only after the explorer had been changed with ``VISIBLE`` in sight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from flowguard.testing import View
from flowguard.testing.explorer import PlainFunction
from tests.proofs.recall import from_trackers, held_back
from tests.proofs.recall.case import Case

ORDER: Final = {"order_id": "o1", "amount": 3, "sku": "tea"}
OTHER: Final = {"order_id": "o2", "amount": 2, "sku": "tea"}
OLD: Final = {"subscription": "s1", "status": "incomplete", "at": 10}
NEW: Final = {"subscription": "s1", "status": "active", "at": 20}
SALE: Final = {"sku": "tea", "n": 1}
TABLES: Final = {
    "index": "id",
    "locks": "id",
    "orders": "order_id",
    "outbox": "id",
    "projects": ("user", "project_id"),
    "seen": "id",
    "stock": "sku",
    "subscriptions": "id",
    "totals": "day",
}


def _case(
    kind: str,
    handler: Callable[..., Any],
    source: str,
    invariant: Callable[[View], object] | None = None,
    *messages: Any,
    of: Mapping[str, Any] | None = None,
    **about: Any,
) -> Case:
    function = PlainFunction("orders", handler, **(of or {}))
    given = {"tables": TABLES, **about}
    return Case(kind, function, messages or (ORDER,), given, source=source, invariant=invariant)


def _sound(kind: str, handler: Callable[..., Any], source: str, *messages: Any, **about: Any) -> Case:
    function = PlainFunction("orders", handler)
    return Case(kind, function, messages or (ORDER,), {"tables": TABLES, **about}, sound=True, source=source)


def _holds(what: Callable[[View], bool]) -> Callable[[View], object]:
    def judge(view: View) -> str | None:
        return None if what(view) else "the shop's own rule is broken"

    return judge


def _number(view: View, table: str, key: Mapping[str, str], field: str, otherwise: int = 0) -> int:
    item = view.item(table, **key)
    return otherwise if item is None else int(item[field])


def _is_empty_or(rows: Sequence[Any], field: str, value: Any) -> bool:
    return all(row[field] == value for row in rows)


VISIBLE: Final = (
    _case(
        "an older status comes last",
        from_trackers.keeps_the_last_status,
        "github.com/stripe/stripe-cli/issues/418",
        _holds(lambda view: (view.item("subscriptions", id="s1") or NEW)["status"] == "active"),
        OLD,
        NEW,
    ),
    _case(
        "adds up in SQL",
        from_trackers.adds_up_in_sql,
        "github.com/aws-samples/sample-voice-of-customer-datalake/issues/264",
        _holds(lambda view: _is_empty_or(view.table("sqlite:feedback.db/totals"), "n", 1)),
        {"feedback_id": "f1", "day": "monday"},
    ),
    _case(
        "forgets after half an hour",
        from_trackers.forgets_after_half_an_hour,
        "github.com/kookmin-sw/capstone-2025-09/issues/57",
        _holds(lambda view: _number(view, "totals", {"day": "monday"}, "amount") <= 3),
    ),
    _case(
        "charges under a new key",
        from_trackers.charges_under_a_new_key,
        "github.com/square/square-mcp-server/issues/31",
        _holds(lambda view: len(view.outside("psp.example")) <= 1),
        outside=["psp.example"],
    ),
    _case(
        "mails before it marks",
        from_trackers.mails_before_it_marks,
        "github.com/Devlaner/devlane/issues/374",
        _holds(lambda view: len(view.outside("smtp.example")) <= 1),
        outside=["smtp.example"],
    ),
    _case(
        "charges before it records",
        from_trackers.charges_before_it_records,
        "github.com/dimagi/commcare-hq/pull/33509",
        _holds(lambda view: len(view.outside("psp.example")) <= 1),
        outside=["psp.example"],
    ),
    _case(
        "checks stock before it takes",
        from_trackers.checks_stock_before_it_takes,
        "github.com/mighty840/kitchenasty/issues/55",
        _holds(lambda view: _number(view, "stock", {"sku": "tea"}, "n", 5) >= 0),
        items={"stock": [{"sku": "tea", "n": 5}]},
    ),
    _case(
        "locks in milliseconds",
        from_trackers.locks_in_milliseconds,
        "github.com/chiradeep/dyndb-mutex/pull/14",
        _holds(lambda view: view.item("orders", order_id="o1") is not None),
    ),
    _case(
        "sends before it deletes",
        from_trackers.sends_before_it_deletes,
        "github.com/aws-samples/transactional-outbox-pattern/issues/5",
        _holds(lambda view: len(view.sent("mails")) <= 2),
        {"detail": "every minute"},
        of={"direct": True},
        items={"outbox": [{"id": "1", "text": "one"}, {"id": "2", "text": "two"}]},
    ),
    _case(
        "takes the same for a copy",
        from_trackers.takes_the_same_for_a_copy,
        "github.com/symfony/symfony/pull/65605",
        _holds(lambda view: _number(view, "totals", {"day": "monday"}, "sold") == 2),
        SALE,
        SALE,
    ),
    _sound("charges under the order", from_trackers.charges_under_the_order,
           "github.com/getlago/lago-api/pull/2962", outside=["psp.example"]),
    _sound("adds up once in SQL", from_trackers.adds_up_once_in_sql,
           "github.com/aws-samples/sample-voice-of-customer-datalake/pull/383"),
    _sound("keeps the newest status", from_trackers.keeps_the_newest_status,
           "github.com/laravel/cashier-stripe/issues/1201", OLD, NEW),
    _sound("takes what is there", from_trackers.takes_what_is_there,
           "github.com/stackshy/cloudemu/pull/661", items={"stock": [{"sku": "tea", "n": 5}]}),
)  # fmt: skip

HELD_BACK: Final = (
    _case(
        "follows events as they come",
        held_back.follows_events_as_they_come,
        "github.com/aws/aws-sdk-net/issues/1119",
        _holds(lambda view: view.item("index", id="a.txt") is None),
        {"event": "ObjectCreated", "key": "a.txt", "size": 5, "sequencer": "01"},
        {"event": "ObjectRemoved", "key": "a.txt", "sequencer": "02"},
    ),
    _case(
        "counts down to zero",
        held_back.counts_down_to_zero,
        "github.com/aws-samples/sample-voice-of-customer-datalake/pull/364",
        _holds(lambda view: _number(view, "totals", {"day": "monday"}, "n", 3) >= 2),
        {"feedback_id": "f1", "day": "monday"},
        items={"totals": [{"day": "monday", "n": 3}]},
    ),
    _case(
        "drops what its process has seen",
        held_back.drops_what_this_process_has_seen,
        "github.com/kalaspuff/tomodachi/pull/2074",
        _holds(lambda view: view.item("orders", order_id="o1") is not None),
    ),
    _case(
        "orders, then asks for the link",
        held_back.orders_then_asks_for_the_link,
        "github.com/ProgixDev/incacook-app/issues/36",
        _holds(lambda view: len(view.outside("shop.example")) <= 1),
        outside=["shop.example"],
    ),
    _case(
        "mails until it is told",
        held_back.mails_until_it_is_told,
        "github.com/Devlaner/devlane/issues/374",
        _holds(lambda view: len(view.outside("smtp.example")) <= 1),
        outside=["smtp.example"],
    ),
    _case(
        "sends before it commits",
        held_back.sends_before_it_commits,
        "github.com/MassTransit/MassTransit/issues/3791",
        _holds(lambda view: len(view.sent("mails")) <= 1),
    ),
    _case(
        "counts before it adds",
        held_back.counts_before_it_adds,
        "github.com/openfactcheck-research/openfactcheck/issues/43",
        _holds(lambda view: len(view.table("projects")) <= 2),
        {"project_id": "p1", "user": "ann"},
        items={"projects": [{"user": "ann", "project_id": "p0"}]},
    ),
    _case(
        "writes after its lock is over",
        held_back.writes_after_its_lock_is_over,
        "github.com/mohankishore/python_dynamodb_lock/pull/366",
        _holds(lambda view: _number(view, "totals", {"day": "monday"}, "amount") in (3, 5)),
        ORDER,
        OTHER,
    ),
    _case(
        "writes a batch as it comes",
        held_back.writes_a_batch_as_it_comes,
        "github.com/hookdeck/outpost/issues/946",
        _holds(lambda view: view.item("orders", order_id="o1") is not None),
        of={"batch": 2},
    ),
    _case(
        "marks before it charges",
        held_back.marks_before_it_charges,
        "github.com/stripe/ai/issues/402",
        _holds(lambda view: len(view.outside("psp.example")) == 1),
        outside=["psp.example"],
    ),
    _sound("puts what it has", held_back.puts_what_it_has,
           "github.com/zalando/restful-api-guidelines/pull/479", outside=["shop.example"]),
    _sound("asks for a rate", held_back.asks_for_a_rate,
           "github.com/pay-rails/pay/pull/339", outside={"rates.example": {"rate": 2}}),
    _sound("keeps a row in SQL", held_back.keeps_a_row_in_sql, "github.com/apache/pinot/issues/11796"),
    _sound("adds while nobody else has", held_back.adds_while_nobody_else_has,
           "github.com/openfactcheck-research/openfactcheck/issues/43", ORDER, OTHER),
)  # fmt: skip

MISSED_UNSEEN: Final[Mapping[str, str]] = {
    "takes the same for a copy": "who says that two equal messages are two is its owner: with an invariant it is found",
    "writes a batch as it comes": "a copy never comes in one batch with its message",
}

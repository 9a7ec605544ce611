"""More cases from public bug trackers, of kinds that neither the explorer nor its authors had met before.

They were written and measured before anything of the explorer was changed for them. Each names where its bug, or its
cure, was told of: facts and shapes are from there, and no code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from flowguard.testing import View, sqs_event
from flowguard.testing.explorer import Explored, PlainFunction
from tests.proofs.recall import later_flows, later_reports
from tests.proofs.recall.case import Case

ORDER: Final = {"order_id": "o1", "amount": 3}
PARTS: Final = ({"job": "j1", "part": "a", "of": 2, "size": 5}, {"job": "j1", "part": "b", "of": 2, "size": 7})
SKUS: Final = ({"sku": "tea"}, {"sku": "cups"})
OLD: Final = {"order_id": "o1", "version": 1, "lines": ["a", "b"]}
NEW: Final = {"order_id": "o1", "version": 2, "lines": ["b", "c"]}
TABLES: Final[Mapping[str, Any]] = {
    "accounts": "id",
    "baskets": "id",
    "cursors": "id",
    "customers": "id",
    "invoices": "order_id",
    "jobs": "job",
    "lines": ("order_id", "line"),
    "numbers": "id",
    "orders": "order_id",
    "outbox": "id",
    "parts": ("job", "part"),
    "seen": "id",
}
CUSTOMER: Final = {"customers": [{"id": "c1", "address": "here", "status": "new"}]}
OUTBOX: Final = {
    "cursors": [{"id": "outbox", "at": 0}],
    "outbox": [{"id": "1", "at": 1, "text": "one"}, {"id": "2", "at": 2, "text": "two"}],
}
NUMBERS: Final = {"numbers": [{"id": "invoices", "last": 6}]}


def _functions(*handlers: Callable[..., Any]) -> list[Explored]:
    return [PlainFunction(name, handler) for name, handler in zip(("addresses", "statuses"), handlers, strict=True)]


def _case(
    kind: str,
    explored: Any,
    source: str,
    *messages: Any,
    asks: Callable[[View], bool] | None = None,
    of: Mapping[str, Any] | None = None,
    **about: Any,
) -> Case:
    """Return a case: with what its owner asks of each end a bug, without that sound."""
    if not isinstance(explored, type | list):
        explored = PlainFunction("orders", explored, **(of or {}))
    given = {"tables": TABLES, **about}
    invariant = None if asks is None else _judge(asks)
    return Case(
        kind,
        explored,
        messages or (ORDER,),
        given,
        sound=asks is None,
        source=f"github.com/{source}",
        invariant=invariant,
    )


def _judge(asks: Callable[[View], bool]) -> Callable[[View], object]:
    return lambda view: None if asks(view) else "the shop's own rule is broken"


def _of(view: View, table: str, field: str, otherwise: Any, **key: str) -> Any:
    item = view.item(table, **key)
    return otherwise if item is None else item.get(field, otherwise)


def _has_both_changes(view: View) -> bool:
    """Answer whether a change that was written is still there: both handlers were told only once."""
    customer = view.item("customers", id="c1") or {}
    return (customer.get("address"), customer.get("status")) == ("there", "gold")


def _is_sent(*messages: dict[str, Any]) -> list[Any]:
    """Return a message for each of two functions, in its queue."""
    return [sqs_event(queue, body) for queue, body in zip(("addresses", "statuses"), messages, strict=True)]


CHANGES: Final = _is_sent({"id": "c1", "address": "there"}, {"id": "c1", "status": "gold"})

LATER: Final = (
    _case(
        "charges under its invocation",
        later_reports.charges_under_its_invocation,
        "triggerdotdev/trigger.dev/pull/4953",
        asks=lambda view: len(view.outside("psp.example")) <= 1,
        outside=["psp.example"],
    ),
    _case(
        "drops what was received before",
        later_reports.drops_what_was_received_before,
        "DataBiosphere/azul/pull/3622",
        asks=lambda view: view.item("orders", order_id="o1") is not None,
    ),
    _case(
        "counts parts",
        later_reports.counts_parts,
        "mapbox/ecs-watchbot/issues/143",
        *PARTS,
        asks=lambda view: _of(view, "jobs", "done", 0, job="j1") <= 2,
    ),
    _case(
        "writes the old content under the new version",
        later_reports.writes_the_old_content_under_the_new_version,
        "scireum/sirius-biz/pull/607",
        *SKUS,
        asks=lambda view: len(_of(view, "baskets", "skus", [], id="b1")) == 2,
        items={"baskets": [{"id": "b1", "skus": [], "version": 0}]},
    ),
    _case(
        "two functions save one item",
        _functions(later_reports.saves_the_address, later_reports.saves_the_status),
        "baopham/laravel-dynamodb/issues/233",
        *CHANGES,
        asks=_has_both_changes,
        items=CUSTOMER,
    ),
    _case(
        "schedules under a new name",
        later_reports.schedules_under_a_new_name,
        "guiyom-e/cdk-scheduler/issues/34",
        asks=lambda view: len(view.sent("mails")) <= 1,
    ),
    _case(
        "takes a number for each try",
        later_reports.takes_a_number_for_each_try,
        "crbnos/carbon/issues/1038",
        asks=lambda view: _of(view, "numbers", "last", 6, id="invoices") <= 7,
        items=NUMBERS,
    ),
    _case(
        "takes a time-out for a refusal",
        later_reports.takes_a_time_out_for_a_refusal,
        "woocommerce/woocommerce/issues/21083",
        asks=lambda view: (
            not view.outside("psp.example") or _of(view, "orders", "status", "PAID", order_id="o1") == "PAID"
        ),
        outside=["psp.example"],
    ),
    _case(
        "frees its mark after a failure",
        later_reports.frees_its_mark_after_a_failure,
        "medusajs/medusa/issues/16681",
        asks=lambda view: len(view.outside("psp.example")) <= 1,
        outside=["psp.example"],
    ),
    _case(
        "replaces lines piece by piece",
        later_reports.replaces_lines_piece_by_piece,
        "mvanhorn/printing-press-library/pull/1966",
        OLD,
        NEW,
        asks=lambda view: len({row["version"] for row in view.table("lines")}) <= 1,
    ),
    _case(
        "leaves it to a thread",
        later_reports.leaves_it_to_a_thread,
        "Miserlou/Zappa/issues/705",
        asks=lambda view: view.item("orders", order_id="o1") is not None,
    ),
    _case(
        "gives back by itself",
        later_flows.BuysAndGivesBack,
        "hoangdaochuz/booking/issues/23",
        later_flows.Bought(order_id="o1"),
        asks=lambda view: _of(view, "accounts", "refunded", 0, id="o1") <= 3,
        failing=["o1"],
    ),
    _case(
        "deletes its message first",
        later_reports.deletes_its_message_first,
        "RichardKnop/machinery/issues/275",
        asks=lambda view: view.item("orders", order_id="o1") is not None,
    ),
    _case(
        "moves its cursor first",
        later_reports.moves_its_cursor_first,
        "smithersai/smithers/issues/667",
        {"detail": "every minute"},
        asks=lambda view: len(view.sent("mails")) == 2,
        of={"direct": True},
        items=OUTBOX,
    ),
    _case(
        "relies on five minutes",
        later_reports.relies_on_five_minutes,
        "ministackorg/ministack/issues/1326",
        asks=lambda view: len(view.sent("mails.fifo")) <= 1,
    ),
    _case(
        "drops what is old",
        later_reports.drops_what_is_old,
        "NangoHQ/nango/pull/5991",
        asks=lambda view: view.item("orders", order_id="o1") is not None,
    ),
    _case(
        "numbers objects by their count",
        later_reports.numbers_objects_by_their_count,
        "airbytehq/airbyte/pull/45143",
        asks=lambda view: len(view.table("s3:reports")) <= 1,
        buckets=["reports"],
    ),
    _case(
        "numbers rows by the greatest",
        later_reports.numbers_rows_by_the_greatest,
        "zouharvi/last-translation-benchmark/issues/119",
        ORDER,
        ORDER | {"order_id": "o2"},
        asks=lambda view: {row["id"] for row in view.table("sqlite:numbers.db/bills")} == {"o1", "o2"},
    ),
    _case("deletes its message last", later_reports.deletes_its_message_last, "bbc/sqs-consumer/issues/145"),
    _case("gathers parts", later_reports.gathers_parts, "mapbox/ecs-watchbot/issues/143", *PARTS),
    _case(
        "two functions set attributes of one item",
        _functions(later_reports.sets_the_address, later_reports.sets_the_status),
        "baopham/laravel-dynamodb/issues/233",
        *CHANGES,
        items=CUSTOMER,
    ),
    _case("schedules under its order", later_reports.schedules_under_its_order, "guiyom-e/cdk-scheduler/issues/34"),
    _case(
        "takes a number once",
        later_reports.takes_a_number_once,
        "crbnos/carbon/issues/1038",
        ORDER,
        ORDER | {"order_id": "o2"},
        items=NUMBERS,
    ),
    _case(
        "asks again after a time-out",
        later_reports.asks_again_after_a_time_out,
        "omise/omise-woocommerce/issues/161",
        outside=["psp.example"],
    ),
    _case(
        "gives back with the step",
        later_flows.GivesBackOnce,
        "hoangdaochuz/booking/issues/23",
        later_flows.Bought(order_id="o1"),
        failing=["o1"],
    ),
)

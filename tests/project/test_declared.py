"""Items that lie in the tables at the beginning: there in each schedule, and taken for given."""

from __future__ import annotations

import importlib
import sys
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowguard.aws.writes import from_item
from flowguard.errors import SettingsError
from flowguard.project.declared import declared_items, declared_tables, overridden, read_items, read_key, read_keys
from flowguard.sim.world import World
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS, sqs_event
from flowguard.testing.explorer import EngineFor, PlainFunction, View, explore, in_memory, on_moto, replay
from flowguard.wire.envelope import Envelope, normalize
from tests.testing.explorer import handlers, seeded

ORDER = seeded.Order(order_id="o1", amount=3)
TABLES = {"prices": "sku", "stock": "sku", "bills": "order_id"}
ITEMS = {"prices": [{"sku": "tea", "price": 4.5}], "stock": [{"sku": "tea", "left": 10}, {"sku": "jam", "left": 1}]}
SELL = seeded.flow_of(seeded.Sell)
LEAKY = seeded.flow_of(seeded.SellByHand)


def left(view: View) -> None:
    """What is there in each schedule, and what it becomes, once."""
    assert view.table("prices") == ({"sku": "tea", "price": Decimal("4.5")},)
    assert view.item("stock", sku="jam") == {"sku": "jam", "left": 1}
    tea, bill = view.item("stock", sku="tea"), view.item("bills", order_id="o1")
    assert tea is not None
    assert (tea["left"], bill and bill["total"]) in {(10, None), (7, Decimal("13.5"))}


@pytest.mark.slow("explores a handler")
def test_they_are_there_again_in_each_schedule() -> None:
    report = explore(SELL, [ORDER], tables=TABLES, items=ITEMS, invariants=[left], bound=0, walks=0)
    assert report.ok, str(report)
    assert report.schedules > 30


@pytest.mark.parametrize("engine", [in_memory, on_moto])
def test_what_a_schedule_makes_of_them_is_compared(engine: EngineFor) -> None:
    trace = replay(LEAKY, [ORDER], "a3", tables=TABLES, items=ITEMS, engine=engine)
    (found,) = trace.violations
    assert [(one.where, one.text, one.expected, one.found) for one in found.problems] == [
        ("stock", "sku tea: left", 7, 4)
    ]
    assert found.site is not None
    assert found.site.line == seeded.guilty_line("SellByHand")
    assert not any("PutItem" in line for line in trace.timeline), "what lies there is no call of anybody"


def test_a_plain_function_finds_them_too() -> None:
    event: Any = sqs_event("orders", {"order_id": "o1", "amount": 3})
    function = PlainFunction("orders", handlers.add)
    seen: list[Any] = []

    def note(view: View) -> None:
        seen.append(view.item("totals", day="monday"))

    items = {"totals": [{"day": "monday", "amount": 10}]}
    replay(function, [event], "none", items=items, invariants=[note])
    assert seen == [{"day": "monday", "amount": 13}]


def test_they_are_as_boto3_takes_them() -> None:
    item = {"sku": "tea", "price": 4, "weight": Decimal("0.1"), "rate": 0.1, "kinds": {"a"}, "of": [{"b": None}, True]}
    assert read_items({"prices": [item]}, read_keys(TABLES)) == [
        (
            "prices",
            {
                "sku": {"S": "tea"},
                "price": {"N": "4"},
                "weight": {"N": "0.1"},
                "rate": {"N": "0.1"},
                "kinds": {"SS": ["a"]},
                "of": {"L": [{"M": {"b": {"NULL": True}}}, {"BOOL": True}]},
            },
        )
    ]


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([], "[] names no tables; list what lies in each table: items={"),
        ({"prices": {"sku": "tea"}}, "prices has {'sku': 'tea'}; list what lies"),
        ({"prices": "tea"}, "prices has 'tea'; list what lies"),
        ({"prices": ["tea"]}, "item 1 of prices is 'tea'; list what lies"),
        ({"others": []}, "the hash key of the table others is not known; say tables={\"others\": …}, or"),
        ({"prices": [{"price": 4}]}, "item 1 of prices needs a 'sku', a text that is not empty: "),
        ({"prices": [{"sku": 4}]}, "it has 4"),
        ({"prices": [{"sku": ""}]}, "it has ''"),
        ({"prices": [{"sku": "tea"}, {"sku": "tea"}]}, "item 2 of prices has the same sku 'tea' as item 1"),
        ({"prices": [{"sku": "tea", "price": object}]}, "item 1 of prices has price=<class 'object'>, which "),
        ({"prices": [{"sku": "tea", "price": float("nan")}]}, "has price=nan, which DynamoDB cannot hold: "),
        ({"prices": [{"sku": "tea", "price": 10**40 + 1}]}, "has price=1000"),
        ({"prices": [{"sku": "tea", "text": "x" * 500_000}]}, "DynamoDB refuses number 1, of prices: "),
    ],
)  # fmt: skip
def test_what_no_table_can_hold_is_refused(items: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        explore(SELL, [ORDER], tables=TABLES, items=items, bound=0, walks=0)
    assert raised.value.setting == "items"
    assert problem in raised.value.problem


def test_modules_say_them_and_the_same_item_once() -> None:
    first, second, third = (ModuleType(name) for name in ("first", "second", "third"))
    first.ITEMS = ITEMS  # type: ignore[attr-defined] # as a flow's module has it
    second.ITEMS = {"prices": [*ITEMS["prices"], {"sku": "jam", "price": 3}]}  # type: ignore[attr-defined] # likewise
    assert declared_items([first, second, third]) == {**ITEMS, "prices": [*ITEMS["prices"], {"sku": "jam", "price": 3}]}
    assert ITEMS["prices"] == [{"sku": "tea", "price": 4.5}]
    third.ITEMS = {"prices": {"sku": "tea"}}  # type: ignore[attr-defined] # likewise
    with pytest.raises(SettingsError, match="list what lies"):
        declared_items([third])


@pytest.mark.parametrize(
    ("declared", "names", "types"),
    [
        ("sku", ("sku",), ("S",)),
        (("order_id", "line"), ("order_id", "line"), ("S", "S")),
        ({"shop": "S", "day": "N"}, ("shop", "day"), ("S", "N")),
        ({"digest": "B"}, ("digest",), ("B",)),
    ],
)
def test_a_key_is_one_or_two_attributes_of_a_type(declared: Any, names: Any, types: Any) -> None:
    assert read_key("lines", declared) == (names, types, ())


def test_a_table_may_have_indexes_each_with_its_own_key() -> None:
    indexes = {"by-day": {"day": "N"}, "by-customer": ("customer", "id")}
    assert read_key("orders", {"key": "id", "indexes": indexes}) == (
        ("id",),
        ("S",),
        (("by-day", ("day",), ("N",), False), ("by-customer", ("customer", "id"), ("S", "S"), False)),
    )
    assert read_key("orders", {"key": {"id": "S"}, "indexes": {}}) == (("id",), ("S",), ())


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"indexes": {"by-day": "day"}}, "orders has indexes and no key; say"),
        ({"key": "id", "index": {"by-day": "day"}}, "For a table with indexes say"),
        ({"key": "id", "indexes": {"by-day": ()}}, r"orders's index by-day has the key '\(\)'"),
        ({"key": "id", "indexes": {"by": "day"}}, "orders has the index 'by', which is no index's name: it is 3 to"),
        ({"key": "id", "indexes": {1: "day"}}, "orders has the index '1', which is no index's name"),
        ({"key": "id", "indexes": {"by day": "day"}}, "orders has the index 'by day', which is no index's name"),
        ({"key": "id", "indexes": {}, "ttl": "until"}, "orders has 'ttl' beside its indexes; say"),
        ({"key": "id", "indexes": {"by-id": {"id": "N"}}}, "id is S in one key of orders and N in another"),
        ({"key": "id", "indexes": {"a-b": {"day": "N"}, "b-a": "day"}}, "day is N in one key of orders and S"),
        ({"key": "id", "indexes": 5}, "orders has a key of the types"),
    ],
)
def test_what_are_no_indexes_is_refused(declared: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        read_key("orders", declared)


@pytest.mark.parametrize(
    "declared",
    [
        "",
        (),
        ("a", "b", "c"),
        ("a", "a"),
        ("a", ""),
        {},
        {"a": "X"},
        {"a": 1},
        {"a": []},
        ([],),
        ({}, "b"),
        3,
        None,
        ["a"],
        {"": "S"},
    ],
)
def test_what_is_no_key_is_refused_with_its_table(declared: Any) -> None:
    with pytest.raises(SettingsError, match=r"lines has (the key|a key of the types)") as raised:
        read_keys({"lines": declared})
    assert raised.value.setting == "tables"


def of_tables(name: str, **tables: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__["TABLES"] = tables
    return module


def test_indexes_that_modules_name_of_one_table_are_all_there() -> None:
    first = of_tables("first", orders={"key": "id", "indexes": {"by-day": "day", "by-who": "who"}}, a="b")
    second = of_tables("second", orders={"key": "id", "indexes": {"by-day": "day", "by-size": {"size": "N"}}}, c="d")
    third = of_tables("third", orders="id")
    for modules in ([first, second, third], [third, second, first]):
        tables = declared_tables(modules)
        assert sorted(tables) == ["a", "c", "orders"]
        assert sorted(index.name for index in tables["orders"].indexes) == ["by-day", "by-size", "by-who"]


@pytest.mark.parametrize("other", ["order_id", {"id": "N"}, {"key": "id", "indexes": {"by-day": {"day": "N"}}}])
def test_modules_that_contradict_each_other_are_refused(other: Any) -> None:
    first = of_tables("first", orders={"key": "id", "indexes": {"by-day": "day"}})
    with pytest.raises(SettingsError, match="orders has two keys, or an index of two keys, in TABLES of two modules"):
        declared_tables([first, of_tables("second", orders=other)])


def test_a_key_that_is_given_counts_and_leaves_the_indexes() -> None:
    tables = declared_tables([of_tables("first", orders={"key": "id", "indexes": {"by-day": "day"}}, a="b")])
    assert overridden(tables, read_keys({"orders": "id", "more": "c"})) == {**tables, **read_keys({"more": "c"})}
    other = read_keys({"orders": {"key": "id", "indexes": {"by-who": "who"}}})
    assert overridden(tables, other)["orders"] == other["orders"]
    assert overridden(tables, read_keys({"orders": "order_id"}))["orders"].names == ("order_id",)


LINES = """
from flowguard import Done, Flow, Stage
from pydantic import BaseModel

TABLES = {"lines": {"order_id": "S", "line": "N"}}
ITEMS = {"lines": [{"order_id": "o1", "line": 1, "sku": "tea"}, {"order_id": "o1", "line": 2, "sku": "jam"}]}


class Order(BaseModel):
    order_id: str


class Pick(Stage[Order], name="pick"):
    def handle(self, order, step):
        step.update("lines", {"order_id": order.order_id, "line": 2}, "SET picked = :yes", values={":yes": True})
        step.put("lines", {"order_id": order.order_id, "line": 3, "sku": "gift"})
        return Done()


class PickOrders(Flow, name="pick-orders", object_id="order_id"):
    stages = (Pick,)
"""


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A flow whose module declares a table with a range key, and what lies in it."""
    (tmp_path / "declared_lines.py").write_text(LINES)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("declared_lines")
    sys.modules.pop("declared_lines")


PICKED = [
    {"order_id": "o1", "line": 1, "sku": "tea"},
    {"order_id": "o1", "line": 2, "sku": "jam", "picked": True},
    {"order_id": "o1", "line": 3, "sku": "gift"},
]


@pytest.mark.proof("explores a flow twice")
def test_the_explorer_reads_what_the_module_declares(lines: Any) -> None:
    report = explore(lines.PickOrders, [lines.Order(order_id="o1")], invariants=[only_picked], bound=0, walks=0)
    assert report.ok, str(report)
    assert explore(
        lines.PickOrders, [lines.Order(order_id="o1")], items={}, invariants=[only_picked], bound=0, walks=0
    ).violations


def only_picked(view: View) -> None:
    assert [item["sku"] for item in view.table("lines")] in (["tea", "jam", "gift"], ["tea", "jam"])


def test_the_runner_reads_what_the_module_declares_and_leaves_what_is_there(lines: Any) -> None:
    with FlowClock() as clock, MemoryAWS() as aws, FlowRunner(aws, clock) as runner:
        runner.table("lines", {"order_id": "S", "line": "N"}, {"order_id": "o1", "line": 1, "sku": "coffee"})
        runner.send(lines.PickOrders, lines.Order(order_id="o1"))
        result = runner.run()
    found = sorted(result.table("lines"), key=lambda item: item["line"])
    assert found == [{**PICKED[0], "sku": "coffee"}, *PICKED[1:]]


def test_a_replay_reads_what_the_module_declares(lines: Any) -> None:
    with World([lines.PickOrders]) as world:
        (envelope,) = normalize(sqs_event("pick-orders", {"order_id": "o1"}))
        assert isinstance(envelope, Envelope)
        world.put(envelope, envelope.record)
        rows = list(world.run())
        assert sorted((from_item(raw) for raw in world.scan("lines")), key=lambda item: item["line"]) == PICKED
    assert [(one.kind, one.key) for one in rows[0].writes] == [("update", "o1/2"), ("put", "o1/3")]

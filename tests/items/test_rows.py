"""Rows of a table, made of pydantic models: what DynamoDB has no type for is stored as in the model's JSON."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, HttpUrl, SecretStr

from flowguard import Done, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.errors import RunFailed
from flowguard.items.rows import row
from flowguard.testing import FlowRunner

TABLES = {"parcels": "parcel_id"}
ID = UUID(int=7)


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Line(BaseModel):
    sku: str
    added: datetime = datetime(2026, 1, 2, tzinfo=UTC)


class Parcel(BaseModel):
    parcel_id: UUID = ID
    at: datetime = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    day: date = date(2026, 1, 2)
    hour: time = time(3, 4)
    within: timedelta = timedelta(seconds=90)
    colour: Colour = Colour.RED
    size: Size = Size.LARGE
    url: HttpUrl = HttpUrl("https://shop.example/o1")
    address: IPv4Address = IPv4Address("192.0.2.1")
    path: Path = Path("/tmp/x")  # noqa: S108 - a text like any other
    price: Decimal = Decimal("12.50")
    weight: float = 1.5
    pieces: int = 2
    fragile: bool = True
    photo: bytes | None = b"\x00\xff"
    note: str | None = None
    lines: list[Line] = [Line(sku="tea")]
    pair: tuple[int, date] = (1, date(2026, 1, 2))
    ids: set[UUID] = {ID}
    by_day: dict[date, list[UUID]] = {date(2026, 1, 2): [ID]}
    by_colour: dict[Colour, int] = {Colour.RED: 1}
    sent_to: str = Field("Ann", serialization_alias="sentTo")


STORED = {
    "parcel_id": "00000000-0000-0000-0000-000000000007",
    "at": "2026-01-02T03:04:05Z",
    "day": "2026-01-02",
    "hour": "03:04:00",
    "within": "PT1M30S",
    "colour": "red",
    "size": 3,
    "url": "https://shop.example/o1",
    "address": "192.0.2.1",
    "path": "/tmp/x",  # noqa: S108 - a text like any other
    "price": Decimal("12.50"),
    "weight": 1.5,
    "pieces": 2,
    "fragile": True,
    "photo": b"\x00\xff",
    "note": None,
    "lines": [{"sku": "tea", "added": "2026-01-02T00:00:00Z"}],
    "pair": [1, "2026-01-02"],
    "ids": {"00000000-0000-0000-0000-000000000007"},
    "by_day": {"2026-01-02": ["00000000-0000-0000-0000-000000000007"]},
    "by_colour": {"red": 1},
    "sentTo": "Ann",
}


def test_what_dynamodb_has_no_type_for_is_stored_as_in_json() -> None:
    stored = row(Parcel(), "put")
    assert stored == STORED
    assert {name: type(value) for name, value in stored.items()} == {name: type(v) for name, v in STORED.items()}


def test_a_dict_stays_what_it_is_and_is_copied() -> None:
    given = {"parcel_id": "p1", "at": datetime(2026, 1, 2, tzinfo=UTC)}
    stored = row(given, "put")
    assert stored == given
    assert stored is not given


@pytest.mark.parametrize("given", ["p1", 7, None, ["parcel_id"], {"parcel_id"}, Parcel])
def test_what_is_neither_is_refused_by_its_type(given: object) -> None:
    with pytest.raises(
        RunFailed, match=f"put takes a dict or a pydantic model, and got {type(given).__name__}; nothing"
    ):
        row(given, "put")


class SendParcel(Stage[Parcel], name="send-parcel", retry=RetryPolicy(attempts=1)):
    def handle(self, parcel: Parcel, step: Step) -> Outcome:
        step.put("parcels", parcel)
        return Done(parcel)


class Parcels(Flow, name="parcels", object_id="parcel_id"):
    stages = (SendParcel,)


def test_a_model_that_is_a_result_is_an_item_too(flow_runner: FlowRunner) -> None:
    flow_runner.send(Parcels, Parcel(photo=None))
    result = flow_runner.run()
    [run] = result.runs()
    assert run.status == "COMPLETED"
    item = result.item("parcels", parcel_id=str(ID))
    assert item is not None
    same = ("parcel_id", "at", "day", "hour", "within", "colour", "url", "address", "path", "by_day", "lines")
    assert {name: item[name] for name in same} == {name: run.result[name] for name in same}
    assert (item["price"], item["weight"], item["pieces"]) == (Decimal("12.5"), Decimal("1.5"), 2)


class Unstorable(BaseModel):
    parcel_id: str = "p1"
    held: Any = None


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (SecretStr("hidden"), "'held' is a SecretStr that DynamoDB cannot hold"),
        (object(), "'held' is an object that DynamoDB cannot hold"),
        ({"prices": [1.0, float("nan")]}, "'held.prices.1' is a float that DynamoDB cannot hold: infinite, no number"),
    ],
)
def test_what_json_has_no_text_for_is_refused_by_its_path(held: object, words: str, flow_runner: FlowRunner) -> None:
    class PutIt(Stage[Parcel], name="put-it", retry=RetryPolicy(attempts=1)):
        def handle(self, parcel: Parcel, step: Step) -> Outcome:
            step.put("parcels", Unstorable(held=held))
            return Done()

    class Puts(Flow, name="puts", object_id="parcel_id"):
        stages = (PutIt,)

    flow_runner.send(Puts, Parcel(photo=None))
    result = flow_runner.table("parcels", "parcel_id").run()
    [run] = result.runs()
    assert words in str(run.error)
    assert "hidden" not in str(run.error)
    assert not result.table("parcels")


def test_a_table_of_a_test_is_filled_with_models_alike(flow_runner: FlowRunner) -> None:
    flow_runner.send(Parcels, Parcel(photo=None))
    flow_runner.table("shelves", "parcel_id", Parcel(photo=None))
    item = flow_runner.run().item("shelves", parcel_id=str(ID))
    assert item is not None
    assert (item["at"], item["sentTo"]) == (STORED["at"], "Ann")


# -- there and back ----------------------------------------------------------------------------------------------------


class Whole(Parcel):
    """Everything that a model's field may be, with nothing left out."""

    photo: bytes | None = b"\x00\xff"
    photos: list[bytes] = [b"\x00", b"\xff\x00"]
    prints: set[bytes] = {b"\xff"}
    numbers: frozenset[int] = frozenset({1, 2})
    amounts: set[Decimal] = {Decimal("1.5")}
    days: set[date] = {date(2026, 1, 2)}
    colours: set[Colour] = {Colour.RED}
    by_name: dict[str, Line] = {"tea": Line(sku="tea")}
    local: datetime = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=timezone(timedelta(hours=2)))
    exact: Decimal = Decimal("0.12345678901234567890123456789012345678")
    great: int = 10**37
    rough: float = 0.1
    sent_to: str = "Ann"


class KeepWhole(Stage[Whole], name="keep-whole", retry=RetryPolicy(attempts=1)):
    def handle(self, parcel: Whole, step: Step) -> Outcome:
        step.put("parcels", Whole())
        return Done()


class ReadWhole(Stage[Line], name="read-whole", retry=RetryPolicy(attempts=1)):
    """Reads the model of the item, and writes it as it is."""

    def handle(self, line: Line, step: Step) -> Outcome:
        found: list[Whole] = []

        def unchanged(item: Any) -> Whole:
            found.append(Whole.model_validate(item))
            return found[0]

        step.modify("parcels", {"parcel_id": str(ID)}, unchanged)
        return Done({"same": found == [Whole()], "differs": [n for n, one in Whole() if getattr(found[0], n) != one]})


class Keeps(Flow, name="keeps", object_id="parcel_id"):
    stages = (KeepWhole,)


class Reads(Flow, name="reads", object_id="sku"):
    stages = (ReadWhole,)


def test_a_model_comes_back_as_it_was_written(flow_runner: FlowRunner) -> None:
    flow_runner.send(Keeps, Whole(photo=None, photos=[], prints=set()))  # of a message's JSON, which has no bytes
    flow_runner.run()
    flow_runner.send(Reads, Line(sku="tea"))
    result = flow_runner.run()
    [read] = [run for run in result.runs() if run.flow == "reads"]
    assert (read.error, read.result) == (None, {"same": True, "differs": []})


def test_an_empty_set_of_a_model_is_refused_by_its_name(flow_runner: FlowRunner) -> None:
    flow_runner.send(Parcels, Parcel(photo=None, ids=set()))
    [run] = flow_runner.run().runs()
    assert run.status == "FAILED"
    assert "'ids' is a set that DynamoDB cannot hold" in str(run.error)
    assert "leave it out, or write a list" in str(run.error)

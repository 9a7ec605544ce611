"""A path, several paths or a function say how a request is named: the same payload the same, another one another."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum, StrEnum
from hashlib import sha256
from typing import Annotated, Any, Literal, NewType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from flowguard.errors import RunFailed
from flowguard.names.ids import LONGEST_NAME, id_problem
from flowguard.payload.names import path_problems, read_request_id, rule_problems
from flowguard.testing import hostile


class Buyer(BaseModel):
    id: str = "b-1"
    vip: bool = False


class Order(BaseModel):
    order_id: str = "o1"
    number: int = 7
    uuid: UUID | None = None
    price: float = 0
    buyer: Buyer = Buyer()
    lines: list[str] = []
    notes: dict[str, Any] = {}
    shop: str | None = None
    where: Buyer | None = None
    place: str | dict[str, str] = ""


# -- what it reads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "payload", "found"),
    [
        ("order_id", Order(), "o1"),
        ("number", Order(), "7"),
        ("uuid", Order(uuid=UUID(int=1)), "00000000-0000-0000-0000-000000000001"),
        ("buyer.id", Order(), "b-1"),
        ("notes.shop.id", Order(notes={"shop": {"id": 5}}), "5"),
        ("order.id", {"order": {"id": "o2"}}, "o2"),
        (("order_id", "number"), Order(), '["o1","7"]'),
        (("order_id",), Order(), '["o1"]'),
        (lambda order: order.order_id.upper(), Order(), "O1"),
        (str.strip, " text ", "text"),
    ],
)
def test_what_a_rule_reads(rule: Any, payload: Any, found: str) -> None:
    assert read_request_id(rule, payload) == found


SHORT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), min_size=1)


@given(st.lists(SHORT, min_size=2, max_size=2), st.lists(SHORT, min_size=2, max_size=2))
def test_several_fields_are_told_apart_however_their_texts_are_divided(one: list[str], other: list[str]) -> None:
    names = [read_request_id(("a", "b"), dict(zip("ab", texts, strict=True))) for texts in (one, other)]
    assert (names[0] == names[1]) is (one == other)


@pytest.mark.parametrize(("one", "other"), [(("a", "bc"), ("ab", "c")), (('a","b', "c"), ("a", 'b","c'))])
def test_a_text_moved_from_one_field_to_the_next_is_another_request(one: Any, other: Any) -> None:
    first, second = ({"x": texts[0], "y": texts[1]} for texts in (one, other))
    assert read_request_id(("x", "y"), first) != read_request_id(("x", "y"), second)


@pytest.mark.parametrize(("size", "is_digest"), [(LONGEST_NAME - len('["",""]') - 1, False), (LONGEST_NAME, True)])
def test_several_fields_that_are_long_together_become_a_digest(size: int, is_digest: bool) -> None:
    payload = {"a": "x" * size, "b": "y"}
    found = read_request_id(("a", "b"), payload)
    whole = json.dumps(["x" * size, "y"], separators=(",", ":"))
    assert found == (sha256(whole.encode()).hexdigest() if is_digest else whole)
    assert id_problem(found) is None


UNUSABLE: list[Any] = [None, "", True, False, 1.5, [], {}, ["o1"], 10**5_000]


# -- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"order": None},
        {"order": "o1"},
        {"order": {}},
        {"order": []},
        *({"order": {"id": value}} for value in UNUSABLE),
    ],
)
@pytest.mark.parametrize("rule", ["order.id", ("order.id",), ("known", "order.id")])
def test_a_payload_without_a_usable_name_is_refused_with_the_path(rule: Any, payload: dict[str, Any]) -> None:
    with pytest.raises(RunFailed, match=r"^the payload has no usable 'order.id' to name the request by: text, a whole"):
        read_request_id(rule, {**payload, "known": "yes"})


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("x" * (LONGEST_NAME + 1), "the payload's 'id', which names the request, has 1,025 bytes of at most 1,024"),
        ("secret\0", "the payload's 'id', which names the request, has the character U+0000, which SQS refuses"),
    ],
)
@pytest.mark.parametrize("rule", ["id", ("id", "other")])
def test_a_name_that_cannot_travel_is_refused_and_not_shown(rule: Any, value: str, told: str) -> None:
    with pytest.raises(RunFailed) as caught:
        read_request_id(rule, {"id": value, "other": "o"})
    assert str(caught.value) == told


@pytest.mark.parametrize("name", sorted(hostile.IDS))
@pytest.mark.parametrize("rule", ["id", ("id", "id2"), lambda payload: payload["id"]])
def test_of_any_text_there_is_an_id_that_travels_or_a_clear_error(rule: Any, name: str) -> None:
    text = hostile.IDS[name]
    payload = {"id": text, "id2": "o"}
    if not text or id_problem(text):
        with pytest.raises(RunFailed) as caught:
            read_request_id(rule, payload)
        assert str(caught.value).isascii()
        assert len(str(caught.value)) < 150
        return
    found = read_request_id(rule, payload)
    assert id_problem(found) is None
    assert text in found or json.dumps(text, ensure_ascii=False)[1:-1] in found or len(found) == 64


def test_a_bug_in_a_types_own_text_is_not_taken_for_a_bad_payload() -> None:
    class Odd(str):
        __slots__ = ()

        def __str__(self) -> str:
            raise KeyError("a bug")

    with pytest.raises(KeyError):
        read_request_id("id", {"id": Odd("x")})


@pytest.mark.parametrize("name", sorted(hostile.STRUCTURES))
def test_no_structure_names_a_request(name: str) -> None:
    with pytest.raises(RunFailed, match="the payload has no usable 'id'"):
        read_request_id("id", {"id": hostile.STRUCTURES[name]})


def _raises(error: Exception) -> Callable[[Any], str]:
    def rule(payload: Any) -> str:
        raise error

    return rule


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (_raises(KeyError("secret")), "the flow's request_id function raised KeyError"),
        (_raises(RecursionError()), "the flow's request_id function raised RecursionError"),
        (lambda _: None, "the flow's request_id function returned NoneType, and an id is text"),
        (lambda _: 7, "the flow's request_id function returned int, and an id is text"),
        (lambda _: "", "the request id that the flow's request_id function returned is empty"),
        (lambda _: "\ud800", "the request id that the flow's request_id function returned has the character U+D800"),
        (lambda _: "x" * 1_025, "the request id that the flow's request_id function returned has 1,025 bytes of at"),
    ],
)
def test_a_function_that_names_no_request_is_reported_without_what_it_saw(rule: Any, told: str) -> None:
    with pytest.raises(RunFailed) as caught:
        read_request_id(rule, Order())
    assert str(caught.value).startswith(told)
    assert "secret" not in str(caught.value)


# -- what a definition may say ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        None,
        "order_id",
        "number",
        "uuid",
        "buyer.id",
        "notes.any.thing",
        ("order_id", "buyer.id"),
        lambda order: "x",
        str,
    ],
)
def test_a_good_rule(rule: Any) -> None:
    assert rule_problems(rule, "price", Order) == []


async def _async(order: Order) -> str:
    return order.order_id


PLAIN = "write a field ('order.id'), a tuple of fields, or a function of the payload"


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ((), f"request_id is (); {PLAIN}"),
        (["order_id"], f"request_id is ['order_id']; {PLAIN}"),
        (("order_id", 7), f"request_id is ('order_id', 7); {PLAIN}"),
        (7, f"request_id is 7; {PLAIN}"),
        (True, f"request_id is True; {PLAIN}"),
        ("", "request_id is ''; write the names of fields with a dot between two: 'order.id'"),
        ("buyer..id", "request_id is 'buyer..id'; write the names of fields with a dot between two: 'order.id'"),
        ((".id",), "request_id is '.id'; write the names of fields with a dot between two: 'order.id'"),
        (
            "id",
            "request_id is 'id', but Order has no 'id'; "
            "it has order_id, number, uuid, price, buyer, lines, notes, shop, where, place",
        ),
        ("order_id.id", "request_id is 'order_id.id', but what 'id' is looked for in has no fields: it is str"),
        ("number.real", "request_id is 'number.real', but what 'real' is looked for in has no fields: it is int"),
        ("lines.id", "request_id is 'lines.id', but what 'id' is looked for in has no fields: it is list[str]"),
        ("shop.id", "request_id is 'shop.id', but what 'id' is looked for in has no fields: it is str | None"),
        ("buyer.name", "request_id is 'buyer.name', but Buyer has no 'name'; it has id, vip"),
        ("price", "request_id is 'price', which is a float; a request is named by text, int or UUID"),
        ("lines", "request_id is 'lines', which is a list; a request is named by text, int or UUID"),
        (("order_id", "order_id"), "request_id names 'order_id' twice"),
        (_async, "request_id is an async function; write a plain one, which takes the payload and returns text"),
        (lambda: "x", "request_id cannot be called with the payload alone: too many positional arguments"),
        (lambda a, b: "x", "request_id cannot be called with the payload alone: missing a required argument: 'b'"),
    ],
)
def test_a_wrong_rule_is_reported_with_its_cure(rule: Any, told: str) -> None:
    assert rule_problems(rule, "price", Order) == [told]


class Sort(Enum):
    GREEN = "green"


class Grade(StrEnum):
    FIRST = "first"


Code = NewType("Code", str)
Alias = TypeAliasType("Alias", str)


class Shelf(BaseModel):
    row: int


NOTED = str(Annotated[str, "text"] | None)
"""Python 3.14 writes it another way than those before."""


class Box(BaseModel):
    code: Code
    grade: Grade
    sort: Sort
    uuid: UUID
    packed: date
    kind: Literal["small", 1]
    seller: Buyer | None
    either: Buyer | Shelf
    noted: Annotated[str, "text"] | None
    facts: dict[str, str] | None
    weight: Decimal | None
    alias: Alias


@pytest.mark.parametrize("path", ["code", "grade", "uuid", "uuid.hex", "sort.value", "grade.value", "kind"])
@pytest.mark.parametrize("option", ["tenant", "object_id"])
def test_a_path_to_what_is_text_or_has_a_text_is_good(option: str, path: str) -> None:
    assert path_problems(option, path, Box, "a tenant") == []


@pytest.mark.parametrize("path", ["seller.id", "either.row", "either.id", "facts.any", "noted", "alias", "alias.any"])
def test_a_path_is_good_where_it_may_lead_to_text(path: str) -> None:
    assert path_problems("tenant", path, Box, "a tenant") == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("code.b", "what 'b' is looked for in has no fields: it is tests.payload.test_names.Code"),
        ("grade.b", "what 'b' is looked for in has no fields: it is Grade"),
        ("uuid.b", "what 'b' is looked for in has no fields: it is UUID"),
        ("packed.b", "what 'b' is looked for in has no fields: it is date"),
        ("kind.b", "what 'b' is looked for in has no fields: it is typing.Literal['small', 1]"),
        ("noted.b", f"what 'b' is looked for in has no fields: it is {NOTED}"),
        ("seller.b", "Buyer has no 'b'; it has id, vip"),
        ("either.b", "Buyer and Shelf has no 'b'; it has id, vip, row"),
    ],
)
def test_a_path_into_what_has_no_such_field_is_refused(path: str, told: str) -> None:
    assert path_problems("tenant", path, Box, "a tenant") == [f"tenant is {path!r}, but {told}"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("sort", "Sort"),
        ("packed", "date"),
        ("facts", "dict[str, str] | None"),
        ("weight", "decimal.Decimal | None"),
        ("seller", "tests.payload.test_names.Buyer | None"),
        ("seller.vip", "bool"),
    ],
)
def test_what_is_never_text_names_nothing(path: str, kind: str) -> None:
    told = f"tenant is {path!r}, which is a {kind}; a tenant is named by text, int or UUID"
    assert path_problems("tenant", path, Box, "a tenant") == [told]


def test_text_has_no_fields_to_name_a_request_by() -> None:
    told = "'read' takes text, which has no 'id'; give request_id a function of the text"
    assert rule_problems(("id", "other"), "read", str) == [told]
    assert rule_problems(str.strip, "read", str) == []


def test_every_wrong_path_is_reported() -> None:
    assert len(rule_problems(("id", "price"), "price", Order)) == 2


def test_what_is_inside_a_dict_is_not_known_before_there_is_a_message() -> None:
    assert rule_problems("order.id", "read", dict) == []
    assert rule_problems("notes.id", "read", Order) == []
    assert rule_problems("place.id", "read", Order) == [], "it may be a dict"
    assert rule_problems("where.id", "read", Order) == [], "it may be there"
    assert rule_problems("uuid.hex", "read", Order) == [], "it has one"

"""Keys and payloads of calls, read from an argument, however hostile it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from flowguard.payload.call_keys import LONGEST_KEY, NoKey, read_digest, read_key, rule_problem
from flowguard.payload.results import MOST_LEVELS


class Order(BaseModel):
    order_id: str
    lines: list[dict[str, int]] = []


EVENT = {"Records": [{"messageId": "m-1", "body": json.dumps({"order": {"id": 7}})}], "id": "e-1"}


@pytest.mark.parametrize(
    ("rule", "argument", "key"),
    [
        ("id", EVENT, "e-1"),
        ("Records.0.messageId", EVENT, "m-1"),
        ("Records.0.body.order.id", EVENT, "7"),
        ("order_id", Order(order_id="o-1"), "o-1"),
        ("order.order_id", SimpleNamespace(order=Order(order_id="o-1")), "o-1"),
        ("lines.0.sku", Order(order_id="o", lines=[{"sku": 3}]), "3"),
        (("id", "Records.0.messageId"), EVENT, '["e-1","m-1"]'),
        (lambda event: event["id"], EVENT, "e-1"),
        (lambda event: 5, EVENT, "5"),
        ("u", {"u": UUID(int=1)}, str(UUID(int=1))),
    ],
)
def test_a_key_is_read_by_a_path_or_a_function(rule: Any, argument: Any, key: str) -> None:
    assert read_key(rule, argument) == key


HEADER = "headers.Idempotency-Key"


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
def test_a_header_is_read_whatever_its_case(name: str) -> None:
    assert read_key(HEADER, {"headers": {name: "k-1", "host": "x"}}) == "k-1"
    assert read_key("multiValueHeaders.Idempotency-Key.0", {"multiValueHeaders": {name: ["k-1"]}}) == "k-1"


@pytest.mark.parametrize(
    "event",
    [
        {"headers": {"Idempotency-Key": "k-1", "idempotency-key": "k-2"}},
        {"headers": {7: "k-1"}},
        {"headers": {}},
        {"headers": None},
        {"other": {"idempotency-key": "k-1"}},
    ],
)
def test_a_header_that_is_not_there_or_is_there_twice_is_no_key(event: Any) -> None:
    with pytest.raises(NoKey):
        read_key(HEADER, event)
    with pytest.raises(NoKey):
        read_key("other.Idempotency-Key", event)


def test_keys_of_several_paths_differ_where_their_parts_do() -> None:
    rule = ("a", "b")
    assert read_key(rule, {"a": "a", "b": "bc"}) != read_key(rule, {"a": "ab", "b": "c"})
    long = read_key(rule, {"a": "x" * 5_000, "b": "y"})
    assert len(long) == 64
    assert long != read_key(rule, {"a": "x" * 5_000, "b": "z"})


def test_a_key_may_have_as_many_bytes_as_fit() -> None:
    longest = "x" * LONGEST_KEY
    assert read_key("id", {"id": longest}) == longest
    two = "x" * (LONGEST_KEY - len('["",""]'))
    assert read_key(("a", "b"), {"a": two, "b": ""}) == f'["{two}",""]'


def test_models_are_digested_as_what_they_hold_wherever_they_stand() -> None:
    order, held = Order(order_id="o-1"), {"order_id": "o-1", "lines": []}
    for one, other in (({"a": order}, {"a": held}), ([order], [held]), ({"a": [{"b": order}]}, {"a": [{"b": held}]})):
        assert read_digest("of", {"of": one}) == read_digest("of", {"of": other})


class Careless:
    @property
    def order_id(self) -> str:
        raise ZeroDivisionError


def test_an_argument_whose_own_property_raises_is_no_missing_key() -> None:
    with pytest.raises(ZeroDivisionError):
        read_key("order_id", Careless())


class Tagged(BaseModel):
    tags: set[int]


def test_sets_of_models_are_digested_in_one_order() -> None:
    """A set of texts has another order in each process."""
    large = set(range(1_000))
    large.difference_update(set(range(1_000)) - {5, 8, 900})
    one, other = Tagged(tags={5, 8, 900}), Tagged.model_construct(tags=large)
    assert one.model_dump_json() != other.model_dump_json()
    assert read_digest("of", {"of": one}) == read_digest("of", {"of": other})


def test_a_payload_that_holds_itself_has_no_digest() -> None:
    endless: list[Any] = []
    endless.append(endless)
    round_and_round: dict[str, Any] = {}
    round_and_round["a"] = round_and_round
    for value in (endless, round_and_round, [endless, endless]):
        with pytest.raises(NoKey, match=r"its payload has no digest: .* 64 levels deep, or contains itself"):
            read_digest("of", {"of": value})


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_a_payload_has_at_most_64_levels(wrap: Callable[[Any], Any]) -> None:
    deep: Any = 1
    for _ in range(MOST_LEVELS - 1):
        deep = wrap(deep)
    assert read_digest("of", {"of": deep})
    with pytest.raises(NoKey, match=f"more than {MOST_LEVELS} levels"):
        read_digest("of", {"of": wrap(deep)})


def broken(event: Any) -> str:
    raise ValueError(event["id"])


@pytest.mark.parametrize(
    ("rule", "argument", "why"),
    [
        ("id", {}, "no usable key at 'id': it is a text, a whole number or a UUID, and there is nothing"),
        ("id", {"id": None}, "no usable key at 'id': it is a text, a whole number or a UUID, and there is nothing"),
        ("id", {"id": True}, "and there is a value of type bool"),
        ("id.0", {"id": 5}, "no usable key"),
        ("id.0", {"id": SimpleNamespace()}, "no usable key"),
        ("id.first", {"id": ["a"]}, "no usable key"),
        (f"id.{'9' * 5_000}", {"id": ["a"]}, "no usable key"),
        (
            "id",
            {"id": 1.5},
            "no usable key at 'id': it is a text, a whole number or a UUID, and there is a value of type float",
        ),
        ("id", {"id": ["x"]}, "no usable key"),
        ("id", {"id": 10**5_000}, "no usable key"),
        ("id", {"id": ""}, "the key at 'id' is empty"),
        ("id", {"id": "\ud800"}, "half a surrogate pair"),
        ("id", {"id": "x" * (LONGEST_KEY + 1)}, "1,025 bytes of at most 1,024; return a digest"),
        ("body.id", {"body": "{"}, "no usable key at 'body.id'"),
        ("body.id", {"body": "[" * 100_000}, "no usable key"),
        ("a.9999999999", {"a": ["x"]}, "no usable key"),
        ("a.1", {"a": ["x"]}, "no usable key"),
        ("__class__.__name__", Order(order_id="o"), "no usable key"),
        (("id", "other"), {"id": "x"}, "no usable key at 'other'"),
        (broken, {"id": "4111"}, "its key= function raised ValueError"),
        (lambda event: None, {}, "its key= function returned NoneType, and a key is text, int or UUID"),
        (lambda event: "", {}, "the key that the key= function returned is empty"),
    ],
)
def test_what_is_no_key_is_refused_and_not_quoted(rule: Any, argument: Any, why: str) -> None:
    with pytest.raises(NoKey) as refused:
        read_key(rule, argument)
    assert why in str(refused.value)
    assert "4111" not in str(refused.value)


def test_a_digest_is_the_same_for_the_same_payload_in_any_order_and_type_of_mapping() -> None:
    assert read_digest("a", {"a": {"x": 1, "y": 2}}) == read_digest("a", {"a": {"y": 2, "x": 1}})
    assert read_digest("a", {"a": {"b", "c", "d"}}) == read_digest("a", {"a": {"d", "c", "b"}})
    assert read_digest(lambda order: order, Order(order_id="o")) == read_digest("o", {"o": Order(order_id="o")})
    assert read_digest(("a", "b"), {"a": 1}) != read_digest(("a", "b"), {"b": 1})
    assert read_digest("a", {"a": "\ud800"}) != read_digest("a", {"a": "\ud801"})


@pytest.mark.parametrize("payload", [object(), float("nan"), {1: object()}])
def test_a_payload_without_a_digest_is_refused(payload: Any) -> None:
    with pytest.raises(NoKey, match="its payload has no digest"):
        read_digest("a", {"a": payload})


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("a.b", None),
        (("a", "b.c"), None),
        (str, None),
        ("", "key is ''; write names with a dot between two: 'order.id'"),
        ("a..b", "key is 'a..b'; write names"),
        ((), "key is (); write a path"),
        (("a", 1), "key is ('a', 1); write a path"),
        (None, "key is None; write a path ('order.id'), a tuple of paths, or a function of the argument"),
    ],
)
def test_a_wrong_rule_is_named_with_its_cure(rule: object, problem: str | None) -> None:
    found = rule_problem("key", rule)
    assert found == problem if problem is None else found is not None and found.startswith(problem)

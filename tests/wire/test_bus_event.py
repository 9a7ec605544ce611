"""An event of EventBridge is told by its whole form, and its detail is had back to the letter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.testing import hostile
from flowguard.wire.attributes import Attribute
from flowguard.wire.bus_event import BusEvent, find_bus_event, is_bus_event

ID = "6a7e8feb-b491-4cf7-a9f1-bf3703467718"
WHOLE: dict[str, Any] = {
    "version": "0",
    "id": ID,
    "detail-type": "Order placed",
    "source": "shop",
    "account": "123456789012",
    "time": "2026-01-02T03:04:05Z",
    "region": "eu-west-1",
    "resources": ["arn:aws:s3:::bucket"],
    "detail": {"order_id": "o1"},
}


def found(text: str) -> BusEvent:
    event = find_bus_event(text)
    assert event is not None
    return event


def test_a_whole_event_is_one() -> None:
    assert found(json.dumps(WHOLE)) == BusEvent(
        id=ID,
        detail_type="Order placed",
        source="shop",
        account="123456789012",
        time=1_767_323_045_000,
        region="eu-west-1",
        resources=("arn:aws:s3:::bucket",),
        detail='{"order_id": "o1"}',
        attributes={},
    )


@pytest.mark.parametrize("more", [{"replay-name": "again"}, {"new": [1]}, {"resources": []}, {"detail": {}}])
def test_what_an_event_may_have_and_may_lack(more: dict[str, Any]) -> None:
    assert is_bus_event({**WHOLE, **more})


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_what_lacks_a_part_is_none(name: str) -> None:
    assert find_bus_event(json.dumps({key: value for key, value in WHOLE.items() if key != name})) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in sorted(WHOLE) for value in (None, 0, "", True)),
        ("version", "1"),
        ("version", "00"),
        ("id", "evt-1"),
        ("id", f"{ID}0"),
        ("account", "12345678901"),
        ("account", "١٢٣٤٥٦٧٨٩٠١٢"),
        ("time", "2026-01-02T03:04:05"),
        ("time", "2026-01-02T03:04:05+01:00"),
        ("time", "2026-01-02T03:04:05.678Z"),
        ("time", "2026-13-02T03:04:05Z"),
        ("time", "1969-12-31T23:59:59Z"),
        ("region", "eu west"),
        ("resources", {"a": 1}),
        ("resources", [1]),
        ("resources", ["arn", None]),
        ("detail", []),
        ("detail", "{}"),
    ],
)
def test_what_has_a_part_of_another_type_or_form_is_none(name: str, value: Any) -> None:
    assert find_bus_event(json.dumps({**WHOLE, name: value})) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"detail-type"',
        '["detail-type"]',
        json.dumps([WHOLE]),
        json.dumps({"event": WHOLE}),
        json.dumps(WHOLE)[:-1],
        json.dumps(WHOLE) + "}",
        json.dumps(WHOLE) + " x",
        json.dumps(WHOLE).replace('"version": ', '"version" '),
        json.dumps(WHOLE).replace(', "id"', ' "id"'),
        json.dumps(WHOLE).replace(', "id"', ', 5: "id", "id"'),
        json.dumps(WHOLE).replace("detail-type", "detail\\u002dtype"),
        json.dumps(WHOLE)[:-1] + ',"x":' + "[" * 100_000,
        json.dumps(WHOLE)[:-1] + ",}",
    ],
)
def test_what_is_no_object_of_that_form_is_none(text: str) -> None:
    assert find_bus_event(text) is None


@pytest.mark.parametrize("name", sorted(hostile.TEXTS))
def test_no_text_is_taken_for_an_event(name: str) -> None:
    assert find_bus_event(hostile.TEXTS[name]) is None
    assert find_bus_event(f'"detail-type"{hostile.TEXTS[name]}') is None


@pytest.mark.parametrize("name", sorted(hostile.TEXTS))
def test_any_text_in_it_is_passed_on(name: str) -> None:
    text = hostile.TEXTS[name]
    event = found(json.dumps({**WHOLE, "source": f"s{text}", "resources": [text], "detail": {text: text}}))
    assert (event.source, event.resources) == (f"s{text}", (text,))
    assert json.loads(event.detail) == {text: text}


DETAIL = '{ "n" : 12345678901234567.890 ,"e":1E+2, "twice":1,"twice":2 , "u":"\\u00e9\\ud800" ,"detail":{"x":[ ]}}'


@pytest.mark.parametrize("layout", ['{{{},"detail":{}}}', '\n{{\n\t{} ,\r\n "detail" :\t{}\n}}\n '])
def test_a_detail_is_passed_on_to_the_letter(layout: str) -> None:
    rest = json.dumps({key: value for key, value in WHOLE.items() if key != "detail"})[1:-1]
    assert found(layout.format(rest, DETAIL)).detail == DETAIL


def test_of_two_details_the_last_counts_as_in_any_json() -> None:
    assert found(json.dumps(WHOLE)[:-1] + ',"detail":{"order_id":"o2"}}').detail == '{"order_id":"o2"}'
    assert find_bus_event(json.dumps(WHOLE)[:-1] + ',"detail":7}') is None


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists)))
@pytest.mark.proof("Hypothesis thinks of details")
def test_any_detail_is_had_back(detail: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        assert json.loads(found(json.dumps({**WHOLE, "detail": detail}, ensure_ascii=ascii_only)).detail) == detail


# -- what a flow's own event brings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"uniquerequestid": "r-1", "requestedat": "7"}, {"uniquerequestid": "r-1", "requestedat": "7"}),
        ({"uniquerequestid": "r-1", "flowstage": "a/b", "flowguard": "{}", "x": "y"}, {"uniquerequestid": "r-1"}),
        ({"uniquerequestid": 7, "requestedat": None}, {}),
        ({}, {}),
        ("r-1", {}),
        (None, {}),
        ([{"uniquerequestid": "r-1"}], {}),
    ],
)
def test_only_the_id_and_the_time_of_a_flows_own_event_are_read(said: Any, read: dict[str, str]) -> None:
    event = found(json.dumps({**WHOLE, "detail": {"flowguard": said}}))
    assert event.attributes == {name: Attribute.string(text) for name, text in read.items()}

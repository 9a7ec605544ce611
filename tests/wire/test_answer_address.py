"""The address of an answer: what is written is read again, and everything else is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.answer_address import LONGEST_AWAITED_NAME, AnswerAddress
from flowguard.wire.message import LATEST_TIME, MOST_HOPS

ADDRESS = AnswerAddress("carts", ObjectId("c-1"), RequestId("r-1"), 1_767_222_000_000, 2, "search")
FULL = ADDRESS._replace(admits=True, signature="k1.abc")


@pytest.mark.parametrize(
    "address",
    [
        ADDRESS,
        FULL,
        ADDRESS._replace(requested_at=0),
        ADDRESS._replace(requested_at=LATEST_TIME),
        ADDRESS._replace(hop=1),
        ADDRESS._replace(hop=MOST_HOPS),
        ADDRESS._replace(name="x" * LONGEST_AWAITED_NAME),
        ADDRESS._replace(object_id=ObjectId('é😀"\\\t'), request_id=RequestId("x" * 1_024)),
        ADDRESS._replace(signature="x" * 128),
    ],
)
def test_what_is_written_is_read_again(address: AnswerAddress) -> None:
    assert AnswerAddress.parse(json.loads(json.dumps(address.as_json()))) == address


def test_what_is_not_said_is_left_out() -> None:
    assert list(ADDRESS.as_json()) == ["flow", "object", "request", "at", "hop", "name"]
    assert list(FULL.as_json()) == ["flow", "object", "request", "at", "hop", "name", "admits", "sig"]


BAD: dict[str, list[Any]] = {
    "at": [None, -1, LATEST_TIME + 1, 10**40, 1.0, "1", True],
    "hop": [None, 0, -1, MOST_HOPS + 1, 1.0, "1", True],
    "sig": ["x" * 129, 1, []],
    "flow": [None, "", 1, "x" * 1_025, "\ud800", "\x00"],
    "object": [None, "", [], "x" * 1_025, "\ud800"],
    "request": [None, "", {}, "\x07"],
    "name": [None, "", 1, "x" * (LONGEST_AWAITED_NAME + 1), "\ufffe"],
}


@pytest.mark.parametrize(("part", "value"), [(part, value) for part, values in BAD.items() for value in values])
def test_a_part_that_cannot_be_is_named(part: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"the address of an answer (without|whose) '{part}'"):
        AnswerAddress.parse({**FULL.as_json(), part: value})


@pytest.mark.parametrize("found", [None, [], "text", 1])
def test_what_is_no_object_is_no_address(found: object) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        AnswerAddress.parse(found)


@pytest.mark.parametrize("value", [1, "true", None, False, [True]])
def test_only_true_admits(value: Any) -> None:
    assert not AnswerAddress.parse({**FULL.as_json(), "admits": value}).admits


def test_a_signature_covers_every_part_but_itself() -> None:
    others = [
        ADDRESS._replace(flow="x"),
        ADDRESS._replace(object_id=ObjectId("x")),
        ADDRESS._replace(request_id=RequestId("x")),
        ADDRESS._replace(requested_at=1),
        ADDRESS._replace(hop=3),
        ADDRESS._replace(name="x"),
        ADDRESS._replace(admits=True),
    ]
    assert len({one.statement for one in (ADDRESS, *others)}) == 8
    assert ADDRESS._replace(signature="x").statement == ADDRESS.statement
    assert ADDRESS._replace(object_id=ObjectId("é")).statement.isascii()
    assert json.loads(ADDRESS.statement)[0] == "flowguard-answer-1", "it is no statement about anything else"

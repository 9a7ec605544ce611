"""The turn of a message that waits for a place: it travels, is signed, and is read with care."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.message import PLACE, ErrorNote, Message, Place
from flowguard.wire.signing import is_claim, statement
from flowguard.wire.turn import Turn, read_turn

LOOK, CALL = Turn(1_800_000_000_000, "customer#d1", 7), Turn(1_800_000_000_000, "customer#d1")
MESSAGE = Message("orders", "price", 1, ObjectId("o1"), RequestId("r1"), 1_800_000_000_000, "{}")


@pytest.mark.parametrize("turn", [LOOK, CALL])
def test_a_turn_travels_with_its_message(turn: Turn) -> None:
    place = Place.parse(MESSAGE._replace(turn=turn).own_attributes()[PLACE].value)
    assert place.turn == turn
    assert turn.is_call == (turn is CALL)


def test_a_message_that_waits_for_nothing_says_nothing_of_it() -> None:
    assert "turn" not in MESSAGE.own_attributes()[PLACE].value
    assert Place.parse(MESSAGE.own_attributes()[PLACE].value).turn is None
    assert Place.parse('{"turn": null}').turn is None


@pytest.mark.parametrize(
    "value",
    [
        *("text", 7, True, {}, [], [1, "p"], [1, "p", 1, 1]),
        *([-1, "p", 1], [1, "p", -1], [10**15, "p", 1], [1, "p", 10**15], ["1", "p", 1], [1, 2, 1]),
        [1, "p" * 257, 1],
    ],
)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="has a 'turn' that is not"):
        read_turn(value)


def test_the_longest_place_and_the_latest_time_are_read() -> None:
    assert read_turn([10**15 - 1, "p" * 256, 0]) == Turn(10**15 - 1, "p" * 256)


def test_what_a_signature_covers_has_the_turn() -> None:
    texts = {statement(MESSAGE._replace(turn=turn), version=1, object_id="o1") for turn in (None, LOOK, CALL)}
    assert len(texts) == 3
    assert ['"turn",' in text for text in sorted(texts, key=len)] == [False, True, True]


def test_a_turn_is_what_only_flowguard_may_say() -> None:
    assert is_claim(MESSAGE._replace(turn=LOOK))
    assert not is_claim(MESSAGE)


def test_another_hop_attempt_or_redrive_waits_anew() -> None:
    waiting, error = MESSAGE._replace(turn=LOOK), ErrorNote("Retry", "later", 1)
    assert waiting.next("close", "{}").turn is None
    assert waiting.again(error).turn is None
    assert waiting.redriven(error).turn is None

"""What a claim finds of the looks and calls by which its hop has stood in the line of a limit."""

from __future__ import annotations

from typing import Any, Final

import pytest

from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.claims import found_note, is_left_over, kills_before, sends_by_another, stood_in_line
from flowguard.protocol.run import BackOff, Claim, RunItem
from flowguard.wire.message import ErrorNote, Message
from flowguard.wire.turn import Turn
from tests.protocol.run_items import run_item

FAILED: Final = BackOff(ErrorNote("Retry", "later", 400), 900)
WAITS: Final = FAILED._replace(look=7)
LOOK: Final = Turn(300, "customer#0123", 7)
CALL: Final = LOOK._replace(look=0)
OTHERS: Final[tuple[dict[str, Any], ...]] = (
    {"request_id": RequestId("another")},
    {"requested_at": 499},
    {"hop": 3},
    {"redrive": 2},
)
"""What makes an item one of another hop."""


def item(**changes: Any) -> RunItem:
    """The item of a run at the second attempt of its second hop, which was redriven."""
    found = run_item(request_id=RequestId("m"), requested_at=500, retry=1, redrive=1, epoch=7, done=False)
    return found._replace(**changes)


def message(turn: Turn | None = LOOK) -> Message:
    """A message of that attempt."""
    asked = Message("orders", "charge", 1, ObjectId("o"), RequestId("m"), 500, "{}", hop=2, retry=1, redrive=1)
    return asked._replace(turn=turn)


def claim(turn: Turn | None = LOOK, **before: Any) -> Claim:
    """The claim of a hop by a message with this turn, which has found the item with these changes."""
    return Claim(message(turn), item(owner=Owner("mine"), epoch=8), item(**before))


@pytest.mark.parametrize("changes", [*OTHERS, {"retry": 0}])
def test_a_note_is_found_of_the_very_attempt_alone(changes: dict[str, Any]) -> None:
    assert found_note(claim(back_off=WAITS)) == WAITS
    assert found_note(claim(back_off=WAITS, **changes)) is None
    assert found_note(claim()) is None
    assert found_note(claim()._replace(before=None)) is None


@pytest.mark.parametrize("turn", [LOOK, CALL])
def test_a_look_or_a_call_is_left_over_where_its_attempt_has_failed(turn: Turn) -> None:
    assert is_left_over(claim(turn, back_off=FAILED))
    assert is_left_over(claim(turn, back_off=FAILED, kills=1))
    assert not is_left_over(claim(turn, back_off=WAITS))
    assert not is_left_over(claim(turn))
    assert not is_left_over(claim(turn)._replace(before=None))


def test_who_waits_for_a_place_has_not_failed_so_a_copy_may_have_been_killed() -> None:
    found = item(owner=Owner("another"), epoch=9, kills=1)
    assert kills_before(found._replace(back_off=WAITS), message(), Owner("mine")) == 2
    assert kills_before(found._replace(back_off=FAILED), message(), Owner("mine")) == 0


@pytest.mark.parametrize("changes", [*OTHERS, {"retry": 0}])
def test_a_look_is_not_left_over_by_what_another_attempt_has_noted(changes: dict[str, Any]) -> None:
    assert not is_left_over(claim(back_off=FAILED, **changes))


def test_a_copy_that_never_stood_in_line_is_one_more_attempt() -> None:
    assert not is_left_over(claim(None, back_off=FAILED))


def test_a_look_goes_on_from_a_direct_call_that_has_failed_and_was_counted() -> None:
    assert not is_left_over(claim(back_off=FAILED, kills=-1))


@pytest.mark.parametrize(
    ("turn", "by", "another"),
    [(LOOK, 0, True), (LOOK, 6, True), (LOOK, 7, False), (CALL, 7, True), (CALL, 0, False), (LOOK, None, False)],
)
def test_a_look_has_nothing_to_send_where_its_hop_came_to_its_commit_by_another(
    turn: Turn, by: int | None, *, another: bool
) -> None:
    assert sends_by_another(item(by_look=by), message(turn)) is another


def test_a_message_without_a_turn_sends_what_is_left() -> None:
    assert not sends_by_another(item(by_look=0), message(None))


@pytest.mark.parametrize("changes", OTHERS)
def test_a_hop_has_stood_in_line_where_an_attempt_of_it_has_noted_so(changes: dict[str, Any]) -> None:
    assert stood_in_line(claim(back_off=WAITS))
    assert stood_in_line(claim(back_off=WAITS, retry=0))
    assert not stood_in_line(claim(back_off=WAITS, **changes))
    assert not stood_in_line(claim(back_off=FAILED))
    assert not stood_in_line(claim())
    assert not stood_in_line(claim()._replace(before=None))


def test_who_sent_the_look_that_comes_and_lost_its_release_was_not_killed() -> None:
    assert kills_before(item(kills=2), message()) == 2
    assert kills_before(item(kills=2, epoch=6), message()) == 3
    assert kills_before(item(kills=2), message(None)) == 3
    assert kills_before(item(kills=-1, back_off=WAITS), message()) == 0
    assert kills_before(item(kills=2, back_off=FAILED), message()) == 0

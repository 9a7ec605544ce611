"""When a hop that waits for a place looks again, as a table."""

from __future__ import annotations

from typing import Final

import pytest

from flowguard.protocol.places import GRACE, SKEW, Holder, Hop, KeyPause, Places, Terms, Waiter
from flowguard.worker.look_times import FIRST_LOOK, MOST_LOOKERS, SELDOM, UNCALLED_LOOK, rest_before_look

NOW: Final = 1_000_000_000
WINDOW: Final = 61_000
AT_WORK: Final = Terms(1, NOW, 1_800_000)
BY_TIME: Final = Terms(1, NOW, 1_800_000, WINDOW)
BEGUN: Final = Places({"x": Holder("", NOW + 30_000)})


def hop(waited: int = 0) -> Hop:
    return Hop("me", "o1", NOW - waited)


def behind(others: int, places: Places = BEGUN) -> Places:
    return places._replace(line={f"w{number}": Waiter(0, "o", NOW) for number in range(others)})


def rest(places: Places | None, waited: int = 0, terms: Terms = BY_TIME, *, can_be_called: bool = True) -> int:
    return rest_before_look(places, hop(waited), terms, can_be_called=can_be_called)


def test_by_time_the_look_comes_after_the_call() -> None:
    assert rest(BEGUN) == 30_001 + GRACE
    assert rest(behind(1), terms=BY_TIME._replace(at_once=2)) == 30_001 + GRACE
    assert rest(Places()) == GRACE, "it may be called at once"


@pytest.mark.parametrize("places", [None, behind(1)])
def test_who_is_not_called_yet_looks_after_a_window_or_half_of_what_it_has_waited(places: Places | None) -> None:
    assert rest(places) == WINDOW + GRACE
    assert rest(places, 2 * WINDOW + 2) == WINDOW + 1 + GRACE
    assert rest(places, 9 * SELDOM) == SELDOM + GRACE


@pytest.mark.parametrize("terms", [AT_WORK, BY_TIME])
def test_who_cannot_be_called_looks_soon_near_the_head_of_the_line(terms: Terms) -> None:
    head, later = behind(MOST_LOOKERS - 1), behind(MOST_LOOKERS)
    assert rest(head, 4 * UNCALLED_LOOK, terms, can_be_called=False) == UNCALLED_LOOK
    assert rest(later, 4 * UNCALLED_LOOK, terms, can_be_called=False) == 2 * UNCALLED_LOOK
    assert rest(None, 4 * UNCALLED_LOOK, terms, can_be_called=False) == 2 * UNCALLED_LOOK


@pytest.mark.parametrize("can_be_called", [True, False])
def test_nobody_hurries_in_the_line_of_a_key_that_is_paused(can_be_called: bool) -> None:
    rests = BEGUN._replace(pause=KeyPause(NOW, "no"))
    assert rest(rests, 200_000, AT_WORK, can_be_called=can_be_called) == 100_000
    assert rest(rests, 9 * SELDOM, AT_WORK, can_be_called=can_be_called) == SELDOM


OWN: Final = Places({"x": Holder("x", NOW + 30_000)}, pause=KeyPause(NOW, "away", NOW + 300_000))
TWO: Final = AT_WORK._replace(at_once=2)


def test_who_is_called_to_try_a_key_that_has_paused_itself_looks_after_that() -> None:
    assert rest(OWN, 200_000, TWO) == 300_000 + GRACE
    assert rest(OWN, 200_000, TWO, can_be_called=False) == UNCALLED_LOOK


def test_the_next_in_its_line_look_when_a_place_may_lapse() -> None:
    assert rest(behind(1, OWN), 200_000, TWO) == 30_000 + SKEW
    assert rest(behind(1, OWN), 20_000, TWO) == 10_000
    assert rest(behind(MOST_LOOKERS, OWN), 200_000, TWO) == 100_000
    tried = OWN._replace(pause=KeyPause(NOW, "away", NOW, "x"))
    assert rest(tried, 200_000, TWO) == 30_000 + SKEW


def test_at_work_the_first_look_when_a_place_may_lapse() -> None:
    assert rest(BEGUN, 200_000, AT_WORK) == 30_000 + SKEW
    assert rest(behind(MOST_LOOKERS), 200_000, AT_WORK) == 100_000
    assert rest(BEGUN, 0, AT_WORK) == FIRST_LOOK
    assert rest(None, 0, AT_WORK) == FIRST_LOOK
    assert rest(None, 9 * SELDOM, AT_WORK) == SELDOM

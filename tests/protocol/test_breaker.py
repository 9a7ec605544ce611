"""How a key pauses itself and is tried, as pure functions of its item: each rule alone, and walks at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import pytest

from flowguard.pause_after import LONGEST_REST
from flowguard.protocol.breaker import Rule, answered, failed, noted
from flowguard.protocol.places import (
    APART,
    LONGEST_WINDOW,
    NOBODY,
    SKEW,
    Change,
    Holder,
    Hop,
    KeyPause,
    Places,
    Terms,
    free,
    given_back,
    is_own,
    joined,
    openings,
    paused,
    resumed,
    settled,
    taken,
    trials,
    tried_at,
)

NOW: Final = 1_800_000_000_000
LEASE: Final = 60_000
LONGEST: Final = 1_800_000
RULE: Final = Rule(3, 60_000, 300_000, "3 Away within 0:01:00")
UNTIL: Final = NOW + RULE.rest
OWN: Final = KeyPause(NOW, RULE.why, UNTIL)
BY_HAND: Final = KeyPause(NOW, "by hand")


def at(ms: int, at_once: int = 2, window: int = 0) -> Terms:
    """Return the terms so many ms after the start."""
    return Terms(at_once, NOW + ms, LONGEST, window)


def hop(token: str, arrival: int = 0) -> Hop:
    return Hop(token, f"order {token}", NOW + arrival)


def holder(token: str, ms: int = 0) -> Holder:
    return Holder(f"owner of {token}", NOW + ms + LEASE)


def take(places: Places, token: str, terms: Terms, owner: Holder | None = None, ended: str | None = None) -> Change:
    mine = owner or Holder(f"owner of {token}", terms.now + LEASE)
    return taken(places, hop(token), mine, terms, ended=ended)


def fail(places: Places, token: str, terms: Terms, rule: Rule = RULE) -> Change:
    return failed(places, token, f"owner of {token}", terms, rule)


def answer(places: Places, token: str, terms: Terms) -> Change:
    return answered(places, token, f"owner of {token}", terms)


def trying() -> Places:
    """Return the places of a key that is tried."""
    places = Places(pause=OWN)
    change = take(places, "t", at(RULE.rest))
    assert change.granted
    return change.after


# -- failures are counted, and pause the key


def test_the_last_of_so_many_failures_pauses_the_key() -> None:
    places = Places({token: holder(token) for token in "abc"})
    first = fail(places, "a", at(0, 3))
    assert (first.after.failed, first.after.pause, first.tripped) == ((NOW,), None, None)
    assert "a" not in first.after.held
    second = fail(first.after, "b", at(1, 3))
    assert (second.after.failed, second.tripped) == ((NOW, NOW + 1), None)
    third = fail(second.after, "c", at(2, 3))
    pause = KeyPause(NOW + 2, RULE.why, NOW + 2 + RULE.rest)
    assert third.after == Places(pause=pause)
    assert third.tripped == pause


@pytest.mark.parametrize(
    ("ago", "trips"), [(RULE.within - 1, True), (RULE.within, False), (-APART, True), (-APART - 1, False)]
)
def test_failures_count_that_lie_within_the_time(ago: int, trips: bool) -> None:
    places = noted(Places(failed=(NOW - ago, NOW)), NOW, RULE)
    assert (places.pause is not None) is trips
    assert places.failed == (() if trips else (NOW, NOW))


def test_a_single_failure_may_be_enough() -> None:
    assert fail(Places({"a": holder("a")}), "a", at(0), RULE._replace(failures=1)).tripped is not None


@pytest.mark.parametrize("held", [{}, {"a": Holder("another", NOW + LEASE)}])
def test_a_place_that_is_gone_counts_no_failure(held: dict[str, Holder]) -> None:
    """A write whose answer was lost is decided once more: it has counted by then."""
    assert fail(Places(held), "a", at(0)) == Change(Places(held))


@pytest.mark.parametrize("pause", [OWN, BY_HAND, OWN._replace(trial="b")])
def test_a_key_that_is_paused_counts_no_failure_of_who_began_before(pause: KeyPause) -> None:
    places = Places({token: holder(token) for token in "ab"}, pause=pause, failed=(NOW,))
    change = fail(places, "a", at(0))
    assert change == Change(places._replace(held={"b": holder("b")}))


def test_an_end_that_is_no_such_failure_counts_nothing_and_ends_nothing() -> None:
    for pause in (None, OWN, BY_HAND, OWN._replace(trial="b")):
        places = Places({"a": holder("a"), "b": holder("b")}, pause=pause, failed=(NOW,))
        assert answer(places, "a", at(0)) == Change(places._replace(held={"b": holder("b")}))


# -- one hop tries a key that is paused


@pytest.mark.parametrize(
    ("ms", "granted"), [(0, False), (RULE.rest - 1, False), (RULE.rest, True), (100 * RULE.rest, True)]
)
def test_nothing_begins_before_the_rest_is_over(ms: int, granted: bool) -> None:
    change = take(Places(pause=OWN), "a", at(ms))
    assert change.granted is granted
    assert change.after.pause == (OWN._replace(trial="a") if granted else OWN)


def test_who_takes_a_place_leaves_the_failures_that_are_noted() -> None:
    assert take(Places(failed=(NOW,)), "a", at(1)).after.failed == (NOW,)


def test_one_hop_at_a_time_tries() -> None:
    places = trying()
    assert not take(places, "a", at(RULE.rest)).granted
    assert free(places, at(RULE.rest)) == 0
    lapsed = settled(places, at(RULE.rest + LEASE + SKEW + 1))
    assert trials(lapsed) == 1
    assert take(places, "a", at(RULE.rest + LEASE + SKEW + 1)).after.pause == OWN._replace(trial="a")


def test_who_began_before_holds_a_place_that_no_trial_gets() -> None:
    places = Places({"a": holder("a", RULE.rest)}, pause=OWN)
    assert not take(places, "b", at(RULE.rest, 1)).granted
    assert openings(places, at(RULE.rest, 1)) == []
    assert take(places, "b", at(RULE.rest, 2)).granted


def test_a_trial_that_is_answered_ends_the_pause_and_calls_the_line() -> None:
    places = trying()
    for number, token in enumerate("abc"):
        places = joined(places, hop(token, number), at(RULE.rest)).after
    change = answer(places, "t", at(RULE.rest + 9))
    assert change.healed == OWN._replace(trial="t")
    assert (change.after.pause, change.after.held) == (None, {})
    assert [call.token for call in change.calls] == ["a", "b"]


def test_an_answer_forgets_the_failures_before_it() -> None:
    places = trying()._replace(failed=(NOW,))
    assert answer(places, "t", at(RULE.rest)).after == NOBODY


def test_a_trial_that_fails_moves_the_next_one_on_and_calls_who_is_first_for_it() -> None:
    places = trying()
    for number, token in enumerate("ab"):
        places = joined(places, hop(token, number), at(RULE.rest)).after
    now = at(RULE.rest + 7)
    change = fail(places, "t", now)
    pause = OWN._replace(until=now.now + RULE.rest)
    assert change.tripped == change.after.pause == pause
    assert [call.token for call in change.calls] == ["a"]
    assert change.after.line["a"].called_at == pause.until
    assert change.after.failed == ()


def test_a_trial_whose_handler_was_not_called_leaves_the_next_one_at_once() -> None:
    places = joined(trying(), hop("a"), at(RULE.rest)).after
    change = given_back(places, "t", "owner of t", at(RULE.rest + 1))
    assert change.after.pause is not None
    assert [call.token for call in change.calls] == ["a"]
    assert take(change.after, "a", at(RULE.rest + 2)).granted


@pytest.mark.parametrize("end", [fail, answer])
def test_the_end_of_a_trial_whose_place_another_has_says_nothing(end: Callable[[Places, str, Terms], Change]) -> None:
    places = trying()
    places = take(places, "t", at(RULE.rest + LEASE), Holder("second", NOW + RULE.rest + 2 * LEASE)).after
    assert places.held["t"].owner == "second"
    assert end(places, "t", at(RULE.rest + LEASE)) == Change(places)


def test_who_pauses_by_hand_meanwhile_is_not_overruled_by_the_trial() -> None:
    places = paused(trying(), BY_HAND).after
    assert places.pause == BY_HAND
    for change in (fail(places, "t", at(RULE.rest)), answer(places, "t", at(RULE.rest))):
        assert change == Change(Places(pause=BY_HAND))


def test_a_resume_ends_either_and_forgets_failures() -> None:
    for pause in (OWN, BY_HAND):
        assert resumed(Places(pause=pause, failed=(NOW,))).after == NOBODY


def test_an_earlier_pause_by_hand_stays() -> None:
    assert paused(Places(pause=BY_HAND), KeyPause(NOW + 1, "later")).after.pause == BY_HAND


# -- who stands in line is called for the trial


def test_who_is_first_in_line_is_called_for_the_end_of_the_rest() -> None:
    change = joined(Places(pause=OWN), hop("a"), at(1000))
    assert [call.token for call in change.calls] == ["a"]
    assert change.after.line["a"].called_at == UNTIL
    assert joined(change.after, hop("b", 1), at(1001)).calls == ()


def test_of_a_key_that_is_tried_nobody_is_called() -> None:
    assert openings(trying(), at(RULE.rest)) == []
    assert openings(Places(pause=BY_HAND), at(RULE.rest)) == []


def test_a_trial_that_is_late_is_called_for_now() -> None:
    assert openings(Places(pause=OWN), at(RULE.rest + 5)) == [UNTIL + 5]


def test_a_rest_that_lies_too_far_ahead_is_of_a_clock_that_was_fast() -> None:
    longest = LONGEST_WINDOW + APART
    assert tried_at(OWN._replace(until=NOW + longest), NOW) == NOW + longest
    assert tried_at(OWN._replace(until=NOW + longest + 1), NOW) == NOW
    assert take(Places(pause=OWN._replace(until=NOW + longest + 1)), "a", at(0)).granted


def test_the_longest_rest_is_kept_by_two_clocks_each_of_which_is_wrong_by_almost_5_s() -> None:
    rule = RULE._replace(failures=1, rest=LONGEST_REST // timedelta(milliseconds=1))
    places = fail(Places({"a": holder("a")}), "a", at(4_999), rule).after
    places = joined(places, hop("c", -9), at(5_000)).after
    change = take(places, "b", at(100 - 4_999))
    assert not change.granted
    assert change.after.line == places.line


# -- a place that an earlier owner has left


@pytest.mark.parametrize(
    ("pause", "ms", "granted"),
    [
        (None, 0, True),
        (BY_HAND, 0, False),
        (BY_HAND, RULE.rest, False),
        (OWN, 0, False),
        (OWN, RULE.rest, True),
        (OWN._replace(trial="a"), RULE.rest, False),
        (OWN._replace(trial="b"), RULE.rest, False),
    ],
)
def test_while_a_key_is_paused_a_retry_takes_over_no_place_but_that_of_a_trial(
    pause: KeyPause | None, ms: int, granted: bool
) -> None:
    """The attempt before has failed, and could not give its place back."""
    places = Places({token: holder(token, ms) for token in "ab"}, pause=pause)
    change = take(places, "a", at(ms), Holder("second", NOW + ms + LEASE), ended="owner of a")
    assert change.granted is granted
    if granted and pause is not None:
        assert change.after.pause == pause._replace(trial="a")


@pytest.mark.parametrize(
    ("ms", "until", "granted"), [(RULE.rest, LEASE, False), (RULE.rest, 0, True), (RULE.rest - 1, 0, False)]
)
def test_a_retry_takes_a_trials_place_over_when_its_lease_is_over(ms: int, until: int, granted: bool) -> None:
    """Before that the attempt is about to say by its give-back how it has ended. It may have failed: all rest again."""
    places = Places({"a": Holder("owner of a", NOW + ms + until)}, pause=OWN._replace(trial="a"))
    change = take(places, "a", at(ms), Holder("second", NOW + ms + LEASE), ended="owner of a")
    assert change.granted is granted
    failed_too = fail(change.after, "a", at(ms))
    assert (failed_too.tripped is None) is granted


@pytest.mark.parametrize("pause", [OWN, BY_HAND])
def test_who_has_its_place_already_keeps_it_and_is_no_trial(pause: KeyPause) -> None:
    change = take(Places({"a": holder("a", RULE.rest)}, pause=pause), "a", at(RULE.rest))
    assert change.granted
    assert change.after.pause == pause


# -- another kind of limit


def test_a_limit_by_time_does_not_pause_itself() -> None:
    """It was one of hops at work before. Nobody gives a start back, so no trial would end."""
    terms = at(0, window=60_000)
    assert settled(Places(pause=OWN), terms).pause is None
    assert settled(Places(pause=BY_HAND), terms).pause == BY_HAND
    assert settled(Places(pause=OWN), at(0)).pause == OWN


# -- walks at random


@pytest.mark.parametrize("seed", range(60))
def test_in_no_walk_does_a_hop_begin_while_the_key_is_paused_nor_do_two_try(seed: int) -> None:
    """Workers whose clocks differ by 4 s take places, end, fail, die, and join. Nobody else changes the item."""
    draw, places, now = random.Random(seed), NOBODY, 0
    rule = Rule(draw.randint(1, 4), 60_000, draw.choice([5_000, 300_000]), "away")
    for _ in range(400):
        now += draw.randint(0, 8_000)
        skew, token = draw.randint(0, 4_000), draw.choice("abcdefgh")
        terms, before = at(now + skew, 3), places
        match draw.randrange(6):
            case 0 | 1:
                change = take(places, token, terms)
                if change.granted and token not in settled(before, terms).held and before.pause is not None:
                    assert before.pause.until <= terms.now
                    assert change.after.pause is not None
                    assert change.after.pause.trial == token
                    assert before.pause.trial not in settled(before, terms).held
            case 2:
                change = fail(places, token, terms, rule)
            case 3:
                change = answer(places, token, terms)
                if token in before.held and is_own(before.pause) and before.pause.trial == token:
                    assert change.after.pause is None
                else:
                    assert change.after.pause == before.pause
            case 4:
                change = joined(places, hop(token, now), terms)
            case _:
                change = Change(settled(places, terms))
        places = change.after
        assert len(settled(places, terms).held) <= 3
        assert len(places.failed) < rule.failures

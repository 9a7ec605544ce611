"""The places of a limit's key: each decision, and every small state that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Final

import pytest

from flowguard.protocol.places import (
    APART,
    COMES_EARLY,
    GRACE,
    LONGEST_LINE,
    LONGEST_WINDOW,
    NOBODY,
    SKEW,
    UNSEEN_FOR,
    Change,
    Holder,
    Hop,
    KeyPause,
    Places,
    Terms,
    Waiter,
    before,
    called,
    free,
    given_back,
    joined,
    lapses_in,
    openings,
    paused,
    resumed,
    settled,
    taken,
    withdrawn,
)

NOW: Final = 1_000_000_000
LEASE: Final = 30_000
LONGEST: Final = 1_800_000
A, B, C = (Hop(name, f"object {name}", NOW - 3 + place) for place, name in enumerate("abc"))


def terms(now: int = NOW, at_once: int = 1) -> Terms:
    return Terms(at_once, now, LONGEST)


def held(*hops: Hop, until: int = NOW + LEASE) -> dict[str, Holder]:
    return {hop.token: Holder(f"owner of {hop.token}", until) for hop in hops}


def line(*hops: Hop, seen_at: int = NOW, called_at: int = 0) -> dict[str, Waiter]:
    return {hop.token: Waiter(hop.arrival, hop.object_id, seen_at, called_at) for hop in hops}


def take(places: Places, hop: Hop, of: Terms) -> Change:
    return taken(places, hop, Holder(f"owner of {hop.token}", of.now + LEASE), of)


def test_a_free_place_is_taken_until_the_lease_ends() -> None:
    assert take(NOBODY, A, terms()) == Change(Places(held(A)), granted=True)


def test_the_last_place_is_taken_and_no_further_one() -> None:
    two = take(take(NOBODY, A, terms(at_once=2)).after, B, terms(at_once=2))
    assert (two.granted, two.after) == (True, Places(held(A, B)))
    assert take(two.after, C, terms(at_once=2)) == Change(two.after)


def test_a_hop_takes_its_own_place_again() -> None:
    again = taken(Places(held(A)), A, Holder("owner of a", NOW + 9), terms())
    assert again == Change(Places({"a": Holder("owner of a", NOW + 9)}), granted=True)


def test_a_place_goes_to_another_owner_of_its_hop_when_its_lease_is_over_and_not_before() -> None:
    another, alive, over = Holder("another", NOW + 9), Places(held(A, until=NOW + 1)), Places(held(A, until=NOW))
    assert taken(alive, A, another, terms()) == Change(alive)
    assert taken(alive, A, another, terms(at_once=2)) == Change(alive), "nor is another place its own"
    assert taken(over, A, another, terms()) == Change(Places({"a": another}), granted=True)


def test_a_hop_whose_place_an_earlier_owner_holds_is_called_when_that_gives_it_back_and_keeps_nobody_waiting() -> None:
    two = terms(at_once=2)
    waits = joined(Places(held(A)), A, two)
    assert waits == Change(Places(held(A), line(A))), "a place is free, and is not its own"
    assert take(waits.after, B, two).granted
    freed = given_back(waits.after, "a", "owner of a", two)
    assert freed == Change(Places(line=line(A, called_at=NOW)), calls=(A,))


def test_a_place_is_held_as_long_as_its_lease_and_as_clocks_may_differ() -> None:
    places = Places(held(A, until=NOW - SKEW))
    assert not take(places, B, terms()).granted
    assert take(places, B, terms(NOW + 1)) == Change(Places(held(B, until=NOW + 1 + LEASE)), granted=True)


def test_a_lease_that_ends_later_than_any_can_holds_no_place() -> None:
    assert settled(Places(held(A, until=NOW + LONGEST)), terms()).held
    assert not settled(Places(held(A, until=NOW + LONGEST + 1)), terms()).held


def test_a_newcomer_passes_nobody_who_stands_in_line() -> None:
    change = take(Places(line=line(A)), B, terms())
    assert not change.granted
    assert change == Change(Places(line=line(A, called_at=NOW)), calls=(A,))


def test_a_newcomer_takes_a_place_that_is_left_when_all_before_it_have_one() -> None:
    change = take(Places(line=line(A, called_at=NOW)), B, terms(at_once=2))
    assert change == Change(Places(held(B), line(A, called_at=NOW)), granted=True)


def test_who_comes_before_those_who_are_called_waits_for_none_of_them() -> None:
    change = take(Places(line=line(B, called_at=NOW)), A, terms())
    assert change == Change(Places(held(A), line(B, called_at=NOW)), granted=True)


def test_of_two_that_came_at_one_time_the_token_decides() -> None:
    places = Places(line=line(B))
    assert before(places, Hop("a", "", B.arrival)) == 0
    assert before(places, Hop("c", "", B.arrival)) == 1


def test_who_takes_a_place_leaves_the_line() -> None:
    assert take(Places(line=line(A, B)), A, terms()).after == Places(held(A), line(B))


def test_who_joins_stands_in_line_and_is_called_at_once_where_a_place_is_free() -> None:
    assert joined(Places(held(A)), B, terms()) == Change(Places(held(A), line(B)))
    assert joined(NOBODY, B, terms()) == Change(Places(line=line(B, called_at=NOW)), calls=(B,))


def test_who_joins_again_may_be_called_once_more() -> None:
    """Its claim may have turned the call away."""
    change = joined(Places(line=line(A, seen_at=NOW - 9, called_at=NOW - 5)), A, terms())
    assert change == Change(Places(line=line(A, seen_at=NOW - 9, called_at=NOW)), calls=(A,))


def test_a_copy_of_a_message_keeps_the_turn_of_the_hop() -> None:
    copy = B._replace(arrival=C.arrival + 9)
    places = Places(line=line(B, C))
    assert joined(Places(held(A), places.line), copy, terms()).after.line == places.line
    assert take(places, copy, terms()).granted


def test_who_has_looked_lately_changes_nothing_and_later_looks_are_noted() -> None:
    lately = Places(held(A), line(B, seen_at=NOW - UNSEEN_FOR // 4 + 1))
    assert joined(lately, B, terms()) == Change(lately)
    before_that = Places(held(A), line(B, seen_at=NOW - UNSEEN_FOR // 4))
    assert joined(before_that, B, terms()) == Change(Places(held(A), line(B)))


def test_a_full_line_is_left_by_the_one_that_came_last() -> None:
    hops = [Hop(f"{number:03}", "", NOW - 1_000 + number) for number in range(LONGEST_LINE)]
    full = Places(held(A), line(*hops))
    assert joined(full, Hop("late", "", NOW), terms()).after == full
    after = joined(full, Hop("early", "", NOW - 2_000), terms()).after
    assert list(after.line) == ["early", *(hop.token for hop in hops[:-1])]


def test_who_gives_a_place_back_has_the_first_in_line_called() -> None:
    change = given_back(Places(held(A), line(B, C)), A.token, "owner of a", terms())
    assert change == Change(Places({}, {**line(B, called_at=NOW), **line(C)}), calls=(B,))


def test_an_earlier_owner_gives_nothing_back() -> None:
    assert given_back(Places(held(A)), A.token, "another", terms()) == Change(Places(held(A)))
    assert given_back(Places(held(A)), B.token, "owner of b", terms()) == Change(Places(held(A)))


def test_nobody_is_called_twice_for_one_place() -> None:
    assert called(Places(line={**line(A, called_at=NOW), **line(B)}), terms()).calls == ()


def test_as_many_are_called_as_places_are_free() -> None:
    assert called(Places(line=line(A, B, C)), terms(at_once=2)).calls == (A, B)
    assert called(Places(held(C), line(A, B)), terms(at_once=2)).calls == (A,)


def test_with_fewer_places_than_are_held_nobody_is_called() -> None:
    """A deployment has lowered their number."""
    places = Places(held(A, B), line(C))
    assert free(places, terms()) == 0
    assert called(places, terms()) == Change(places)


def test_who_was_called_in_vain_makes_way_for_the_next() -> None:
    places = Places(line={**line(A, called_at=NOW - GRACE), **line(B)})
    assert called(settled(places, terms()), terms()).calls == ()
    assert called(settled(places, terms(NOW + 1)), terms(NOW + 1)).calls == (B,)


def test_who_has_not_looked_for_long_is_dropped_from_the_line() -> None:
    places = Places(line=line(A, seen_at=NOW - UNSEEN_FOR))
    assert settled(places, terms()) == places
    assert settled(places, terms(NOW + 1)) == NOBODY


def test_who_leaves_the_line_makes_way_for_the_next() -> None:
    change = withdrawn(Places(line={**line(A, called_at=NOW), **line(B)}), A, terms())
    assert change == Change(Places(line=line(B, called_at=NOW)), calls=(B,))


def test_an_earlier_attempt_does_not_take_a_later_one_out_of_the_line() -> None:
    places = Places(held(B), line(A))
    assert withdrawn(places, A._replace(arrival=A.arrival - 1), terms()).after == places
    assert withdrawn(places, A, terms()).after == Places(held(B))


@pytest.mark.parametrize("change", [joined, withdrawn])
def test_each_change_drops_who_is_over(change: Callable[[Places, Hop, Terms], Change]) -> None:
    over = Places(held(A, until=NOW - SKEW - 1), line(C))
    assert A.token not in change(over, B, terms()).after.held
    assert change(over, B, terms(at_once=2)).calls[-1] == C


def test_giving_back_drops_who_is_over() -> None:
    over = Places({**held(A, until=NOW - SKEW - 1), **held(B)})
    assert given_back(over, B.token, "owner of b", terms(at_once=2)).after == NOBODY


def test_a_later_attempt_that_was_called_by_an_earlier_ones_message_is_called_again() -> None:
    places = Places(line=line(A, called_at=NOW - 5))
    change = withdrawn(places, A._replace(arrival=A.arrival - 1), terms())
    assert (change.after, change.calls) == (Places(line=line(A, called_at=NOW)), (A,))


def test_the_others_in_line_stay_where_one_is_called_again() -> None:
    change = withdrawn(Places(held(C), line(A, B)), A._replace(arrival=A.arrival - 1), terms())
    assert change.after == Places(held(C), line(A, B))


def test_a_hop_that_came_earlier_than_its_place_in_line_says_stands_where_it_belongs() -> None:
    earlier = C._replace(arrival=A.arrival - 1)
    assert list(joined(Places(held(A), line(B, C)), earlier, terms()).after.line) == ["c", "b"]
    assert take(Places(line=line(B, C)), earlier, terms()).granted


@pytest.mark.parametrize(("ahead", "again"), [(GRACE, ()), (GRACE + 1, (A,))])
def test_who_was_called_for_a_moment_far_ahead_is_called_at_once_where_a_place_is_free(
    ahead: int, again: tuple[Hop, ...]
) -> None:
    """The limit was one by time before a deployment, or a clock was fast."""
    assert called(settled(Places(line=line(A, called_at=NOW + ahead)), terms()), terms()).calls == again


def test_a_place_lapses_with_the_first_lease_or_the_first_call() -> None:
    assert lapses_in(NOBODY, NOW) == 0
    both = Places({**held(A, until=NOW + 9), **held(B)})
    assert lapses_in(both, NOW) == 9 + SKEW
    assert lapses_in(Places(held(A), line(B, called_at=NOW - 1)), NOW) == GRACE - 1
    assert lapses_in(Places(held(A), line(B)), NOW) == LEASE + SKEW
    assert lapses_in(Places(held(A, until=NOW - SKEW - 9)), NOW) == 0


PAUSE: Final = KeyPause(NOW - 5, "a fraud is looked into")


@pytest.mark.parametrize("window", [0, 60_000])
def test_a_key_that_is_paused_has_no_place_and_none_is_known_to_be_free(window: int) -> None:
    places = Places(held(A), pause=PAUSE)
    of = terms(at_once=3)._replace(window=window)
    assert (free(places, of), openings(places, of)) == (0, [])
    assert free(places._replace(pause=None), of) == 2
    assert not take(places, B, of).granted
    assert joined(places, B, of) == Change(Places(held(A), line(B), PAUSE))


def test_a_hop_keeps_the_place_that_it_holds_of_a_key_that_is_paused() -> None:
    places = Places(held(A), pause=PAUSE)
    assert take(places, A, terms()) == Change(places, granted=True)
    assert given_back(places, "a", "owner of a", terms()) == Change(Places(pause=PAUSE))
    assert settled(Places(held(A, until=0), line(B, seen_at=0), PAUSE), terms()) == Places(pause=PAUSE)


def test_an_earlier_pause_stays_and_an_end_calls_nobody() -> None:
    places = Places(held(A), line(B))
    assert paused(places, PAUSE) == Change(Places(held(A), line(B), PAUSE))
    later = KeyPause(NOW, "again")
    assert paused(Places(held(A), line(B), PAUSE), later) == Change(Places(held(A), line(B), PAUSE))
    assert resumed(Places(line=line(B), pause=PAUSE)) == Change(Places(line=line(B)))


def test_the_item_is_empty_without_holders_and_line() -> None:
    assert NOBODY.is_empty
    assert not Places(held(A)).is_empty
    assert not Places(line=line(A)).is_empty


# -- by time

WINDOW: Final = 61_000


def by_time(now: int = NOW, count: int = 1) -> Terms:
    return Terms(count, now, LONGEST, WINDOW)


def start(places: Places, hop: Hop, of: Terms, name: str = "") -> Change:
    return taken(places, hop, Holder("", of.now + WINDOW), of, name or f"start of {hop.token}")


def begun(**ends: int) -> Places:
    return Places({name: Holder("", until) for name, until in ends.items()})


def test_a_start_has_a_name_of_its_own_and_takes_its_hop_out_of_the_line() -> None:
    change = start(Places(line=line(A)), A, by_time())
    assert change == Change(begun(**{"start of a": NOW + WINDOW}), granted=True)


def test_a_second_start_of_a_hop_counts_too_and_the_same_one_is_noted_once() -> None:
    first = start(NOBODY, A, by_time(), "x").after
    assert not start(first, A, by_time(NOW + 1), "y").granted
    assert start(first, A, by_time(NOW + 1), "x") == Change(begun(x=NOW + 1 + WINDOW), granted=True)


def test_a_start_counts_until_its_window_is_over_and_no_longer() -> None:
    over = begun(x=NOW)
    assert not start(over, B, by_time()).granted
    assert start(over, B, by_time(NOW + 1)).granted


def test_a_start_that_counts_longer_than_any_can_is_of_a_clock_that_was_fast() -> None:
    """One that counts longer than the window is of code with a longer one, and counts."""
    assert not start(begun(x=NOW + LONGEST_WINDOW + SKEW), B, by_time()).granted
    assert not settled(begun(x=NOW + LONGEST_WINDOW + SKEW + 1), by_time()).held


def test_a_start_takes_no_place_of_a_limit_of_hops_at_work_and_stays_for_code_that_counts_it() -> None:
    change = take(begun(x=NOW + LONGEST_WINDOW), A, terms())
    assert change.granted
    assert set(change.after.held) == {"x", "a"}
    assert not take(change.after, B, terms()).granted


def test_a_hop_at_work_counts_by_time_until_its_lease_is_over() -> None:
    """The limit was one of hops at work before a deployment."""
    places = Places(held(A))
    assert openings(places, by_time()) == [NOW + LEASE + SKEW + 1]
    assert not start(places, B, by_time(NOW + LEASE + SKEW)).granted
    assert start(places, B, by_time(NOW + LEASE + SKEW + 1)).granted


def test_places_by_time_open_when_their_windows_are_over() -> None:
    places = begun(x=NOW + 9, y=NOW + 5)
    assert openings(places, by_time(count=3)) == [NOW, NOW + 6, NOW + 10]
    assert openings(places, by_time(count=2)) == [NOW + 6, NOW + 10]
    assert openings(places, by_time(count=1)) == [NOW + 10], "a deployment has lowered the count"
    assert openings(Places(held(A)), terms(at_once=2)) == [NOW], "when a hop at work ends nobody knows"


def test_each_in_line_is_called_for_when_its_place_is_free() -> None:
    places = begun(x=NOW + 9, y=NOW + 5)._replace(line=line(A, B, C))
    change = called(places, by_time(count=2))
    assert {token: who.called_at for token, who in change.after.line.items()} == {"a": NOW + 6, "b": NOW + 10, "c": 0}
    assert change.calls == (A, B)
    assert called(change.after, by_time(count=2)).calls == ()


@pytest.mark.parametrize(("later", "again"), [(0, ()), (1, (A,))])
def test_who_could_come_by_far_earlier_than_it_was_called_for_is_called_once_more(
    later: int, again: tuple[Hop, ...]
) -> None:
    """Somebody before it has left the line, or was dropped."""
    places = begun(x=NOW + 9)._replace(line=line(A, called_at=NOW + 10 + GRACE + later))
    change = called(places, by_time())
    assert change.calls == again
    assert change.after.line["a"].called_at == NOW + 10 + (0 if again else GRACE)


@pytest.mark.parametrize(("early", "calls"), [(COMES_EARLY, ()), (COMES_EARLY - 1, (A,))])
def test_who_looks_before_its_call_is_not_called_again_and_whose_call_came_early_is(
    early: int, calls: tuple[Hop, ...]
) -> None:
    places = begun(x=NOW + early - 1)._replace(line=line(A, called_at=NOW + early))
    change = joined(places, A, by_time())
    assert change.calls == calls
    assert change.after == places


def test_a_call_that_lies_further_ahead_than_any_window_is_no_call() -> None:
    furthest = NOW + LONGEST_WINDOW + APART
    assert settled(Places(line=line(A, called_at=furthest)), by_time()).line
    assert not settled(Places(line=line(A, called_at=furthest + 1)), by_time()).line


def test_a_start_that_was_none_is_given_back_under_its_name() -> None:
    assert given_back(begun(x=NOW + 9), "x", "", by_time()).after == NOBODY


DRIFT: Final = 500
"""ms by which the clock of some workers is fast."""


@pytest.mark.parametrize(
    ("count", "furthest"), [(1, 4), (2, 2), pytest.param(2, 4, marks=pytest.mark.slow("7,285 states of a line"))]
)
def test_whatever_happens_never_more_start_in_a_window_than_may(count: int, furthest: int) -> None:
    """I24, in every small state. I23: who is first in line is called, for a moment that is known."""
    seen: set[object] = set()
    left: list[tuple[Places, int, tuple[int, ...], int]] = [(NOBODY, NOW, (), 0)]
    while left:
        places, now, starts, depth = left.pop()
        for passes, fast in product((0, WINDOW // 2, WINDOW - DRIFT, WINDOW + 1, WINDOW + GRACE + 2), (0, DRIFT)):
            at, of = now + passes, by_time(now + passes + fast, count)
            for change, begins in by_time_steps(places, of, depth):
                lately = tuple(then for then in starts if then > at - WINDOW + DRIFT)
                lately = (*lately, at) if begins and change.granted else lately
                assert len(lately) <= count
                first = sorted(change.after.line.values())[:count]
                assert all(of.now - GRACE <= who.called_at <= of.now + WINDOW + 1 + DRIFT for who in first)
                state = (tuple(then - at for then in lately), relative(change.after, at))
                if state not in seen and depth < furthest:
                    seen.add(state)
                    left.append((change.after, at, lately, depth + 1))
    assert len(seen) > 30


def by_time_steps(places: Places, of: Terms, number: int) -> Iterator[tuple[Change, bool]]:
    """What three hops may do next, and whether it is a start."""
    for hop in (A, B, C):
        yield start(places, hop, of, f"{hop.token}{number}"), True
        yield joined(places, hop, of), False
        yield withdrawn(places, hop, of), False


# -- every small state -----------------------------------------------------------------------------------------------

PASSES: Final = (0, GRACE + 1, LEASE + SKEW + 1)


def steps(places: Places, of: Terms) -> Iterator[Change]:
    """Whatever three hops may do next, in whatever order, each however often."""
    yield taken(places, A, Holder("another", of.now + LEASE), of)
    yield given_back(places, "a", "another", of)
    for hop in (A, B, C):
        yield take(places, hop, of)
        yield joined(places, hop, of)
        yield given_back(places, hop.token, f"owner of {hop.token}", of)
        yield withdrawn(places, hop, of)


@pytest.mark.parametrize("at_once", [1, 2])
def test_whatever_happens_no_place_is_held_twice_and_no_free_one_is_left_to_nobody(at_once: int) -> None:
    """I22: never more holders than places. I23: of a line that is not empty, so many are called as places are free."""
    seen, left = set(), [(NOBODY, NOW, 0)]
    while left:
        places, now, depth = left.pop()
        for passes in PASSES:
            of = terms(now + passes, at_once)
            for change in steps(places, of):
                after = change.after
                assert len(after.held) <= at_once
                assert all(holder.until + SKEW >= of.now for holder in after.held.values())
                others = [waiter for token, waiter in after.line.items() if token not in after.held]
                assert all(waiter.called_at for waiter in sorted(others)[: free(after, of)])
                assert all(
                    after.held[token].owner == before.owner or before.until <= of.now
                    for token, before in places.held.items()
                    if token in after.held
                ), "nobody takes the place of a living owner"
                state = relative(after, of.now)
                if state not in seen and depth < 9:
                    seen.add(state)
                    left.append((after, of.now, depth + 1))
    assert len(seen) > 30


def relative(places: Places, now: int) -> object:
    """What tells two states apart, wherever they stand in time."""
    holders = tuple(sorted((token, holder.owner, holder.until - now) for token, holder in places.held.items()))
    waiters = tuple(sorted((token, bool(who.called_at) and who.called_at - now) for token, who in places.line.items()))
    return holders, waiters

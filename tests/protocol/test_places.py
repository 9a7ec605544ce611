"""The places of a limit's key: each decision, and every small state that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from flowguard.protocol.places import (
    GRACE,
    LONGEST_LINE,
    NOBODY,
    SKEW,
    UNSEEN_FOR,
    Change,
    Holder,
    Hop,
    Places,
    Terms,
    Waiter,
    before,
    called,
    free,
    given_back,
    joined,
    lapses_in,
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


def test_a_hop_takes_its_own_place_again_under_its_new_owner() -> None:
    again = taken(Places(held(A)), A, Holder("another", NOW + 9), terms())
    assert again == Change(Places({"a": Holder("another", NOW + 9)}), granted=True)


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


def test_who_holds_a_place_joins_no_line() -> None:
    assert joined(Places(held(A)), A, terms()) == Change(Places(held(A)))


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
    change = given_back(Places(held(A), line(B, C)), A, "owner of a", terms())
    assert change == Change(Places({}, {**line(B, called_at=NOW), **line(C)}), calls=(B,))


def test_an_earlier_owner_gives_nothing_back() -> None:
    assert given_back(Places(held(A)), A, "another", terms()) == Change(Places(held(A)))
    assert given_back(Places(held(A)), B, "owner of b", terms()) == Change(Places(held(A)))


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
    assert given_back(over, B, "owner of b", terms(at_once=2)).after == NOBODY


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


def test_a_call_that_lies_ahead_is_no_call() -> None:
    assert settled(Places(line=line(A, called_at=NOW + SKEW)), terms()).line
    assert not settled(Places(line=line(A, called_at=NOW + SKEW + 1)), terms()).line


def test_a_place_lapses_with_the_first_lease_or_the_first_call() -> None:
    assert lapses_in(NOBODY, NOW) == 0
    both = Places({**held(A, until=NOW + 9), **held(B)})
    assert lapses_in(both, NOW) == 9 + SKEW
    assert lapses_in(Places(held(A), line(B, called_at=NOW - 1)), NOW) == GRACE - 1
    assert lapses_in(Places(held(A), line(B)), NOW) == LEASE + SKEW
    assert lapses_in(Places(held(A, until=NOW - SKEW - 9)), NOW) == 0


def test_the_item_is_empty_without_holders_and_line() -> None:
    assert NOBODY.is_empty
    assert not Places(held(A)).is_empty
    assert not Places(line=line(A)).is_empty


# -- every small state -----------------------------------------------------------------------------------------------

PASSES: Final = (0, GRACE + 1, LEASE + SKEW + 1)


def steps(places: Places, of: Terms) -> Iterator[Change]:
    """Whatever three hops may do next, in whatever order, each however often."""
    for hop in (A, B, C):
        yield take(places, hop, of)
        yield joined(places, hop, of)
        yield given_back(places, hop, f"owner of {hop.token}", of)
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
                first = sorted(after.line.values())[: free(after, of)]
                assert all(waiter.called_at for waiter in first)
                assert set(after.held).isdisjoint(after.line)
                state = relative(after, of.now)
                if state not in seen and depth < 9:
                    seen.add(state)
                    left.append((after, of.now, depth + 1))
    assert len(seen) > 30


def relative(places: Places, now: int) -> object:
    """What tells two states apart, wherever they stand in time."""
    holders = tuple(sorted((token, holder.until - now) for token, holder in places.held.items()))
    waiters = tuple(sorted((token, bool(who.called_at) and who.called_at - now) for token, who in places.line.items()))
    return holders, waiters

"""Places of limits (I22 to I25): histories that break them, and guards that are taken away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from flowguard.flow import AnyFlow
from flowguard.protocol import places
from flowguard.protocol.places import Holder, KeyPause, Places, Waiter
from flowguard.sim.engines import in_memory
from flowguard.testing import explore
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.record.history import History
from flowguard.worker.hop_places import HopPlaces
from tests.testing.explorer import limited
from tests.testing.explorer.histories import history_of

KEYS: Final = "limit#orders#charge#customer"


@pytest.fixture
def found() -> History:
    return history_of(limited.Orders, limited.ORDERS, "none", tables=limited.TABLES)


def rules(history: History) -> set[str]:
    return {problem.rule for problem in broken(history, [limited.Orders], ())}


def with_places(history: History, **changes: Any) -> History:
    last = history.places[0]
    history.places.append(replace(last, places=last.places._replace(**changes)))
    return history


def test_each_write_of_a_key_is_seen(found: History) -> None:
    assert [bool(version.places.held) for version in found.places] == [True, False, True, False]
    assert rules(found) == set()


def test_two_at_one_place_are_found(found: History) -> None:
    until = found.places[0].at + 1_000
    assert rules(with_places(found, held={"a": Holder("1", until), "b": Holder("2", until)})) == {"I22"}


def test_a_lease_that_is_over_holds_no_place(found: History) -> None:
    over = found.places[0].at - places.SKEW - 1
    held = {"a": Holder("1", over), "b": Holder("2", over + 1)}
    assert rules(with_places(found, held=held)) == set()


def test_each_handler_is_seen_under_its_key_until_its_commit(found: History) -> None:
    first, second = found.limited
    assert {key.rpartition("#")[0] for handler in found.limited for key in handler.keys} == {KEYS}
    assert first.keys == second.keys
    assert [handler.hop[0] for handler in found.limited] == ["o1", "o2"]
    assert (first.raised_after, second.calls > first.calls) == (None, True)


def commits_of(history: History, worker: int) -> list[int]:
    made = [call for call in history.calls if call.worker == worker and call.site.function == "commit"]
    return [call.number for call in made]


@pytest.mark.parametrize(("before", "wrong"), [(0, set()), (1, {"I22"})])
def test_two_hops_at_work_at_once_are_found(found: History, before: int, wrong: set[str]) -> None:
    """The second handler is called once the first hop is committed, or just before."""
    first, second = found.limited
    [commit] = commits_of(found, first.worker)
    second.calls = commit - before
    assert rules(found) == wrong


def test_a_copy_of_a_hop_beside_it_counts_as_the_same(found: History) -> None:
    first, second = found.limited
    second.calls, second.hop = commits_of(found, first.worker)[0] - 1, first.hop
    assert rules(found) == set()


def test_hops_of_another_key_do_not_count(found: History) -> None:
    first, second = found.limited
    second.calls, second.keys = commits_of(found, first.worker)[0] - 1, (f"{KEYS}#another",)
    assert rules(found) == set()


def test_a_handler_that_has_raised_is_not_at_work_any_more(found: History) -> None:
    first, second = found.limited
    second.calls = first.raised_after = commits_of(found, first.worker)[0] - 1
    assert rules(found) == set()


@pytest.mark.parametrize(("late", "wrong"), [(0, {"I22"}), (1, set())])
def test_a_worker_whose_lease_is_over_is_not_at_work_for_the_limit(found: History, late: int, wrong: set[str]) -> None:
    first, second = found.limited
    second.calls, second.at = commits_of(found, first.worker)[0] - 1, first.until + late
    assert first.until == found.start + 30_000
    assert rules(found) == wrong


@pytest.mark.parametrize(("before", "wrong"), [(0, set()), (1, {"I22"})])
def test_a_worker_that_died_is_at_work_until_its_last_call(found: History, before: int, wrong: set[str]) -> None:
    first, second = found.limited
    made = [call for call in found.calls[first.calls :] if call.worker == first.worker]
    for call in made:
        call.site = replace(call.site, function="change places")
    second.calls = made[-1].number - before
    assert rules(found) & {"I22"} == wrong


def test_a_worker_that_made_no_call_since_is_not_at_work(found: History) -> None:
    first, second = found.limited
    for call in found.calls[first.calls :]:
        call.worker = second.worker
    second.calls = first.calls
    assert "I22" not in rules(found)


@pytest.mark.parametrize(("called_at", "wrong"), [(0, {"I23"}), (1, set())])
def test_a_free_place_that_is_left_to_nobody_is_found(found: History, called_at: int, wrong: set[str]) -> None:
    line = {"b": Waiter(1, "o1", 1, called_at), "a": Waiter(2, "o2", 1)}
    assert rules(with_places(found, held={}, line=line)) == wrong


def test_who_waits_for_a_place_that_is_held_is_not_called(found: History) -> None:
    assert rules(with_places(found, line={"b": Waiter(1, "o1", 1)})) == set()


# -- by time


@pytest.fixture
def by_time() -> History:
    return history_of(limited.Gateway, limited.ORDERS, "none", tables=limited.TABLES)


def timed_rules(history: History) -> set[str]:
    return {problem.rule for problem in broken(history, [limited.Gateway], ())}


def test_the_second_handler_begins_when_the_first_start_counts_no_more(by_time: History) -> None:
    first, second = by_time.limited
    assert 60_000 <= second.at - first.at < 70_000
    assert timed_rules(by_time) == set()


@pytest.mark.parametrize(("apart", "wrong"), [(59_999, {"I24"}), (60_000, set())])
def test_two_that_begin_in_less_than_the_time_are_found(by_time: History, apart: int, wrong: set[str]) -> None:
    first, second = by_time.limited
    second.at = first.at + apart
    assert timed_rules(by_time) == wrong


def test_an_attempt_of_a_hop_that_begins_again_counts_again(by_time: History) -> None:
    first, second = by_time.limited
    second.at, second.hop = first.at + 1, first.hop
    assert timed_rules(by_time) == {"I24"}


def test_those_of_another_key_do_not_count_by_time(by_time: History) -> None:
    first, second = by_time.limited
    second.at, second.keys = first.at + 1, ("limit#gateway#ask#customer#another",)
    assert timed_rules(by_time) == set()


@pytest.mark.parametrize(("until", "wrong"), [(0, {"I22"}), (-1, set())])
def test_more_starts_that_count_than_may_are_found(by_time: History, until: int, wrong: set[str]) -> None:
    """A start counts to its end, and no 5 s more as a lease does."""
    last = by_time.places[0]
    held = {"a": Holder("", last.at + until), "b": Holder("", last.at)}
    by_time.places.append(replace(last, places=Places(held)))
    assert timed_rules(by_time) == wrong


def test_who_is_first_in_the_line_of_a_time_is_called(by_time: History) -> None:
    last = by_time.places[0]
    by_time.places.append(replace(last, places=Places({}, {"b": Waiter(1, "o1", 1)})))
    assert timed_rules(by_time) == {"I23"}


@pytest.mark.slow("explores a flow whose runs meet")
def test_whatever_fails_once_the_limit_by_time_is_kept() -> None:
    report = explored(limited.Gateway)
    assert report.violations == (), str(report)


@pytest.mark.slow("explores a flow whose runs meet")
def test_a_start_that_is_given_back_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = HopPlaces.take

    def taken_and_given_back(self: HopPlaces, payload: Any) -> None:
        [(limit, place)] = [(limit, limit.place_of(payload)) for limit in self._limits]
        mine = self._mine(limit, self._key(str(place)), self._services.clock.now())
        take(self, payload)
        self._taken = [mine]
        self.end()

    monkeypatch.setattr(HopPlaces, "take", taken_and_given_back)
    assert "I24" in missed(limited.Gateway)


@pytest.mark.slow("explores a flow whose runs meet")
def test_a_start_that_counts_from_long_before_its_handler_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker is held up between the two, and others begin when the start counts no more."""
    monkeypatch.setattr(HopPlaces, "_late", lambda self: None)
    assert "I24" in missed(limited.Gateway)


# -- keys that pause themselves

OWN: Final = KeyPause(1, "1 GatewayAway", 60_000)


@pytest.fixture
def itself() -> History:
    return history_of(limited.Payments, limited.ORDERS, "none", tables=limited.TABLES)


def paused_rules(history: History) -> set[str]:
    return {problem.rule for problem in broken(history, [limited.Payments], ())}


def test_a_key_that_pauses_itself_is_tried_and_goes_on(itself: History) -> None:
    pauses = [version.places.pause for version in itself.places]
    assert [bool(pause) for pause in pauses] == [False, True, True, True, True, False, False, False]
    trial, following = itself.limited[1:]
    assert trial.at - itself.limited[0].at >= 5_000
    assert following.at >= trial.at
    assert paused_rules(itself) == set()


@pytest.mark.parametrize(
    ("pause", "held", "wrong"),
    [
        (OWN, {}, set()),
        (OWN._replace(trial="b"), {}, set()),
        (OWN._replace(trial="a"), {"a": Holder("first", -places.SKEW)}, set()),
        (OWN._replace(trial="b"), {"b": Holder("first", -places.SKEW - 1)}, set()),
        (OWN._replace(trial="b"), {"b": Holder("first", -places.SKEW)}, {"I25"}),
        (KeyPause(1, "by hand"), {}, {"I25"}),
        (OWN._replace(until=10**15), {}, {"I25"}),
    ],
)
def test_a_place_that_is_given_while_the_key_is_paused_is_found(
    itself: History, pause: KeyPause, held: Any, wrong: set[str]
) -> None:
    """``held`` ends so many ms after the write that gives a place."""
    last = itself.places[-1]
    itself.places.clear()
    before = {name: holder._replace(until=last.at + holder.until) for name, holder in held.items()}
    mine = Holder("second", last.at + 30_000)
    after = Places({**before, "a": mine}, pause=pause._replace(trial="a"))
    itself.places += [replace(last, places=Places(before, pause=pause)), replace(last, places=after)]
    assert paused_rules(itself) == wrong


@pytest.mark.parametrize("pause", [None, OWN])
def test_who_tries_is_noted_or_found(itself: History, pause: KeyPause | None) -> None:
    """The pause stays as it is, but for the name of the trial."""
    last, held = itself.places[-1], {"a": Holder("second", itself.places[-1].at + 30_000)}
    itself.places += [replace(last, places=Places(pause=OWN)), replace(last, places=Places(held, pause=pause))]
    assert paused_rules(itself) == {"I25"}


@pytest.mark.parametrize(
    ("pause", "called_at", "wrong"),
    [(OWN, 0, {"I23"}), (OWN, 1, set()), (OWN._replace(trial="a"), 0, set()), (KeyPause(1, "by hand"), 0, set())],
)
def test_who_is_first_in_the_line_of_a_key_that_has_paused_itself_is_called(
    itself: History, pause: KeyPause, called_at: int, wrong: set[str]
) -> None:
    last = itself.places[-1]
    held = {"a": Holder("first", last.at)} if pause.trial else {}
    line = {"b": Waiter(1, "o1", 1, called_at), "c": Waiter(2, "o2", 1)}
    itself.places.append(replace(last, places=Places(held, line, pause)))
    assert paused_rules(itself) == wrong


@pytest.mark.slow("explores a flow whose runs meet")
def test_whatever_fails_once_a_key_pauses_itself_and_each_run_ends() -> None:
    report = explored(limited.Payments)
    assert report.violations == (), str(report)


@pytest.mark.slow("explores a flow whose runs meet")
@pytest.mark.parametrize(
    ("guard", "instead"),
    [
        ("trials", lambda held: 1),
        ("tried_at", lambda pause, now: 0),
    ],
)
def test_a_guard_of_a_key_that_pauses_itself_is_missed(
    guard: str, instead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, guard, instead)
    assert "I25" in missed(limited.Payments)


def explored(flow: AnyFlow = limited.Orders, **options: Any) -> Any:
    return explore(flow, limited.ORDERS, tables=limited.TABLES, engine=in_memory, **options)


def missed(flow: AnyFlow = limited.Orders) -> set[str]:
    """Return the rules that are broken where a guard is gone. What is refused for good takes long, and is left out."""
    return {violation.rule for violation in explored(flow, for_good=False).violations}


@pytest.mark.slow("explores a flow whose runs meet")
def test_whatever_fails_once_the_limit_is_kept() -> None:
    report = explored()
    assert report.violations == (), str(report)


@pytest.mark.slow("explores a flow whose runs meet")
def test_a_place_that_is_given_back_before_the_commit_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No item of a key shows it: two hops are at work, one after the other has its place."""
    take = HopPlaces.take

    def taken_and_given_back(self: HopPlaces, payload: Any) -> None:
        take(self, payload)
        self._give_back()

    monkeypatch.setattr(HopPlaces, "take", taken_and_given_back)
    assert "I22" in missed()


@pytest.mark.slow("explores a flow whose runs meet")
@pytest.mark.parametrize(
    ("guard", "instead", "rule"),
    [
        ("free", lambda held, terms: 1, "I22"),
        ("called", lambda held, terms: places.Change(held), "I23"),
    ],
)
def test_a_guard_that_is_taken_away_is_missed(
    guard: str, instead: Any, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, guard, instead)
    assert rule in missed()


# -- shards


@pytest.fixture
def packed() -> History:
    return history_of(limited.Packed, limited.OF_ONE_SHARD, "none", tables=limited.TABLES)


def test_hops_of_one_shard_have_the_places_of_that_alone(packed: History) -> None:
    assert {version.key.partition("~")[2] for version in packed.places} == {"1"}
    assert {key.partition("~")[2] for handler in packed.limited for key in handler.keys} == {"1"}
    assert packed_rules(packed) == set()


def packed_rules(history: History) -> set[str]:
    return {problem.rule for problem in broken(history, [limited.Packed], ())}


@pytest.mark.parametrize(("shard", "wrong"), [("", set()), ("~1", {"I22"})])
def test_each_shard_has_its_own_number_of_places(packed: History, shard: str, wrong: set[str]) -> None:
    last = packed.places[0]
    until, key = last.at + 1_000, last.key.partition("~")[0] + shard
    held = {"a": Holder("1", until), "b": Holder("2", until)}
    packed.places.append(replace(last, key=key, places=Places(held)))
    assert packed_rules(packed) == wrong


def test_two_at_work_in_a_shard_with_one_place_are_found(packed: History) -> None:
    first, second = packed.limited
    second.calls = commits_of(packed, first.worker)[0] - 1
    assert packed_rules(packed) == {"I22"}


@pytest.mark.parametrize(("apart", "wrong"), [(59_999, {"I24"}), (60_000, set())])
def test_two_that_begin_in_a_shard_with_one_start_are_found(apart: int, wrong: set[str]) -> None:
    history = history_of(limited.Told, limited.OF_ONE_SHARD, "none", tables=limited.TABLES)
    first, second = history.limited
    second.at = first.at + apart
    assert {problem.rule for problem in broken(history, [limited.Told], ())} == wrong


@pytest.mark.slow("explores a flow whose runs meet")
def test_whatever_fails_once_the_limit_of_a_shard_is_kept() -> None:
    report = explore(limited.Packed, limited.OF_ONE_SHARD, tables=limited.TABLES, engine=in_memory)
    assert report.violations == (), str(report)


def test_the_places_are_those_of_the_key(found: History) -> None:
    assert {type(version.places) for version in found.places} == {Places}
    assert {version.key.rpartition("#")[0] for version in found.places} == {KEYS}

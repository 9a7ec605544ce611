"""Places of limits (I22, I23): histories that break them, and guards that are taken away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowguard.protocol import places
from flowguard.protocol.places import Holder, Places, Waiter
from flowguard.sim.engines import in_memory
from flowguard.testing import explore
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.record.history import History
from tests.testing.explorer import limited
from tests.testing.explorer.histories import history_of


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


@pytest.mark.parametrize(("called_at", "wrong"), [(0, {"I23"}), (1, set())])
def test_a_free_place_that_is_left_to_nobody_is_found(found: History, called_at: int, wrong: set[str]) -> None:
    line = {"b": Waiter(1, "o1", 1, called_at), "a": Waiter(2, "o2", 1)}
    assert rules(with_places(found, held={}, line=line)) == wrong


def test_who_waits_for_a_place_that_is_held_is_not_called(found: History) -> None:
    assert rules(with_places(found, line={"b": Waiter(1, "o1", 1)})) == set()


def explored(**options: Any) -> Any:
    return explore(limited.Orders, limited.ORDERS, tables=limited.TABLES, engine=in_memory, **options)


@pytest.mark.slow("explores a flow whose runs meet")
def test_whatever_fails_once_the_limit_is_kept() -> None:
    report = explored()
    assert report.violations == (), str(report)


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
    assert rule in {violation.rule for violation in explored().violations}


def test_the_places_are_those_of_the_key(found: History) -> None:
    assert {type(version.places) for version in found.places} == {Places}
    assert {version.key.rpartition("#")[0] for version in found.places} == {"limit#orders#charge#customer"}

"""Scenarios and mutants brought together: what the command and the tests ask for."""

from __future__ import annotations

from collections.abc import Iterable

from tests.proofs.model.actions import Actions, Environment
from tests.proofs.model.mutants import Mutant
from tests.proofs.model.retention import ABOUT, NAME, Retention
from tests.proofs.model.scenarios import SCENARIOS, Scenario
from tests.proofs.model.search import Found, search

BY_NAME: dict[str, Scenario | None] = {**{scenario.name: scenario for scenario in SCENARIOS}, NAME: None}
"""None is the world of days, which has no queue."""


def prove(name: str, environment: Environment | None = None) -> Found:
    """One scenario, searched to its end or its first fault."""
    scenario = BY_NAME[name]
    if scenario is None:
        days = Retention()
        return search(days.start(), days.steps, days.fault_of)
    actions = Actions(scenario, environment or Environment())
    return search(actions.start(), actions.steps, actions.fault_of)


def catch(mutant: Mutant, names: Iterable[str]) -> tuple[str, Found] | None:
    """The first of the scenarios that finds the mutant, with what it found."""
    with mutant.at_work() as environment:
        for name in names:
            if (found := prove(name, environment)).fault:
                return name, found
    return None


def about(name: str) -> str:
    scenario = BY_NAME[name]
    return ABOUT if scenario is None else scenario.about


def quick_names() -> list[str]:
    """What mutants are tried on: all but the long ones."""
    return [name for name, scenario in BY_NAME.items() if scenario is None or not scenario.is_long]

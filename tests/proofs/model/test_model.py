"""The protocol in small worlds: no fault as it is, and a fault for each part that is taken away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flowguard import flow
from flowguard.errors import DefinitionError
from tests.proofs.model.__main__ import main
from tests.proofs.model.actions import Actions, Environment
from tests.proofs.model.mutants import MUTANTS, Mutant
from tests.proofs.model.proof import BY_NAME, catch, prove, quick_names
from tests.proofs.model.search import BoundReached, search

pytestmark = pytest.mark.proof("every order of small worlds")

HARMFUL = [mutant for mutant in MUTANTS if not mutant.harmless]
HARMLESS = [mutant for mutant in MUTANTS if mutant.harmless]
AT_HAND = ("calm", "used-up", "lost", "chain", "wait-party")
"""Where harmless mutants are looked at here; the command tries them on more."""


LARGE = frozenset(
    {"fifo-ignore", "forged-fifo", "killed-later", "repeated-fifo", "undo-newer", "wait-any", "wait-mixed"}
)
"""Worlds of many orders, each a mixture of kinds that smaller worlds show alone."""

LATE = frozenset({"early-lost", "early-copy"})
"""Mutants that are found after ten seconds; the world in which they are is searched whole without them."""

CATCHING = {mutant.caught_by for mutant in HARMFUL}
"""Each of them shows what a mutant breaks, so it has to be shown whole without one."""


def kind(world: str) -> str:
    return world.partition("-")[0]


def of_each_kind() -> frozenset[str]:
    """The worlds in which a mutant is caught, and the first of each kind that has none of these."""
    first = {kind(name): name for name in reversed(quick_names())}
    caught = {kind(name) for name in CATCHING - LARGE}
    return frozenset(CATCHING - LARGE | {name for its, name in first.items() if its not in caught})


def as_marked(world: str) -> Any:
    why = "a large world" if world in LARGE else "a world that mixes what others have, in which no mutant is caught"
    return world if world in of_each_kind() else pytest.param(world, marks=pytest.mark.long(why))


@pytest.mark.parametrize("name", [as_marked(name) for name in quick_names()])
def test_no_way_through_a_small_world_breaks_the_protocol(name: str) -> None:
    found = prove(name)

    assert not found.fault, "\n".join([found.fault, *found.way])
    assert found.states > 10  # a world in which nothing happens would prove nothing


def as_mutant(mutant: Mutant) -> Any:
    marks = [pytest.mark.long("searches thousands of states before it is found")] if mutant.name in LATE else []
    return pytest.param(mutant, id=mutant.name, marks=marks)


@pytest.mark.parametrize("mutant", [as_mutant(mutant) for mutant in HARMFUL])
def test_what_is_broken_is_found(mutant: Mutant) -> None:
    caught = catch(mutant, [mutant.caught_by])

    assert caught, f"{mutant.caught_by} does not find it: {mutant.about}"
    assert caught[1].way


@pytest.mark.long("searches worlds for the harm of what is called harmless, which costs nobody anything")
@pytest.mark.parametrize("mutant", HARMLESS, ids=lambda mutant: mutant.name)
def test_what_is_called_harmless_is_not_found(mutant: Mutant) -> None:
    caught = catch(mutant, AT_HAND)

    assert caught is None, f"{mutant.name} does harm: {caught}"


def test_ci_searches_a_world_of_each_kind() -> None:
    worlds = of_each_kind()
    assert {kind(name) for name in quick_names()} == {kind(name) for name in worlds}
    assert len(quick_names()) / 3 < len(worlds) < len(quick_names())


def test_a_mutant_names_a_scenario_or_its_reason() -> None:
    for mutant in MUTANTS:
        assert bool(mutant.harmless) != (mutant.caught_by in BY_NAME), mutant.name


def test_without_a_lease_a_request_that_attaches_may_be_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a flow whose first request keeps the object refuses such stages."""
    scenario = BY_NAME["attach-hops"]
    assert scenario is not None
    with pytest.raises(DefinitionError, match="which only a claim shows"):
        Actions(scenario._replace(lease=False), Environment())
    monkeypatch.setattr(flow, "_lease_problems", lambda *_: [])
    actions = Actions(scenario._replace(lease=False), Environment())

    found = search(actions.start(), actions.steps, actions.fault_of)

    assert found.fault == "run-2 is told 0 ends"


def _counting(state: int) -> Iterator[tuple[str, int]]:
    """A fork: by ones up to ten, or at once."""
    if state < 10:
        yield "one more", state + 1
        yield "all at once", 10


def test_the_way_to_a_fault_is_a_shortest_one() -> None:
    found = search(0, _counting, lambda state, moved: "" if moved else f"{state} is reached")

    assert (found.fault, found.way) == ("10 is reached", ("all at once",))


def test_a_search_that_cannot_end_says_so() -> None:
    with pytest.raises(BoundReached):
        search(0, lambda state: iter([("more", state + 1)]), lambda state, moved: "", bound=100)


def test_the_command_tells_what_was_searched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calm", "--json"]) == 0

    [line] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["name"], line["good"], line["found"]["fault"]) == ("calm", True, "")


def test_the_command_fails_for_a_mutant_that_gets_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calm", "--mutants"]) == 1  # one small world finds only some of them

    out = capsys.readouterr().out
    assert "calm: a dead letter was moved back, and its run is not opened" in out
    assert "GOT AWAY" in out


def test_the_command_knows_its_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["no-such-world"])

    assert "there are calm, used-up" in capsys.readouterr().err

"""``python -m tests.proofs.model [scenario …] [--mutants] [--json]``: exits 1 for a fault or a mutant left."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tests.proofs.model.mutants import MUTANTS
from tests.proofs.model.proof import BY_NAME, about, catch, prove, quick_names
from tests.proofs.model.search import Found


@dataclass(frozen=True)
class Line:
    """One scenario, or one mutant and the scenario that caught it. ``is_good`` is what ought to be."""

    name: str
    about: str
    is_good: bool
    found: Found | None
    scenario: str = ""

    def as_json(self) -> dict[str, Any]:
        found = self.found._asdict() if self.found is not None else None
        return {"name": self.name, "about": self.about, "good": self.is_good, "scenario": self.scenario, "found": found}


def scenario_lines(names: Sequence[str]) -> Iterator[Line]:
    for name in names:
        found = prove(name)
        yield Line(name, about(name), not found.fault, found)


def mutant_lines(names: Sequence[str]) -> Iterator[Line]:
    for mutant in MUTANTS:
        ordered = sorted(names, key=mutant.caught_by.__ne__)  # the one that is to catch it first
        caught = catch(mutant, ordered)
        good = bool(caught) != bool(mutant.harmless)
        yield Line(mutant.name, mutant.about, good, caught and caught[1], caught[0] if caught else mutant.harmless)


def print_scenario(line: Line) -> None:
    found = line.found
    assert found is not None
    said = found.fault.upper() if found.fault else "ok"
    click.echo(f"{line.name:14} {found.states:9,} states {found.seconds:6.1f} s  {said}   {line.about}")
    for step in found.way:
        click.echo(f"    {step}")


def print_mutant(line: Line) -> None:
    if line.found is None:
        verdict = f"harmless: {line.scenario}" if line.is_good else "GOT AWAY"
    else:
        verdict = f"{line.scenario}: {line.found.fault}" + ("" if line.is_good else "   CALLED HARMLESS")
    click.echo(f"{line.name:16} {line.about}\n{'':16}   {verdict}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.model", description="Searches small worlds to their end."
    )
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=f"of {', '.join(BY_NAME)}; all by default")
    parser.add_argument("--mutants", action="store_true", help="break one thing at a time, and say what finds it")
    parser.add_argument("--json", action="store_true", help="print lines as JSON")
    given = parser.parse_args(arguments)
    if strangers := [name for name in given.scenarios if name not in BY_NAME]:
        parser.error(f"no scenario {', '.join(strangers)}; there are {', '.join(BY_NAME)}")
    names = given.scenarios or (quick_names() if given.mutants else list(BY_NAME))
    lines, show = (mutant_lines(names), print_mutant) if given.mutants else (scenario_lines(names), print_scenario)
    all_good = True
    for line in lines:
        all_good &= line.is_good
        if given.json:
            click.echo(json.dumps(line.as_json()))
        else:
            show(line)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())

"""``flowguard explore``: a flow under every fault there is, on an AWS inside the process."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, Final

import click

from flowguard.cli.recordings import Unreadable, read_files
from flowguard.errors import DefinitionError, EnvelopeError, SettingsError
from flowguard.flow import AnyFlow
from flowguard.local.loading import NoSuchFlow, load_flows
from flowguard.testing.explore import BOUND, WALKS, Invariant, NoSuchSchedule, Violation
from flowguard.testing.explore import explore as explored
from flowguard.testing.explore import replay as replayed
from flowguard.testing.explore.invariants import is_invariant
from flowguard.testing.explore.report import show, violation_as_json

FOUND: Final = 1
UNUSABLE: Final = 2


@click.command()
@click.argument("flows", metavar="MODULE:FLOW...", nargs=-1, required=True)
@click.option("--messages", "files", metavar="FILE", multiple=True, required=True, help="What starts it; repeat it.")
@click.option(
    "--table", "tables", metavar="NAME=KEY", multiple=True, help="A table of yours and its hash key; repeat it."
)
@click.option("--free", metavar="TABLE.ATTRIBUTE", multiple=True, help="May differ at the end; repeat it.")
@click.option(
    "--bound", metavar="N", type=click.IntRange(0), default=BOUND, help=f"Pairs of faults; {BOUND} by default."
)
@click.option("--walks", metavar="N", type=click.IntRange(0), default=WALKS, help=f"Random walks; {WALKS} by default.")
@click.option(
    "--seed", metavar="N", type=int, default=0, help="Of ids, randomness and walks. Equal seeds, equal output."
)
@click.option("--schedule", metavar="ID", help="Run exactly this schedule, and show its time line.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def explore(  # noqa: PLR0913 - the options of a command
    flows: tuple[str, ...],
    files: tuple[str, ...],
    tables: tuple[str, ...],
    free: tuple[str, ...],
    *,
    bound: int,
    walks: int,
    seed: int,
    schedule: str | None,
    as_json: bool,
) -> None:
    """Run a flow under faults at every AWS call it makes, and name the line of yours that does not survive one.

    A FILE is what 'flowguard normalize' takes. The flow's module says in TABLES which tables it writes to, in FREE what
    may differ from the undisturbed end; its functions under @invariant are checked after each schedule.

    The exit code is 0 where nothing was found, 1 where something was, 2 where something cannot be used.
    """
    try:
        found = load_flows(flows)
        about: dict[str, Any] = {
            "tables": dict(_pair(one, "=") for one in tables),
            "invariants": _invariants(found),
            "free": _free(found, free),
            "seed": seed,
        }
        messages = _messages(files)
        if schedule is not None:
            sys.exit(_one(found, messages, schedule, about, as_json=as_json))
        report = explored(found, messages, bound=bound, walks=walks, **about)
    except (NoSuchFlow, NoSuchSchedule, DefinitionError, SettingsError, EnvelopeError, TypeError) as error:
        click.echo(str(error), err=True)
        sys.exit(UNUSABLE)
    click.echo(json.dumps(report.as_json(), ensure_ascii=False) if as_json else str(report))
    sys.exit(0 if report.ok else FOUND)


def _one(flows: list[AnyFlow], messages: list[Any], schedule: str, about: dict[str, Any], *, as_json: bool) -> int:
    timeline, violations = replayed(flows, messages, schedule, **about)
    if as_json:
        found = [violation_as_json(violation) for violation in violations]
        click.echo(json.dumps({"schedule": schedule, "timeline": timeline, "violations": found}, ensure_ascii=False))
    else:
        click.echo("\n".join([*timeline, *_shown(violations)]))
    return FOUND if violations else 0


def _shown(violations: Iterable[Violation]) -> list[str]:
    return [line for violation in violations for line in ("", *show(violation))] or ["", "0 violations"]


def _messages(files: Iterable[str]) -> list[Any]:
    found = []
    for read in read_files(files):
        if isinstance(read, Unreadable):
            raise SettingsError("--messages", str(read))
        found.append(read[1])
    return found


def _invariants(flows: Iterable[AnyFlow]) -> list[Invariant]:
    """Those of the modules of the flows."""
    modules = dict.fromkeys(sys.modules[flow.__module__] for flow in flows)
    return [one for module in modules for one in vars(module).values() if is_invariant(one)]


def _free(flows: Iterable[AnyFlow], given: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for flow in flows:
        for table, names in getattr(sys.modules[flow.__module__], "FREE", {}).items():
            found.setdefault(table, []).extend(names)
    for one in given:
        table, name = _pair(one, ".")
        found.setdefault(table, []).append(name)
    return found


def _pair(text: str, mark: str) -> tuple[str, str]:
    name, found, value = text.partition(mark)
    if not (name and found and value):
        raise SettingsError(text, f"write NAME{mark}VALUE")
    return name, value

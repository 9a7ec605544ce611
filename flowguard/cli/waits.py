"""The command ``flowguard waits``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.cli.connection import (
    check_id,
    clients_of,
    command_time,
    connected,
    connection_errors,
    flow_named,
    settings_of,
)
from flowguard.cli.console import console, line
from flowguard.cli.letter_rows import duration
from flowguard.cli.printing import complain, say_json
from flowguard.cli.run_facts import stored_value
from flowguard.cli.run_lines import show_names
from flowguard.cli.wait_facts import wait_facts
from flowguard.wire.notification import to_json

MISSING: Final = 1  # the exit code where there is no such run
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@click.command()
@click.argument("flow")
@click.argument("object_id", metavar="OBJECT")
@connected
@click.option("--payload", is_flag=True, help="Show the answers too.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def waits(flow: str, object_id: str, *, payload: bool, as_json: bool, **options: Any) -> None:
    """Show what the run of OBJECT waits for, until when, and which answers it has.

    FLOW is the name of a flow, or its class as MODULE:NAME. Nothing is changed. Answers are not shown unless asked for,
    and tokens never: nobody can make one of what is shown.

    The exit code is 0 where there is a run, whether it waits or not, 1 where there is none, 2 where the command cannot
    be run.
    """
    check_id("OBJECT", object_id)
    name, _ = flow_named(flow)
    settings = settings_of(options)
    with connection_errors(settings.table):
        runs = RunReader.of(settings, clients_of(options))
        seen = runs.read(name, object_id)
        if seen is None:
            complain(f"{name} of {object_id}: there is no run; is it the right table and region?")
            sys.exit(MISSING)
        facts = _facts(seen, runs, payload=payload)
    if as_json:
        say_json(to_json(facts))
    else:
        _show(facts, command_time().clock.now(), payload=payload)


def _facts(seen: SeenRun, runs: RunReader, *, payload: bool) -> dict[str, Any]:
    """Return the facts to show, as JSON values. ``wait`` is None for a run that does not wait."""
    item = seen.item
    return {
        "flow": seen.flow,
        "object_id": seen.object_id,
        "request_id": item.request_id,
        "status": item.status.value,
        "stage": item.stage,
        "hop": item.hop,
        "wait": wait_facts(seen, (lambda name: stored_value(runs, seen.answers[name])) if payload else None),
    }


# -- for people -------------------------------------------------------------------------------------------------------


def _show(facts: Mapping[str, Any], now: int, *, payload: bool) -> None:
    out, wait = console(), facts["wait"]
    where = f"{facts['flow']} of {facts['object_id']}: {facts['status']} at {facts['stage']}, hop {facts['hop']}"
    out.print(line(f"{where}, request {facts['request_id']}"), soft_wrap=True)
    if wait is None:
        out.print(line("it waits for nothing"))
        return
    for said in _said(wait, now):
        out.print(line(said), soft_wrap=True)
    show_names(wait, payload=payload)


def _said(wait: Mapping[str, Any], now: int) -> Iterator[str]:
    moment = (_EPOCH + timedelta(milliseconds=wait["deadline"])).strftime("%Y-%m-%d %H:%M:%S UTC")
    left = (wait["deadline"] - now) // 1000
    when = f"in {duration(left)}" if left >= 0 else f"over for {duration(-left)}"
    if wait["ended"] is not None:
        yield f"the wait is over ({wait['ended']}); the run goes on at {wait['goes_on_at']}"
        return
    yield f"until {moment} ({when}), then at {wait['on_timeout']}"
    yield f"goes on at {wait['goes_on_at']} with {wait['missing']} more of these answers"

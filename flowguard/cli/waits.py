"""The command ``flowguard waits``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from flowguard.aws.run_pages import Wanted
from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.cli.connection import (
    check_id,
    clients_of,
    command_time,
    connected,
    connection_errors,
    flow_named,
    reading_codecs,
    settings_of,
)
from flowguard.cli.console import cell, console, line
from flowguard.cli.listing import Column, show_table
from flowguard.cli.printing import complain, say, say_json
from flowguard.cli.run_lines import show_names
from flowguard.cli.table_reading import TableReading, bounded_list, reading_errors
from flowguard.flow import AnyFlow
from flowguard.operate.moments import duration, moment, remaining
from flowguard.operate.no_run import no_run
from flowguard.operate.run_facts import answer_value, place_facts
from flowguard.operate.run_rows import row_facts, urgency
from flowguard.operate.wait_facts import missing_names, wait_end, wait_facts
from flowguard.protocol.run import Status
from flowguard.wire.notification import to_json

_LISTED: Final = (
    *map(Column, ("flow", "object", "stage", "deadline")),
    Column("without an answer", folds=True),
)
MISSING: Final = 1  # the exit code where there is no such run
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@click.command()
@click.argument("flow", required=False)
@click.argument("object_id", metavar="[OBJECT]", required=False)
@connected
@click.option("--payload", is_flag=True, help="Show the answers of one run too.")
@bounded_list
def waits(flow: str | None, object_id: str | None, *, payload: bool, limit: int, as_json: bool, **options: Any) -> None:
    """Show what the run of OBJECT waits for, until when, and which answers it has.

    FLOW is the name of a flow, or its class as MODULE:NAME. Without OBJECT, the waits of all its runs are listed, and
    without FLOW those of all flows: those past their deadline first. That reads the table by Scan, which pays for each
    item; --read and --limit bound it. Nothing is changed. Answers are not shown unless asked for, and tokens never:
    nobody can make one of what is shown.

    The exit code is 0 where there is a run, whether it waits or not, or the table was read; 1 where there is no such
    run, 2 where the command cannot be run.
    """
    name, loaded = (None, None) if flow is None else flow_named(flow)
    now = command_time().clock.now()
    if name is None or object_id is None:
        if payload:
            raise click.UsageError("--payload is for one run; name its FLOW and OBJECT")
        _list(name, limit, now, options, as_json=as_json)
    else:
        check_id("OBJECT", object_id)
        _show_one(name, loaded, object_id, now, options, as_json=as_json, payload=payload)


def _show_one(
    name: str,
    flow: AnyFlow | None,
    object_id: str,
    now: int,
    options: Mapping[str, Any],
    *,
    as_json: bool,
    payload: bool,
) -> None:
    settings = settings_of(options)
    with connection_errors(settings.run_table):
        runs = RunReader.of(settings, clients_of(options), reading_codecs(options))
        seen = runs.read(name, object_id)
        if seen is None:
            complain(f"{name} of {object_id}: {no_run(flow)}")
            sys.exit(MISSING)
        facts = _facts(seen, runs, payload=payload)
    if as_json:
        say_json(to_json(facts))
    else:
        _show(facts, 0 if seen.item.wait is None else seen.item.wait.deadline, now, payload=payload)


def _list(flow: str | None, limit: int, now: int, options: Mapping[str, Any], *, as_json: bool) -> None:
    """List the waits that go on, those past their deadline first."""
    with reading_errors(options):
        reading = TableReading(options)
        wanted = Wanted(flow, Status.WAITING)
        chosen = reading.chosen(wanted, _goes_on, limit)
        chosen.sort(key=lambda seen: urgency(seen.item, now))
        facts = [row_facts(seen, reading.runs, now) | {"names": missing_names(seen)} for seen in chosen]
    if as_json:
        for fact in facts:
            say_json(to_json(fact))
        return
    if facts:
        rows = [
            [fact["flow"], fact["object_id"], fact["stage"], _until(seen, now), ", ".join(fact["names"])]
            for fact, seen in zip(facts, chosen, strict=True)
        ]
        show_table(console(), _LISTED, [[cell(text) for text in row] for row in rows])
    say(f"{len(facts)} wait{'' if len(facts) == 1 else 's'}, {sum(fact['late'] for fact in facts)} past the deadline")


def _goes_on(seen: SeenRun) -> bool:
    return seen.item.wait is not None and seen.item.wait.end is None


def _until(seen: SeenRun, now: int) -> str:
    return "" if seen.item.wait is None else moment(seen.item.wait.deadline, now)


def _facts(seen: SeenRun, runs: RunReader, *, payload: bool) -> dict[str, Any]:
    """Return the facts to show, as JSON values. ``wait`` is None for a run that does not wait."""
    return {
        **place_facts(seen),
        "wait": wait_facts(seen, (lambda name: answer_value(seen, runs, name)) if payload else None),
    }


# -- for people -------------------------------------------------------------------------------------------------------


def _show(facts: Mapping[str, Any], deadline: int, now: int, *, payload: bool) -> None:
    out, wait = console(), facts["wait"]
    where = f"{facts['flow']} of {facts['object_id']}: {facts['status']} at {facts['stage']}, hop {facts['hop']}"
    out.print(line(f"{where}, request {facts['request_id']}"), soft_wrap=True)
    if wait is None:
        out.print(line("it waits for nothing"))
        return
    for text in _said(wait, deadline, now):
        out.print(line(text), soft_wrap=True)
    if wait["names"]:
        show_names(wait, payload=payload)


def _said(wait: Mapping[str, Any], deadline: int, now: int) -> Iterator[str]:
    moment = (_EPOCH + timedelta(milliseconds=deadline)).strftime("%Y-%m-%d %H:%M:%S UTC")
    left = (deadline - now) // 1000
    when = f"in {remaining(left)}" if left >= 0 else f"over for {duration(-left)}"
    if wait["ended"] is not None:
        yield f"the wait is {wait_end(wait)}"
        return
    yield f"until {moment} ({when}), then at {wait['on_timeout']}"
    if (group := wait.get("group")) is not None:
        yield f"goes on at {wait['goes_on_at']} after a group of {group['requests']:,}; {group['asked']:,} were asked"
        yield f"{group['open_shards']:,} of its {group['shards']:,} shards are open"
        return
    yield f"goes on at {wait['goes_on_at']} with {wait['missing']} more of these answers"

"""The command ``flowguard show``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from flowguard.aws.caller_lists import ROWS_A_PAGE
from flowguard.aws.history_rows import MOST_ROWS, ROWS_SHOWN
from flowguard.aws.run_reader import RunReader, SeenRun, readable
from flowguard.aws.services import aws_store
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
from flowguard.cli.printing import complain, say_json
from flowguard.cli.run_lines import show_run
from flowguard.names.ids import ObjectId
from flowguard.operate.no_run import no_run
from flowguard.operate.run_facts import run_facts
from flowguard.protocol.callers import Caller
from flowguard.wire.notification import to_json
from flowguard.worker.ports import Store

MISSING: Final = 1  # the exit code where there is no such run


@click.command()
@click.argument("flow")
@click.argument("object_id", metavar="OBJECT")
@connected
@click.option("--payloads", is_flag=True, help="Show state, result, answers and messages too; tokens never.")
@click.option(
    "--history",
    metavar="ROWS",
    type=click.IntRange(1, MOST_ROWS),
    default=ROWS_SHOWN,
    show_default=True,
    help="Of a flow with a full history: the rows to read, the newest.",
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def show(flow: str, object_id: str, *, payloads: bool, history: int, as_json: bool, **options: Any) -> None:
    """Show where the run of OBJECT stands.

    FLOW is the name of a flow, or its class as MODULE:NAME, which says how long a result is kept. Nothing is changed.
    One consistent read of the run item; one query more where many wait for its end, and one where its flow has a full
    history.

    The exit code is 0 where there is a run, however it stands, 1 where there is none, 2 where the command cannot be
    run.
    """
    check_id("OBJECT", object_id)
    name, loaded = flow_named(flow)
    settings, now = settings_of(options), command_time().clock.now()
    with connection_errors(f"table {settings.run_table}"):
        clients = clients_of(options)
        runs = RunReader.of(settings, clients, reading_codecs(options, loaded))
        seen = runs.read(name, object_id)
        if seen is None:
            complain(f"{name} of {object_id}: {no_run(loaded)}")
            sys.exit(MISSING)
        rows = _rows(seen, aws_store(settings, clients))
        with readable(name, object_id):
            full = runs.full_history(seen, history)
            facts = run_facts(seen, runs, now, flow=loaded, rows=rows, full=full, payloads=payloads)
    if full.more:
        complain(f"of the history, the newest {history} rows are shown; --history has more")
    say_json(to_json(facts)) if as_json else show_run(facts, seen, now)


def _rows(seen: SeenRun, store: Store) -> Iterator[Sequence[Caller]]:
    """Yield the first page of those who wait for the run's end and are not in its item."""
    callers = seen.item.callers
    if callers is None or not callers.rows:
        return
    for page in store.callers.rows(seen.flow, ObjectId(seen.object_id), callers.term):
        yield page
        if len(page) == ROWS_A_PAGE:
            complain(f"of the callers in rows, the first {ROWS_A_PAGE} are shown")
        return

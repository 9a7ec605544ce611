"""The command ``flowguard tail``."""

from __future__ import annotations

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
from flowguard.cli.letter_rows import Seconds
from flowguard.cli.printing import say_json
from flowguard.cli.run_lines import say_line
from flowguard.operate.moments import iso
from flowguard.operate.run_facts import standing, stored_text
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.text.printable import bounded
from flowguard.wire.notification import to_json

EVERY: Final = 2


@click.command()
@click.argument("flow")
@click.argument("object_id", metavar="OBJECT")
@connected
@click.option("--every", metavar="SECONDS", type=click.IntRange(1, 3_600), default=EVERY, show_default=True,
              help="How often the run is read.")  # fmt: skip
@click.option("--for", "most", metavar="TIME", type=Seconds(), help="Stop after so long: 90s, 15m, 1h.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each change.")
def tail(flow: str, object_id: str, *, every: int, most: int | None, as_json: bool, **options: Any) -> None:
    """Follow the run of OBJECT until it ends, and print a line for each change.

    FLOW is the name of a flow, or its class as MODULE:NAME. The run item is read again and again, and consistently.
    What came and went between two reads is not seen; logs have that. A run that has not begun is waited for.

    The exit code is 0 where the run has ended or the time is over, 1 where it was interrupted, 2 where the command
    cannot be run.
    """
    check_id("OBJECT", object_id)
    name, _ = flow_named(flow)
    settings, (clock, pause) = settings_of(options), command_time()
    until = None if most is None else clock.now() + most * 1000
    with connection_errors(f"table {settings.run_table}"):
        runs = RunReader.of(settings, clients_of(options))
        before: object = ()
        while True:
            seen, now = runs.read(name, object_id), clock.now()
            if (mark := _mark(seen)) != before:
                before = mark
                _say(seen, runs, now, as_json=as_json)
            left = every if until is None else (until - now) / 1000
            if (seen is not None and seen.item.status in ENDED) or left <= 0:
                return
            pause(min(every, left))


def _mark(seen: SeenRun | None) -> object:
    """Return what differs after each change that is worth a line."""
    if seen is None:
        return None
    item = seen.item
    answered = None if item.wait is None else (item.wait.answered, item.wait.end)
    return (item.request_id, item.epoch, item.status, item.hop, item.done, item.reset_at, answered, item.cancellation)


def _say(seen: SeenRun | None, runs: RunReader, now: int, *, as_json: bool) -> None:
    text = "there is no run yet" if seen is None else _text(seen, runs, now)
    if as_json:
        place = {} if seen is None else _place(seen.item)
        say_json(to_json({"at": iso(now), **place, "now": text}))
    elif seen is None:
        say_line(f"{iso(now)}  {text}")
    else:
        item = seen.item
        where = f"{item.status.value} at {bounded(item.stage)}, hop {item.hop}, attempt {item.retry + 1}"
        say_line(f"{iso(now)}  {where}: {bounded(text)}")


def _text(seen: SeenRun, runs: RunReader, now: int) -> str:
    error = stored_text(seen, runs, "error") if seen.item.status is Status.FAILED else None
    return error or standing(seen.item, now)


def _place(item: RunItem) -> dict[str, Any]:
    return {
        "request_id": item.request_id,
        "status": item.status.value,
        "stage": item.stage,
        "hop": item.hop,
        "attempt": item.retry + 1,
        "answered": [] if item.wait is None else sorted(item.wait.answered),
    }

"""The command ``flowguard cancel``."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from flowguard.aws.run_reader import RunReader
from flowguard.cli.connection import (
    CannotRun,
    check_id,
    clients_of,
    command_time,
    connected,
    connection_errors,
    flow_class,
    flow_client,
    settings_of,
)
from flowguard.cli.printing import complain, say_json
from flowguard.cli.run_lines import say_line
from flowguard.errors import RunFailed, RunTooBusy
from flowguard.operate.cancel_run import cancel_run
from flowguard.wire.notification import to_json

NOT_DONE: Final = 1  # the exit code where the run was not cancelled, or its message was not sent


@click.command()
@click.argument("flow", metavar="MODULE:FLOW")
@click.argument("object_id", metavar="OBJECT")
@click.option("--why", metavar="TEXT", required=True, help="The text of the error with which the run ends.")
@connected
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def cancel(flow: str, object_id: str, *, why: str, as_json: bool, **options: Any) -> None:
    """Cancel the run of OBJECT, as FlowClient.cancel does.

    Its worker is fenced, so that nothing of it is applied any more. Its next message ends it FAILED with --why as the
    error, or goes on at the flow's on_failed stage. A run that waits is ended at once.

    The exit code is 0 where the run was cancelled, 1 where it was not, or where the message that ends it could not be
    sent, 2 where the command cannot be run.
    """
    check_id("OBJECT", object_id)
    loaded, settings = flow_class(flow), settings_of(options)
    with connection_errors(f"table {settings.run_table}"):
        runs = RunReader.of(settings, clients_of(options))
        try:
            end = cancel_run(flow_client(options), runs, loaded, object_id, why, command_time().clock.now())
        except RunFailed as error:
            raise CannotRun(f"{error}. Nothing was cancelled") from None
        except RunTooBusy as error:
            complain(str(error))
            sys.exit(NOT_DONE)
    if as_json:
        facts = {"flow": loaded.name, "object_id": object_id, "request_id": end.request_id}
        say_json(to_json({**facts, "cancelled": end.is_cancelled, "now": end.now, "problem": end.unsent}))
    elif end.is_cancelled:
        say_line(f"CANCELLED  {loaded.name} of {object_id}: {end.now}")
    else:
        complain(f"{loaded.name} of {object_id}: nothing was cancelled: {end.now}")
    if end.unsent is not None:
        complain(f"{loaded.name} of {object_id}: {end.unsent}")
    sys.exit(0 if end.is_cancelled and end.unsent is None else NOT_DONE)

"""The command ``flowguard cancel``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from flowguard.aws.run_reader import RunReader, SeenRun
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
from flowguard.cli.many import check_choice, do_to_many, for_many
from flowguard.cli.printing import complain, say_json
from flowguard.cli.run_lines import say_line
from flowguard.errors import RunFailed, RunTooBusy
from flowguard.flow import AnyFlow
from flowguard.operate.bulk import FAILED, LEFT, End
from flowguard.operate.cancel_run import can_be_cancelled, cancel_run
from flowguard.wire.cancel_reason import reason
from flowguard.wire.notification import to_json

NOT_DONE: Final = 1  # the exit code where the run was not cancelled, or its message was not sent


@click.command()
@click.argument("flow", metavar="MODULE:FLOW")
@click.argument("object_id", metavar="[OBJECT]", required=False)
@click.option(
    "--why", metavar="TEXT", required=True, help="The text of the error with which the run ends. No codec seals it."
)
@connected
@for_many
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def cancel(flow: str, object_id: str | None, *, why: str, every: bool, as_json: bool, **options: Any) -> None:
    """Cancel the run of OBJECT, as FlowClient.cancel does.

    Its worker is fenced, so that nothing of it is applied any more. Its next message ends it FAILED with --why as the
    error, or goes on at the flow's on_failed stage. A run that waits is ended at once.

    With --all the runs that pass the filters are cancelled, one after the other. Their number and the first of them are
    shown, and you are asked. A run that has changed meanwhile is left alone. --after goes on where that stopped, and
    what is done twice does no harm.

    The exit code is 0 where the run was cancelled, 1 where it was not, or where the message that ends it could not be
    sent, 2 where the command cannot be run. With --all it is 0 where all are cancelled or left; 1 where some
    failed, the table was not read to its end or has items that this version cannot read, you said no, or Ctrl-C ended
    the work; 2 where it cannot go on, either; 130 after Ctrl-C before anything was done.
    """
    check_choice(object_id, every=every)
    loaded = flow_class(flow)
    if object_id is None:
        sys.exit(_cancel_many(loaded, why, options, as_json=as_json))
    check_id("OBJECT", object_id)
    settings = settings_of(options)
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


def _cancel_many(flow: AnyFlow, why: str, options: Mapping[str, Any], *, as_json: bool) -> int:
    try:
        reason(why)
    except RunFailed as error:
        raise CannotRun(f"{error}. Nothing was cancelled") from None
    client, runs = flow_client(options), RunReader.of(settings_of(options), clients_of(options))

    def act(seen: SeenRun) -> End:
        end = cancel_run(client, runs, flow, seen.object_id, why, command_time().clock.now(), seen)
        if not end.is_cancelled:
            return End(LEFT, end.now)
        return End("CANCELLED", end.now) if end.unsent is None else End(FAILED, end.unsent)

    return do_to_many("cancel", flow, can_be_cancelled, act, options, as_json=as_json)

"""The command ``flowguard ui``."""

from __future__ import annotations

from typing import Any

import click

from flowguard.cli.connection import (
    CannotRun,
    clients_of,
    command_time,
    connected,
    connection_errors,
    flow_client,
    settings_of,
)
from flowguard.cli.printing import say
from flowguard.project.loading import load_flows
from flowguard.ui.changes import Changes
from flowguard.ui.inspected import Inspected


@click.command()
@click.argument("flows", metavar="[MODULE:FLOW]...", nargs=-1)
@connected
@click.option("--queue", "queues", metavar="NAME", multiple=True, help="A queue of dead letters to show too.")
@click.option("--payloads", is_flag=True, help="Show state, results, answers and messages too; tokens never.")
@click.option("--allow-changes", is_flag=True, help="Let pages cancel runs and send dead letters back.")
@click.option("--port", metavar="N", type=click.IntRange(1_024, 65_535), help="The port; a free one by default.")
def ui(
    flows: tuple[str, ...],
    *,
    queues: tuple[str, ...],
    payloads: bool,
    allow_changes: bool,
    port: int | None,
    **options: Any,
) -> None:
    """Show the runs of a table in a browser, on 127.0.0.1.

    The classes of flows, as MODULE:FLOW, bring their graphs and their queues of dead letters, and can be cancelled and
    retried. Nothing is changed without --allow-changes. Each page reads no more than it shows; lists of runs read the
    table by Scan, 10,000 items a page at most.

    The command ends with Ctrl+C. The exit code is 2 where it cannot be run.
    """
    from flowguard.ui import serving  # what it needs is an extra's, and help is there without it

    settings = settings_of(options)
    with connection_errors():
        known = {flow.name: flow for flow in (load_flows(flows) if flows else ())}
        clients = clients_of(options)
        clients.dynamodb, clients.sqs  # noqa: B018 - made before threads begin, as boto3 wants it
        inspected = Inspected(settings, clients, command_time().clock, known, queues, payloads)
    changes = Changes(inspected, flow_client(options)) if allow_changes else None
    try:
        server = serving.opened(inspected, changes, port or 0)
    except OSError as error:
        raise CannotRun(f"port {port}: {error.strerror}; give another --port") from None
    say(f"http://{serving.ADDRESS}:{server.port}/  (Ctrl+C ends it{'' if allow_changes else '; read only'})")
    server.serve_forever()

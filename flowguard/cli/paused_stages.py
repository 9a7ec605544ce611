"""What ``flowguard pause`` and ``flowguard resume`` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

import click

from flowguard.cli.connection import CannotRun, clients_of, connected, connection_errors, settings_of, with_options
from flowguard.cli.mailbox import is_dev
from flowguard.destinations import Queue
from flowguard.flow import AnyFlow
from flowguard.operate.stage_pauses import StagePauses
from flowguard.project.queues import queue_of
from flowguard.stage import AnyStage

of_stages: Final = with_options(
    click.argument("flow", metavar="MODULE:FLOW"),
    connected,
    click.option(
        "--stage", "names", metavar="NAME", multiple=True, help="Only this stage; may be given several times."
    ),
    click.option(
        "--key",
        metavar="LIMIT=VALUE",
        help="Only what has this value of a limit of the stage; LIMIT#DIGEST, as stats prints it, is the same.",
    ),
)
"""Gives a command the flow, the connection, and the stages or the key that are meant."""


def inbox_name(flow: AnyFlow, stage: AnyStage) -> str:
    """Return the queue that the stage's function reads, by its name in the code, its ARN or its URL."""
    inbox = flow.inbox_of(stage)
    return inbox.name if isinstance(inbox, Queue) else queue_of(flow, stage)


def check_stages(flow: AnyFlow, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that are none of these, and a part of the stages that read one queue."""
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(
            f"{flow.name} has no stage {unknown[0]!r}, but {', '.join(known)}", param_hint="--stage"
        )
    queues = {inbox_name(flow, stage) for stage in flow.stages if stage.name in names}
    for stage in flow.stages:
        if names and stage.name not in names and (queue := inbox_name(flow, stage)) in queues:
            raise click.UsageError(
                f"queue {queue!r} is also that of {stage.name}, and is paused as a whole; name it too"
            )


@contextmanager
def pauses_of(flow: AnyFlow, options: dict[str, Any]) -> Iterator[StagePauses]:
    """Open the pauses of a flow. Errors of AWS become the command's own."""
    if is_dev(options["endpoint_url"]):
        raise CannotRun("this is flowguard dev, which has no event source mappings; stop it instead")
    with connection_errors():
        settings = settings_of(options)
        yield StagePauses(flow.name, clients_of(options), settings.run_table, settings.at_aws, lambda: uuid4().hex)

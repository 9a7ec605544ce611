"""What ``flowguard pause`` and ``flowguard resume`` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from flowguard.cli.connection import CannotRun, clients_of, connected, connection_errors, settings_of, with_options
from flowguard.cli.mailbox import is_dev
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
)
"""Gives a command the flow, the connection, and the stages that are meant."""


def chosen(flow: AnyFlow, names: Sequence[str]) -> list[AnyStage]:
    """Return the stages of these names, or all. Refuse those whose queue has other stages too."""
    known = {stage.name: stage for stage in flow.stages}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(
            f"{flow.name} has no stage {unknown[0]!r}, but {', '.join(known)}", param_hint="--stage"
        )
    stages = [stage for name, stage in known.items() if not names or name in names]
    for stage, queue in _left_out(flow, stages):
        raise click.UsageError(f"queue {queue!r} is also that of {stage.name}, and is paused as a whole; name it too")
    return stages


def _left_out(flow: AnyFlow, stages: Sequence[AnyStage]) -> Iterator[tuple[AnyStage, str]]:
    """Yield each other stage that reads a queue of these stages, and the queue."""
    queues = {queue_of(flow, stage) for stage in stages}
    for stage in flow.stages:
        if stage not in stages and queue_of(flow, stage) in queues:
            yield stage, queue_of(flow, stage)


@contextmanager
def pauses_of(flow: AnyFlow, options: dict[str, Any]) -> Iterator[StagePauses]:
    """Open the pauses of a flow. Errors of AWS become the command's own."""
    if is_dev(options["endpoint_url"]):
        raise CannotRun("this is flowguard dev, which has no event source mappings; stop it instead")
    with connection_errors():
        settings = settings_of(options)
        yield StagePauses(flow, queue_of, clients_of(options), settings.run_table, settings.at_aws)

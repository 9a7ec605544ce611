"""What ``flowguard pause`` and ``flowguard resume`` have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
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
        "--stage",
        "names",
        metavar="NAME",
        multiple=True,
        help="Only this stage, or one of its lanes as NAME/LANE; may be given several times.",
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


class Row(NamedTuple):
    """A queue of a stage, and the row of its pause. ``names`` are those by which it may be asked for.

    The row has the stage's name, and of each lane but the first that with the lane's: ``take/urgent``.
    """

    name: str
    queue: str
    names: tuple[str, ...]

    def is_meant(self, names: Sequence[str]) -> bool:
        """Answer whether it is meant by these names. No names mean all."""
        return not names or not set(self.names).isdisjoint(names)


def rows_of(flow: AnyFlow) -> list[Row]:
    """Return the rows of all stages of a flow, in the order of these and of their lanes."""
    rows = []
    for stage in flow.stages:
        first, *others = [f"{stage.name}/{lane.name}" for lane in flow.lanes_of(stage)] or [stage.name]
        rows.append(Row(stage.name, inbox_name(flow, stage), (stage.name, first)))
        queues = [lane.inbox.name for lane in flow.lanes_of(stage)[1:]]
        rows += [Row(name, queue, (stage.name, name)) for name, queue in zip(others, queues, strict=True)]
    return rows


def check_stages(flow: AnyFlow, names: Sequence[str], more: Iterable[str] = ()) -> None:
    """Refuse names that are none of the flow's or of these, and a part of the stages that read one queue."""
    rows = rows_of(flow)
    known = list(dict.fromkeys([*(name for row in rows for name in row.names), *more]))
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(
            f"{flow.name} has no stage {unknown[0]!r}, but {', '.join(known)}", param_hint="--stage"
        )
    queues = {row.queue for row in rows if row.is_meant(names)}
    for row in rows:
        if not row.is_meant(names) and row.queue in queues:
            raise click.UsageError(
                f"queue {row.queue!r} is also that of {row.names[-1]}, and is paused as a whole; name it too"
            )


@contextmanager
def pauses_of(flow: AnyFlow, options: dict[str, Any]) -> Iterator[StagePauses]:
    """Open the pauses of a flow. Errors of AWS become the command's own."""
    if is_dev(options["endpoint_url"]):
        raise CannotRun("this is flowguard dev, which has no event source mappings; stop it instead")
    with connection_errors():
        settings = settings_of(options)
        yield StagePauses(flow.name, clients_of(options), settings.run_table, settings.at_aws, lambda: uuid4().hex)

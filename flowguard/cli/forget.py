"""The command ``flowguard forget``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, NoReturn

import click

from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading
from flowguard.aws.forgetting import Forgetting, RowsNotRemoved
from flowguard.aws.object_traces import TraceReader
from flowguard.aws.run_reader import RunReader
from flowguard.aws.stored_texts import StoredTexts
from flowguard.cli.connection import (
    CannotRun,
    check_id,
    clients_of,
    command_time,
    connected,
    flow_class,
    flow_client,
    settings_of,
    table_errors,
)
from flowguard.cli.out_of_reach import out_of_reach_of
from flowguard.cli.printing import complain, say_json
from flowguard.cli.run_lines import say_line
from flowguard.destinations import Queue
from flowguard.errors import NotForgotten, RunFailed, RunTooBusy
from flowguard.flow import AnyFlow
from flowguard.operate.cancel_run import CancelEnd, cancel_run
from flowguard.operate.forget_object import OUT_OF_REACH, Forgetter, Forgotten
from flowguard.operate.moments import iso, moment
from flowguard.sql.fence import forget_statement
from flowguard.wire.notification import to_json

NOT_DONE: Final = 1  # the exit code where something that was to be removed is still there
_WHY: Final = "its object is to be forgotten"
_FENCE: Final = "its fence in a database of step.sql, if a stage has one: "


@click.command()
@click.argument("flow", metavar="MODULE:FLOW")
@click.argument("object_id", metavar="OBJECT")
@connected
@click.option("--yes", is_flag=True, help="Really remove it. Without this, only say what there is.")
@click.option("--cancel", "cancels", is_flag=True, help="With --yes: cancel a run that goes on, to be forgotten later.")
@click.option("--at-once", is_flag=True, help="Also a run that has not ended. Its end is sent to nobody then.")
@click.option("--children", metavar="MODULE:FLOW", multiple=True,
              help="Also what the runs of this flow have left that its run has asked for.")  # fmt: skip
@click.option("--queue", metavar="NAME", help="The queue of dead letters, if not the one that the flow's class names.")
@click.option("--visibility", metavar="SECONDS", type=click.IntRange(5, 43_200), default=300, show_default=True,
              help="How long letters stay hidden if this command dies.")  # fmt: skip
@click.option("--wait", metavar="SECONDS", type=click.IntRange(0, 3), default=1, show_default=True,
              help="How long the queue must give nothing to count as empty.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def forget(
    flow: str,
    object_id: str,
    *,
    yes: bool,
    cancels: bool,
    at_once: bool,
    children: tuple[str, ...],
    queue: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Remove the data that OBJECT has left in the run table, among dead letters and in S3.

    Without --yes it only says what there is. The run item stays, emptied, until no message of the run can come any
    more: late ones change nothing. A run that goes on is refused. The whole table is read.

    The exit code is 0 where all is removed, or was only looked at, 1 where something is still there that was to be
    removed, 2 where the command cannot be run.
    """
    check_id("OBJECT", object_id)
    if cancels and (not yes or at_once):
        raise click.UsageError("--cancel goes with --yes, and not with --at-once")
    loaded = flow_class(flow)
    flows = {asked.name: asked for asked in (loaded, *map(flow_class, children))}
    for asked in flows.values():  # before anything is written
        if queue is None or asked is not loaded:
            _queue_of(asked)
    with table_errors(options):
        try:
            report = _forgetter(flows, queue, options, really=yes, at_once=at_once).forget(loaded, object_id)
        except NotForgotten as error:
            end = _cancelled(loaded, object_id, options) if cancels and error.goes_on else None
            _refuse(loaded, object_id, error, end, as_json=as_json)
        except RowsNotRemoved as error:
            _refuse(loaded, object_id, error, None, as_json=as_json)
    of_flows = [what for asked in flows.values() for what in out_of_reach_of(asked)]
    beside = [*OUT_OF_REACH, *of_flows, *(_FENCE + statement for statement in _fences(report))]
    if as_json:
        say_json(to_json({**_facts(report), "out_of_reach": beside}))
    else:
        now = command_time().clock.now()
        for text in (*_lines(report, now, really=yes), *(f"out of reach: {what}" for what in beside)):
            say_line(text)
    sys.exit(NOT_DONE if yes and not report.is_complete else 0)


def _forgetter(
    flows: dict[str, AnyFlow], queue: str | None, options: dict[str, Any], *, really: bool, at_once: bool
) -> Forgetter:
    settings, clients, clock = settings_of(options), clients_of(options), command_time().clock
    pause = command_time().pause
    readings: dict[str, Reading] = {}

    def letters(flow: AnyFlow) -> AbstractContextManager[Reading]:
        name = queue if queue is not None and flow is next(iter(flows.values())) else _queue_of(flow)
        before = readings.get(name)
        dead = DeadLetterQueue.find(clients, name, names=settings.at_aws) if before is None else before.rest
        visibility, wait = options["visibility"], options["wait"]
        readings[name] = Reading(clients, dead, flow=flow, visibility=visibility, wait=wait, clock=clock)
        return readings[name]

    texts = StoredTexts(lambda: clients.s3, settings.bucket_owner)
    reader = TraceReader(
        clients.dynamodb, settings.run_table, texts, settings.bucket, settings.prefix, pause, flows.keys()
    )
    forgetting = Forgetting(clients.dynamodb, settings.run_table, texts, pause)
    return Forgetter(reader, forgetting, letters, flows, clock.now(), really, at_once)


def _queue_of(flow: AnyFlow) -> str:
    if isinstance(flow.dead_letters, Queue):
        return flow.dead_letters.name
    raise CannotRun(f"the dead letters of {flow.name} go to {flow.dead_letters}, which is no queue; give --queue")


def _cancelled(flow: AnyFlow, object_id: str, options: dict[str, Any]) -> CancelEnd:
    """Cancel the run that stood in the way."""
    settings, now = settings_of(options), command_time().clock.now()
    runs = RunReader.of(settings, clients_of(options))
    try:
        return cancel_run(flow_client(options), runs, flow, object_id, _WHY, now)
    except (RunFailed, RunTooBusy) as error:
        raise CannotRun(f"{error}. Nothing was cancelled") from None


def _refuse(
    flow: AnyFlow, object_id: str, error: NotForgotten | RowsNotRemoved, end: CancelEnd | None, *, as_json: bool
) -> NoReturn:
    """Print why nothing was removed and whether the run was cancelled, and exit."""
    problem, cancelled = str(error), end is not None and end.is_cancelled
    if end is not None:
        done = f"it is cancelled: {end.now}; repeat this half an hour after its end"
        problem = done if cancelled else f"{error}. It was not cancelled: {end.now}"
    problems = [problem] if end is None or end.unsent is None else [problem, end.unsent]
    if as_json:
        named = {"flow": flow.name, "object_id": object_id}
        say_json(to_json({**named, "removed": False, "problem": ". ".join(problems), "cancelled": cancelled}))
    else:
        for text in problems:
            complain(f"{'CANCELLED  ' if cancelled else ''}{flow.name} of {object_id}: {text}")
    sys.exit(NOT_DONE)


def _facts(report: Forgotten) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "flow": report.flow,
        "object_id": report.object_id,
        "now": report.stands,
        "removed": report.is_done and not report.is_nothing,
        "problem": report.why_not,
        "cancelled": False,
        "found": report.counts,
        "left": [part._asdict() for part in report.left],
        "late_until": None if report.late_until is None else iso(report.late_until),
        "children": [_facts(child) for child in report.children],
    }


def _fences(report: Forgotten) -> Iterator[str]:
    """Yield the statements that empty the fences of an object and of its children."""
    yield forget_statement(report.flow, report.object_id)
    for child in report.children:
        yield from _fences(child)


def _lines(report: Forgotten, now: int, *, really: bool) -> Iterator[str]:
    """Yield the lines of the report, and those of the children."""
    name = f"{report.flow} of {report.object_id}"
    if report.why_not is not None:
        yield f"LEFT       {name}: {report.why_not}"
    elif report.is_nothing:
        yield f"NOTHING    {name}: {report.stands}; is it the right id, table and region?"
    elif not really:
        yield f"FOUND      {name}: {report.stands}"
    else:
        yield f"{'FORGOTTEN' if report.is_done else 'NOT ALL  '}  {name}: {report.stands}"
    yield from (f"  {count:>6}  {kind}" for kind, count in report.counts.items())
    yield from (f"  {part.number:>6}  {part.what}, left: {part.why}" for part in report.left)
    if report.late_until is not None:
        yield f"messages under way may come until {moment(report.late_until, now)}; the run's are dropped"
    for child in report.children:
        yield from _lines(child, now, really=really)

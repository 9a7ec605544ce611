"""The command ``flowguard replay``."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import click

from flowguard.cli.closed_imports import Outward, closed_imports
from flowguard.cli.console import console
from flowguard.cli.delivery_lines import show_aftermath, show_timeline, summary
from flowguard.cli.printing import code_printing_apart, complain, say, say_json
from flowguard.cli.recordings import Unreadable, expected_to_fail, read_files
from flowguard.deploy.queue_plan import times_of
from flowguard.errors import DefinitionError, OtherRelease, SettingsError
from flowguard.project.declared import declared_by_name, modules_of_flows
from flowguard.project.loading import NoSuchFlow, known_flows, load_flows
from flowguard.protocol.run import Status
from flowguard.sim.calls import intercept
from flowguard.sim.crash import Crashes
from flowguard.sim.delivered import Counts, Delivered
from flowguard.sim.event_source import MOST_RECEIVES
from flowguard.sim.final_state import FinalState, RunLeft, Tables, Unanswered, tables_of
from flowguard.sim.points import Point
from flowguard.sim.recording import PlannedDelivery, RecordedRecord, plan, read_recording
from flowguard.sim.weather.forecast import KINDS
from flowguard.sim.world import World
from flowguard.testing.explorer.run.network import Words, no_network
from flowguard.testing.explorer.run.stubs import Stubs
from flowguard.text.printable import bounded
from flowguard.wire.envelope import BadRecord
from flowguard.worker.patience import MANY_RECEIVES

FOUND: Final = 1  # the exit code where a run failed though nobody expected it
BAD: Final = 2  # and where something could not be read

_REPLAYED: Final = Words(
    "goes out to {host}, which a replay does not",
    "give the call a fake, or allow it: --network {host}",
    "events are replayed",
    "starts {host}, which a replay does not",
    "give the call a fake, or allow it: --network {host}",
)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--flow", "flows", metavar="MODULE:FLOW", multiple=True, help="A flow to run; repeat it for more.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each delivery, then for what is left.")
@click.option("--repeat", metavar="N", type=click.IntRange(1), default=1, help="Deliver each record N times.")
@click.option("--shuffle", metavar="SEED", type=int, help="Deliver the records in another order.")
@click.option(
    "--crash",
    "points",
    metavar="AT",
    type=click.Choice([point.value for point in Point]),
    multiple=True,
    help=f"Kill the worker there, once a record; repeat it for more. One of {', '.join(Point)}.",
)
@click.option(
    "--failing",
    metavar="OBJECT[=WHY]",
    multiple=True,
    help="Its run is expected to fail; repeat it. OBJECT=WHY for this error, stage or status alone. FLOW/STAGE for a "
    "message without one.",
)
@click.option(
    "--network", "--allow-network", metavar="HOST", multiple=True, help="May be reached; nothing else is. Repeat it."
)
@click.option("--weather", metavar="NAME[=SPAN][@SPAN],…", default="", help=f"A bad day: {', '.join(KINDS)}.")
@click.option("--seed", metavar="N", type=int, default=0, help="Of ids and jitter. Equal seeds, equal output.")
def replay(  # noqa: PLR0913 - the options of a command
    files: tuple[str, ...],
    flows: tuple[str, ...],
    *,
    as_json: bool,
    repeat: int,
    shuffle: int | None,
    points: tuple[str, ...],
    failing: tuple[str, ...],
    network: tuple[str, ...],
    weather: str,
    seed: int,
) -> None:
    """Run the recorded events in each FILE through the flows without AWS, and show the outcome.

    A FILE is what 'flowguard normalize' takes, or a directory of such: every *.json in it and below it, but for
    directories named 'bad'. A dash is standard input. Time is virtual: nothing sleeps, however long a delay is.

    An HTTP request goes to the function of answers. Its path names the token of a run: {token:FLOW/OBJECT/NAME}.

    Nothing goes out over the network but to the hosts of --network: a call elsewhere is refused and named, and fails as
    one does whose host is down. No program or process is started either, unless --network names it. STUBS of a flow's
    module answer for services of AWS.

    Under --weather AWS is as on a bad day: 'dynamodb-away=60m@5m' is an outage of an hour that begins after five
    minutes. Then queues are as in a generated template: a record is received a hundred times before it is given up.

    What cannot be read is named on standard error; the rest is run all the same. So is a run that FAILED or did not
    end, and a record that stays in its queue, unless --failing names its object or record, or an expected.toml beside
    FILE does. OBJECT=WHY excuses one failure alone: WHY is the type of its error (o-1=Reject), its stage (o-1=charge)
    or its status (o-1=WAITING). OBJECT excuses whatever error, and no run that does not end.

    The exit code is 0 where everything could be read and no run failed unexpectedly, 1 where one did, 2 where something
    could not be read or used (a record that is for no flow here, too), or was refused to go out.
    """
    _check_failing(failing)
    expected = expected_to_fail(files)
    recorded, unreadable = read_records(files)
    if not recorded:
        if not unreadable:
            complain(f"nothing was replayed: there is no record in {', '.join(files)}")
        sys.exit(BAD)
    names = {id(record.envelope): name for name, record in recorded}  # ids of recordings may be alike
    planned = plan([record for _, record in recorded], repeat=repeat, shuffle=shuffle)
    crashes = Crashes(map(Point, points))
    try:
        with closed_imports(network), code_printing_apart(as_json=as_json):
            serving = load_flows(flows)
        world = World(
            serving,
            seed=seed,
            start=planned[0].at,
            passed=lambda point, delivery, _: crashes.strike(point, delivery.message_id),
            most_receives=(MANY_RECEIVES if weather else MOST_RECEIVES) + len(crashes.points),
            times=times_of(serving) if weather else None,
            weather=weather,
        )
        stubs = Stubs(declared_by_name("STUBS", modules_of_flows(world.flows)))
        with world, intercept(stubs), no_network(outward := Outward(), network, _REPLAYED):
            before = tables_of(world)
            with code_printing_apart(as_json=as_json):
                rows, left = list(_run(world, planned)), FinalState.of(world)
            if as_json:
                _print_json(world, rows, left)
            else:
                _print(world, rows, left, before)
    except (NoSuchFlow, DefinitionError, SettingsError) as error:
        say(str(error), err=True)
        sys.exit(BAD)
    for problem in dict.fromkeys(f"{names[id(envelope)]}: {error}" for envelope, error in world.without_token):
        complain(problem)
        unreadable += 1
    reported = {envelope.message_id for envelope, _ in world.without_token}
    unreadable += _complain_of_unroutable(rows, reported) + outward.refused
    unexpected = _complain_of_failed(rows, left, failing, expected)
    sys.exit(BAD if unreadable else FOUND if unexpected else 0)


def _check_failing(failing: tuple[str, ...]) -> None:
    """Raise an error for a failure that is to be excused by no reason: an OBJECT= without the WHY."""
    for name in failing:
        if name.endswith("="):
            problem = f"{name} names no error; write {name}WHY, its type, stage or status, or {name[:-1]} for any error"
            raise click.BadParameter(problem, param_hint="--failing")


def _complain_of_unroutable(rows: list[Delivered], reported: Collection[str]) -> int:
    """Print each record that no flow here takes, and return how many were printed.

    Records in ``reported`` were printed before, and are left out. So are those of another release, which may be
    expected.
    """
    unroutable = {
        row.record: row
        for row in rows
        if row.verdict == "UNROUTABLE" and row.record not in reported and not _is_of_another_release(row)
    }
    for row in unroutable.values():
        complain(f"{row.record} is UNROUTABLE: {bounded(str(row.why))}")
    return len(unroutable)


class _Failure(NamedTuple):
    """What failed. ``whys`` are what --failing may name it by, the most precise first."""

    name: str
    whose: str
    error: str | None
    whys: tuple[str, ...]
    is_end: bool = True

    def is_expected(self, names: Collection[str]) -> bool:
        """Answer whether one of the names is of this failure. One without a reason is of any that is an end."""
        return (self.is_end and self.name in names) or any(f"{self.name}={why}" in names for why in self.whys)


def _complain_of_failed(
    rows: list[Delivered], left: FinalState, failing: tuple[str, ...], expected: tuple[str, ...]
) -> bool:
    """Print what failed or did not end unexpectedly, and what of --failing did not. Returns whether any.

    What is ``expected`` to fail need not: its flow may not be among those that ran, or a newer run may have ended well.
    """
    failures = _failures(rows, left)
    unexpected = [failure for failure in failures if not failure.is_expected((*failing, *expected))]
    for failure in unexpected:
        how = f"--failing {failure.name}={failure.whys[0]}"
        complain(f"{failure.whose}: {bounded(str(failure.error))}; where that is expected: {how}")
    for asked in left.unanswered if unexpected else ():
        complain(_of_unanswered(asked))
    missing = [name for name in dict.fromkeys(failing) if not any(failure.is_expected((name,)) for failure in failures)]
    for name in missing:
        complain(f"--failing {name}: none of its runs failed{' so' if '=' in name else ''}")
    return bool(unexpected or missing)


def _of_unanswered(asked: Unanswered) -> str:
    """Say which flow has to run here too. Its class is known where a module that was imported has it."""
    known = next((flow for flow in known_flows() if flow.name == asked.flow), None)
    option = "MODULE:FLOW" if known is None else f"{known.__module__}:{known.__qualname__}"
    return (
        f"{asked.flow}/{asked.stage} was asked and has not answered, for {asked.flow} is not replayed: its request "
        f"waits in queue {asked.queue}; add --flow {option}"
    )


def _failures(rows: list[Delivered], left: FinalState) -> list[_Failure]:
    """Return what failed. A message that its stage cannot read fails without a run: only its dead letter is left."""
    failed_at = {
        (letter.object_id, letter.request_id): str(letter.stage).rpartition("/")[2] for letter in left.dead_letters
    }
    failures = [_failure_of(run, failed_at) for run in left.runs if run.status != Status.COMPLETED.value]
    for letter in left.dead_letters:
        name = (None if letter.unread else letter.object_id) or letter.stage or letter.queue
        if name not in {known.name for known in failures}:
            whose = f"{letter.stage or letter.queue} of {'no object' if letter.unread else letter.object_id} FAILED"
            failures.append(_Failure(name, whose, letter.error, _kinds(letter.error)))
    last = {row.record: row for row in rows}
    return failures + [
        _Failure(row.record, f"{row.record} is {row.verdict}", row.why, (str(row.verdict),))
        for row in last.values()
        if _is_refused(row)
    ]


def _failure_of(run: RunLeft, failed_at: Mapping[tuple[str | None, str | None], str]) -> _Failure:
    """Return how a run failed. The stage of a run that was taken back is that of its dead letter."""
    whose = f"{run.flow} of {run.object_id} {run.status}"
    if run.status == Status.FAILED.value:
        return _Failure(
            run.object_id,
            whose,
            run.error,
            (*_kinds(run.error), failed_at.get((run.object_id, run.request_id), run.stage)),
        )
    why = "nothing comes any more that it would go on with"
    return _Failure(run.object_id, whose, why, (run.status, run.stage), is_end=False)


def _kinds(error: str | None) -> tuple[str, ...]:
    """Return the type that an error's text begins with."""
    kind = (error or "").partition(": ")[0]
    return (kind,) if kind.isidentifier() else (Status.FAILED.value,)


def _is_refused(row: Delivered) -> bool:
    """Answer whether a record stays in its queue: it cannot be read, is not believed, or is of another release."""
    return row.verdict in ("UNREADABLE", "UNTRUSTED") or _is_of_another_release(row)


def _is_of_another_release(row: Delivered) -> bool:
    return row.verdict == "UNROUTABLE" and str(row.why).startswith(f"{OtherRelease.__name__}: ")


def read_records(files: tuple[str, ...]) -> tuple[list[tuple[str, RecordedRecord]], int]:
    """Read the files and return their records with the names of the files, and how many could not be read.

    Those are named on standard error.
    """
    recorded: list[tuple[str, RecordedRecord]] = []
    unreadable = 0
    for name, record in _records(files):
        if isinstance(record, RecordedRecord):
            recorded.append((name, record))
        else:
            complain(f"{name}: {record}")
            unreadable += 1
    return recorded, unreadable


def _records(files: tuple[str, ...]) -> Iterator[tuple[str, RecordedRecord | str]]:
    for read in read_files(files):
        if isinstance(read, Unreadable):
            yield read.name, read.problem
            continue
        name, event = read
        for record in read_recording(event):
            yield name, str(record.error) if isinstance(record, BadRecord) else record


def _run(world: World, planned: list[PlannedDelivery]) -> Iterator[Delivered]:
    for delivery in planned:
        world.put(delivery.recorded.envelope, delivery.recorded.raw, at=delivery.at)
    return world.run()


def _print(world: World, rows: list[Delivered], left: FinalState, before: Tables) -> None:
    out = console()
    show_timeline(out, rows, world.start)
    show_aftermath(out, left, before)
    out.print()
    out.print(summary(Counts.of(world.put_in, rows)), soft_wrap=True)


def _print_json(world: World, rows: list[Delivered], left: FinalState) -> None:
    for row in rows:
        _print_line({**row.as_json(), "after": row.at - world.start})
    _print_line({"runs": [asdict(run) for run in left.runs]})
    _print_line({"tables": left.tables})
    _print_line({"dead_letters": [asdict(letter) for letter in left.dead_letters], "queues": left.queues})
    _print_line({"summary": asdict(Counts.of(world.put_in, rows))})


def _print_line(fields: dict[str, Any]) -> None:
    say_json(json.dumps(fields, ensure_ascii=False))

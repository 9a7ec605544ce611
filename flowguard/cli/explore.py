"""The command ``flowguard explore``."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from flowguard.cli.closed_imports import closed_imports
from flowguard.cli.explore_options import (
    ENGINES,
    each_once,
    fields_in,
    free_of,
    invariants_of,
    items_in,
    named_json,
    party_in,
    table_in,
)
from flowguard.cli.float_range import FiniteRange
from flowguard.cli.interrupted import INTERRUPTED
from flowguard.cli.printing import code_printing_apart, complain, say, say_json
from flowguard.cli.progress import Progress
from flowguard.cli.recordings import (
    EXPECTED,
    Unreadable,
    expected_to_fail,
    read_files,
    to_be_explored,
    without_reason,
)
from flowguard.errors import DefinitionError, EnvelopeError, SettingsError, shown
from flowguard.flow import is_flow
from flowguard.project.loading import NoSuchFlow
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.testing.explorer import MOST, Debugger, Explored, NoSuchSchedule, UnmetSchedule, replay
from flowguard.testing.explorer import explore as explored
from flowguard.testing.explorer.report.findings import NotRun, Report, Trace, violation_as_json
from flowguard.testing.explorer.report.page import page, page_of_schedule
from flowguard.testing.explorer.report.sarif import sarif
from flowguard.testing.explorer.run.explored import load_explored
from flowguard.testing.explorer.run.old_code import OldCode
from flowguard.testing.explorer.run.sandbox import PATIENCE

FOUND: Final = 1
UNUSABLE: Final = 2
UNJUDGED: Final = 3
MISTAKES: Final = (NoSuchFlow, NoSuchSchedule, UnmetSchedule, DefinitionError, SettingsError, EnvelopeError)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--flow", "flows", metavar="MODULE:NAME", multiple=True, help="What is explored; repeat it for more.")
@click.option(
    "--messages", metavar="FILE", multiple=True, help="The older form: files here, and each MODULE:NAME as an argument."
)
@click.option(
    "--table",
    "tables",
    metavar="NAME=KEY",
    multiple=True,
    help="A table of yours and its key, as in days=shop,day:N; repeat it.",
)
@click.option("--queue", "queues", metavar="NAME", multiple=True, help="What a plain handler reads; one for each.")
@click.option(
    "--visibility", metavar="SECONDS", type=click.IntRange(1), default=30, help="Of those queues; 30 by default."
)
@click.option(
    "--timeout", metavar="SECONDS", type=click.IntRange(1), help="Of plain handlers; by default the visibility timeout."
)
@click.option("--free", metavar="TABLE.ATTRIBUTE", multiple=True, help="May differ at the end; repeat it.")
@click.option(
    "--either",
    metavar="TABLE=JSON",
    multiple=True,
    help="A form that its items (or a queue's bodies) may have; repeat it. null: none need be there.",
)
@click.option("--ttl", metavar="TABLE.ATTRIBUTE", multiple=True, help="By which its items expire; repeat it.")
@click.option(
    "--failing",
    metavar="OBJECT[=WHY]",
    multiple=True,
    help="Its run is expected to fail (or a plain handler, by its queue), for whatever reason; repeat it.",
)
@click.option(
    "--bound", metavar="N", type=click.IntRange(0), help="Pairs of faults that are tried too; none by default."
)
@click.option("--walks", metavar="N", type=click.IntRange(0), help="Random walks of two to five; none by default.")
@click.option(
    "--seed", metavar="N", type=int, default=0, help="Of ids, randomness and walks. Equal seeds, equal output."
)
@click.option("--seconds", metavar="N", type=FiniteRange(0, min_open=True), help="Stop the search after so long.")
@click.option(
    "--patience",
    metavar="N",
    type=FiniteRange(0, min_open=True),
    default=PATIENCE,
    help=f"Seconds of CPU that one invocation may take, or may do nothing; {PATIENCE:g} by default.",
)
@click.option("--most", metavar="N", type=click.IntRange(1), default=MOST, help="Stop after so many violations.")
@click.option(
    "--fail-under",
    metavar="PERCENT",
    type=FiniteRange(0, 100),
    help="Exit with 3 where fewer of the handlers' lines ran; 0 only lists them. Slower.",
)
@click.option("--engine", type=click.Choice([*ENGINES]), default="memory", help="What answers the calls.")
@click.option("--offload-above", metavar="BYTES", type=int, help="Longer texts go to S3; none by default.")
@click.option("--for-good/--not-for-good", default=True, help="Whether refusals that never end are tried.")
@click.option("--bucket", "buckets", metavar="NAME", multiple=True, help="A bucket of yours in S3, empty; repeat it.")
@click.option(
    "--answer", "answers", metavar="NAME=JSON", multiple=True, help="What a party outside answers; repeat it."
)
@click.option(
    "--stub", "stubs", metavar="SERVICE.OPERATION=JSON", multiple=True, help="What a service answers; repeat it."
)
@click.option("--item", "items", metavar="TABLE=JSON", multiple=True, help="Lies in a table before; repeat it.")
@click.option("--same", metavar="QUEUE.FIELD", multiple=True, help="Copies are dropped by this field; repeat it.")
@click.option(
    "--network", "--allow-network", metavar="HOST", multiple=True, help="May be reached; nothing else is. Repeat it."
)
@click.option("--outside", metavar="HOST[=JSON]", multiple=True, help="A party outside, and its answer; repeat it.")
@click.option(
    "--postgres", metavar="URL", help="A test database of PostgreSQL; each schedule gets a copy, which is dropped."
)
@click.option("--any-order", is_flag=True, help="The end may depend on the order of the records.")
@click.option("--may-fail", metavar="OBJECT", multiple=True, help="Its run may fail or not; repeat it.")
@click.option("--invariants-only", is_flag=True, help="Compare no ends; check promises and invariants alone.")
@click.option("--direct", is_flag=True, help="Plain handlers are invoked by the messages, and --queue is their name.")
@click.option("--batch", metavar="N", type=click.IntRange(1), default=1, help="Records at once; 1 by default.")
@click.option("--together", is_flag=True, help="Records of a batch share calls, as with lambda_handler(together=True).")
@click.option(
    "--insider/--no-insider", default=None, help="Whether somebody without a key sends what would move waits on."
)
@click.option(
    "--weather", metavar="NAME[=SPAN][@SPAN],…", default="", help="A bad day that begins at each call in turn."
)
@click.option(
    "--before",
    metavar="DIRECTORY",
    help="The older code, under the same module names: runs switch from one to the other, and back.",
)
@click.option("--rollback/--no-rollback", default=True, help="Whether the older code may be there at last, too.")
@click.option("--partial/--not-partial", default=True, help="Whether ReportBatchItemFailures is on for plain handlers.")
@click.option("--schedule", metavar="ID", help="Run exactly this schedule, and show its time line.")
@click.option(
    "--pdb",
    "in_pdb",
    is_flag=True,
    help="With --schedule: stop in the handler, where it parts from the undisturbed run or raises.",
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
@click.option("--html", metavar="FILE", help="Write the report to this file too, as a page.")
@click.option(
    "--resume",
    metavar="FILE",
    help="Write the runs to this file, and take those that it has: a search that was cut off goes on.",
)
@click.option("--sarif", "sarif_file", metavar="FILE", help="Write the violations to this file too, for code hosts.")
def explore(  # noqa: PLR0913 - the options of a command
    files: tuple[str, ...],
    flows: tuple[str, ...],
    messages: tuple[str, ...],
    *,
    tables: tuple[str, ...],
    queues: tuple[str, ...],
    free: tuple[str, ...],
    either: tuple[str, ...],
    ttl: tuple[str, ...],
    failing: tuple[str, ...],
    buckets: tuple[str, ...],
    items: tuple[str, ...],
    answers: tuple[str, ...],
    stubs: tuple[str, ...],
    same: tuple[str, ...],
    network: tuple[str, ...],
    outside: tuple[str, ...],
    postgres: str | None,
    seconds: float | None,
    patience: float,
    engine: str,
    offload_above: int | None,
    most: int,
    fail_under: float | None,
    for_good: bool,
    any_order: bool,
    may_fail: tuple[str, ...],
    invariants_only: bool,
    direct: bool,
    visibility: int,
    timeout: int | None,
    batch: int,
    together: bool,
    insider: bool | None,
    weather: str,
    before: str | None,
    rollback: bool,
    partial: bool,
    bound: int | None,
    walks: int | None,
    seed: int,
    schedule: str | None,
    in_pdb: bool,
    as_json: bool,
    html: str | None,
    resume: str | None,
    sarif_file: str | None,
) -> None:
    """Run a flow under faults at every AWS call it makes, and name the line of yours that does not survive one.

    A FILE is what 'flowguard replay' takes: it holds the messages that start the flow. A NAME is that of a flow, or of
    a plain handler(event, context) with the --queue that it reads.

    The flow's module says in TABLES which tables it writes to, in ITEMS what lies in them at the beginning, in BUCKETS
    and STUBS which buckets it has and what other services answer, in ANSWERS what parties outside answer, in FREE what
    may differ from the undisturbed end, in EITHER the forms that something may have, in TTL by which attributes items
    expire; its functions under @invariant are checked after each schedule.

    A run that fails though nothing goes wrong is found, too, unless --failing names its object, or an expected.toml
    beside FILE does. Ctrl-C and SIGTERM end the search, and show what was found until then;
    with --resume FILE the same command goes on there.

    With --before a release is tried while messages are in flight, and its rollback; 'git worktree add DIRECTORY v1'
    makes the directory.

    Every single fault is tried, and the only message with its twin: a quarter of a minute of CPU for a flow of four
    stages. Each further request for the same object takes longer than the one before; --seconds stops. Pairs and walks
    (--bound 300 --walks 200) take minutes. --bound 0 --walks 0 leaves out the twin.

    The exit code is 0 for no violation, 1 for violations, 2 for arguments that cannot be used and for what was refused
    to go out beside the runs, 3 for no verdict (nothing ran for some message, not every single fault was tried, a stage
    uses a database that is not played, fewer lines ran than --fail-under wants, or no undisturbed run shows the right
    end), 130 for an interrupted search without violations.
    """
    flows, files = _explored(flows, files, messages)
    failing = tuple(map(without_reason, failing))  # as 'flowguard replay' proposes it, with why
    _print_no_log()
    try:
        if in_pdb:
            _check_pdb(schedule, as_json=as_json)
        if schedule is not None and resume is not None:
            raise SettingsError("--resume", "it is for a search, and --schedule runs one schedule; leave out either")
        files, left_out = to_be_explored(files)
        for file in left_out:
            complain(f"not explored, as the {EXPECTED} beside it says: {file}")
        names, events = _events(files)
        _check_messages(names, events, of_flows=not queues)
        with closed_imports(network), code_printing_apart(as_json=as_json):
            loaded = load_explored(
                flows, queues, visibility=visibility, timeout=timeout, direct=direct, batch=batch, partial=partial
            )
            older = None if before is None else OldCode(before, [flow for flow in loaded if is_flow(flow)])
        expected = _Expected.of(files, events)
        about: dict[str, Any] = {
            "tables": each_once(map(table_in, tables), "--table"),
            "invariants": invariants_of(loaded),
            "free": free_of(loaded, free),
            "either": items_in(either, "--either") or None,
            "ttl": fields_in(ttl, "--ttl", "TABLE.ATTRIBUTE") or None,
            "seed": seed,
            "same": fields_in(same, "--same", "QUEUE.FIELD"),
            "network": network,
            "outside": each_once(map(party_in, outside), "--outside") or None,
            "postgres": postgres,
            "failing": (*failing, *expected.objects),
            "any_order": any_order,
            "may_fail": (*may_fail, *(name for name in expected.objects if name not in failing)),
            "invariants_only": invariants_only,
            "patience": patience,
            "engine": ENGINES[engine],
            "offload_above": offload_above,
            "buckets": buckets or None,
            "items": items_in(items) or None,
            "answers": each_once(map(named_json("--answer"), answers), "--answer") or None,
            "stubs": each_once(map(named_json("--stub"), stubs), "--stub") or None,
            "batch": batch if any(map(is_flow, loaded)) else 1,
            "together": together,
            "insider": insider,
            "weather": weather,
            "before": older,
        }
        _write(html, "")  # before the minutes that an exploration may take
        _write(sarif_file, "", "--sarif")
        if schedule is not None:
            about |= {"debugger": Debugger()} if in_pdb else {}
            sys.exit(_one(loaded, events, schedule, about, as_json=as_json, html=html, sarif_file=sarif_file))
        with Progress() as progress, _interrupted_by_term(), code_printing_apart(as_json=as_json):
            report = explored(
                loaded, events, bound=bound, walks=walks, most=most, seconds=seconds, for_good=for_good,
                rollback=rollback, fail_under=fail_under, resume=resume, progress=progress, **about,
            )  # fmt: skip
        report = replace(report, names=names, not_run=expected.marked(report.not_run))
        _write(html, page(report) if html else "")
        _write(sarif_file, _sarif(report) if sarif_file else "", "--sarif")
    except (*MISTAKES, TypeError) as error:
        say(str(error), err=True)
        sys.exit(UNUSABLE)
    if as_json:
        say_json(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        say(str(report))
    sys.exit(_exit_code(report))


def _print_no_log() -> None:
    """Keep what flowguard logs in each schedule off standard error."""
    log, handler = logging.getLogger("flowguard"), logging.NullHandler()
    log.addHandler(handler)
    click.get_current_context().call_on_close(partial(log.removeHandler, handler))


@contextmanager
def _interrupted_by_term() -> Iterator[None]:
    """Let SIGTERM end the search as Ctrl-C does, so that what was found until then is shown."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _sarif(result: Report | Trace) -> str:
    return sarif(result, version("flowguard-aws"))


def _exit_code(report: Report) -> int:
    if report.violations:
        return FOUND
    if not report.is_complete:
        return INTERRUPTED
    return 0 if report.ok else UNJUDGED


def _check_pdb(schedule: str | None, *, as_json: bool) -> None:
    """Refuse a debugger where there is nothing to stop at, or nobody to ask it."""
    if schedule is None or as_json:
        raise SettingsError("--pdb", "it is for one schedule, without --json; give the id of a report: --schedule a2")
    if not sys.stdin.isatty():
        raise SettingsError("--pdb", "standard input is no terminal, so nobody could ask the debugger anything")


def _one(
    flows: list[Explored],
    messages: list[Any],
    schedule: str,
    about: dict[str, Any],
    *,
    as_json: bool,
    html: str | None,
    sarif_file: str | None,
) -> int:
    with code_printing_apart(as_json=as_json):
        trace = replay(flows, messages, schedule, **about)
    _write(html, page_of_schedule(trace) if html else "")
    _write(sarif_file, _sarif(trace) if sarif_file else "", "--sarif")
    if as_json:
        violations = [violation_as_json(violation) for violation in trace.violations]
        unplayed = [place._asdict() for place in trace.unplayed]
        shown = {
            "schedule": schedule, "timeline": trace.timeline, "violations": violations, "unplayed": unplayed,
        }  # fmt: skip
        say_json(json.dumps(shown, ensure_ascii=False))
    else:
        say(str(trace))
    if trace.violations:
        return FOUND
    return 0 if trace.ok else UNJUDGED


class _Expected(NamedTuple):
    """What the messages are meant to end as, by the ``expected.toml`` beside their files.

    ``objects`` are those whose runs fail, where they are run at all: a flow that is not explored runs none, and a newer
    request may end well. ``left`` are the numbers of messages that stay in their queues.
    """

    objects: tuple[str, ...]
    left: frozenset[int]

    @classmethod
    def of(cls, files: tuple[str, ...], events: list[Any]) -> _Expected:
        """Read what is expected of these messages."""
        names = {without_reason(name): name for name in expected_to_fail(files)}
        records = [
            [read.envelope.message_id for read in read_recording(event) if isinstance(read, RecordedRecord)]
            for event in events
        ]
        known = {record for of_event in records for record in of_event}
        left = (number for number, ids in enumerate(records, 1) if ids and names.keys() >= set(ids))
        return cls(tuple(name for name in names if name not in known), frozenset(left))

    def marked(self, not_run: tuple[NotRun, ...]) -> tuple[NotRun, ...]:
        """Return what nothing ran for with a mark at what was meant to be so."""
        return tuple(message._replace(is_expected=message.number in self.left) for message in not_run)


def _write(file: str | None, text: str, option: str = "--html") -> None:
    """Write the text to the file, if one is named."""
    if file is None:
        return
    try:
        Path(file).write_bytes(text.encode())
    except OSError as error:
        raise SettingsError(option, f"{file}: {error.strerror}") from None


def _explored(
    flows: tuple[str, ...], files: tuple[str, ...], messages: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the flows and the files of messages, from either form of the arguments."""
    if messages and flows:
        raise click.UsageError("give each FILE as an argument beside --flow, or leave --flow out beside --messages")
    if messages:
        return files, messages
    if not flows:
        raise click.UsageError("say what is explored: --flow MODULE:NAME")
    return flows, files


def _check_messages(names: Iterable[str], events: Iterable[Any], *, of_flows: bool) -> None:
    """Refuse what no flow can take for a message. A plain handler may be given any value."""
    for name, event in zip(names, events, strict=True):
        if of_flows and not isinstance(event, dict):
            raise SettingsError("FILE", f"{name}: {shown(event)} is no message; give an event or a payload, an object")


def _events(files: Iterable[str]) -> tuple[tuple[str, ...], list[Any]]:
    """Return the names of the messages and the messages themselves."""
    names, events = [], []
    for read in read_files(files):
        if isinstance(read, Unreadable):
            raise SettingsError("FILE", str(read))
        names.append(read[0])
        events.append(read[1])
    return tuple(names), events

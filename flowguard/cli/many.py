"""What the commands with ``--all`` have in common.

They show the count and a sample first, ask, do the work at a pace, and report.

A run is one line of JSON, or of a failure one line on standard error. A terminal shows how far it has come.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from flowguard.aws.run_reader import SeenRun
from flowguard.cli.connection import CannotRun, command_time, with_options
from flowguard.cli.float_range import FiniteRange
from flowguard.cli.interrupted import INTERRUPTED
from flowguard.cli.printing import complain, say, say_json
from flowguard.cli.run_filters import FILTERS, selection_of
from flowguard.cli.table_reading import INDEX, MOST_READ, TableReading, reading_errors
from flowguard.flow import AnyFlow
from flowguard.operate.bulk import FAILED, MOST_IN_A_ROW, Bulk, Chooser, Chosen, End, FailureStreak, Pace, chosen_of
from flowguard.operate.moments import distance
from flowguard.operate.run_facts import standing
from flowguard.text.printable import LONGEST_PART, bounded
from flowguard.wire.notification import to_json

NOT_ALL: Final = 1  # the exit code where something failed, was not looked at, or was not allowed
_NOBODY: Final = "nobody answered, so nothing was done; say --yes where nobody can be asked"

SHOWN: Final = 5
"""Runs of which the sample shows a line."""

_MINUTE: Final = 60  # s

PER_SECOND: Final = 20.0
"""Runs in a second, unless another number is given."""

ALL: Final = click.option("--all", "every", is_flag=True, help="All runs of the flow that pass the filters.")
_PACED: Final = (
    click.option("--per-second", metavar="N", type=FiniteRange(0.001, 1_000), default=PER_SECOND,
                 show_default=True, help="Do no more than so many in a second."),
    click.option("--yes", is_flag=True, help="Do not ask."),
)  # fmt: skip
_BOUNDS: Final = (
    click.option("--limit", metavar="N", type=click.IntRange(1), help="Stop after so many runs."),
    click.option("--most-failures", metavar="N", type=click.IntRange(1), default=MOST_IN_A_ROW, show_default=True,
                 help="Stop where so many runs in a row have failed."),
    click.option("--read", "most_read", metavar="N", type=click.IntRange(1), default=MOST_READ, show_default=True,
                 help="Look at so many items of the table."),
    click.option("--after", metavar="PLACE", help="Go on where this, or a list, has stopped: it printed the place."),
    INDEX,
)  # fmt: skip
_OF_ALL: Final = (*FILTERS, *_PACED, *_BOUNDS)


for_many: Final = with_options(ALL, *_OF_ALL)
"""Gives a command the options of many runs."""


paced: Final = with_options(*_PACED)
"""Gives a command the options of the pace and of the question."""


def check_choice(named: str | None, *, every: bool, what: str = "OBJECT") -> None:
    """Check that the command is for one object, or for all that pass filters. Filters are for many."""
    if every is (named is not None):
        raise click.UsageError(f"name the {what}, or say --all" + (", not both" if every else ""))
    context = click.get_current_context()
    names = {
        "status",
        "stage",
        "older_than",
        "quiet_for",
        "error",
        "tenant",
        "per_second",
        "yes",
        "limit",
        "index",
        "most_failures",
    }
    for option in context.command.params:
        given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if not every and given and option.name in names | {"most_read", "after"}:
            raise click.UsageError(f"{option.opts[0]} goes with --all")


def counted(number: int, what: str = "run") -> str:
    """Return a number with its noun."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def at_pace(number: int, options: Mapping[str, Any]) -> str:
    """Return how long so many take at the pace of the options. Empty where that is not worth a word."""
    minutes = math.ceil(number / options["per_second"] / _MINUTE)
    if minutes <= 1:
        return ""
    return f" It takes about {minutes:,} min at {options['per_second']:g} a second, which --per-second changes."


def may_go_on(question: str, options: Mapping[str, Any]) -> bool:
    """Ask, unless --yes was given."""
    if options["yes"]:
        return True
    if sys.stdin is None:  # it may have been closed
        raise CannotRun(_NOBODY)
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            nothing_done()
        raise CannotRun(_NOBODY) from None
    if not agreed:
        complain("nothing was done")
    return agreed


def nothing_done() -> NoReturn:
    """End the command after Ctrl-C, before it has done anything."""
    complain("interrupted; nothing was done")
    sys.exit(INTERRUPTED)


def pace_of(options: Mapping[str, Any]) -> Pace:
    """Return the pace that was asked for."""
    time = command_time()
    return Pace(options["per_second"], time.clock, time.pause)


def _note_strange_stage(flow: AnyFlow, name: str | None) -> None:
    """Say that the flow has no such stage. It is no error: runs may be at one that a release has removed."""
    stages = [stage.name for stage in flow.stages]
    if name is not None and name not in stages:
        complain(f"{flow.name} has no stage {bounded(name, LONGEST_PART)!r} here, but {', '.join(stages)}")


class Choice:
    """The runs that were chosen. ``place`` is where the next part begins, None behind the last.

    ``is_short`` says that some were not looked at: the table has more, or items that this version cannot read.
    """

    def __init__(self, flow: AnyFlow, fits: Callable[[SeenRun], bool], options: Mapping[str, Any]) -> None:
        _note_strange_stage(flow, options["stage"])
        self._flow = flow.name
        self._limit = options["limit"]
        self._reading = TableReading(options)
        self._now = command_time().clock.now()
        self.chooser = Chooser(selection_of(options, flow.name), self._reading.runs, fits, self._now)
        self.chosen: list[Chosen] = []
        self.sample: list[SeenRun] = []
        self.place: str | None = None
        self.is_short = False
        try:
            self._read()
        except KeyboardInterrupt:
            self._reading.summary()
            nothing_done()

    def _read(self) -> None:
        for seen in self._reading.all_of(self.chooser.selection.wanted):
            if not self.chooser.takes(seen):
                continue
            self.chosen.append(chosen_of(seen))
            if len(self.sample) < SHOWN:
                self.sample.append(seen)
            if len(self.chosen) == self._limit:
                self._reading.summary()
                self.place = self.place_of(self.chosen[-1])
                self.is_short = self._reading.unreadable > 0
                return
        self.place = self._reading.last
        self.is_short = self.place is not None or self._reading.unreadable > 0

    def place_of(self, run: Chosen) -> str:
        """Return the place behind a run."""
        return self._reading.place_of(run.flow, run.object_id, self.chooser.selection.wanted)

    def say_rest(self) -> None:
        """Say where the next part begins, if there may be one."""
        if self.place is not None:
            complain(f"go on with --after {self.place}")

    def question(self, verb: str, options: Mapping[str, Any]) -> str:
        """Return the question whether that is to be done to all."""
        number = len(self.chosen)
        return f"{verb} {counted(number)} of {self._flow}?{at_pace(number, options)}"

    def show(self, verb: str) -> None:
        """Say how many there are, and show the first ones."""
        number = len(self.chosen)
        if self._reading.last is not None:
            complain("the table has more items than --read allows; what follows is of those that were read")
        complain(f"{counted(number)} to {verb}" + (":" if number else ""))
        for seen in self.sample:
            item = seen.item
            where = f"{item.status.value} at {bounded(item.stage, LONGEST_PART)}, hop {item.hop}"
            asked = f"requested {distance(item.requested_at, self._now)}"
            complain(f"  {bounded(seen.object_id, LONGEST_PART)}: {where}, {asked}: {standing(item, self._now)}")
        if number > len(self.sample):
            complain(f"  … and {number - len(self.sample):,} more")


def do_to_many(
    verb: str,
    flow: AnyFlow,
    fits: Callable[[SeenRun], bool],
    act: Callable[[SeenRun], End],
    options: Mapping[str, Any],
    *,
    as_json: bool,
    left_out: Callable[[], Sequence[str]] = tuple,
) -> int:
    """Choose runs and do it to each, if the user agrees. Return the exit code.

    ``left_out`` says of which runs ``fits`` has found that it cannot be done to them, a line for each kind.
    """
    with reading_errors(options):
        choice = Choice(flow, fits, options)
        choice.show(verb)
        for line in (others := left_out()):
            complain(line)
        if choice.chosen and not may_go_on(choice.question(verb, options), options):
            return NOT_ALL
        with progress(len(choice.chosen)) as advance:
            tell = Telling(advance, as_json=as_json).tell
            streak = FailureStreak(options["most_failures"])
            bulk = Bulk(act, choice.chooser, pace_of(options), tell, choice.place_of, options["after"], streak)
            is_done = _worked(bulk, choice, as_json=as_json)
    return 0 if is_done and not bulk.counts[FAILED] and not choice.is_short and not others else NOT_ALL


def _worked(bulk: Bulk, choice: Choice, *, as_json: bool) -> bool:
    """Do it to all that were chosen, and report. Return False where Ctrl-C has ended it."""
    is_done = False
    try:
        bulk.work(choice.chosen)
        is_done = True
    except KeyboardInterrupt:
        complain("interrupted")
    finally:
        if (run := bulk.in_hand) is not None:
            complain(f"{run.flow} of {bounded(run.object_id, LONGEST_PART)} was in hand, and it may be done to it")
        report(bulk.counts, len(choice.chosen), as_json=as_json, in_hand=run is not None)
        if is_done:
            choice.say_rest()
        else:
            if bulk.streak.length:
                complain(f"try those that have failed last once more with {_from_place(bulk.before_failures)}")
            complain(f"go on with {_from_place(bulk.place)}")
    return is_done


def _from_place(place: str | None) -> str:
    return "the same command" if place is None else f"--after {place}"


class Telling:
    """Prints the outcome for each run."""

    def __init__(self, advance: Callable[[], None], *, as_json: bool) -> None:
        self._advance = advance
        self._as_json = as_json

    def tell(self, run: Chosen, end: End) -> None:
        if end.word == FAILED:
            complain(f"{end.word}  {run.flow} of {bounded(run.object_id, LONGEST_PART)}: {end.why}")
        if self._as_json:
            facts = {"flow": run.flow, "object_id": run.object_id, "request_id": run.request_id}
            say_json(to_json({**facts, "end": end.word, "why": end.why}))
        self._advance()


def say_in_hand(letters: int) -> None:
    """Say that Ctrl-C came while letters were sent, or before that was printed."""
    complain(
        f"{counted(letters, 'letter')} in hand may have been sent; the same command sends them again, under their ids"
    )


def report(counts: Mapping[str, int], chosen: int, *, as_json: bool, in_hand: bool = False) -> None:
    """Print how many runs had which outcome. Something may be done to those in hand, of which none is known."""
    nothing = "none was finished" if in_hand else "nothing was done"
    words = ", ".join(f"{number:,} {word}" for word, number in sorted(counts.items())) or nothing
    say(f"{words}, of {counted(chosen)}", err=as_json)


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """Show on standard error how far it has come, where that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():  # it may have been closed
        yield lambda: None
        return
    out = Console(file=sys.stderr, highlight=False, emoji=False)
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)

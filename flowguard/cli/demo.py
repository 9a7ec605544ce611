"""``flowguard demo``: the shipped flows on the shipped samples in six acts. The counts are checked at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click

from flowguard.cli.console import console, line
from flowguard.cli.delivery_lines import show_timeline
from flowguard.cli.printing import say
from flowguard.errors import SettingsError, shown
from flowguard.project.loading import NoSuchFlow, load_flows
from flowguard.sim.crash import Crashes
from flowguard.sim.delivered import Counts, Delivered
from flowguard.sim.final_state import FinalState
from flowguard.sim.points import Point
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.script import Script
from flowguard.sim.world import World

START: Final = 1_767_323_100_020
"""When the first of the samples was sent, ms since 1970."""

EXPECTED: Final = Counts(
    messages=16,
    deliveries=41,
    executions=23,
    effects=19,
    duplicates=9,
    overtaken=2,
    fenced=1,
    refused_writes=1,
    retried=0,
    sent=38,
    crashes=3,
)

HAPPY_END: Final = {
    "runs completed": 6,
    "carts confirmed": 4,
    "carts counted": 4,
    "revenue counted": 100.4,
    "revision of page/tea": 2,
    "dead letters": 0,
}


@dataclass(frozen=True, slots=True)
class Scene:
    """The stage of the acts. ``play`` delivers samples until nothing is left to deliver."""

    world: World
    script: Script
    samples: Path

    def put(self, *names: str) -> None:
        for name in names:
            for record in read_recording(json.loads((self.samples / name).read_text())):
                assert isinstance(record, RecordedRecord)  # noqa: S101 - the tests read every sample
                self.world.put(record.envelope, record.raw)

    def play(self, *names: str) -> Iterator[Delivered]:
        self.put(*names)
        return self.world.run()


Act = Callable[[Scene], Iterator[Delivered]]


def one_run(scene: Scene) -> Iterator[Delivered]:
    """A cart goes through its three functions: asked for by a direct call, passed on through two queues."""
    return scene.play("validate_cart/06-invocation.json")


def three_copies(scene: Scene) -> Iterator[Delivered]:
    """The same message three times. One is carried out; its copies get the verdict DONE, at each hop."""
    return scene.play(*["triggered_cache/05-sns-to-sqs.json"] * 3)


def three_deaths(scene: Scene) -> Iterator[Delivered]:
    """Each function dies between its commit and its sends. Delivered again 30 s later, its work is not done again: what
    it had to send is in the item, and is sent now."""
    scene.script.crashes = Crashes([Point.AFTER_COMMIT])
    yield from scene.play("validate_cart/05-sns-to-sqs.json")
    scene.script.crashes = Crashes()


def overtaken(scene: Scene) -> Iterator[Delivered]:
    """A cart is submitted again at once: the first run is superseded half way. A submission older than both comes last,
    late: it is stale."""
    yield from scene.play("validate_cart/01-request.json", "validate_cart/03-newer.json")
    yield from scene.play("validate_cart/04-older.json")


def too_late(scene: Scene) -> Iterator[Delivered]:
    """A worker is held up just before it would publish. Meanwhile the cache is reset again and rebuilt. When the old
    worker goes on (the last line), its commit is fenced, and its write with it."""
    rows: list[Delivered] = []

    def reset_again() -> None:
        scene.put("triggered_cache/03-newer.json")
        rows.extend(scene.world.run())

    scene.script.meanwhile(Point.BEFORE_COMMIT, "publish", reset_again)
    for row in scene.play("triggered_cache/01-reset.json"):
        yield from rows
        rows.clear()
        yield row


def waiting(scene: Scene) -> Iterator[Delivered]:
    """A cart waits for a search and a filter, which know nothing of flowguard. The search answers twice, somebody
    answers for a search that nobody waits for, and the filter answers last: the run goes on once, with both."""
    return scene.play(
        "validate_cart/09-request-with-a-wish.json",
        "validate_cart/10-search-result.json",
        "validate_cart/11-search-result-again.json",
        "validate_cart/12-search-result-forged.json",
        "validate_cart/13-filter-result.json",
        "validate_cart/14-filter-result-again.json",
    )


UNUSABLE: Final = 2
ACTS: Final[tuple[Act, ...]] = (one_run, three_copies, three_deaths, overtaken, too_late, waiting)


@click.command()
def demo() -> None:
    """Watch the shipped flows survive duplicates, disorder and death on an AWS inside the process.

    The last lines say what was survived, and check the counts. The exit code is 1 where they are not as expected, 2
    where there is no clone with the flows and their samples.
    """
    try:
        sys.exit(1 if _perform() else 0)
    except (NoSuchFlow, SettingsError) as error:
        say(str(error), err=True)
        sys.exit(UNUSABLE)


def _perform() -> list[str]:
    """Play the acts and return what differs from the expected figures."""
    out, rows = console(), []
    with _scene() as scene:
        for number, act in enumerate(ACTS, 1):
            played = list(act(scene))
            rows.extend(played)
            out.print(f"\n{number}. {' '.join((act.__doc__ or '').split())}\n", style="bold")
            show_timeline(out, played, scene.world.start)
        counts, end = Counts.of(scene.world.put_in, rows), happy_end(FinalState.of(scene.world))
    wrong = differences({**asdict(EXPECTED), **HAPPY_END}, {**asdict(counts), **end})
    out.print("")
    for text in wrong or _survived(counts):
        out.print(line(text))
    return wrong


@contextmanager
def _scene() -> Iterator[Scene]:
    """Open a world with the flows and samples of the clone that this file is in, or else of the current directory."""
    root = next(filter(_is_clone, (Path(__file__).parents[2], Path.cwd())), None)
    if root is None:
        here = shown(str(Path.cwd()))
        raise SettingsError("demo", f"the shipped flows and samples are not in {here}; run it in a clone of flowguard")
    script = Script()
    with World(load_flows(directory=root), start=START, passed=script) as world:
        yield Scene(world, script, root / "samples")


def _is_clone(folder: Path) -> bool:
    """Answer whether the directory has the flows and their samples."""
    return all((folder / name / "validate_cart").is_dir() for name in ("flows", "samples"))


def happy_end(left: FinalState) -> dict[str, Any]:
    """Return the items of the tables at the end."""
    totals = left.tables["cart-totals"]
    return {
        "runs completed": sum(run.status == "COMPLETED" for run in left.runs),
        "carts confirmed": sum(cart["status"] == "CONFIRMED" for cart in left.tables["carts"]),
        "carts counted": sum(day["confirmed"] for day in totals),
        "revenue counted": sum(day["revenue"] for day in totals),
        "revision of page/tea": next(
            (table["revision"] for table in left.tables["cache-entries"] if table["cache_key"] == "page/tea"), None
        ),
        "dead letters": len(left.dead_letters),
    }


def differences(expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """Return a line for each figure that differs from the expected one."""
    return [
        f"NOT AS EXPECTED: {name.replace('_', ' ')}: {actual.get(name)} instead of {value}"
        for name, value in expected.items()
        if actual.get(name) != value
    ]


def _survived(counts: Counts) -> list[str]:
    return [
        f"Survived: {counts.duplicates} duplicates, {counts.crashes} deaths, {counts.overtaken} messages too old, "
        f"{counts.fenced} worker too late.",
        "Every cart was confirmed and counted once, the newest content is published, nothing was lost.",
        f"{counts.messages} messages in, {counts.executions} executions, {counts.effects} effects, "
        f"{counts.duplicates} duplicates refused, {counts.refused_writes} fenced write, {counts.sent} sent: "
        "as expected.",
    ]

"""The command ``flowguard resume``."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from flowguard.cli.connection import flow_class
from flowguard.cli.paused_stages import chosen, of_stages, pauses_of
from flowguard.cli.printing import complain, say_json
from flowguard.cli.run_lines import say_line
from flowguard.operate.moments import iso
from flowguard.operate.stage_pauses import LEAST_AT_ONCE, MOST_AT_ONCE, Resumed
from flowguard.wire.notification import to_json

NOT_DONE: Final = 1  # the exit code where a stage was not paused


@click.command()
@of_stages
@click.option(
    "--at-once",
    metavar="N",
    type=click.IntRange(LEAST_AT_ONCE, MOST_AT_ONCE),
    help="At most so many batches of each stage at work, until it is resumed without this.",
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each stage.")
def resume(flow: str, *, names: tuple[str, ...], at_once: int | None, as_json: bool, **options: Any) -> None:
    """Resume a flow that is paused, or some of its stages.

    The event source mappings are turned on again, each with the largest concurrency that it had. With --at-once it has
    that one for now: what has piled up is drained slowly. Resume again without it when the queue is empty.

    The exit code is 0 where all stages go on, 1 where one of them was not paused, and 2 where the command cannot be
    run, or was stopped by AWS: it may be repeated.
    """
    loaded = flow_class(flow)
    stages = chosen(loaded, names)
    with pauses_of(loaded, options) as pauses:
        done = []
        for resumed in pauses.resume(stages, at_once):
            done.append(resumed)
            _say(loaded.name, resumed, at_once, as_json=as_json)
    sys.exit(0 if all(resumed.pause is not None for resumed in done) else NOT_DONE)


def _say(flow: str, resumed: Resumed, at_once: int | None, *, as_json: bool) -> None:
    pause, inbox = resumed.pause, resumed.inbox
    if as_json:
        facts = {
            "flow": flow,
            "stage": resumed.stage,
            "verdict": "NOT_PAUSED" if pause is None else "RESUMED",
            "paused_since": None if pause is None else iso(pause.since),
            "why": None if pause is None else pause.why,
            "at_once": at_once,
            "queue": inbox.queue,
            "messages": inbox.messages,
            "functions": resumed.functions,
        }
        say_json(to_json(facts))
    elif pause is None:
        complain(f"{flow} {resumed.stage}: it was not paused, and nothing was changed")
    else:
        slowly = "" if at_once is None else f", {at_once} batches at once; resume again without --at-once"
        say_line(f"RESUMED  {flow} {resumed.stage}: about {inbox.messages:,} messages wait in {inbox.queue}{slowly}")
    if pause is not None and not resumed.functions:
        complain(
            f"{flow} {resumed.stage}: the mappings that were turned off are gone; 'flowguard doctor' names those there"
        )

"""The command ``flowguard resume``."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from flowguard.aws.pause_rows import Pause
from flowguard.cli.connection import flow_class
from flowguard.cli.paused_keys import key_of, key_pauses, shards_in
from flowguard.cli.paused_stages import check_stages, of_stages, pauses_of, rows_of
from flowguard.cli.printing import complain, say_json
from flowguard.cli.run_lines import say_line
from flowguard.lanes import LEAST_AT_ONCE
from flowguard.operate.moments import iso
from flowguard.operate.stage_pauses import MOST_AT_ONCE, StagePauses
from flowguard.wire.notification import to_json
from flowguard.worker.place_store import PlaceKey

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
def resume(
    flow: str, *, names: tuple[str, ...], key: str | None, at_once: int | None, as_json: bool, **options: Any
) -> None:
    """Resume a paused flow, some stages or one key.

    The event source mappings that 'flowguard pause' has turned off are turned on again. With --at-once each of them has
    that largest concurrency for now, where it had none or a larger one: what has piled up is drained slowly. Resume
    again without it when the queue is empty.

    With --key its line moves on within 15 minutes, in its order and as its limit lets it.

    --stage may also name a stage that the flow has no more, but a pause. The exit code is 0 where all stages go on, 1
    where one of them was not paused or its mappings are gone, and 2 where the command cannot be run, or was stopped by
    AWS: it may be repeated.
    """
    loaded = flow_class(flow)
    if key is not None:
        if at_once is not None:
            raise click.UsageError("--at-once is for queues; a key goes on as its limit lets it")
        place = key_of(loaded, names, key)
        sys.exit(0 if _resume_key(place, shards_in(loaded, place), options, as_json=as_json) else NOT_DONE)
    with pauses_of(loaded, options) as pauses:
        there = {pause.stage: pause for pause in pauses.now() if pause.flow == loaded.name}
        check_stages(loaded, names, there)
        rows = rows_of(loaded)
        known = [row.name for row in rows]
        left = [stage for stage in there if stage not in known and (not names or stage in names)]
        done = [
            _say(loaded.name, stage, there.get(stage), pauses, at_once, as_json=as_json)
            for stage in [*(row.name for row in rows if row.is_meant(names)), *left]
        ]
    sys.exit(0 if all(done) else NOT_DONE)


def _resume_key(key: PlaceKey, shards: int, options: dict[str, Any], *, as_json: bool) -> bool:
    """Resume a key and print what was done. Answer whether it was paused."""
    with key_pauses(options) as pauses:
        pause = pauses.resume(key, shards)
    if as_json:
        facts = {
            "flow": key.flow,
            "stage": key.stage,
            "key": key.place,
            "verdict": "NOT_PAUSED" if pause is None else "RESUMED",
            "paused_since": None if pause is None else iso(pause.since),
            "why": None if pause is None else pause.why,
        }
        say_json(to_json(facts))
    elif pause is not None:
        say_line(f"RESUMED  {key.flow} {key.stage} {key.place}; its line moves on within 15 minutes")
    if pause is None:
        complain(f"{key.flow} {key.stage} {key.place}: it was not paused, and nothing was changed")
    return pause is not None


def _say(
    flow: str, stage: str, pause: Pause | None, pauses: StagePauses, at_once: int | None, *, as_json: bool
) -> bool:
    """Resume a stage and print what was done. Answer whether it goes on."""
    resumed = None if pause is None else pauses.resume(pause, at_once)
    if as_json:
        facts = {
            "flow": flow,
            "stage": stage,
            "verdict": "NOT_PAUSED" if pause is None else "RESUMED",
            "paused_since": None if pause is None else iso(pause.since),
            "why": None if pause is None else pause.why,
            "at_once": at_once,
            "functions": [] if resumed is None else resumed.functions,
            "mappings_gone": 0 if resumed is None else resumed.gone,
        }
        say_json(to_json(facts))
    elif resumed is not None:
        slowly = "" if at_once is None else f", at most {at_once} batches at once; resume again without --at-once"
        say_line(f"RESUMED  {flow} {stage}{slowly}")
    if resumed is None:
        complain(f"{flow} {stage}: it was not paused, and nothing was changed")
        return False
    if not resumed.pause.before:
        complain(f"{flow} {stage}: its mappings were off before the pause, and stay off")
    elif resumed.gone:
        complain(f"{flow} {stage}: {resumed.gone} of its mappings are gone; 'flowguard doctor' names those there")
    return bool(resumed.mappings) and not resumed.gone

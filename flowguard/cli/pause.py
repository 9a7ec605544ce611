"""The command ``flowguard pause``."""

from __future__ import annotations

from typing import Any, Final

import click

from flowguard.cli.connection import command_time, flow_class
from flowguard.cli.paused_stages import check_stages, inbox_name, of_stages, pauses_of
from flowguard.cli.printing import say_json
from flowguard.cli.run_lines import say_line
from flowguard.operate.moments import duration, iso
from flowguard.operate.stage_pauses import Paused
from flowguard.wire.notification import to_json

LONGEST_WHY: Final = 200


@click.command()
@of_stages
@click.option("--why", metavar="TEXT", required=True, help="Why, for those who look: up to 200 characters.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each stage.")
def pause(flow: str, *, names: tuple[str, ...], why: str, as_json: bool, **options: Any) -> None:
    """Pause a flow or stages of it. Messages to them wait in their queues.

    The event source mappings of the queues are turned off, which takes Lambda up to a minute. Work in progress ends.
    Waiting messages cost no attempt and no receive, and stay until 'flowguard resume', but no longer than SQS keeps
    them. Deadlines and answers that travel through other queues of the flow go on.

    What is done already stays, so the command may be repeated. The exit code is 0 where all stages are paused, and 2
    where the command cannot be run, or was stopped by AWS: each stage that is paused was said before.
    """
    _check_why(why)
    loaded = flow_class(flow)
    check_stages(loaded, names, [stage.name for stage in loaded.stages])
    with pauses_of(loaded, options) as pauses:
        for stage in loaded.stages:
            if not names or stage.name in names:
                now = command_time().clock.now()
                _say(pauses.pause(stage.name, inbox_name(loaded, stage), why.strip(), now), as_json=as_json)


def _check_why(why: str) -> None:
    if not why.strip() or len(why) > LONGEST_WHY:
        raise click.BadParameter(f"it takes 1 to {LONGEST_WHY} characters", param_hint="--why")
    try:
        why.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("it has a character that is no Unicode", param_hint="--why") from None


def _say(paused: Paused, *, as_json: bool) -> None:
    pause_, inbox = paused.pause, paused.inbox
    if as_json:
        facts = {
            "flow": pause_.flow,
            "stage": pause_.stage,
            "verdict": "PAUSED",
            "since": iso(pause_.since),
            "why": pause_.why,
            "queue": inbox.queue,
            "messages": inbox.messages,
            "kept_for_seconds": round(inbox.kept_for.total_seconds()),
            "functions": paused.functions,
        }
        say_json(to_json(facts))
        return
    before = "" if paused.is_new else f" since {iso(pause_.since)}: {pause_.why}"
    kept = duration(round(inbox.kept_for.total_seconds()))
    say_line(f"PAUSED  {pause_.flow} {pause_.stage}{before}")
    say_line(f"        {inbox.queue} has about {inbox.messages:,} messages, and keeps each for {kept}")

"""The command ``flowguard pause``."""

from __future__ import annotations

from typing import Any, Final

import click

from flowguard.cli.connection import command_time, flow_class
from flowguard.cli.paused_keys import check_limit, key_of, key_pauses
from flowguard.cli.paused_stages import check_stages, of_stages, pauses_of, rows_of
from flowguard.cli.printing import say_json
from flowguard.cli.run_lines import say_line
from flowguard.flow import AnyFlow
from flowguard.operate.moments import duration, iso
from flowguard.operate.stage_pauses import Paused
from flowguard.wire.notification import to_json
from flowguard.worker.place_store import PlaceKey

LONGEST_WHY: Final = 200


@click.command()
@of_stages
@click.option("--why", metavar="TEXT", required=True, help="Why, for those who look: up to 200 characters.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each stage.")
def pause(flow: str, *, names: tuple[str, ...], key: str | None, why: str, as_json: bool, **options: Any) -> None:
    """Pause a flow, some stages or one key. Messages to them wait in their queues.

    The event source mappings of the queues are turned off, which takes Lambda up to a minute. Work in progress ends.
    Waiting messages cost no attempt and no receive, and stay until 'flowguard resume', but no longer than SQS keeps
    them. Deadlines and answers that travel through other queues of the flow go on.

    With --key only runs with that value of a limit (limit=PerKey(...)) of the stage begin nothing there. They stand in
    its line, however long, and cost a few calls each ten minutes; all others go on.

    What is done already stays, so the command may be repeated. The exit code is 0 where all stages are paused, and 2
    where the command cannot be run, or was stopped by AWS: each stage that is paused was said before.
    """
    _check_why(why)
    loaded = flow_class(flow)
    if key is not None:
        _pause_key(loaded, key_of(loaded, names, key), why.strip(), options, as_json=as_json)
        return
    check_stages(loaded, names)
    with pauses_of(loaded, options) as pauses:
        for row in rows_of(loaded):
            if row.is_meant(names):
                now = command_time().clock.now()
                _say(pauses.pause(row.name, row.queue, why.strip(), now), as_json=as_json)


def _pause_key(flow: AnyFlow, key: PlaceKey, why: str, options: dict[str, Any], *, as_json: bool) -> None:
    shards = check_limit(flow, key).shards
    with key_pauses(options) as pauses:
        paused = pauses.pause(key, why, command_time().clock.now(), shards)
    pause_ = paused.pause
    if as_json:
        facts = {
            "flow": pause_.flow,
            "stage": pause_.stage,
            "key": pause_.place,
            "verdict": "PAUSED",
            "since": iso(pause_.since),
            "why": pause_.why,
            "at_work": paused.at_work,
            "in_line": paused.in_line,
        }
        say_json(to_json(facts))
        return
    before = "" if paused.is_new else f" since {iso(pause_.since)}: {pause_.why}"
    say_line(f"PAUSED  {pause_.flow} {pause_.stage} {pause_.place}{before}")
    say_line(f"        {paused.at_work} at work and {paused.in_line} in line")


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

"""The command ``flowguard probe``."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Final

import boto3
import click
from botocore.exceptions import BotoCoreError, ClientError

from flowguard.cli.console import console, line
from flowguard.cli.printing import say_json
from flowguard.probe.engine_of import NAMES, SERVED, opened
from flowguard.probe.probed import AT_ONCE, Ended, Finding, as_json, can_run, chosen, run_all
from flowguard.probe.saw import Probe

FOUND: Final = 1  # the exit code where something is not as the table says
_STYLES: Final = {Ended.AS_DESCRIBED: "green", Ended.DIFFERS: "yellow", Ended.CANNOT: "dim"}


class NotProbed(click.ClickException):
    """Nothing could be asked."""

    exit_code = click.UsageError.exit_code


@click.command()
@click.option("--only", metavar="NAME", multiple=True, help="A row by its name, or all that begin so. Can be repeated.")
@click.option(
    "--engine",
    "name",
    metavar="NAME",
    type=click.Choice(NAMES),
    default="memory",
    show_default=True,
    help=f"What is asked: {', '.join(NAMES)}.",
)
@click.option("--endpoint-url", metavar="URL", help="Where dynamodb-local, elasticmq or ministack is.")
@click.option("--region", metavar="NAME", help="AWS's region; the environment's or the profile's by default.")
@click.option("--yes", is_flag=True, help="Begin at AWS without asking.")
@click.option("--list", "listed", is_flag=True, help="Show what would be asked, and what it costs, and ask nothing.")
@click.option("--json", "as_lines", is_flag=True, help="A line of JSON for each row.")
def probe(
    only: tuple[str, ...],
    *,
    name: str,
    endpoint_url: str | None,
    region: str | None,
    yes: bool,
    listed: bool,
    as_lines: bool,
) -> None:
    """Ask AWS or an engine whether it does what flowguard assumes.

    Each row of "What AWS does" that a program can decide has one. It makes its own resources, with names and a tag
    that begin with fgprobe- and flowguard-probe, asks, compares, and deletes them, also when interrupted. It calls for
    nothing else. At AWS the command says first what it will cost, and asks.

    The exit code is 0 where everything is as the table says, 1 where something is not or could not be deleted, 2 where
    nothing could be asked.
    """
    if name in SERVED and endpoint_url is None and not listed:
        raise click.UsageError(f"{name} is served: give its --endpoint-url")
    if name not in SERVED and endpoint_url is not None:
        raise click.UsageError(f"{name} has no address")
    if not (probes := chosen(only)):
        raise click.UsageError(f"no row begins with {' or '.join(only)}; --list shows those that have a program")
    if listed:
        _show_list(probes)
        return
    if name == "aws":
        _ask(probes, region, yes=yes)
    findings: list[Finding] = []
    with _stopped() as stop, opened(name, endpoint_url, region, stop) as engine:
        able = [program for program in probes if can_run(program, engine)]
        if not able:
            called = {service for program in probes for service in program.services}
            missing = ", ".join(sorted(called - {*(engine.services or ())}))
            raise NotProbed(f"{name} has no {missing}, which the programs call; choose another engine")
        for finding in run_all(able, engine, stop):
            findings.append(finding)
            _say(finding, as_lines=as_lines)
    if not as_lines:
        console().print(line(_summary(findings)), soft_wrap=True)
    sys.exit(FOUND if any(not finding.is_expected or finding.left for finding in findings) else 0)


def _summary(findings: list[Finding]) -> str:
    """Count the endings, and those that are not as the table says of the engine. What was interrupted says nothing."""
    endings = Counter(finding.ended.value for finding in findings)
    counts = ", ".join(f"{count} {ended}" for ended, count in endings.most_common())
    unexpected = sum(not finding.is_expected and finding.ended is not Ended.INTERRUPTED for finding in findings)
    programs = "1 program" if len(findings) == 1 else f"{len(findings)} programs"
    return f"{programs}: {counts}; {unexpected} not as the table says"


def _ask(probes: list[Probe], region: str | None, *, yes: bool) -> None:
    """Say what the programs cost and ask whether to begin."""
    try:
        session = boto3.session.Session(region_name=region)
        account = session.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        raise NotProbed(f"AWS does not know who asks: {error}") from None
    longest, together = max(program.seconds for program in probes), sum(program.seconds for program in probes) / AT_ONCE
    minutes = max(longest, together) / 60
    cents = sum(program.cents for program in probes)
    click.echo(
        f"{len(probes)} programs in account {account}, region {session.region_name}: about {minutes:.0f} minutes, "
        f"at most {cents:.0f} US cents.\nEach makes and deletes its own resources, named fgprobe-…",
        err=True,
    )
    if not yes:
        click.confirm("Begin?", abort=True, err=True)


@contextmanager
def _stopped() -> Iterator[Event]:
    """Set an event at Ctrl-C, SIGTERM or where the terminal is closed.

    The programs see it at their next call, and delete what they have made.
    """
    stop = Event()

    def note(number: int, frame: object) -> None:
        if not stop.is_set():
            with suppress(OSError):  # the terminal may be gone
                click.echo("Interrupted: deleting what was made.", err=True)
        stop.set()

    kept = {number: signal.signal(number, note) for number in _stops()}
    try:
        yield stop
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _stops() -> Iterator[int]:
    """Yield the signals that stop the command. Under nohup it outlives its terminal."""
    yield from (signal.SIGINT, signal.SIGTERM)
    hang_up: int | None = getattr(signal, "SIGHUP", None)  # Windows has none
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        yield hang_up


def _show_list(probes: list[Probe]) -> None:
    out = console()
    for program in probes:
        out.print(line(f"{program.name}: {program.about}"), soft_wrap=True)
    out.print(
        line(f"{len(probes)} programs, at most {sum(program.cents for program in probes):.0f} US cents"), soft_wrap=True
    )


def _say(finding: Finding, *, as_lines: bool) -> None:
    if as_lines:
        say_json(json.dumps(as_json(finding), ensure_ascii=False))
        return
    out = console()
    is_told = finding.is_expected or finding.ended is Ended.INTERRUPTED
    unexpected = "" if is_told else f" (the table says: {finding.expected})"
    text = f"{finding.ended.value:12} {finding.name}: {finding.what}{unexpected}"
    out.print(line(text, _STYLES.get(finding.ended, "bold red") if finding.is_expected else "bold red"), soft_wrap=True)
    for name in finding.left:
        out.print(line(f"  could not be deleted: {name}", "bold red"), soft_wrap=True)

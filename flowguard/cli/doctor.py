"""The command ``flowguard doctor``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import boto3
import click

from flowguard.cli.console import console, line
from flowguard.cli.iac import read_needs
from flowguard.cli.mailbox import is_dev
from flowguard.cli.printing import complain, say_json
from flowguard.clock import SystemClock
from flowguard.deploy.examination import examine
from flowguard.deploy.finding import LiveFinding, Severity
from flowguard.deploy.live import LiveAccount, NotLive
from flowguard.deploy.planned.account import PlannedAccount
from flowguard.deploy.planned.imported import IMPORTED, stand_ins
from flowguard.deploy.planned.legible import legible
from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import Resources
from flowguard.deploy.planned.template_file import read_template
from flowguard.deploy.planned.terraform_plan import read_plan
from flowguard.deploy.problems import CannotDeploy

FOUND: Final = 1  # the exit code where something is wrong
RUNS: Final = 1_000  # items that are looked through for runs, where the command says no other number
_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


_DEV: Final = (
    "this is flowguard dev, not AWS: it makes what flows need on this machine, without roles, policies and alarms; "
    "what is missing here is not missing in a deployment"
)


class NotExamined(click.ClickException):
    """Nothing could be examined."""

    exit_code = click.UsageError.exit_code


@click.command()
@click.argument("modules", metavar="MODULE[:FLOW]...", nargs=-1, required=True)
@click.option("--options", type=click.Path(path_type=Path), help="The TOML file that 'flowguard iac' takes.")
@click.option("--endpoint-url", metavar="URL", help="Where all services are, if not at AWS.")
@click.option("--region", metavar="NAME", help="AWS's region; the environment's or the profile's by default.")
@click.option(
    "--runs", type=click.IntRange(min=0), help=f"How many items to look through for runs; {RUNS:,} by default."
)
@click.option("--template", type=click.Path(path_type=Path), help="A template of CloudFormation or SAM to look at.")
@click.option(
    "--parameter",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    help="A parameter of the template. import:NAME is what another stack exports.",
)
@click.option("--terraform-plan", "plan", type=click.Path(path_type=Path), help="The JSON of a plan to look at.")
@click.option("--warnings-ok", is_flag=True, help="The exit code is 0 where there are warnings and no errors.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each finding.")
def doctor(  # noqa: PLR0913 - the options of a command
    modules: tuple[str, ...],
    *,
    options: Path | None,
    endpoint_url: str | None,
    region: str | None,
    runs: int | None,
    template: Path | None,
    parameters: tuple[str, ...],
    plan: Path | None,
    warnings_ok: bool,
    as_json: bool,
) -> None:
    """Compare the live resources with what the handlers of each MODULE need.

    Nothing is changed. Each finding says what is wrong, why that matters, and how to fix it. A resource that may not
    be read is a note.

    With --template or --terraform-plan, a file is looked at in place of AWS, before anything is live: a template, or
    what 'terraform show -json' says of a plan. What the file does not say is a note.

    The exit code is 0 where nothing is wrong, 1 where there is an error or a warning, 2 where nothing could be
    examined. Notes do not count.
    """
    _check_places(template=template, terraform_plan=plan, endpoint_url=endpoint_url)
    if template is not None or plan is not None:
        _check_live_alone(region=region, runs=runs)
    if parameters and template is None:
        raise click.UsageError("--parameter goes with --template")
    given, most_runs = _parsed(parameters), RUNS if runs is None else runs
    if is_dev(endpoint_url):
        complain(_DEV)
    try:
        if template is None and plan is None:
            live = LiveAccount(boto3.session.Session(region_name=region), endpoint_url)
            needed, chosen = read_needs(modules, options, live.export)
            looked = examine(needed, chosen, live, now=SystemClock().now(), most_runs=most_runs)
        else:
            needed, chosen = read_needs(modules, options, lambda name: given.get(f"{IMPORTED}{name}"))
            account = PlannedAccount(_planned(template, {**stand_ins(chosen.imports), **given}, plan), needed)
            looked = (
                legible(each, chosen.imports)
                for each in examine(needed, chosen, account, now=SystemClock().now(), most_runs=most_runs)
            )
        findings = list(looked)
    except (NotLive, NotReadable, CannotDeploy) as error:
        raise NotExamined(str(error)) from None
    if as_json:
        for finding in findings:
            say_json(json.dumps(finding.as_json(), ensure_ascii=False))
    else:
        _show(findings)
    bad = {Severity.ERROR} if warnings_ok else {Severity.ERROR, Severity.WARNING}
    sys.exit(FOUND if any(finding.severity in bad for finding in findings) else 0)


def _check_places(**places: object) -> None:
    """Refuse two of the options that say where to look."""
    given = [f"--{name.replace('_', '-')}" for name, place in places.items() if place is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} are two places to look at; give one")


def _check_live_alone(**options: object) -> None:
    """Refuse the options that a file has no use for."""
    if idle := [f"--{name}" for name, given in options.items() if given is not None]:
        raise click.UsageError(f"{' and '.join(idle)}: a file is for any region, and has no runs; leave it out")


def _planned(template: Path | None, parameters: Mapping[str, str], plan: Path | None) -> Resources:
    """Read what a file will make."""
    return read_template(template, parameters) if template is not None else read_plan(Path(str(plan)))


def _parsed(parameters: tuple[str, ...]) -> dict[str, str]:
    pairs = [parameter.partition("=") for parameter in parameters]
    if wrong := [name for name, sign, _ in pairs if not (name and sign)]:
        raise click.UsageError(f"--parameter {wrong[0]} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _show(findings: list[LiveFinding]) -> None:
    out = console()
    for finding in findings:
        head = f"{finding.severity.value}: {finding.resource}: {finding.what} [{finding.rule}]"
        out.print(line(head, _STYLES[finding.severity]), soft_wrap=True)
        out.print(line(f"  why: {finding.why}"), soft_wrap=True)
        out.print(line(f"  fix: {finding.fix}"), soft_wrap=True)
    counts = ", ".join(f"{sum(finding.severity is each for finding in findings)} {each.value}s" for each in Severity)
    out.print(line(counts), soft_wrap=True)

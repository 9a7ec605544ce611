"""The command ``flowguard iac``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import click

from flowguard.cli.formats import check_one_format
from flowguard.cli.printing import complain, say, say_json
from flowguard.deploy.as_json import described
from flowguard.deploy.audit import audited, audited_json
from flowguard.deploy.cloudformation import cloudformation, nested, sam
from flowguard.deploy.derive import needs_of
from flowguard.deploy.foreign_policies import policies_of_others
from flowguard.deploy.found import find_functions
from flowguard.deploy.imports import Find, shown
from flowguard.deploy.key_policy import key_policies
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.regions import in_one_region
from flowguard.deploy.terraform import terraform_json, with_removed
from flowguard.errors import DefinitionError, SettingsError
from flowguard.names.at_aws import AS_IN_CODE
from flowguard.project.loading import NoSuchFlow

FORMATS: Final[Mapping[str, Callable[[Deployment, DeployOptions], str]]] = {
    "cloudformation": cloudformation,
    "sam": sam,
    "terraform-json": terraform_json,
}


_UNDER_A_RULE: Final = re.compile(r'"FLOWGUARD_NAMES": (\{\s*"Fn::Sub": )?"(?!\*[,"])')
"""A function of a template under a rule of the names. Single names stand behind the rule ``*``."""


class NoTemplate(click.ClickException):
    """The modules or options cannot be deployed. Nothing was written."""

    exit_code = click.UsageError.exit_code


def read_needs(
    modules: tuple[str, ...], options_file: Path | None, find: Find = lambda _: None
) -> tuple[Deployment, DeployOptions]:
    """Describe the deployment of modules. Raises :class:`NoTemplate` for what cannot be deployed.

    ``find`` tells the values of what other stacks export.
    """
    try:
        read = DeployOptions.read(options_file, find) if options_file is not None else DeployOptions()
        options = read.of_environment(os.environ)
        return needs_of(find_functions(modules), options), options
    except (CannotDeploy, NoSuchFlow, DefinitionError, SettingsError) as error:
        raise NoTemplate(str(error)) from None


@click.command()
@click.argument("modules", metavar="MODULE[:FLOW]...", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice([*FORMATS]), default="cloudformation", help="What it is for.")
@click.option("--options", type=click.Path(path_type=Path), help="A TOML file with the options of the deployment.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; standard output by default.")
@click.option(
    "--split", type=click.Path(path_type=Path), help="A directory for a template of nested stacks, one for each flow."
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON that says what is needed, and no template.")
@click.option("--audit", is_flag=True, help="Who may do what to what, and no template: in words, or with --json.")
@click.option("--key-policy", is_flag=True, help="What the policy of each key needs, as JSON, and no template.")
@click.option("--foreign-policies", is_flag=True, help="What policies of other accounts' resources need, as JSON.")
def iac(  # noqa: PLR0913 - the options of a command
    modules: tuple[str, ...],
    *,
    form: str,
    options: Path | None,
    output: Path | None,
    split: Path | None,
    as_json: bool,
    audit: bool,
    key_policy: bool,
    foreign_policies: bool,
) -> None:
    """Write the template of the AWS resources that the handlers of each MODULE need.

    A MODULE is where a lambda_handler(…), callback_handler(…), start_handler(…) or dlq_handler(…) is, or a function
    under @once; with :FLOW only those that serve that flow. The template has tables, queues, topics, functions with
    their event sources, alarms, and for each function a role with the least permissions. Equal modules and options give
    equal bytes.

    With --split, the template has a nested stack for each flow, and one for what flows share: template.json in the
    directory, beside those of the stacks. 'aws cloudformation package' takes it.

    Source that could not be read is named on standard error. With --format terraform-json and -o, what an earlier
    template in that file made, and this one does not, stays at AWS if it holds messages, items, keys or schedules.

    The exit code is 0, or 2 where something cannot be deployed; then nothing is written.
    """
    check_one_format("form", "as_json", "key_policy", "foreign_policies")
    check_one_format("form", "audit", "key_policy", "foreign_policies")
    check_one_format("split", "output", what="places to write to")
    for other in ("as_json", "audit", "key_policy", "foreign_policies"):
        check_one_format("split", other, what="things to write")
    if split is not None and form != "cloudformation":
        raise click.UsageError(f"--split goes with --format cloudformation; it writes no nested stacks of {form}")
    needed, chosen = read_needs(modules, options)
    _check_region(needed, chosen)
    if split is not None:
        _write_stacks(split, needed, chosen)
        return
    of_policies = key_policies if key_policy else policies_of_others if foreign_policies else None
    is_template = not (as_json or audit or of_policies)
    try:
        text = of_policies(needed, chosen) if of_policies else _text(needed, chosen, form, as_json=as_json, audit=audit)
    except CannotDeploy as error:
        raise NoTemplate(shown(str(error), chosen.imports)) from None
    text = shown(text, chosen.imports)
    for note in needed.notes:
        complain(shown(note, chosen.imports))
    if output is not None and is_template:
        _tell_of_rule([output], needed)
    if output is not None:
        text = _left_over(output, text) if form == "terraform-json" and is_template else text
        _write(output, text if text.endswith("\n") else f"{text}\n")
    elif as_json:
        say_json(text)
    else:
        say(text.removesuffix("\n"))


def _check_region(needed: Deployment, options: DeployOptions) -> None:
    """Refuse what is of another region. The doctor reports it, and ``dev`` has one region for all."""
    try:
        in_one_region(needed, options)
    except CannotDeploy as error:
        raise NoTemplate(shown(str(error), options.imports)) from None


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise NoTemplate(f"{file} cannot be written: {error.strerror}") from None


def _write_stacks(directory: Path, needed: Deployment, options: DeployOptions) -> None:
    try:
        templates = nested(needed, options)
    except CannotDeploy as error:
        raise NoTemplate(shown(str(error), options.imports)) from None
    for note in needed.notes:
        complain(shown(note, options.imports))
    _tell_of_rule(directory.glob("*.json"), needed)
    for name, text in templates.items():
        _write(directory / name, text)


def _text(needed: Deployment, options: DeployOptions, form: str, *, as_json: bool, audit: bool) -> str:
    if audit:
        return audited_json(needed, options) if as_json else audited(needed, options)
    return described(needed, options) if as_json else FORMATS[form](needed, options)


def _left_over(output: Path, text: str) -> str:
    """Return the configuration with its ``removed`` blocks, and name on standard error what stays at AWS for them."""
    text, dropped = with_removed(_before(output), text)
    for address in dropped:
        complain(
            f"{address} is not in {output} any more; a removed block lets Terraform (1.7 or later) forget it, so "
            f"it stays at AWS with its messages and items; once it is empty, delete it there"
        )
    return text


def _tell_of_rule(files: Iterable[Path], needed: Deployment) -> None:
    """Say what is lost where the earlier templates in files had a rule of the names, and these have none."""
    has_no_rule = needed.at_aws.rule == AS_IN_CODE.rule
    if has_no_rule and needed.makes_scheduler_role and any(map(_UNDER_A_RULE.search, map(_before, files))):
        complain(
            "the template that was there had a rule of the names, and this one has none: the scheduler's role sends to "
            "queues of the code's names alone, and what is scheduled already is lost when it is due; let it be sent "
            "before, or make a new stack or state"
        )


def _before(file: Path) -> str:
    """Return the text of a file that is written over. It is empty where the file is new, or holds something else."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""

"""The command ``flowguard check``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

from flowguard.cli.formats import check_one_format
from flowguard.cli.printing import say, say_json
from flowguard.deploy.prices import Prices
from flowguard.lint.checking import check_files, files_of
from flowguard.lint.importing import Imported, Unneeded, imported
from flowguard.lint.rules import NOT_IMPORTED, UNREADABLE, CodeFinding
from flowguard.lint.sarif import sarif
from flowguard.text.printable import one_line

FOUND: Final = 1  # the exit code where a rule is broken
BAD: Final = 2  # where a file cannot be read


@click.command()
@click.argument("paths", metavar="PATHS...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each finding.")
@click.option("--sarif", "as_sarif", is_flag=True, help="One SARIF log, for code hosts.")
@click.option("--no-import", is_flag=True, help="Read the files only, and run nothing of them.")
def check(paths: tuple[Path, ...], *, as_json: bool, as_sarif: bool, no_import: bool) -> None:
    """Find faults in the source of handlers.

    PATHS are files, or directories of *.py; below those, what is hidden and virtual environments are left out. The
    stages of each file are checked, the functions under @once, and the functions that get their step or payload.
    "# flowguard: ignore[FG102]" with a reason after it leaves out a line. Each file that imports flowguard is imported,
    in a process of its own, to see that Lambda could. Stages that need no lease are named then, with what they would
    save.

    The exit code is 0 where nothing is found, 1 where something is, 2 where a file cannot be read or imported.
    """
    check_one_format("as_json", "as_sarif")
    files = list(files_of(paths))
    if not files:
        raise click.UsageError(f"no *.py in {', '.join(map(str, paths))}")
    findings = check_files(files)
    shown = Imported() if no_import else imported(files)
    findings += shown.problems
    if as_sarif:
        say(sarif(findings, version("flowguard-aws")))
    for finding in [] if as_sarif else findings:
        if as_json:
            say_json(json.dumps(_facts(finding), ensure_ascii=False))
        else:
            say(one_line(f"{finding.path}:{finding.line}:{finding.column}: {finding.rule_id} {finding.text}"))
            say(f"    {finding.rule.why}; {finding.rule.fix} (docs/{finding.rule.page})")
    if not as_json and not as_sarif:
        for line in _proposals(shown.unneeded):
            say(one_line(line))
        say(f"{_counted(len(findings), 'finding')} in {_counted(len(files), 'file')}")
    sys.exit(
        BAD if any(finding.rule in (UNREADABLE, NOT_IMPORTED) for finding in findings) else FOUND if findings else 0
    )


def _proposals(stages: Sequence[Unneeded]) -> Iterator[str]:
    """Say what stages may save. That is no fault, and changes no exit code."""
    for stage in stages:
        yield f"{stage.path}:{stage.line}: {stage.flow}/{stage.stage} needs no lease"
    if stages:
        prices = Prices()
        saved, of = prices.dynamodb_writes - prices.dynamodb_reads, 2 * prices.dynamodb_writes
        yield (
            f'    it does only what its step records; lease="auto" saves the write of each claim, ${saved:.2f} of '
            f"${of:.2f} for a million hops, and the work may run twice at once (docs/guides/without-a-lease.md)"
        )


def _facts(finding: CodeFinding) -> dict[str, Any]:
    facts = {
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "rule": finding.rule_id,
        "text": finding.text,
    }
    return {
        **facts,
        "name": finding.rule.name,
        "why": finding.rule.why,
        "fix": finding.rule.fix,
        "page": finding.rule.page,
    }


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")

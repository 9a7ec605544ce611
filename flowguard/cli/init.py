"""The command of ``flowguard init``, which writes a small project."""

from __future__ import annotations

import json
from pathlib import Path

import click

from flowguard.cli.new_project import NoProject, flowguard_requirement, write_project
from flowguard.cli.printing import complain, say, say_json
from flowguard.text.printable import one_line


class NotStarted(click.ClickException):
    """No project can be made there."""

    exit_code = click.UsageError.exit_code


@click.command()
@click.argument("directory", type=click.Path())
@click.option("--name", help="The project's name; that of the directory by default.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON that names the files.")
def init(directory: str, *, name: str | None, as_json: bool) -> None:
    """Write a small project into DIRECTORY.

    It has a flow, its handlers, tests, samples, a Makefile and CI. It works as it is: in it, 'make test' installs what
    it needs and runs the tests, 'make demo' replays the samples.

    Nothing is ever overwritten. The exit code is 0, or 2 where the project cannot be made; then nothing is written.
    """
    if not directory.strip():  # of a shell's variable that is not set
        raise NotStarted("the directory has no name; write one, or . for this one; nothing was written")
    try:
        files = write_project(Path(directory), name)
    except NoProject as error:
        raise NotStarted(str(error)) from None
    if "file:" in (source := flowguard_requirement()):
        complain(f"requirements-dev.txt has {source}, which this machine has: name another place for CI")
    if as_json:
        say_json(json.dumps({"files": [str(file) for file in files]}, ensure_ascii=False))
        return
    for file in files:
        say(one_line(str(file)))
    say(one_line(f"now: cd {directory} && make test demo"))

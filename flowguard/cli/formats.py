"""The check that a command is asked for one format."""

from __future__ import annotations

import click
from click.core import ParameterSource


def check_one_format(*names: str) -> None:
    """Check that the running command was given one of these parameters at most."""
    context = click.get_current_context()
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} are two formats; give one of them")

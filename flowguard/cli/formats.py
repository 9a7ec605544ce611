"""The check of options that choose a format."""

from __future__ import annotations

import click
from click.core import ParameterSource


def check_one_format(*names: str) -> None:
    """Check that the user gave at most one of these parameters of the running command."""
    context = click.get_current_context()
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} are two formats; give one of them")

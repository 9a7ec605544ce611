"""The check of options of which one alone may be given."""

from __future__ import annotations

import click
from click.core import ParameterSource


def check_one_format(*names: str, what: str = "formats") -> None:
    """Check that the user gave at most one of these parameters of the running command.

    ``what`` says in the error what two of them would be.
    """
    context = click.get_current_context()
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} are two {what}; give one of them")

"""The command ``flowguard graph``."""

from __future__ import annotations

import click

from flowguard.cli.formats import check_one_format
from flowguard.cli.printing import complain, say, say_json
from flowguard.deploy.flow_graph import graph_of
from flowguard.deploy.graph_texts import FORMATS, json_text
from flowguard.errors import DefinitionError
from flowguard.project.loading import NoSuchFlow, load_flows


class NoGraph(click.ClickException):
    """The flow is not there, or is not well defined."""

    exit_code = click.UsageError.exit_code


@click.command()
@click.argument("flow", metavar="MODULE:FLOW")
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMATS]),
    default="ascii",
    help="The language of the drawing.",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON: --format json.")
def graph(flow: str, *, form: str, as_json: bool) -> None:
    """Draw the graph of a flow.

    It has the flow's stages, waits, time-outs, failures and queues. The module is imported, and the source of its
    handlers is read. Nothing runs. Source that cannot be read is named on standard error.

    The exit code is 0, or 2 where there is no such flow.
    """
    if form != "json":
        check_one_format("form", "as_json")
    try:
        [loaded] = load_flows([flow])
    except (NoSuchFlow, DefinitionError) as error:
        raise NoGraph(str(error)) from None
    drawn = graph_of(loaded)
    for note in drawn.notes:
        complain(note)
    if as_json or form == "json":
        say_json(json_text(drawn))
    else:
        say(FORMATS[form](drawn))

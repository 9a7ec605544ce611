"""The options that choose runs, for ``flowguard list`` and each command with ``--all``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from flowguard.cli.connection import check_id, with_options
from flowguard.cli.letter_rows import Seconds, check_not_empty
from flowguard.operate.selection import Selection
from flowguard.protocol.run import Status
from flowguard.wire.tenant import tenant_named

FILTERS: Final = (
    click.option("--status", type=click.Choice([status.value for status in Status], case_sensitive=False),
                 help="Only runs of this status."),
    click.option("--stage", metavar="NAME", help="Only runs at this stage."),
    click.option("--older-than", metavar="TIME", type=Seconds(), help="Only those requested longer ago: 90s, 15m, 1h."),
    click.option("--quiet-for", metavar="TIME", type=Seconds(), help="Only those that nobody worked on for so long."),
    click.option("--error", metavar="TEXT", help="Only those whose error has this type, or this in its text."),
    click.option("--tenant", metavar="NAME", help="Only those that wait and are this tenant's work. "
                 "The items of other runs do not say whose they are."),
)  # fmt: skip


filtered: Final = with_options(*FILTERS)
"""Gives a command the options that choose runs."""


def selection_of(options: Mapping[str, Any], flow: str | None) -> Selection:
    """Return the filters that the options ask for."""
    status, stage = options["status"], options["stage"]
    if stage is not None:
        check_id("--stage", stage)
    check_not_empty(options)
    if options["index"] is not None and status is None:
        raise click.UsageError("--index finds the runs of one status; give its --status")
    return Selection(
        flow,
        None if status is None else Status(status.upper()),
        stage,
        options["older_than"],
        options["quiet_for"],
        options["error"],
        tenant_named(options["tenant"]),
    )

"""``python -m tests.proofs.compare``: the same business in six ways, under the same faults."""

from __future__ import annotations

import logging

import click

from flowguard.testing.explorer import NoSuchSchedule, Schedule, replay
from tests.proofs.compare import faults
from tests.proofs.compare.business import changes, charges, declined
from tests.proofs.compare.table import lines, row

BUSINESS = {
    "charges": ("an order is charged, and confirmed by a second function", charges, ("applied twice", "lost")),
    "changes": ("two requests change one address", changes, ("older over newer",)),
    "declined": ("what was charged is taken back", declined, ("stays charged", "back twice")),
}
WAYS = list(dict.fromkeys(way.name for _, ways, _ in BUSINESS.values() for way in ways()))


def read_schedule(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """Its id as given, where it is one."""
    try:
        return given if given is None else Schedule.parse(given).id
    except NoSuchSchedule as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option("--bound", type=click.IntRange(0), default=0, help="Pairs of faults beyond the single ones.")
@click.option("--walks", type=click.IntRange(0), default=0, help="Random walks beyond them.")
@click.option("--business", type=click.Choice(list(BUSINESS)), help="Only this.")
@click.option("--way", type=click.Choice(WAYS), help="Only this way.")
@click.option("--by-fault", is_flag=True, help="How many faults of each kind break something.")
@click.option("--schedule", callback=read_schedule, help="Run exactly this schedule of them, and show its time line.")
def compare(
    *, bound: int, walks: int, business: str | None, way: str | None, by_fault: bool, schedule: str | None
) -> None:
    """Every single fault at every call of each way."""
    for name in [business] if business else BUSINESS:
        title, ways, kinds = BUSINESS[name]
        chosen = [one for one in ways() if way in (None, one.name)]
        click.echo(f"{name}: {title}")
        if by_fault:
            found = faults.lines(chosen)
        elif schedule is None:
            found = lines([row(one, bound=bound, walks=walks) for one in chosen], kinds)
        else:
            found = (str(replay(**one.arguments, schedule=schedule)) for one in chosen)
        click.echo("\n".join([*found, ""]))


if __name__ == "__main__":
    logging.getLogger("flowguard").setLevel(logging.CRITICAL)  # each fault would be told, thousands of times
    compare()

"""``python -m tests.compare``: the same business in five ways, under the same faults."""

from __future__ import annotations

from typing import Any

import click

from flowguard.testing.explore import replay
from flowguard.testing.explore.report import show
from tests.compare import faults
from tests.compare.business import changes, charges
from tests.compare.table import lines, row

BUSINESS = {
    "charges": ("an order is charged, and confirmed by a second function", charges, ("applied twice", "lost")),
    "changes": ("two requests change one address", changes, ("older over newer",)),
}


@click.command()
@click.option("--bound", default=0, help="Pairs of faults beyond the single ones.")
@click.option("--walks", default=0, help="Random walks beyond them.")
@click.option("--business", type=click.Choice(list(BUSINESS)), help="Only this.")
@click.option("--way", help="Only this way.")
@click.option("--by-fault", is_flag=True, help="How many faults of each kind break something.")
@click.option("--schedule", help="Run exactly this schedule of them, and show its time line.")
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
            found = (line for one in chosen for line in _one(one.arguments, schedule))
        click.echo("\n".join([*found, ""]))


def _one(arguments: dict[str, Any], schedule: str) -> list[str]:
    timeline, violations = replay(**arguments, schedule=schedule)
    return [*timeline, *(line for one in violations for line in ("", *show(one)))]


if __name__ == "__main__":
    compare()

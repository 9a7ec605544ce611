"""The command of ``flowguard cost``, which prices a flow by stage."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.text import Text

from flowguard.cli.console import console, line
from flowguard.cli.float_range import FiniteRange
from flowguard.cli.iac import read_needs
from flowguard.cli.listing import Column, show_table
from flowguard.cli.printing import say, say_json
from flowguard.cli.replay import read_records
from flowguard.deploy.flow_cost import FlowCost, IdleMonth, Invocations, StageCost, measure
from flowguard.deploy.prices import Prices, Unit
from flowguard.deploy.problems import CannotDeploy
from flowguard.errors import DefinitionError, SettingsError
from flowguard.flow import AnyFlow
from flowguard.project.loading import NoSuchFlow, load_flows
from flowguard.text.printable import one_line

BAD: Final = 2  # the exit code where something could not be read

_SHOWN: Final = (Unit.WRITES, Unit.READS, Unit.SQS)
_COLUMNS: Final = (
    Column("stage"),
    *(Column(name, right=True) for name in ("a run", "writes", "reads", "SQS", "other", "$ a million runs")),
)


class NoPrice(click.ClickException):
    """What is to be priced is not there."""

    exit_code = click.UsageError.exit_code


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--flow", "flows", metavar="MODULE:FLOW", multiple=True, required=True, help="The flow, then those that it needs."
)
@click.option("--rate", type=FiniteRange(0), help="Runs a second, to price a month.")
@click.option("--batch", type=click.IntRange(1, 10_000), default=1, help="Records of an invocation.", show_default=True)
@click.option(
    "--duration",
    metavar="MS",
    type=FiniteRange(0, 900_000),
    default=100,
    help="Of an invocation.",
    show_default=True,
)
@click.option(
    "--memory", metavar="MB", type=click.IntRange(128, 10_240), default=256, help="Of a function.", show_default=True
)
@click.option("--cold", type=FiniteRange(0, 1), default=0.01, help="Share of cold starts.", show_default=True)
@click.option(
    "--init", metavar="MS", type=FiniteRange(0, 60_000), default=500, help="Of a cold start.", show_default=True
)
@click.option(
    "--deployed", metavar="MODULE[:FLOW]", multiple=True, help="Adds what stands there: alarms, polls of empty queues."
)
@click.option("--options", type=click.Path(path_type=Path), help="Of --deployed, as 'flowguard iac' takes them.")
@click.option("--prices", type=click.Path(path_type=Path), help="A TOML file with the prices of your region.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def cost(  # noqa: PLR0913 - options, each with a default
    files: tuple[str, ...],
    *,
    flows: tuple[str, ...],
    rate: float | None,
    batch: int,
    duration: float,
    memory: int,
    cold: float,
    init: float,
    deployed: tuple[str, ...],
    options: Path | None,
    prices: Path | None,
    as_json: bool,
) -> None:
    """Show the price of a flow by stage.

    It has requests, the write and read units of DynamoDB, and dollars a million runs.

    The events in each FILE, as 'flowguard replay' takes them, are run in memory, and what AWS would charge is counted
    in their calls. So the price is that of runs like these: duplicates and retries among them count as well. Runs are
    those of the first --flow; what other flows use is added to them.

    The duration of an invocation and of a cold start are assumed, not measured. Logs are those of the events, from
    INFO on, and Lambda's own lines. With --deployed, a month of what costs while nothing comes is shown as well: polls
    of the empty queues, and alarms. The prices are those of one region at one date, which are shown. Transfer, storage,
    free tiers, indexes of tables and the lines that handlers log are not in them.

    The exit code is 0, or 2 where something cannot be read or loaded.
    """
    if options is not None and not deployed:
        raise click.BadParameter("it is for --deployed", param_hint="--options")
    recorded, unreadable = read_records(files)
    if not recorded:
        sys.exit(BAD)
    try:
        table = Prices.read(prices) if prices is not None else Prices()
        assumed = Invocations(batch, duration, memory, cold, init)
        idle = IdleMonth.of(read_needs(deployed, options)[0]) if deployed else None
        loaded = load_flows(flows)
        flow_cost = measure(loaded, [record for _, record in recorded], invocations=assumed)
    except (CannotDeploy, NoSuchFlow, DefinitionError, SettingsError) as error:
        raise NoPrice(str(error)) from None
    if not flow_cost.runs:
        raise NoPrice(f"none of these records is of a run of {flows[0]}")
    if as_json:
        say_json(json.dumps(_facts(flow_cost, idle, table, assumed, rate), ensure_ascii=False))
    else:
        _show(flow_cost, idle, table, assumed, rate)
        _show_histories(loaded)
    sys.exit(BAD if unreadable else 0)


def _show(
    flow_cost: FlowCost, idle: IdleMonth | None, prices: Prices, assumed: Invocations, rate: float | None
) -> None:
    show_table(console(), _COLUMNS, [_row(stage, flow_cost.runs, prices) for stage in flow_cost.stages])
    say("")
    say(f"{flow_cost.runs} runs measured; a million of them: ${flow_cost.per_million(prices):,.2f}")
    if rate is not None:
        say(f"{rate:g} a second for 30 days: ${flow_cost.per_month(prices, rate):,.2f}")
    if idle is not None:
        parts = f"polls of {idle.queues} empty queues, {idle.alarms} alarms"
        say(f"30 days in which nothing comes: ${idle.dollars(prices):,.2f} ({parts})")
    cold = f"{assumed.cold:.0%} of them begin with {assumed.init_milliseconds:g} ms more"
    of_each = f"{assumed.milliseconds:g} ms of {assumed.memory} MB an invocation, {cold}"
    say(f"assumed: {of_each}, batches of {assumed.batch}")
    say(one_line(f"prices: {prices.region}, {prices.as_of}, on demand"))


def _show_histories(flows: Sequence[AnyFlow]) -> None:
    """Say which flows write a row at each commit."""
    if names := [flow.name for flow in flows if flow.full_history]:
        price = "a row and a transaction at each commit, 2 or 3 of the writes"
        say(one_line(f"full history: {', '.join(names)}: {price}"))


def _row(stage: StageCost, runs: int, prices: Prices) -> list[Text]:
    shown = [stage.used.get(unit, 0) / runs for unit in _SHOWN]
    apart = (Unit.INVOCATIONS, Unit.GB_SECONDS, Unit.LOGS, *_SHOWN)
    other = sum(amount for unit, amount in stage.used.items() if unit not in apart) / runs
    cells = [stage.deliveries / runs, *shown, other]
    priced = stage.dollars(prices) / runs * 1_000_000
    name = f"{stage.flow}/{stage.stage}" if stage.flow else stage.stage
    return [line(text) for text in (name, *(f"{cell:,.2f}" for cell in cells), f"{priced:,.2f}")]


def _facts(
    flow_cost: FlowCost, idle: IdleMonth | None, prices: Prices, assumed: Invocations, rate: float | None
) -> dict[str, Any]:
    monthly: dict[str, Any] = (
        {} if rate is None else {"rate": rate, "dollars_a_month": flow_cost.per_month(prices, rate)}
    )
    if idle is not None:
        used = {unit.value: amount for unit, amount in idle.used.items()}
        monthly["idle_month"] = {**vars(idle), "used": used, "dollars_a_month": idle.dollars(prices)}
    return {
        "runs": flow_cost.runs,
        "dollars_a_million": flow_cost.per_million(prices),
        **monthly,
        "assumed": vars(assumed),
        "prices": prices.model_dump(),
        "stages": [
            {
                "flow": stage.flow,
                "stage": stage.stage,
                "deliveries": stage.deliveries,
                "used": {unit.value: amount for unit, amount in stage.used.items()},
                "dollars": stage.dollars(prices),
            }
            for stage in flow_cost.stages
        ],
    }

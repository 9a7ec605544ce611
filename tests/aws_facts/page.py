"""Writes the page of what flowguard assumes of AWS: ``python -m tests.aws_facts.page``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from flowguard.aws_facts.fact import CANNOT, ENGINES, MODELLED, Fact
from flowguard.aws_facts.fact_table import FACTS, TABLE

FILE: Final = Path(__file__).parents[2] / "docs" / "explain" / "what-aws-does.md"

_HEAD: Final = """\
<!-- Made from flowguard/aws_facts by `python -m tests.aws_facts.page`. Change those. -->
# What AWS does

flowguard stands on {count} behaviours of AWS. Each is a row here: what AWS does, the page that says so, where the code
relies on it, what the engines of the tests do instead, whether [a program](../operate/probe.md) can ask for it or why
a person has to, and when somebody has seen it at AWS itself. Tests fail where the code of an error, an operation, a
type of resource or a number that is a row's limit is used in `flowguard/` and no row has it; in `flowguard/aws/`, which
makes the calls of functions, also a parameter or a part of an answer; where AWS is known (`aws/`, `sim/`, `deploy/`,
`dev/`, `observers/`, `protocol/`, `wire/`, `worker/`, two modules), also a constant that is neither a row's nor
flowguard's own; and where a constant differs from its row. What calls an engine of this machine (`sim/`, `dev/`,
`testing/`), and what only reads for the doctor, needs no row for its operation.

Behind a page stands the month of its text with which the row was last compared: so far that is {read} rows.

An engine that a row does not name has nothing of the behaviour. The engines are the AWS in memory, moto under
flowguard's strict layer, DynamoDB Local, ElasticMQ, MiniStack, and *deliveries*: what the simulator and the explorer do
between a queue and its function.
"""


def text() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD.format(count=len(FACTS), read=sum(bool(fact.read) for fact in FACTS.values())), *_parts()])


def _parts() -> Iterator[str]:
    for heading, facts in TABLE.items():
        yield f"## {heading}\n"
        yield "| row | what AWS does | relied on by | engines | probe | seen at AWS |"
        yield "| --- | --- | --- | --- | --- | --- |"
        yield from map(_row, facts)
        yield ""


def _row(fact: Fact) -> str:
    places = ", ".join(dict.fromkeys(f"`{place.partition(':')[0]}`" for place in fact.relied_on_by))
    read = f" ({fact.read})" if fact.read else ""
    said = f"{fact.sentence} [{fact.source.title}]({fact.source.url}){read}"
    cells = (f"`{fact.name}`", said, places, _engines(fact), fact.by_hand or "yes", _seen(fact))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _engines(fact: Fact) -> str:
    alike = [engine for engine in ENGINES if fact.on(engine) == MODELLED]
    others = [f"{engine} {how}" for engine in ENGINES if (how := fact.on(engine)) not in (MODELLED, CANNOT)]
    return "; ".join([*([", ".join(alike)] if alike else []), *others]) or "none"


def _seen(fact: Fact) -> str:
    return f"{fact.seen.date}, {fact.seen.by}" if fact.seen is not None else "never"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")

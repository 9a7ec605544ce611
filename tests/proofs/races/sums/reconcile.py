"""What must hold after a race of sums. It is known before the race begins: the requests say what they add. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.proofs.races.reconcile import Check, check
from tests.proofs.races.sums.asked import Expected, expected
from tests.proofs.races.sums.flow import COMPUTED, EARLY, SPREAD
from tests.proofs.races.sums.run import Outcome


def reconcile(outcome: Outcome) -> list[Check]:
    wanted = expected(outcome.asked)
    return [*_sums(outcome.rows, wanted), *_objects(outcome, wanted)]


def _sums(rows: Mapping[str, Mapping[str, Any]], wanted: Expected) -> Iterator[Check]:
    sums = [rows.get(f"sum-{number}", {}) for number in range(SPREAD)]
    amount, total = sum(int(row.get("amount", 0)) for row in sums), sum(wanted.amounts.values())
    yield _equal("the sum is what the newest requests of all objects add up to", amount, total)
    added = sum(int(row.get("applied", 0)) for row in sums)
    commits = sum(int(rows.get(name, {}).get("applied", 0)) for name in wanted.amounts)
    yield _equal("as much was added to the sum as to the objects", added, commits)
    for name, place, number in (
        ("each block that is applied at once was applied once", EARLY, wanted.early),
        ("each count that was computed from what was there counts once", COMPUTED, wanted.computed),
    ):
        yield _equal(name, int(rows.get(place, {}).get("applied", 0)), number)


def _equal(name: str, found: int, wanted: int) -> Check:
    return Check(name, wanted, () if found == wanted else (f"{found} instead of {wanted}",))


def _objects(outcome: Outcome, wanted: Expected) -> Iterator[Check]:
    rows = outcome.rows
    strays = (
        f"{name}: {rows.get(name, {}).get('amount')} instead of {amount}"
        for name, amount in wanted.amounts.items()
        if rows.get(name, {}).get("amount") != amount
    )
    yield check("each object has the amount of its newest request", wanted.amounts, strays)
    strays = (
        f"{name}: {rows.get(name, {}).get('applied')} times"
        for name in wanted.alone
        if rows.get(name, {}).get("applied") != 1
    )
    yield check("each request that is alone counts once", wanted.alone, strays)
    ends = {name: outcome.items.get(f"run#adds#{name}") for name in wanted.newest}
    strays = (
        f"{name}: {'no item' if item is None else f'{item.request_id} {item.status}'}"
        for name, item in ends.items()
        if item is None or (item.request_id, item.status) != (wanted.newest[name], "COMPLETED")
    )
    yield check("each object's run is that of its newest request, and COMPLETED", ends, strays)

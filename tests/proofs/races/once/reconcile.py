"""What must hold after a race of calls under ``@once``, by DynamoDB's own answers and what callers got. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from typing import Any

from flowguard.protocol.entry import EntryStatus
from tests.proofs.races.once.flow import asked, name_of
from tests.proofs.races.once.run import Outcome, key_of
from tests.proofs.races.reconcile import Check, check
from tests.proofs.soak.journal import Line

DONE = EntryStatus.COMPLETED.value


def reconcile(outcome: Outcome) -> list[Check]:
    return [*_results(outcome), *_writes(outcome), *_executions(outcome)]


def stored(outcome: Outcome) -> dict[str, Any]:
    """Return the stored result of each order that has one."""
    found = {order: entry for order, entry in outcome.entries.items() if entry["status"] == DONE}
    return {order: json.loads(entry["result"]) for order, entry in found.items()}


def begun(outcome: Outcome) -> list[Line]:
    """Return the claims after which the function may be called."""
    return [line for line in outcome.lines("claim") if line["yes"] and _status(line["old"]) != DONE]


def _results(outcome: Outcome) -> Iterator[Check]:
    results, told = stored(outcome), outcome.lines("told")
    orders = sorted({name_of(number) for number in range(outcome.asked)})
    by_key = defaultdict[str, set[str]](set)
    for line in outcome.lines("finish"):
        if line["yes"]:
            by_key[line["key"]].add(line["owner"])
    several = (order for order in orders if order not in results or by_key[key_of(order)] != {results[order]["by"]})
    yield check("each order has one stored result", orders, several)
    calls, answered = range(outcome.asked), {line["number"] for line in told}
    yield check("each call has an answer", calls, (number for number in calls if number not in answered))
    returned = [line for line in told if line["how"] == "returned"]
    others = (line for line in returned if line["result"] != results.get(name_of(line["number"])))
    yield check("each call that returned got the stored result", returned, others)
    strays = (line for line in returned if not _is_same(results, line["number"]))
    yield check("a payload that differs gets no result", returned, strays)
    refused = [line for line in told if line["how"] == "reused"]
    calls_of = {(line["order"], line["amount"]) for line in outcome.lines("begun")}
    alone = (line for line in refused if not _has_another(calls_of, line["number"]))
    yield check("only a payload beside another is refused", refused, alone)


def _has_another(calls: Set[tuple[str, int]], number: int) -> bool:
    """Answer whether a call with another payload has used the key: one that has raised since counts, too."""
    return any(order == name_of(number) and amount != asked(number)["amount"] for order, amount in calls)


def _is_same(results: Mapping[str, Any], number: int) -> bool:
    result = results.get(name_of(number))
    return result is not None and bool(result["amount"] == asked(number)["amount"])


def _writes(outcome: Outcome) -> Iterator[Check]:
    claims = begun(outcome)
    yield check("a call begins only where no other holds the key", claims, (one for one in claims if not _is_free(one)))
    kept = [line for line in outcome.lines("finish", "free") if line["yes"]]
    strays = (one for one in kept if one["old"] is None or one["old"]["owner"] != one["owner"])
    yield check("only the call that holds the key ends it", kept, strays)
    again = (one for one in kept if _status(one["old"]) == DONE)
    yield check("nothing changes a stored result", kept, again)


def _is_free(claim: Line) -> bool:
    old = claim["old"]
    return old is None or old["owner"] in (None, claim["owner"]) or old["lease_until"] <= claim["now"]


def _status(old: Mapping[str, Any] | None) -> str | None:
    return None if old is None else old["status"]


def _executions(outcome: Outcome) -> Iterator[Check]:
    calls, claimed = outcome.lines("begun"), {line["owner"] for line in begun(outcome)}
    results = {result["by"] for result in stored(outcome).values()}
    yield check(
        "the function is called after a claim alone", calls, (one for one in calls if one["owner"] not in claimed)
    )
    owners = [line["owner"] for line in calls]
    yield check("each claim calls the function once at most", owners, (one for one in claimed if owners.count(one) > 1))
    ends = {line["owner"]: line["how"] for line in outcome.lines("end")}
    lost = [owner for owner in owners if owner not in results and owner not in ends]
    strays = (owner for owner in owners if ends.get(owner) == "completed" and owner not in results)
    yield check("each call that was told so has stored its result", owners, strays)
    more = iter(lost if len(lost) > outcome.killed else ())
    yield check("each other was fenced, raised, unsaved, or its worker died", owners, more)
    charged = {owner: {"order": row["order"], "amount": int(row["amount"])} for owner, row in outcome.charged.items()}
    meant = {line["owner"]: {"order": line["order"], "amount": line["amount"]} for line in calls}
    yield check("each effect is that of a call", charged, (one for one in charged if charged[one] != meant.get(one)))
    yield check("each stored result has its effect", results, (one for one in results if one not in charged))

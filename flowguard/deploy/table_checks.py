"""Checks of the live tables and runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.aws.indexed_runs import INDEX_KEY, RUN_INDEX
from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error, warning
from flowguard.deploy.needs import Deployment, TableNeed

_STUCK: Final = 12 * 3_600_000
"""Milliseconds after a lease, by which SQS has shown the longest hidden record again."""

_LATE: Final = 3_600_000
"""Milliseconds after a deadline: its message is delayed by quarters of an hour, and may be retried."""


def check_tables(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about the tables."""
    for table in needed.tables:
        yield from known(_of_table(table, live))


def _of_table(table: TableNeed, live: Account) -> Iterator[LiveFinding]:
    description = live.table(table.name)
    if description is not None:
        yield from known(
            _keys(table, description), _expiry(table, live), _recovery(table, live), _run_index(table, description)
        )
    elif live.was_read("dynamodb", "describe_table"):
        why = "every message that needs it stays in its queue, until SQS gives it up"
        yield error("table-missing", table.name, "the table does not exist", why, f"create it: {_key(table)}")


def _recovery(table: TableNeed, live: Account) -> Iterator[LiveFinding]:
    if live.restorable(table.name) is False:
        yield warning(
            "not-restorable",
            table.name,
            "point-in-time recovery is off",
            "items that are deleted by mistake cannot be brought back",
            "turn point-in-time recovery on",
        )


def _keys(table: TableNeed, description: Mapping[str, Any]) -> Iterator[LiveFinding]:
    if not table.key.names:
        return
    types = {
        attribute["AttributeName"]: attribute["AttributeType"] for attribute in description["AttributeDefinitions"]
    }
    schema = sorted(description["KeySchema"], key=lambda part: str(part["KeyType"]))  # HASH before RANGE
    live = [(part["AttributeName"], types[part["AttributeName"]]) for part in schema]
    if live != list(zip(table.key.names, table.key.types, strict=True)):
        yield error(
            "keys-other",
            table.name,
            f"its key is {', '.join(f'{name} ({kind})' for name, kind in live)}",
            "DynamoDB refuses every write there, and what writes fails",
            f"make the table anew: {_key(table)}",
        )


def _run_index(table: TableNeed, description: Mapping[str, Any]) -> Iterator[LiveFinding]:
    """Yield a finding about the index of runs by status. Functions do not need it, but lists that name it do."""
    if not table.run_index:
        return
    fix = f"add an index {RUN_INDEX} of {' and '.join(INDEX_KEY)} with its keys alone"
    indexes = {str(index["IndexName"]): index for index in description.get("GlobalSecondaryIndexes", ())}
    if RUN_INDEX not in indexes:
        yield warning(
            "index-missing",
            table.name,
            f"it has no index {RUN_INDEX}",
            "commands with --index find no run",
            fix,
        )
        return
    schema = sorted(indexes[RUN_INDEX]["KeySchema"], key=lambda part: str(part["KeyType"]))
    if tuple(part["AttributeName"] for part in schema) != INDEX_KEY:
        yield warning(
            "index-other",
            table.name,
            f"its index {RUN_INDEX} has another key",
            "commands with --index are refused, or find other runs",
            f"remove it, and {fix}",
        )


def _expiry(table: TableNeed, live: Account) -> Iterator[LiveFinding]:
    if table.ttl is None:
        return
    setting = live.time_to_live(table.name)
    if setting is None:
        return
    if setting.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
        yield warning(
            "ttl-off",
            table.name,
            "its items never expire",
            "the table grows with every object, and is paid for",
            f"turn TTL on, for the attribute {table.ttl!r}",
        )
    elif setting.get("AttributeName") != table.ttl:
        yield error(
            "ttl-other",
            table.name,
            f"its TTL is on the attribute {setting.get('AttributeName')!r}",
            "items never expire, or expire while their messages live: late copies are run again",
            f"turn TTL off and on again, for the attribute {table.ttl!r}",
        )


def _key(table: TableNeed) -> str:
    return (
        ", ".join(f"{name} ({kind})" for name, kind in zip(table.key.names, table.key.types, strict=True)) or "its key"
    )


def check_runs(needed: Deployment, live: Account, now: int, most: int) -> Iterator[LiveFinding]:
    """Yield the findings about runs that are stuck. At most ``most`` items are read. ``now`` is ms."""
    flows = {flow.name for flow in needed.flows}
    for item in live.runs(needed.run_table, most):
        flow, _, object_id = _named(item)
        if flow not in flows:
            continue
        status = item["status"]["S"]
        lease = int(item.get("lease_until", {}).get("N", "0"))
        deadline = int(item.get("wait", {}).get("M", {}).get("deadline", {}).get("N", "0"))
        where = f"{flow} of {object_id}"
        if status == "RUNNING" and lease + _STUCK < now:
            yield warning(
                "run-stuck",
                where,
                f"it is RUNNING at {item['stage']['S']}, and nobody has worked on it for {_hours(now - lease)}",
                "its message was given up by SQS or deleted by hand: it never ends by itself",
                "look for its record in the queue of records given up, and send it back; or send the request anew",
            )
        elif status == "WAITING" and deadline and deadline + _LATE < now:
            yield warning(
                "wait-late",
                where,
                f"it waits at {item['stage']['S']}, and its deadline is over for {_hours(now - deadline)}",
                "the message of its deadline was lost or given up: it waits for ever",
                "does a function read the flow's answers queue? Look for the record among those given up",
            )


def _named(item: Mapping[str, Any]) -> tuple[str, str, str]:
    kind, _, rest = str(item["pk"]["S"]).partition("#")
    return rest.partition("#") if kind == "run" else ("", "", "")


def _hours(ms: int) -> str:
    return f"{ms / 3_600_000:.0f} h"

"""Checks of the live tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error, warning
from flowguard.deploy.needs import Deployment, TableNeed

_WHOLE: Final = {"ProjectionType": "ALL"}


def check_tables(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about the tables."""
    for table in needed.tables:
        yield from known(_of_table(table, live))


def _of_table(table: TableNeed, live: Account) -> Iterator[LiveFinding]:
    description = live.table(table.name)
    if description is not None:
        yield from known(
            _keys(table, description), _expiry(table, live), _recovery(table, live), _indexes(table, description)
        )
    elif live.was_read("dynamodb", "describe_table", table.name):
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
    live = _live_key(description, description)
    if live != list(zip(table.key.names, table.key.types, strict=True)):
        yield error(
            "keys-other",
            table.name,
            f"its key is {', '.join(f'{name} ({kind})' for name, kind in live)}",
            "DynamoDB refuses every write there, and what writes fails",
            f"make the table anew: {_key(table)}",
        )


def _live_key(schema: Mapping[str, Any], description: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the attributes of a key with their types, that of a table or of an index of it."""
    types = {each["AttributeName"]: each["AttributeType"] for each in description["AttributeDefinitions"]}
    parts = sorted(schema["KeySchema"], key=lambda part: str(part["KeyType"]))  # HASH before RANGE
    return [(part["AttributeName"], types.get(part["AttributeName"], "?")) for part in parts]


def _indexes(table: TableNeed, description: Mapping[str, Any]) -> Iterator[LiveFinding]:
    """Yield findings about the indexes. Functions do not need that of runs, but lists that name it do."""
    there = {str(index["IndexName"]): index for index in description.get("GlobalSecondaryIndexes", ())}
    for index in table.indexes:
        is_of_user = index in table.key.indexes
        finding, who = (error, "queries of it") if is_of_user else (warning, "commands with --index")
        holds = "its keys alone" if index.keys_only else "all attributes"
        fix = f"add an index {index.name} of {' and '.join(index.names)} with {holds}"
        if index.name not in there:
            why = "are refused" if is_of_user else "find no run"
            yield finding("index-missing", table.name, f"it has no index {index.name}", f"{who} {why}", fix)
            continue
        live = _live_key(there[index.name], description)
        if live != list(zip(index.names, index.types, strict=True)):
            why, what = f"{who} are refused, or find other items", f"its index {index.name} has another key"
            yield finding("index-other", table.name, what, why, f"remove it, and {fix}")
        elif not index.keys_only and there[index.name].get("Projection", _WHOLE) != _WHOLE:
            why, what = f"{who} lack attributes", f"its index {index.name} has not all attributes"
            yield warning("index-other", table.name, what, why, f"remove it, and {fix}")
        elif (status := there[index.name].get("IndexStatus", "ACTIVE")) not in ("ACTIVE", "UPDATING"):
            what = f"its index {index.name} is {status}"
            yield finding("index-missing", table.name, what, f"{who} are refused", "wait until it is ACTIVE")


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

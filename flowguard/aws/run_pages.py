"""The runs of a table, page by page. Each page is one Scan."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws.dead_letter_queue import Unusable
from flowguard.aws.items import Item
from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.errors import FlowguardError, shown
from flowguard.protocol.fields import FIELDS
from flowguard.protocol.run import Status
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ITEMS_A_PAGE: Final = 1_000

_NEEDED: Final = ("error", "waiting", "wait", "failed", "cancelled", "reset_at", "back_off", "burst")
"""What a list shows of a run beside what each item has."""

_LISTED: Final = tuple(field for field in FIELDS if field.always or field.attribute in _NEEDED)
NAMES: Final = {field.placeholder: field.attribute for field in _LISTED if field.reserved}
PARTS: Final = ", ".join(["pk", "sk", *(field.placeholder for field in _LISTED)])


class NoCursor(FlowguardError):
    """The text is no place in the table at which a list can go on."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{shown(self.text)} is no place of a list of this flow and these filters; copy what it has printed"


class Wanted(NamedTuple):
    """The runs that are looked for. None takes all."""

    flow: str | None = None
    status: Status | None = None
    stage: str | None = None
    mark: str | None = None
    """What tells the whole selection from others. Its places have it, and no other place is taken."""

    @property
    def marks(self) -> tuple[str, ...]:
        return () if self.mark is None else (self.mark,)


class RunPage(NamedTuple):
    """What one Scan has found.

    ``read`` counts the items that it read, ``units`` what they cost, and ``unreadable`` those that are no run of this
    version. ``last`` is where the next page begins, None after the last.
    """

    runs: list[SeenRun]
    read: int
    units: float
    unreadable: int
    last: str | None


class RunPages:
    """Reads runs by Scan, eventually consistent. Nothing but the filter decides what is found, and all is paid for."""

    def __init__(self, client: DynamoDBClient, table: str, reader: RunReader) -> None:
        self._client = client
        self._table = table
        self._reader = reader
        self.way = "Scan"

    def pages(self, wanted: Wanted, after: str | None, most: int) -> Iterator[RunPage]:
        """Yield pages from the place ``after`` until the table ends, or ``most`` items are read.

        Raises :class:`NoCursor`.
        """
        call: Any = _call(self._table, wanted)
        start = None if after is None else key_of(after, *wanted.marks)
        while most > 0:
            call["Limit"] = min(ITEMS_A_PAGE, most)
            if start is not None:
                call["ExclusiveStartKey"] = start
            answer: Any = self._client.scan(**call)
            start = answer.get("LastEvaluatedKey")
            units = answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
            last = None if start is None else cursor_of(start["pk"]["S"], start["sk"]["S"], *wanted.marks)
            yield page_of(self._reader, answer["Items"], answer["ScannedCount"], units, last)
            if start is None:
                return
            most -= answer["ScannedCount"]

    def place_of(self, flow: str, object_id: str, wanted: Wanted) -> str:
        """Return the place in the table behind the run of an object, where a list goes on that stopped at it."""
        return cursor_of(f"run#{flow}#{object_id}", "run", *wanted.marks)


def place_of(seen: SeenRun) -> str:
    """Return the place in the table behind a run."""
    return cursor_of(f"run#{seen.flow}#{seen.object_id}", "run")


def page_of(reader: RunReader, items: Iterable[Item], read: int, units: float, last: str | None) -> RunPage:
    """Read the items of a page."""
    runs, unreadable = [], 0
    for raw in items:
        try:
            _, flow, object_id = raw["pk"]["S"].split("#", 2)
            runs.append(reader.seen(flow, object_id, raw))
        except (Unusable, ValueError):  # a key without an object is no key of ours
            unreadable += 1
    return RunPage(runs, read, units, unreadable, last)


def cursor_of(*parts: str) -> str:
    """Return the text of a place. It has the key, for an index the status, and what tells the selection from others."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def key_of(cursor: str, *more: str) -> Item:
    """Return the key in the text of a place.

    Raises :class:`NoCursor` for a text that is no place, or whose other parts are not ``more``: it is of another list.
    """
    try:
        match json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)):
            case [str(pk), str(sk), *rest] if (pk + sk).encode() and rest == [*more]:
                return {"pk": {"S": pk}, "sk": {"S": sk}}
            case _:
                pass
    except (ValueError, RecursionError):
        pass
    raise NoCursor(cursor)


def _call(table: str, wanted: Wanted) -> dict[str, Any]:
    conditions = ["begins_with(pk, :runs)", "sk = :run"]
    values: Item = {":runs": {"S": "run#" if wanted.flow is None else f"run#{wanted.flow}#"}, ":run": {"S": "run"}}
    if wanted.status is not None:
        conditions.append("#status = :status")
        values[":status"] = {"S": wanted.status.value}
    if wanted.stage is not None:
        conditions.append("stage = :stage")
        values[":stage"] = {"S": wanted.stage}
    return {
        "TableName": table,
        "FilterExpression": " AND ".join(conditions),
        "ExpressionAttributeValues": values,
        "ExpressionAttributeNames": NAMES,
        "ProjectionExpression": PARTS,
        "ReturnConsumedCapacity": "TOTAL",
    }

"""The runs of one status, which an index of the table finds.

::

    table   pk run#<flow>#<object>   sk run          the run item
    index   status                   pk              the keys alone, so that a write costs more where a status changes

The index is eventually consistent. Each item that it names is read, and says itself where its run stands.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws.batch_reads import KEYS_A_CALL
from flowguard.aws.items import Item
from flowguard.aws.run_pages import NAMES, PARTS, RunPage, Wanted, cursor_of, key_of, page_of
from flowguard.aws.run_reader import RunReader, SeenRun

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

RUN_INDEX: Final = "runs-by-status"
"""The name of the index in templates."""

SHORTEST_PAUSE: Final = 0.1  # s
"""The longest pause before keys that DynamoDB left unprocessed are asked for once more. Each further one is longer."""

LONGEST_PAUSE: Final = 10.0  # s

INDEX_KEY: Final = ("status", "pk")
"""The partition key and the sort key of the index, both texts."""


class IndexedRuns:
    """Reads runs by a Query of the index, and a BatchGetItem for each hundred that it names."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        index: str,
        reader: RunReader,
        pause: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._table = table
        self._index = index
        self._reader = reader
        self._pause = pause
        self._draw = draw
        self.way = f"index {index}"

    def pages(self, wanted: Wanted, after: str | None, most: int) -> Iterator[RunPage]:
        """Yield pages from the place ``after`` until the index ends, or ``most`` runs are read.

        ``wanted`` has a status. Raises :class:`NoCursor`.
        """
        status = status_of(wanted)
        call = self._call(wanted)
        start = None if after is None else {**key_of(after, status, *wanted.marks), "status": {"S": status}}
        while most > 0:
            call["Limit"] = min(KEYS_A_CALL, most)
            if start is not None:
                call["ExclusiveStartKey"] = start
            answer: Any = self._client.query(**call)
            start = answer.get("LastEvaluatedKey")
            last = None if start is None else cursor_of(start["pk"]["S"], "run", status, *wanted.marks)
            yield self._page(answer, wanted, last)
            if start is None:
                return
            most -= len(answer["Items"])

    def place_of(self, flow: str, object_id: str, wanted: Wanted) -> str:
        """Return the place in the index behind the run of an object."""
        return cursor_of(f"run#{flow}#{object_id}", "run", status_of(wanted), *wanted.marks)

    def _call(self, wanted: Wanted) -> dict[str, Any]:
        begin = "run#" if wanted.flow is None else f"run#{wanted.flow}#"
        return {
            "TableName": self._table,
            "IndexName": self._index,
            "KeyConditionExpression": "#status = :status AND begins_with(pk, :runs)",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": {":status": {"S": status_of(wanted)}, ":runs": {"S": begin}},
            "ReturnConsumedCapacity": "TOTAL",
        }

    def _page(self, answer: Any, wanted: Wanted, last: str | None) -> RunPage:
        keys = [{name: entry[name] for name in ("pk", "sk")} for entry in answer["Items"]]
        items, units = self._items([key for key in keys if key["sk"]["S"] == "run"])
        page = page_of(self._reader, items, len(keys), units + _units(answer.get("ConsumedCapacity")), last)
        return page._replace(runs=[seen for seen in page.runs if _is_wanted(seen, wanted)])

    def _items(self, keys: Sequence[Any]) -> tuple[list[Item], float]:
        """Read the items in the order of the index and count the read units. One may be gone by now."""
        places = {key["pk"]["S"]: place for place, key in enumerate(keys)}
        items: list[Item] = []
        units = 0.0
        left: Any = {self._table: {"Keys": keys, "ProjectionExpression": PARTS, "ExpressionAttributeNames": NAMES}}
        longest = SHORTEST_PAUSE
        while left and left[self._table]["Keys"]:
            answer: Any = self._client.batch_get_item(RequestItems=left, ReturnConsumedCapacity="TOTAL")
            items += answer["Responses"].get(self._table, [])
            units += sum(map(_units, answer.get("ConsumedCapacity", [])))
            if left := answer.get("UnprocessedKeys"):
                self._pause(longest * self._draw())
                longest = min(2 * longest, LONGEST_PAUSE)
        return sorted(items, key=lambda item: places[item["pk"]["S"]]), units


def status_of(wanted: Wanted) -> str:
    """Return the status by which the index is read."""
    return str(wanted.status)


def _units(consumed: Mapping[str, Any] | None) -> float:
    return 0.0 if consumed is None else float(consumed["CapacityUnits"])


def _is_wanted(seen: SeenRun, wanted: Wanted) -> bool:
    """Answer whether the run is still where the index has it, and at the stage that is asked for."""
    return seen.item.status is wanted.status and wanted.stage in (None, seen.item.stage)

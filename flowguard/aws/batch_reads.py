"""Consistent reads of several run items in one request.

A read that is not answered stands for nothing: it is made again by a call of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors
from flowguard.aws.faults import error_code
from flowguard.aws.items import Item
from flowguard.errors import shown
from flowguard.text.printable import bounded

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEYS_A_CALL: Final = 100
"""What BatchGetItem takes."""

_NOT_HERE: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnknownOperationException"})
"""Answers that will not change: no permission, or an engine without the operation."""

logger = logging.getLogger("flowguard")


class BatchReads:
    """Reads items by their keys. Once an answer shows that it may not, or cannot, it sends no more requests."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table
        self._available = True
        self.refusals: list[str] = []

    def read(self, keys: Mapping[int, Item]) -> Iterator[tuple[int, Item | None]]:
        """Yield the items by the places of their keys, or None. No key may be there twice.

        A place whose read was not answered is left out.
        """
        places = list(keys)
        for start in range(0, len(places), KEYS_A_CALL):
            left = {_identity(keys[place]): place for place in places[start : start + KEYS_A_CALL]}
            yield from self._of_one_call(left, [keys[place] for place in left.values()])

    def _of_one_call(self, left: dict[str, int], keys: list[Item]) -> Iterator[tuple[int, Item | None]]:
        """Ask for what an answer has left unprocessed, such as what goes beyond 16 MB, while each brings some."""
        asked = len(keys) + 1
        while 0 < len(keys) < asked:
            asked = len(keys)
            items, keys = self._request(keys)
            later = {_identity(key) for key in keys}
            for identity in [identity for identity in left if identity not in later]:
                yield left.pop(identity), items.get(identity)

    def _request(self, keys: list[Any]) -> tuple[dict[str, Item], list[Item]]:
        """Return the items by what tells them apart, and the keys that were not processed: all without an answer."""
        if not self._available:
            return {}, keys
        try:
            answer: Any = self._client.batch_get_item(
                RequestItems={self._table: {"Keys": keys, "ConsistentRead": True}}
            )
            items = {_identity(item): item for items in answer["Responses"].values() for item in items}
            return items, [key for left in answer.get("UnprocessedKeys", {}).values() for key in left["Keys"]]
        except botocore_errors.ClientError as error:
            if error_code(error) in _NOT_HERE:
                self._give_up(str(error))
            return self._refused(error, keys)
        except Exception as error:  # the network, or an engine's own answer: whoever asks alone is told
            return self._refused(error, keys)

    def _refused(self, error: Exception, keys: list[Item]) -> tuple[dict[str, Item], list[Item]]:
        self.refusals.append(bounded(f"{type(error).__name__}: {error}"))
        return {}, keys

    def _give_up(self, why: str) -> None:
        self._available = False
        text = "run items are read one by one, since BatchGetItem is refused: %s; %s"
        logger.warning(text, shown(why), "on AWS, allow dynamodb:BatchGetItem on the table")


def _identity(item: Item) -> str:
    """Return what tells run items apart."""
    partition: str = item["pk"]["S"]
    return partition

"""Consistent reads of the user's own tables."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flowguard.aws import botocore_errors
from flowguard.aws.faults import error_code, is_final, is_refusal
from flowguard.aws.writes import from_item, to_item
from flowguard.errors import WriteDenied, WriteInvalid, shown
from flowguard.names.at_aws import AS_IN_CODE, Names

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from flowguard.aws.clients import Clients

_FIRST_PAUSE = 0.02
"""Seconds before the second try, at most. It doubles with each further one."""


class DynamoDBTables:
    """Implements :class:`flowguard.recorded.table_writes.ReadsTables`. A client is made when something is read."""

    def __init__(
        self,
        clients: Clients,
        draw: random.Random,
        pause: Callable[[float], None] = time.sleep,
        *,
        names: Names = AS_IN_CODE,
    ) -> None:
        self._clients = clients
        self._draw = draw
        self._pause = pause
        self._names = names

    def read(self, table: str, key: Mapping[str, Any], *, again: int = 0) -> dict[str, Any] | None:
        """Read an item consistently, after a pause at random where ``again`` reads before were in vain."""
        wait_at_random(again, self._draw, self._pause)
        return read_consistently(self._clients.dynamodb, table, key, self._names)


def wait_at_random(again: int, draw: random.Random, pause: Callable[[float], None]) -> None:
    """Wait before a try that is not the first, so that those who met each other do not meet again."""
    if again:
        pause(draw.uniform(0, _FIRST_PAUSE * 2 ** (again - 1)))


def read_consistently(
    client: DynamoDBClient, table: str, key: Mapping[str, Any], names: Names = AS_IN_CODE
) -> dict[str, Any] | None:
    """Read an item in plain Python values, numbers as Decimals. None where there is none.

    Errors name the table as the code does. Raises :class:`flowguard.errors.WriteInvalid` for a key that DynamoDB cannot
    hold, and where it refuses for good.
    """
    try:
        answer: Any = client.get_item(TableName=names.table(table), Key=to_item(key), ConsistentRead=True)
    except TypeError as error:
        raise WriteInvalid(f"an item of {shown(table)} cannot be read: {error}") from None
    except botocore_errors.ClientError as error:
        if not is_refusal(error):
            raise
        text = error.response.get("Error", {}).get("Message", "")
        why = f"an item of {shown(table)} cannot be read: {error_code(error)}: {text}"
        raise (WriteInvalid(why) if is_final(error) else WriteDenied(why, (table,))) from None
    return from_item(answer["Item"]) if "Item" in answer else None

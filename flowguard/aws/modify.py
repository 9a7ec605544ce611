"""The change of an item outside flows. It is made again where another writer was quicker."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flowguard.aws import botocore_errors
from flowguard.aws.faults import patiently
from flowguard.aws.refused_writes import is_at_fence
from flowguard.aws.tables import read_consistently, wait_at_random
from flowguard.aws.writes import write_action
from flowguard.errors import ItemChanged
from flowguard.items.modified import MOST_TRIES, Change, check_tries, modified
from flowguard.items.rows import row
from flowguard.items.writes import Check, Write
from flowguard.names.ids import RandomIds

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def modify(
    client: DynamoDBClient,
    table: str,
    key: Mapping[str, Any],
    change: Change,
    *,
    compare: Sequence[str] = (),
    tries: int = MOST_TRIES,
    pause: Callable[[float], None] = time.sleep,
    draw: random.Random | None = None,
) -> dict[str, Any] | None:
    """Change an item by a function of what it is now, and return what it has become. None for no item.

    ``change`` gets the item as a dict with Decimals, or None, and returns it as it should be, or None for no item. It
    is called again, after a pause at random (``pause`` takes seconds, ``draw`` draws it), where another writer was
    quicker: up to ``tries`` times. ``compare`` names the attributes that decide whether another was; by default all.
    The write is a transaction, so that a call which botocore repeats after a lost answer changes nothing twice.

    Raises :class:`flowguard.errors.ItemChanged` where each try met another change. Nothing was written then. In a
    stage, use ``step.modify``.
    """
    check_tries(tries)
    jitter = draw if draw is not None else random.Random()  # noqa: S311 - jitter needs no secrecy
    item: dict[str, Any] | None = None
    for number in range(tries):
        wait_at_random(number, jitter, pause)
        item = read_consistently(client, table, key)
        wanted = _wanted(change(None if item is None else dict(item)), table)
        if _is_written(client, modified(table, key, item, wanted, compare=compare), pause):
            return None if wanted is None else {**key, **wanted}
    raise ItemChanged(table, tries, item)


def _wanted(made: object, table: str) -> dict[str, Any] | None:
    return None if made is None else row(made, f"the change of an item of {table!r}")


def _is_written(client: DynamoDBClient, write: Write, pause: Callable[[float], None]) -> bool:
    """Write it in a transaction whose token makes a repeated call harmless.

    A conditional write without one fails when it is repeated: the change would be made a second time.
    """
    if isinstance(write, Check):
        return True  # nothing differs from what was read a moment ago
    actions: Any = [write_action(write)]
    token = RandomIds().new()
    try:
        patiently(lambda: client.transact_write_items(TransactItems=actions, ClientRequestToken=token), pause)
    except botocore_errors.ClientError as error:
        if not is_at_fence(error):
            raise
        return False
    return True

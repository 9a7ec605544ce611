"""What moto holds, as far as a rule needs it. moto is heavy and comes with an extra: it is imported when needed."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flowguard.sim.account import ACCOUNT_ID
from flowguard.sim.limits.queues import Takes


def _backend(service: str, region: str) -> Any:
    from moto.backends import get_backend  # heavy

    name: Any = service  # a literal of moto's
    return get_backend(name)[ACCOUNT_ID][region]


def queue(region: str, url: str) -> Takes | None:
    """Return what the queue accepts. None where it does not exist."""
    moto_queue = _backend("sqs", region).queues.get(url.rpartition("/")[2])
    if moto_queue is None:
        return None
    content_based = moto_queue.attributes.get("ContentBasedDeduplication") == "true"
    return Takes(bool(moto_queue.fifo_queue), int(moto_queue.maximum_message_size), content_based)


def topic(region: str, arn: str) -> dict[str, bool] | None:
    """Return whether the topic is FIFO and content-based. None where it does not exist."""
    moto_topic = _backend("sns", region).topics.get(arn)
    if moto_topic is None:
        return None
    return {
        "fifo": arn.endswith(".fifo"),
        "content_based": str(moto_topic.content_based_deduplication).lower() == "true",
    }


def has_bus(region: str, name: str) -> bool:
    return name in _backend("events", region).event_buses


def has_schedule_group(region: str, name: str) -> bool:
    return name in _backend("scheduler", region).schedule_groups


def has_schedule(region: str, group: str, name: str) -> bool:
    return name in _backend("scheduler", region).schedule_groups[group].schedules


def table(region: str, name: str) -> Any:
    """Return moto's own table, or None."""
    return _backend("dynamodb", region).tables.get(name)


def item(moto_table: Any, *key: dict[str, Any]) -> dict[str, Any] | None:
    """Return the item with these key attributes. It is in low-level form, as a client reads it."""
    from moto.dynamodb.models.dynamo_type import DynamoType  # heavy

    moto_item = moto_table.get_item(*map(DynamoType, key))
    return (
        None
        if moto_item is None
        else {name: _bytes_in(value.to_regular_json()) for name, value in moto_item.attrs.items()}
    )


def _bytes_in(value: dict[str, Any]) -> dict[str, Any]:
    """Decode the bytes that moto keeps as the text in which they were sent."""
    match value:
        case {"B": str(content)}:
            return {"B": base64.b64decode(content)}
        case {"BS": contents}:
            return {"BS": [base64.b64decode(part) if isinstance(part, str) else part for part in contents]}
        case {"L": contents}:
            return {"L": [_bytes_in(part) for part in contents]}
        case {"M": contents}:
            return {"M": {name: _bytes_in(part) for name, part in contents.items()}}
        case _:
            return value


def new_id() -> str:
    """Draw an id from the sequence of moto's own ids."""
    from moto.moto_api._internal import mock_random  # heavy

    return str(mock_random.uuid4())


@contextmanager
def items_of_any_size() -> Iterator[None]:
    """Disable moto's own limit on the size of items for the block.

    It is below AWS's 400 KB, and items are weighed here.
    """
    from moto.dynamodb.models.dynamo_type import LimitedSizeDict  # heavy

    limited: Any = LimitedSizeDict
    before = limited.__setitem__
    limited.__setitem__ = dict.__setitem__
    try:
        yield
    finally:
        limited.__setitem__ = before

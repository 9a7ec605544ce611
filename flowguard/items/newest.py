"""Items that say how new they are: an older writer leaves them as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from flowguard.errors import RunFailed, shown
from flowguard.items.writes import Condition, Put, attribute_names
from flowguard.names.ids import RequestId
from flowguard.startup.named_tuple import NamedTuple

AT: Final = "newest_at"
"""The attribute with the time of an item's newest write, in ms since 1970."""

BY: Final = "newest_by"
"""The attribute with the request that wrote it."""

DELETED: Final = "newest_deleted"
"""The attribute of a tombstone: the item counts as deleted at its time."""

EPOCH: Final = "newest_epoch"
"""The attribute with the epoch of the claim that wrote it."""


def newest_put(
    table: str, item: Mapping[str, Any], key: str | Sequence[str], at: int, by: RequestId, *, deleted: bool
) -> Put:
    """Return a put that is dropped where what is there is newer, or as new and of another request.

    Raises :class:`RunFailed` for a key that names no attributes, and for an item without them.
    """
    called = f"the key in step.newest_wins({shown(table)}, …)"
    names = attribute_names(key, called, "the names of its attributes: 'sku'")
    if not names or (missing := [name for name in names if name not in item]):
        raise RunFailed(f"an item of {shown(table)} lacks its key {shown(', '.join(missing if names else ()))}")
    marks = {AT: at, BY: by, **({DELETED: True} if deleted else {})}
    name = f"{table} {[item[field] for field in names]!r} {at}"
    condition = Condition(
        "attribute_not_exists(#at) OR #at < :at OR (#at = :at AND #by = :by)",
        {"#at": AT, "#by": BY},
        {":at": at, ":by": by},
        go_on=name,
    )
    return Put(table, {**item, **marks}, condition)


def milliseconds(moment: datetime) -> int:
    """Return the moment in ms since 1970. Raises :class:`RunFailed` for one without a time zone."""
    if not isinstance(moment, datetime):
        raise RunFailed(f"{shown(moment)} is no time; write a datetime with a time zone")
    if moment.tzinfo is None:
        raise RunFailed(f"{shown(moment)} has no time zone; give it one, such as datetime.UTC")
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


class ItemFence(NamedTuple):
    """A fence inside an item, for writes that cannot be in the commit.

    Write the item with ``attributes`` in it, under ``condition`` with ``names`` and ``values``. It refuses an older
    request, and an older attempt of the same request. It does not make the write happen once, nor together with the
    commit. ``values`` are plain Python, as boto3's ``Table`` takes them.
    """

    attributes: Mapping[str, Any]
    condition: str
    names: Mapping[str, str]
    values: Mapping[str, Any]


def item_fence(request_id: RequestId, requested_at: int, epoch: int) -> ItemFence:
    """Return the fence of one attempt."""
    newer = "#at < :at OR (#at = :at AND #by < :by)"
    return ItemFence(
        {AT: requested_at, BY: request_id, EPOCH: epoch},
        f"attribute_not_exists(#at) OR {newer} OR (#by = :by AND #epoch <= :epoch)",
        {"#at": AT, "#by": BY, "#epoch": EPOCH},
        {":at": requested_at, ":by": request_id, ":epoch": epoch},
    )

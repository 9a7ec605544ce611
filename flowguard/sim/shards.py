"""The shards of streams. Lambda delivers their records in order. A failed record holds up those behind it.

A record of a table does not say its shard: two items may be in one shard or in two. So the changes of an item are in
order, as in any shard, and those of two items in any order. A batch may have both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flowguard.names.series_ids import series_of
from flowguard.wire.envelope import Envelope, Source


def shard_of(envelope: Envelope) -> str | None:
    """Return the shard of which a batch is: of a table that is its stream. None for a record of no stream."""
    match envelope.source:
        case Source.KINESIS:
            return f"{envelope.source_arn}/{str(envelope.received.get('eventID')).partition(':')[0]}"
        case Source.DYNAMODB:
            return envelope.source_arn
        case _:
            return None


def order_of(envelope: Envelope) -> str | None:
    """Return the shard of a record, and the item for one of a table. None for one of no stream."""
    if envelope.source is not Source.DYNAMODB or envelope.notification is None:
        return shard_of(envelope)
    return series_of(str(envelope.notification.get("MessageId"))) or shard_of(envelope)


def delivered_again(records: Sequence[Envelope], listed: Iterable[str]) -> int:
    """Return from which record of a batch on all are delivered again: the first that the function names.

    Records are named by their sequence numbers. Where the function names one that is not there, that is the first of
    all; where it names none, none.
    """
    names = [record.message_id for record in records]
    return min((names.index(name) if name in names else 0 for name in listed), default=len(records))

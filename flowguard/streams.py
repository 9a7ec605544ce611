"""The streams whose records begin runs, as values. How their records look is the business of ``flowguard.wire``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from flowguard.destinations import Topic
from flowguard.errors import shown
from flowguard.protocol.conflict import OnConflict
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.value import Value

_NAMES: Final = late_pattern("[A-Za-z0-9_.-]{1,128}")
_TABLES: Final = late_pattern("[A-Za-z0-9_.-]{3,255}")
_TOPICS: Final = late_pattern("[A-Za-z0-9_-][A-Za-z0-9_.-]{1,248}")


class KinesisStream(Value):
    """A data stream of Kinesis, by its name. List it in the flow's ``streams=(…)``.

    The data of each record is the payload of a request.
    """

    name: str

    def problem(self) -> str | None:
        """Return what is wrong with it, and how to write it. None where nothing is."""
        if _is_like(_NAMES, self.name):
            return None
        fix = "a stream has a name of up to 128 of a-z, A-Z, 0-9, '_', '.', '-'; its ARN belongs into the options"
        return f"KinesisStream({shown(self.name)}) has a form that AWS does not know; {fix}"

    def __str__(self) -> str:
        return f"kinesis:{self.name}"


class TableStream(Value):
    """The stream of a DynamoDB table, by the table's name. List it in the flow's ``streams=(…)``.

    Each change of an item is the payload of a request: ``change``, ``keys``, and the item's ``new`` and ``old`` image.
    """

    name: str

    def problem(self) -> str | None:
        """Return what is wrong with it, and how to write it. None where nothing is."""
        if _is_like(_TABLES, self.name):
            return None
        fix = (
            "a table has a name of 3 to 255 of a-z, A-Z, 0-9, '_', '.', '-'; its stream's ARN belongs into the options"
        )
        return f"TableStream({shown(self.name)}) has a form that AWS does not know; {fix}"

    def __str__(self) -> str:
        return f"dynamodb:{self.name}"


class KafkaTopic(Value):
    """A topic of Kafka, by its name. List it in the flow's ``streams=(…)``. The deployment says where its cluster is.

    Each record is the payload of a request: its ``key``, its ``value``, and its ``headers`` where there are any.
    """

    name: str

    def problem(self) -> str | None:
        """Return what is wrong with it, and how to write it. None where nothing is."""
        if _is_like(_TOPICS, self.name):
            return None
        fix = (
            "a topic has a name of 2 to 249 of a-z, A-Z, 0-9, '_', '.', '-', not a dot first; its cluster belongs "
            "into the options"
        )
        return f"KafkaTopic({shown(self.name)}) has a form that AWS does not know; {fix}"

    def __str__(self) -> str:
        return f"kafka:{self.name}"


Stream = KinesisStream | TableStream | KafkaTopic

_TURNED_AWAY: Final = {
    OnConflict.ATTACH: "that comes while a run goes on, or whose result is kept,",
    OnConflict.IGNORE: "that was made before the run of the one before it has ended, as in any stream that is behind,",
}
"""The changes that a flow would lose."""


def _is_like(names: re.Pattern[str], given: object) -> bool:
    return isinstance(given, str) and names.fullmatch(given) is not None


def stream_problems(
    streams: object, *, on_conflict: object = OnConflict.SUPERSEDE, inbox: object = None
) -> Iterator[str]:
    """Yield what is wrong with the streams of a flow whose first stage reads ``inbox``."""
    if not (isinstance(streams, tuple) and all(isinstance(stream, Stream) for stream in streams)):
        yield f"streams is {shown(streams)}; write a tuple: streams=(KinesisStream('orders'), TableStream('stock'))"
        return
    yield from (problem for stream in streams if (problem := stream.problem()))
    for stream, times in Counter(str(stream) for stream in streams if not stream.problem()).items():
        if times > 1:
            yield f"it lists the stream {stream} {times} times; leave all but one out"
    if streams and isinstance(inbox, Topic):
        yield f"its first stage reads {inbox}, which cannot delay the retry of a stream's record; give it a queue"
    for turning_away, change in _TURNED_AWAY.items():
        if streams and on_conflict is turning_away:
            yield (
                f"under {turning_away.name} a change {change} is not carried out; a flow with streams takes SUPERSEDE"
            )

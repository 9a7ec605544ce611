"""What a message is told is so: held against the run item that the refused call found, in words of its own.

Where a claim is refused DynamoDB has decided already, and what is left is to say why; so these are the promises that
notice a wrong word, for whoever reads logs and for what is done with the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from flowguard.events import EventType
from flowguard.protocol.run import ENDED, FencedBy, RunItem
from flowguard.testing.explorer import View
from flowguard.testing.explorer.record.history import CallRecord, DeliveryRecord, History
from flowguard.wire.message import Message

Fits: TypeAlias = Callable[[Message, RunItem], bool]


def _is_other(m: Message, item: RunItem) -> bool:
    return m.request_id != item.request_id


def _is_older(m: Message, item: RunItem) -> bool:
    return m.requested_at <= item.requested_at


def _is_over(item: RunItem) -> bool:
    return item.status in ENDED


def _is_same_attempt(m: Message, item: RunItem) -> bool:
    return (m.hop, m.redrive, m.retry) == (item.hop, item.redrive, item.retry)


def _is_left_behind(m: Message, item: RunItem) -> bool:
    return (m.hop, m.redrive, m.retry) < (item.hop, item.redrive, item.retry)


def _is_earlier_copy(m: Message, item: RunItem) -> bool:
    return m.hop == 1 and not item.done and m.requested_at < item.requested_at


VERDICTS: Final[Mapping[EventType, Fits]] = {
    EventType.STALE: lambda m, item: _is_other(m, item) and m.hop == 1 and _is_older(m, item),
    EventType.IGNORED: lambda m, item: _is_other(m, item) and m.hop == 1 and not _is_older(m, item),
    EventType.SUPERSEDED: lambda m, item: _is_other(m, item) and m.hop > 1,
    EventType.DONE: lambda m, item: not _is_other(m, item) and (_is_over(item) or (m.hop == item.hop and item.done)),
    EventType.DUPLICATE: lambda m, item: (
        not _is_other(m, item) and not _is_over(item) and (_is_left_behind(m, item) or _is_earlier_copy(m, item))
    ),
    EventType.BUSY: lambda m, item: not _is_other(m, item) and not item.done and _is_same_attempt(m, item),
    EventType.EARLY: lambda m, item: not _is_other(m, item) and not _is_over(item) and m.hop > item.hop,
}

FENCED: Final[Mapping[FencedBy, Fits]] = {
    FencedBy.NEWER_RUN: lambda m, item: _is_other(m, item) and _is_older(m, item),
    FencedBy.EXPIRED: lambda m, item: _is_other(m, item) and not _is_older(m, item),
    FencedBy.OTHER_ATTEMPT: lambda m, item: not _is_other(m, item) and m.hop == item.hop and not item.done,
    FencedBy.FINISHED: lambda m, item: not _is_other(m, item) and (m.hop < item.hop or item.done),
}

_WORDS: Final[Mapping[str, Fits]] = {
    **{event.value: one for event, one in VERDICTS.items()},
    **{event.name: one for event, one in VERDICTS.items()},  # the verdict by which a commit without a lease is fenced
    **{by.value: one for by, one in FENCED.items()},
}


def what_is_told_is_so(view: View) -> str | None:
    """Each verdict but CLAIMED, and each word on who has fenced a worker off."""
    return next(_untrue(view._history), None)


def _untrue(history: History) -> Iterator[str]:
    for worked, event in history.events(*VERDICTS, EventType.GONE, EventType.FENCED):
        message = event.message
        refused = _refused(history, worked)
        if message is None or refused is None:
            continue
        item = _item(history, f"run#{message.flow}#{message.object_id}", before=refused.number)
        word = str(event.facts.get("by", event.type.value))
        if not _fits(word, message, item):
            yield f"{message.request_id}, hop {message.hop}, was told {word} of {item}"


def _fits(word: str, message: Message, item: RunItem | None) -> bool:
    if item is None:
        return word in {EventType.GONE, FencedBy.EXPIRED}
    return word in _WORDS and _WORDS[word](message, item)


def _refused(history: History, worked: DeliveryRecord) -> CallRecord | None:
    """The last write to flowguard's table that this worker was refused."""
    calls = (history.calls[number - 1] for number in reversed(worked.calls))
    return next((one for one in calls if one.error is not None and "flowguard" in one.target), None)


def _item(history: History, key: str, before: int) -> RunItem | None:
    """As the call of this number found it."""
    found = [one.item for one in history.versions if one.key == key and one.call < before]
    return found[-1] if found else None

"""The answers to a group's requests, read a shard at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from flowguard.errors import RunFailed, shown
from flowguard.failed import Failed
from flowguard.group import GroupAnswer, GroupEnd
from flowguard.protocol.groups import MOST_IN_SHARD, GroupRequest, Member
from flowguard.protocol.waiting import GivenAnswer
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import Message

TIMED_OUT = "TimedOut"
"""The type of a failure that stands for an answer that did not come in time."""

UNREADABLE = "Unreadable"
"""The type of a failure that stands for an answer of another type."""


class ReadsGroups(Protocol):
    """The part of a store that reads groups."""

    def answers(self, address: AnswerAddress) -> Sequence[tuple[GroupRequest, GivenAnswer | None]]:
        """Read the requests of the address's shard with their answers. Empty where it is none of its run."""
        ...


def read_answers(
    groups: ReadsGroups, message: Message, group: GroupEnd, kind: Any, start: int
) -> Iterator[GroupAnswer[Any]]:
    """Yield the group's requests with their answers, from the number ``start`` on.

    Raises :class:`RunFailed` for a group that is not of the message's run, or has expired.
    """
    reader: TypeAdapter[Any] = TypeAdapter(kind)
    if type(start) is not int or start < 0:
        raise RunFailed(f"step.answers: start is {shown(start)}; it is a number from 0")
    for shard in range(start // MOST_IN_SHARD, -(-group.requests // MOST_IN_SHARD)):
        name = Member(group.key, shard, 0).text
        m = message
        found = groups.answers(AnswerAddress(m.flow, m.object_id, m.request_id, m.requested_at, m.hop, name))
        if not found:
            raise RunFailed(f"this run has no group {shown(group.key)}, or its answers have expired")
        for number, (request, answer) in enumerate(found, shard * MOST_IN_SHARD):
            if number >= start:
                yield GroupAnswer(number, request.name, _read(reader, answer))


def _read(reader: TypeAdapter[Any], answer: GivenAnswer | None) -> Any:
    if answer is None:
        return Failed(type=TIMED_OUT, text="no answer came in time")
    if answer.failed:
        return Failed.model_validate_json(answer.text)
    try:
        return reader.validate_json(answer.text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        return Failed(type=UNREADABLE, text=f"{where and where + ': '}{first['msg']}")

"""The answers to a group's requests, read a shard at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from flowguard.errors import RunFailed
from flowguard.failed import Failed
from flowguard.group import GroupAnswer
from flowguard.protocol.groups import GroupPlan, GroupRequest
from flowguard.protocol.waiting import GivenAnswer
from flowguard.startup.named_tuple import NamedTuple

TIMED_OUT = "TimedOut"
"""The type of a failure that stands for an answer that did not come in time."""

UNREADABLE = "Unreadable"
"""The type of a failure that stands for an answer of another type."""


class ReadsGroups(Protocol):
    """The part of a store that reads groups."""

    def answers(self, flow: str, key: str, shard: int) -> Sequence[tuple[GroupRequest, GivenAnswer | None]]:
        """Read the requests of a shard with their answers."""
        ...


class EndedGroup(NamedTuple):
    """The group that a stage goes on after, with what reads its answers."""

    groups: ReadsGroups
    flow: str
    plan: GroupPlan

    def answers(self, kind: Any) -> Iterator[GroupAnswer[Any]]:
        """Yield the requests with their answers, in the order in which they were asked.

        Raises :class:`RunFailed` where they have expired.
        """
        reader: TypeAdapter[Any] = TypeAdapter(kind)
        number = 0
        for shard in range(self.plan.shards):
            for request, answer in self.groups.answers(self.flow, self.plan.key, shard):
                yield GroupAnswer(number, request.name, _read(reader, answer))
                number += 1
        if number != self.plan.size:
            raise RunFailed(f"of {self.plan.size:,} answers {self.plan.size - number:,} have expired")


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

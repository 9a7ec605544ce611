"""The end of a group of requests and its answers, as a stage gets them."""

from __future__ import annotations

from typing import Generic, NamedTuple

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypeVar

from flowguard.failed import Failed

AnswerT = TypeVar("AnswerT")


class GroupEnd(BaseModel):
    """A group that has ended: the payload of the stage at which its run goes on.

    ``class AddUp(Stage[GroupEnd], name="add-up")``

    ``requests`` is how many were asked. ``timed_out`` says that the deadline came first. The answers are read with
    :meth:`flowguard.Step.answers`.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    requests: int
    timed_out: bool = False


class GroupAnswer(NamedTuple, Generic[AnswerT]):
    """One request of a group with its answer. ``number`` is its place among all, from 0.

    ``answer`` is :class:`flowguard.Failed` if the asked party has failed. Its ``type`` is ``"TimedOut"`` where no
    answer was there when the run went on, and ``"Unreadable"`` for one that is not of the type that was asked for.
    """

    number: int
    name: str
    answer: AnswerT | Failed

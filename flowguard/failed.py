"""Failures as values. One stands for an answer that failed, the other tells ``on_failed`` why the run did."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict


class Failed(BaseModel):
    """What was awaited has failed. Declare it for a name whose failure the stage handles itself.

    ``class Answers(BaseModel): search: SearchResult | Failed``

    ``type`` is the kind of the error and ``text`` its words; of a name without an answer in time the type is
    ``"TimedOut"``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    failed: Literal[True] = True
    type: str
    text: str


LONGEST_PAYLOAD = 32_768
"""Bytes of the payload that a :class:`Failure` brings along."""


class Failure(BaseModel):
    """What a flow's ``on_failed`` stage gets: why and where its run failed for good.

    ``class UndoOrder(Stage[Failure, OrderState], name="undo-order")``

    ``type`` and ``text`` are of the last attempt's error, ``cause`` is the error that it was raised ``from``, and
    ``first_error`` that of the first attempt. ``stage``, ``hop`` and ``attempts`` say where, and after how many
    attempts. ``payload`` is the text of the failed message: JSON, or the text that a ``Stage[str]`` takes. It is None
    after a wait, and where it is longer than 32 KiB. ``remembered`` is what the failed hop did before its commit: the
    results of ``step.once`` as JSON text, and ``"null"`` for each block of ``step.apply``, by their names. A result
    that is gone from S3 is None.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    type: str
    text: str
    cause: str | None = None
    first_error: str
    stage: str
    hop: int
    attempts: int
    at: datetime
    payload: str | None = None
    remembered: Mapping[str, str | None] = {}

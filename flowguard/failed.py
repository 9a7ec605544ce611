"""The failure of something awaited, as a value that a stage can take in place of an answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Failed(BaseModel):
    """What was awaited has failed. Declare it for a name whose failure the stage handles itself.

    ``class Answers(BaseModel): search: SearchResult | Failed``

    ``type`` is the kind of the error and ``text`` its words; of a name without an answer in time the type is
    ``"TimedOut"``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    failed: Literal[True] = True
    type: str
    text: str

"""The ways in which a stage can end, as values.

They are matched exhaustively, so that a new ending names every place that must know it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flowguard.payloads import Payload


class Next(NamedTuple):
    """The run goes on with another stage. Made by ``SomeStage.message(payload)``, which checks the payload's type."""

    stage: str
    payload: Payload


class Done(NamedTuple):
    """The run is complete. ``result`` is kept for late duplicates and sent in the reply; keep it small.

    Anything JSON can hold, or a pydantic model.
    """

    result: Any = None


Outcome = Next | Done

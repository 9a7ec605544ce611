"""A question: one thing that a run awaits from a party outside."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

PARTIES: Final = "answers-from-outside"
"""The name under which the answers of parties outside are delivered."""


class Question(NamedTuple):
    """Something that a run awaits from a party outside, for the function that answers it.

    ``flow``, ``object_id``, ``request_id`` and ``hop`` are of the run that waits. ``name`` is what the stage calls it,
    and ``id`` what it is answered under. ``payload`` is what the party was asked, parsed where it is JSON; None for an
    event and a token. ``deadline`` is in ms since 1970.
    """

    flow: str
    object_id: str
    request_id: str
    hop: int
    name: str
    id: str
    payload: Any
    deadline: int

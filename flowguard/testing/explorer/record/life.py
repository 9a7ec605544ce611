"""A life that a write has made shorter: of a run item, or of a row beside it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from flowguard.protocol.run import RunItem


class RowKind(StrEnum):
    """What an item of the run table is."""

    RUN = "run item"
    CALLER = "row of a caller"
    ORDER = "row of an order to reset"
    CANCEL = "row of an order to cancel"
    HISTORY = "row of the history"
    AWAITED = "row of a wait"
    EARLY = "early answer"
    PLACE = "place of an answer for many"
    GROUP = "row of a group"
    LIMIT = "places of a limit"
    CALL = "message of who waits for a place"
    OTHER = "item of a handler's own"


_BEGINNINGS = (
    ("run#", "run", RowKind.RUN),
    ("run#", "caller#", RowKind.CALLER),
    ("run#", "order#", RowKind.ORDER),
    ("run#", "cancel#", RowKind.CANCEL),
    ("run#", "turn#", RowKind.CALL),
    ("run#", "", RowKind.HISTORY),
    ("wait#", "early", RowKind.EARLY),
    ("wait#", "#place#", RowKind.PLACE),
    ("wait#", "", RowKind.AWAITED),
    ("group#", "", RowKind.GROUP),
    ("limit#", "", RowKind.LIMIT),
)


def kind_of(key: Any) -> RowKind:
    """Return what the item under a low-level key is."""
    pk, sk = (str(key.get(name, {}).get("S", "")) for name in ("pk", "sk"))
    return next(
        (kind for begins, then, kind in _BEGINNINGS if pk.startswith(begins) and sk.startswith(then)), RowKind.OTHER
    )


class Shortened(NamedTuple):
    """A write of a life that ended earlier than before. Lives are in seconds, ``at`` is in ms.

    ``before`` and ``after`` are the run item as it was and is. ``is_another`` says of a row that it holds something
    else now.
    """

    kind: RowKind
    key: str
    call: int
    at: int
    was: int
    lives: int
    before: RunItem | None = None
    after: RunItem | None = None
    is_another: bool = False

"""How an engine answers Scans. Nobody may rely on their order, and DynamoDB may end a page anywhere.

A Query has pages, too, and that of an index no order among items that have one key in it.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol, runtime_checkable


class Scans(Enum):
    """The order of Scans, and how long their pages are where no limit is given."""

    FORWARDS = "in the order of the keys"
    BACKWARDS = "the other way round"
    IN_PAGES = "in pages of one item"


@runtime_checkable
class TurnsScans(Protocol):
    """An engine with several ways to answer a Scan."""

    scans: Scans

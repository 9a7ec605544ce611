"""How an engine answers Scans. DynamoDB keeps no order in which a handler may rely, and may end a page anywhere."""

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

"""DynamoDB's sizes, and what no request may contain. The rules that need a table's items are with the tables."""

from __future__ import annotations

from typing import Final

from flowguard.sim.limits.fault import Fault, invalid
from flowguard.sim.limits.texts import lone

LARGEST_ITEM: Final = 409_600
"""Bytes of an item: the names and values of its attributes."""

LONGEST_KEYS: Final = (2048, 1024)
"""Bytes of a partition key and of a sort key."""

DEEPEST: Final = 31
"""Maps and lists inside one another in one attribute; with the item itself, 32 levels."""

MOST_ACTIONS: Final = 100
MOST_READ_TOGETHER: Final = 100
MOST_WRITTEN_TOGETHER: Final = 25
"""Items of a BatchGetItem, and of a BatchWriteItem."""

LARGEST_TRANSACTION: Final = 4_194_304
LONGEST_EXPRESSION: Final = 4096
"""Bytes."""

MOST_OPERATORS: Final = 300
"""Operators and functions of an expression."""

MOST_OPERANDS: Final = 100
"""Operands of IN."""

TOO_LARGE: Final = "Item size has exceeded the maximum allowed size"
TOO_LARGE_TO_UPDATE: Final = "Item size to update has exceeded the maximum allowed size"


def check_text(text: str) -> str:
    """Return the text if JSON in UTF-8 can carry it. Raises a Fault otherwise, which DynamoDB Local does not."""
    if lone(text):
        raise Fault("SerializationException", "A string has a surrogate without its other half")
    return text


def check_key_size(size: int, place: int) -> None:
    """Check the size of the partition key's content (0) or the sort key's (1)."""
    if size <= LONGEST_KEYS[place]:
        return
    if place == 0:
        raise invalid(
            "One or more parameter values were invalid: "
            f"Size of hashkey has exceeded the maximum size limit of {LONGEST_KEYS[0]} bytes"
        )
    raise invalid(
        "One or more parameter values were invalid: "
        f"Aggregated size of all range keys has exceeded the size limit of {LONGEST_KEYS[1]} bytes"
    )


def check_count(most: int, count: int) -> None:
    """Check the number of items in a batch."""
    if not 0 < count <= most:
        raise invalid(f"Member must have length less than or equal to {most} and greater than 0; there are {count}")


def too_deep() -> Fault:
    return invalid(
        "Nesting Levels have exceeded supported limits: "
        "Attributes in the item have nested levels beyond supported limit"
    )


def no_table() -> Fault:
    return Fault("ResourceNotFoundException", "Cannot do operations on a non-existent table")

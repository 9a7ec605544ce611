"""Rows of JSON that leave out what most of them do not have."""

from __future__ import annotations

from typing import Any


def short_row(row: list[Any]) -> list[Any]:
    """Return the row without the empty values at its end."""
    short = list(row)
    while short and not short[-1]:
        short.pop()
    return short

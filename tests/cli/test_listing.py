"""Identifiers are printed whole, however narrow the terminal is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from flowguard.cli.console import WIDE
from flowguard.cli.listing import Column, show_table

COLUMNS = (*map(Column, ("id", "stage", "object")), Column("error", folds=True), Column("hop", right=True))
ROW = (
    "8d1f3bb5-6b9c-4a4e-9a54-0c0f0f3f8b43",
    "orders/fulfil-shipping",
    "o-1001",
    "Reject: no such tariff for arn:aws:sqs:eu-west-1:123456789012:price in this place",
    "12",
)


def shown(width: int, *row: str) -> list[str]:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    show_table(out, COLUMNS, [tuple(map(Text, row))])
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, WIDE])
def test_no_word_is_broken_and_no_line_is_too_long(width: int) -> None:
    lines = shown(width, *ROW)
    assert sorted(" ".join(lines).split()) == sorted(" ".join((*(column.name for column in COLUMNS), *ROW)).split())
    assert max(map(len, lines)) <= width


def test_columns_are_kept_where_they_fit() -> None:
    heading, first, *folded = shown(140, *ROW)
    assert heading.index("error") == first.index("Reject") == folded[0].index(folded[0].split()[0])
    assert first.rstrip().endswith("12")


def test_a_pipe_has_a_row_on_a_line() -> None:
    assert len(shown(WIDE, *ROW)) == 2
    assert len(shown(WIDE, "i", "s", "o", "x" * 600, "1")) == 2


def test_only_what_fits_no_line_by_itself_is_folded() -> None:
    lines = shown(60, "i" * 100, *ROW[1:])
    assert "".join(lines[1:3]) == "i" * 100
    assert "orders/fulfil-shipping" in lines[3]

"""Tables whose identifiers stay whole. Text is folded between words, and a row that is too wide between its cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP: Final = 2
_INDENT: Final = 4


class Column(NamedTuple):
    """A column of a table. ``folds`` is for text in words; without it a cell stays on one line."""

    name: str
    folds: bool = False
    right: bool = False


def show_table(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> None:
    """Print rows in columns.

    Where the terminal is too narrow for those, each row is printed on as many lines as it needs.
    """
    heads = [Text(column.name, style="bold") for column in columns]
    widths = _widths(columns, [heads, *rows], out.width)
    if widths is None:
        for row in [heads, *rows]:
            for line in _flowing(row, out.width):
                out.print(line)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.name, width=width, justify="right" if column.right else "left", no_wrap=not column.folds
        )
    for row in rows:
        table.add_row(*row)
    out.print(table)


def show_pairs(out: Console, pairs: Sequence[tuple[str, Text]]) -> None:
    """Print names and texts side by side. A long text goes on below itself, between its words.

    Where the terminal is too narrow for a text's longest word, the text goes below its name.
    """
    names = _longest(Text(name) for name, _ in pairs) + _GAP
    for name, text in pairs:
        longest = _longest(text.split(" "))
        beside = longest <= out.width - names
        indent = names if beside else _INDENT
        lines = [Text(" " * indent) + part for part in text.wrap(out, max(out.width - indent, longest, 1))]
        if beside and lines:
            lines[0] = Text(name.ljust(names), style="bold") + lines[0][indent:]
        else:
            lines = [Text(name, style="bold"), *lines]
        for line in lines:
            out.print(line, soft_wrap=True)


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> list[int] | None:
    """Compute the width of each column. None where they do not fit.

    What is left beside the whole columns goes to those that fold, each at least as wide as its longest word.
    """
    cells = list(zip(*rows, strict=True))
    natural = [_longest(line for cell in column for line in cell.split()) for column in cells]
    least = [
        _longest(word for cell in of for word in cell.split(" ")) if column.folds else whole
        for column, of, whole in zip(columns, _lines(cells), natural, strict=True)
    ]
    spare = width - sum(least) - _GAP * (len(columns) - 1)
    if spare < 0:
        return None
    widths = []
    for whole, word in zip(natural, least, strict=True):
        more = min(whole - word, spare)
        widths.append(word + more)
        spare -= more
    return widths


def _lines(cells: Iterable[Sequence[Text]]) -> Iterator[list[Text]]:
    return ([line for cell in column for line in cell.split()] for column in cells)


def _longest(texts: Iterable[Text]) -> int:
    return max((text.cell_len for text in texts), default=0)


def _flowing(row: Sequence[Text], width: int) -> Iterator[Text]:
    """Put the cells of a row one after another. Those that do not fit go on the next line, indented."""
    line = Text()
    for cell in (part for whole in row for part in whole.split() if part.cell_len):
        if line.cell_len and line.cell_len + _GAP + cell.cell_len > width:
            yield line
            line = Text(" " * _INDENT)
            line.append_text(cell)
        else:
            line = Text(" " * _GAP).join([line, cell]) if line.cell_len else cell.copy()
    if line.cell_len:
        yield line

"""How plain the package's docstrings are, in two figures: ``python -m tests.prose``.

A first sentence is what stands before the first full stop that is followed by a space or the end of its line.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
VERBS: Final = frozenset((Path(__file__).parent / "verbs.txt").read_text().split())
"""The imperatives with which a docstring may open. A new one is added there."""

_END: Final = re.compile(r"\.(?=\s|$)")
_BREAKS: Final = re.compile(r"[,;:](?=\s|$)")


class Sentence(NamedTuple):
    """The first sentence of a docstring, and where it stands."""

    place: str
    text: str
    of_function: bool

    @property
    def opens_with_a_verb(self) -> bool:
        word = re.match(r"[A-Za-z]+", self.text)
        return word is not None and word[0].lower() in VERBS

    @property
    def is_winding(self) -> bool:
        """Has two or more commas, colons or semicolons."""
        return len(_BREAKS.findall(re.sub(r"``[^`]*``", "code", self.text))) >= 2


class Prose(NamedTuple):
    """Shares between 0 and 1: of functions' docstrings, and of all first sentences."""

    opening_with_a_verb: float
    winding: float
    functions: int
    sentences: int

    @classmethod
    def of(cls, found: list[Sentence]) -> Prose:
        functions = [one for one in found if one.of_function]
        return cls(
            opening_with_a_verb=sum(one.opens_with_a_verb for one in functions) / len(functions),
            winding=sum(one.is_winding for one in found) / len(found),
            functions=len(functions),
            sentences=len(found),
        )


def sentences(package: Path = ROOT / "flowguard") -> Iterator[Sentence]:
    """Every first sentence of the package, those of modules and classes too."""
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if text := ast.get_docstring(node):
                place = f"{file.relative_to(package.parent)}:{getattr(node, 'lineno', 1)}"
                yield Sentence(place, _first(text), isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _first(text: str) -> str:
    paragraph = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return _END.split(paragraph, maxsplit=1)[0]


def main() -> None:
    """Print the figures; with ``--all`` every sentence that counts against them too."""
    found = list(sentences())
    if "--all" in sys.argv:
        for one in found:
            marks = [
                mark
                for mark, yes in (
                    ("winding", one.is_winding),
                    ("no verb", one.of_function and not one.opens_with_a_verb),
                )
                if yes
            ]
            if marks:
                sys.stdout.write(f"{one.place}: {', '.join(marks)}: {one.text}\n")
    sys.stdout.write(json.dumps(Prose.of(found)._asdict()) + "\n")


if __name__ == "__main__":
    main()

"""How plain the package's docstrings and names are: ``python -m tests.prose``.

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

from tests.trees import nodes, parsed

ROOT: Final = Path(__file__).parents[1]
VERBS: Final = frozenset((Path(__file__).parent / "verbs.txt").read_text().split())
"""The imperatives with which a docstring may open. A new one is added there."""

_END: Final = re.compile(r"\.(?=\s|$)")
_CODE: Final = re.compile(r"``[^`]*``")
_BREAKS: Final = re.compile(r"[,;:](?=\s|$)")


ODD: Final = re.compile(
    r"\b(what that|who is|told|comes? to(?! rest)|go(?:es)? without|do(?:es)? without|makes? anew|begins? anew|"
    r"what is right|unheard|whoever)\b",
    re.IGNORECASE,
)
"""Turns of phrase that send a reader back to the beginning of their sentence."""

VAGUE: Final = frozenset({"found", "one", "own", "said"})
"""Names of variables that say nothing of what they hold."""


class Place(NamedTuple):
    """Where something odd stands, and what it is."""

    place: str
    text: str


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
        return len(_BREAKS.findall(_CODE.sub("code", self.text))) >= 2


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
        for node in nodes(parsed(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if text := ast.get_docstring(node):
                place = f"{file.relative_to(package.parent)}:{getattr(node, 'lineno', 1)}"
                yield Sentence(place, _first(text), isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def odd_phrases(package: Path = ROOT / "flowguard") -> Iterator[Place]:
    """Every odd turn of phrase in a docstring, those of attributes too."""
    for file, node in _nodes(package):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for phrase in ODD.finditer(" ".join(_CODE.sub("code", node.value.value).split())):
                yield Place(f"{file.relative_to(package.parent)}:{node.lineno}", phrase[0])


def vague_names(package: Path = ROOT / "flowguard") -> Iterator[Place]:
    """Every variable and parameter with a vague name, where it gets its value."""
    for file, node in _nodes(package):
        name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None
        name = node.arg if isinstance(node, ast.arg) else name
        if name in VAGUE:
            yield Place(f"{file.relative_to(package.parent)}:{node.lineno}", name)


def _nodes(package: Path) -> Iterator[tuple[Path, ast.expr | ast.Expr | ast.arg]]:
    for file in sorted(package.rglob("*.py")):
        for node in nodes(parsed(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.expr | ast.Expr | ast.arg):
                yield file, node


def _first(text: str) -> str:
    paragraph = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return _END.split(paragraph, maxsplit=1)[0]


def main() -> None:
    """Print the figures; with ``--all`` every sentence and name that counts against them too."""
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
        sys.stdout.writelines(f"{place}: odd: {text}\n" for place, text in odd_phrases())
        sys.stdout.writelines(f"{place}: vague: {text}\n" for place, text in vague_names())
    figures = {"odd_phrases": len([*odd_phrases()]), "vague_names": len([*vague_names()])}
    sys.stdout.write(json.dumps({**Prose.of(found)._asdict(), **figures}) + "\n")


if __name__ == "__main__":
    main()

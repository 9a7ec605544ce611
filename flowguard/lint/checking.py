"""The check of files. It finds handlers, applies the rules, and leaves out what is suppressed with a reason."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from flowguard.lint.checks import CHECKS, undoes_shortly
from flowguard.lint.handler_source import ModuleSource
from flowguard.lint.rules import BAD_SUPPRESSION, RULES, UNDOES_SHORTLY, UNREADABLE, UNUSED_SUPPRESSION, CodeFinding
from flowguard.text.printable import one_line

_SUPPRESSION: Final = re.compile(r"#\s*flowguard:\s*ignore(?:\[([^\]]*)\])?(.*)")
_LONGEST_CODE: Final = 60
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class Suppression(NamedTuple):
    """A comment that suppresses rules on its line, or on the next where it stands alone."""

    line: int
    applies_to: int
    rules: tuple[str, ...]
    reason: str

    @property
    def is_good(self) -> bool:
        known = {rule.id for rule in RULES}
        return bool(self.reason) and bool(self.rules) and known.issuperset(self.rules)


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield each file, and the ``*.py`` of each directory and of those below it.

    Below it, what is hidden, virtual environments and what is installed are left out.
    """
    for path in paths:
        if path.is_dir():
            yield from sorted(_python_files(path))
        else:
            yield path


def _python_files(directory: Path) -> Iterator[Path]:
    for place, directories, files in os.walk(directory):
        here = Path(place)
        directories[:] = [name for name in directories if _is_checked(here / name)]
        yield from (here / name for name in files if name.endswith(".py"))


def _is_checked(directory: Path) -> bool:
    name = directory.name
    return not name.startswith(".") and name not in _LEFT_OUT and not (directory / "pyvenv.cfg").is_file()


def check_files(paths: Iterable[Path]) -> list[CodeFinding]:
    """Check files together: a flow may take its stages from another of them. One that cannot be read is a finding."""
    findings: list[CodeFinding] = []
    texts: dict[Path, str] = {}
    for path in paths:
        try:
            with tokenize.open(path) as file:
                texts[path] = file.read()
        except OSError as error:
            findings.append(_unreadable(str(path), 1, error.strerror or type(error).__name__))
        except (SyntaxError, UnicodeDecodeError) as error:
            findings.append(_unreadable(str(path), 1, str(error)))
    forgotten = frozenset(stage for text in texts.values() for stage in _forgetful_stages(text))
    return [
        *findings,
        *(finding for path, text in texts.items() for finding in check_source(text, str(path), forgotten)),
    ]


def _forgetful_stages(text: str) -> set[str]:
    try:
        return ModuleSource(ast.parse(text)).forgetful_stages()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def check_source(text: str, path: str, forgotten: frozenset[str] = frozenset()) -> list[CodeFinding]:
    """Check the source of a module.

    ``forgotten`` are the stages, each as ``module.Stage``, of flows elsewhere that lack ``remember=``.
    """
    try:
        source = ModuleSource(ast.parse(text), module=Path(path).stem, forgotten=forgotten)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [_unreadable(path, getattr(error, "lineno", None) or 1, str(error))]
    findings = {_finding(path, UNDOES_SHORTLY.id, node) for node in undoes_shortly(source)} | {
        _finding(path, rule.id, node)
        for code in source.handlers()
        for rule, check in CHECKS.items()
        for node in check(source, code)
    }
    return sorted(_without_suppressed(findings, list(_suppressions(text)), path))


def _unreadable(path: str, line: int, why: str) -> CodeFinding:
    return CodeFinding(path, line, 1, UNREADABLE.id, _cut(why))


def _finding(path: str, rule: str, node: ast.AST) -> CodeFinding:
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
    return CodeFinding(path, line, column, rule, _code(node))


def _code(node: ast.AST) -> str:
    """Return the code that breaks a rule, without what is inside it."""
    match node:
        case ast.Call(func):
            return f"{_cut(ast.unparse(func))}(…)"
        case ast.ExceptHandler(kind):
            return f"except {_cut(ast.unparse(kind))}" if kind is not None else "except"
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
            return f"async def {name}" if isinstance(node, ast.AsyncFunctionDef) else f"def {name}"
        case _:
            return _cut(ast.unparse(node))


def _cut(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST_CODE else f"{line[: _LONGEST_CODE - 1]}…"


# -- suppressions


def _suppressions(text: str) -> Iterator[Suppression]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):  # the parser would have said so
        return
    for token in tokens:
        if token.type == tokenize.COMMENT and (match := _SUPPRESSION.search(token.string)):
            alone = not token.line[: token.start[1]].strip()
            rules = tuple(part.strip() for part in (match[1] or "").split(",") if part.strip())
            line = token.start[0]
            yield Suppression(line, line + 1 if alone else line, rules, match[2].strip(" :-–"))


def _without_suppressed(
    findings: Iterable[CodeFinding], suppressions: list[Suppression], path: str
) -> Iterator[CodeFinding]:
    used: set[tuple[int, str]] = set()
    for finding in findings:
        hiding = [s for s in suppressions if s.is_good and s.applies_to == finding.line and finding.rule_id in s.rules]
        used.update((s.line, finding.rule_id) for s in hiding)
        if not hiding:
            yield finding
    for suppression in suppressions:
        if not suppression.is_good:
            yield CodeFinding(path, suppression.line, 1, BAD_SUPPRESSION.id, "the comment")
            continue
        for rule in suppression.rules:
            if (suppression.line, rule) not in used:
                yield CodeFinding(path, suppression.line, 1, UNUSED_SUPPRESSION.id, f"ignore[{rule}]")

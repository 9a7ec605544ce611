"""The code of a project that its functions need."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

from flowguard.deploy.own_wheel import MODULE
from flowguard.deploy.problems import CannotPackage
from flowguard.deploy.source_tree import SourceTree
from flowguard.text.printable import printable

_ELSEWHERE: Final = {MODULE, "__main__", "__future__"}
"""What is imported, and is not the project's own."""


_INSTALLED: Final = {"site-packages", "dist-packages"}
"""The directories in which Python has what is installed."""


@dataclass(frozen=True)
class ProjectCode:
    """The code for the zip, and what it imports.

    ``libraries`` are imported and not in ``trees``, each with its first place.
    """

    trees: tuple[SourceTree, ...]
    libraries: dict[str, str]


def project_code(modules: Sequence[str], *, include: Sequence[Path] = ()) -> ProjectCode:
    """Find the code that modules need, whole top-level packages at a time.

    Imports are read from the source, so what is imported by a name that is worked out is not found: ``include`` names
    it, or a directory of data. A module that is installed in this environment is a library, unless a handler is in it.
    """
    trees = {place: SourceTree(place) for place in dict.fromkeys(_included(path) for path in include)}
    libraries: dict[str, str] = {}
    waiting = [(name.partition(".")[0], "") for name in modules]
    waiting += [imported for tree in trees.values() for imported in _imports(tree)]
    while waiting:
        name, where = waiting.pop(0)
        place = _place(name)
        if place is None or (where and _is_installed(place)):
            if name not in sys.stdlib_module_names | _ELSEWHERE:
                libraries.setdefault(name, where)
        elif place not in trees and not (where and name in _ELSEWHERE):
            trees[place] = SourceTree(place)
            waiting += _imports(trees[place])
    return ProjectCode(tuple(trees.values()), dict(sorted(libraries.items())))


def first_import_of(parts: Collection[str], modules: Sequence[str], code: ProjectCode) -> str | None:
    """Say which module imports one of these parts of flowguard, of the modules and all that they import of the project.

    Imports in functions count. What stands beside them and nothing imports, such as tests, does not.
    """
    files = {_module(path): (tree, path) for tree in code.trees for path in tree.sizes if path.endswith(".py")}
    waiting, seen = list(modules), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen or name not in files:
            continue
        seen.add(name)
        tree, path = files[name]
        for node in _parsed(tree, path):
            for imported in _whole_names(node, name if path.endswith("/__init__.py") else name.rpartition(".")[0]):
                if imported.startswith(f"{MODULE}.") and imported.split(".")[1] in parts:
                    return f"{name} imports {imported}"
                waiting += accumulate(imported.split("."), "{}.{}".format)
    return None


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _whole_names(node: ast.AST, package: str) -> list[str]:
    """Return the modules that an import may name, relative ones from ``package``."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    base = ".".join([*parents, *filter(None, [node.module])])
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def _place(name: str) -> Path | None:
    """Return the file of a top-level module, or the directory of a package. None where it is built in, or is not."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # such as __main__, which has none
        return None
    if spec is None or name in sys.stdlib_module_names:
        return None
    if spec.submodule_search_locations is not None:
        places = [Path(location) for location in spec.submodule_search_locations]
        return places[0].absolute() if places else None
    return Path(spec.origin).absolute() if spec.origin is not None and spec.has_location else None


def _is_installed(place: Path) -> bool:
    return not _INSTALLED.isdisjoint(place.resolve().parts)


def _included(given: Path) -> Path:
    if not given.exists():
        raise CannotPackage(printable(str(given)), "there is no such file or directory to include")
    return given.absolute()


def _imports(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """Yield each top-level name that the files import, with its place."""
    for path in tree.sizes:
        if not path.endswith(".py"):
            continue
        for node in _parsed(tree, path):
            for name in _names(node):
                yield name.partition(".")[0], f"{path}:{getattr(node, 'lineno', 1)}"


def _parsed(tree: SourceTree, path: str) -> Iterator[ast.AST]:
    """Yield what a file consists of. Nothing of a template of code, perhaps; Python says so where it matters."""
    try:
        yield from ast.walk(ast.parse(tree.read(path)))
    except (SyntaxError, ValueError, RecursionError):
        return


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []

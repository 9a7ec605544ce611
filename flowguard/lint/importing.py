"""The import of the modules that are checked, in a process of its own.

One that fails is a finding. The stages of the others are asked there whether they need their leases.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from flowguard.lint.rules import NOT_IMPORTED, CodeFinding

_PROGRAM: Final = """
import contextlib, importlib, inspect, json, sys, traceback
files = json.load(sys.stdin)
problems = []
with contextlib.redirect_stdout(sys.stderr):
    for path, places, module in files:
        sys.path[:0] = [place for place in places if place not in sys.path]
        if getattr(sys.modules.get(module), "__file__", path) != path:
            del sys.modules[module]
        try:
            importlib.import_module(module)
        except BaseException as error:
            line = next((one.lineno for one in reversed(traceback.extract_tb(error.__traceback__))
                         if one.filename == path), 1)
            problems.append([path, line or 1, module, f"{type(error).__name__}: {error}"])
    from flowguard.worker.leases import unneeded
    asked = {path: path for path, _, _ in files}
    found = []
    for flow, stage in unneeded():
        with contextlib.suppress(OSError, TypeError):
            path = inspect.getsourcefile(stage)
            if path in asked:
                found.append([path, inspect.getsourcelines(stage)[1], flow.name, stage.name])
json.dump([problems, sorted(found)], sys.stdout)
"""
"""The program of the process that imports the files. Its input is a JSON list of ``[path, import roots, module]``; its
output two: of ``[path, line, module, error]`` for each module that cannot be imported, and of ``[path, line, flow,
stage]`` for each stage that has a lease and needs none."""


class Unneeded(NamedTuple):
    """A stage that has a lease, says nothing about it, and only does what its step records."""

    path: str
    line: int
    flow: str
    stage: str


class Imported(NamedTuple):
    """What the import of files has shown."""

    problems: Sequence[CodeFinding] = ()
    unneeded: Sequence[Unneeded] = ()


def imported(files: Sequence[Path]) -> Imported:
    """Import each file that imports flowguard, as a module of the package that it is in.

    It is imported from the directory above that package, and from the current one. Files that cannot be read, or are
    no module by their name, are left out.
    """
    wanted = {str(file.resolve()): file for file in files if _is_module(file) and _uses_flowguard(file)}
    if not wanted:
        return Imported()
    asked = [[path, *_module_of(Path(path))] for path in wanted]
    environment = {"AWS_DEFAULT_REGION": "us-east-1", **os.environ}
    done = subprocess.run(  # noqa: S603 - this very interpreter
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(asked),
        capture_output=True,
        check=False,
        text=True,
        env=environment,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return Imported([_finding(str(files[0]), 1, "a module", f"it ends the process that imports it: {last[0]}")])
    problems, unneeded = json.loads(done.stdout)
    return Imported(
        [_finding(str(wanted[path]), line, module, error) for path, line, module, error in problems],
        [Unneeded(str(wanted[path]), line, flow, stage) for path, line, flow, stage in unneeded],
    )


def _finding(path: str, line: int, module: str, error: str) -> CodeFinding:
    return CodeFinding(path, line, 1, NOT_IMPORTED.id, f"{module}: {' '.join(error.split())}")


def _is_module(file: Path) -> bool:
    return file.suffix == ".py" and file.stem.isidentifier()


def _uses_flowguard(file: Path) -> bool:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        if any(name.partition(".")[0] == "flowguard" for name in names):
            return True
    return False


def _module_of(path: Path) -> tuple[list[str], str]:
    """Return where the module of a file is imported from, and its name."""
    parts = [] if path.stem == "__init__" else [path.stem]
    place = path.parent
    while (place / "__init__.py").is_file():
        parts.insert(0, place.name)
        place = place.parent
    return [str(place), str(Path.cwd())], ".".join(parts)

"""The commands of flowguard, as a user runs them, in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from flowguard.cli import main

PROJECT: Final = Path(__file__).with_name("project")


class CommandFailed(Exception):
    """A command of flowguard did not end well."""


def flowguard(*arguments: str, env: Mapping[str, str] | None = None, expected: tuple[int, ...] = (0,)) -> str:
    """Run a command, and return what it wrote. Raises :class:`CommandFailed` where its exit code is another."""
    with _with_project():
        ran = CliRunner().invoke(main, [*arguments], env=env)
    if ran.exit_code not in expected:
        raise CommandFailed(f"flowguard {' '.join(arguments)}: {ran.exit_code}: {ran.output}")
    return ran.stdout


@contextmanager
def _with_project() -> Iterator[None]:
    """Let modules of the project be imported, as they are at the top of the zip."""
    sys.path.insert(0, str(PROJECT))
    try:
        yield
    finally:
        sys.path.remove(str(PROJECT))

"""The small project that ``flowguard init`` writes, from the texts in ``starter/``."""

from __future__ import annotations

import json
import keyword
import os
import re
import sys
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Final

from flowguard.errors import FlowguardError
from flowguard.text.printable import bounded, printable

STARTER: Final = Path(__file__).parent / "starter"

FILES: Final = {
    "README.md": "README.md.txt",
    "Makefile": "Makefile.txt",
    "pyproject.toml": "pyproject.toml.txt",
    "requirements-dev.txt": "requirements-dev.txt",
    "deploy.toml": "deploy.toml.txt",
    ".gitignore": "gitignore.txt",
    ".github/workflows/ci.yml": "ci.yml.txt",
    "@package@/__init__.py": "package.py.txt",
    "@package@/flow.py": "flow.py.txt",
    "@package@/handlers.py": "handlers.py.txt",
    "tests/test_flow.py": "test_flow.py.txt",
    "samples/01-an-order.json": "01-an-order.json",
    "samples/02-the-same-again.json": "02-the-same-again.json",
    "samples/03-the-last-cup.json": "03-the-last-cup.json",
    "samples/04-more-than-there-is.json": "04-more-than-there-is.json",
}
"""The text of each file of the project."""

_NAME: Final = re.compile("[A-Za-z](?:[A-Za-z0-9_-]{0,38}[A-Za-z0-9])?")
_TAKEN: Final = {"flowguard", "tests", "samples", "build", "test"}


class NoProject(FlowguardError):
    """A project cannot be made there. Nothing was written, or what was written is removed again."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}; nothing was written"


def write_project(directory: Path, name: str | None = None) -> tuple[Path, ...]:
    """Write the files of a new project, and return them.

    ``name`` is the project's, by default the directory's own; the package is called after it. Raises
    :class:`NoProject` for a name that cannot be one, or where anything is that the project would have.
    """
    place = Path(os.path.abspath(directory))  # noqa: PTH100 - a path with .. has a name only then
    project = name if name is not None else place.name
    texts = _texts(project, package_of(project))
    tops = sorted({file.partition("/")[0] for file in texts})
    if there := [top for top in tops if os.path.lexists(place / top)]:
        problem = f"{', '.join(there)} is there already, and nothing is overwritten: name another directory"
        raise NoProject(printable(str(directory)), problem)
    return write_new(place, texts)


def package_of(project: str) -> str:
    """Return the name of a project's package. Raises :class:`NoProject` where it cannot be imported as such."""
    shown = f"the name {bounded(project, 100)!a}"
    if not _NAME.fullmatch(project):
        raise NoProject(shown, "a name has letters, digits, - and _, at most 40, and begins with a letter: give --name")
    package = project.lower().replace("-", "_")
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise NoProject(shown, "this is a word of Python's own: give --name")
    if package in _TAKEN | sys.stdlib_module_names or package in packages_distributions():
        raise NoProject(shown, f"a module {package} is there already, which it would hide: give --name")
    return package


def flowguard_requirement() -> str:
    """Return the requirement that installs this flowguard elsewhere.

    It names the directory or file that pip installed it from, or else this version.
    """
    installed = distribution("flowguard-aws")
    name = f"{installed.name}[serve,testing]"
    data = json.loads(installed.read_text("direct_url.json") or "{}")
    if not (url := data.get("url")):
        return f"{name}=={installed.version}"
    if vcs := data.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"{name} @ {url}"


def _texts(project: str, package: str) -> dict[str, str]:
    values = {"@package@": package, "@project@": project, "@flowguard@": flowguard_requirement()}
    return {_filled(file, values): _filled(_text(text), values) for file, text in FILES.items()}


def _text(name: str) -> str:
    return (STARTER / name).read_text(encoding="utf-8")


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub("@[a-z]+@", lambda match: values[match[0]], text)


def write_new(place: Path, texts: dict[str, str]) -> tuple[Path, ...]:
    """Write all files or none. Raises :class:`NoProject` if one exists already or cannot be written."""
    made: list[Path] = []
    try:
        for file, text in texts.items():
            made += _new_directories((place / file).parent)
            with (place / file).open("x", encoding="utf-8", newline="\n") as opened:
                made.append(place / file)
                opened.write(text)
    except OSError as error:
        _remove(made)
        raise NoProject(printable(str(error.filename or place)), f"cannot be written: {error.strerror}") from None
    except KeyboardInterrupt:
        _remove(made)
        raise
    return tuple(place / file for file in texts)


def _new_directories(place: Path) -> list[Path]:
    """Create a directory with those above it, and return the new ones."""
    missing = [parent for parent in (place, *place.parents) if not parent.exists()]
    place.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _remove(made: list[Path]) -> None:
    for path in reversed(made):
        try:
            path.rmdir() if path.is_dir() else path.unlink()
        except OSError:  # somebody else put a file there meanwhile
            continue

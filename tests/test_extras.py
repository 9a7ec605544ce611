"""Each extra declares what its modules import, so that an installation of it alone works."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any, Final

import pytest

from tests.newcomer.test_newcomer import TRACING
from tests.trees import inner, parsed

ROOT = Path(__file__).parents[1]
PROJECT: Final[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

NEEDS: Final = {
    "cli": ("cli", "local"),  # as its commands say where one is missing
    "dev": ("serve",),
    "ui": ("ui", "local"),
    "probe": ("local",),
    "sim": ("local",),
    "testing": ("testing",),
    "testing/explorer": ("local",),  # which the command line runs too
    **dict.fromkeys(
        (
            f"testing/explorer/run/{module}"
            for module in ("outside_data_api", "outside_postgres", "postgres_copies", "postgres_settings")
        ),
        ("local", "postgres"),
    ),
    "observers": ("xray", "opentelemetry"),
    "sql/postgres": ("postgres",),
    "ai": ("ai",),
    "codecs/encrypted": ("codec",),
}
"""The parts of the package that are for an extra. Everything else is deployed, and needs none."""


def part_of(file: str) -> str | None:
    """The longest entry of ``NEEDS`` that the file is in."""
    inside = [part for part in NEEDS if file.startswith(f"flowguard/{part}/") or file == f"flowguard/{part}.py"]
    return max(inside, key=len, default=None)


def names_of(requirements: list[str]) -> set[str]:
    """The distributions that are required, and those of flowguard's own extras among them."""
    found = set()
    for one in requirements:
        name, _, extras = re.split("[^A-Za-z0-9._,[-]", one)[0].partition("[")
        if name == "flowguard-aws":
            found |= {inner for extra in extras.split(",") for inner in names_of(optional()[extra])}
        else:
            found.add(plain(name))
    return found


def optional() -> Mapping[str, list[str]]:
    found: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
    return found


def plain(distribution: str) -> str:
    return re.sub("[-_.]+", "-", distribution).lower()


def imported(tree: ast.AST) -> Iterator[str]:
    """The top-level packages that are imported where the code runs, and not for type checkers alone."""
    for node in inner(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from imported(other)
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]
        yield from imported(node)


DISTRIBUTIONS: Final = packages_distributions()

COME_ALONG: Final = {
    "botocore": "boto3",
    "pydantic-core": "pydantic",
    "typing-extensions": "pydantic",
    "markupsafe": "jinja2",
    "werkzeug": "flask",
}
"""Distributions that are part of what another one offers, and come with it."""


def missing(file: str, source: str) -> list[str]:
    part = part_of(file)
    declared = names_of(PROJECT["dependencies"])
    for extra in NEEDS[part] if part is not None else ():
        declared |= names_of(optional()[extra])
    found = []
    for name in sorted(set(imported(parsed(source)))):
        if name in sys.stdlib_module_names or name == "flowguard":
            continue
        of = {plain(one) for one in DISTRIBUTIONS.get(name, [name])}
        if not (of | {COME_ALONG[one] for one in of if one in COME_ALONG}) & declared:
            where = " and ".join(NEEDS[part]) if part is not None else "flowguard alone"
            found.append(f"{file} imports {name}, which {where} does not declare")
    return found


FILES: Final = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "flowguard").rglob("*.py"))


def test_what_a_module_imports_is_declared_for_its_part() -> None:
    assert [said for file in FILES for said in missing(file, (ROOT / file).read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("part", "whole"), COME_ALONG.items())
def test_what_comes_along_with_another_is_required_by_it(part: str, whole: str) -> None:
    assert part in {plain(re.split("[^A-Za-z0-9._-]", one)[0]) for one in requires(whole) or []}


@pytest.mark.parametrize(
    ("file", "source", "told"),
    [
        ("flowguard/cli/new.py", "def f():\n    import numpy", ["numpy, which cli and local does not declare"]),
        ("flowguard/stage.py", "import click", ["click, which flowguard alone does not declare"]),
        ("flowguard/sim/new.py", "from rich.text import Text", ["rich, which local does not declare"]),
        ("flowguard/sim/new.py", "if TYPE_CHECKING:\n    import rich", []),
        ("flowguard/sim/new.py", "if not TYPE_CHECKING:\n    import json\nelse:\n    pass", []),
        ("flowguard/testing/explorer/new.py", "import pytest", ["pytest, which local does not declare"]),
        ("flowguard/testing/new.py", "import pytest, jinja2, moto, boto3.session", []),
    ],
)
def test_what_is_not_declared_is_told(file: str, source: str, told: list[str]) -> None:
    assert missing(file, source) == [f"{file} imports {one}" for one in told]


def test_the_lock_pins_what_the_extras_declare() -> None:
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {plain(line.partition("==")[0]) for line in lines}
    extras = ("cli", "ui", "local", "testing", "xray", "opentelemetry", "postgres", "ai", "codec", "docs")
    declared = {name for extra in extras for name in names_of(optional()[extra])}
    assert declared - pinned == set()


@pytest.mark.parametrize("extra", sorted({*optional()} - {"dev", "docs"}))
def test_each_extra_has_a_newcomer_who_installs_it_alone(extra: str) -> None:
    """Those of developers are installed by ``make`` itself."""
    scenarios = (ROOT / "tests" / "newcomer" / "test_newcomer.py").read_text(encoding="utf-8")
    assert f'install("{extra}")' in scenarios or extra in TRACING


def test_testing_brings_all_of_local() -> None:
    """So an environment that had local before it has what one has with testing alone."""
    assert names_of(optional()["local"]) < names_of(optional()["testing"])


def test_the_page_names_the_oldest_releases_that_a_function_works_with() -> None:
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8").replace("\n", " ")
    assert PROJECT["requires-python"] == ">=3.11"
    for requirement in ("Python>=3.11", *PROJECT["dependencies"]):
        name, oldest = requirement.split(">=")
        assert f"{name} {oldest} or newer" in page

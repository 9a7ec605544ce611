"""The shape of the package: a folder is a floor, and who may import whom follows from the folders.

In each folder, modules and folders do not import each other in a circle, however deep the imports are. The order of the
package's own folders, and of the explorer's, is given here. Imports for type checking and imports in functions count
like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

import flowguard
from tests.trees import inner, parsed

FOLDERS: Final[Mapping[str, Sequence[frozenset[str]]]] = {
    "flowguard": tuple(
        map(
            frozenset,
            (
                {"startup"},
                {"aws_facts", "names", "text"},
                {"items", "lint"},
                {"payload"},
                {"wire"},
                {"protocol"},
                {"observers", "recorded"},
                {"ai", "sql", "worker"},
                {"aws"},
                {"codecs"},
                {"operate", "project"},
                {"sim"},
                {"deploy", "probe"},
                {"dev"},
                {"testing", "ui"},
                {"cli"},
            ),
        )
    ),
    "flowguard.testing.explorer": tuple(frozenset({room}) for room in ("record", "run", "checks", "report", "search")),
}
"""Folders in rows, lowest first. Each may import itself and those in lower rows."""

ALSO_IMPORTED: Final = {
    "clock": "settings of tests",
    "debounce": "flows that carry out the last of a burst",
    "every": "flows that run by the clock",
    "lanes": "flows whose inboxes have several queues",
    "spans": "observers that open spans",
    "streams": "flows that start from a stream",
}
"""Modules at the root that have no public name of the package, each with who imports it."""

# The only places that know of AWS's own libraries.
KNOW_AWS = {"aws", "sim", "deploy", "dev", "probe", "cli"}
AWS_LIBRARIES = {"boto3", "botocore", "moto"}

# What a function may import when it runs, with a comment that says why: these, and whatever is not ours.
MAY_BE_LATE = {"aws", "payload", "recorded", "sim", "sql", "ui", "worker"}

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Import:
    """``importer`` (line ``line``) imports ``imported``, both as dotted names."""

    importer: str
    imported: str
    line: int = 0
    late: bool = False  # inside a function
    explained: bool = False

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}, imports {self.imported}"


# -- reading the sources ----------------------------------------------------------------------------------------------


def sources() -> dict[str, str]:
    """Each module's source by its dotted name, a package's under the package's own."""
    found = {}
    for path in sorted((ROOT / "flowguard").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def imports_of(modules: Mapping[str, str]) -> list[Import]:
    return [
        Import(module, target, node.lineno, late, late and is_explained(source.splitlines(), node))
        for module, source in modules.items()
        for node, late in import_nodes(parsed(source), late=False)
        for target in targets(node, modules)
    ]


def import_nodes(tree: ast.AST, *, late: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in inner(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, late
        yield from import_nodes(node, late=late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def targets(node: ast.Import | ast.ImportFrom, modules: Iterable[str]) -> list[str]:
    """``from a import b`` means the module ``a.b`` where there is one, and ``a`` otherwise."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    origin = node.module or ""
    names = [f"{origin}.{alias.name}" for alias in node.names]
    return sorted({name if name in modules else origin for name in names})


def is_explained(lines: list[str], node: ast.stmt) -> bool:
    """Whether a comment stands beside the import or above the group of imports that it belongs to."""
    _, _, beside = lines[node.lineno - 1].partition("#")
    above = node.lineno - 2
    while lines[above].lstrip().startswith(("import ", "from ")):
        above -= 1
    return bool(beside) or lines[above].lstrip().startswith("#")


# -- the rules: each answers with a sentence for everything that breaks it --------------------------------------------


def name_of(module: str) -> str:
    """``aws`` of ``flowguard.aws.store``. Empty of the package itself."""
    return module.partition(".")[2].partition(".")[0]


def is_ours(module: str) -> bool:
    return module.partition(".")[0] == "flowguard"


def child_of(package: str, module: str) -> str | None:
    """The folder or module of the package that this is, or is in. None for what is elsewhere, or the package itself."""
    return module.removeprefix(f"{package}.").partition(".")[0] if module.startswith(f"{package}.") else None


def row_of(package: str, child: str) -> int | None:
    return next((row for row, names in enumerate(FOLDERS[package]) if child in names), None)


def packages_of(modules: Iterable[str]) -> list[str]:
    """Every package that the modules are in."""
    return sorted({module.rpartition(".")[0] for module in modules if "." in module})


def knowing_aws(imports: Iterable[Import]) -> list[str]:
    return [
        f"{each}, which only {sorted(KNOW_AWS)} may"
        for each in imports
        if each.imported.partition(".")[0] in AWS_LIBRARIES and name_of(each.importer) not in KNOW_AWS
    ]


def unordered(folders: Iterable[str]) -> list[str]:
    """Those folders of the package that have no row. ``folders`` are dotted names of packages."""
    problems = []
    for folder in folders:
        package, _, name = folder.rpartition(".")
        if package in FOLDERS and row_of(package, name) is None:
            problems.append(f"{folder} has no row; add it to FOLDERS in tests/test_layers.py")
    return problems


def upward(imports: Iterable[Import]) -> list[str]:
    problems = []
    for each in imports:
        if each.imported == "flowguard":
            problems.append(f"{each}, the front page of all; import the name from its module")
        for package in FOLDERS:
            importer, imported = (child_of(package, module) for module in (each.importer, each.imported))
            if importer is None or imported is None or importer == imported:
                continue
            below, above = row_of(package, importer), row_of(package, imported)
            if below is not None and above is not None and above >= below:
                problems.append(f"{each}, which is in no lower row")
    return problems


def circles_of_folders(imports: Iterable[Import]) -> list[str]:
    """Circles among the folders and modules of each package. The front page of a package may import all of it."""
    problems = []
    imports = list(imports)
    for package in packages_of(each.importer for each in imports):
        edges: dict[tuple[str, str], Import] = {}
        for each in imports:
            importer, imported = child_of(package, each.importer), child_of(package, each.imported)
            if importer is not None and imported is not None and importer != imported:
                edges.setdefault((importer, imported), each)
        problems += [f"in {package}, {circle}" for circle in circles(edges)]
    return problems


def cycles(imports: Iterable[Import]) -> list[str]:
    return circles({(each.importer, each.imported): each for each in imports if is_ours(each.imported)})


def circles(edges: Mapping[tuple[str, str], Import]) -> list[str]:
    """The first circle there is, with an import for each of its steps."""
    graph: dict[str, set[str]] = {}
    for importer, imported in edges:
        graph.setdefault(importer, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        path = error.args[1][::-1]
        steps = [edges[step] for step in pairwise(path)]
        return ["; ".join(map(str, steps))]
    return []


def hidden(imports: Iterable[Import]) -> list[str]:
    problems = []
    for each in imports:
        if each.late and is_ours(each.imported) and name_of(each.imported) not in MAY_BE_LATE:
            problems.append(f"{each} in a function; import it at the top, or move what is shared to a lower layer")
        elif each.late and not each.explained:
            problems.append(f"{each} in a function; say why in a comment beside or above it")
    return problems


# -- the package keeps them -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return imports_of(sources())


def test_each_folder_has_its_row() -> None:
    assert unordered(packages_of(sources())) == []


def test_the_root_keeps_what_a_user_imports() -> None:
    modules = {path.stem for path in (ROOT / "flowguard").glob("*.py")} - {"__init__", "__main__"}
    public = {home.partition(".")[0] for home in flowguard._HOME.values()}
    assert modules - public == ALSO_IMPORTED.keys(), "put it into the folder of those who import it"


def test_only_the_edge_knows_aws(imports: list[Import]) -> None:
    assert knowing_aws(imports) == []


def test_no_folder_imports_one_of_a_higher_row(imports: list[Import]) -> None:
    assert upward(imports) == []


def test_no_modules_import_each_other_in_a_circle(imports: list[Import]) -> None:
    assert cycles(imports) == []


def test_no_import_is_hidden_in_a_function(imports: list[Import]) -> None:
    assert hidden(imports) == []


def test_no_folders_or_modules_of_a_package_need_each_other(imports: list[Import]) -> None:
    assert circles_of_folders(imports) == []


# -- and the rules see what breaks them -------------------------------------------------------------------------------


def read(module: str, source: str, *others: str) -> list[Import]:
    return imports_of({module: source, **dict.fromkeys(others, "")})


def test_a_folder_without_a_row_is_told_where_to_go() -> None:
    assert unordered(["flowguard", "flowguard.aws", "flowguard.aws.transport", "flowguard.novelty"]) == [
        "flowguard.novelty has no row; add it to FOLDERS in tests/test_layers.py"
    ]


@pytest.mark.parametrize(
    "source", ["import boto3", "import botocore.config", "from moto import mock_aws", "def f():\n    import boto3"]
)
def test_aws_in_the_core_is_seen(source: str) -> None:
    assert knowing_aws(read("flowguard.worker.runtime", source))
    assert not knowing_aws(read("flowguard.aws.store", source))


@pytest.mark.parametrize(
    "source",
    [
        "import flowguard.aws.store",
        "from flowguard.aws.store import DynamoDBStore",
        "from flowguard import aws",
        "from flowguard import Flow",
        "def f():\n    from flowguard.aws import store",
    ],
)
def test_an_import_from_above_is_seen(source: str) -> None:
    assert upward(read("flowguard.worker.runtime", source, "flowguard.aws", "flowguard.aws.store"))


def test_an_import_from_a_higher_room_of_the_explorer_is_seen() -> None:
    checks, run = "flowguard.testing.explorer.checks", "flowguard.testing.explorer.run"
    assert upward(read(f"{run}.driver", f"from {checks}.problem import Problem", checks, f"{checks}.problem"))
    assert not upward(read(f"{checks}.problem", f"from {run}.driver import run", run, f"{run}.driver"))


def test_a_circle_is_seen() -> None:
    modules = {
        "flowguard.wire.message": "from flowguard.wire.home import Home",
        "flowguard.wire.home": "from flowguard.wire import message",
    }
    assert cycles(imports_of(modules)) == [
        "flowguard.wire.message, line 1, imports flowguard.wire.home; "
        "flowguard.wire.home, line 1, imports flowguard.wire.message"
    ]


def test_a_circle_of_folders_without_one_of_modules_is_seen() -> None:
    modules = {
        "flowguard.sim.memory.sqs": "from flowguard.sim.calls import Call",
        "flowguard.sim.points": "from flowguard.sim.memory.dynamodb import DynamoDB",
        "flowguard.sim.calls": "from flowguard.sim.points import Point",
        "flowguard.sim.memory.dynamodb": "",
    }
    assert cycles(imports_of(modules)) == []
    [circle] = circles_of_folders(imports_of(modules))
    assert circle.startswith("in flowguard.sim, ")


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        ("from flowguard.protocol.run import Claim  # heavy", False),
        ("from flowguard.aws.store import Store", False),
        ("from flowguard.aws.store import Store  # boto3 loads on first use", True),
        ("# boto3 loads on first use\n    import zlib\n    from flowguard.aws.store import Store", True),
        ("import aws_xray_sdk", False),
        ("import aws_xray_sdk  # heavy, and comes with an extra", True),
    ],
)
def test_an_import_in_a_function_needs_a_reason_and_none_dodges_a_circle(body: str, allowed: bool) -> None:
    assert (hidden(read("flowguard.handler", f"def f():\n    {body}")) == []) is allowed

"""The shape of the package: who may import whom.

A new module goes into the lowest row of ``LAYERS`` that is not below anything it imports. Imports for type checking
and imports in functions count like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

# Lowest first. A name is a module or a package right under flowguard/, or a module of one of its wings.
WINGS = {"wire", "protocol", "recorded", "worker"}
LAYERS = (
    {
        *WINGS,
        "aws_facts",
        "clock",
        "destinations",
        "errors",
        "failed",
        "foreign",
        "ids",
        "key_table",
        "lambda_log",
        "lint",
        "naming",
        "printable",
        "protocol.conflict",
        "protocol.entry",
        "protocol.verdicts",
        "public_names",
        "results",
        "retry",
        "rows",
        "setting_problems",
        "settings",
        "wire.answer_link",
        "wire.attributes",
        "wire.cancel_reason",
        "wire.http_page",
        "wire.http_request",
        "wire.http_response",
        "wire.http_source",
        "wire.resumed_body",
        "wire.token_form",
        "wire.trace_context",
        "worker.alarm",
        "writes",
    },
    {
        "callback",
        "payloads",
        "failure",
        "group",
        "once_keys",
        "payload_names",
        "protocol.groups",
        "modified",
        "claimed_calls",
        "newest",
        "outcome",
        "recorded.remembered",
        "recorded.table_writes",
        "wire.home",
        "wire.send_ids",
        "wire.message",
        "wire.notification",
        "wire.records",
        "wire.shown_facts",
        "wire.signing",
        "wire.tokens",
    },
    {
        "events",
        "protocol.callers",
        "protocol.waiting",
        "wire.answer_address",
        "wire.bodies",
        "wire.bus_event",
        "worker.http_callbacks",
    },
    {
        "protocol.failed_hop",
        "protocol.memo",
        "protocol.outbox",
        "spans",
        "wire.cancel_order",
        "wire.envelope",
        "wire.reset_order",
    },
    {"observers", "protocol.run", "recorded.awaitables", "recorded.side_messages", "recorded.read_answers", "step"},
    {"protocol.fields"},
    {"protocol.answers", "protocol.claims", "protocol.group_answers", "protocol.run_history", "stage"},
    {"flow"},
    {
        "worker.again",
        "worker.asks",
        "worker.believed",
        "worker.found_answer",
        "worker.lifetimes",
        "worker.denials",
        "worker.patience",
        "worker.resumed",
        "worker.routing",
        "worker.trust",
    },
    {"worker.ending", "worker.ports", "worker.wait_planner"},
    {
        "worker.early_answers",
        "worker.failure_note",
        "worker.group_planner",
        "worker.baton",
        "worker.event_loop",
        "worker.hop_memory",
        "worker.kills",
        "worker.replies",
        "worker.restart",
        "worker.sent_again",
        "worker.driving",
    },
    {"worker.group_parts", "worker.observed", "worker.plan", "worker.together"},
    {"worker.dead_letters", "worker.emitter", "worker.resets", "worker.settler", "worker.unsent"},
    {
        "worker.outages",
        "worker.unread",
        "worker.cancelling",
        "worker.children",
        "worker.dispatch",
        "worker.redrive",
        "worker.sent_back",
    },
    {"worker.hop_planner", "worker.kept_answers", "worker.outside", "worker.caller_answers", "worker.group_asks"},
    {"worker.claim_phase", "worker.flush_phase", "worker.handle_phase", "worker.no_run", "worker.orders"},
    {"worker.given_up", "worker.turned_away"},
    {"worker.commit_phase"},
    {"worker.fail_phase"},
    {"worker.runtime"},
    {"worker.callbacks"},
    {"worker.batch"},
    {"aws"},
    {"handler", "client", "once_function"},
    {"callback_function"},
    {"operate", "sim"},
    {"deploy", "probe"},
    {"dev"},
    {"testing", "ui"},
    {"cli"},
    {"__main__"},
)

# The only places that know of AWS's own libraries.
KNOW_AWS = {"aws", "sim", "deploy", "dev", "probe", "cli"}
AWS_LIBRARIES = {"boto3", "botocore", "moto"}

# What a function may import when it runs, with a comment that says why: these, and whatever is not ours.
MAY_BE_LATE = {"aws", "results", "sim", "ui", "worker.baton", "worker.event_loop"}

# The rooms of the explorer, lowest first. Each may import itself and those below it.
ROOMS = ("record", "run", "checks", "report", "search")

# The floors of the simulator, lowest first, from the limits of AWS to the worlds that flows run in.
FLOORS = (
    {
        "account",
        "calls",
        "declared",
        "engine",
        "keyed",
        "loading",
        "made_tokens",
        "points",
        "reused_clients",
        "stored_keys",
        "unanswered",
        "virtual",
        "waiting_records",
    },
    {"crash", "functions", "limits", "prepared"},
    {"sends"},
    {"delivery_trace", "in_process", "posted"},
    {"memory", "strict"},
    {"moto"},
    {"memory_and_moto"},
    {"engines", "provision"},
    {"delivered", "event_source"},
    {"mail", "weather"},
    {"world"},
    {"final_state", "recording", "script"},
)

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
        for node, late in import_nodes(ast.parse(source), late=False)
        for target in targets(node, modules)
    ]


def import_nodes(tree: ast.AST, *, late: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in ast.iter_child_nodes(tree):
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
    """``protocol.claims`` of ``flowguard.protocol.claims``, ``aws`` of ``flowguard.aws.store``."""
    _, first, second, *_ = [*module.split("."), "", "", ""]
    return f"{first}.{second}" if first in WINGS and second else first


def is_ours(module: str) -> bool:
    return module.partition(".")[0] == "flowguard"


def rank(module: str) -> int:
    """The row of ``LAYERS``. The front page stands above all."""
    name = name_of(module)
    return next((row for row, names in enumerate(LAYERS) if name in names), len(LAYERS))


def unlisted(modules: Iterable[str]) -> list[str]:
    names = sorted({name_of(module) for module in modules if name_of(module)} - set().union(*LAYERS))
    return [f"{name} is in no layer; add it to LAYERS in tests/test_layers.py" for name in names]


def knowing_aws(imports: Iterable[Import]) -> list[str]:
    return [
        f"{each}, which only {sorted(KNOW_AWS)} may"
        for each in imports
        if each.imported.partition(".")[0] in AWS_LIBRARIES and name_of(each.importer) not in KNOW_AWS
    ]


def upward(imports: Iterable[Import]) -> list[str]:
    return [
        f"{each}, which is in a higher layer"
        for each in imports
        if is_ours(each.imported) and rank(each.imported) > rank(each.importer)
    ]


def cycles(imports: Iterable[Import]) -> list[str]:
    graph: dict[str, set[str]] = {}
    for each in imports:
        if is_ours(each.imported):
            graph.setdefault(each.importer, set()).add(each.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" is imported by ".join(error.args[1])]
    return []


def hidden(imports: Iterable[Import]) -> list[str]:
    problems = []
    for each in imports:
        if each.late and is_ours(each.imported) and name_of(each.imported) not in MAY_BE_LATE:
            problems.append(f"{each} in a function; import it at the top, or move what is shared to a lower layer")
        elif each.late and not each.explained:
            problems.append(f"{each} in a function; say why in a comment beside or above it")
    return problems


def room_of(module: str) -> str | None:
    """``run`` of ``flowguard.testing.explorer.run.driver``. None for whatever is in no room."""
    rest = module.removeprefix("flowguard.testing.explorer.").partition(".")[0]
    return rest if rest in ROOMS and module.startswith("flowguard.testing.explorer.") else None


def into_a_higher_room(imports: Iterable[Import]) -> list[str]:
    found = []
    for each in imports:
        above, own = room_of(each.imported), room_of(each.importer)
        if above is not None and own is not None and ROOMS.index(above) > ROOMS.index(own):
            found.append(f"{each}, which is in a higher room of the explorer")
    return found


def floor_of(module: str) -> int | None:
    """The floor of a module of the simulator. None for what is on none."""
    name = module.removeprefix("flowguard.sim.").partition(".")[0]
    found = (floor for floor, names in enumerate(FLOORS) if name in names)
    return next(found, None) if module.startswith("flowguard.sim.") else None


def on_no_floor(modules: Iterable[str]) -> list[str]:
    inside = [module for module in modules if module.startswith("flowguard.sim.")]
    return [f"{module} is on no floor; add it to FLOORS" for module in inside if floor_of(module) is None]


def onto_a_higher_floor(imports: Iterable[Import]) -> list[str]:
    found = []
    for each in imports:
        above, own = floor_of(each.imported), floor_of(each.importer)
        if above is not None and own is not None and above > own:
            found.append(f"{each}, which is on a higher floor of the simulator")
    return found


# -- the package keeps them -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return imports_of(sources())


def test_each_module_has_its_layer() -> None:
    assert unlisted(sources()) == []


def test_only_the_edge_knows_aws(imports: list[Import]) -> None:
    assert knowing_aws(imports) == []


def test_no_module_imports_one_of_a_higher_layer(imports: list[Import]) -> None:
    assert upward(imports) == []


def test_no_modules_import_each_other_in_a_circle(imports: list[Import]) -> None:
    assert cycles(imports) == []


def test_no_import_is_hidden_in_a_function(imports: list[Import]) -> None:
    assert hidden(imports) == []


def test_the_rooms_of_the_explorer_know_only_those_below(imports: list[Import]) -> None:
    assert into_a_higher_room(imports) == []


def test_the_floors_of_the_simulator_know_only_those_below(imports: list[Import]) -> None:
    assert on_no_floor(sources()) == []
    assert onto_a_higher_floor(imports) == []


# -- and the rules see what breaks them -------------------------------------------------------------------------------


def read(module: str, source: str, *others: str) -> list[Import]:
    return imports_of({module: source, **dict.fromkeys(others, "")})


def test_a_module_without_a_layer_is_told_where_to_go() -> None:
    assert unlisted(["flowguard", "flowguard.aws.store", "flowguard.novelty"]) == [
        "novelty is in no layer; add it to LAYERS in tests/test_layers.py"
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
        "if TYPE_CHECKING:\n    from flowguard.handler import Handler",
        "def f():\n    from flowguard.aws import store",
    ],
)
def test_an_import_from_above_is_seen(source: str) -> None:
    assert upward(read("flowguard.worker.runtime", source, "flowguard.aws", "flowguard.aws.store"))


def test_an_import_from_a_higher_room_is_seen() -> None:
    checks, run = "flowguard.testing.explorer.checks", "flowguard.testing.explorer.run"
    assert into_a_higher_room(
        read(f"{run}.driver", f"from {checks}.problem import Problem", checks, f"{checks}.problem")
    )
    assert not into_a_higher_room(read(f"{checks}.problem", f"from {run}.driver import run", run, f"{run}.driver"))


def test_an_import_from_a_higher_floor_is_seen() -> None:
    sim = "flowguard.sim"
    assert onto_a_higher_floor(read(f"{sim}.provision", f"from {sim}.world import World", f"{sim}.world"))
    assert onto_a_higher_floor(
        read(f"{sim}.limits.queues", f"from {sim}.memory.sqs import SQS", f"{sim}.memory", f"{sim}.memory.sqs")
    )
    assert not onto_a_higher_floor(read(f"{sim}.world", f"from {sim}.moto import EmbeddedAWS", f"{sim}.moto"))
    assert on_no_floor([f"{sim}.novelty", f"{sim}.memory.sqs"]) == [
        "flowguard.sim.novelty is on no floor; add it to FLOORS"
    ]


def test_a_circle_is_seen() -> None:
    modules = {
        "flowguard.protocol.run": "from flowguard.worker.routing import Routes",
        "flowguard.worker.routing": "from flowguard.protocol import run",
    }
    assert cycles(imports_of(modules)) == [
        "flowguard.protocol.run is imported by flowguard.worker.routing is imported by flowguard.protocol.run"
    ]


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

"""The front page: a table of contents that loads what is asked for and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import flowguard

PAGE = ast.parse(Path(flowguard.__file__).read_text(encoding="utf-8"))
HEAVY = ("boto3", "botocore", "moto", "aws_xray_sdk", "pydantic")


def imported_for_type_checkers() -> dict[str, str]:
    """Each name in the ``TYPE_CHECKING`` block with the module it comes from."""
    block = next(node for node in PAGE.body if isinstance(node, ast.If))
    return {
        alias.asname or "": node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def loaded_by(statement: str) -> set[str]:
    """Which of the heavy libraries a fresh interpreter has loaded after this statement."""
    check = f"import sys\n{statement}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


@pytest.mark.parametrize("name", flowguard.__all__)
def test_every_name_loads_and_is_what_it_is_called(name: str) -> None:
    value = getattr(flowguard, name)
    assert getattr(value, "__name__", name) == name or name in {"Outcome"}


def test_type_checkers_see_the_same_names_from_the_same_places() -> None:
    homes = {name: f"flowguard.{module}" for name, module in flowguard._HOME.items()}
    assert imported_for_type_checkers() == homes


def test_the_list_is_no_longer_than_a_table_of_contents() -> None:
    assert len(flowguard.__all__) == len(set(flowguard.__all__))
    assert 25 <= len(flowguard.__all__) <= 54


def test_the_names_of_one_module_stand_together() -> None:
    homes = list(flowguard._HOME.values())
    changes = [home for place, home in enumerate(homes) if place == 0 or homes[place - 1] != home]
    assert len(changes) == len(set(changes))


def test_a_name_that_is_not_there_is_missed_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'flowguard' has no attribute 'Flaw'"):
        _ = flowguard.Flaw  # type: ignore[attr-defined]  # on purpose


def test_completion_shows_every_name() -> None:
    assert set(flowguard.__all__) <= set(dir(flowguard))


@pytest.mark.parametrize(
    ("statement", "loads"),
    [
        ("import flowguard", set()),
        ("from flowguard import Flow, Stage, Step, Done, RetryPolicy, Queue, Reject, Retry", {"pydantic"}),
        ("from flowguard import Event, EventType, Verdict, Settings", {"pydantic"}),
        ("from flowguard import once, KeyTable", {"pydantic"}),
        ("import flowguard.testing", set()),
        ("from flowguard.testing import sqs_event, step_for", {"pydantic"}),
    ],
)
def test_a_function_pays_only_for_what_it_uses(statement: str, loads: set[str]) -> None:
    assert loaded_by(statement) == loads


def test_a_flow_does_not_pay_for_functions_without_one() -> None:
    check = "import sys\nfrom flowguard import lambda_handler\nprint([one for one in sys.modules if 'once' in one])"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_botocores_errors_are_loaded_by_the_first_that_is_named() -> None:
    made = "from flowguard.aws import botocore_errors, services\nfrom flowguard.aws.transport import json_client"
    shown = "print('botocore.exceptions' in sys.modules, end=' ')"
    check = f"import sys\n{made}\n{shown}\nbotocore_errors.ClientError\n{shown}"
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert loaded.stdout == "False True "

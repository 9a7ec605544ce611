"""What the variables of functions name is the deployment's own: not the tables, queues and keys of another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.setting_checks import check_settings
from flowguard.names.at_aws import Names
from tests.deploy.planned.looked import findings, made, read
from tests.deploy.planned.test_planned_account import NEEDED

MODULE: Final = "flows.orders.handlers"
FORMS: Final = ("cloudformation", "terraform-json")
OPTIONS: Final = DeployOptions.model_validate(
    {
        "settings": {"names": "prod-*", "signing_keys": "secretsmanager:prod/keys"},
        "tables": {"flowguard": {"name": "all-runs"}},
    }
)
PLAIN: Final = "k1:abcdefghijklmnopqrstuvwxyzabcdefghijkl"


def variables_in(file: Any) -> list[dict[str, str]]:
    """The variables of each function of a file."""
    if "Resources" in file:
        made_functions = [each for each in file["Resources"].values() if each["Type"] == "AWS::Lambda::Function"]
        return [each["Properties"]["Environment"]["Variables"] for each in made_functions]
    return [each["environment"]["variables"] for each in file["resource"]["aws_lambda_function"].values()]


def found(form: str, **changes: str | None) -> set[tuple[str, str]]:
    """The rules and severities of what is found of a file in which all functions have these variables."""
    text, needed = made(MODULE, OPTIONS, form)
    file = json.loads(text)
    for variables in variables_in(file):
        given = {**variables, **changes}
        variables.clear()
        variables.update({name: value for name, value in given.items() if value is not None})
    looked = findings(read(json.dumps(file), form), needed, OPTIONS)
    return {
        (each.rule, each.severity.value) for each in looked if each.rule not in ("not-in-a-file", "concurrency-open")
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({}, set()),
        ({"FLOWGUARD_NAMES": "staging-*"}, {("names-other", "error"), ("table-other", "error")}),
        ({"FLOWGUARD_NAMES": None}, {("names-other", "error"), ("table-other", "error")}),
        ({"FLOWGUARD_NAMES": "staging"}, {("names-other", "error")}),
        ({"FLOWGUARD_NAMES": "staging-*,tables.flowguard=all-runs"}, {("names-other", "error")}),
        ({"FLOWGUARD_TABLE": "other"}, {("table-other", "error")}),
        ({"FLOWGUARD_SIGNING_KEYS": "secretsmanager:staging/keys"}, {("keys-elsewhere", "error")}),
        ({"FLOWGUARD_SIGNING_KEYS": PLAIN}, {("keys-open", "warning")}),
    ],
)
def test_variables_of_another_deployment_are_found_in_files(
    form: str, changes: Mapping[str, str | None], rules: set[tuple[str, str]]
) -> None:
    assert found(form, **changes) == rules


@pytest.mark.parametrize("form", FORMS)
def test_a_variable_that_is_written_as_a_number_is_read_as_its_text(form: str) -> None:
    numbers: Any = {"FLOWGUARD_NAMES": 3, "FLOWGUARD_TABLE": 4, "FLOWGUARD_SIGNING_KEYS": 5}
    rules = {rule for rule, _ in found(form, **numbers)}
    assert rules == {"names-other", "table-other", "keys-open"}


# -- each by itself


def looked(in_all: str = "*", environment: Mapping[str, str] | None = None, **actual: str | None) -> list[LiveFinding]:
    """What is found of a function that has other variables than ``environment``."""
    wanted = {"FLOWGUARD_TABLE": "flowguard", **(environment or {})}
    if in_all != "*":
        wanted = {"FLOWGUARD_NAMES": in_all, **wanted}
    [function] = NEEDED.functions
    function = replace(function, environment=tuple(wanted.items()), at_aws=Names.parse(in_all))
    given = {f"FLOWGUARD_{name.upper()}": value for name, value in actual.items()}
    variables = {name: value for name, value in {**wanted, **given}.items() if value is not None}
    return [*check_settings(function, {"Environment": {"Variables": variables}})]


def test_a_function_with_the_names_of_the_deployment_is_right() -> None:
    assert looked() == looked("prod-*") == looked(names="*") == looked(names=" * ") == []
    assert looked("prod-*,queues.a=b,queues.c=d", names="prod-*,queues.c=d,queues.a=b") == []
    assert looked("prod-*", names="prod-*,queues.a=prod-a") == [], "as the rule has it"
    assert looked("*,queues.a=b", {"FLOWGUARD_NAMES": "*"}) == [], "the function needs none of them"
    assert looked("*,queues.a=b", {"FLOWGUARD_NAMES": "*"}, names=None) == []
    assert looked("*,queues.a=b", {"FLOWGUARD_NAMES": "*"}, names="*,queues.a=b") == [], "nor must it have fewer"


NAMES_OTHER: Final[Mapping[str, tuple[Callable[[], list[LiveFinding]], str, str]]] = {
    "none where others have none": (
        lambda: looked(names="prod-*", table="flowguard"),
        "its FLOWGUARD_NAMES is 'prod-*'",
        "take FLOWGUARD_NAMES away",
    ),
    "none where others have a rule": (
        lambda: looked("prod-*", names=None),
        "it has no FLOWGUARD_NAMES",
        "set FLOWGUARD_NAMES to 'prod-*'",
    ),
    "none where others have single names": (
        lambda: looked("*,queues.a=b", names=None),
        "it has no FLOWGUARD_NAMES",
        "set FLOWGUARD_NAMES to '*,queues.a=b'",
    ),
    "a single one is gone": (
        lambda: looked("prod-*,queues.a=b,queues.c=d", names="prod-*,queues.c=d"),
        "its FLOWGUARD_NAMES has other names at AWS for queues.a",
        "set FLOWGUARD_NAMES to 'prod-*,queues.a=b,queues.c=d'",
    ),
    "single ones that nobody else has": (
        lambda: looked("prod-*", names="prod-*,queues.c=d,queues.a=b"),
        "its FLOWGUARD_NAMES has other names at AWS for queues.a, queues.c",
        "set FLOWGUARD_NAMES to 'prod-*'",
    ),
    "no rule at all": (
        lambda: looked("prod-*", names="prod"),
        "its FLOWGUARD_NAMES does not begin with a rule: one * for the name in the code, with letters, digits, - and _ "
        "around it, as in staging-*",
        "set FLOWGUARD_NAMES to 'prod-*'",
    ),
}


@pytest.mark.parametrize("what", NAMES_OTHER)
def test_other_names_are_found(what: str) -> None:
    look, problem, fix = NAMES_OTHER[what]
    assert [(each.what, each.fix) for each in look() if each.rule == "names-other"] == [(problem, fix)]


def tables(*looked_at: LiveFinding) -> list[tuple[str, str]]:
    return [(each.what, each.fix) for each in looked_at if each.rule == "table-other"]


def test_tables_are_compared_as_they_are_called_at_aws() -> None:
    say = "set FLOWGUARD_TABLE to 'flowguard', or say [settings] table = \"runs\""
    assert tables(*looked(table="runs")) == [("its FLOWGUARD_TABLE is 'runs'", say)]
    at_aws = "its FLOWGUARD_TABLE is 'runs', at AWS 'prod-runs'"
    assert (
        tables(*looked("prod-*", table="runs")) == tables(*looked("prod-*", table="runs", names="?")) == [(at_aws, say)]
    )
    other = (
        "its FLOWGUARD_TABLE is 'flowguard', at AWS 'x-flowguard'",
        "let FLOWGUARD_NAMES make 'prod-flowguard' of it",
    )
    assert tables(*looked("prod-*", names="x-*")) == [other]
    assert tables(*looked("prod-*", names=None)) == [(other[0].partition(",")[0], other[1])]
    assert tables(*looked("prod-*", names=None, table="prod-flowguard")) == [], "it is the same table"
    assert tables(*looked(table=None)) == [], "the default"


ARN: Final = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/keys"
PARAMETER: Final = "arn:aws:ssm:eu-west-1:123456789012:parameter/prod/keys"


def keys(wanted: str | None, actual: str | None, variable: str = "signing_keys") -> list[tuple[str, str, str]]:
    environment = {} if wanted is None else {f"FLOWGUARD_{variable.upper()}": wanted}
    return [(each.rule, each.what, each.fix) for each in looked("*", environment, **{variable: actual})]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("secretsmanager:prod/keys", "secretsmanager:prod/keys"),
        ("secretsmanager:prod/keys", f"secretsmanager:{ARN}"),
        ("secretsmanager:prod/keys", f"secretsmanager:{ARN}-a1B2c3"),
        ("ssm:/prod/keys", f"ssm:{PARAMETER}"),
    ],
)
def test_keys_of_one_place_are_the_same_by_name_and_by_arn(one: str, other: str) -> None:
    assert keys(one, other) == keys(other, one) == []


@pytest.mark.parametrize(
    ("wanted", "actual"),
    [
        ("secretsmanager:prod/keys", "secretsmanager:staging/keys"),
        ("secretsmanager:prod/keys", "ssm:prod/keys"),
        ("secretsmanager:prod/keys", f"secretsmanager:{ARN}-old"),
        ("secretsmanager:prod.keys", f"secretsmanager:{ARN}"),
        ("secretsmanager:keys", f"secretsmanager:{ARN}"),
        ("ssm:/prod/keys", f"ssm:{PARAMETER}-a1B2c3"),
        (f"secretsmanager:{ARN}", f"secretsmanager:{ARN.replace('123456789012', '210987654321')}"),
    ],
)
@pytest.mark.parametrize("variable", ["signing_keys", "token_keys"])
def test_keys_of_another_place_are_found(wanted: str, actual: str, variable: str) -> None:
    what = f"its FLOWGUARD_{variable.upper()} is {actual}"
    fix = f"set it to {wanted}, or say it in the [settings] of the options"
    assert keys(wanted, actual, variable) == [("keys-elsewhere", what, fix)]


def test_keys_that_the_deployment_does_not_name_are_not_compared() -> None:
    assert keys(None, "ssm:own") == keys(None, None) == []
    assert keys("ssm:own", None) == [], "others say that it is missing"


def test_keys_in_the_open_are_found_and_not_told() -> None:
    what = "its FLOWGUARD_SIGNING_KEYS has the keys themselves"
    assert keys("ssm:prod", PLAIN) == [("keys-open", what, "set it to ssm:prod")]
    assert keys(None, PLAIN) == [("keys-open", what, "store them, and name their secret or parameter")]
    told = str(looked("*", {"FLOWGUARD_TOKEN_KEYS": "ssm:prod"}, token_keys=PLAIN))
    assert PLAIN.partition(":")[2] not in told

"""The index of runs by status: what the doctor says of files and of accounts that have none, or another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.account import Account
from flowguard.deploy.finding import LiveFinding, Severity
from flowguard.deploy.needs import Deployment, TableNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.account import PlannedAccount
from flowguard.deploy.table_checks import check_tables
from flowguard.project.declared import TableIndex, TableKey
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import read

MODULE: Final = "flows.orders.handlers"
OPTIONS: Final = DeployOptions.model_validate({"tables": {"flowguard": {"run_index": True}}})
NEEDED: Final = needs(MODULE, options=OPTIONS)


def rules(findings: list[LiveFinding]) -> list[tuple[str, str]]:
    return [(each.rule, each.resource) for each in findings]


def text(form: str, options: DeployOptions = OPTIONS) -> str:
    return FORMATS[form](needs(MODULE, options=options), options)


@pytest.mark.parametrize("form", ["cloudformation", "sam", "terraform-json"])
def test_the_files_of_a_deployment_have_the_index_that_it_asks_for(form: str) -> None:
    assert rules([*check_tables(NEEDED, PlannedAccount(read(text(form), form), NEEDED))]) == []
    other = text(form, DeployOptions())
    account = PlannedAccount(read(other, form), NEEDED)
    assert rules([*check_tables(NEEDED, account)]) == [("index-missing", "flowguard")]
    without = needs(MODULE, options=DeployOptions())
    assert rules([*check_tables(without, PlannedAccount(read(other, form), without))]) == []


def hash_of(name: str) -> Callable[[Any], None]:
    def change(template: Any) -> None:
        [index] = template["resource"]["aws_dynamodb_table"]["flowguard"]["global_secondary_index"]
        index["hash_key"] = name

    return change


def test_an_index_of_another_key_is_found_in_terraform_too() -> None:
    template = json.loads(text("terraform-json"))
    hash_of("stage")(template)
    account = PlannedAccount(read(json.dumps(template), "terraform-json"), NEEDED)
    assert rules([*check_tables(NEEDED, account)]) == [("index-other", "flowguard")]


def with_blocks(*keys: tuple[str, str]) -> str:
    template = json.loads(text("terraform-json"))
    [index] = template["resource"]["aws_dynamodb_table"]["flowguard"]["global_secondary_index"]
    del index["hash_key"], index["range_key"]
    index["key_schema"] = [{"attribute_name": name, "key_type": role} for name, role in keys]
    return json.dumps(template)


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ((("status", "HASH"), ("pk", "RANGE")), []),
        ((("pk", "RANGE"), ("status", "HASH")), []),
        ((("stage", "HASH"), ("pk", "RANGE")), [("index-other", "flowguard")]),
        ((("status", "HASH"),), [("index-other", "flowguard")]),
    ],
)
def test_the_newer_form_of_an_index_in_terraform_is_read_too(
    keys: tuple[tuple[str, str], ...], found: list[tuple[str, str]]
) -> None:
    account = PlannedAccount(read(with_blocks(*keys), "terraform-json"), NEEDED)
    assert rules([*check_tables(NEEDED, account)]) == found


@pytest.mark.parametrize(
    ("keys", "found"), [("${var.keys}", []), (None, [("index-other", "flowguard")])], ids=["not known yet", "none"]
)
def test_an_index_whose_keys_nobody_knows_yet_is_no_other_one(keys: object, found: list[tuple[str, str]]) -> None:
    plan = json.loads(with_blocks())
    [index] = plan["resource"]["aws_dynamodb_table"]["flowguard"]["global_secondary_index"]
    index["key_schema"] = keys
    account = PlannedAccount(read(json.dumps(plan), "terraform-json"), NEEDED)
    assert rules([*check_tables(NEEDED, account)]) == found


class Described:
    """An account whose tables have these indexes."""

    def __init__(self, *indexes: Mapping[str, Any]) -> None:
        keys = (("pk", "HASH"), ("sk", "RANGE"))
        self.description: dict[str, Any] = {
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "status")],
            "KeySchema": [{"AttributeName": name, "KeyType": role} for name, role in keys],
        }
        if indexes:
            self.description["GlobalSecondaryIndexes"] = indexes

    def table(self, name: str) -> Mapping[str, Any] | None:
        return self.description if name == "flowguard" else None

    def was_read(self, *_: str) -> bool:
        return False

    def time_to_live(self, name: str) -> Mapping[str, Any] | None:
        return None

    def restorable(self, name: str) -> bool | None:
        return None


def index(name: str, *keys: str) -> Mapping[str, Any]:
    roles = zip(keys, ("HASH", "RANGE"), strict=False)
    return {"IndexName": name, "KeySchema": [{"AttributeName": key, "KeyType": role} for key, role in roles][::-1]}


@pytest.mark.parametrize(
    ("indexes", "found"),
    [
        ((), ["index-missing"]),
        ((index("by-stage", "status", "pk"),), ["index-missing"]),
        ((index("by-stage", "stage"), index("runs-by-status", "status", "pk")), []),
        ((index("runs-by-status", "pk", "status"),), ["index-other"]),
        ((index("runs-by-status", "status"),), ["index-other"]),
    ],
)
def test_what_an_account_has(indexes: tuple[Mapping[str, Any], ...], found: list[str]) -> None:
    account = cast(Account, Described(*indexes))
    assert [each.rule for each in check_tables(NEEDED, account)] == found


BY_DAY: Final = TableIndex("by-day", ("day",), ("N",))
ORDERS: Final = TableNeed("flowguard", TableKey(("id",), ("S",), (BY_DAY,)), None, existing=False)


@pytest.mark.parametrize(
    ("indexes", "found"),
    [
        ((), ["it has no index by-day"]),
        ((index("by-day", "day"),), []),
        ((index("by-day", "day", "id"),), ["its index by-day has another key"]),
        ((index("by-day", "id"),), ["its index by-day has another key"]),
        (({**index("by-day", "day"), "IndexStatus": "CREATING"},), ["its index by-day is CREATING"]),
        (({**index("by-day", "day"), "IndexStatus": "UPDATING"},), []),
        (({**index("by-day", "day"), "Projection": {"ProjectionType": "ALL"}},), []),
    ],
)
def test_an_index_of_the_users_is_an_error_where_it_lacks(indexes: tuple[Any, ...], found: list[str]) -> None:
    needed = cast(Deployment, SimpleNamespace(tables=[ORDERS]))
    described = Described(*indexes)
    described.description["KeySchema"] = [{"AttributeName": "id", "KeyType": "HASH"}]
    types = {"id": "S", "day": "N"}
    described.description["AttributeDefinitions"] = [
        {"AttributeName": name, "AttributeType": kind} for name, kind in types.items()
    ]
    findings = list(check_tables(needed, cast(Account, described)))
    assert [each.what for each in findings] == found
    assert all(each.severity is Severity.ERROR for each in findings)
    assert all("queries of it are refused" in each.why for each in findings)
    assert all("by-day of day with all attributes" in each.fix or "is CREATING" in each.what for each in findings)


@pytest.mark.parametrize("kind", ["S", "N"])
def test_an_index_that_lacks_attributes_or_has_one_of_another_type_is_another(kind: str) -> None:
    needed = cast(Deployment, SimpleNamespace(tables=[ORDERS]))
    described = Described({**index("by-day", "day"), "Projection": {"ProjectionType": "KEYS_ONLY"}})
    described.description["KeySchema"] = [{"AttributeName": "id", "KeyType": "HASH"}]
    described.description["AttributeDefinitions"] = [
        {"AttributeName": "id", "AttributeType": "S"},
        {"AttributeName": "day", "AttributeType": kind},
    ]
    [finding] = check_tables(needed, cast(Account, described))
    wrong = "its index by-day has not all attributes" if kind == "N" else "its index by-day has another key"
    assert (finding.rule, finding.what) == ("index-other", wrong)
    assert finding.severity is (Severity.WARNING if kind == "N" else Severity.ERROR)

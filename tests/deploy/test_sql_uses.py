"""What roles may do with the databases of ``step.sql``: those of the Data API, each cluster and secret by its ARN.

And what the doctor says where a role may not.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.cli.iac import FORMATS
from flowguard.deploy.key_policy import keys_of
from flowguard.deploy.needs import Deployment, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.sql_uses import DATA_API
from flowguard.deploy.uses import uses_of
from flowguard.sql import DataApi, SQLite
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import findings, read
from tests.deploy.stated import stated

CLUSTER = "arn:aws:rds:eu-west-1:123456789012:cluster:shop"
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:shop-user-1a2b3c"


def data_api(cluster: str, secret: str) -> DataApi:
    client = boto3.client("rds-data", region_name="eu-west-1", config=Config(retries={"total_max_attempts": 1}))
    return DataApi(client, cluster=cluster, secret=secret, database="shop")


SHOP, LEDGER = data_api(CLUSTER, SECRET), data_api(f"{CLUSTER}-2", SECRET)
LOCAL = SQLite(lambda: sqlite3.connect(":memory:"))


class Order(BaseModel):
    order_id: str


def nothing(cursor: Any) -> None:
    """Do nothing."""


class Take(Stage[Order], name="take", inbox="take", then="book"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.sql("take", SHOP, nothing)
        step.sql("note", database=LEDGER, statements=nothing)
        return Book.message(order)


class Book(Stage[Order], name="book", inbox="book", then="show"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.sql("book", LOCAL, nothing)
        return Show.message(order)


class Show(Stage[Order], name="show", inbox="show"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.sql("show", data_api(CLUSTER, SECRET), nothing)
        return Done()


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Take, Book, Show)


take, book, show = (lambda_handler(Orders, stage) for stage in (Take, Book, Show))


def may(function: str, target: Target) -> dict[str, tuple[str, ...]]:
    [found] = [each for each in needs(__name__).functions if each.name == function]
    return {each.name: each.actions for each in found.permissions if each.on is target}


def test_a_function_may_use_the_clusters_that_its_handler_names_and_no_others() -> None:
    assert may("orders-take", Target.DATABASE) == {CLUSTER: DATA_API, f"{CLUSTER}-2": DATA_API}
    assert may("orders-take", Target.SECRET) == {SECRET: ("secretsmanager:GetSecretValue",)}
    assert may("orders-book", Target.DATABASE) == may("orders-book", Target.SECRET) == {}


def test_a_database_that_the_source_does_not_say_is_named() -> None:
    [place] = uses_of(Show).unread
    assert place.what == "the database in step.sql(…) is not known"
    assert uses_of(Take).unread == uses_of(Book).unread == []


@pytest.mark.parametrize("form", FORMATS)
def test_each_template_says_so(form: str) -> None:
    facts = stated(json.loads(FORMATS[form](needs(__name__), DeployOptions())))
    [statements] = [
        fact["Policy"]["Statement"] for (kind, name), fact in facts.items() if kind == "role" and name == "orders-take"
    ]
    [allowed] = [each for each in statements if "rds-data:ExecuteStatement" in each["Action"]]
    assert sorted(allowed["Resource"]) == [CLUSTER, f"{CLUSTER}-2"]


def looked_at(form: str, without: str) -> list[tuple[str, str, str]]:
    """What the doctor finds in the file of a template whose roles lack an action."""
    needed = needs(__name__)
    text = FORMATS[form](needed, DeployOptions())
    assert without in text
    looked = findings(read(text.replace(without, "rds-data:BatchExecuteStatement"), form), needed, DeployOptions())
    return [(each.resource, each.rule, each.what) for each in looked if each.rule == "permission-missing"]


@pytest.mark.parametrize("form", ["cloudformation", "terraform-json"])
@pytest.mark.parametrize("action", DATA_API)
def test_the_doctor_names_what_a_role_may_not_do_with_a_cluster(form: str, action: str) -> None:
    assert looked_at(form, action) == [
        ("orders-take", "permission-missing", f"its role may not {action} on {cluster}")
        for cluster in (CLUSTER, f"{CLUSTER}-2")
    ]


@pytest.mark.parametrize("form", ["cloudformation", "terraform-json"])
def test_the_doctor_names_the_secret_that_a_role_may_not_read(form: str) -> None:
    told = f"its role may not secretsmanager:GetSecretValue on {SECRET}"
    assert looked_at(form, "secretsmanager:GetSecretValue") == [("orders-take", "permission-missing", told)]


@pytest.mark.parametrize("form", ["cloudformation", "terraform-json"])
def test_the_doctor_has_nothing_to_say_of_what_the_template_allows(form: str) -> None:
    needed = needs(__name__)
    looked = findings(read(FORMATS[form](needed, DeployOptions()), form), needed, DeployOptions())
    assert [each for each in looked if each.rule == "permission-missing"] == []


USER = "arn:aws:rds-db:eu-west-1:123456789012:dbuser:cluster-ABCDEFGHIJKL01234/orders"


def with_options(given: dict[str, Any]) -> tuple[Deployment, DeployOptions]:
    options = DeployOptions.model_validate(given)
    return needs(__name__, options=options), options


def test_a_function_may_connect_as_the_users_that_the_options_name() -> None:
    needed, _ = with_options({"functions": {"book": {"database_users": [USER]}}})
    allowed = {
        function.name: [(each.name, each.actions) for each in function.permissions if each.on is Target.DATABASE_USER]
        for function in needed.functions
    }
    assert allowed == {"orders-book": [(USER, ("rds-db:connect",))], "orders-show": [], "orders-take": []}


@pytest.mark.parametrize("form", ["cloudformation", "terraform-json"])
def test_the_doctor_names_the_user_as_whom_a_role_may_not_connect(form: str) -> None:
    needed, options = with_options({"functions": {"book": {"database_users": [USER]}}})
    text = FORMATS[form](needed, options)
    changed = text.replace("rds-db:connect", "rds-db:other")
    assert changed != text
    looked = findings(read(changed, form), needed, options)
    missing = [(each.resource, each.what) for each in looked if each.rule == "permission-missing"]
    assert missing == [("orders-book", f"its role may not rds-db:connect on {USER}")]


@pytest.mark.parametrize(
    "user",
    [
        USER.replace("rds-db", "rds"),
        USER.replace("dbuser", "db"),
        USER.replace("cluster-", "shop-"),
        USER.partition("/")[0],
        f"{USER}/*",
    ],
)
def test_what_is_no_user_of_a_database_is_refused(user: str, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(f'[defaults]\ndatabase_users = ["{user}"]\n', encoding="utf-8")
    with pytest.raises(CannotDeploy, match="is no user of a database by ARN"):
        DeployOptions.read(file)


def test_a_user_of_another_account_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(f'account = "210987654321"\n[defaults]\ndatabase_users = ["{USER}"]\n', encoding="utf-8")
    with pytest.raises(CannotDeploy, match="IAM lets roles connect to databases of their own account alone"):
        DeployOptions.read(file)


KEY, OTHER = (f"arn:aws:kms:eu-west-1:123456789012:key/{digit * 8}-12ab-34cd-56ef-1234567890ab" for digit in "12")


def opened(given: dict[str, Any], secret: str, name: str = "orders-take") -> list[str]:
    """The keys that a function may use through Secrets Manager and Systems Manager, where it reads a secret."""
    needed, options = with_options(given)
    function = needed.function(name)
    assert any(permission.name == secret for permission in function.permissions)
    via = {"secretsmanager", "ssm"}
    keys = [each for each in function.permissions if each.on is Target.KEY and via & {*each.via}]
    assert {each.name for each in keys} <= {*keys_of(needed, options)}
    assert {each.actions for each in keys} <= {("kms:Decrypt",)}
    return [each.name for each in keys]


def test_a_role_may_open_the_secret_of_the_data_api_by_the_key_that_the_options_say() -> None:
    assert opened({}, SECRET) == []
    assert opened({"kms_key": KEY}, SECRET) == [KEY]
    assert opened({"secrets": {SECRET: {"kms_key": OTHER}}}, SECRET) == [OTHER]
    assert opened({"kms_key": KEY, "secrets": {SECRET: {"kms_key": OTHER}}}, SECRET) == [OTHER]


@pytest.mark.parametrize("place", ["ssm:/orders/keys", "secretsmanager:orders/keys"])
def test_a_role_may_open_the_signing_keys_that_are_brought_by_their_own_key(place: str) -> None:
    name = place.partition(":")[2]
    given = {"secrets": {name: {"kms_key": OTHER}}}
    assert opened({**given, "settings": {"signing_keys": place}}, name) == [OTHER]
    under_a_rule = {**given, "settings": {"signing_keys": place, "names": "staging-*"}}
    assert opened(under_a_rule, name, "staging-orders-take") == [OTHER]


def test_an_option_for_a_secret_that_nobody_reads_or_that_is_made_is_named() -> None:
    made = "flowguard/signing-keys"
    options = DeployOptions.model_validate({"secrets": {made: {"kms_key": OTHER}, "mine": {"kms_key": OTHER}}})
    needed = needs("flows.approval.handlers", options=options)
    assert needed.signing_secret == made
    notes = [note for note in needed.notes if "[secrets" in note]
    assert notes == [
        f"the options say [secrets.{name}], and nothing here is called that; it has no effect"
        for name in (made, "mine")
    ]
    allowed = {each.name for function in needed.functions for each in function.permissions}
    assert OTHER not in allowed

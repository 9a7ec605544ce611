"""What an account asks of all that is made in it: tags, bounded roles under a path, functions in a network."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from tests.deploy import everything, templates
from tests.deploy.exercised import needs
from tests.deploy.stated import stated
from tests.deploy.terraform_schema import problems_of_configuration
from tests.deploy.test_formats_agree import shared
from tests.deploy.test_resources import UNTAGGED

BOUNDARY: Final = "arn:aws:iam::123456789012:policy/bounds"
KEY: Final = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
SIGNING: Final = "arn:aws:lambda:eu-west-1:123456789012:code-signing-config:csc-0123456789abcdef0"
SUBNETS: Final = ["subnet-0a1b2c3d", "subnet-0a1b2c3e"]
OPTIONS: Final = DeployOptions.model_validate(
    {
        **everything.OPTIONS,
        "tags": {"team": "checkout", "cost centre": "42 = all"},
        "role_path": "/shop/",
        "permissions_boundary": BOUNDARY,
        "kms_key": KEY,
        "code_signing": SIGNING,
        "tracing": True,
        "vpc": {"subnets": SUBNETS, "security_groups": ["sg-0a1b2c3d"]},
    }
)
MANY: Final = ", ".join(f'k{number} = ""' for number in range(41))


@cache
def text_of(form: str) -> str:
    return FORMATS[form](needs("tests.deploy.everything", options=OPTIONS), OPTIONS)


def template(form: str = "cloudformation") -> Any:
    return json.loads(text_of(form))


def roles() -> list[dict[str, Any]]:
    return [one["Properties"] for one in template()["Resources"].values() if one["Type"] == "AWS::IAM::Role"]


def plain_roles() -> list[dict[str, Any]]:
    return [role for _, role in templates.of_type("everything", "AWS::IAM::Role")]


def test_terraform_knows_every_argument() -> None:
    assert problems_of_configuration(template("terraform-json")) == []


@pytest.mark.proof("cfn-lint takes a second for each template")
@pytest.mark.parametrize(
    "form", ["cloudformation", pytest.param("sam", marks=pytest.mark.long("the same flows in another form"))]
)
def test_cfn_lint_has_nothing_to_say(form: str, tmp_path: Path) -> None:
    file = tmp_path / "template.json"
    file.write_text(text_of(form))
    command = [Path(sys.executable).with_name("cfn-lint"), file]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("", 0)


@pytest.mark.parametrize("form", ["sam", "terraform-json"])
def test_every_format_says_the_same(form: str) -> None:
    assert shared(stated(template(form))) == shared(stated(template()))


def test_each_function_takes_signed_code_alone_where_that_is_asked_for() -> None:
    functions = [fact for (kind, _), fact in stated(template()).items() if kind == "function"]
    assert {one["CodeSigningConfigArn"] for one in functions} == {SIGNING}
    assert "CodeSigningConfigArn" not in templates.text_of("everything", "cloudformation")


def test_traces_are_sent_where_that_is_asked_for() -> None:
    facts = stated(template())
    functions = [fact for (kind, _), fact in facts.items() if kind == "function"]
    assert [one["TracingConfig"] for one in functions] == [{"Mode": "Active"}] * len(functions)
    roles_of_functions = [fact for (kind, name), fact in facts.items() if kind == "role" and name != "scheduler"]
    for role in roles_of_functions:
        [allowed] = [one for one in role["Policy"]["Statement"] if "xray:PutTraceSegments" in one["Action"]]
        assert allowed["Resource"] == ["*"]
    assert "xray:" not in templates.text_of("everything", "cloudformation")
    assert "Active" not in templates.text_of("everything", "cloudformation")


def test_each_resource_that_can_have_tags_has_them_beside_the_flow() -> None:
    for name, resource in template()["Resources"].items():
        if resource["Type"] in UNTAGGED:
            continue
        tags = {tag["Key"]: tag["Value"] for tag in resource["Properties"]["Tags"]}
        assert tags == {"team": "checkout", "cost centre": "42 = all", "flowguard": "everything"}, name
    for kind, blocks in template("terraform-json")["resource"].items():
        for name, block in blocks.items():
            if "tags" in block:
                assert set(block["tags"]) == {"team", "cost centre", "flowguard"}, f"{kind}.{name}"


def test_each_role_is_bounded_and_under_the_path() -> None:
    assert len(roles()) > 1
    assert {(role["Path"], role["PermissionsBoundary"]) for role in roles()} == {("/shop/", BOUNDARY)}
    blocks = template("terraform-json")["resource"]["aws_iam_role"].values()
    assert {(block["path"], block["permissions_boundary"]) for block in blocks} == {("/shop/", BOUNDARY)}
    for role in plain_roles():
        assert not {"Path", "PermissionsBoundary"} & role.keys()


@pytest.mark.parametrize(
    ("form", "kind"), [("cloudformation", "AWS::Lambda::Function"), ("sam", "AWS::Serverless::Function")]
)
def test_each_function_is_in_the_network(form: str, kind: str) -> None:
    functions = [one["Properties"] for one in template(form)["Resources"].values() if one["Type"] == kind]
    networks = [one["VpcConfig"] for one in functions]
    assert networks == [{"SubnetIds": SUBNETS, "SecurityGroupIds": ["sg-0a1b2c3d"]}] * len(functions)


def test_terraform_puts_each_function_in_the_network() -> None:
    for block in template("terraform-json")["resource"]["aws_lambda_function"].values():
        assert block["vpc_config"] == {"subnet_ids": SUBNETS, "security_group_ids": ["sg-0a1b2c3d"]}
    assert "vpc_config" not in templates.text_of("everything", "terraform-json")


def _network(role: dict[str, Any]) -> list[Any]:
    statements = role["Policies"][0]["PolicyDocument"]["Statement"]
    return [one for one in statements if any(action.startswith("ec2:") for action in one["Action"])]


def test_its_role_lets_lambda_connect_it() -> None:
    allowed = [_network(role) for role in roles()]
    of_functions = [statements for statements in allowed if statements]
    assert len(of_functions) == len(allowed) - 1, "all but that of the scheduler"
    for [statement] in of_functions:
        assert statement["Resource"] == ["*"]
        assert "ec2:CreateNetworkInterface" in statement["Action"]
    assert not any(map(_network, plain_roles()))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('kms_key = "alias/shop"', "kms_key is no ARN of a key"),
        ('kms_key = "arn:aws:kms:eu-west-1:123456789012:alias/shop"', "kms_key is no ARN of a key"),
        ('[tables.x]\nkms_key = "shop"', "tables.x.kms_key is no ARN of a key"),
        ('[queues.x]\nkms_key = "shop"', "queues.x.kms_key is no ARN of a key"),
        ('[topics.x]\nkms_key = "shop"', "topics.x.kms_key is no ARN of a key"),
        ('bucket_key = "shop"', "bucket_key is no ARN of a key"),
        ('operators = ["210987654321"]', "operators.0 has 210987654321, which is an account; name its roles by"),
        ('[queues.x]\nsenders = ["210987654321"]', "queues.x.senders.0 has 210987654321, which is an account"),
        ('account = "1"', "account is no account, which has 12 digits"),
        ('code_signing = "csc-1"', "code_signing is no ARN of a code signing configuration"),
        ('role_path = "shop"', "role_path is no path of a role, such as /shop/"),
        ('permissions_boundary = "bounds"', "permissions_boundary is no ARN of a policy"),
        ('tags = { flowguard = "mine" }', "tags has flowguard, which AWS or the template itself sets"),
        ('tags = { Flowguard = "mine" }', "tags has Flowguard, which AWS or the template itself sets"),
        ('tags = { team = "a", Team = "b" }', "tags has keys that differ in capital letters alone"),
        ('region = "Ireland"', "region is no region, such as eu-west-1"),
        ('tags = { "aws:x" = "mine" }', "tags has aws:x, which AWS or the template itself sets"),
        ('tags = { "a%b" = "mine" }', "is no key of a tag"),
        ('tags = { team = "a%b" }', "tags.team is no text of a tag"),
        ('[vpc]\nsubnets = []\nsecurity_groups = ["sg-0a1b2c3d"]', "vpc.subnets has fewer parts than 1"),
        (f'tags = {{ team = "{"x" * 257}" }}', "tags.team has more than 256 characters"),
        (f"tags = {{ {MANY} }}", "tags has more than 40 parts"),
        ('[vpc]\nsubnets = ["subnet-1"]', "vpc.security_groups is missing"),
        ('[vpc]\nsubnets = ["net-1"]\nsecurity_groups = ["sg-1"]', "vpc.subnets.0 is no subnet"),
        ('[vpc]\nsubnets = ["subnet-1"]\nsecurity_groups = ["group"]', "vpc.security_groups.0 is no security group"),
    ],
)
def test_what_aws_does_not_take_is_named(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(text)
    with pytest.raises(CannotDeploy) as raised:
        DeployOptions.read(file)
    assert problem in str(raised.value)


def test_invocations_are_reserved_where_the_options_say_how_many() -> None:
    given = {"defaults": {"max_concurrency": 2, "reserved": 2}}
    options = DeployOptions.model_validate(given)
    assert {one.reserved for one in needs("flows.take_payment.handlers", options=options).functions} == {2}


def test_a_function_that_no_queue_feeds_may_reserve_what_it_likes() -> None:
    options = DeployOptions.model_validate({"functions": {"answers": {"reserved": 4, "url_concurrency": 4}}})
    [answers] = [one for one in needs("tests.deploy.securing", options=options).functions if one.has_url]
    assert (answers.reads, answers.reserved) == ((), 4)


@pytest.mark.parametrize(("given", "each"), [({"reserved": 4}, "none"), ({"reserved": 3, "max_concurrency": 4}, "4")])
def test_mappings_may_not_bring_more_than_is_reserved(given: dict[str, int], each: str) -> None:
    options = DeployOptions.model_validate({"functions": {"charge_card": given}})
    with pytest.raises(CannotDeploy, match=f"and its queue has max_concurrency = {each}: what"):
        needs("flows.take_payment.handlers", options=options)


POLICY: Final = "arn:aws:iam::123456789012:policy/p"
USER: Final = "arn:aws:rds-db:eu-west-1:123456789012:dbuser:cluster-ABCDEFGHIJKL01234/shop"


@pytest.mark.parametrize(
    ("module", "given", "problem"),
    [
        (
            "tests.deploy.starting",
            {"defaults": {"role": "ours"}, "functions": {"start": {"database_users": [USER], "policies": [POLICY]}}},
            "start has database_users, and ours for a role by [defaults], to which nothing is attached",
        ),
        (
            "tests.deploy.starting",
            {"defaults": {"role": "ours"}, "functions": {"start": {"policies": [POLICY]}}},
            "start has policies, and ours for a role by [defaults], to which nothing is attached",
        ),
        (
            "tests.deploy.starting",
            {"functions": {"ship": {"url_auth": "NONE"}}},
            "ship has url_auth, which is for functions of start_handler: it starts no runs over HTTP",
        ),
        (
            "tests.deploy.securing",
            {"functions": {"answers": {"url_auth": "AWS_IAM"}}},
            "answers has url_auth, which is for functions of start_handler: it starts no runs over HTTP",
        ),
        (
            "tests.deploy.starting",
            {"functions": {"ship": {"url_concurrency": 5}}},
            "ship has url_concurrency, and gets no URL: it starts no runs over HTTP and makes no links",
        ),
        (
            "tests.deploy.starting",
            {"functions": {"start": {"window": 5, "batch_size": 2, "max_concurrency": 3}}},
            "start has batch_size, max_concurrency, window, which is for functions that read queues: it reads none",
        ),
    ],
)
def test_an_option_of_a_function_that_has_no_effect_there_is_refused(
    module: str, given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(CannotDeploy) as raised:
        needs(module, options=DeployOptions.model_validate(given))
    assert any(each.endswith(problem) for each in raised.value.problems)


@pytest.mark.parametrize(
    "given",
    [
        {"defaults": {"url_auth": "NONE", "url_concurrency": 5}},
        {"defaults": {"window": 5, "batch_size": 2, "max_concurrency": 3}},
        {"functions": {"ship": {"window": 5, "batch_size": 2, "max_concurrency": 3}}},
        {"functions": {"start": {"url_auth": "NONE", "url_concurrency": 5}}},
        {"functions": {"ship": {"url_concurrency": 0, "database_users": []}}, "defaults": {"role": "ours"}},
        {"defaults": {"database_users": [USER], "policies": [POLICY]}, "functions": {"ship": {"role": "ours"}}},
        {"functions": {"ship": {"database_users": [USER], "policies": [POLICY]}}},
    ],
)
def test_an_option_that_has_an_effect_for_some_is_taken(given: dict[str, Any]) -> None:
    assert needs("tests.deploy.starting", options=DeployOptions.model_validate(given)).functions

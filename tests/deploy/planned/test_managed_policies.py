"""Policies of AWS: what they allow is known, and what they lack is a finding, in files of both languages."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import pytest
from moto.iam.aws_managed_policies import aws_managed_policies_data

from flowguard.deploy.arns import statements_of
from flowguard.deploy.finding import note
from flowguard.deploy.planned.legible import legible
from flowguard.deploy.planned.managed_policies import POLICIES, of_aws
from flowguard.deploy.planned.policies import allowed, documents_of
from flowguard.deploy.planned.resources import HERE, STREAM_HERE
from flowguard.deploy.planned.template_file import resources_of
from flowguard.deploy.planned.values import UNKNOWN
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import Text, found_in
from tests.deploy.planned.test_files_looked_at import properties, put
from tests.deploy.templates import MODULES, options_of

AWS: Final[dict[str, Any]] = json.loads(aws_managed_policies_data)
"""The policies of AWS, whole, as moto has them."""

BASIC: Final = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
ANSWERS: Final = "EverythingAnswersRole"
Asked = tuple[str, str, tuple[tuple[str, str | None], ...]]


def asked_of_roles() -> set[Asked]:
    """All that functions are asked to be allowed: action, resource, condition keys."""
    asked: set[Asked] = set()
    for name in ("everything", "streaming", "topics", "starting", "charging"):
        needed = needs(MODULES[name], options=options_of(name))
        for function in needed.functions:
            for statement in statements_of(needed, function):
                for given, arn in product(statement.contexts(HERE.account), statement.arns):
                    context = tuple(sorted(given.items()))
                    asked |= {(action, arn.filled(*HERE), context) for action in statement.actions}
    more = ("ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses", "xray:PutTraceSegments")
    actions = {"*", "kms:Decrypt", "logs:CreateLogGroup", "kinesis:SubscribeToShard", *more}
    return asked | {(action, "arn:aws:x:y:z:anything", ()) for action in actions}


ASKED: Final = asked_of_roles()


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_allows_what_it_allows_at_aws(name: str) -> None:
    """Moto has the documents as AWS had them when it was released."""
    ours, theirs = of_aws(f"arn:aws:iam::aws:policy/{name}"), AWS[name]["Document"]
    differing = [
        each
        for each in ASKED
        if allowed([ours], each[0], each[1], dict(each[2])) is not allowed([theirs], each[0], each[1], dict(each[2]))
    ]
    assert differing == []


def test_the_conditions_of_a_policy_count() -> None:
    document, role = of_aws("arn:aws:iam::aws:policy/AmazonEventBridgeSchedulerFullAccess"), "arn:aws:iam::1:role/x"
    passed = {"iam:PassedToService": "scheduler.amazonaws.com"}
    assert allowed([document], "iam:PassRole", role, passed) is True
    assert allowed([document], "iam:PassRole", role, {"iam:PassedToService": "ec2.amazonaws.com"}) is False


@pytest.mark.parametrize(
    ("arn", "is_there"),
    [
        (BASIC, True),
        ("arn:aws-cn:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole", True),
        ("arn:aws:iam::aws:policy/AWSLambdaBasicExecutionRole", True),
        ("arn:aws:iam::123456789012:policy/AWSLambdaBasicExecutionRole", False),
        ("arn:aws:iam::aws:policy/ReadOnlyAccess", False),
        ("AWSLambdaBasicExecutionRole", False),
        (UNKNOWN, False),
        (7, False),
    ],
)
def test_a_policy_of_aws_is_known_by_its_arn(arn: Any, is_there: bool) -> None:
    assert (of_aws(arn) is not UNKNOWN) is is_there


# -- roles with them


def only(role: str, *arns: Any) -> Callable[[Any], None]:
    """Leave a role nothing but these policies."""
    return put(role, Policies=[], ManagedPolicyArns=[*arns])


def attached(*arns: Any) -> Callable[[Any], None]:
    """The same in Terraform."""

    def change(configuration: Any) -> None:
        [(name, _)] = [
            (name, block)
            for name, block in configuration["resource"]["aws_iam_role"].items()
            if name.startswith("everything_answers") and "url" not in name
        ]
        reference = f"${{aws_iam_role.{name}.name}}"
        for policy in configuration["resource"]["aws_iam_role_policy"].values():
            if f"aws_iam_role.{name}." in json.dumps(policy["role"]):
                policy["policy"] = json.dumps({"Version": "2012-10-17", "Statement": []})
        configuration["resource"]["aws_iam_role_policy_attachment"] = {
            f"attached_{number}": {"role": reference, "policy_arn": arn} for number, arn in enumerate(arns)
        }

    return change


FORMS: Final[dict[str, Callable[..., Callable[[Any], None]]]] = {
    "cloudformation": lambda *arns: only(ANSWERS, *arns),
    "terraform-json": attached,
}
DENIED: Final[Text] = ("permission-missing", "error", "everything-answers")


@pytest.mark.parametrize("form", FORMS)
def test_a_role_of_a_function_by_hand_that_has_the_logs_alone_is_found(form: str) -> None:
    looked = found_in("everything", form, FORMS[form](BASIC))
    assert DENIED in looked
    assert not [name for rule, _, name in looked if rule == "not-looked-at" and "answers_role" in name.lower()]
    assert not [name for rule, _, name in looked if rule == "not-looked-at" and name == ANSWERS]


@pytest.mark.parametrize("form", FORMS)
def test_what_an_administrator_may_is_no_finding(form: str) -> None:
    assert DENIED not in found_in("everything", form, FORMS[form]("arn:aws:iam::aws:policy/AdministratorAccess"))


@pytest.mark.parametrize("form", FORMS)
def test_a_policy_that_nobody_knows_is_a_note(form: str) -> None:
    looked = found_in("everything", form, FORMS[form](BASIC, "arn:aws:iam::123456789012:policy/ours"))
    assert DENIED not in looked
    assert any(rule == "not-looked-at" and "answers" in resource.lower() for rule, _, resource in looked)


def test_the_partition_of_a_policy_may_be_that_of_the_deployment() -> None:
    arn = {"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"}
    assert DENIED in found_in("everything", change=only(ANSWERS, arn))


# -- roles that SAM makes


def role_of(**given: Any) -> list[Any]:
    """The documents of the role that SAM makes for a function."""
    function = {"Type": "AWS::Serverless::Function", "Properties": {"FunctionName": "f", **given}}
    own = {"Type": "AWS::IAM::ManagedPolicy", "Properties": {"ManagedPolicyName": "own", "PolicyDocument": {}}}
    [role] = resources_of("f.json", {"Resources": {"F": function, "Own": own}}, {}).of("AWS::IAM::Role")
    policies = [policy["PolicyDocument"] for policy in role.properties["Policies"]]
    return [*policies, *role.properties["ManagedPolicyArns"]]


def policy(name: str) -> str:
    return f"arn:aws:iam::aws:policy/{name}"


LOGS: Final = policy("AWSLambdaBasicExecutionRole")
SEND: Final = {"Statement": [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*"}]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [LOGS]),
        ({"Policies": "AWSLambdaRole"}, [policy("AWSLambdaRole"), LOGS]),
        ({"Policies": [BASIC, SEND]}, [SEND, BASIC, LOGS]),
        ({"Policies": SEND}, [SEND, LOGS]),
        ({"Policies": [{"SQSPollerPolicy": {"QueueName": "q"}}]}, [UNKNOWN, LOGS]),
        ({"Policies": [{"Ref": "Own"}]}, ["arn:aws:iam::000000000000:policy/own", LOGS]),
        ({"Policies": [{"Fn::ImportValue": "theirs"}]}, [UNKNOWN, LOGS]),
        ({"VpcConfig": {"SubnetIds": ["s"]}}, [LOGS, policy("AWSLambdaVPCAccessExecutionRole")]),
        ({"Tracing": "Active"}, [LOGS, policy("AWSXrayWriteOnlyAccess")]),
        ({"Tracing": "PassThrough"}, [LOGS]),
        *(
            ({"Events": {"E": {"Type": kind, "Properties": {"Queue": "q", "Stream": "s"}}}}, [LOGS, policy(name)])
            for kind, name in {
                "SQS": "AWSLambdaSQSQueueExecutionRole",
                "Kinesis": "AWSLambdaKinesisExecutionRole",
                "DynamoDB": "AWSLambdaDynamoDBExecutionRole",
            }.items()
        ),
        ({"Events": {"E": {"Type": "Api"}}}, [LOGS]),
    ],
)
def test_the_role_that_sam_makes_has_the_policies_that_sam_gives_it(given: Any, expected: list[Any]) -> None:
    assert role_of(**given) == expected


def test_a_role_of_ones_own_is_not_made() -> None:
    function = {"Type": "AWS::Serverless::Function", "Properties": {"FunctionName": "f", "Role": "r"}}
    assert [*resources_of("f.json", {"Resources": {"F": function}}, {}).of("AWS::IAM::Role")] == []


def test_a_statement_of_the_role_beside_it_counts_too() -> None:
    def change(template: Any) -> None:
        properties(template, ANSWERS)["ManagedPolicyArns"] = [BASIC]

    assert DENIED not in found_in("everything", change=change)


# -- where a role's policies come from


ALLOWS: Final = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


def documents(role: dict[str, Any], **others: tuple[str, dict[str, Any]]) -> list[Any]:
    """The policies of a role among other resources."""
    resources = {label: {"Type": type_, "Properties": given} for label, (type_, given) in others.items()}
    it = {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "it", **role}}
    read_resources = resources_of("f.json", {"Resources": {"It": it, **resources}}, {})
    [found] = read_resources.of("AWS::IAM::Role")
    return [*documents_of(found, read_resources)]


OPEN: Final = {"Fn::ImportValue": "theirs"}
OWN: Final = ("AWS::IAM::ManagedPolicy", {"ManagedPolicyName": "own", "PolicyDocument": ALLOWS})


@pytest.mark.parametrize(
    ("role", "others", "expected"),
    [
        ({}, {}, []),
        ({"Policies": [{"PolicyDocument": ALLOWS}]}, {}, [ALLOWS]),
        ({"Policies": [{"PolicyName": "x"}]}, {}, [UNKNOWN]),
        ({"Policies": [OPEN]}, {}, [UNKNOWN]),
        ({"Policies": OPEN}, {}, [UNKNOWN]),
        ({"ManagedPolicyArns": OPEN}, {}, [UNKNOWN]),
        ({"ManagedPolicyArns": [OPEN]}, {}, [UNKNOWN]),
        ({"ManagedPolicyArns": [{"Ref": "Own"}]}, {"Own": OWN}, [ALLOWS]),
        ({"ManagedPolicyArns": [BASIC]}, {"Own": OWN}, [of_aws(BASIC)]),
        ({}, {"P": ("AWS::IAM::Policy", {"Roles": ["it"], "PolicyDocument": ALLOWS})}, [ALLOWS]),
        ({}, {"P": ("AWS::IAM::Policy", {"Roles": ["others"], "PolicyDocument": ALLOWS})}, []),
        ({}, {"P": ("AWS::IAM::Policy", {"Roles": OPEN, "PolicyDocument": ALLOWS})}, [UNKNOWN]),
        ({}, {"P": ("AWS::IAM::Policy", {"Roles": ["others", OPEN], "PolicyDocument": ALLOWS})}, [UNKNOWN]),
        ({}, {"P": ("AWS::IAM::RolePolicy", {"RoleName": "it", "PolicyDocument": ALLOWS})}, [ALLOWS]),
        ({}, {"P": ("AWS::IAM::RolePolicy", {"RoleName": "others", "PolicyDocument": ALLOWS})}, []),
        ({}, {"P": ("AWS::IAM::ManagedPolicy", {"Roles": ["it"], "PolicyDocument": ALLOWS})}, [ALLOWS]),
    ],
)
def test_the_policies_of_a_role_are_its_own_and_those_that_name_it(
    role: dict[str, Any], others: dict[str, Any], expected: list[Any]
) -> None:
    assert documents(role, **others) == expected


def test_a_finding_about_an_arn_says_where_it_is_in_words() -> None:
    arn = f"arn:aws:dynamodb:{HERE.region}:{HERE.account}:table/t/stream/{STREAM_HERE}"
    finding = legible(note("rule", arn, arn, arn, arn))
    assert {finding.resource, finding.what, finding.why, finding.fix} == {
        "arn:aws:dynamodb:REGION:ACCOUNT:table/t/stream/TIME"
    }

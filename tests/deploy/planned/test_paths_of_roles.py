"""The ARN of a role or policy in a file has its path."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from flowguard.deploy.planned.legible import legible
from flowguard.deploy.planned.resources import HERE, Kind, Resource
from flowguard.deploy.planned.values import UNKNOWN
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import Text, findings, read
from tests.deploy.templates import MODULES, options_of, text_of

FORMS: Final = ("cloudformation", "terraform-json")
PACK: Final = "everything-pack"


@pytest.mark.parametrize(
    ("type_", "given", "arn"),
    [
        ("AWS::IAM::Role", {"RoleName": "r"}, "role/r"),
        ("AWS::IAM::Role", {"RoleName": "r", "Path": "/"}, "role/r"),
        ("AWS::IAM::Role", {"RoleName": "r", "Path": "/shop/late/"}, "role/shop/late/r"),
        ("AWS::IAM::Role", {"Path": "/shop/"}, "role/shop/It"),
        ("AWS::IAM::Role", {"RoleName": "r", "Path": UNKNOWN}, UNKNOWN),
        ("AWS::IAM::ManagedPolicy", {"ManagedPolicyName": "p", "Path": "/shop/"}, "policy/shop/p"),
        ("AWS::Lambda::Function", {"FunctionName": "f", "Path": "/shop/"}, "f"),
    ],
)
def test_an_arn_has_the_path(type_: str, given: dict[str, Any], arn: Any) -> None:
    made = Resource("It", type_, given).arn
    assert made is UNKNOWN if arn is UNKNOWN else made.endswith(f":{arn}")


def test_an_arn_is_made_of_the_properties_that_it_has() -> None:
    assert Kind("A", within="B", path="C").named_by == ("A", "B", "C")
    assert Kind("A").named_by == ("A",)


def looked(form: str, role: str, let_in: str) -> tuple[set[Text], set[str]]:
    """What is found where the role of a function has a path: its queue lets that role alone in, by this ARN.

    The second part is the words of what is lacking.
    """
    file = json.loads(text_of("everything", form))
    excepted = f"arn:aws:iam::123456789012:{let_in}"
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:ReceiveMessage",
        "Resource": "*",
        "Condition": {"ArnNotEquals": {"aws:PrincipalArn": excepted}},
    }
    policy = {"Statement": [statement]}
    if form == "cloudformation":
        made = file["Resources"]
        made["EverythingPackRole"]["Properties"] |= {"RoleName": "pack", "Path": "/shop/", "Policies": []}
        made["EverythingPackFunction"]["Properties"] |= {"Role": role} if role else {}
        queue = {"Queues": [{"Ref": "EverythingPackQueue"}], "PolicyDocument": policy}
        made["Denies"] = {"Type": "AWS::SQS::QueuePolicy", "Properties": queue}
    else:
        file["resource"]["aws_iam_role"]["everything_pack"] |= {"name": "pack", "path": "/shop/"}
        del file["resource"]["aws_iam_role_policy"]["everything_pack"]
        file["resource"]["aws_lambda_function"]["everything_pack"] |= {"role": role} if role else {}
        url = "${aws_sqs_queue.everything_pack.url}"
        denies = {"queue_url": url, "policy": json.dumps(policy)}
        file["resource"]["aws_sqs_queue_policy"]["denies"] = denies
    options = options_of("everything")
    found = [*findings(read(json.dumps(file), form), needs(MODULES["everything"], options=options), options)]
    mine = {(each.rule, each.severity.value, each.resource) for each in found if PACK in each.resource}
    return mine, {legible(each).fix for each in found if each.rule == "permission-missing"}


@pytest.mark.parametrize("form", FORMS)
def test_a_policy_that_lets_the_role_in_by_its_path_denies_it_nothing(form: str) -> None:
    by_path, fixes = looked(form, "", "role/shop/pack")
    assert ("queue-denied", "error", PACK) not in by_path
    assert ("permission-missing", "error", PACK) in by_path
    assert {fix.partition(" to ")[0] for fix in fixes} == {"allow arn:aws:iam::ACCOUNT:role/shop/pack"}
    without, _ = looked(form, "", "role/pack")
    assert ("queue-denied", "error", PACK) in without


@pytest.mark.parametrize("form", FORMS)
def test_a_role_that_is_named_without_its_path_is_none_of_the_files(form: str) -> None:
    right, _ = looked(form, "arn:aws:iam::123456789012:role/shop/pack", "role/shop/pack")
    assert ("permission-missing", "error", PACK) in right
    wrong, _ = looked(form, f"arn:aws:iam::{HERE.account}:role/pack", "role/shop/pack")
    assert ("permission-missing", "error", PACK) not in wrong

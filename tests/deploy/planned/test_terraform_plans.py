"""What a plan of Terraform says of each resource, and what it leaves open. What is no plan is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.terraform_plan import read_plan
from flowguard.deploy.planned.terraform_plan import resources_of as resources_of_plan
from flowguard.deploy.planned.values import UNKNOWN

HCL: Final = Path(__file__).parent / "hcl" / "plan.json"
QUEUE: Final = "AWS::SQS::Queue"


def test_references_of_hcl_are_followed_through_modules_and_counts() -> None:
    resources = read_plan(HCL)
    orders, killed = resources.named(QUEUE, "orders"), resources.named(QUEUE, "orders-killed")
    assert orders is not None
    assert killed is not None
    assert orders.properties["VisibilityTimeout"] == 210
    assert orders.properties["RedrivePolicy"] is UNKNOWN  # jsonencode(…), of which a plan names the references alone
    assert killed.properties["RedrivePolicy"] is UNKNOWN  # a conditional, whose null the provider fills in
    [source] = resources.of("AWS::Lambda::EventSourceMapping")
    assert source.properties["EventSourceArn"] == orders.arn
    [function] = resources.of("AWS::Lambda::Function")
    assert source.properties["FunctionName"] == function.arn
    assert function.properties["RecursiveLoop"] == "Allow"
    assert function.properties["Environment"]["Variables"] == {"FLOWGUARD_TABLE": "flowguard"}
    [role] = resources.of("AWS::IAM::Role")
    assert function.properties["Role"] == role.arn
    [policy] = resources.of("AWS::IAM::RolePolicy")
    assert policy.properties["RoleName"] == role.name
    assert policy.properties["PolicyDocument"] is UNKNOWN
    [subscription] = resources.of("AWS::SNS::Subscription")
    assert subscription.properties["Endpoint"] == orders.arn
    [topic] = resources.of("AWS::SNS::Topic")
    assert subscription.properties["TopicArn"] == topic.arn
    [table] = resources.of("AWS::DynamoDB::Table")
    assert table.properties["TimeToLiveSpecification"] == {"Enabled": True, "AttributeName": "ttl"}
    assert table.properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        ([], "it is no plan"),
        ({}, "it is no plan"),
        ({"planned_values": {}, "configuration": {}}, "something in it has no 'root_module'"),
        ({"planned_values": 3, "configuration": 3}, "something in it has another type"),
    ],
)
def test_what_is_no_plan_is_refused(plan: Any, problem: str) -> None:
    with pytest.raises(NotReadable, match=problem):
        resources_of_plan("f.json", plan)

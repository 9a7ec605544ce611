"""The template, deployed by the CloudFormation of another emulator: nothing is missing but what that leaves out."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from boto3.session import Session
from click.testing import CliRunner

from flowguard.cli import main
from tests.deploy.deployed import PARAMETERS, code
from tests.deploy.templates import MODULES, SHIPPED, text_of

REGION: Final = "us-east-1"

NOT_BY_MINISTACK: Final = {"ttl-off", "not-restorable"}
"""Its CloudFormation makes tables without expiry and without point-in-time recovery, whatever the template says."""


@pytest.mark.proof("starts MiniStack, which deploys a template for each flow")
@pytest.mark.parametrize("name", SHIPPED)
def test_what_cloudformation_makes_of_a_template_lacks_nothing(
    name: str, ministack_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "test")
    session = Session(region_name=REGION)
    make: Any = session.client
    s3, stacks = (make(service, endpoint_url=ministack_url) for service in ("s3", "cloudformation"))
    s3.create_bucket(Bucket=PARAMETERS["CodeBucket"])
    s3.put_object(Bucket=PARAMETERS["CodeBucket"], Key=PARAMETERS["CodeKey"], Body=code())
    given = [{"ParameterKey": key, "ParameterValue": value} for key, value in PARAMETERS.items()]
    stack = {"StackName": name.replace("_", "-"), "Parameters": given, "Capabilities": ["CAPABILITY_IAM"]}
    stacks.create_stack(**stack, TemplateBody=text_of(name, "cloudformation"))
    stacks.get_waiter("stack_create_complete").wait(StackName=stack["StackName"], WaiterConfig={"Delay": 1})

    command = ["doctor", MODULES[name], "--endpoint-url", ministack_url, "--region", REGION, "--json"]
    found = [json.loads(line) for line in CliRunner().invoke(main, command).stdout.splitlines()]
    assert {one["rule"] for one in found} == NOT_BY_MINISTACK
    stacks.delete_stack(StackName=stack["StackName"])

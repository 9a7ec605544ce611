"""The template, deployed by the CloudFormation of another emulator: nothing is missing but what that leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from boto3.session import Session
from click.testing import CliRunner

from flowguard.cli import main
from tests.deploy import charging
from tests.deploy.deployed import PARAMETERS, code
from tests.deploy.templates import MODULES, SHIPPED, text_of
from tests.deploy.test_split_templates import stacks as stacks_of

REGION: Final = "us-east-1"

NOT_BY_MINISTACK: Final = {"chain-stopped", "not-restorable", "ttl-off"}
"""Its CloudFormation makes functions with loop detection, and tables without expiry and without point-in-time recovery,
whatever the template says."""


@pytest.mark.proof("starts MiniStack, which deploys a template for each flow")
@pytest.mark.parametrize("name", [*SHIPPED, "charging"])
def test_what_cloudformation_makes_of_a_template_lacks_nothing(
    name: str, ministack_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "test")
    session = Session(region_name=REGION)
    make: Any = session.client
    s3, stacks = (make(service, endpoint_url=ministack_url) for service in ("s3", "cloudformation"))
    s3.create_bucket(Bucket=PARAMETERS["CodeBucket"])
    s3.put_object(Bucket=PARAMETERS["CodeBucket"], Key=PARAMETERS["CodeKey"], Body=code())
    s3.put_object(Bucket=PARAMETERS["CodeBucket"], Key=f"{name}.json", Body=text_of(name, "cloudformation").encode())
    given = [{"ParameterKey": key, "ParameterValue": value} for key, value in PARAMETERS.items()]
    stack = {"StackName": name.replace("_", "-"), "Parameters": given, "Capabilities": ["CAPABILITY_IAM"]}
    url = f"{ministack_url}/{PARAMETERS['CodeBucket']}/{name}.json"  # it is too long to be sent along
    stacks.create_stack(**stack, TemplateURL=url)
    stacks.get_waiter("stack_create_complete").wait(StackName=stack["StackName"], WaiterConfig={"Delay": 1})

    command = ["doctor", MODULES[name], "--endpoint-url", ministack_url, "--region", REGION, "--json"]
    if name == "charging":
        (tmp_path / "deploy.toml").write_text(charging.OPTIONS)
        command += ["--options", str(tmp_path / "deploy.toml")]
    found = [json.loads(line) for line in CliRunner().invoke(main, command).stdout.splitlines()]
    unbounded = set() if name == "charging" else {"concurrency-open"}  # no shipped flow says a max_concurrency
    assert {one["rule"] for one in found} == NOT_BY_MINISTACK | unbounded
    stacks.delete_stack(StackName=stack["StackName"])


@pytest.mark.proof("starts MiniStack, which deploys nested stacks")
@pytest.mark.parametrize("name", ["approval", "orders"])
def test_what_cloudformation_makes_of_nested_stacks_lacks_nothing(
    name: str, ministack_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "test")
    make: Any = Session(region_name=REGION).client
    s3, stacks = (make(service, endpoint_url=ministack_url) for service in ("s3", "cloudformation"))
    bucket = PARAMETERS["CodeBucket"]
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key=PARAMETERS["CodeKey"], Body=code())
    for file, template in stacks_of(name).items():
        for resource in template["Resources"].values():
            if "TemplateURL" in resource["Properties"]:  # as aws cloudformation package writes it
                resource["Properties"]["TemplateURL"] = (
                    f"{ministack_url}/{bucket}/{resource['Properties']['TemplateURL']}"
                )
        s3.put_object(Bucket=bucket, Key=file, Body=json.dumps(template).encode())
    given = [{"ParameterKey": key, "ParameterValue": value} for key, value in PARAMETERS.items()]
    stack = {"StackName": f"nested-{name}", "Parameters": given, "Capabilities": ["CAPABILITY_IAM"]}
    stacks.create_stack(**stack, TemplateURL=f"{ministack_url}/{bucket}/template.json")
    stacks.get_waiter("stack_create_complete").wait(StackName=stack["StackName"], WaiterConfig={"Delay": 1})

    command = ["doctor", MODULES[name], "--endpoint-url", ministack_url, "--region", REGION, "--json"]
    found = [json.loads(line) for line in CliRunner().invoke(main, command).stdout.splitlines()]
    assert {one["rule"] for one in found} == NOT_BY_MINISTACK | {"concurrency-open"}
    stacks.delete_stack(StackName=stack["StackName"])


@pytest.mark.proof("starts MiniStack, which deploys a stack that imports what another one exports")
def test_a_stack_uses_what_another_one_exports(
    ministack_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "test")
    make: Any = Session(region_name=REGION).client
    s3, stacks = (make(service, endpoint_url=ministack_url) for service in ("s3", "cloudformation"))
    bucket = PARAMETERS["CodeBucket"]
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key=PARAMETERS["CodeKey"], Body=code())
    given = [{"ParameterKey": key, "ParameterValue": value} for key, value in PARAMETERS.items()]
    options = tmp_path / "deploy.toml"
    for name, text in (
        ("approval", 'exports = "first"'),
        ("orders", '[tables.flowguard]\nname = "import-arn:first:table:flowguard"'),
    ):
        options.write_text(text, encoding="utf-8")
        template = CliRunner().invoke(main, ["iac", MODULES[name], "--options", str(options)]).stdout
        s3.put_object(Bucket=bucket, Key=f"{name}.json", Body=template.encode())
        stack = {"StackName": f"imports-{name}", "Parameters": given, "Capabilities": ["CAPABILITY_IAM"]}
        stacks.create_stack(**stack, TemplateURL=f"{ministack_url}/{bucket}/{name}.json")
        stacks.get_waiter("stack_create_complete").wait(StackName=stack["StackName"], WaiterConfig={"Delay": 1})

    variables = make("lambda", endpoint_url=ministack_url).get_function_configuration(FunctionName="place-order")
    assert variables["Environment"]["Variables"]["FLOWGUARD_NAMES"] == "*,tables.flowguard=flowguard"
    command = ["doctor", MODULES["orders"], "--endpoint-url", ministack_url, "--region", REGION, "--json"]
    command += ["--options", str(options)]
    looked = [json.loads(line) for line in CliRunner().invoke(main, command).stdout.splitlines()]
    assert {each["rule"] for each in looked} == NOT_BY_MINISTACK | {"concurrency-open"}
    for name in ("orders", "approval"):
        stacks.delete_stack(StackName=f"imports-{name}")

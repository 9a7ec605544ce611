"""What ``flowguard iac --json`` says, for those who write resources by hand or by constructs of their own."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from flowguard.deploy.as_json import described
from flowguard.deploy.options import DeployOptions
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, of_type, options_of

PARTS: Final = {"AWS::Partition": "aws", "AWS::Region": "eu-west-1", "AWS::AccountId": "123456789012"}


def said(name: str, options: DeployOptions | None = None) -> Any:
    chosen = options_of(name) if options is None else options
    return json.loads(described(needs(MODULES[name], options=chosen), chosen))


def filled(value: Any) -> Any:
    """A value of a template or of the JSON, in which the parts of ARNs are filled in as ``Fn::Sub`` does it."""
    match value:
        case {"Fn::Sub": text}:
            return filled(text)
        case {"Ref": name}:
            return PARTS[name]
        case {"Fn::GetAtt": ["SchedulerRole", "Arn"]}:
            return "${SchedulerRole}"
        case dict():
            return {key: filled(each) for key, each in value.items()}
        case list():
            return [filled(each) for each in value]
        case str():
            for name, part in PARTS.items():
                value = value.replace(f"${{{name}}}", part)
            return value
        case _:
            return value


@pytest.mark.parametrize("name", ["approval", "everything", "orders", "streaming"])
def test_the_statements_of_a_function_are_those_of_its_role_in_the_template(name: str) -> None:
    roles = [role["Policies"][0]["PolicyDocument"]["Statement"] for _, role in of_type(name, "AWS::IAM::Role")]
    made = [function for function in said(name)["functions"] if function["role"] is None]
    assert made != []
    for function in made:
        assert filled(function["statements"]) in filled(roles)


def test_the_scheduler_is_said_where_there_is_one() -> None:
    assert said("orders")["scheduler"] is None
    told = said("approval")
    assert told["scheduler"]["group"] == "flowguard"
    assert told["scheduler"]["role"] is None
    [policy] = [role for label, role in of_type("approval", "AWS::IAM::Role") if label == "SchedulerRole"]
    sent_to = filled(policy["Policies"][0]["PolicyDocument"]["Statement"][0]["Resource"])
    assert len(sent_to) == len(told["scheduler"]["sends_to"]) > 1
    assert told["signing_secret"] == "flowguard/signing-keys"


def test_a_queue_says_which_events_feed_it() -> None:
    rules = [rule for queue in said("everything")["queues"] for rule in queue["rules"]]
    assert rules != []
    assert {tuple(rule) for rule in rules} == {("bus", "source", "detail_type")}


def test_a_function_says_how_it_is_invoked() -> None:
    options = DeployOptions.model_validate({"defaults": {"memory": 512, "batch_size": 5, "max_concurrency": 7}})
    for function in said("orders", options)["functions"]:
        assert (function["memory"], function["batch_size"], function["max_concurrency"]) == (512, 5, 7)
        assert (function["window"], function["role"]) == (0, None)

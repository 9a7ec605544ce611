"""Templates of nested stacks that are files beside a template are looked at, and those that are elsewhere are open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import KINDS, Resources
from flowguard.deploy.planned.template_file import read_template
from flowguard.deploy.planned.values import UNKNOWN

QUEUE: Final = "AWS::SQS::Queue"
STACK: Final = "AWS::CloudFormation::Stack"


def queue(**given: Any) -> dict[str, Any]:
    return {"Type": QUEUE, "Properties": given}


def stack(url: Any, **parameters: Any) -> dict[str, Any]:
    return {"Type": STACK, "Properties": {"TemplateURL": url, "Parameters": parameters}}


def told(*path: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [*path]}


CHILD: Final = {
    "Parameters": {"Name": {"Type": "String", "Default": "unnamed"}, "Target": {"Type": "String", "Default": "x"}},
    "Resources": {
        "Q": queue(QueueName={"Ref": "Name"}, RedrivePolicy={"deadLetterTargetArn": {"Ref": "Target"}}),
        "Role": {"Type": "AWS::IAM::Role", "Properties": {}},
    },
    "Outputs": {
        "Arn": {"Value": told("Q", "Arn")},
        "Role": {"Value": told("Role", "Arn")},
        "Name": {"Value": told("Q", "QueueName")},
    },
}


def read(directory: Path, parameters: dict[str, str] | None = None, **files: Any) -> Resources:
    """Read ``parent`` among some files. An underscore is a folder's sign."""
    for name, template in files.items():
        file = directory / f"{name.replace('_', '/')}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(template), encoding="utf-8")
    return read_template(directory / "parent.json", parameters or {})


def names(resources: Resources) -> list[Any]:
    return [each.name for each in resources.of(QUEUE)]


def test_the_resources_of_nested_stacks_are_among_those_of_their_parent(tmp_path: Path) -> None:
    parent = {
        "Parameters": {"Stage": {"Type": "String"}},
        "Resources": {
            "First": stack("child.json", Name="first"),
            "Second": stack("./child.json", Name={"Fn::Sub": "${Stage}-second"}, Target=told("First", "Outputs.Arn")),
            "Own": queue(QueueName="own", RedrivePolicy={"deadLetterTargetArn": told("Second", "Outputs.Arn")}),
        },
    }
    resources = read(tmp_path, {"Stage": "dev"}, parent=parent, child=CHILD)
    assert names(resources) == ["first", "dev-second", "own"]
    assert [each.label for each in resources.of(QUEUE)] == ["First.Q", "Second.Q", "Own"]
    targets = [each.properties["RedrivePolicy"]["deadLetterTargetArn"] for each in resources.of(QUEUE)]
    assert targets == ["x", KINDS[QUEUE].arn("first"), KINDS[QUEUE].arn("dev-second")]
    assert resources.maybe(QUEUE) == []


def test_roles_of_two_stacks_are_two(tmp_path: Path) -> None:
    parent = {
        "Resources": {
            "A": stack("child.json"),
            "B": stack("child.json", Target=told("A", "Outputs.Role"), Name=told("B", "Outputs.Role")),
        }
    }
    resources = read(tmp_path, parent=parent, child=CHILD)
    assert [each.arn for each in resources.of("AWS::IAM::Role")] == [
        "arn:aws:iam::000000000000:role/A.Role",
        "arn:aws:iam::000000000000:role/B.Role",
    ]
    _, second = resources.of(QUEUE)
    assert second.properties["RedrivePolicy"]["deadLetterTargetArn"] == "arn:aws:iam::000000000000:role/A.Role"
    assert second.properties["QueueName"] is UNKNOWN, "it names what comes of itself"


def test_a_parameter_that_is_open_in_the_parent_is_open_and_not_the_default(tmp_path: Path) -> None:
    parent = {"Resources": {"A": stack("child.json", Name={"Fn::ImportValue": "x"})}}
    assert names(read(tmp_path, parent=parent, child=CHILD)) == [UNKNOWN]


def test_what_holds_everywhere_holds_in_nested_stacks(tmp_path: Path) -> None:
    child = {"Resources": {"A": queue(QueueName={"Fn::Sub": "a-${AWS::Region}"}), "B": queue(QueueName=imported())}}
    parent = {
        "Parameters": {"Own": {"Type": "String"}},
        "Resources": {"S": stack("child.json"), "C": queue(QueueName=imported())},
    }
    given = {"AWS::Region": "eu-west-1", "import:shop:b": "b", "Own": "x"}
    assert names(read(tmp_path, given, parent=parent, child=child)) == ["a-eu-west-1", "b", "b"]
    assert names(read(tmp_path, {}, parent=parent, child=child)) == [UNKNOWN, UNKNOWN, UNKNOWN]


def imported() -> dict[str, str]:
    return {"Fn::ImportValue": "shop:b"}


@pytest.mark.parametrize(
    "properties", [{"Fn::ImportValue": "x"}, {"TemplateURL": "child.json", "Parameters": {"Fn::ImportValue": "x"}}]
)
def test_what_an_open_stack_makes_is_open(properties: Any, tmp_path: Path) -> None:
    resources = read(tmp_path, parent={"Resources": {"A": {"Type": STACK, "Properties": properties}}}, child=CHILD)
    assert names(resources) == []
    assert resources.maybe(QUEUE) == ["A"]


def test_a_stack_may_be_given_nothing(tmp_path: Path) -> None:
    parent: dict[str, Any] = {"Resources": {"A": {"Type": STACK, "Properties": {"TemplateURL": "child.json"}}}}
    assert names(read(tmp_path, parent=parent, child=CHILD)) == ["unnamed"]
    parent["Parameters"] = {"Name": {"Type": "String", "Default": "the-parents"}}
    assert names(read(tmp_path, parent=parent, child=CHILD)) == ["unnamed"]


def test_an_output_that_there_is_not_is_open(tmp_path: Path) -> None:
    parent = {
        "Resources": {
            "A": stack("child.json", Name="a"),
            "B": queue(QueueName=told("A", "Outputs.Nothing")),
            "C": queue(QueueName=told("A", "Name")),
            "D": queue(QueueName=told("B", "Outputs.Arn")),
        }
    }
    assert names(read(tmp_path, parent=parent, child=CHILD)) == ["a", UNKNOWN, UNKNOWN, UNKNOWN]
    parent["Resources"]["B"] = queue(QueueName=told("A", "Outputs.Name"))
    assert names(read(tmp_path, parent=parent, child=CHILD)) == ["a", "a", UNKNOWN, UNKNOWN]


def test_a_set_of_stacks_makes_nothing_in_this_one(tmp_path: Path) -> None:
    several = {"Type": "AWS::CloudFormation::StackSet", "Properties": {"TemplateURL": "child.json"}}
    assert names(read(tmp_path, parent={"Resources": {"A": several}}, child=CHILD)) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://bucket.s3.amazonaws.com/child.json",
        "s3://bucket/child.json",
        {"Fn::ImportValue": "x"},
        7,
        None,
    ],
)
def test_a_template_that_is_elsewhere_may_make_anything(url: Any, tmp_path: Path) -> None:
    parent = {"Resources": {"A": stack(url), "B": queue(QueueName=told("A", "Outputs.Arn"))}}
    resources = read(tmp_path, parent=parent, child=CHILD)
    assert names(resources) == [UNKNOWN]
    assert resources.maybe(QUEUE) == ["B", "A"]


@pytest.mark.parametrize("url", ["nowhere.json", "."])
def test_a_template_that_is_to_be_beside_and_is_not_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match=r"parent\.json nests it, and there is no such file"):
        read(tmp_path, parent={"Resources": {"A": stack(url)}}, child=CHILD)


def test_a_nested_stack_may_have_nested_stacks_beside_its_own_file(tmp_path: Path) -> None:
    parent = {"Resources": {"A": stack("inner/middle.json")}}
    middle = {"Resources": {"B": stack("child.json", Name="deep")}}
    resources = read(tmp_path, parent=parent, inner_middle=middle, inner_child=CHILD)
    assert [each.label for each in resources.of(QUEUE)] == ["A.B.Q"]


@pytest.mark.parametrize(("stage", "expected"), [("dev", ["first"]), ("prod", []), (None, [])])
def test_a_stack_whose_condition_does_not_hold_makes_nothing(
    stage: str | None, expected: list[str], tmp_path: Path
) -> None:
    parent = {
        "Parameters": {"Stage": {"Type": "String"}},
        "Conditions": {"IsDev": {"Fn::Equals": [{"Ref": "Stage"}, "dev"]}},
        "Resources": {"A": {**stack("child.json", Name="first"), "Condition": "IsDev"}},
    }
    resources = read(tmp_path, {} if stage is None else {"Stage": stage}, parent=parent, child=CHILD)
    assert names(resources) == expected
    assert resources.maybe(QUEUE) == (["A"] if stage is None else [])


@pytest.mark.parametrize("child", [[], {"Resources": 3}, {"Resources": {}, "Outputs": 3}])
def test_a_nested_template_that_is_none_is_refused(child: Any, tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match=r"child\.json: "):
        read(tmp_path, parent={"Resources": {"A": stack("child.json")}}, child=child)


def test_a_template_that_nests_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match=r"parent\.json: it nests itself"):
        read(tmp_path, parent={"Resources": {"A": stack("parent.json")}})


def test_a_function_of_sam_in_a_nested_stack_is_what_sam_makes_of_it(tmp_path: Path) -> None:
    child = {"Resources": {"F": {"Type": "AWS::Serverless::Function", "Properties": {"FunctionName": "f"}}}}
    resources = read(tmp_path, parent={"Resources": {"A": stack("child.json")}}, child=child)
    assert [each.name for each in resources.of("AWS::Lambda::Function")] == ["f"]

"""Templates of nested stacks: each resource of the single template is in one of them, and is the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.cli import main
from flowguard.deploy.cloudformation import MOST_RESOURCES, cloudformation, nested, whole
from flowguard.deploy.derive import needs_of
from flowguard.deploy.found import FoundFunction, FunctionKind
from flowguard.deploy.needs import Deployment
from flowguard.deploy.nested_stacks import file_of, split
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.template_file import read_template, resources_of
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.stack_parts import Parts, Reference, references
from flowguard.deploy.template import TAG
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import findings
from tests.deploy.templates import MODULES, SHIPPED, options_of

STACK: Final = "AWS::CloudFormation::Stack"


class Order(BaseModel):
    order_id: str


def copies(count: int) -> Deployment:
    """A deployment of so many flows, which differ in their names alone."""
    functions = []
    for number in range(count):
        own = {"name": f"take-{number:03}"}

        class Take(Stage[Order], **own):
            def handle(self, order: Order, step: Step) -> Outcome:
                return Done()

        given: Any = {"name": f"copy-{number:03}", "object_id": "order_id"}
        flow: Any = type(f"Copy{number}", (Flow,), {"stages": (Take,), "__module__": __name__}, **given)
        functions.append(FoundFunction(__name__, f"copy_{number}", FunctionKind.STAGES, (flow,), ((flow, Take),)))
    return needs_of(functions, DeployOptions())


def deployments() -> Iterator[tuple[str, Deployment, DeployOptions]]:
    for name in MODULES:
        options = options_of(name)
        yield name, needs(MODULES[name], options=options), options
    yield "all that are shipped", needs(*(MODULES[name] for name in SHIPPED)), DeployOptions()
    yield "17 copies", copies(17), DeployOptions()
    yield "40 copies", copies(40), DeployOptions()


ALL: Final = {name: (needed, options) for name, needed, options in deployments()}
EACH: Final = pytest.mark.parametrize("name", ALL)


def stacks(name: str) -> dict[str, Any]:
    needed, options = ALL[name]
    return {file: json.loads(text) for file, text in nested(needed, options).items()}


def written(name: str, directory: Path) -> Path:
    """Write the templates of a deployment. Returns the parent's file."""
    needed, options = ALL[name]
    for file, text in nested(needed, options).items():
        (directory / file).write_text(text, encoding="utf-8")
    return directory / "template.json"


def test_a_deployment_of_many_flows_is_too_large_for_one_template() -> None:
    needed, options = ALL["40 copies"]
    with pytest.raises(CannotDeploy, match=r"takes 500; write a nested stack for each flow, with --split DIR"):
        cloudformation(needed, options)


@EACH
def test_each_resource_is_in_one_of_the_stacks(name: str) -> None:
    parts = [part["Resources"] for file, part in stacks(name).items() if file != "template.json"]
    assert Counter(label for part in parts for label in part) == Counter(whole(*ALL[name])["Resources"].keys())


@EACH
def test_each_stack_stays_inside_the_limits(name: str) -> None:
    for file, text in nested(*ALL[name]).items():
        template = json.loads(text)
        assert len(text.encode()) < 1_000_000, file
        assert len(template["Resources"]) <= MOST_RESOURCES, file
        assert max(len(template.get("Parameters", {})), len(template.get("Outputs", {}))) <= 200, file


@EACH
def test_there_is_a_stack_for_each_flow_and_one_for_what_they_share(name: str) -> None:
    needed, _ = ALL[name]
    kinds = {
        file: {each["Type"] for each in part["Resources"].values()}
        for file, part in stacks(name).items()
        if not file.startswith("stack-policies-")
    }
    assert {*kinds} == {
        "template.json",
        "stack-base.json",
        *(f"{file_of(flow)}.json" for flow in {each.owner for each in needed.functions}),
    }
    assert kinds["template.json"] == {STACK}
    shared = {"AWS::DynamoDB::Table", "AWS::SNS::Topic", "AWS::SecretsManager::Secret", "AWS::Scheduler::ScheduleGroup"}
    assert not any(shared & types for file, types in kinds.items() if file != "stack-base.json")
    assert not {"AWS::Lambda::Function", "AWS::SQS::Queue"} & kinds["stack-base.json"]


def without_stacks(value: Any) -> Any:
    """A value without the labels of stacks before those of resources."""
    if isinstance(value, dict):
        return {key: without_stacks(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_stacks(each) for each in value]
    return _bare(value) if isinstance(value, str) else value


def _bare(text: str) -> str:
    head, _, label = text.rpartition("Stack.")
    return f"{head.rpartition('/')[0]}/{label}" if "/" in head else label if head else text


@EACH
def test_each_resource_is_the_same_as_in_the_single_template(name: str, tmp_path: Path) -> None:
    """Read as the doctor reads them: parameters and outputs of the stacks are followed."""
    single = resources_of("one.json", whole(*ALL[name]), {})
    several = read_template(written(name, tmp_path), {})
    types = {each["Type"] for each in whole(*ALL[name])["Resources"].values()}
    for type_ in types:
        ours = {each.label: each.properties for each in single.of(type_)}
        theirs = {_bare(each.label): without_stacks(each.properties) for each in several.of(type_)}
        assert theirs == ours, type_


@EACH
def test_the_doctor_finds_the_same_in_both(name: str, tmp_path: Path) -> None:
    needed, options = ALL[name]
    several = findings(read_template(written(name, tmp_path), {}), needed, options)
    single = findings(resources_of(str(tmp_path / "template.json"), whole(needed, options), {}), needed, options)
    assert several == single


@EACH
def test_a_stack_comes_after_those_that_it_needs(name: str) -> None:
    """What a stack gets of others are outputs that these have, and nothing goes round."""
    made = stacks(name)
    parent = made["template.json"]["Resources"]
    needed: dict[str, set[str]] = {}
    for label, stack in parent.items():
        template = made[stack["Properties"]["TemplateURL"]]
        given = stack["Properties"].get("Parameters", {})
        assert given.keys() == template.get("Parameters", {}).keys()
        needed[label] = {*stack.get("DependsOn", [])}
        for reference in references(given):
            if reference.label in parent:
                output = reference.attribute.removeprefix("Outputs.")
                assert output in made[parent[reference.label]["Properties"]["TemplateURL"]]["Outputs"]
                needed[label].add(reference.label)
            else:
                assert reference.label in made["template.json"]["Parameters"]
    while needed:
        first = [label for label, others in needed.items() if not others]
        assert first, f"these wait for each other: {needed}"
        needed = {label: others - {*first} for label, others in needed.items() if label not in first}


@EACH
def test_what_a_stack_names_is_there(name: str) -> None:
    for file, template in stacks(name).items():
        there = {*template["Resources"], *template.get("Parameters", {})}
        named = {each.label for each in references([template["Resources"], template.get("Outputs", {})])}
        assert not {label for label in named if not label.startswith("AWS::")} - there, file
        for resource in template["Resources"].values():
            assert {*resource.get("DependsOn", [])} <= {*template["Resources"]}, file


@EACH
def test_the_outputs_are_those_of_the_single_template(name: str) -> None:
    made, single = stacks(name), whole(*ALL[name])
    outputs = made["template.json"].get("Outputs", {})
    assert outputs.keys() == single.get("Outputs", {}).keys()
    assert made["template.json"]["Parameters"] == single["Parameters"]
    for key, output in outputs.items():
        [reference] = references(output["Value"])
        stack = made["template.json"]["Resources"][reference.label]["Properties"]["TemplateURL"]
        assert reference.attribute == f"Outputs.{key}"
        assert made[stack]["Outputs"][key] == single["Outputs"][key]


@pytest.mark.proof("cfn-lint takes a second for each template")
def test_cfn_lint_has_nothing_to_say(tmp_path: Path) -> None:
    for name in ("everything", "streaming", "all that are shipped"):
        (tmp_path / name).mkdir()
        written(name, tmp_path / name)
    command = [str(Path(sys.executable).with_name("cfn-lint")), *map(str, sorted(tmp_path.glob("*/*.json")))]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr, found.returncode) == ("", "", 0)


# -- parts


def resource(type_: str = "AWS::SQS::Queue", owner: Any = None, **given: Any) -> dict[str, Any]:
    tags = {} if owner is None else {"Tags": [{"Key": TAG, "Value": owner}]}
    return {"Type": type_, "Properties": {**given, **tags}}


def arn(label: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [label, "Arn"]}


def parts(**resources: Any) -> dict[str, list[str]]:
    return {name: [*made] for name, made in Parts(resources, TAG, ["a", "b"]).all().items()}


def test_a_resource_goes_to_the_flow_of_its_tag() -> None:
    assert parts(
        A=resource(owner="a"),
        B=resource(owner="b"),
        Both=resource(owner="a b"),
        Nobodys=resource(),
        T=resource("AWS::DynamoDB::Table", owner="a"),
    ) == {"a": ["A"], "b": ["B"], "base": ["Both", "Nobodys", "T"]}


@pytest.mark.parametrize(
    ("type_", "anchor"),
    [
        ("AWS::Events::Rule", "Targets"),
        ("AWS::Lambda::EventSourceMapping", "FunctionName"),
        ("AWS::Lambda::Permission", "FunctionName"),
        ("AWS::Lambda::Url", "TargetFunctionArn"),
        ("AWS::Logs::MetricFilter", "LogGroupName"),
        ("AWS::SNS::Subscription", "Endpoint"),
        ("AWS::SQS::QueuePolicy", "Queues"),
    ],
)
def test_a_resource_without_a_tag_goes_with_what_it_belongs_to(type_: str, anchor: str) -> None:
    assert parts(A=resource(owner="a"), It=resource(type_, **{anchor: [{"Ref": "A"}]})) == {"a": ["A", "It"]}
    assert parts(It=resource(type_, **{anchor: [{"Ref": "AlarmTopic"}]})) == {"base": ["It"]}


@pytest.mark.parametrize(
    ("dimension", "metric", "part"),
    [
        (("QueueName", "q"), "Age", "a"),
        (("FunctionName", "f"), "Errors", "b"),
        (("QueueName", "others"), "Age", "base"),
        (("event", "broken"), "events-b", "b"),
        (("event", "broken"), "events-c", "base"),
    ],
)
def test_an_alarm_goes_with_what_it_watches(dimension: tuple[str, str], metric: str, part: str) -> None:
    name, value = dimension
    alarm = resource("AWS::CloudWatch::Alarm", Dimensions=[{"Name": name, "Value": value}], MetricName=metric)
    queue, function = resource(owner="a", QueueName="q"), resource("AWS::Lambda::Function", owner="b", FunctionName="f")
    source = resource("AWS::Lambda::EventSourceMapping", FunctionName={"Ref": "F"}, QueueName="others")
    assert "Alarm" in parts(Q=queue, F=function, S=source, Alarm=alarm)[part]


def test_the_policy_of_a_queue_with_roles_of_other_flows_comes_after_these() -> None:
    roles = {f"{flow.upper()}Role": resource("AWS::IAM::Role", owner=flow) for flow in ("a", "b")}
    policies = {
        f"{flow.upper()}Policy": resource(
            "AWS::SQS::QueuePolicy", Queues=[{"Ref": flow.upper()}], PolicyDocument=[arn("ARole"), arn("BRole")]
        )
        for flow in ("a", "b")
    }
    rule = {**resource("AWS::Events::Rule", Targets=[arn("A")]), "DependsOn": ["APolicy"]}
    made = parts(A=resource(owner="a"), B=resource(owner="b"), Rule=rule, **roles, **policies)
    assert made == {
        "a": ["A", "ARole"],
        "b": ["B", "BRole"],
        "policies-a": ["Rule", "APolicy"],
        "policies-b": ["BPolicy"],
    }
    assert [*made].index("policies-a") > max([*made].index("a"), [*made].index("b"))


def test_the_policy_of_a_queue_with_roles_of_its_flow_stays_there() -> None:
    policy = resource(
        "AWS::SQS::QueuePolicy", Queues=[{"Ref": "A"}], PolicyDocument=[arn("Role"), arn("Shared"), {"Ref": "Topic"}]
    )
    role, shared = resource("AWS::IAM::Role", owner="a"), resource("AWS::IAM::Role", owner="a b")
    assert parts(A=resource(owner="a"), Role=role, Shared=shared, Policy=policy) == {
        "base": ["Shared"],
        "a": ["A", "Role", "Policy"],
    }


def test_flows_that_need_each_other_are_in_one_stack() -> None:
    first = resource("AWS::Lambda::Function", owner="a", Environment=[{"Fn::GetAtt": ["BUrl", "FunctionUrl"]}])
    second = resource("AWS::Lambda::Function", owner="b", Environment=[{"Fn::GetAtt": ["AUrl", "FunctionUrl"]}])
    urls = {
        f"{flow}Url": resource("AWS::Lambda::Url", TargetFunctionArn={"Ref": f"{flow}Function"}) for flow in ("A", "B")
    }
    assert parts(AFunction=first, BFunction=second, **urls) == {"a": ["AFunction", "BFunction", "AUrl", "BUrl"]}


def test_a_base_that_needs_a_flow_takes_it_in() -> None:
    shared = resource("AWS::Lambda::Function", owner="a b", Environment=[{"Fn::GetAtt": ["Url", "FunctionUrl"]}])
    url = resource("AWS::Lambda::Url", TargetFunctionArn={"Ref": "A"})
    function = resource("AWS::Lambda::Function", owner="a", Role=arn("Shared"))
    assert parts(Shared=shared, A=function, Url=url) == {"base": ["Shared", "A", "Url"]}


@pytest.mark.parametrize("type_", ["AWS::IAM::Role", "AWS::Lambda::Function"])
def test_who_may_name_a_queue_before_it_is_there_waits_for_none(type_: str) -> None:
    first = resource(type_, owner="a", Names=arn("Q"))
    second = resource("AWS::SQS::Queue", owner="b", QueueName="q", RedrivePolicy=arn("A"))
    assert parts(It=first, Q=second, A=resource(owner="a")) == {"a": ["It", "A"], "b": ["Q"]}


def test_a_queue_that_gives_records_up_to_another_flows_waits_for_that() -> None:
    made = parts(A=resource(owner="a", RedrivePolicy=arn("B")), B=resource(owner="b"))
    assert [*made] == ["b", "a"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Ref": "A"}, [("A", "")]),
        ({"Fn::GetAtt": ["A", "Arn"]}, [("A", "Arn")]),
        ({"Fn::Sub": "${A}-${B.Arn}-${AWS::Region}"}, [("A", ""), ("B", "Arn")]),
        ({"x": [{"y": {"Ref": "A"}}, "text", 7]}, [("A", "")]),
        ("A", []),
    ],
)
def test_references_are_seen(value: Any, expected: list[tuple[str, str]]) -> None:
    assert [*references(value)] == [Reference(*each) for each in expected]


# -- templates


def test_a_queue_of_another_flow_goes_by_its_name_and_other_things_by_parameters() -> None:
    resources = {
        "Table": resource("AWS::DynamoDB::Table", owner="a"),
        "A": resource(owner="a", QueueName="a-queue"),
        "BRole": resource("AWS::IAM::Role", owner="b", Names=[arn("A"), {"Fn::GetAtt": ["Table", "StreamArn"]}]),
    }
    made = split({"AWSTemplateFormatVersion": "2010-09-09", "Parameters": {}, "Resources": resources}, ["a", "b"])
    [by_name, by_parameter] = made["stack-b"]["Resources"]["BRole"]["Properties"]["Names"]
    assert by_name == {"Fn::Sub": "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:a-queue"}
    assert by_parameter == {"Ref": "TableStreamArn"}
    assert made["stack-base"]["Outputs"]["TableStreamArn"] == {"Value": {"Fn::GetAtt": ["Table", "StreamArn"]}}
    assert made["template"]["Resources"]["BStack"]["Properties"] == {
        "TemplateURL": "stack-b.json",
        "Parameters": {"TableStreamArn": {"Fn::GetAtt": ["BaseStack", "Outputs.TableStreamArn"]}},
    }
    assert made["template"]["Resources"]["AStack"] == {"Type": STACK, "Properties": {"TemplateURL": "stack-a.json"}}
    assert "Outputs" not in made["template"]
    assert "Parameters" not in made["stack-base"]


def test_a_stack_that_needs_another_by_its_order_alone_says_so() -> None:
    resources = {
        "A": resource(owner="a"),
        "B": {**resource("AWS::IAM::Role", owner="b"), "DependsOn": ["A"]},
    }
    made = split({"AWSTemplateFormatVersion": "2010-09-09", "Parameters": {}, "Resources": resources}, ["a", "b"])
    assert made["template"]["Resources"]["BStack"]["DependsOn"] == ["AStack"]
    assert "DependsOn" not in made["stack-b"]["Resources"]["B"]


def test_conditions_and_parameters_go_where_they_are_asked_for() -> None:
    condition = {"Fn::Not": [{"Fn::Equals": [{"Ref": "Asked"}, ""]}]}
    resources = {
        "A": resource(owner="a", Actions={"Fn::If": ["IsAsked", [{"Ref": "Other"}], {"Ref": "AWS::NoValue"}]}),
        "B": resource(owner="b"),
    }
    parameters = {name: {"Type": "String"} for name in ("Asked", "Other", "Third")}
    template = {"AWSTemplateFormatVersion": "2010-09-09", "Parameters": parameters, "Resources": resources}
    made = split({**template, "Conditions": {"IsAsked": condition, "Unasked": condition}}, ["a", "b"])
    assert made["stack-a"]["Conditions"] == {"IsAsked": condition}
    assert [*made["stack-a"]["Parameters"]] == ["Asked", "Other"]
    assert "Conditions" not in made["stack-b"]
    assert "Conditions" not in made["template"]
    given = made["template"]["Resources"]["AStack"]["Properties"]["Parameters"]
    assert given == {"Asked": {"Ref": "Asked"}, "Other": {"Ref": "Other"}}


@pytest.mark.parametrize("most", [2, 3])
def test_a_stack_that_needs_too_much_of_others_is_refused(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.deploy.nested_stacks.MOST_PARAMETERS", most)
    tables = {f"T{number}": resource("AWS::DynamoDB::Table") for number in range(3)}
    role = resource("AWS::IAM::Role", owner="a", Names=[{"Fn::GetAtt": [label, "StreamArn"]} for label in tables])
    template = {"AWSTemplateFormatVersion": "x", "Parameters": {}, "Resources": {**tables, "Role": role}}
    if most == 3:
        assert len(split(template, ["a"])["stack-a"]["Parameters"]) == 3
        return
    with pytest.raises(CannotDeploy, match=r"the stack base: it has 3 outputs, and CloudFormation takes 2"):
        split(template, ["a"])


def test_the_name_of_a_file_is_that_of_its_flow() -> None:
    assert file_of("copy-001") == "stack-copy-001"
    assert file_of("a/b c") == "stack-a-b-c"


# -- the command


def iac(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["iac", "flows.orders.handlers", *arguments])


def test_the_command_writes_the_templates(tmp_path: Path) -> None:
    result = iac("--split", str(tmp_path / "new" / "there"))
    assert (result.exit_code, result.stdout) == (0, "")
    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "new" / "there").iterdir()}
    assert files == nested(*ALL["orders"])
    arguments = ["doctor", "flows.orders.handlers", "--template", str(tmp_path / "new" / "there" / "template.json")]
    looked = CliRunner().invoke(main, arguments)
    assert looked.exit_code == 0, looked.output
    assert "0 errors, 0 warnings, 2 notes" in looked.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--format", "sam"), "--split goes with --format cloudformation"),
        (("-o", "x.json"), "-o and --split are two places to write to; give one of them"),
        (("--json",), "are two things to write"),
        (("--audit",), "are two things to write"),
        (("--key-policy",), "are two things to write"),
        (("--foreign-policies",), "are two things to write"),
    ],
)
def test_the_command_splits_a_template_of_cloudformation_alone(
    arguments: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    result = iac("--split", str(tmp_path / "d"), *arguments)
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())
    assert not (tmp_path / "d").exists()


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = iac("--split", str(tmp_path / "file"))
    assert (result.exit_code, "cannot be written" in result.output) == (2, True)


def test_what_is_too_large_for_a_stack_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.deploy.cloudformation.MOST_RESOURCES", 10)
    result = iac("--split", str(tmp_path))
    assert result.exit_code == 2
    assert "resources, and CloudFormation takes 10; deploy some flows, MODULE:FLOW each" in result.output
    assert "stack-" in result.output
    assert not [*tmp_path.iterdir()]

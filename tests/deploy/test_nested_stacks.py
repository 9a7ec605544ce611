"""How a template is split into nested stacks: which part has a resource, and what parts tell each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.deploy.cloudformation import nested
from flowguard.deploy.nested_stacks import file_of, split
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.stack_parts import Parts, Reference, references
from flowguard.deploy.template import TAG
from tests.deploy.exercised import needs

STACK: Final = "AWS::CloudFormation::Stack"


# -- parts


def resource(type_: str = "AWS::SQS::Queue", owner: Any = None, **given: Any) -> dict[str, Any]:
    tags = {} if owner is None else {"Tags": [{"Key": TAG, "Value": owner}]}
    return {"Type": type_, "Properties": {**given, **tags}}


def arn(label: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [label, "Arn"]}


def parts(**resources: Any) -> dict[str, list[str]]:
    return {name: [*made] for name, made in Parts(resources, TAG, ["a", "b"], {}).all().items()}


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
        ("AWS::Lambda::EventSourceMapping", "FunctionName"),
        ("AWS::Lambda::Permission", "FunctionName"),
        ("AWS::Lambda::Url", "TargetFunctionArn"),
        ("AWS::Logs::MetricFilter", "LogGroupName"),
        ("AWS::SNS::TopicPolicy", "Topics"),
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


@pytest.mark.parametrize(
    ("type_", "anchor"),
    [("AWS::Events::Rule", "Targets"), ("AWS::SNS::Subscription", "Endpoint"), ("AWS::SQS::QueuePolicy", "Queues")],
)
def test_what_lets_others_send_to_a_queue_comes_after_the_flows(type_: str, anchor: str) -> None:
    """It is there from the first deployment on, whether it names something of other flows yet or not."""
    feeds = resource(type_, **{anchor: [{"Ref": "A"}]})
    shared = resource(type_, **{anchor: [{"Ref": "Shared"}]})
    made = parts(A=resource(owner="a"), It=feeds, Shared=resource(QueueName="letters"), Other=shared)
    other = "policies-letters" if anchor == "Queues" else "policies-base"
    assert made == {"a": ["A"], "base": ["Shared"], "policies-a": ["It"], other: ["Other"]}
    assert [*made].index("policies-a") > [*made].index("a")


def test_the_policies_of_two_flows_that_answer_each_other_come_after_both() -> None:
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


def test_a_queue_whose_place_is_given_goes_there_whosever_its_tag_is() -> None:
    queues = {name: resource(owner="a", QueueName=name) for name in ("letters", "b-letters", "inbox")}
    alarm = resource("AWS::CloudWatch::Alarm", Dimensions=[{"Name": "QueueName", "Value": "letters"}], MetricName="x")
    made = Parts({**queues, "Alarm": alarm}, TAG, ["a", "b"], {"letters": "base", "b-letters": "b"}).all()
    assert {name: [*there] for name, there in made.items()} == {
        "a": ["inbox"],
        "b": ["b-letters"],
        "base": ["letters", "Alarm"],
    }


def test_flows_that_need_each_other_are_in_one_stack() -> None:
    first = resource("AWS::Lambda::Function", owner="a", Environment=[{"Fn::GetAtt": ["BUrl", "FunctionUrl"]}])
    second = resource("AWS::Lambda::Function", owner="b", Environment=[{"Fn::GetAtt": ["AUrl", "FunctionUrl"]}])
    urls = {
        f"{flow}Url": resource("AWS::Lambda::Url", TargetFunctionArn={"Ref": f"{flow}Function"}) for flow in ("A", "B")
    }
    assert parts(AFunction=first, BFunction=second, **urls) == {"a": ["AFunction", "BFunction", "AUrl", "BUrl"]}


def test_a_flow_that_two_in_a_circle_need_stays_apart() -> None:
    a = resource(owner="a", RedrivePolicy=[arn("B"), arn("C")])
    b = resource(owner="b", RedrivePolicy=arn("A"))
    made = Parts({"A": a, "B": b, "C": resource(owner="c"), "D": resource()}, TAG, ["a", "b", "c"], {}).all()
    assert {name: [*there] for name, there in made.items()} == {"a": ["A", "B"], "c": ["C"], "base": ["D"]}


def test_a_mistake_is_not_taken_for_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("flowguard.deploy.stack_parts.TopologicalSorter", broken)
    with pytest.raises(ZeroDivisionError):
        parts(A=resource(owner="a"))


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


def test_of_functions_that_send_to_each_other_one_waits_and_both_stay_apart() -> None:
    queues = {name: resource(owner=name[0], QueueName=name) for name in ("a-in", "b-in", "c-in")}
    functions = {
        "A": {**resource("AWS::Lambda::Function", owner="a"), "DependsOn": ["a-in", "b-in"]},
        "B": {**resource("AWS::Lambda::Function", owner="b"), "DependsOn": ["c-in"]},
        "C": {**resource("AWS::Lambda::Function", owner="c"), "DependsOn": ["a-in"]},
    }
    made = Parts({**functions, **queues}, TAG, ["a", "b", "c"], {})
    assert {name: [*there] for name, there in made.all().items()} == {
        "a": ["A", "a-in"],
        "b": ["B", "b-in"],
        "c": ["C", "c-in"],
    }
    assert made.needed() == {"a": {"b"}, "b": {"c"}, "c": set()}


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
    made = split({"AWSTemplateFormatVersion": "2010-09-09", "Parameters": {}, "Resources": resources}, ["a", "b"], {})
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
    made = split({"AWSTemplateFormatVersion": "2010-09-09", "Parameters": {}, "Resources": resources}, ["a", "b"], {})
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
    made = split({**template, "Conditions": {"IsAsked": condition, "Unasked": condition}}, ["a", "b"], {})
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
        assert len(split(template, ["a"], {})["stack-a"]["Parameters"]) == 3
        return
    with pytest.raises(CannotDeploy, match=r"the stack base: it has 3 outputs, and CloudFormation takes 2"):
        split(template, ["a"], {})


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
    assert files == nested(needs("flows.orders.handlers"), DeployOptions())
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


# -- a whole template


WHOLE: Final[dict[str, Any]] = {
    "AWSTemplateFormatVersion": "2010-09-09",
    "Description": "shop",
    "Parameters": {"AlarmTopic": {"Type": "String"}, "CodeKey": {"Type": "String"}},
    "Conditions": {"HasAlarmTopic": {"Fn::Not": [{"Fn::Equals": [{"Ref": "AlarmTopic"}, ""]}]}},
    "Resources": {
        "Runs": {"Type": "AWS::DynamoDB::Table", "DeletionPolicy": "Retain", "Properties": {"TableName": "runs"}},
        "A": resource("AWS::Lambda::Function", owner="a", Runs=[{"Ref": "Runs"}, arn("Runs")], Code={"Ref": "CodeKey"}),
        "AUrl": resource("AWS::Lambda::Url", TargetFunctionArn={"Ref": "A"}),
        "BQueue": resource(owner="b", QueueName="b"),
        "B": resource(
            "AWS::Lambda::Function",
            owner="b",
            Url={"Fn::GetAtt": ["AUrl", "FunctionUrl"]},
            Actions=[{"Fn::If": ["HasAlarmTopic", {"Ref": "AlarmTopic"}, {"Ref": "AWS::NoValue"}]}],
        ),
        "ASends": {**resource("AWS::IAM::Role", owner="a", Names=[arn("BQueue"), arn("A")]), "DependsOn": ["A"]},
    },
    "Outputs": {
        "Link": {"Description": "where", "Value": {"Fn::GetAtt": ["AUrl", "FunctionUrl"]}},
        "ExportRuns": {"Value": arn("Runs"), "Export": {"Name": "shop:runs"}},
    },
}


def string(what: str) -> dict[str, str]:
    return {"Type": "String", "Description": f"{what}, which another nested stack makes."}


def stack(name: str, **given: Any) -> dict[str, Any]:
    parameters = {"Parameters": given} if given else {}
    return {"Type": STACK, "Properties": {"TemplateURL": f"stack-{name}.json", **parameters}}


def told(label: str, key: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [label, f"Outputs.{key}"]}


def test_a_template_is_split_so() -> None:
    resources = WHOLE["Resources"]
    made = split(WHOLE, ["a", "b"], {})
    assert [*made] == ["template", "stack-base", "stack-a", "stack-b"]
    assert made["stack-base"] == {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "base: a nested stack, made by flowguard iac",
        "Resources": {"Runs": resources["Runs"]},
        "Outputs": {
            "Runs": {"Value": {"Ref": "Runs"}},
            "RunsArn": {"Value": arn("Runs")},
            "ExportRuns": WHOLE["Outputs"]["ExportRuns"],
        },
    }
    queue = {"Fn::Sub": "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:b"}
    function = {**resources["A"]["Properties"], "Runs": [{"Ref": "Runs"}, {"Ref": "RunsArn"}]}
    assert made["stack-a"] == {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "a: a nested stack, made by flowguard iac",
        "Parameters": {"CodeKey": {"Type": "String"}, "Runs": string("Ref of Runs"), "RunsArn": string("Arn of Runs")},
        "Resources": {
            "A": {**resources["A"], "Properties": function},
            "AUrl": resources["AUrl"],
            "ASends": {
                **resources["ASends"],
                "Properties": {**resources["ASends"]["Properties"], "Names": [queue, arn("A")]},
            },
        },
        "Outputs": {
            "AUrlFunctionUrl": {"Value": {"Fn::GetAtt": ["AUrl", "FunctionUrl"]}},
            "Link": WHOLE["Outputs"]["Link"],
        },
    }
    assert made["stack-b"] == {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "b: a nested stack, made by flowguard iac",
        "Parameters": {"AlarmTopic": {"Type": "String"}, "AUrlFunctionUrl": string("FunctionUrl of AUrl")},
        "Conditions": WHOLE["Conditions"],
        "Resources": {
            "BQueue": resources["BQueue"],
            "B": {**resources["B"], "Properties": {**resources["B"]["Properties"], "Url": {"Ref": "AUrlFunctionUrl"}}},
        },
    }
    assert made["template"] == {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "shop",
        "Parameters": WHOLE["Parameters"],
        "Metadata": {"cfn-lint": {"config": {"ignore_checks": ["W3002"]}}},
        "Resources": {
            "BaseStack": stack("base"),
            "AStack": stack(
                "a", CodeKey={"Ref": "CodeKey"}, **{key: told("BaseStack", key) for key in ("Runs", "RunsArn")}
            ),
            "BStack": stack("b", AlarmTopic={"Ref": "AlarmTopic"}, AUrlFunctionUrl=told("AStack", "AUrlFunctionUrl")),
        },
        "Outputs": {"Link": {"Description": "where", "Value": told("AStack", "Link")}},
    }

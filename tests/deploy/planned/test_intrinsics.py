"""What the functions of a template return, as far as the template tells. What is no template is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import HERE, KINDS, REDRIVE_IS_GIVEN, STREAM_HERE, Resources
from flowguard.deploy.planned.template_file import read_template, resources_of
from flowguard.deploy.planned.values import UNKNOWN

QUEUE: Final = "AWS::SQS::Queue"
PARAMETER: Final = {"Fn::ImportValue": "of-another-stack"}


# -- functions of templates


def value(given: Any, parameters: dict[str, str] | None = None) -> Any:
    """What a template says in the place of a name."""
    template = {
        "Parameters": {
            "Stage": {"Type": "String", "Default": "dev"},
            "Asked": {"Type": "String"},
            "Stored": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/a"},
            "Several": {"Type": "CommaDelimitedList", "Default": "a,b"},
            "NoText": {"Type": "List<Number>", "Default": 7},
            "Nothing": "no parameter",
        },
        "Mappings": {"Names": {"dev": {"queue": "from-map"}}},
        "Conditions": {
            "IsDev": {"Fn::Equals": [{"Ref": "Stage"}, "dev"]},
            "IsAsked": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Asked"}, ""]}]},
            "Either": {"Fn::Or": [{"Condition": "IsAsked"}, {"Condition": "IsDev"}]},
            "Both": {"Fn::And": [{"Condition": "IsAsked"}, {"Condition": "IsDev"}]},
            "Round": {"Fn::Not": [{"Condition": "Round"}]},
            "IsProd": {"Fn::Not": [{"Condition": "IsDev"}]},
        },
        "Resources": {
            "It": {"Type": QUEUE, "Properties": {"QueueName": given}},
            "Other": {"Type": QUEUE, "Properties": {"QueueName": "other"}},
            "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "news"}},
            "Bus": {"Type": "AWS::Events::EventBus", "Properties": {"Name": "shop"}},
            "Policy": {"Type": "AWS::SQS::QueuePolicy"},
            "Role": {"Type": "AWS::IAM::Role"},
            "Table": {"Type": "AWS::DynamoDB::Table", "Properties": {"TableName": "t"}},
            "Unnamed": {"Type": QUEUE},
            "Unstreamed": {"Type": "AWS::DynamoDB::Table"},
            "Untyped": {},
        },
    }
    first, *_ = resources_of("f.json", template, parameters or {}).of(QUEUE)
    return first.properties.get("QueueName")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("plain", "plain"),
        ({"Ref": "Stage"}, "dev"),
        ({"Ref": "Asked"}, UNKNOWN),
        ({"Ref": "Stored"}, UNKNOWN),
        ({"Ref": "Several"}, ["a", "b"]),
        ({"Ref": "Nobody"}, UNKNOWN),
        ({"Ref": "AWS::NoValue"}, None),
        ({"Ref": "Other"}, f"https://sqs.{HERE.region}.amazonaws.com/{HERE.account}/other"),
        ({"Ref": "Topic"}, KINDS["AWS::SNS::Topic"].arn("news")),
        ({"Ref": "It"}, UNKNOWN),
        ({"Fn::GetAtt": "Other.QueueName"}, "other"),
        ({"Fn::GetAtt": ["Other", "Arn"]}, KINDS[QUEUE].arn("other")),
        ({"Fn::GetAtt": ["Other", "Nothing"]}, UNKNOWN),
        ({"Fn::GetAtt": ["Topic", "TopicArn"]}, KINDS["AWS::SNS::Topic"].arn("news")),
        ({"Fn::GetAtt": ["Topic", "TopicName"]}, "news"),
        ({"Fn::GetAtt": ["Bus", "Name"]}, "shop"),
        ({"Fn::GetAtt": ["Unnamed", "Arn"]}, UNKNOWN),
        ({"Fn::GetAtt": ["Unnamed", "QueueName"]}, UNKNOWN),
        ({"Fn::GetAtt": ["Nobody", "Arn"]}, UNKNOWN),
        ({"Fn::GetAtt": ["Policy", "Arn"]}, UNKNOWN),
        ({"Fn::GetAtt": ["Table", "StreamArn"]}, f"{KINDS['AWS::DynamoDB::Table'].arn('t')}/stream/{STREAM_HERE}"),
        ({"Fn::GetAtt": ["Other", "Outputs.Arn"]}, UNKNOWN),
        ({"Fn::GetAtt": ["It", "Arn"]}, UNKNOWN),
        ({"Ref": "Unnamed"}, UNKNOWN),
        ({"Ref": "Untyped"}, UNKNOWN),
        ({"Ref": "Bus"}, "shop"),
        ({"Ref": "Policy"}, UNKNOWN),
        ({"Ref": "Role"}, "Role"),
        ({"Ref": "NoText"}, 7),
        ({"Ref": "Nothing"}, UNKNOWN),
        ([{"Ref": "AWS::NoValue"}, "a"], ["a"]),
        ({"a": {"Ref": "AWS::NoValue"}, "b": {"Ref": "Stage"}}, {"b": "dev"}),
        ({"Ref": "Stage", "Fn::Sub": "x"}, {"Ref": "Stage", "Fn::Sub": "x"}),
        ({"a": "b"}, {"a": "b"}),
        ({"Fn::Sub": "${Other.Arn}"}, KINDS[QUEUE].arn("other")),
        ({"Fn::Sub": ["${Stage}", {"Stage": "mine"}]}, "mine"),
        ({"Fn::Sub": "a ${!x} ${Stage}"}, "a ${x} dev"),
        ({"Fn::Sub": ["${a}", {"a": {"Ref": "AWS::NoValue"}}]}, UNKNOWN),
        ({"Fn::GetAtt": ["Unstreamed", "StreamArn"]}, UNKNOWN),
        ({"Fn::Select": [0, {"Ref": "Asked"}]}, UNKNOWN),
        ({"Fn::Select": [{"Ref": "Asked"}, ["a"]]}, UNKNOWN),
        ({"Fn::Split": ["-", {"Ref": "Asked"}]}, UNKNOWN),
        ({"Fn::Split": ["-", "a-b"]}, ["a", "b"]),
        ({"Fn::FindInMap": [{"Ref": "Asked"}, "dev", "queue"]}, UNKNOWN),
        ({"Fn::FindInMap": ["Names", "dev", {"Ref": "Asked"}]}, UNKNOWN),
        ({"Fn::If": ["IsDev", {"Ref": "AWS::NoValue"}, "no"]}, None),
        ({"Fn::If": ["IsProd", "yes", "no"]}, "no"),
        ({"Fn::If": [{"Ref": "Stage"}, "yes", "no"]}, UNKNOWN),
        ({"Fn::If": ["IsDev", "yes"]}, UNKNOWN),
        ({"Fn::GetAtt": 3}, UNKNOWN),
        ({"Fn::Sub": "${Stage}-orders"}, "dev-orders"),
        ({"Fn::Sub": "${Asked}-orders"}, UNKNOWN),
        ({"Fn::Sub": ["${a}-${Other.QueueName}", {"a": {"Ref": "Stage"}}]}, "dev-other"),
        ({"Fn::Sub": "${!Stage}"}, "${Stage}"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Stage"}]]}, "a-dev"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Asked"}]]}, UNKNOWN),
        ({"Fn::Select": ["1", {"Fn::Split": ["-", "a-b"]}]}, "b"),
        ({"Fn::Select": [7, ["a"]]}, UNKNOWN),
        ({"Fn::FindInMap": ["Names", {"Ref": "Stage"}, "queue"]}, "from-map"),
        ({"Fn::FindInMap": ["Names", {"Ref": "Asked"}, "queue"]}, UNKNOWN),
        ({"Fn::FindInMap": ["Names", "prod", "queue"]}, UNKNOWN),
        ({"Fn::If": ["IsDev", "yes", "no"]}, "yes"),
        ({"Fn::If": ["IsAsked", "yes", "no"]}, UNKNOWN),
        ({"Fn::If": ["Either", "yes", "no"]}, "yes"),
        ({"Fn::If": ["Both", "yes", "no"]}, UNKNOWN),
        ({"Fn::If": ["Round", "yes", "no"]}, UNKNOWN),
        ({"Fn::If": ["Nothing", "yes", "no"]}, UNKNOWN),
        ({"Fn::ImportValue": "x"}, UNKNOWN),
        ({"Fn::Later": "x"}, UNKNOWN),
    ],
)
def test_a_function_returns_what_the_template_tells(given: Any, expected: Any) -> None:
    assert value(given) == expected


@pytest.mark.parametrize(("asked", "expected"), [("", "no"), ("x", "yes")])
def test_parameters_that_are_given_count(asked: str, expected: str) -> None:
    assert value({"Fn::If": ["Both", "yes", "no"]}, {"Asked": asked}) == expected
    assert value({"Ref": "Stage"}, {"Stage": "prod"}) == "prod"


def test_a_value_that_two_conditions_and_names_ask_for_is_the_same_each_time() -> None:
    """What is looked up is looked up anew: nothing stays marked as being looked up."""
    chosen = {"Fn::If": ["Either", {"Fn::GetAtt": "Other.QueueName"}, "no"]}
    assert value({"Fn::Join": ["-", [chosen, chosen, {"Fn::If": ["IsDev", "dev", "prod"]}]]}) == "other-other-dev"


def holds(condition: Any) -> Any:
    """Whether a condition holds: None where nobody knows."""
    template = {
        "Parameters": {"Asked": {"Type": "String"}},
        "Conditions": {"It": condition, "Yes": {"Fn::Equals": ["a", "a"]}},
        "Resources": {"Q": {"Type": QUEUE, "Properties": {"QueueName": {"Fn::If": ["It", "yes", "no"]}}}},
    }
    [queue] = resources_of("f.json", template, {}).of(QUEUE)
    return {"yes": True, "no": False}.get(queue.name)


YES: Final = {"Fn::Equals": ["a", "a"]}
NO: Final = {"Fn::Equals": ["a", "b"]}
OPEN: Final = {"Fn::Equals": [{"Ref": "Asked"}, "a"]}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (YES, True),
        (NO, False),
        (OPEN, None),
        ({"Condition": "Yes"}, True),
        ({"Condition": "Nothing"}, None),
        ({"Condition": ["Yes"]}, None),
        ({"Fn::Equals": [7, "7"]}, True),
        ({"Fn::Equals": ["a"]}, None),
        ({"Fn::Equals": ["a", "a", "a"]}, None),
        ({"Fn::Equals": "aa"}, None),
        ({"Fn::Equals": [{"Ref": "AWS::Region"}, "eu-west-1"]}, None),
        ({"Fn::Equals": ["123456789012", {"Ref": "AWS::AccountId"}]}, None),
        ({"Fn::Not": [YES]}, False),
        ({"Fn::Not": [NO]}, True),
        ({"Fn::Not": [OPEN]}, None),
        ({"Fn::Not": [YES, YES]}, None),
        ({"Fn::And": [YES, YES]}, True),
        ({"Fn::And": [YES, NO]}, False),
        ({"Fn::And": [OPEN, NO]}, False),
        ({"Fn::And": [OPEN, YES]}, None),
        ({"Fn::Or": [NO, NO]}, False),
        ({"Fn::Or": [NO, YES]}, True),
        ({"Fn::Or": [OPEN, YES]}, True),
        ({"Fn::Or": [OPEN, NO]}, None),
        ({"Fn::Xor": [YES]}, None),
        ({**YES, **NO, "Fn::Not": [YES]}, None),
        ("Yes", None),
        ([YES], None),
        ({"Fn::Not": [["a"]]}, None),
    ],
)
def test_a_condition_holds_or_not_or_is_open(condition: Any, expected: bool | None) -> None:
    assert holds(condition) is expected


def made(**resources: Any) -> Resources:
    conditions = {"Yes": YES, "No": NO, "Open": OPEN}
    template = {"Parameters": {"Asked": {"Type": "String"}}, "Conditions": conditions, "Resources": resources}
    return resources_of("f.json", template, {})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({}, ["q"]),
        ({"Condition": "Yes"}, ["q"]),
        ({"Condition": "No"}, []),
        ({"Condition": "Nothing"}, [UNKNOWN]),
        ({"Condition": ["Yes"]}, [UNKNOWN]),
        ({"Condition": "Open"}, [UNKNOWN]),
    ],
)
def test_a_resource_is_there_if_its_condition_holds(condition: Any, expected: list[Any]) -> None:
    given = {"QueueName": "q", "VisibilityTimeout": 30}
    queues = [*made(Q={"Type": QUEUE, "Properties": given, **condition}).of(QUEUE)]
    assert [each.name for each in queues] == expected
    assert [each.properties["VisibilityTimeout"] for each in queues] == [30] * len(expected)


def test_a_part_of_a_resource_that_may_be_there_has_no_name() -> None:
    [policy] = made(P={"Type": "AWS::SQS::QueuePolicy", "Properties": {"Queues": ["q"]}, "Condition": "Open"}).of(
        "AWS::SQS::QueuePolicy"
    )
    assert policy.properties == {"Queues": ["q"]}


def test_a_loop_may_make_anything() -> None:
    looped = made(**{"Fn::ForEach::Queues": ["Name", ["a"], {}]}, Q={"Type": QUEUE, "Properties": {"QueueName": "q"}})
    assert looped.maybe(QUEUE) == ["Fn::ForEach::Queues"]
    assert [each.name for each in looped.of(QUEUE)] == ["q"]


def test_properties_that_are_open_are_not_said() -> None:
    [queue] = made(Q={"Type": QUEUE, "Properties": {"Fn::If": ["Open", {"QueueName": "a"}, {"QueueName": "b"}]}}).of(
        QUEUE
    )
    assert queue.properties == {}


def is_given(value: Any, type_: str = QUEUE) -> bool:
    """Whether a redrive policy is marked as one that something outside the file says."""
    template = {
        "Parameters": {"Dead": {"Type": "String"}},
        "Resources": {"Q": {"Type": type_, "Properties": {"RedrivePolicy": {"deadLetterTargetArn": value}}}},
    }
    [resource] = resources_of("f.json", template, {}).of(type_)
    return bool(resource.properties.get(REDRIVE_IS_GIVEN, False))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("arn:aws:sqs:eu-west-1:123456789012:q", False),
        ("{{resolve:ssm:/dead}}", True),
        (7, False),
        ({"Ref": "Dead"}, True),
        ({"Ref": "Q"}, False),
        ({"Fn::Sub": "${Dead}"}, True),
        ({"Fn::Sub": "${AWS::Region}"}, False),
        ({"Fn::Sub": ["${A}", {"A": {"Ref": "Dead"}}]}, True),
        ({"Fn::Join": ["", ["a", {"Ref": "Dead"}]]}, True),
        ({"Fn::Join": ["", ["a", "b"]]}, False),
        ({"Fn::ImportValue": "x"}, True),
    ],
)
def test_what_comes_from_outside_the_file_is_marked(value: Any, expected: bool) -> None:
    assert is_given(value) is expected
    assert is_given(value, "AWS::SNS::Subscription") is False


def test_a_queue_without_a_redrive_policy_is_not_marked() -> None:
    [queue] = made(Q={"Type": QUEUE, "Properties": {"QueueName": {"Ref": "Asked"}}}).of(QUEUE)
    assert REDRIVE_IS_GIVEN not in queue.properties


def test_a_name_of_where_it_is_deployed_is_open() -> None:
    template = {"Resources": {"It": {"Type": QUEUE, "Properties": {"QueueName": {"Fn::Sub": "q-${AWS::Region}"}}}}}
    [queue] = resources_of("f.json", template, {}).of(QUEUE)
    assert queue.name is UNKNOWN
    [queue] = resources_of("f.json", template, {"AWS::Region": "eu-west-1"}).of(QUEUE)
    assert queue.name == "q-eu-west-1"


YAML: Final = """
AWSTemplateFormatVersion: 2010-09-09
Parameters:
  Stage: {Type: String, Default: dev}
Conditions:
  IsDev: !Equals [!Ref Stage, dev]
Resources:
  Dead:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !Sub "${Stage}-dead"
  Orders:
    Type: AWS::SQS::Queue
    Condition: IsDev
    Properties:
      QueueName: !Join ["-", [!Ref Stage, orders]]
      RedrivePolicy:
        deadLetterTargetArn: !GetAtt Dead.Arn
        maxReceiveCount: "100"
"""


def test_a_template_may_be_yaml(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(YAML, encoding="utf-8")
    orders = read_template(file, {}).named(QUEUE, "dev-orders")
    assert orders is not None
    policy = {"deadLetterTargetArn": KINDS[QUEUE].arn("dev-dead"), "maxReceiveCount": 100}
    assert orders.properties["RedrivePolicy"] == policy


def rule_of(bus: Any) -> Any:
    """The ARN of a rule of a bus, as a template's reference to it."""
    rule = {"Type": "AWS::Events::Rule", "Properties": {"Name": "it", **bus}}
    queue = {"Type": QUEUE, "Properties": {"QueueName": {"Fn::GetAtt": ["Rule", "Arn"]}}}
    [only] = resources_of("f.json", {"Resources": {"Rule": rule, "Queue": queue}}, {}).of(QUEUE)
    arn = only.properties["QueueName"]
    return arn if arn is UNKNOWN else arn.rpartition(f":{HERE.account}:")[2]


@pytest.mark.parametrize(
    ("bus", "place"),
    [
        ({}, "rule/it"),
        ({"EventBusName": "default"}, "rule/it"),
        ({"EventBusName": "shop"}, "rule/shop/it"),
        ({"EventBusName": "arn:aws:events:eu-west-1:123456789012:event-bus/shop"}, "rule/shop/it"),
        ({"EventBusName": PARAMETER}, UNKNOWN),
    ],
)
def test_the_arn_of_a_rule_has_its_bus(bus: Any, place: Any) -> None:
    assert rule_of(bus) == place


# -- what is no template


def test_a_label_may_look_like_a_number(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("Resources: {1: {Type: 'AWS::SQS::Queue', Properties: {QueueName: q}}}", encoding="utf-8")
    assert [each.label for each in read_template(file, {}).of(QUEUE)] == ["1"]


def test_a_date_of_yaml_stays_a_text_and_a_truth_does_not(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    text = "Resources: {Q: {Type: 'AWS::SQS::Queue', Properties: {QueueName: 2026-01-01, FifoQueue: yes}}}"
    file.write_text(text, encoding="utf-8")
    [only] = read_template(file, {}).of(QUEUE)
    assert only.properties == {"QueueName": "2026-01-01", "FifoQueue": True}


def test_short_and_long_forms_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(
        """
Conditions:
  IsOn: !Equals [a, a]
  Also: !And [!Condition IsOn, !Condition IsOn]
Mappings: {Names: {a: {b: found}}}
Resources:
  Q:
    Type: AWS::SQS::Queue
    Condition: Also
    Properties: {QueueName: !FindInMap [Names, a, b]}
  S:
    Type: AWS::SNS::Subscription
    Properties: {Endpoint: !GetAtt Q.Arn, TopicArn: !Transform {Name: x}, Protocol: !If [IsOn, sqs, http]}
""",
        encoding="utf-8",
    )
    resources = read_template(file, {})
    assert [each.name for each in resources.of(QUEUE)] == ["found"]
    [subscription] = resources.of("AWS::SNS::Subscription")
    assert subscription.properties == {"Endpoint": KINDS[QUEUE].arn("found"), "TopicArn": UNKNOWN, "Protocol": "sqs"}


def not_installed(name: str) -> Any:
    raise ModuleNotFoundError(name)


def test_a_template_in_json_is_read_where_yaml_is_not_installed_and_another_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowguard.deploy.planned.template_file.import_module", not_installed)
    file = tmp_path / "t"
    file.write_text('{"Resources": {}}', encoding="utf-8")
    read_template(file, {})
    file.write_text("Resources: {}", encoding="utf-8")
    with pytest.raises(NotReadable, match="it is not JSON; to read YAML: pip install PyYAML"):
        read_template(file, {})


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "place",
    [
        "pathlib.Path.read_text",
        "flowguard.deploy.planned.template_file.json.loads",
        "flowguard.deploy.planned.template_file.import_module",
        "yaml.load",
    ],
)
def test_a_mistake_of_flowguards_own_is_not_told_as_one_of_the_file(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(YAML, encoding="utf-8")
    monkeypatch.setattr(place, broken)
    with pytest.raises(ZeroDivisionError):
        read_template(file, {})


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NotReadable, match="it cannot be read"):
        read_template(tmp_path / "t", {})


@pytest.mark.parametrize("text", ["a: " + "[" * 1_000, '{"Resources": {"Q": {"Properties": ' + '{"a":' * 20_000])
def test_a_file_that_is_nested_without_end_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text, encoding="utf-8")
    with pytest.raises(NotReadable):
        read_template(tmp_path / "t", {})


@pytest.mark.parametrize("around", [lambda value: [value], lambda value: {"Fn::Join": ["", [value]]}])
def test_a_template_that_is_nested_too_deeply_is_refused(around: Callable[[Any], Any]) -> None:
    value: Any = "q"
    for _ in range(2_000):
        value = around(value)
    with pytest.raises(NotReadable, match="it is nested too deeply"):
        made(Q={"Type": QUEUE, "Properties": {"QueueName": value}})


def test_a_condition_that_is_nested_too_deeply_is_refused() -> None:
    condition: Any = YES
    for _ in range(2_000):
        condition = {"Fn::Not": [condition]}
    with pytest.raises(NotReadable, match="it is nested too deeply"):
        holds(condition)


def test_a_resource_without_properties_and_empty_sections_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("Parameters:\nOutputs:\nResources: {Q: {Type: 'AWS::SQS::Queue', Properties: }}", encoding="utf-8")
    assert [each.name for each in read_template(file, {}).of(QUEUE)] == [UNKNOWN]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "no mapping Resources"),
        ("{", "neither JSON nor YAML"),
        ("a: !!python/object:os.x {}", "neither JSON nor YAML"),
        ('{"Resources": {"A": 3}}', "Resources.A is no resource"),
        ('{"Resources": {"A": {"Properties": [1]}}}', "Resources.A is no resource"),
        ('{"Resources": {}, "Conditions": null}', None),
        ('{"Resources": {}, "Conditions": []}', "Conditions is no mapping"),
        ('{"Resources": {"A": {"Properties": []}}}', "Resources.A is no resource"),
        ('{"Resources": {}, "Conditions": [1]}', "Conditions is no mapping"),
        ('{"Resources": {}, "Mappings": 1}', "Mappings is no mapping"),
        ('{"Resources": {}, "Outputs": "x"}', "Outputs is no mapping"),
        ('{"Resources": {}, "Parameters": [1]}', "Parameters is no mapping"),
        ('{"Resources": []}', "no mapping Resources"),
        ('{"Resources": {"A": {"Properties": "x"}}}', "Resources.A is no resource: it has no mapping Properties"),
        ("{a: b", "neither JSON nor YAML"),
        ("Resources: {Q: !Ref [", "neither JSON nor YAML"),
        ("Resources: {Q: 2026-13-45T99:99:99Z}", "Resources.Q is no resource"),
        (
            '{"Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": "long"}}}}',
            "VisibilityTimeout of Q is 'long', and not of the type int",
        ),
    ],
)
def test_what_is_no_template_is_refused(tmp_path: Path, text: str, problem: str | None) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(text, encoding="utf-8")
    if problem is None:
        read_template(file, {})
        return
    with pytest.raises(NotReadable, match=problem):
        read_template(file, {})


def test_places_and_exports_are_no_parameters_of_the_template() -> None:
    resources_of("f.json", {"Resources": {}}, {"AWS::Region": "x", "import:a": "b"})


def test_a_parameter_that_the_template_does_not_have_is_refused() -> None:
    with pytest.raises(NotReadable, match="it has no parameter Stag"):
        resources_of("f.json", {"Resources": {}}, {"Stag": "x"})


def test_a_list_of_other_items_is_refused() -> None:
    rule = {"Type": "AWS::Events::Rule", "Properties": {"Targets": ["x"]}}
    with pytest.raises(NotReadable, match="Targets of R has other items than mappings"):
        resources_of("f.json", {"Resources": {"R": rule}}, {})

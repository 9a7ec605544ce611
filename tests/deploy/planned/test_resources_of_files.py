"""The resources of a file: their names, places and types, whatever the file's language."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from flowguard.deploy.account import NotKnown
from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import HERE, KINDS, Resource, Resources
from flowguard.deploy.planned.values import UNKNOWN, Answer, Unanswered, is_known

QUEUE: Final = "AWS::SQS::Queue"
ROLE: Final = "AWS::IAM::Role"


def resource(type_: str = QUEUE, label: str = "It", **given: Any) -> Resource:
    return Resource(label, type_, given)


@pytest.mark.parametrize(
    ("type_", "arn"),
    [
        (QUEUE, f"arn:aws:sqs:{HERE.region}:{HERE.account}:x"),
        (ROLE, f"arn:aws:iam::{HERE.account}:role/x"),
        ("AWS::S3::Bucket", "arn:aws:s3:::x"),
        ("AWS::DynamoDB::Table", f"arn:aws:dynamodb:{HERE.region}:{HERE.account}:table/x"),
        ("AWS::Events::Rule", f"arn:aws:events:{HERE.region}:{HERE.account}:rule/x"),
    ],
)
def test_an_arn_has_a_place_as_far_as_its_service_has(type_: str, arn: str) -> None:
    assert KINDS[type_].arn("x") == arn
    assert resource(type_, **{KINDS[type_].name: "x"}).arn == arn


@pytest.mark.parametrize(
    ("bus", "place"),
    [
        ({"EventBusName": "default"}, "rule/x"),
        ({"EventBusName": "shop"}, "rule/shop/x"),
        ({"EventBusName": "arn:aws:events:eu-west-1:123456789012:event-bus/shop"}, "rule/shop/x"),
    ],
)
def test_the_arn_of_a_rule_has_its_bus(bus: Any, place: str) -> None:
    assert resource("AWS::Events::Rule", Name="x", **bus).arn.endswith(f":{place}")
    assert resource("AWS::Events::Rule", Name="x", EventBusName=UNKNOWN).arn is UNKNOWN


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (resource(QueueName="q"), "q"),
        (resource(), UNKNOWN),
        (resource(QueueName=7), UNKNOWN),
        (resource(QueueName=f"q-{HERE.region}"), UNKNOWN),
        (resource(QueueName=f"q-{HERE.account}"), UNKNOWN),
        (resource(ROLE), "It"),
        (resource(ROLE, RoleName=UNKNOWN), "It"),
        (resource(ROLE, RoleName="shop"), "shop"),
        (resource(ROLE, RoleName=f"shop-{HERE.region}"), UNKNOWN),
    ],
)
def test_a_resource_has_the_name_that_the_file_says(given: Resource, name: Any) -> None:
    assert given.name == name
    assert (given.arn is UNKNOWN) is (name is UNKNOWN)


def read(*resources: Resource) -> Resources:
    return Resources("f.json", [*resources])


def test_resources_are_told_apart_by_type_and_name() -> None:
    a, b = resource(QueueName="a", label="A"), resource(QueueName="b", label="B")
    topic = resource("AWS::SNS::Topic", TopicName="a", label="T")
    there = read(a, b, topic, resource(QueueName="a", label="C"))
    assert [each.label for each in there.of(QUEUE)] == ["A", "B", "C"]
    assert [each.label for each in there.all_named(QUEUE, "a")] == ["A", "C"]
    first, none = there.named(QUEUE, "a"), there.named(QUEUE, "c")
    assert (first and first.label, none) == ("A", None)


@pytest.mark.parametrize(
    ("others", "labels"),
    [
        ([], []),
        ([resource(label="Q")], ["Q"]),
        ([resource("AWS::SNS::Topic", label="T")], []),
        ([resource("AWS::CloudFormation::Stack", label="S")], ["S"]),
        ([resource("AWS::Serverless::Application", label="S")], ["S"]),
        ([resource("My::Own::It::MODULE", label="M")], ["M"]),
        ([resource("terraform::module", label="M")], ["M"]),
        ([resource("AWS::CloudFormation::StackSet", label="S")], []),
    ],
)
def test_what_may_be_of_a_type_is_named(others: list[Resource], labels: list[str]) -> None:
    assert read(resource(QueueName="q"), *others).maybe(QUEUE) == labels


def test_an_arn_of_one_of_the_files_resources_is_that_of_here_whatever_its_place() -> None:
    there = "arn:aws-cn:sqs:cn-north-1:123456789012:q"
    mapping = resource(
        "AWS::Lambda::EventSourceMapping", label="M", EventSourceArn=there, More=[{"Arn": there}, 7, there[4:]]
    )
    files = read(resource(QueueName="q"), mapping)
    [placed] = files.of("AWS::Lambda::EventSourceMapping")
    here = KINDS[QUEUE].arn("q")
    assert placed.properties == {"EventSourceArn": here, "More": [{"Arn": here}, 7, there[4:]]}
    others = [
        f"{there}x",
        there.replace(":sqs:", ":sns:"),
        "x" + there,
        f"{there}:more",
        "arn:aws:sqs",
        "q",
        "",
        UNKNOWN,
    ]
    assert files.placed(others) == others
    nameless = read(resource(), resource(QueueName="p"))
    assert nameless.placed(there) == there


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"VisibilityTimeout": "30"}, {"VisibilityTimeout": 30}),
        ({"VisibilityTimeout": "-1"}, {"VisibilityTimeout": -1}),
        ({"VisibilityTimeout": 30}, {"VisibilityTimeout": 30}),
        ({"VisibilityTimeout": UNKNOWN}, {"VisibilityTimeout": UNKNOWN}),
        ({"FifoQueue": "true"}, {"FifoQueue": True}),
        ({"FifoQueue": "false"}, {"FifoQueue": False}),
        ({"FifoQueue": True}, {"FifoQueue": True}),
        ({"RedrivePolicy": {"maxReceiveCount": "5"}}, {"RedrivePolicy": {"maxReceiveCount": 5}}),
        ({"More": [{"Timeout": "5"}]}, {"More": [{"Timeout": 5}]}),
        ({"Environment": {"Variables": {"Timeout": "5"}}}, {"Environment": {"Variables": {"Timeout": "5"}}}),
        ({"Policies": [UNKNOWN, {}]}, {"Policies": [UNKNOWN, {}]}),
        ({"Roles": ["a", UNKNOWN]}, {"Roles": ["a", UNKNOWN]}),
        ({"Anything": "true"}, {"Anything": "true"}),
    ],
)
def test_a_property_has_the_type_that_it_has_at_aws(given: Any, expected: Any) -> None:
    [only] = read(resource(**given)).of(QUEUE)
    assert only.properties == expected


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"VisibilityTimeout": "long"}, "VisibilityTimeout of It is 'long', and not of the type int"),
        ({"VisibilityTimeout": "1234567890"}, "not of the type int"),
        ({"VisibilityTimeout": "3.5"}, "not of the type int"),
        ({"VisibilityTimeout": True}, "VisibilityTimeout of It is True, and not of the type int"),
        ({"VisibilityTimeout": 3.5}, "not of the type int"),
        ({"FifoQueue": "yes"}, "FifoQueue of It is 'yes', and not of the type bool"),
        ({"FifoQueue": "30"}, "not of the type bool"),
        ({"FifoQueue": 1}, "not of the type bool"),
        ({"RedrivePolicy": "true"}, "not of the type dict"),
        ({"RedrivePolicy": "5"}, "not of the type dict"),
        ({"Environment": {"Variables": "x"}}, "Variables of It is 'x', and not of the type dict"),
        ({"Roles": "a"}, "not of the type list"),
        ({"Policies": "a"}, "Policies of It is 'a', and not of the type list"),
        ({"Policies": [{}, "x"]}, "Policies of It has other items than mappings"),
        ({"More": [{"Timeout": "x"}]}, "Timeout of It"),
    ],
)
def test_a_property_of_another_type_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(NotReadable, match=problem):
        read(resource(**given))


FUNCTION: Final = "AWS::Lambda::Function"
SCHEDULE: Final = "AWS::Scheduler::Schedule"


@pytest.mark.parametrize(
    ("type_", "given", "problem"),
    [
        (FUNCTION, {"TracingConfig": "Active"}, "TracingConfig of It is 'Active', and not of the type dict"),
        (FUNCTION, {"Tags": "team=checkout"}, "Tags of It is 'team=checkout', and not of the type list"),
        (FUNCTION, {"Tags": {"team": "checkout"}}, "Tags of It is {'team': 'checkout'}, and not of the type list"),
        (FUNCTION, {"Tags": ["team"]}, "a tag of It is 'team', and no mapping with Key and Value"),
        (FUNCTION, {"Tags": [{"Key": "team"}]}, "a tag of It is {'Key': 'team'}, and no mapping with Key and Value"),
        (FUNCTION, {"Tags": [{"Key": "team", "Value": None}]}, "Value of It is None, and not of the type str"),
        (FUNCTION, {"Tags": [{"Key": ["team"], "Value": "x"}]}, "Key of It is ['team'], and not of the type str"),
        (FUNCTION, {"FunctionName": {"a": "b"}}, "FunctionName of It is {'a': 'b'}, and not of the type str"),
        (FUNCTION, {"Role": ["x"]}, "Role of It is ['x'], and not of the type str"),
        (FUNCTION, {"KmsKeyArn": ["x"]}, "KmsKeyArn of It is ['x'], and not of the type str"),
        (
            FUNCTION,
            {"LoggingConfig": {"ApplicationLogLevel": ["INFO"]}},
            "ApplicationLogLevel of It is ['INFO'], and not of the type str",
        ),
        (
            FUNCTION,
            {"Environment": {"Variables": {"FLOWGUARD_TABLE": None}}},
            "the variable FLOWGUARD_TABLE of It is None, and no text",
        ),
        (
            FUNCTION,
            {"Environment": {"Variables": {"FLOWGUARD_TABLE": ["x"]}}},
            "the variable FLOWGUARD_TABLE of It is ['x'], and no text",
        ),
        (ROLE, {"Tags": ["team"]}, "a tag of It is 'team', and no mapping with Key and Value"),
        (ROLE, {"Path": ["/p/"]}, "Path of It is ['/p/'], and not of the type str"),
        (ROLE, {"Path": 5}, "Path of It is '5', which does not begin and end with /"),
        (ROLE, {"Path": "/p"}, "Path of It is '/p', which does not begin and end with /"),
        (ROLE, {"Path": "p/"}, "Path of It is 'p/', which does not begin and end with /"),
        ("AWS::IAM::ManagedPolicy", {"Path": "p"}, "Path of It is 'p', which does not begin and end with /"),
        (ROLE, {"AssumeRolePolicyDocument": "{}"}, "AssumeRolePolicyDocument of It is '{}', and not of the type dict"),
        (SCHEDULE, {"Target": "arn"}, "Target of It is 'arn', and not of the type dict"),
        (
            "AWS::Lambda::EventSourceMapping",
            {"DestinationConfig": {"OnFailure": {"Destination": ["arn"]}}},
            "Destination of It is ['arn'], and not of the type str",
        ),
        (
            "AWS::S3::Bucket",
            {"BucketEncryption": {"ServerSideEncryptionConfiguration": ["x"]}},
            "ServerSideEncryptionConfiguration of It has other items than mappings",
        ),
    ],
)
def test_a_property_of_another_type_than_its_resource_has_is_refused(type_: str, given: Any, problem: str) -> None:
    with pytest.raises(NotReadable, match=re.escape(problem)):
        read(resource(type_, **given))


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        (FUNCTION, {"Tags": UNKNOWN}, {"Tags": UNKNOWN}),
        (FUNCTION, {"Tags": [UNKNOWN]}, {"Tags": [UNKNOWN]}),
        (FUNCTION, {"Tags": [{"Key": "a", "Value": UNKNOWN}]}, {"Tags": [{"Key": "a", "Value": UNKNOWN}]}),
        (FUNCTION, {"FunctionName": 7}, {"FunctionName": "7"}),
        (ROLE, {"Path": "/p/"}, {"Path": "/p/"}),
        (ROLE, {"Path": "/"}, {"Path": "/"}),
        (ROLE, {"Path": UNKNOWN}, {"Path": UNKNOWN}),
        ("AWS::Events::Endpoint", {"Path": "p"}, {"Path": "p"}),
        (FUNCTION, {"LoggingConfig": UNKNOWN}, {"LoggingConfig": UNKNOWN}),
        ("AWS::SSM::Parameter", {"Tags": {"a": "b"}}, {"Tags": {"a": "b"}}),
        ("AWS::ApiGatewayV2::Route", {"Target": "integrations/x"}, {"Target": "integrations/x"}),
        (
            "AWS::S3::Bucket",
            {"Rules": [{"Destination": {"Bucket": "b"}}]},
            {"Rules": [{"Destination": {"Bucket": "b"}}]},
        ),
        (
            FUNCTION,
            {"Environment": {"Variables": {"A": 5, "B": UNKNOWN}}},
            {"Environment": {"Variables": {"A": 5, "B": UNKNOWN}}},
        ),
    ],
)
def test_a_property_has_the_type_that_its_resource_has(type_: str, given: Any, expected: Any) -> None:
    [only] = read(resource(type_, **given)).of(type_)
    assert only.properties == expected


# -- values that are not known


def answer(**values: Any) -> tuple[Answer, Unanswered]:
    unanswered = Unanswered()
    return Answer(values, "it", unanswered), unanswered


def test_what_is_known_is_answered() -> None:
    given, unanswered = answer(a=1, b={"c": 2, "d": UNKNOWN}, e=[1, {"f": 3}])
    assert (given["a"], given["b"]["c"], given["e"][0], given["e"][1]["f"]) == (1, 2, 1, 3)
    assert (sorted(given), len(given), "a" in given, "x" in given) == (["a", "b", "e"], 3, True, False)
    assert [*unanswered] == []


@pytest.mark.parametrize(
    ("values", "ask", "what"),
    [
        ({"a": UNKNOWN}, lambda given: given["a"], "a"),
        ({"a": [1, UNKNOWN]}, lambda given: given["a"], "a"),
        ({"a": {"b": UNKNOWN}}, lambda given: given["a"]["b"], "b"),
        ({"a": [{"b": UNKNOWN}]}, lambda given: given["a"][0]["b"], "b"),
    ],
)
def test_what_is_not_known_ends_the_question_and_is_noted(values: Any, ask: Any, what: str) -> None:
    given, unanswered = answer(**values)
    with pytest.raises(NotKnown):
        ask(given)
    assert [*unanswered] == [(what, "it")]


def test_whether_something_is_there_is_known_also_where_its_value_is_not() -> None:
    given, unanswered = answer(a=UNKNOWN)
    assert ("a" in given, [*unanswered]) == (True, [])


def test_what_is_not_known_is_told_in_order_with_each_name_once() -> None:
    unanswered = Unanswered()
    for what, name in (("b", "z"), ("a", "y"), ("b", "x"), ("b", "z")):
        unanswered.add(what, name)
    assert [*unanswered] == [("a", "y"), ("b", "x, z")]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, True),
        (UNKNOWN, False),
        ([1, [2]], True),
        ([1, [UNKNOWN]], False),
        ({"a": {"b": 1}}, True),
        ({"a": {"b": UNKNOWN}}, False),
        ({"a": [UNKNOWN]}, False),
    ],
)
def test_a_value_is_known_if_all_of_it_is(value: Any, expected: bool) -> None:
    assert is_known(value) is expected

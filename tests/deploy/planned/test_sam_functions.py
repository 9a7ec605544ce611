"""The functions of SAM are what SAM makes of them."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from flowguard.deploy.planned.policies import allowed
from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import KINDS, Resources
from flowguard.deploy.planned.template_file import resources_of
from flowguard.deploy.planned.values import UNKNOWN

QUEUE: Final = "AWS::SQS::Queue"

SAM: Final = {
    "Globals": {"Function": {"Timeout": 35, "Environment": {"Variables": {"FLOWGUARD_TABLE": "runs"}}}},
    "Resources": {
        "Orders": {"Type": QUEUE, "Properties": {"QueueName": "orders"}},
        "Place": {
            "Type": "AWS::Serverless::Function",
            "Properties": {
                "FunctionName": "place",
                "Handler": "orders.place",
                "Environment": {"Variables": {"MORE": "1"}},
                "Policies": [
                    {"Statement": [{"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}]},
                    "AmazonS3ReadOnlyAccess",
                ],
                "FunctionUrlConfig": {"AuthType": "AWS_IAM"},
                "Events": {"Placed": {"Type": "SQS", "Properties": {"Queue": {"Fn::GetAtt": "Orders.Arn"}}}},
            },
        },
        "Keys": {
            "Type": "AWS::Serverless::SimpleTable",
            "Properties": {"TableName": "keys", "PrimaryKey": {"Name": "pk", "Type": "String"}},
        },
    },
}


def test_a_function_of_sam_is_what_sam_makes_of_it() -> None:
    resources = resources_of("f.json", SAM, {})
    [place] = resources.of("AWS::Lambda::Function")
    assert place.properties["Timeout"] == 35
    assert place.properties["Environment"]["Variables"] == {"FLOWGUARD_TABLE": "runs", "MORE": "1"}
    [source] = resources.of("AWS::Lambda::EventSourceMapping")
    assert source.properties["EventSourceArn"] == KINDS[QUEUE].arn("orders")
    assert source.properties["FunctionName"] == "place"
    [url] = resources.of("AWS::Lambda::Url")
    assert url.properties == {"AuthType": "AWS_IAM", "TargetFunctionArn": "place"}
    [table] = resources.of("AWS::DynamoDB::Table")
    assert table.properties["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    [role] = resources.of("AWS::IAM::Role")
    documents = [policy["PolicyDocument"] for policy in role.properties["Policies"]]
    assert allowed(documents, "dynamodb:GetItem", "arn:aws:dynamodb:x:1:table/runs", {}) is True
    assert allowed(documents, "x:y", "*", {}) is False
    managed = [str(arn).rpartition("/")[2] for arn in role.properties["ManagedPolicyArns"]]
    assert managed == ["AmazonS3ReadOnlyAccess", "AWSLambdaBasicExecutionRole", "AWSLambdaSQSQueueExecutionRole"]


def made(properties: Any, shared: Any = None, **more: Any) -> Resources:
    """What SAM makes of a function ``F``."""
    function = {"Type": "AWS::Serverless::Function", "Properties": {"FunctionName": "f", **properties}, **more}
    template = {
        "Globals": {"Function": shared} if shared is not None else {},
        "Conditions": {"Never": {"Fn::Equals": ["a", "b"]}, "Always": {"Fn::Equals": ["a", "a"]}},
        "Resources": {"F": function},
    }
    return resources_of("f.json", template, {})


def function(properties: Any, shared: Any = None) -> Any:
    [only] = made(properties, shared).of("AWS::Lambda::Function")
    return {name: value for name, value in only.properties.items() if name not in ("FunctionName", "Role")}


@pytest.mark.parametrize(
    ("shared", "own", "expected"),
    [
        (None, {}, {}),
        ("x", {"Timeout": 1}, {"Timeout": 1}),
        ({"Timeout": 1}, {}, {"Timeout": 1}),
        ({"Timeout": 1}, {"Timeout": 2}, {"Timeout": 2}),
        ({"Layers": ["a"]}, {"Layers": ["b"]}, {"Layers": ["a", "b"]}),
        ({"Layers": ["a"]}, {"Layers": "b"}, {"Layers": "b"}),
        ({"Layers": "a"}, {"Layers": ["b"]}, {"Layers": ["b"]}),
        ({"Image": {"a": "1", "b": "1"}}, {"Image": {"b": "2"}}, {"Image": {"a": "1", "b": "2"}}),
        ({"Image": {"a": {"b": "1"}}}, {"Image": {"a": {"c": "2"}}}, {"Image": {"a": {"b": "1", "c": "2"}}}),
        ({"Image": "x"}, {"Image": {"b": "2"}}, {"Image": {"b": "2"}}),
        ({"Image": {"a": "1"}}, {"Image": "x"}, {"Image": "x"}),
        ({"Image": {"a": "1"}}, {"Image": {"Fn::ImportValue": "x"}}, {"Image": UNKNOWN}),
        ({"Image": {"a": "1"}}, {"Image": {"Ref": "x"}}, {"Image": UNKNOWN}),
        ({"Image": {"a": "1"}}, {"Image": {"Ref": "x", "b": "2"}}, {"Image": {"a": "1", "Ref": "x", "b": "2"}}),
    ],
)
def test_a_function_has_what_all_functions_share(shared: Any, own: Any, expected: Any) -> None:
    assert function(own, shared) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"a": "b"}, [{"Key": "a", "Value": "b"}]),
        ({"Ref": "it", "a": "b"}, [{"Key": "Ref", "Value": "it"}, {"Key": "a", "Value": "b"}]),
        ({"Fn::ImportValue": "x"}, UNKNOWN),
    ],
)
def test_the_mapping_of_a_functions_tags_is_the_list_that_lambda_has(tags: Any, expected: Any) -> None:
    assert function({"Tags": tags}) == {"Tags": expected}


def test_tags_of_another_type_are_refused() -> None:
    with pytest.raises(NotReadable, match="Tags of F is 5, and not of the type list"):
        function({"Tags": 5})


def test_a_function_keeps_nothing_that_is_sams_own() -> None:
    own = {"Policies": "AWSLambdaRole", "Events": {}, "Handler": "a.b"}
    assert function(own) == {"Handler": "a.b"}


@pytest.mark.parametrize(("condition", "count"), [("Always", 1), ("Never", 0)])
def test_all_that_sam_makes_of_a_function_is_there_under_its_condition(condition: str, count: int) -> None:
    events = {"E": {"Type": "SQS", "Properties": {"Queue": "arn:aws:sqs:a:b:c"}}}
    there = made({"Events": events, "FunctionUrlConfig": {"AuthType": "NONE"}}, Condition=condition)
    types = ("AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Url", "AWS::IAM::Role")
    assert [len([*there.of(type_)]) for type_ in types] == [count] * 4


def test_a_function_of_sam_has_the_role_that_sam_makes_or_its_own() -> None:
    [own] = made({"Role": "arn:aws:iam::123456789012:role/own"}).of("AWS::Lambda::Function")
    assert own.properties["Role"] == "arn:aws:iam::123456789012:role/own"
    [made_for_it] = made({}).of("AWS::Lambda::Function")
    assert made_for_it.properties["Role"] == KINDS["AWS::IAM::Role"].arn("FRole")


def sources(events: Any) -> list[Any]:
    return [each.properties for each in made({"Events": events}).of("AWS::Lambda::EventSourceMapping")]


@pytest.mark.parametrize("kind", ["Kinesis", "DynamoDB"])
def test_an_event_of_a_stream_is_a_mapping(kind: str) -> None:
    event = {"Type": kind, "Properties": {"Stream": "arn:s", "Queue": "arn:q", "BatchSize": 5}}
    [mapping] = sources({"E": event})
    assert (mapping["EventSourceArn"], mapping["FunctionName"], mapping["BatchSize"]) == ("arn:s", "f", 5)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {"Type": "MSK", "Properties": {"Stream": "arn:s", "Topics": ["t"], "ConsumerGroupId": "g"}},
            {"EventSourceArn": "arn:s", "AmazonManagedKafkaEventSourceConfig": {"ConsumerGroupId": "g"}},
        ),
        ({"Type": "MSK", "Properties": {"Stream": "arn:s", "Topics": ["t"]}}, {"EventSourceArn": "arn:s"}),
        (
            {
                "Type": "SelfManagedKafka",
                "Properties": {"KafkaBootstrapServers": ["a:9096"], "Topics": ["t"], "ConsumerGroupId": "g"},
            },
            {
                "SelfManagedEventSource": {"Endpoints": {"KafkaBootstrapServers": ["a:9096"]}},
                "SelfManagedKafkaEventSourceConfig": {"ConsumerGroupId": "g"},
            },
        ),
        (
            {"Type": "SelfManagedKafka", "Properties": {"Topics": ["t"]}},
            {"SelfManagedEventSource": {"Endpoints": {"KafkaBootstrapServers": []}}},
        ),
    ],
)
def test_an_event_of_kafka_is_a_mapping(event: Any, expected: Any) -> None:
    assert sources({"E": event}) == [{"Topics": ["t"], "FunctionName": "f", **expected}]


def test_an_event_of_a_queue_is_a_mapping() -> None:
    [mapping] = sources({"E": {"Type": "SQS", "Properties": {"Stream": "arn:s", "Queue": "arn:q", "Enabled": False}}})
    assert (mapping["EventSourceArn"], mapping["FunctionName"], mapping["Enabled"]) == ("arn:q", "f", False)


@pytest.mark.parametrize("events", [{"E": {"Type": "Api"}}, {"E": "x"}, {"E": {}}, {}, None, {"E": {"Type": "SNS"}}])
def test_other_events_are_no_mappings(events: Any) -> None:
    assert sources(events) == []


@pytest.mark.parametrize("url", ["x", None])
def test_a_url_that_is_none_is_not_made(url: Any) -> None:
    assert [*made({"FunctionUrlConfig": url}).of("AWS::Lambda::Url")] == []


def table(**given: Any) -> Any:
    simple = {"Type": "AWS::Serverless::SimpleTable", "Properties": {"TableName": "t", **given}, "Condition": "Always"}
    conditions = {"Always": {"Fn::Equals": ["a", "a"]}}
    [only] = resources_of("f.json", {"Conditions": conditions, "Resources": {"T": simple}}, {}).of(
        "AWS::DynamoDB::Table"
    )
    return only


@pytest.mark.parametrize(
    ("key", "name", "kind"),
    [
        (None, "id", "S"),
        ({}, "id", "S"),
        ("x", "id", "S"),
        ({"Name": "k", "Type": "Number"}, "k", "N"),
        ({"Name": "k", "Type": "Binary"}, "k", "B"),
        ({"Type": "N"}, "id", "N"),
    ],
)
def test_a_simple_table_is_a_table(key: Any, name: str, kind: str) -> None:
    made_table = table(SSESpecification={"SSEEnabled": True}, **({} if key is None else {"PrimaryKey": key}))
    assert made_table.name == "t"
    assert made_table.properties["KeySchema"] == [{"AttributeName": name, "KeyType": "HASH"}]
    assert made_table.properties["AttributeDefinitions"] == [{"AttributeName": name, "AttributeType": kind}]
    assert made_table.properties["SSESpecification"] == {"SSEEnabled": True}


def test_a_simple_table_has_its_condition() -> None:
    simple = {"Type": "AWS::Serverless::SimpleTable", "Condition": "Never"}
    template = {"Conditions": {"Never": {"Fn::Equals": ["a", "b"]}}, "Resources": {"T": simple}}
    assert [*resources_of("f.json", template, {}).of("AWS::DynamoDB::Table")] == []


def test_other_resources_stay() -> None:
    there = resources_of("f.json", {"Resources": {"Q": {"Type": QUEUE, "Properties": {"QueueName": "q"}}}}, {})
    assert [each.name for each in there.of(QUEUE)] == ["q"]


def test_the_role_that_sam_makes_has_what_the_function_says_of_it() -> None:
    template: dict[str, Any] = copy.deepcopy(SAM)
    place = template["Resources"]["Place"]["Properties"]
    [plain] = resources_of("f.json", template, {}).of("AWS::IAM::Role")
    assert {"Path", "PermissionsBoundary"}.isdisjoint(plain.properties)
    [function] = resources_of("f.json", template, {}).of("AWS::Lambda::Function")
    assert "TracingConfig" not in function.properties
    [trusted] = plain.properties["AssumeRolePolicyDocument"]["Statement"]
    assert trusted["Principal"] == {"Service": ["lambda.amazonaws.com"]}
    given = {"RolePath": "/p/", "PermissionsBoundary": "b", "Tags": {"a": "c"}, "Tracing": "Active"}
    place |= {**given, "AssumeRolePolicyDocument": {"Statement": []}}
    [role] = resources_of("f.json", template, {}).of("AWS::IAM::Role")
    assert (role.properties["Path"], role.properties["PermissionsBoundary"]) == ("/p/", "b")
    assert (role.properties["Tags"], role.properties["AssumeRolePolicyDocument"]) == (
        [{"Key": "a", "Value": "c"}],
        {"Statement": []},
    )
    [traced] = resources_of("f.json", template, {}).of("AWS::Lambda::Function")
    assert traced.properties["TracingConfig"] == {"Mode": "Active"}
    assert "Tracing" not in traced.properties

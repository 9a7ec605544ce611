"""Each block of Terraform is the resource that CloudFormation would make of it."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from flowguard.deploy.planned.managed_policies import of_aws
from flowguard.deploy.planned.resources import KINDS, REDRIVE_IS_GIVEN, Resource, queue_url
from flowguard.deploy.planned.terraform_kinds import TYPES, Placed, made_of
from flowguard.deploy.planned.values import UNKNOWN

POLICY: Final = {"Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}]}
TEXT: Final = json.dumps(POLICY)
REDRIVE: Final = {"deadLetterTargetArn": "arn:aws:sqs:a:b:c", "maxReceiveCount": 100}
QUEUE: Final = "AWS::SQS::Queue"


def made(*blocks: tuple[str, dict[str, Any]]) -> list[Resource]:
    return [*made_of(Placed(f"{type_}.it", type_, block, "there") for type_, block in blocks)]


def test_a_resource_has_its_address_its_place_and_its_name() -> None:
    [queue] = made(("aws_sqs_queue", {"name": "q", "delay_seconds": 5}))
    assert (queue.label, queue.type, queue.place) == ("aws_sqs_queue.it", QUEUE, "there")
    assert queue.properties == {"QueueName": "q", "DelaySeconds": 5}


@pytest.mark.parametrize("type_", [type_ for type_, (kind, _) in TYPES.items() if kind])
def test_a_resource_of_which_nothing_is_said_has_no_name(type_: str) -> None:
    for resource in made((type_, {})):
        assert resource.type == TYPES[type_][0]
        assert resource.type not in KINDS or KINDS[resource.type].name not in resource.properties


@pytest.mark.parametrize(
    ("type_", "block", "expected"),
    [
        ("aws_sqs_queue", {"fifo_queue": None}, {}),
        ("aws_sqs_queue", {"redrive_policy": json.dumps(REDRIVE)}, {"RedrivePolicy": REDRIVE}),
        ("aws_sqs_queue", {"redrive_policy": "x"}, {"RedrivePolicy": UNKNOWN}),
        ("aws_sqs_queue", {"redrive_policy": ""}, {"RedrivePolicy": UNKNOWN}),
        ("aws_sqs_queue", {"redrive_policy": UNKNOWN}, {"RedrivePolicy": UNKNOWN}),
        (
            "aws_lambda_function",
            {
                "function_name": "f",
                "environment": [{"variables": {"A": "1"}}],
                "logging_config": [],
                "vpc_config": None,
            },
            {"FunctionName": "f", "Environment": {"Variables": {"A": "1"}}},
        ),
        ("aws_lambda_function", {"environment": UNKNOWN}, {"Environment": {"Variables": UNKNOWN}}),
        ("aws_lambda_function", {"environment": [{}]}, {}),
        (
            "aws_lambda_function",
            {"logging_config": [{"log_format": "JSON", "application_log_level": "INFO"}]},
            {"LoggingConfig": {"LogFormat": "JSON", "ApplicationLogLevel": "INFO"}},
        ),
        (
            "aws_lambda_event_source_mapping",
            {"destination_config": [{"on_failure": [{"destination_arn": "arn:x"}]}]},
            {"DestinationConfig": {"OnFailure": {"Destination": "arn:x"}}},
        ),
        ("aws_sqs_queue_policy", {"queue_url": "u", "policy": TEXT}, {"Queues": ["u"], "PolicyDocument": POLICY}),
        ("aws_sqs_queue_policy", {"queue_url": UNKNOWN}, {"Queues": UNKNOWN}),
        ("aws_sqs_queue_policy", {}, {"Queues": UNKNOWN}),
        ("aws_sns_topic_policy", {"arn": "a", "policy": TEXT}, {"Topics": ["a"], "PolicyDocument": POLICY}),
        ("aws_sns_topic_policy", {"arn": UNKNOWN}, {"Topics": UNKNOWN}),
        ("aws_sns_topic_policy", {}, {"Topics": UNKNOWN}),
        ("aws_iam_role", {"name": "r"}, {"RoleName": "r", "Policies": []}),
        (
            "aws_iam_role",
            {"path": "/p/", "assume_role_policy": TEXT, "tags": {"a": "b"}, "tags_all": UNKNOWN},
            {"Path": "/p/", "AssumeRolePolicyDocument": POLICY, "Tags": [{"Key": "a", "Value": "b"}], "Policies": []},
        ),
        (
            "aws_lambda_function",
            {"tags": {"a": "b"}, "tags_all": {"a": "b", "c": "d"}, "tracing_config": [{"mode": "Active"}]},
            {"Tags": [{"Key": "a", "Value": "b"}, {"Key": "c", "Value": "d"}], "TracingConfig": {"Mode": "Active"}},
        ),
        ("aws_lambda_function", {"tags": UNKNOWN}, {"Tags": UNKNOWN}),
        ("aws_iam_role", {"inline_policy": UNKNOWN}, {"Policies": UNKNOWN}),
        (
            "aws_iam_role",
            {"inline_policy": [{"policy": TEXT}, {}]},
            {"Policies": [{"PolicyDocument": POLICY}, {"PolicyDocument": UNKNOWN}]},
        ),
        ("aws_kms_alias", {"name": "alias/a", "target_key_id": "k"}, {"AliasName": "alias/a", "TargetKeyId": "k"}),
    ],
)
def test_an_argument_is_the_property_that_it_is_at_aws(type_: str, block: dict[str, Any], expected: Any) -> None:
    [resource] = made((type_, block))
    assert resource.properties == expected


def test_a_text_that_is_nested_without_end_is_not_taken_for_another() -> None:
    with pytest.raises(RecursionError):
        made(("aws_sqs_queue", {"redrive_policy": "[" * 1_000_000}))


ATTRIBUTES: Final = [{"name": "a", "type": "S"}, {"name": "b", "type": "N"}]


@pytest.mark.parametrize(
    ("block", "key", "types"),
    [
        ({"hash_key": "a", "attribute": ATTRIBUTES}, [("a", "HASH")], [("a", "S"), ("b", "N")]),
        ({"hash_key": "a", "range_key": "b", "attribute": []}, [("a", "HASH"), ("b", "RANGE")], []),
        ({"attribute": UNKNOWN}, [], UNKNOWN),
        ({}, [], UNKNOWN),
    ],
)
def test_a_table_has_its_key(block: dict[str, Any], key: Any, types: Any) -> None:
    [table] = made(("aws_dynamodb_table", block))
    assert [(part["AttributeName"], part["KeyType"]) for part in table.properties["KeySchema"]] == key
    given = table.properties["AttributeDefinitions"]
    assert (given if given is UNKNOWN else [(part["AttributeName"], part["AttributeType"]) for part in given]) == types


def test_a_table_has_its_indexes() -> None:
    blocks: Any = [{"name": "by-status", "hash_key": "status", "range_key": "pk"}]
    [table] = made(("aws_dynamodb_table", {"global_secondary_index": blocks}))
    keys = [{"AttributeName": "status", "KeyType": "HASH"}, {"AttributeName": "pk", "KeyType": "RANGE"}]
    assert table.properties["GlobalSecondaryIndexes"] == [{"IndexName": "by-status", "KeySchema": keys}]
    [unknown] = made(("aws_dynamodb_table", {"global_secondary_index": UNKNOWN}))
    assert unknown.properties["GlobalSecondaryIndexes"] is UNKNOWN
    [without] = made(("aws_dynamodb_table", {"global_secondary_index": []}))
    assert "GlobalSecondaryIndexes" not in without.properties


@pytest.mark.parametrize(
    ("is_on", "view", "expected"),
    [
        (True, "NEW_IMAGE", {"StreamViewType": "NEW_IMAGE"}),
        (None, "NEW_IMAGE", {"StreamViewType": "NEW_IMAGE"}),
        (False, "NEW_IMAGE", None),
        (False, None, None),
    ],
)
def test_a_stream_that_is_off_is_none(is_on: bool | None, view: str | None, expected: Any) -> None:
    [table] = made(("aws_dynamodb_table", {"stream_enabled": is_on, "stream_view_type": view}))
    assert table.properties.get("StreamSpecification") == expected


@pytest.mark.parametrize(
    ("name", "queues"), [({"name": "q"}, [queue_url("q")]), ({}, UNKNOWN), ({"name": UNKNOWN}, UNKNOWN)]
)
def test_a_queue_may_have_its_policy_as_an_argument(name: Any, queues: Any) -> None:
    _, policy = made(("aws_sqs_queue", {"policy": TEXT, **name}))
    assert (policy.type, policy.label) == ("AWS::SQS::QueuePolicy", "aws_sqs_queue.it")
    assert policy.properties == {"Queues": queues, "PolicyDocument": POLICY}


@pytest.mark.parametrize(
    ("name", "topics"),
    [({"name": "t"}, [KINDS["AWS::SNS::Topic"].arn("t")]), ({}, UNKNOWN), ({"name": UNKNOWN}, UNKNOWN)],
)
def test_a_topic_may_have_its_policy_as_an_argument(name: Any, topics: Any) -> None:
    _, policy = made(("aws_sns_topic", {"policy": TEXT, **name}))
    assert (policy.type, policy.label) == ("AWS::SNS::TopicPolicy", "aws_sns_topic.it")
    assert policy.properties == {"Topics": topics, "PolicyDocument": POLICY}


@pytest.mark.parametrize(
    "block", [("aws_sqs_queue", {"policy": ""}), ("aws_sns_topic", {"policy": ""}), ("aws_kms_key", {"policy": TEXT})]
)
def test_other_policies_are_none_of_a_queue_or_topic(block: tuple[str, dict[str, Any]]) -> None:
    assert [each.type for each in made(block)] == [TYPES[block[0]][0]]


# -- what is part of another resource


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"rule": "r", "arn": "arn:q"}, {"Name": "r", "Targets": [{"Arn": "arn:q"}]}),
        (
            {"rule": "r", "arn": "arn:q", "event_bus_name": "shop"},
            {"Name": "r", "Targets": [{"Arn": "arn:q"}], "EventBusName": "shop"},
        ),
        ({}, {"Name": UNKNOWN, "Targets": [{"Arn": UNKNOWN}]}),
    ],
)
def test_a_target_is_a_rule_with_it(block: dict[str, Any], expected: Any) -> None:
    [rule] = made(("aws_cloudwatch_event_target", block))
    assert (rule.type, rule.label, rule.properties) == ("AWS::Events::Rule", "aws_cloudwatch_event_target.it", expected)


OWN: Final = ("aws_iam_policy", {"name": "own", "policy": TEXT})
OTHER: Final = ("aws_iam_policy", {"name": "other", "policy": "{}"})
ROLE: Final = ("aws_iam_role", {"name": "own"})
OF_OWN: Final = KINDS["AWS::IAM::ManagedPolicy"].arn("own")
BASIC: Final = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"


def attached(type_: str, **given: Any) -> list[tuple[Any, Any]]:
    """The roles that an attachment gives a policy, with the policy."""
    there = made((type_, given), OTHER, ROLE, ("aws_lambda_function_url", {}), OWN)
    return [
        (each.properties["RoleName"], each.properties["PolicyDocument"])
        for each in there
        if each.type == "AWS::IAM::RolePolicy"
    ]


@pytest.mark.parametrize(
    ("arn", "document"),
    [
        ({"policy_arn": OF_OWN}, POLICY),
        ({"policy_arn": BASIC}, of_aws(BASIC)),
        ({"policy_arn": "arn:aws:iam::123456789012:policy/theirs"}, UNKNOWN),
        ({"policy_arn": KINDS["AWS::IAM::Role"].arn("own")}, UNKNOWN),
        ({}, UNKNOWN),
    ],
)
def test_a_policy_is_attached_to_a_role(arn: Any, document: Any) -> None:
    assert attached("aws_iam_role_policy_attachment", role="r", **arn) == [("r", document)]
    assert attached("aws_iam_role_policy_attachment", **arn) == [(UNKNOWN, document)]
    assert attached("aws_iam_policy_attachment", roles=["r", "s"], **arn) == [("r", document), ("s", document)]
    assert attached("aws_iam_policy_attachment", roles=UNKNOWN, **arn) == [(UNKNOWN, document)]
    assert attached("aws_iam_policy_attachment", **arn) == []


FUNCTIONS: Final = [("aws_lambda_function", {"function_name": name}) for name in ("f", "g")]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"function_name": "f", "recursive_loop": "Allow"}, ["Allow", None]),
        ({"function_name": "f"}, [UNKNOWN, None]),
        ({"recursive_loop": "Allow"}, [UNKNOWN, UNKNOWN]),
        ({"function_name": "others", "recursive_loop": "Allow"}, [None, None]),
    ],
)
def test_whether_a_function_may_loop_is_said_beside_it(block: dict[str, Any], expected: list[Any]) -> None:
    there = made(("aws_lambda_function_recursion_config", block), *FUNCTIONS, ("aws_sqs_queue", {"name": "f"}))
    assert [each.properties.get("RecursiveLoop") for each in there] == [*expected, None]


QUEUES: Final = [("aws_sqs_queue", {"name": "p"}), ("aws_sqs_queue", {"name": "q", "redrive_policy": "{}"})]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"queue_url": queue_url("p"), "redrive_policy": json.dumps(REDRIVE)}, [REDRIVE, {}]),
        ({"queue_url": queue_url("p")}, [UNKNOWN, {}]),
        ({"redrive_policy": json.dumps(REDRIVE)}, [UNKNOWN, {}]),
        ({"queue_url": UNKNOWN, "redrive_policy": json.dumps(REDRIVE)}, [UNKNOWN, {}]),
    ],
)
def test_a_redrive_policy_is_said_beside_its_queue(block: dict[str, Any], expected: list[Any]) -> None:
    there = made(("aws_sqs_queue_redrive_policy", block), *QUEUES)
    assert [each.properties["RedrivePolicy"] for each in there] == expected


@pytest.mark.parametrize(("given", "is_given"), [({"redrive_policy"}, True), ({"name"}, False), (set(), False)])
def test_a_redrive_policy_from_outside_is_marked(given: set[str], is_given: bool) -> None:
    name = {"name": "q"}
    own = Placed("q", "aws_sqs_queue", {**name, "redrive_policy": "{}"}, "", frozenset(given))
    [queue] = made_of([own])
    assert bool(queue.properties.get(REDRIVE_IS_GIVEN, False)) is is_given
    beside = Placed("r", "aws_sqs_queue_redrive_policy", {"queue_url": queue_url("q")}, "", frozenset(given))
    [queue] = made_of([Placed("q", "aws_sqs_queue", name), beside])
    assert queue.properties[REDRIVE_IS_GIVEN] is is_given


def test_the_key_of_a_bucket_is_said_beside_it() -> None:
    def buckets(**block: Any) -> list[Any]:
        kind = "aws_s3_bucket_server_side_encryption_configuration"
        there = made((kind, block), ("aws_s3_bucket", {"bucket": "a"}), ("aws_s3_bucket", {"bucket": "b"}))
        return [each.properties.get("BucketEncryption") for each in there]

    def under(key: Any) -> Any:
        return {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": key}]}

    rule = [{"apply_server_side_encryption_by_default": [{"kms_master_key_id": "k"}]}]
    assert buckets(bucket="a", rule=rule) == [under({"KMSMasterKeyID": "k"}), None]
    assert buckets(bucket="b", rule=[]) == [None, under({})]
    assert buckets(rule=rule) == [UNKNOWN, UNKNOWN]


def test_the_policy_of_a_key_is_said_beside_it() -> None:
    def keys(**block: Any) -> list[Any]:
        there = made(("aws_kms_key_policy", block), ("aws_kms_key", {"key_id": "a"}), ("aws_kms_key", {"key_id": "b"}))
        return [each.properties.get("KeyPolicy") for each in there]

    assert keys(key_id="a", policy=TEXT) == [POLICY, None]
    assert keys(key_id="a") == [UNKNOWN, None]
    assert keys(policy=TEXT) == [UNKNOWN, UNKNOWN]

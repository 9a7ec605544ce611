"""What statements of policies are about: roles, services, actions, resources, conditions."""

from __future__ import annotations

from typing import Any, Final

import pytest

from flowguard.deploy.planned.policies import (
    _document,
    allowed,
    denied_to,
    key_lets_role,
    key_lets_service,
    service_may_send,
)
from flowguard.deploy.planned.resources import HERE, KINDS
from flowguard.deploy.planned.statements import holds, names_role, names_service, statements_in
from flowguard.deploy.planned.values import UNKNOWN

ROLE: Final = "arn:aws:iam::123456789012:role/shop"
ROLE_HERE: Final = KINDS["AWS::IAM::Role"].arn("Shop")
QUEUE: Final = "arn:aws:sqs:eu-west-1:123456789012:orders"
SEND: Final = "sqs:SendMessage"


def document(**statement: Any) -> dict[str, Any]:
    return {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*", **statement}]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"Statement": [1, 2]}, [1, 2]),
        ({"Statement": {"Effect": "Allow"}}, [{"Effect": "Allow"}]),
        ({}, [UNKNOWN]),
        (UNKNOWN, [UNKNOWN]),
        ([], [UNKNOWN]),
    ],
)
def test_a_policy_has_its_statements(given: Any, expected: list[Any]) -> None:
    assert statements_in(given) == expected


def test_a_policy_that_is_left_open_allows_what_nobody_knows() -> None:
    assert _document(UNKNOWN) is UNKNOWN
    assert _document({"PolicyDocument": {"Statement": []}}) == {"Statement": []}


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        ("*", True),
        ({"AWS": "*"}, True),
        ({"AWS": ROLE}, True),
        ({"AWS": ["arn:aws:iam::123456789012:role/other", ROLE]}, True),
        ({"AWS": "arn:aws:iam::123456789012:role/other"}, False),
        ({"AWS": "arn:aws:iam::123456789012:root"}, True),
        ({"AWS": "123456789012"}, True),
        ({"AWS": "210987654321"}, False),
        ({"AWS": UNKNOWN}, None),
        ({"AWS": [UNKNOWN, ROLE]}, True),
        ({"Service": "sns.amazonaws.com"}, False),
        (UNKNOWN, None),
    ],
)
def test_a_statement_names_a_role_or_its_account(principal: Any, expected: bool | None) -> None:
    assert names_role({"Principal": principal}, ROLE) is expected


def test_a_statement_that_leaves_out_principals_is_open() -> None:
    assert names_role({"NotPrincipal": "*"}, ROLE) is None


@pytest.mark.parametrize(("principal", "expected"), [("*", True), (ROLE, True), ("123456789012", False)])
def test_a_role_alone_is_not_its_account(principal: str, expected: bool) -> None:
    assert names_role({"Principal": {"AWS": principal}}, ROLE, with_account=False) is expected


def test_an_account_may_be_that_of_the_deployment() -> None:
    assert names_role({"Principal": {"AWS": "123456789012"}}, ROLE_HERE) is True
    assert names_role({"Principal": {"AWS": ROLE_HERE}}, ROLE) is False
    assert names_role({"Principal": {"AWS": KINDS["AWS::IAM::Role"].arn("shop")}}, ROLE) is None


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        ("*", True),
        ({"Service": "sns.amazonaws.com"}, True),
        ({"Service": ["events.amazonaws.com", "sns.amazonaws.com"]}, True),
        ({"Service": "events.amazonaws.com"}, False),
        ({"Service": UNKNOWN}, None),
        ({"AWS": "*"}, None),
        ({"AWS": ROLE}, False),
        ({"AWS": "*", "Service": "sns.amazonaws.com"}, True),
    ],
)
def test_a_statement_names_a_service(principal: Any, expected: bool | None) -> None:
    assert names_service({"Principal": principal}, "sns.amazonaws.com") is expected


CONTEXT: Final = {
    "aws:PrincipalArn": ROLE,
    "aws:SourceArn": None,
    "aws:PrincipalIsAWSService": "false",
    "a:b": "Yes",
    "a:account": HERE.account,
    "a:here": f"of-{HERE.account}",
}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({}, True),
        ({"StringEquals": {"a:b": "Yes"}}, True),
        ({"StringEquals": {"a:b": "yes"}}, False),
        ({"StringEquals": {"a:b": "Y*"}}, False),
        ({"StringLike": {"a:b": "Y*"}}, True),
        ({"StringLike": {"a:b": ["N*", "?es"]}}, True),
        ({"StringNotEquals": {"a:b": "Yes"}}, False),
        ({"StringNotEquals": {"a:b": ["No", "Never"]}}, True),
        ({"StringNotLike": {"a:b": "Y*"}}, False),
        ({"StringNotEquals": {"a:b": UNKNOWN}}, None),
        ({"StringEquals": {"a:b": UNKNOWN}}, None),
        ({"StringLike": {"a:b": UNKNOWN}}, None),
        ({"StringEquals": {"a:b": ["Yes", UNKNOWN]}}, True),
        ({"StringEquals": {"a:account": "123456789012"}}, True),
        ({"StringEquals": {"a:b": HERE.account}}, None),
        ({"StringEquals": {"a:here": f"of-{HERE.account}"}}, True),
        ({"StringEquals": {"a:here": f"of-{HERE.account}-too"}}, None),
        ({"ArnEquals": {"aws:PrincipalArn": "arn:aws:iam::*:role/sh*"}}, True),
        ({"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/b*"}}, False),
        ({"ArnNotEquals": {"aws:PrincipalArn": ROLE}}, False),
        ({"ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/b*"}}, True),
        ({"ArnEquals": {"aws:SourceArn": "*"}}, False),
        ({"ArnNotEquals": {"aws:SourceArn": "*"}}, True),
        ({"ArnEqualsIfExists": {"aws:SourceArn": "x"}}, True),
        ({"ArnEqualsIfExists": {"aws:PrincipalArn": "x"}}, False),
        ({"Bool": {"aws:PrincipalIsAWSService": "false"}}, True),
        ({"Bool": {"aws:PrincipalIsAWSService": False}}, True),
        ({"Bool": {"aws:PrincipalIsAWSService": "true"}}, False),
        ({"BoolIfExists": {"aws:SourceArn": "true"}}, True),
        ({"StringEquals": {"c:d": "x"}}, None),
        ({"NumericLessThan": {"a:b": "5"}}, None),
        ({"ForAllValues:StringEquals": {"a:b": "Yes"}}, None),
        ({"StringEquals": {"c:d": "x", "a:b": "No"}}, False),
        ({"StringEquals": {"a:b": "Yes"}, "Bool": {"aws:PrincipalIsAWSService": "true"}}, False),
        ({"StringEquals": UNKNOWN}, None),
        (UNKNOWN, None),
    ],
)
def test_a_condition_holds_or_not_or_is_open(condition: Any, expected: bool | None) -> None:
    [statement] = document(Condition=condition)["Statement"]
    assert holds(statement, SEND, QUEUE, CONTEXT) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"Action": "sqs:*"}, True),
        ({"Action": "SQS:sendmessage"}, True),
        ({"Action": ["sns:*", UNKNOWN]}, None),
        ({"Action": UNKNOWN}, None),
        ({"Action": 7}, None),
        ({"Action": "sns:*", "Resource": UNKNOWN}, False),
        ({"Resource": QUEUE.upper()}, False),
        ({"Resource": "arn:aws:sqs:*:*:ord*"}, True),
        ({"Resource": "arn:aws-cn:sqs:*:*:orders"}, True),
        ({"Resource": "orders"}, False),
        ({"Resource": "arn:aws:sqs"}, False),
        ({"Resource": KINDS["AWS::SQS::Queue"].arn("orders")}, None),
        ({"Resource": KINDS["AWS::SQS::Queue"].arn("others")}, False),
    ],
)
def test_a_statement_is_about_actions_and_resources(changes: Any, expected: bool | None) -> None:
    [statement] = document(**changes)["Statement"]
    assert holds(statement, SEND, QUEUE, {}) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"NotAction": "sqs:*"}, False),
        ({"NotAction": "sns:*"}, True),
        ({"NotAction": UNKNOWN}, None),
        ({"NotResource": QUEUE}, False),
        ({"NotResource": "arn:aws:sqs:*:*:x"}, True),
    ],
)
def test_a_statement_may_say_what_it_is_not_about(changes: Any, expected: bool | None) -> None:
    part = "Action" if "NotAction" in changes else "Resource"
    [statement] = document(**changes)["Statement"]
    del statement[part]
    assert holds(statement, SEND, QUEUE, {}) is expected


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([], False),
        ([document()], False),
        ([document(Effect="Deny")], True),
        ([document(), document(Effect="Deny")], True),
        ([document(Effect="Deny", Principal={"Service": "sns.amazonaws.com"})], False),
        ([document(Effect="Deny", Action="sqs:ReceiveMessage")], False),
        ([document(Effect="Deny", Condition={"Bool": {"aws:SecureTransport": "false"}})], False),
        ([document(Effect="Deny", Condition={"Bool": {"aws:PrincipalIsAWSService": "false"}})], True),
        ([document(Effect="Deny", Condition={"ArnNotEquals": {"aws:PrincipalArn": ROLE}})], False),
        ([document(Effect="Deny", Condition={"ArnNotEqualsIfExists": {"aws:PrincipalArn": [ROLE]}})], False),
        ([document(Effect="Deny", Condition={"ArnNotEquals": {"aws:SourceArn": "arn:aws:sns:x:y:z"}})], True),
        ([document(Effect="Deny", Condition={"StringNotEquals": {"aws:SourceAccount": "1"}})], True),
        ([document(Effect="Deny", Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}})], None),
        ([document(Effect="Deny", Principal=UNKNOWN)], None),
        ([document(Effect="Deny", Principal=UNKNOWN, Action="sns:*")], False),
        ([UNKNOWN], None),
        ([UNKNOWN, document(Effect="Deny")], True),
        ([{"Statement": ["x"]}], None),
    ],
)
def test_a_policy_of_a_resource_denies_a_role_or_not(documents: list[Any], expected: bool | None) -> None:
    assert denied_to(ROLE, documents, SEND, QUEUE) is expected


TOPIC: Final = "arn:aws:sns:eu-west-1:123456789012:news"
OF_TOPIC: Final = {"ArnEquals": {"aws:SourceArn": TOPIC}}
OTHERS: Final = {"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:*:others"}}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([], False),
        ([document()], True),
        ([document(Principal={"Service": "sns.amazonaws.com"}, Action="sqs:SendMessage")], True),
        ([document(Principal={"Service": "events.amazonaws.com"})], False),
        ([document(Principal={"AWS": "*"}, Condition=OF_TOPIC)], None),
        ([document(Principal={"AWS": "*"}, Condition=OTHERS)], False),
        ([document(Condition=OTHERS)], False),
        ([document(Condition=OTHERS), document(Condition=OF_TOPIC)], True),
        ([document(Condition={"StringEquals": {"aws:SourceAccount": "123456789012"}})], True),
        ([document(Condition={"StringEquals": {"aws:SourceAccount": "210987654321"}})], False),
        ([document(Condition={"Bool": {"aws:SecureTransport": "false"}})], False),
        ([document(Condition={"ArnEquals": {"aws:PrincipalArn": ROLE}})], False),
        ([document(Condition={"StringEquals": {"c:d": "x"}})], None),
        ([document(Action="sqs:ReceiveMessage")], False),
        ([document(Resource="arn:aws:sqs:eu-west-1:123456789012:other")], False),
        ([document(), document(Effect="Deny")], False),
        ([document(), document(Effect="Deny", Condition=OTHERS)], True),
        ([document(), document(Effect="Deny", Condition={"Bool": {"aws:PrincipalIsAWSService": "false"}})], True),
        ([document(), document(Effect="Deny", Condition={"StringEquals": {"c:d": "x"}})], None),
        ([UNKNOWN], None),
        ([UNKNOWN, document()], True),
        ([{"Statement": ["x"]}], None),
    ],
)
def test_the_policies_of_a_queue_let_a_topic_in_or_not(documents: list[Any], expected: bool | None) -> None:
    assert service_may_send("sns.amazonaws.com", TOPIC, documents, QUEUE) is expected


@pytest.mark.parametrize(("condition", "expected"), [({}, True), (OTHERS, None), (OF_TOPIC, None)])
def test_a_rule_whose_arn_is_open_may_be_let_in(condition: Any, expected: bool | None) -> None:
    documents = [document(Condition=condition)]
    assert service_may_send("events.amazonaws.com", UNKNOWN, documents, QUEUE) is expected


def test_a_statement_of_a_role_that_is_none_leaves_it_open() -> None:
    assert allowed([{"Statement": ["x"]}], SEND, QUEUE, {}) is None
    assert allowed([{"Statement": ["x"]}, document(Effect="Deny")], SEND, QUEUE, {}) is False


ROOT: Final = {"AWS": "arn:aws:iam::123456789012:root"}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (document(), True),
        (document(Principal=ROOT), "account"),
        (document(Principal={"AWS": ROLE}), True),
        (document(Resource="arn:aws:kms:eu-west-1:123456789012:key/it"), True),
        (document(Principal={"AWS": "arn:aws:iam::1:root"}), False),
        (document(Principal=ROOT, Action="kms:Encrypt"), False),
        (document(Principal=ROOT, Condition={"StringEquals": {"c:d": "x"}}), None),
        (document(Condition={"StringEquals": {"kms:ViaService": "sqs.eu-west-1.amazonaws.com"}}), True),
        (document(Condition={"StringEquals": {"kms:ViaService": "sns.eu-west-1.amazonaws.com"}}), False),
        (document(Effect="Deny"), False),
        (UNKNOWN, None),
        ({"Statement": [*document(Principal=ROOT)["Statement"], UNKNOWN]}, "account"),
        ({"Statement": [UNKNOWN, *document()["Statement"]]}, True),
    ],
)
def test_the_policy_of_a_key_lets_a_role_use_it(policy: Any, expected: str | bool | None) -> None:
    context = {"kms:ViaService": "sqs.eu-west-1.amazonaws.com"}
    assert key_lets_role(policy, ROLE, "kms:Decrypt", context) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (document(), True),
        (document(Principal={"Service": "sns.amazonaws.com"}), True),
        (document(Principal={"Service": "events.amazonaws.com"}), False),
        (document(Principal=ROOT), False),
        (document(Condition={"ArnEquals": {"aws:SourceArn": "arn:aws:sns:x:y:z"}}), None),
        (document(Action="kms:Encrypt"), False),
        (UNKNOWN, None),
    ],
)
def test_the_policy_of_a_key_lets_a_service_use_it(policy: Any, expected: bool | None) -> None:
    assert key_lets_service(policy, "sns.amazonaws.com", "kms:Decrypt") is expected

"""``flowguard doctor`` on keys that live resources are under and that no option names."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.key_checks import check_keys
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.options import AlarmTopicOptions
from flowguard.sim.calls import intercept
from tests.deploy.deployed import REGION, Stack
from tests.deploy.test_doctor import KILLED, NEEDED, OPTIONS, PACK, SESSION, Refusing, attribute, findings, stack

__all__ = ["stack"]
ROOT: Final = "arn:aws:iam::123456789012:root"
SERVICES: Final = ["sns.amazonaws.com", "events.amazonaws.com"]


def made(stack: Stack, principal: Any, **more: Any) -> str:
    """Make a key. Returns its ARN."""
    statement = {"Effect": "Allow", "Principal": principal, "Action": "kms:*", "Resource": "*", **more}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    return str(stack.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"])


def simulated(*denied: str) -> Refusing:
    """What IAM says: all is allowed but these actions."""

    def answer(params: Any) -> Any:
        return {
            "EvaluationResults": [
                {"EvalActionName": action, "EvalDecision": "implicitDeny" if action in denied else "allowed"}
                for action in params["ActionNames"]
            ]
        }

    return Refusing("SimulatePrincipalPolicy", answer=answer)


def of_keys(stack: Stack, *denied: str) -> list[LiveFinding]:
    with intercept(simulated(*denied)):
        return [each for each in findings(stack) if each.rule == "key-denied"]


def told(looked: list[LiveFinding]) -> set[tuple[str, str]]:
    return {(each.resource, each.severity.value) for each in looked}


@pytest.mark.slow("asks about each part of a deployment")
def test_a_key_that_all_who_need_it_may_use_is_right(stack: Stack) -> None:
    attribute(stack, PACK, KmsMasterKeyId=made(stack, {"AWS": ROOT, "Service": SERVICES}))
    assert of_keys(stack) == []


@pytest.mark.slow("asks about each part of a deployment")
def test_a_role_that_may_not_use_the_key_is_found(stack: Stack) -> None:
    attribute(stack, PACK, KmsMasterKeyId=made(stack, {"AWS": ROOT, "Service": SERVICES}))
    looked = of_keys(stack, "kms:Decrypt")
    assert told(looked) == {(KILLED, "error"), (PACK, "error")}, "who reads it, and who reads what it gives up"
    assert "may not kms:Decrypt with the key arn:aws:kms" in looked[0].what
    assert "through sqs" in looked[0].what


@pytest.mark.slow("asks about each part of a deployment")
def test_a_key_that_lets_the_role_itself_asks_for_no_policy_of_the_role(stack: Stack) -> None:
    attribute(stack, PACK, KmsMasterKeyId=made(stack, "*"))
    assert of_keys(stack, "kms:Decrypt") == []


@pytest.mark.slow("asks about each part of a deployment")
def test_a_key_that_nobody_may_use_is_found_whatever_the_role_may(stack: Stack) -> None:
    attribute(
        stack, PACK, KmsMasterKeyId=made(stack, {"AWS": "arn:aws:iam::123456789012:role/theirs", "Service": SERVICES})
    )
    assert told(of_keys(stack)) == {(KILLED, "error"), (PACK, "error")}


@pytest.mark.slow("asks about each part of a deployment")
def test_a_topic_that_may_not_use_the_key_of_its_queue_is_found(stack: Stack) -> None:
    attribute(stack, PACK, KmsMasterKeyId=made(stack, {"AWS": ROOT}))
    [looked] = of_keys(stack)
    assert (looked.resource, looked.severity.value) == (PACK, "error")
    assert "does not let sns.amazonaws.com kms:Decrypt, kms:GenerateDataKey" in looked.what


@pytest.mark.slow("asks about each part of a deployment")
def test_a_rule_that_may_not_use_the_key_of_its_queue_is_found(stack: Stack) -> None:
    attribute(stack, "everything-events", KmsMasterKeyId=made(stack, {"AWS": ROOT}))
    [looked] = of_keys(stack)
    assert (looked.resource, looked.severity.value) == ("everything-events", "error")
    assert "does not let events.amazonaws.com" in looked.what


@pytest.mark.slow("asks about each part of a deployment")
def test_a_queue_that_nothing_feeds_needs_no_service(stack: Stack) -> None:
    attribute(stack, "to-ship.fifo", KmsMasterKeyId=made(stack, {"AWS": ROOT}))
    assert of_keys(stack) == []


@pytest.mark.slow("asks about each part of a deployment")
@pytest.mark.parametrize("by", ["id", "alias"])
def test_a_key_may_go_by_its_id_or_an_alias(by: str, stack: Stack) -> None:
    arn = made(stack, {"AWS": ROOT})
    stack.client("kms").create_alias(AliasName="alias/ours", TargetKeyId=arn)
    attribute(stack, PACK, KmsMasterKeyId=arn.rpartition("/")[2] if by == "id" else "alias/ours")
    [looked] = of_keys(stack)
    assert arn in looked.what


@pytest.mark.slow("asks about each part of a deployment")
def test_a_key_of_aws_lets_all_of_its_account_use_it(stack: Stack) -> None:
    def answer(params: Any) -> Any:
        arn = f"arn:aws:kms:{REGION}:123456789012:key/{params['KeyId']}"
        return {"KeyMetadata": {"KeyId": "x", "Arn": arn, "KeyManager": "AWS"}}

    attribute(stack, PACK, KmsMasterKeyId="alias/aws/sqs")
    with intercept(Refusing("DescribeKey", answer=answer)):
        assert of_keys(stack, "kms:Decrypt") == []


@pytest.mark.slow("asks about each part of a deployment")
def test_a_key_whose_policy_may_not_be_read_is_judged_by_the_roles(stack: Stack) -> None:
    attribute(stack, PACK, KmsMasterKeyId=made(stack, {"AWS": ROOT}))
    with intercept(Refusing("GetKeyPolicy")):
        assert told(of_keys(stack, "kms:Decrypt")) == {(KILLED, "warning"), (PACK, "warning")}
        assert of_keys(stack) == []


@pytest.mark.slow("asks about each part of a deployment")
def test_a_condition_that_is_not_known_leaves_it_open(stack: Stack) -> None:
    condition = {"StringEquals": {"kms:CallerAccount": "123456789012"}}
    attribute(stack, PACK, KmsMasterKeyId=made(stack, {"AWS": "*", "Service": SERVICES}, Condition=condition))
    assert of_keys(stack, "kms:Decrypt") == []
    other = {"StringEquals": {"kms:ViaService": f"dynamodb.{REGION}.amazonaws.com"}}
    attribute(stack, PACK, KmsMasterKeyId=made(stack, {"AWS": "*", "Service": SERVICES}, Condition=other))
    assert told(of_keys(stack)) == {(KILLED, "error"), (PACK, "error")}


@pytest.mark.slow("asks about each part of a deployment")
def test_the_keys_of_tables_and_topics_count_too(stack: Stack) -> None:
    key = made(stack, {"AWS": ROOT, "Service": SERVICES})
    stack.client("sns").set_topic_attributes(
        TopicArn=f"arn:aws:sns:{REGION}:123456789012:orders-placed", AttributeName="KmsMasterKeyId", AttributeValue=key
    )
    assert of_keys(stack) == []
    dynamodb = stack.client("dynamodb")
    dynamodb.delete_table(TableName="lines")
    dynamodb.create_table(
        TableName="lines",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
        SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": key},
    )
    [looked] = of_keys(stack, "kms:Encrypt")
    assert looked.resource == PACK
    assert "through dynamodb" in looked.what


ON_CALL: Final = f"arn:aws:sns:{REGION}:123456789012:on-call"


def of_alarms(stack: Stack, key: str | None) -> list[LiveFinding]:
    options = OPTIONS.model_copy(update={"alarm_topic": AlarmTopicOptions(arn=ON_CALL, kms_key=key)})
    with intercept(simulated()):
        return [*check_keys(NEEDED, options, LiveAccount(SESSION))]


@pytest.mark.slow("asks about each part of a deployment")
def test_a_key_that_keeps_alarms_out_is_found(stack: Stack) -> None:
    closed = made(stack, {"AWS": ROOT, "Service": SERVICES})
    [looked] = of_alarms(stack, closed)
    assert (looked.rule, looked.severity.value, looked.resource) == ("key-denied", "error", ON_CALL)
    assert looked.what == (
        f"the policy of its key {closed} does not let cloudwatch.amazonaws.com kms:Decrypt, kms:GenerateDataKey"
    )
    assert of_alarms(stack, made(stack, {"AWS": ROOT, "Service": "cloudwatch.amazonaws.com"})) == []
    assert of_alarms(stack, None) == []
    with intercept(Refusing("GetKeyPolicy")):
        assert of_alarms(stack, closed) == []


@pytest.mark.slow("asks about each part of a deployment")
def test_what_no_key_is_asked_for_asks_no_policy(stack: Stack) -> None:
    with intercept(Refusing("GetKeyPolicy")):
        assert [each.rule for each in findings(stack) if each.rule in ("not-read", "key-denied")] == []

"""What the owners of other accounts add to the policies of their resources: as much as the functions do there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from flowguard.cli import main
from flowguard.deploy.foreign_policies import policies_of_others
from flowguard.deploy.key_policy import key_policy
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.statement_names import of_environment
from tests.deploy import everything, streaming, topics
from tests.deploy.exercised import needs

HERE: Final = "123456789012"
ROOT: Final = {"AWS": f"arn:aws:iam::{HERE}:root"}
THEIR_QUEUE: Final = "arn:aws:sqs:eu-west-1:210987654321:theirs"
TABLE: Final = "arn:aws:dynamodb:eu-west-1:210987654321:table/lines-of-all"
NEWS: Final = "arn:aws:sns:eu-west-1:210987654321:news.fifo"


def policies(account: str = HERE, **given: Any) -> dict[str, list[dict[str, Any]]]:
    options = DeployOptions.model_validate({**everything.OPTIONS, "account": account, **given})
    found = json.loads(policies_of_others(needs("tests.deploy.everything", options=options), options))
    assert {policy["Version"] for policy in found.values()} <= {"2012-10-17"}
    return {arn: policy["Statement"] for arn, policy in found.items()}


def test_a_queue_of_another_account_lets_functions_send() -> None:
    assert policies() == {
        THEIR_QUEUE: [
            {
                "Sid": "Functions",
                "Effect": "Allow",
                "Principal": ROOT,
                "Action": ["sqs:GetQueueUrl", "sqs:SendMessage"],
                "Resource": THEIR_QUEUE,
            }
        ]
    }


@pytest.mark.parametrize("partition", ["aws", "aws-cn"])
def test_a_topic_of_another_account_lets_the_alarms_of_this_one_publish(partition: str) -> None:
    topic = f"arn:{partition}:sns:eu-west-1:210987654321:on-call"
    [statement] = policies(alarm_topic={"arn": topic})[topic]
    assert statement == {
        "Sid": "AlarmsAreSent",
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Action": ["sns:Publish"],
        "Resource": topic,
        "Condition": {"ArnLike": {"aws:SourceArn": f"arn:{partition}:cloudwatch:eu-west-1:{HERE}:alarm:*"}},
    }
    own = topic.replace("210987654321", HERE)
    assert own not in policies(alarm_topic={"arn": own})


def test_a_queue_that_a_url_names_is_one_too() -> None:
    found = policies("999999999999")
    answers = "arn:aws:sqs:eu-west-1:123456789012:answers-here"
    assert found[answers][0]["Action"] == ["sqs:SendMessage"]
    assert found[answers][0]["Principal"] == {"AWS": "arn:aws:iam::999999999999:root"}


def test_a_table_lets_functions_do_what_their_stages_do() -> None:
    place = TABLE.rpartition("/")[0]
    theirs = {name: {"name": f"{place}/{name}"} for name in ("flowguard", "orders.a", "orders-a")}
    [statement] = policies(tables={**theirs, "lines": {"name": TABLE}})[TABLE]
    modified = ("ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "UpdateItem")
    assert statement["Action"] == [f"dynamodb:{action}" for action in modified]
    assert statement["Resource"] == TABLE


def test_a_topic_lets_functions_publish_and_queues_be_subscribed() -> None:
    publish, subscribe, look = policies(topics={"news.fifo": {"name": NEWS}})[NEWS]
    assert publish["Action"] == ["sns:Publish"]
    assert (subscribe["Sid"], subscribe["Action"], subscribe["Resource"]) == ("Subscriptions", ["sns:Subscribe"], NEWS)
    queue = f"arn:aws:sqs:eu-west-1:{HERE}:everything-news.fifo"
    assert subscribe["Condition"] == {"StringEquals": {"sns:Protocol": "sqs", "sns:Endpoint": [queue]}}
    assert look == {
        "Sid": "SubscriptionsAreRead",
        "Effect": "Allow",
        "Principal": ROOT,
        "Action": ["sns:GetTopicAttributes", "sns:ListSubscriptionsByTopic"],
        "Resource": NEWS,
    }


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("*", ["Functions", "Subscriptions", "SubscriptionsAreRead"]),
        ("staging-*", ["StagingFunctions", "StagingSubscriptions", "StagingSubscriptionsAreRead"]),
        ("*-of_qA", ["FunctionsOfQA9c9db34a", "SubscriptionsOfQA9c9db34a", "SubscriptionsAreReadOfQA9c9db34a"]),
    ],
)
def test_the_statements_of_two_environments_stand_in_one_policy(rule: str, names: list[str]) -> None:
    settings = {**everything.OPTIONS["settings"], "names": rule}
    found = policies(topics={"news.fifo": {"name": NEWS}}, settings=settings)[NEWS]
    assert [statement["Sid"] for statement in found] == names


def test_a_topic_without_a_queue_here_is_subscribed_by_nobody() -> None:
    options = DeployOptions.model_validate(
        {**everything.OPTIONS, "account": HERE, "topics": {"news.fifo": {"name": NEWS}}}
    )
    needed = needs("tests.deploy.everything", options=options)
    alone = replace(needed, queues=tuple(replace(queue, topics=()) for queue in needed.queues))
    found = json.loads(policies_of_others(alone, options))
    assert "Subscriptions" not in {one["Sid"] for one in found.get(NEWS, {"Statement": []})["Statement"]}


def test_a_bucket_of_another_account_lets_functions_read_and_write_below_the_prefix() -> None:
    settings = {**everything.OPTIONS["settings"], "bucket_owner": "210987654321"}
    bucket = policies(settings=settings)["arn:aws:s3:::long-texts"]
    assert [(one["Action"], one["Resource"]) for one in bucket] == [
        (["s3:ListBucket"], "arn:aws:s3:::long-texts"),
        (["s3:GetObject", "s3:PutObject"], "arn:aws:s3:::long-texts/here/*"),
    ]
    assert "arn:aws:s3:::long-texts" not in policies(settings={**settings, "bucket_owner": HERE})


def test_no_two_statements_of_a_policy_have_one_name() -> None:
    settings = {**everything.OPTIONS["settings"], "bucket_owner": "210987654321"}
    found = policies(settings=settings, topics={"news.fifo": {"name": NEWS}})
    names = {arn: [statement["Sid"] for statement in statements] for arn, statements in found.items()}
    assert names["arn:aws:s3:::long-texts"] == ["Functions", "Functions2"]
    assert names[NEWS] == ["Functions", "Subscriptions", "SubscriptionsAreRead"]
    assert all(len(set(each)) == len(each) for each in names.values())


@pytest.mark.parametrize(
    ("name", "arn"),
    [
        ("clicked", "arn:aws:kinesis:eu-west-1:210987654321:stream/clicked"),
        ("prices", "arn:aws:dynamodb:eu-west-1:210987654321:table/prices/stream/2026-11-01T00:00:00.000"),
    ],
)
def test_a_stream_lets_functions_read_it(name: str, arn: str) -> None:
    streams = {**streaming.OPTIONS["streams"], name: {"arn": arn}}
    options = DeployOptions.model_validate({**streaming.OPTIONS, "streams": streams, "account": HERE})
    needed = needs("tests.deploy.streaming", options=options)
    [statement] = json.loads(policies_of_others(needed, options))[arn]["Statement"]
    [reading] = {one for each in needed.functions for one in each.permissions if one.name == arn}
    assert statement == {
        "Sid": "Functions",
        "Effect": "Allow",
        "Principal": ROOT,
        "Action": [*reading.actions],
        "Resource": arn,
    }


def test_the_policy_of_a_cluster_of_kafka_is_its_owners_to_write() -> None:
    options = DeployOptions.model_validate({**topics.OPTIONS, "account": "999999999999"})
    found = json.loads(policies_of_others(needs("tests.deploy.topics", options=options), options))
    assert not [arn for arn in found if ":kafka:" in arn]


def test_a_secret_of_another_account_lets_functions_read_it() -> None:
    secret = "arn:aws:secretsmanager:eu-west-1:210987654321:secret:keys-1a2b3c"
    [statement] = policies(settings={"signing_keys": f"secretsmanager:{secret}"})[secret]
    assert (statement["Action"], statement["Resource"]) == (["secretsmanager:GetSecretValue"], secret)


@pytest.mark.parametrize(
    ("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov"), ("eu-west-1", "aws")]
)
def test_principals_and_buckets_are_of_the_partition_of_the_deployment(region: str, partition: str) -> None:
    given = {"account": HERE, "region": region, "settings": {"bucket": "texts", "bucket_owner": "210987654321"}}
    options = DeployOptions.model_validate(given)
    found = json.loads(policies_of_others(needs("flows.take_payment.handlers", options=options), options))
    assert list(found) == [f"arn:{partition}:s3:::texts"]
    for statement in found[f"arn:{partition}:s3:::texts"]["Statement"]:
        assert statement["Principal"] == {"AWS": f"arn:{partition}:iam::{HERE}:root"}
        assert statement["Resource"].startswith(f"arn:{partition}:s3:::texts")


def test_without_a_region_the_partition_is_that_of_what_is_named_by_arn() -> None:
    queue = THEIR_QUEUE.replace(":aws:", ":aws-cn:").replace("eu-west-1", "cn-north-1")
    options = DeployOptions.model_validate({"account": HERE, "queues": {"payment-results": {"name": queue}}})
    found = json.loads(policies_of_others(needs("flows.take_payment.handlers", options=options), options))
    assert found[queue]["Statement"][0]["Principal"] == {"AWS": f"arn:aws-cn:iam::{HERE}:root"}


def test_what_has_no_arn_is_of_the_account_itself() -> None:
    options = DeployOptions(account=HERE)
    assert json.loads(policies_of_others(needs("flows.take_payment.handlers", options=options), options)) == {}


def test_the_command_prints_them_and_wants_to_know_the_account(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(f'account = "{HERE}"')
    command = ["iac", "tests.deploy.everything", "--foreign-policies"]
    ran = CliRunner().invoke(main, [*command, "--options", str(file)])
    assert list(json.loads(ran.stdout)) == [THEIR_QUEUE]
    refused = CliRunner().invoke(main, command)
    assert (refused.exit_code, "say account" in refused.stderr) == (2, True)
    with pytest.raises(CannotDeploy):
        policies_of_others(needs("flows.take_payment.handlers"), DeployOptions())


def test_rules_that_differ_have_statements_of_different_names() -> None:
    rules = (
        *("*", "a-*", "a_*", "a*", "A-*", "a--*", "-a-*", "a-b-*", "ab-*", "aB-*", "a-1-*", "a1-*", "1-*"),
        *("*-a", "*_a", "*a", "*-a-", "a-*-b", "*-a-b", "a-b-*-c", "a-*-b-c"),
    )
    named = {rule: next(each["Sid"] for each in of_environment([{"Sid": "Logs"}], rule)) for rule in rules}
    assert len({*named.values()}) == len(rules)
    assert all(sid.isalnum() and sid.isascii() for sid in named.values())
    assert (named["*"], named["a-*"], named["a-b-*-c"]) == ("Logs", "ALogs", "ABLogsC")


def test_a_key_of_another_account_lets_what_its_own_policy_needs() -> None:
    key = "arn:aws:kms:eu-west-1:210987654321:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    options = DeployOptions.model_validate({**everything.OPTIONS, "account": HERE, "kms_key": key})
    needed = needs("tests.deploy.everything", options=options)
    alone = [*key_policy(needed, key, options)["Statement"]]
    assert policies(kms_key=key)[key] == alone != []
    own = key.replace("210987654321", HERE)
    assert own not in policies(kms_key=own)


def test_a_key_that_another_stack_exports_is_of_this_account(tmp_path: Path) -> None:
    (tmp_path / "options.toml").write_text(f'account = "{HERE}"\nkms_key = "import:Key"\n')
    command = ["iac", "flows.take_payment.handlers", "--options", str(tmp_path / "options.toml"), "--foreign-policies"]
    assert json.loads(CliRunner().invoke(main, command).stdout) == {}

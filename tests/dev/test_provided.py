"""What is created for a deployment: the resources that its template has, and nothing twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.deploy.derive import needs_of
from flowguard.deploy.found import find_functions
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.dev.provided import Provider
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.table_keys import create_run_table
from flows.page_cache.flow import ITEMS
from tests.deploy.everything import NEWS, PAID, PLACED

OPTIONS = DeployOptions()
IRELAND = "eu-west-1"


@pytest.fixture
def aws() -> Iterator[EmbeddedAWS]:
    with EmbeddedAWS() as found:
        yield found


def deployment_of(module: str) -> Deployment:
    return needs_of(find_functions([module]), OPTIONS)


def provided(deployment: Deployment, bucket: str | None = None, region: str = REGION) -> list[str]:
    return Provider(Clients(), ACCOUNT_ID, region).provide(deployment, bucket)


def queue(aws: EmbeddedAWS, name: str) -> Any:
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


@pytest.mark.parametrize("module", ["flows.orders.handlers", "flows.approval.handlers", "flows.page_cache.handlers"])
def test_a_deployment_has_all_its_tables_and_queues(aws: EmbeddedAWS, module: str) -> None:
    deployment = deployment_of(module)
    assert provided(deployment) == provided(deployment) == []
    tables = aws.client("dynamodb").list_tables()["TableNames"]
    assert {one.name for one in deployment.tables} == set(tables)
    for one in deployment.queues:
        found = queue(aws, one.name)
        assert (int(found["VisibilityTimeout"]), int(found["MessageRetentionPeriod"])) == (
            one.visibility,
            one.retention,
        )
        policy = json.loads(found.get("RedrivePolicy", "{}"))
        assert policy.get("deadLetterTargetArn", "").rpartition(":")[2] == (one.give_up_to or "")
    ttl = aws.client("dynamodb").describe_time_to_live(TableName=deployment.run_table)["TimeToLiveDescription"]
    assert ttl["TimeToLiveStatus"] == "ENABLED"


def test_queues_get_what_the_module_says_today(aws: EmbeddedAWS) -> None:
    deployment = deployment_of("flows.orders.handlers")
    name = next(one.name for one in deployment.queues if one.reader)
    aws.create_queue(name, VisibilityTimeout="1")
    provided(deployment)
    assert queue(aws, name)["VisibilityTimeout"] == str(deployment.queue(name).visibility)


def test_items_are_put_into_new_tables_alone(aws: EmbeddedAWS) -> None:
    deployment, dynamodb = deployment_of("flows.page_cache.handlers"), aws.client("dynamodb")
    [table] = [name for name in ITEMS if ITEMS[name]]
    provided(deployment)
    [first, *more] = dynamodb.scan(TableName=table)["Items"]
    assert len(more) == len(ITEMS[table]) - 1
    names = [one["AttributeName"] for one in dynamodb.describe_table(TableName=table)["Table"]["KeySchema"]]
    dynamodb.delete_item(TableName=table, Key={name: first[name] for name in names})
    provided(deployment)
    assert dynamodb.scan(TableName=table)["Items"] == more


def test_what_topics_and_events_bring_arrives() -> None:
    with EmbeddedAWS(region=IRELAND) as aws:
        deployment = deployment_of("tests.deploy.everything")
        elsewhere = ["the queue arn:aws:sqs:eu-west-1:210987654321:theirs is elsewhere, and not made here"]
        assert provided(deployment, region=IRELAND) == provided(deployment, region=IRELAND) == elsewhere
        sns, events = aws.client("sns"), aws.client("events")
        sns.publish(TopicArn=PLACED.arn, Message="placed")
        sns.publish(TopicArn=NEWS.arn, Message="news", MessageGroupId="g", MessageDeduplicationId="d")
        [rule] = events.list_rules()["Rules"]
        [target] = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
        bodies = [body for one in deployment.queues if one.name != "theirs" for body in received(aws, one.name)]
    assert sorted(body["Message"] for body in bodies) == ["news", "placed"]
    assert json.loads(rule["EventPattern"]) == {"source": [PAID.source], "detail-type": [PAID.detail_type]}
    assert deployment.queue(target["Arn"].rpartition(":")[2]).rules == (PAID,)


def received(aws: EmbeddedAWS, name: str) -> list[Any]:
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    return [json.loads(one["Body"]) for one in sqs.receive_message(QueueUrl=url).get("Messages", [])]


def test_a_topic_of_another_account_or_region_is_noted(aws: EmbeddedAWS) -> None:
    notes = provided(deployment_of("tests.deploy.everything"))
    assert (
        f"the topic {PLACED.arn} is elsewhere; start with --region eu-west-1 --account 123456789012 to have it" in notes
    )
    assert aws.client("sns").list_topics()["Topics"] == []


def test_the_scheduler_has_the_group_of_long_delays(aws: EmbeddedAWS) -> None:
    deployment = deployment_of("flows.approval.handlers")
    provided(deployment)
    groups = aws.client("scheduler").list_schedule_groups()["ScheduleGroups"]
    assert deployment.scheduler_group in {one.get("Name") for one in groups}


@pytest.mark.usefixtures("aws")
def test_a_schedule_is_noted_for_nobody_plays_it_here() -> None:
    told = "is not played here; send its payload with 'flowguard send'"
    assert [note for note in provided(deployment_of("tests.deploy.ticking")) if "schedule" in note] == [
        f"the schedule reports-daily of reports {told}",
        f"the schedule reports-monthly of reports {told}",
        f"the schedule sweeps-tick of sweeps {told}",
    ]


def test_the_bucket_of_long_texts_is_there(aws: EmbeddedAWS) -> None:
    provided(deployment_of("flows.orders.handlers"), "texts")
    provided(deployment_of("flows.orders.handlers"), "texts")
    assert [one["Name"] for one in aws.client("s3").list_buckets()["Buckets"]] == ["texts"]


def test_a_table_of_keys_expires_by_its_own_attribute(aws: EmbeddedAWS) -> None:
    assert provided(deployment_of("tests.deploy.charging")) == []
    dynamodb = aws.client("dynamodb")
    for table, attribute in (("flowguard", "ttl"), ("idempotency", "expiration"), ("refunds", "expires_at")):
        ttl = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        assert ttl == {"AttributeName": attribute, "TimeToLiveStatus": "ENABLED"}


def test_the_runs_have_the_index_by_which_lists_find_them(aws: EmbeddedAWS) -> None:
    """A table that an older state has brought back gets it too."""
    deployment, dynamodb = deployment_of("flows.orders.handlers"), aws.client("dynamodb")
    create_run_table(dynamodb, deployment.run_table)
    provided(deployment)
    provided(deployment)
    [index] = dynamodb.describe_table(TableName=deployment.run_table)["Table"]["GlobalSecondaryIndexes"]
    keys = [part["AttributeName"] for part in index["KeySchema"]]
    assert (index["IndexName"], keys) == ("runs-by-status", ["status", "pk"])
    others = {table.name for table in deployment.tables} - {deployment.run_table}
    tables = [dynamodb.describe_table(TableName=name)["Table"] for name in others]
    assert not any(table.get("GlobalSecondaryIndexes") for table in tables)

"""Creates what a deployment needs on an engine. What is there stays; queues get the attributes of today."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.faults import error_code
from flowguard.deploy.arns import rule_name
from flowguard.deploy.needs import Deployment, QueueNeed, TopicNeed
from flowguard.destinations import Bus
from flowguard.project.declared import GivenItems, Keys, declared_items, modules_of_flows, read_items
from flowguard.sim.table_keys import add_run_index, create_run_table, create_table

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_DEFAULT_BUS: Final = "default"


class Provider:
    """Creates what a deployment needs in one account and region, from tables to the bucket."""

    def __init__(self, clients: Clients, account: str, region: str) -> None:
        self._clients = clients
        self._account = account
        self._region = region

    def provide(self, deployment: Deployment, bucket: str | None = None) -> list[str]:
        """Create what is missing, and return notes on what cannot be had here."""
        notes = [*self._tables(deployment)]
        made = [queue for queue in deployment.queues if queue.arn is None or self._is_here(queue.arn)]
        notes += [
            f"the queue {queue.arn} is elsewhere, and not made here" for queue in deployment.queues if queue not in made
        ]
        for queue in made:
            _create_queue(self._clients.sqs, queue)
        for queue in made:
            _set_attributes(self._clients.sqs, queue, self._arn(queue.give_up_to) if queue.give_up_to else None)
        notes += self._topics(deployment.topics)
        for queue in made:
            self._feed(queue)
        notes += [
            f"{function.name} reads a stream of {stream.kind}, {stream.name}, and streams are not played here; give an "
            f"event of it to 'flowguard replay'"
            for function in deployment.functions
            for stream in function.streams
        ]
        notes += [
            f"the schedule {schedule.name} of {schedule.owner} is not played here; send its payload with "
            f"'flowguard send'"
            for schedule in deployment.schedules
        ]
        if deployment.long_delays:
            self._schedule_group(deployment.scheduler_group)
        if bucket is not None:
            self._bucket(bucket)
        return notes

    def _arn(self, queue: str) -> str:
        return f"arn:aws:sqs:{self._region}:{self._account}:{queue}"

    # -- tables

    def _tables(self, deployment: Deployment) -> Iterator[str]:
        dynamodb = self._clients.dynamodb
        there = {name for page in dynamodb.get_paginator("list_tables").paginate() for name in page["TableNames"]}
        new: dict[str, Any] = {}
        for table in deployment.tables:
            if table.name in there:
                if table.name == deployment.run_table:
                    add_run_index(dynamodb, table.name)
                continue
            if not table.key.names:
                yield f"the table {table.name} is not made: its key is in no TABLES of a flow's module"
            elif table.name == deployment.run_table:
                create_run_table(dynamodb, table.name)
                add_run_index(dynamodb, table.name)
            else:
                names, types, indexes = table.key
                create_table(dynamodb, table.name, *names, types=types, indexes=indexes)
                if table.ttl is not None:
                    expiry: Any = {"Enabled": True, "AttributeName": table.ttl}
                    dynamodb.update_time_to_live(TableName=table.name, TimeToLiveSpecification=expiry)
                new[table.name] = table.key
        self._put_items(declared_items(modules_of_flows(deployment.flows)), new)

    def _put_items(self, items: GivenItems, new: Keys) -> None:
        """Put ``ITEMS`` of the flows' modules into the tables that are new."""
        listed = {table: rows for table, rows in items.items() if table in new}
        for table, item in read_items(listed, new):
            self._clients.dynamodb.put_item(TableName=table, Item=item)

    # -- what feeds queues

    def _topics(self, topics: Iterable[TopicNeed]) -> Iterator[str]:
        for topic in topics:
            if not self._is_here(topic.arn):
                region, account = topic.arn.split(":")[3:5]
                yield f"the topic {topic.arn} is elsewhere; start with --region {region} --account {account} to have it"
                continue
            attributes = {"FifoTopic": "true"} if topic.fifo else {}
            self._clients.sns.create_topic(Name=topic.name, Attributes=attributes)

    def _is_here(self, arn: str) -> bool:
        return arn.split(":")[3:5] == [self._region, self._account]

    def _feed(self, queue: QueueNeed) -> None:
        for topic in queue.topics:
            if self._is_here(topic):
                self._clients.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=self._arn(queue.name))
        for bus in queue.rules:
            self._rule(queue, bus)

    def _rule(self, queue: QueueNeed, bus: Bus) -> None:
        events, name = self._clients.events, bus.name.rpartition("/")[2]
        if name != _DEFAULT_BUS:
            _unless_there(lambda: events.create_event_bus(Name=name))
        rule = rule_name(queue.name, bus)
        pattern = {"source": [bus.source], "detail-type": [bus.detail_type]}
        events.put_rule(Name=rule, EventBusName=name, EventPattern=json.dumps(pattern))
        events.put_targets(Rule=rule, EventBusName=name, Targets=[{"Id": "queue", "Arn": self._arn(queue.name)}])

    # -- the rest

    def _schedule_group(self, name: str) -> None:
        _unless_there(lambda: self._clients.scheduler.create_schedule_group(Name=name))

    def _bucket(self, name: str) -> None:
        where: Any = {} if self._region == "us-east-1" else {"LocationConstraint": self._region}
        given: Any = {"CreateBucketConfiguration": where} if where else {}
        _unless_there(lambda: self._clients.s3.create_bucket(Bucket=name, **given))


def _unless_there(create: Any) -> None:
    try:
        create()
    except ClientError as error:
        if error_code(error) not in (
            "BucketAlreadyOwnedByYou",
            "ConflictException",
            "ResourceAlreadyExistsException",
        ):
            raise


def _create_queue(sqs: SQSClient, queue: QueueNeed) -> None:
    """Create a queue that is not there. One that is may have other attributes, which SQS would refuse."""
    try:
        sqs.get_queue_url(QueueName=queue.name)
    except ClientError:
        fifo: Any = {"FifoQueue": "true"} if queue.fifo else {}
        sqs.create_queue(QueueName=queue.name, Attributes=fifo)


def _set_attributes(sqs: SQSClient, queue: QueueNeed, give_up_to: str | None) -> None:
    attributes: Any = {
        "VisibilityTimeout": str(queue.visibility),
        "MessageRetentionPeriod": str(queue.retention),
    }
    if give_up_to is not None:
        policy = {"deadLetterTargetArn": give_up_to, "maxReceiveCount": queue.max_receive_count}
        attributes["RedrivePolicy"] = json.dumps(policy)
    url = sqs.get_queue_url(QueueName=queue.name)["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)

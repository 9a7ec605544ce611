"""The engines, each with the same destinations."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3

from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.table_keys import create_table
from tests.refusals.case import BUCKET, TABLE, Places

IN_PROCESS: Mapping[str, Callable[[], AWSInProcess]] = {"memory": MemoryAWS, "moto": EmbeddedAWS}

REAL = {"dynamodb": "dynamodb-local", "sqs": "elasticmq"}
"""The real engine of a service, by the name of the fixture that has its address."""


@contextmanager
def in_process(engine: str) -> Iterator[Places]:
    with IN_PROCESS[engine]() as aws:
        aws.refusing.remove("lambda:nowhere")  # any other is there in memory
        create_table(aws.client("dynamodb"), TABLE, "pk", "sk")
        aws.client("s3").create_bucket(Bucket=BUCKET)
        fifo_topic = aws.client("sns").create_topic(Name="topic.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
        yield Places(
            engine,
            aws.client,
            **_queues(aws.client("sqs")),
            topic=aws.create_topic("topic"),
            fifo_topic=fifo_topic,
        )


def real(engine: str, url: str) -> Places:
    session = boto3.session.Session(
        aws_access_key_id=uuid.uuid4().hex[:20], aws_secret_access_key="local", region_name="us-east-1"
    )
    make: Any = session.client  # typed for the services that boto3-stubs knows by name
    client = functools.partial(make, endpoint_url=url)
    if engine == "elasticmq":
        return Places(engine, client, **_queues(client("sqs")))
    create_table(client("dynamodb"), TABLE, "pk", "sk")
    return Places(engine, client)


def _queues(sqs: Any) -> dict[str, str]:
    wanted: dict[str, dict[str, str]] = {
        "queue": {},
        "small": {"MaximumMessageSize": "1024"},
        "fifo": {"FifoQueue": "true"},
    }
    prefix = uuid.uuid4().hex[:8]
    return {
        name: sqs.create_queue(QueueName=f"{prefix}-{name}{'.fifo' * (name == 'fifo')}", Attributes=attributes)[
            "QueueUrl"
        ]
        for name, attributes in wanted.items()
    }

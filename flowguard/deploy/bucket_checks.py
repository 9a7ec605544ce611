"""Checks of the buckets that tell queues and topics what happens to their objects."""

from __future__ import annotations

from collections.abc import Iterator

from flowguard.deploy.account import Account, known
from flowguard.deploy.arns import S3
from flowguard.deploy.finding import LiveFinding, error
from flowguard.deploy.needs import Deployment, QueueNeed, TopicNeed
from flowguard.deploy.planned.policies import lets_service


def check_buckets(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about what buckets tell."""
    yield from known(
        *(_queue_told(queue, bucket, live) for queue in needed.queues for bucket in queue.buckets),
        *(_topic_told(topic, bucket, live) for topic in needed.topics for bucket in topic.buckets),
        *(_let_in(topic, bucket, needed.account, live) for topic in needed.topics for bucket in topic.buckets),
    )


def _queue_told(queue: QueueNeed, bucket: str, live: Account) -> Iterator[LiveFinding]:
    told, there = live.notified_queues(bucket), live.queue(queue.name, queue.arn)
    if told is None:
        yield from _missing(bucket, live)
    elif there is not None and there["QueueArn"] not in told:
        yield _silent(queue.name, bucket, f"a QueueConfiguration with {there['QueueArn']}")


def _topic_told(topic: TopicNeed, bucket: str, live: Account) -> Iterator[LiveFinding]:
    if (told := live.notified_topics(bucket)) is None:
        yield from _missing(bucket, live)
    elif topic.arn not in told:
        yield _silent(topic.name, bucket, f"a TopicConfiguration with {topic.arn}")


def _missing(bucket: str, live: Account) -> Iterator[LiveFinding]:
    if live.was_read("s3", "get_bucket_notification_configuration", bucket):
        why = "its objects begin no runs"
        yield error("bucket-missing", bucket, "the bucket does not exist", why, "create it, or name another")


def _silent(name: str, bucket: str, configuration: str) -> LiveFinding:
    return error(
        "bucket-silent",
        name,
        f"the bucket {bucket} does not tell it what happens to its objects",
        "objects that are put there begin no runs",
        f"add {configuration} to the bucket's notifications; they are set as a whole",
    )


def _let_in(topic: TopicNeed, bucket: str, home: str | None, live: Account) -> Iterator[LiveFinding]:
    """Yield a topic whose policy does not let a bucket publish. A file leaves the account open: it is ``home`` then."""
    if (documents := live.topic_policies(topic.arn)) is None:
        return
    context = {"aws:SourceArn": f"arn:{topic.arn.split(':')[1]}:s3:::{bucket}"}
    account = home if live.account is None else live.account
    if account is not None:
        context["aws:SourceAccount"] = account
    if lets_service(documents, S3, "sns:Publish", context) is False:
        yield error(
            "topic-closed",
            topic.name,
            f"its policy does not let the bucket {bucket} publish",
            "S3 refuses to set the bucket's notifications up, or what it publishes is refused: objects begin no runs",
            f"allow sns:Publish to {S3}, with the bucket as aws:SourceArn and its account as aws:SourceAccount",
        )

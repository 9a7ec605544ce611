"""Checks of the buckets that tell queues what happens to their objects."""

from __future__ import annotations

from collections.abc import Iterator

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error
from flowguard.deploy.needs import Deployment, QueueNeed


def check_buckets(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about what buckets tell."""
    yield from known(*(_told(queue, bucket, live) for queue in needed.queues for bucket in queue.buckets))


def _told(queue: QueueNeed, bucket: str, live: Account) -> Iterator[LiveFinding]:
    told, there = live.notified_queues(bucket), live.queue(queue.name, queue.arn)
    if told is None:
        if live.was_read("s3", "get_bucket_notification_configuration"):
            why = "its objects begin no runs"
            yield error("bucket-missing", bucket, "the bucket does not exist", why, "create it, or name another")
    elif there is not None and there["QueueArn"] not in told:
        yield error(
            "bucket-silent",
            queue.name,
            f"the bucket {bucket} does not tell it what happens to its objects",
            "objects that are put there begin no runs",
            f"add a QueueConfiguration with {there['QueueArn']} to the bucket's notifications; they are set as a whole",
        )

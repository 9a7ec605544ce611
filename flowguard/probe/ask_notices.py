"""What S3 tells queues of its objects."""

from __future__ import annotations

import json
from typing import Any

from flowguard.probe.lab import Lab
from flowguard.probe.made import allow, bucket, queue, queue_arn, received, topic
from flowguard.probe.saw import Saw, asks

_KEY = "a b+é.txt"
_WRITTEN = "a+b%2B%C3%A9.txt"


def _notify(lab: Lab, name: str, url: str) -> str:
    """Let a bucket tell a queue of what is put and deleted. Return the code of the error."""
    told = {"QueueArn": queue_arn(lab, url), "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
    configuration = {"QueueConfigurations": [told]}
    return lab.code_of(
        "s3", "put_bucket_notification_configuration", Bucket=name, NotificationConfiguration=configuration
    )


def _told(lab: Lab) -> tuple[str, str]:
    """Make a bucket that tells a queue. Return both, the queue by its URL."""
    name, url = bucket(lab), queue(lab)
    allow(lab, url, "s3.amazonaws.com")
    _notify(lab, name, url)
    return name, url


def _next(lab: Lab, url: str) -> Any:
    """Return the next message that is there, and take it out of the queue."""
    messages = received(lab, url, most=1, seconds=90)
    if not messages:
        return {}
    lab.ask("sqs", "delete_message", QueueUrl=url, ReceiptHandle=messages[0]["ReceiptHandle"])
    return json.loads(messages[0]["Body"])


@asks("s3-notice-test", "s3", "sqs", seconds=30)
def notice_test(lab: Lab) -> Saw:
    """Let a bucket tell a queue, and receive what S3 sends there at once."""
    name, url = _told(lab)
    body = _next(lab, url)
    is_test = (body.get("Service"), body.get("Event"), body.get("Bucket")) == ("Amazon S3", "s3:TestEvent", name)
    return Saw(is_test and "Records" not in body, f"fields {sorted(body)}")


def _record_of_put(lab: Lab) -> Any:
    """Put an object of a bucket that tells a queue, and return the record of that."""
    name, url = _told(lab)
    _next(lab, url)
    lab.ask("s3", "put_object", Bucket=name, Key=_KEY, Body=b"x")
    return next(iter(_next(lab, url).get("Records", [])), {})


@asks("s3-notice-form", "s3", "sqs", seconds=60)
def notice_form(lab: Lab) -> Saw:
    """Put an object of a bucket that tells a queue, and look at the fields of the record."""
    record = _record_of_put(lab)
    wanted = {"eventVersion", "eventSource", "eventName", "eventTime", "awsRegion", "userIdentity", "responseElements"}
    changed = record.get("s3", {}).get("object", {})
    missing = sorted((wanted - record.keys()) | ({"key", "sequencer"} - changed.keys()))
    marks = (record.get("eventSource"), record.get("eventName"), str(record.get("eventVersion"))[:2])
    return Saw(not missing and marks == ("aws:s3", "ObjectCreated:Put", "2."), f"{marks}, without {missing}")


@asks("s3-notice-key", "s3", "sqs", seconds=60)
def notice_key(lab: Lab) -> Saw:
    """Put an object whose key has a space, a plus and a letter with an accent. Look at how its notice writes them."""
    written = _record_of_put(lab).get("s3", {}).get("object", {}).get("key")
    return Saw(written == _WRITTEN, str(written))


@asks("s3-notice-fifo", "s3", "sqs")
def notice_fifo(lab: Lab) -> Saw:
    """Let a bucket tell a FIFO queue."""
    name, url = bucket(lab), queue(lab, fifo=True)
    allow(lab, url, "s3.amazonaws.com")
    code = _notify(lab, name, url)
    return Saw(code == "InvalidArgument", code or "taken")


@asks("s3-notice-policy", "s3", "sqs", seconds=15)
def notice_policy(lab: Lab) -> Saw:
    """Let a bucket tell a queue that does not let S3 send."""
    code = _notify(lab, bucket(lab), queue(lab))
    return Saw(code == "InvalidArgument", code or "taken")


@asks("s3-notice-topic-policy", "s3", "sns", seconds=15)
def notice_topic_policy(lab: Lab) -> Saw:
    """Let a bucket tell a topic that does not let S3 publish, and once more when it does."""
    name, arn = bucket(lab), topic(lab)
    before = _notify_topic(lab, name, arn)
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "s3.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": f"arn:{arn.split(':')[1]}:s3:::{name}"}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    lab.ask("sns", "set_topic_attributes", TopicArn=arn, AttributeName="Policy", AttributeValue=policy)
    after = _notify_topic(lab, name, arn)
    return Saw((before, after) == ("InvalidArgument", ""), f"{before or 'taken'}, then {after or 'taken'}")


def _notify_topic(lab: Lab, name: str, arn: str) -> str:
    """Let a bucket tell a topic of what is put. Return the code of the error."""
    configuration = {"TopicConfigurations": [{"TopicArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
    return lab.code_of(
        "s3", "put_bucket_notification_configuration", Bucket=name, NotificationConfiguration=configuration
    )


@asks("s3-notice-configuration", "s3", "sqs")
def notice_configuration(lab: Lab) -> Saw:
    """Let a bucket tell a queue, then another one, and read which it tells."""
    name, first, second = bucket(lab), queue(lab), queue(lab)
    for url in (first, second):
        allow(lab, url, "s3.amazonaws.com")
        _notify(lab, name, url)
    answer = lab.ask("s3", "get_bucket_notification_configuration", Bucket=name)
    arns = [each["QueueArn"] for each in answer.get("QueueConfigurations", [])]
    return Saw(arns == [queue_arn(lab, second)], f"{len(arns)} queues")

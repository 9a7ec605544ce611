"""Sends outboxes: in batches for each destination, and knows for every single message whether it was taken."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, assert_never

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.attributes import Attribute, attributes_to
from flowguard.aws.schedules import Schedules
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.outbox import LARGEST, Send
from flowguard.retry import LONGEST_SQS_DELAY

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients
    from flowguard.envelope import Envelope

MOST_ENTRIES = 10

Numbered = tuple[int, Send]
"""A send and its place in what the caller handed over."""

_PLAIN = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
"""What FIFO group and deduplication ids may be made of."""


class AWSSender:
    """Implements :class:`flowguard.ports.Sender`. Queue URLs are looked up once a queue and kept."""

    def __init__(self, clients: Clients, schedules: Schedules | None = None) -> None:
        self._clients = clients
        self._schedules = schedules if schedules is not None else Schedules(clients)
        self._urls: dict[str, str] = {}

    def send(self, sends: Sequence[Send]) -> Mapping[int, str]:
        failures: dict[int, str] = {}
        for to, batch in _batches(sends):
            try:
                failures.update(self._send_batch(to, batch))
            except (ClientError, BotoCoreError) as error:
                failures.update({place: f"{type(error).__name__}: {error}" for place, _ in batch})
        return failures

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        if envelope.receipt_handle is None or envelope.queue_arn is None:
            return
        self._clients.sqs.change_message_visibility(
            QueueUrl=self.queue_url(envelope.queue_arn),
            ReceiptHandle=envelope.receipt_handle,
            VisibilityTimeout=seconds,
        )

    def queue_url(self, name: str) -> str:
        """The URL of a queue given by name, ARN or URL."""
        if name.startswith(("https://", "http://")):
            return name
        if name not in self._urls:
            self._urls[name] = self._clients.sqs.get_queue_url(**_queue_name(name))["QueueUrl"]
        return self._urls[name]

    def _send_batch(self, to: Destination, batch: list[Numbered]) -> Mapping[int, str]:
        match to:
            case Queue():
                late = {place: send for place, send in batch if send.delay > LONGEST_SQS_DELAY.total_seconds()}
                soon = [(place, send) for place, send in batch if place not in late]
                return {**self._to_queue(to, soon), **self._schedules.create(late)}
            case Topic():
                return self._to_topic(to, batch)
            case Bus():
                return self._to_bus(to, batch)
            case Function():
                return self._to_function(to, batch)
            case _:
                assert_never(to)

    def _to_queue(self, to: Queue, batch: list[Numbered]) -> Mapping[int, str]:
        if not batch:
            return {}
        entries: Any = [
            {
                "Id": str(place),
                "MessageBody": send.body,
                "MessageAttributes": attributes_to(Attribute.to_sqs_api, send.attributes),
                **(_fifo(send) if to.fifo else {"DelaySeconds": send.delay}),
            }
            for place, send in batch
        ]
        answer = self._clients.sqs.send_message_batch(QueueUrl=self.queue_url(to.name), Entries=entries)
        return _refused(answer.get("Failed", []))

    def _to_topic(self, to: Topic, batch: list[Numbered]) -> Mapping[int, str]:
        entries: Any = [
            {
                "Id": str(place),
                "Message": send.body,
                "MessageAttributes": attributes_to(Attribute.to_sns_api, send.attributes),
                **(_fifo(send) if to.fifo else {}),
            }
            for place, send in batch
        ]
        answer = self._clients.sns.publish_batch(TopicArn=to.arn, PublishBatchRequestEntries=entries)
        return _refused(answer.get("Failed", []))

    def _to_bus(self, to: Bus, batch: list[Numbered]) -> Mapping[int, str]:
        entries: Any = [
            {"EventBusName": to.name, "Source": to.source, "DetailType": to.detail_type, "Detail": _detail(send)}
            for _, send in batch
        ]
        answers = self._clients.events.put_events(Entries=entries)["Entries"]
        return {
            place: f"{answer['ErrorCode']}: {answer.get('ErrorMessage', '')}"
            for (place, _), answer in zip(batch, answers, strict=True)
            if answer.get("ErrorCode")
        }

    def _to_function(self, to: Function, batch: list[Numbered]) -> Mapping[int, str]:
        """One asynchronous invocation each: Lambda has no batch call."""
        failures: dict[int, str] = {}
        for place, send in batch:
            try:
                self._clients.lambda_.invoke(FunctionName=to.name, InvocationType="Event", Payload=_event(send))
            except (ClientError, BotoCoreError) as error:
                failures[place] = f"{type(error).__name__}: {error}"
        return failures


def _batches(sends: Sequence[Send]) -> Iterator[tuple[Destination, list[Numbered]]]:
    """In order for each destination, at most ten and one message's largest size at a time. None alone is larger."""
    by_destination: dict[Destination, list[Numbered]] = {}
    for place, send in enumerate(sends):
        by_destination.setdefault(send.to, []).append((place, send))
    for to, numbered in by_destination.items():
        batch: list[Numbered] = []
        size = 0
        for place, send in numbered:
            if len(batch) == MOST_ENTRIES or size + send.size > LARGEST[type(to)]:
                yield to, batch
                batch, size = [], 0
            batch.append((place, send))
            size += send.size
        yield to, batch


def _refused(failed: Sequence[Any]) -> dict[int, str]:
    return {int(entry["Id"]): f"{entry.get('Code')}: {entry.get('Message', '')}" for entry in failed}


def _fifo(send: Send) -> dict[str, str]:
    return {"MessageGroupId": _plain(send.group or send.id), "MessageDeduplicationId": _plain(send.id)}


def _plain(text: str) -> str:
    """The text itself where FIFO takes it, else a digest that is the same every time."""
    return text if _PLAIN.fullmatch(text) else hashlib.sha256(text.encode()).hexdigest()


def _queue_name(name: str) -> Any:
    if not name.startswith("arn:"):
        return {"QueueName": name}
    *_, account, queue = name.split(":")
    return {"QueueName": queue, "QueueOwnerAWSAccountId": account}


def _detail(send: Send) -> str:
    """EventBridge has no attributes: they go into the detail, under ``flowguard``. A detail is always an object."""
    try:
        body = json.loads(send.body)
    except (ValueError, RecursionError):
        body = send.body
    detail = body if isinstance(body, dict) else {"payload": body}
    return json.dumps({**detail, "flowguard": {name: a.value for name, a in send.attributes.items()}})


def _event(send: Send) -> bytes:
    """What the invoked function gets: one record in the shape of SQS, so that ids and attributes go along."""
    record = {
        "messageId": send.id,
        "body": send.body,
        "attributes": {},
        "messageAttributes": attributes_to(Attribute.to_sqs_record, send.attributes),
        "eventSource": "aws:lambda",
    }
    return json.dumps({"Records": [record]}).encode()

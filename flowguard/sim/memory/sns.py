"""SNS in memory, with topics and the queues that subscribe to them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from flowguard.sim.calls import Response
from flowguard.sim.limits.topics import check_batch, check_message, no_topic
from flowguard.sim.memory.not_in_memory import NotInMemory
from flowguard.sim.memory.service import Operation, Params, Surroundings, operation
from flowguard.sim.memory.sqs import SQS

_MESSAGE: Final = "Message Subject MessageAttributes MessageGroupId MessageDeduplicationId"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A queue's subscription to a topic. Messages arrive as they are if ``raw``, otherwise as notifications."""

    arn: str
    topic: str
    endpoint: str
    raw: bool


class SNS:
    """Topics that deliver to queues at once, in the order of subscription."""

    def __init__(self, around: Surroundings, sqs: SQS) -> None:
        self._around = around
        self._sqs = sqs
        self._topics: dict[str, tuple[Subscription, ...]] = {}
        self._content_based: frozenset[str] = frozenset()
        self.operations: Mapping[str, Operation] = {
            "CreateTopic": operation(self._create, "Name Attributes Tags"),
            "DeleteTopic": operation(self._delete, "TopicArn"),
            "ListTopics": operation(lambda params: {"Topics": [{"TopicArn": arn} for arn in self._topics]}),
            "Subscribe": operation(self._subscribe, "TopicArn Protocol Endpoint Attributes ReturnSubscriptionArn"),
            "Unsubscribe": operation(self._unsubscribe, "SubscriptionArn"),
            "Publish": operation(self._publish, f"TopicArn TargetArn {_MESSAGE}"),
            "PublishBatch": operation(self._publish_batch, "TopicArn PublishBatchRequestEntries"),
        }

    def _create(self, params: Params) -> Response:
        arn = self._around.arn("sns", params["Name"])
        self._topics.setdefault(arn, ())
        if params.get("Attributes", {}).get("ContentBasedDeduplication") == "true":
            self._content_based |= {arn}
        return {"TopicArn": arn}

    def _delete(self, params: Params) -> Response:
        self._topics.pop(params["TopicArn"], None)
        return {}

    def _topic(self, arn: str) -> str:
        if arn not in self._topics:
            raise no_topic()
        return arn

    def _subscribe(self, params: Params) -> Response:
        topic, attributes = self._topic(params["TopicArn"]), params.get("Attributes", {})
        if params["Protocol"] != "sqs":
            raise NotInMemory(f"a subscription by {params['Protocol']}", ["sqs"])
        if unknown := attributes.keys() - {"RawMessageDelivery"}:
            raise NotInMemory(f"a subscription with {', '.join(sorted(unknown))}", ["RawMessageDelivery"])
        raw = attributes.get("RawMessageDelivery", "false").lower() == "true"
        for known in self._topics[topic]:
            if known.endpoint == params["Endpoint"]:
                return {"SubscriptionArn": known.arn}
        made = Subscription(f"{topic}:{self._around.new_id()}", topic, params["Endpoint"], raw)
        self._topics[topic] = (*self._topics[topic], made)
        return {"SubscriptionArn": made.arn}

    def _unsubscribe(self, params: Params) -> Response:
        arn = params["SubscriptionArn"]
        self._topics = {
            topic: tuple(s for s in subscriptions if s.arn != arn) for topic, subscriptions in self._topics.items()
        }
        return {}

    # -- publishing

    def _publish(self, params: Params) -> Response:
        topic = self._topic(params.get("TopicArn") or params["TargetArn"])
        check_message(params, **self._takes(topic))
        return self._published(topic, params)

    def _publish_batch(self, params: Params) -> Response:
        topic, entries = self._topic(params["TopicArn"]), params["PublishBatchRequestEntries"]
        check_batch(entries, **self._takes(topic))
        return {"Successful": [{"Id": entry["Id"], **self._published(topic, entry)} for entry in entries], "Failed": []}

    def _takes(self, topic: str) -> dict[str, bool]:
        return {"fifo": topic.endswith(".fifo"), "content_based": topic in self._content_based}

    def _published(self, topic: str, entry: Params) -> Response:
        message_id = self._around.new_id()
        for subscription in self._topics[topic]:
            self._sqs.deliver(subscription.endpoint, self._delivery(subscription, message_id, entry))
        return {"MessageId": message_id}

    def _delivery(self, to: Subscription, message_id: str, entry: Params) -> dict[str, Any]:
        fifo = {name: entry[name] for name in ("MessageGroupId", "MessageDeduplicationId") if name in entry}
        if to.raw:
            return {"MessageBody": entry["Message"], "MessageAttributes": entry.get("MessageAttributes", {}), **fifo}
        return {"MessageBody": json.dumps(self._notification(to, message_id, entry), indent=2), **fifo}

    def _notification(self, to: Subscription, message_id: str, entry: Params) -> dict[str, Any]:
        sent = datetime.fromtimestamp(self._around.now() / 1000, UTC)
        where = f"https://sns.{self._around.region}.amazonaws.com/"
        attributes = {name: _attribute(value) for name, value in entry.get("MessageAttributes", {}).items()}
        return {
            "Type": "Notification",
            "MessageId": message_id,
            "TopicArn": to.topic,
            **({"Subject": entry["Subject"]} if "Subject" in entry else {}),
            "Message": entry["Message"],
            "Timestamp": f"{sent:%Y-%m-%dT%H:%M:%S}.{sent.microsecond // 1000:03d}Z",
            "SignatureVersion": "1",
            "Signature": "bWVtb3J5",
            "SigningCertURL": f"{where}SimpleNotificationService-memory.pem",
            "UnsubscribeURL": f"{where}?Action=Unsubscribe&SubscriptionArn={to.arn}",
            **({"MessageAttributes": attributes} if attributes else {}),
        }

    # -- state

    def state(self) -> Any:
        return dict(self._topics), self._content_based

    def put_back(self, state: Any) -> None:
        topics, self._content_based = state
        self._topics = dict(topics)


def _attribute(value: Mapping[str, Any]) -> dict[str, str]:
    content = value.get("StringValue")
    if content is None:
        content = base64.b64encode(value["BinaryValue"]).decode()
    return {"Type": value["DataType"], "Value": content}

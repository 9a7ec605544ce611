"""SQS in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from flowguard.sim.calls import Response
from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.queues import (
    check_batch,
    check_entry,
    check_message,
    check_receive,
    check_send_batch,
    check_visibility,
    no_queue,
)
from flowguard.sim.memory.queue import DEFAULTS, MemoryQueue, StoredMessage
from flowguard.sim.memory.service import Operation, Params, Surroundings, operation
from flowguard.sim.memory.stored_messages import essence, fifo_ids, md5, sequence, shown

_SETTINGS: Final = frozenset(
    {*DEFAULTS, "FifoQueue", "ContentBasedDeduplication", "RedrivePolicy", "RedriveAllowPolicy", "Policy"}
    | {"KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled", "DeduplicationScope"}
    | {"FifoThroughputLimit"}
)
_MESSAGE: Final = """
    MessageBody DelaySeconds MessageAttributes MessageSystemAttributes MessageGroupId MessageDeduplicationId
"""
_RECEIVE: Final = """
    QueueUrl AttributeNames MessageSystemAttributeNames MessageAttributeNames MaxNumberOfMessages VisibilityTimeout
    WaitTimeSeconds
    """


class SQS:
    """The queues. A receive never waits; what is due is there at once."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._queues: dict[str, MemoryQueue] = {}
        self.operations: Mapping[str, Operation] = {
            "CreateQueue": operation(self._create, "QueueName Attributes tags"),
            "DeleteQueue": operation(self._delete_queue, "QueueUrl"),
            "GetQueueUrl": operation(
                lambda params: {"QueueUrl": self._named(params["QueueName"]).url}, "QueueName QueueOwnerAWSAccountId"
            ),
            "ListQueues": operation(self._list, "QueueNamePrefix"),
            "ListDeadLetterSourceQueues": operation(self._sources, "QueueUrl"),
            "GetQueueAttributes": operation(self._attributes, "QueueUrl AttributeNames"),
            "SetQueueAttributes": operation(self._set, "QueueUrl Attributes"),
            "PurgeQueue": operation(self._purge, "QueueUrl"),
            "SendMessage": operation(self._send, f"QueueUrl {_MESSAGE}"),
            "SendMessageBatch": operation(self._send_batch, "QueueUrl Entries"),
            "ReceiveMessage": operation(self._receive, _RECEIVE),
            "DeleteMessage": operation(self._delete, "QueueUrl ReceiptHandle"),
            "DeleteMessageBatch": operation(lambda params: self._each(params, self._delete), "QueueUrl Entries"),
            "ChangeMessageVisibility": operation(self._change, "QueueUrl ReceiptHandle VisibilityTimeout"),
            "ChangeMessageVisibilityBatch": operation(
                lambda params: self._each(params, self._change), "QueueUrl Entries"
            ),
        }

    # -- queues

    def _named(self, name: str) -> MemoryQueue:
        if name not in self._queues:
            raise no_queue()
        return self._queues[name]

    def _queue(self, params: Params) -> MemoryQueue:
        return self._named(params["QueueUrl"].rpartition("/")[2])

    def by_arn(self, arn: str) -> MemoryQueue | None:
        return self._queues.get(arn.rpartition(":")[2])

    def _create(self, params: Params) -> Response:
        name, attributes = params["QueueName"], dict(params.get("Attributes", {}))
        _known(attributes)
        if name.endswith(".fifo") is not (attributes.get("FifoQueue") == "true"):
            raise Fault("InvalidParameterValue", "The name of a FIFO queue, and only of one, ends with .fifo")
        queue = self._queues.get(name)
        if queue is not None and any(
            queue.attributes.get(key, DEFAULTS.get(key)) != attributes[key] for key in attributes
        ):
            raise Fault(
                "QueueAlreadyExists",
                "A queue already exists with the same name and a different value for an attribute",
                shape="QueueNameExists",
            )
        if queue is None:
            where = f"https://sqs.{self._around.region}.amazonaws.com/{self._around.account}/{name}"
            queue = MemoryQueue(name, self._around.arn("sqs", name), where, self._around.now(), attributes)
            self._queues[name] = queue
        return {"QueueUrl": queue.url}

    def _delete_queue(self, params: Params) -> Response:
        del self._queues[self._queue(params).name]
        return {}

    def _list(self, params: Params) -> Response:
        prefix = params.get("QueueNamePrefix", "")
        urls = [queue.url for name, queue in sorted(self._queues.items()) if name.startswith(prefix)]
        return {"QueueUrls": urls} if urls else {}

    def _sources(self, params: Params) -> Response:
        target = self._queue(params).arn
        queues = [queue for queue in self._queues.values() if queue.redrive and queue.redrive[0] == target]
        return {"queueUrls": [queue.url for queue in queues]}

    def _attributes(self, params: Params) -> Response:
        attributes, wanted = self._queue(params).described(self._around.now()), params.get("AttributeNames", ())
        shown = {name: value for name, value in attributes.items() if name in wanted or "All" in wanted}
        return {"Attributes": shown} if shown else {}

    def _set(self, params: Params) -> Response:
        _known(params["Attributes"])
        self._queue(params).attributes.update(params["Attributes"])
        return {}

    def _purge(self, params: Params) -> Response:
        self._queue(params).messages.clear()
        return {}

    # -- sending

    def _send(self, params: Params) -> Response:
        queue = self._queue(params)
        check_message(params, queue.takes)
        return self._put(queue, params)

    def _put(self, queue: MemoryQueue, entry: Params) -> Response:
        message = queue.add(self._message(queue, entry), self._around.now())
        answer = {"MessageId": message.message_id, "MD5OfMessageBody": md5(entry["MessageBody"])}
        return {**answer, "SequenceNumber": sequence(message)} if queue.fifo else answer

    def _message(self, queue: MemoryQueue, entry: Params) -> StoredMessage:
        body, attributes = entry["MessageBody"], entry.get("MessageAttributes", {})
        delay, now = entry.get("DelaySeconds", queue.setting("DelaySeconds")), self._around.now()
        group, deduplication = fifo_ids(queue, entry)
        copied = {name: dict(value) for name, value in attributes.items()}
        trace = entry.get("MessageSystemAttributes", {}).get("AWSTraceHeader", {}).get("StringValue")
        visible_at, new_id = now + delay * 1000, self._around.new_id()
        return StoredMessage(0, new_id, body, copied, now, visible_at, group, deduplication, trace=trace)

    def _send_batch(self, params: Params) -> Response:
        queue = self._queue(params)
        check_send_batch(params["Entries"], queue.takes)
        return self._each(params, lambda entry: self._put_entry(queue, entry))

    def _put_entry(self, queue: MemoryQueue, entry: Params) -> Response:
        check_entry(entry, queue.takes)
        return self._put(queue, entry)

    def _each(self, params: Params, run: Callable[[Params], Response]) -> Response:
        """Run an operation for each entry of a batch.

        The answer reports what fails, which does not keep the other entries from being done.
        """
        entries = params["Entries"]
        check_batch(entries)
        self._queue(params)
        answer: Response = {"Successful": [], "Failed": []}
        for entry in entries:
            try:
                done = run({**entry, "QueueUrl": params["QueueUrl"]})
                answer["Successful"].append({"Id": entry["Id"], **done})
            except Fault as fault:
                answer["Failed"].append(fault.as_entry(entry["Id"]))
        return {name: entries for name, entries in answer.items() if entries}

    def deliver(self, arn: str, entry: Params) -> None:
        """Put a message from another service into a queue.

        Where that fails the message is lost, as with the real ones.
        """
        queue = self.by_arn(arn)
        if queue is not None:
            with suppress(Fault):
                check_message(entry, queue.takes)
                self._put(queue, entry)

    # -- receiving

    def _receive(self, params: Params) -> Response:
        queue, now = self._queue(params), self._around.now()
        most = params.get("MaxNumberOfMessages", 1)
        check_receive(params)
        visibility = params.get("VisibilityTimeout", queue.setting("VisibilityTimeout"))
        check_visibility(visibility)
        messages: list[Any] = []
        for message in queue.receivable(now):
            if self._gone_to_dead_letters(queue, message, now):
                continue
            messages.append(shown(queue.received(message, now, visibility), params))
            if len(messages) == most:
                break
        return {"Messages": messages} if messages else {}

    def _gone_to_dead_letters(self, queue: MemoryQueue, message: StoredMessage, now: int) -> bool:
        if queue.redrive is None:
            return False
        target, most = queue.redrive
        dead_letters = self.by_arn(target)
        if message.receives < most or dead_letters is None:
            return False
        del queue.messages[message.number]
        moved = replace(message, receipt=None, visible_at=now, dead_letter_source=queue.arn)
        dead_letters.add(moved, now)
        return True

    def _delete(self, params: Params) -> Response:
        self._queue(params).delete(params["ReceiptHandle"], self._around.now())
        return {}

    def _change(self, params: Params) -> Response:
        seconds = params.get("VisibilityTimeout", 0)
        self._queue(params).change_visibility(params["ReceiptHandle"], seconds, self._around.now())
        return {}

    # -- state

    def state(self) -> Any:
        return {name: queue.copy() for name, queue in self._queues.items()}

    def put_back(self, state: Any) -> None:
        self._queues = {name: queue.copy() for name, queue in state.items()}

    def messages(self, queue: str) -> list[StoredMessage]:
        """Return all messages of a queue, those in flight and the delayed ones too."""
        return list(self._named(queue).messages.values())

    def digest(self) -> Any:
        """Return what is in each queue and for how long yet. Ids and times of sending are left out."""
        now = self._around.now()
        return tuple(
            (name, tuple(essence(message, now) for message in queue.messages.values()))
            for name, queue in sorted(self._queues.items())
        )


def _known(attributes: Mapping[str, str]) -> None:
    if unknown := attributes.keys() - _SETTINGS:
        raise Fault("InvalidAttributeName", f"Unknown Attribute {min(unknown)}.", shape="InvalidAttributeName")

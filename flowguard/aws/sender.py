"""The sender of outboxes, in batches for each destination.

It knows for every single message whether it was taken.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, assert_never

from flowguard.aws import botocore_errors
from flowguard.aws.faults import FOR_MINUTES, is_final, is_final_code, is_for_minutes
from flowguard.aws.schedules import Schedules
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.protocol.outbox import Kind, Send, largest
from flowguard.protocol.run_orders import order_signature
from flowguard.retry import LONGEST_SQS_DELAY, LONGEST_VISIBILITY
from flowguard.text.printable import bounded
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.bodies import bus_detail, function_payload
from flowguard.wire.message import PLACE, Place
from flowguard.wire.tenant import plain_id, tenant_in
from flowguard.wire.trace_context import HEADER, xray_header
from flowguard.worker.ports import Refusal

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients
    from flowguard.wire.envelope import Envelope

logger = logging.getLogger("flowguard")

MOST_ENTRIES = 10

_LONGEST_IN_SQS: Final = int(LONGEST_SQS_DELAY.total_seconds())

Numbered = tuple[int, Send]
"""A send and its place in what the caller handed over."""


class AWSSender:
    """Implements :class:`flowguard.worker.ports.Sender`. Queue URLs are looked up once a queue and kept."""

    def __init__(self, clients: Clients, schedules: Schedules | None = None, *, names: Names = AS_IN_CODE) -> None:
        self._clients = clients
        self._schedules = schedules if schedules is not None else Schedules(clients, names=names)
        self._names = names
        self._urls: dict[str, str] = {}

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        refusals: dict[int, Refusal] = {}
        for to, batch in _batches(sends):
            try:
                refusals.update(self._try_batch(to, batch))
            except botocore_errors.ErrorsNotLoaded as error:  # some of it may have been sent
                refusals |= {place: Refusal(bounded(f"{type(error).__name__}: {error}")) for place, _ in batch}
        return refusals

    def _try_batch(self, to: Destination, batch: list[Numbered]) -> Mapping[int, Refusal]:
        """Send a batch, or its messages one by one where it is refused for good.

        A single message may have spoilt the batch for all.
        """
        try:
            return self._send_batch(to, batch)
        except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
            refusal = refused_by(error)
        except UnicodeError:  # botocore writes the names of topics and functions into the text of its request
            refusal = Refusal("its destination has half a surrogate pair", final=True)
        if refusal.final and len(batch) > 1:
            return {place: why for numbered in batch for place, why in self._try_batch(to, [numbered]).items()}
        return {place: refusal for place, _ in batch}

    def postpone(self, envelope: Envelope, seconds: int) -> str | None:
        if envelope.receipt_handle is None or envelope.queue_arn is None:
            return None
        return self.hide(envelope.queue_arn, envelope.receipt_handle, seconds)

    def hide(self, arn: str, receipt_handle: str, seconds: int) -> str | None:
        """Hide a record of this queue for so many seconds from now. Return why SQS does not take that, if so."""
        request: Any = {"ReceiptHandle": receipt_handle, "VisibilityTimeout": _visibility(seconds)}
        return _if_taken(lambda: self._clients.sqs.change_message_visibility(QueueUrl=self.queue_url(arn), **request))

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        by_queue: dict[str, list[Any]] = {}
        for envelope, seconds in records:
            if envelope.receipt_handle is not None and envelope.queue_arn is not None:
                shown = {"ReceiptHandle": envelope.receipt_handle, "VisibilityTimeout": _visibility(seconds)}
                by_queue.setdefault(envelope.queue_arn, []).append(shown)
        for arn, shown_again in by_queue.items():
            for start in range(0, len(shown_again), MOST_ENTRIES):
                several = shown_again[start : start + MOST_ENTRIES]
                entries: Any = [{"Id": str(place), **entry} for place, entry in enumerate(several)]
                _if_taken(partial(self._show_again, arn, entries))

    def _show_again(self, arn: str, entries: Any) -> None:
        self._clients.sqs.change_message_visibility_batch(QueueUrl=self.queue_url(arn), Entries=entries)

    def queue_url(self, name: str) -> str:
        """Return the URL of a queue given by its name in the code, its ARN or its URL."""
        name = self._names.queue(name)
        if name.startswith(("https://", "http://")):
            return name
        if name not in self._urls:
            self._urls[name] = self._clients.sqs.get_queue_url(**_queue_name(name))["QueueUrl"]
        return self._urls[name]

    def _send_batch(self, to: Destination, batch: list[Numbered]) -> Mapping[int, Refusal]:
        match to:
            case Queue():
                return self._to_queue_in_time(to, batch)
            case Topic():
                return self._to_topic(to, batch)
            case Bus():
                return self._to_bus(to, batch)
            case Function():
                return self._to_function(to, batch)
            case _:
                assert_never(to)

    def _to_queue_in_time(self, to: Queue, batch: list[Numbered]) -> Mapping[int, Refusal]:
        """Send to a queue, or make schedules where SQS cannot delay so long. A FIFO queue delays nothing.

        A deadline that EventBridge Scheduler refuses goes by SQS, a quarter of an hour at a time: its receiver sends it
        again, and tries the scheduler again.
        """
        timed = [(place, self._schedules.timed(send)) for place, send in batch]
        late = {place: send for place, send in timed if send.delay > _LONGEST_IN_SQS and not to.fifo}
        soon = [(place, send) for place, send in timed if place not in late]
        refusals = dict(self._schedules.create(late))
        for place in [place for place in refusals if late[place].kind is Kind.DEADLINE]:
            logger.warning("a deadline goes by SQS, a quarter of an hour at a time: %s", refusals.pop(place).why)
            soon.append((place, late[place]._replace(delay=_LONGEST_IN_SQS)))
        return {**self._to_queue(to, soon), **refusals}

    def _to_queue(self, to: Queue, batch: list[Numbered]) -> Mapping[int, Refusal]:
        if not batch:
            return {}
        entries: Any = [queue_entry(place, send, fifo=to.fifo) for place, send in batch]
        answer = self._clients.sqs.send_message_batch(QueueUrl=self.queue_url(to.name), Entries=entries)
        return _refused(answer.get("Failed", []))

    def _to_topic(self, to: Topic, batch: list[Numbered]) -> Mapping[int, Refusal]:
        entries: Any = [topic_entry(place, send, fifo=to.fifo) for place, send in batch]
        answer = self._clients.sns.publish_batch(TopicArn=self._names.topic(to.arn), PublishBatchRequestEntries=entries)
        return _refused(answer.get("Failed", []))

    def _to_bus(self, to: Bus, batch: list[Numbered]) -> Mapping[int, Refusal]:
        bus = to._replace(name=self._names.bus(to.name))
        entries: Any = [bus_entry(bus, send) for _, send in batch]
        answers = self._clients.events.put_events(Entries=entries)["Entries"]
        return {
            place: Refusal(
                bounded(f"{code}: {answer.get('ErrorMessage', '')}"), is_final_code(code), code in FOR_MINUTES
            )
            for (place, _), answer in zip(batch, answers, strict=True)
            if (code := answer.get("ErrorCode"))
        }

    def _to_function(self, to: Function, batch: list[Numbered]) -> Mapping[int, Refusal]:
        """Invoke the function asynchronously once for each send. Lambda has no batch call."""
        refusals: dict[int, Refusal] = {}
        for place, send in batch:
            request: Any = invocation(to._replace(name=self._names.function(to.name)), send)
            try:
                self._clients.lambda_.invoke(**request)
            except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
                refusals[place] = refused_by(error)
        return refusals


def _if_taken(change: Callable[[], object]) -> str | None:
    """Change when records are seen again. They are at the queue's own pace where AWS does not take it; return why.

    botocore's errors are named where something was raised: ``suppress`` would load them at each call.
    """
    try:
        try:
            change()
        except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
            return refused_by(error).why
    except botocore_errors.ErrorsNotLoaded as error:
        return str(error)
    return None


def queue_entry(place: int, send: Send, *, fifo: bool) -> dict[str, Any]:
    """Return the entry of a batch for SQS."""
    return {
        "Id": str(place),
        "MessageBody": send.body,
        "MessageAttributes": attributes_to(Attribute.to_sqs_api, send.attributes),
        **(_traced(send) if send.kind is Kind.NEXT else {}),
        **(_fifo(send) if fifo else {"DelaySeconds": send.delay, **_fair(send)}),
    }


def _traced(send: Send) -> dict[str, Any]:
    """Return the trace header of a hop that goes on after a wait.

    Lambda's own header names the trace of the answer's sender; this one takes precedence over it.
    """
    place = _place(send)
    if place.trace is None or not place.resumed:
        return {}
    return {"MessageSystemAttributes": {HEADER: {"DataType": "String", "StringValue": xray_header(place.trace)}}}


def topic_entry(place: int, send: Send, *, fifo: bool) -> dict[str, Any]:
    """Return the entry of a batch for SNS."""
    return {
        "Id": str(place),
        "Message": send.body,
        "MessageAttributes": attributes_to(Attribute.to_sns_api, send.attributes),
        **(_fifo(send) if fifo else _fair(send)),
    }


def bus_entry(to: Bus, send: Send) -> dict[str, Any]:
    """Return the entry of a batch for EventBridge."""
    return {
        "EventBusName": to.name,
        "Source": to.source,
        "DetailType": to.detail_type,
        "Detail": bus_detail(send.body, send.attributes),
    }


def invocation(to: Function, send: Send) -> dict[str, Any]:
    """Return the call that invokes a function."""
    payload = function_payload(send.id, send.body, send.attributes).encode()
    return {"FunctionName": to.name, "InvocationType": "Event", "Payload": payload}


def _batches(sends: Sequence[Send]) -> Iterator[tuple[Destination, list[Numbered]]]:
    """Group the sends into batches for each destination, in order.

    A batch has at most ten sends and one message's largest size. None alone is larger.
    """
    by_destination: dict[Destination, list[Numbered]] = {}
    for place, send in enumerate(sends):
        by_destination.setdefault(send.to, []).append((place, send))
    for to, numbered in by_destination.items():
        batch: list[Numbered] = []
        size = 0
        for place, send in numbered:
            more = send.size
            if batch and (len(batch) == MOST_ENTRIES or size + more > largest(to)):
                yield to, batch
                batch, size = [], 0
            batch.append((place, send))
            size += more
        yield to, batch


def refused_by(error: botocore_errors.ClientError | botocore_errors.BotoCoreError) -> Refusal:
    """Return the refusal for an error of AWS."""
    return Refusal(bounded(f"{type(error).__name__}: {error}"), is_final(error), is_for_minutes(error))


def _refused(failed: Sequence[Any]) -> dict[int, Refusal]:
    return {
        int(entry["Id"]): Refusal(
            bounded(f"{(code := str(entry.get('Code')))}: {entry.get('Message', '')}"),
            bool(entry.get("SenderFault")) and is_final_code(code),
            code in FOR_MINUTES,
        )
        for entry in failed
    }


def _fair(send: Send) -> dict[str, str]:
    """Return the message group by which standard queues tell tenants apart. Nothing where a message has no tenant."""
    tenant = send.tenant or tenant_in(send.attributes.get(PLACE))
    return {} if tenant is None else {"MessageGroupId": tenant}


def _fifo(send: Send) -> dict[str, str]:
    return {"MessageGroupId": plain_id(send.group or send.id), "MessageDeduplicationId": _deduplication_id(send)}


def _deduplication_id(send: Send) -> str:
    """Return the deduplication id. Nobody can guess that of a signed message before it is sent.

    The ids of a run can be computed by everybody who knows it. A forged message under the id of the next hop would be
    taken first, and the next hop dropped as its copy. So would be the answer to a caller after that to another one who
    repeats its request: what they are for tells them apart.
    """
    if send.kind is Kind.COMPLETE and (place := send.attributes.get(PLACE)) is not None:
        return hashlib.sha256(f"{send.id} {place.value}".encode("utf-8", "surrogatepass")).hexdigest()
    try:
        signature = _signature(send)
    except ValueError:  # a letter of a message that nobody could read
        signature = None
    return plain_id(send.id) if signature is None else hashlib.sha256(f"{send.id} {signature}".encode()).hexdigest()


def _signature(send: Send) -> str | None:
    """Return the signature of a message. What is for a run and no stage's message has it in its address."""
    place = send.attributes.get(PLACE)
    signature = None if place is None else order_signature(place.value)
    return _place(send).signature if signature is None else signature


def _place(send: Send) -> Place:
    attribute = send.attributes.get(PLACE)
    return Place() if attribute is None else Place.parse(attribute.value)


def _visibility(seconds: int) -> int:
    return min(seconds, int(LONGEST_VISIBILITY.total_seconds()))


def _queue_name(name: str) -> Any:
    if not name.startswith("arn:"):
        return {"QueueName": name}
    *_, account, queue = name.split(":")
    return {"QueueName": queue, "QueueOwnerAWSAccountId": account}

"""What may go wrong while the samples of a flow are worked off. A mishap needs more permissions than a quiet run.

A stage's handler fails once, or rejects its payload. Workers die, once or each time. A newer request comes, or many of
them at once, or the same one while it is worked at. Requests name where their end is told. Queues are gone, or take no
more. Answers are too long, or of another type than the stage wants.
"""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import pytest
from botocore.exceptions import ClientError

from flowguard import Reject
from flowguard.deploy.permissions import makes_tokens
from flowguard.destinations import Queue
from flowguard.flow import ATTACH, AnyFlow
from flowguard.project.queues import callback_queues
from flowguard.protocol.callers import MOST_HELD
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.crash import Died
from flowguard.sim.event_source import MOST_RECEIVES
from flowguard.sim.limits.queues import queue_name
from flowguard.sim.points import Point
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.world import World
from flowguard.wire.message import Message

REPLIES = "shop-replies"
"""The queue that requests name as their ``reply_to``, of the flows that list none."""

_PLACE = "flowguard"
_LATER = 1_000
"""Milliseconds until a newer request comes."""


_LONG: Final = 600_000
"""Characters of an answer that SQS takes, and no item has room for. They are random: a text is kept compressed."""

_LONG_OF_HTTP: Final = 240_000
"""Characters of an answer that is taken over HTTP."""

Changed = Callable[[RecordedRecord], RecordedRecord]


def as_it_is(recorded: RecordedRecord) -> RecordedRecord:
    return recorded


@dataclass
class Mishap:
    """``dies_at`` is the point at which each record's worker dies: once, or ``always``, so that SQS gives it up.

    Then the function of dead letters gets the record, and lives. Where a ``stage`` is named, only its workers die, and
    where ``queues`` are, only those of their records: all requests come once more then. ``broken`` is what happens to a
    handler or a service. ``replies``: requests name a place for their end. ``renewed``: a newer request for the same
    object comes before SQS delivers the record of a dead worker again. ``twice``: a record comes while a worker has it.
    ``joined``: so many requests for the same object come then. ``answers`` changes what others answer.
    """

    name: str
    dies_at: Point | None = None
    stage: str | None = None
    queues: frozenset[str] = frozenset()
    always: bool = False
    broken: Callable[[], AbstractContextManager[None]] = nullcontext
    replies: bool = False
    renewed: bool = False
    twice: bool = False
    joined: int = 0
    answers: Changed = as_it_is
    world: World | None = None
    _deaths: Counter[str | int] = field(default_factory=Counter)
    _met: set[tuple[str, bool]] = field(default_factory=set)
    _requests: list[RecordedRecord] = field(default_factory=list)

    def __call__(self, point: Point, delivery: Delivery, message: Message | None, /) -> None:
        met = (delivery.message_id if message is None else _attempt(message), delivery.from_dlq)
        if point is Point.AFTER_CLAIM and met not in self._met:
            self._met.add(met)
            self._meets(delivery, message)
        if delivery.from_dlq or point is not self.dies_at:
            return
        if self.stage is not None and (message is None or message.stage != self.stage):
            return
        if self.queues and delivery.queue not in self.queues:
            return
        one, most = (delivery.number, MOST_RECEIVES) if self.always else (delivery.message_id, 1)
        if self._deaths[one] < most:
            self._deaths[one] += 1
            self._come_again()
            raise Died(point)

    def of(self, recorded: RecordedRecord) -> Iterator[RecordedRecord]:
        """Yield what comes instead of the record."""
        recorded = self.answers(_replying(recorded) if self.replies else recorded)
        self._requests += [recorded] if _is_request(recorded) else []
        yield recorded
        if self.renewed and _is_request(recorded):
            yield _newer(recorded, "newer")

    def _meets(self, delivery: Delivery, message: Message | None) -> None:
        """Let the record come once more while its worker has it, or others that ask for the same."""
        assert self.world is not None
        if self.twice:
            self.world.source.copy(delivery, self.world.clock.now()).from_dlq = delivery.from_dlq
        if self.joined and message is not None and message.hop == 1:
            [recorded] = read_recording({"Records": [delivery.raw]})
            assert isinstance(recorded, RecordedRecord)
            for number in range(self.joined):
                caller = _newer(_replying(recorded), str(number))
                self._met.add((f"{_asked_by(caller)}.1.0", False))
                self.world.put(caller.envelope, caller.raw)
        if self.twice or self.joined:
            for _ in self.world.run():
                pass

    def _come_again(self) -> None:
        assert self.world is not None
        for one in self._requests if self.queues else ():
            self.world.put(one.envelope, one.raw)


def mishaps(flows: Sequence[AnyFlow]) -> Iterator[Mishap]:
    """Yield what is tried for some flows."""
    yield Mishap("nothing")
    yield Mishap("replies", replies=True)
    yield Mishap("comes while a worker has it", twice=True)
    yield Mishap("dies after the claim", Point.AFTER_CLAIM)
    yield Mishap("dies after the commit, and a newer request comes", Point.AFTER_COMMIT, replies=True, renewed=True)
    yield Mishap("dies before each commit", Point.BEFORE_COMMIT, always=True, replies=True, twice=True)
    yield Mishap("dies before each dispatch", Point.BEFORE_DISPATCH, always=True, replies=True)
    for stage in (stage for flow in flows for stage in flow.stages):
        yield Mishap(f"{stage.name} fails once", broken=partial(_fails_once, stage))
        yield Mishap(f"{stage.name} dies", Point.AFTER_COMMIT, stage.name, replies=True, renewed=True)
        yield Mishap(f"{stage.name} rejects", broken=partial(_rejects, stage), replies=True)
    if any(flow.on_conflict is ATTACH for flow in flows):
        yield Mishap("many ask for the same", joined=MOST_HELD + 2)
        yield Mishap("many ask for what is rejected", joined=MOST_HELD + 2, broken=partial(_reject, flows))
    answering = frozenset(callback_queues(flows))
    if answering:
        died = "the worker of an answer dies, and the request comes once more"
        yield Mishap(died, Point.BEFORE_DISPATCH, queues=answering)
        yield Mishap("answers cannot be read", answers=partial(_unreadable, answering))
    if any(flow.callbacks or makes_tokens(flow) for flow in flows):
        yield Mishap(
            "answers are too long", broken=partial(_with_long_state, flows), answers=partial(_too_long, answering)
        )
        for queue in sorted({inbox.name for flow in flows for inbox in _later_inboxes(flow)}):
            yield Mishap(f"{queue} is gone", broken=partial(_refuses, queue, "QueueDoesNotExist"))
            yield Mishap(f"{queue} takes no more", broken=partial(_refuses, queue, "InvalidMessageContents"))


def _later_inboxes(flow: AnyFlow) -> Iterator[Queue]:
    """Yield the queues of the stages after the first one."""
    for stage in flow.stages[1:]:
        inbox = flow.inbox_of(stage)
        if isinstance(inbox, Queue):
            yield inbox


@contextmanager
def _refuses(queue: str, code: str) -> Iterator[None]:
    """Refuse what is sent to the queue, from the first message on that is for a run under way."""
    refuses = False

    def refuse(call: ApiCall, proceed: Proceed, /) -> Response:
        nonlocal refuses
        is_send = call.operation == "SendMessageBatch" and queue_name(call.params) == queue
        refuses = refuses or (is_send and any(_hop(entry) > 1 for entry in call.params["Entries"]))
        if is_send and refuses:
            error: Any = {"Code": code, "Message": "it is refused"}
            status: Any = {"HTTPStatusCode": 400}
            raise ClientError({"Error": error, "ResponseMetadata": status}, call.operation)
        return proceed()

    with intercept(refuse):
        yield


def _hop(entry: Any) -> int:
    place = entry["MessageAttributes"].get(_PLACE)
    hop: int = 0 if place is None else json.loads(place["StringValue"]).get("hop", 0)
    return hop


@contextmanager
def _reject(flows: Sequence[AnyFlow]) -> Iterator[None]:
    with ExitStack() as stack:
        for stage in (stage for flow in flows for stage in flow.stages):
            stack.enter_context(_rejects(stage))
        yield


@contextmanager
def _with_long_state(flows: Sequence[AnyFlow]) -> Iterator[None]:
    """Leave no room in the items of runs that make links: what is answered over HTTP has a limit of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for stage in (flow.entry() for flow in flows if makes_tokens(flow)):
            patch.setattr(stage, "handle", _lengthening(stage.handle))
        yield


def _lengthening(real: Any) -> Any:
    def handle(self: Any, payload: Any, step: Any) -> Any:
        outcome = real(self, payload, step)
        name = next(name for name, value in step.state if isinstance(value, str))
        setattr(step.state, name, random_text(_LONG // 2))
        return outcome

    return handle


@cache
def random_text(length: int) -> str:
    return base64.urlsafe_b64encode(random.Random(1).randbytes(length * 3 // 4)).decode()


def _unreadable(answering: frozenset[str], recorded: RecordedRecord) -> RecordedRecord:
    """Return an answer whose lists are numbers."""
    return _with_lists(recorded, 7) if recorded.envelope.queue in answering else recorded


def _too_long(answering: frozenset[str], recorded: RecordedRecord) -> RecordedRecord:
    """Return an answer that is too long for the item of its run: by its lists, or by the comment of a form."""
    if recorded.envelope.queue is None and recorded.raw.get("isBase64Encoded"):
        form = dict(parse_qsl(base64.b64decode(recorded.raw["body"]).decode()))
        return _of_http(recorded, {**form, "comment": random_text(_LONG_OF_HTTP)})
    return _with_lists(recorded, [random_text(_LONG)]) if recorded.envelope.queue in answering else recorded


@contextmanager
def _fails_once(stage: Any) -> Iterator[None]:
    failed: set[str] = set()
    real = stage.handle

    def handle(self: Any, payload: Any, step: Any) -> Any:
        if step.object_id not in failed:
            failed.add(step.object_id)
            raise ConnectionError("not now")
        return real(self, payload, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "handle", handle)
        yield


@contextmanager
def _rejects(stage: Any) -> Iterator[None]:
    def handle(self: Any, payload: Any, step: Any) -> Any:
        raise Reject("never")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "handle", handle)
        yield


def _attempt(message: Message) -> str:
    """Name the attempt. A record that SQS gave up goes back under another id, as the same attempt."""
    return f"{message.request_id}.{message.hop}.{message.retry}"


def _asked_by(recorded: RecordedRecord) -> str:
    return recorded.envelope.attributes["uniquerequestid"].value


def _place(recorded: RecordedRecord) -> dict[str, Any]:
    """Return what flowguard's own attribute says of the record. A request without it is at its first hop."""
    found = recorded.envelope.attributes.get(_PLACE)
    return json.loads(found.value) if found is not None else {"version": 1, "hop": 1}


def _is_request(recorded: RecordedRecord) -> bool:
    return recorded.envelope.source.is_queue and _place(recorded).get("hop") == 1


def _replying(recorded: RecordedRecord) -> RecordedRecord:
    place = _place(recorded)
    if not _is_request(recorded) or "reply_to" in place:
        return recorded
    return _with(recorded, **{_PLACE: json.dumps({**place, "reply_to": f"sqs:{REPLIES}"})})


def _of_http(recorded: RecordedRecord, form: dict[str, str]) -> RecordedRecord:
    """Return the HTTP request with another form."""
    [read] = read_recording({**recorded.raw, "body": base64.b64encode(urlencode(form).encode()).decode()})
    assert isinstance(read, RecordedRecord), read
    return read


def _with_lists(recorded: RecordedRecord, value: object) -> RecordedRecord:
    """Return the record with another value in the place of each list of its body."""
    body = json.loads(recorded.raw["body"])
    changed = {name: value if isinstance(one, list) else one for name, one in body.items()}
    [read] = read_recording({"Records": [{**recorded.raw, "body": json.dumps(changed)}]})
    assert isinstance(read, RecordedRecord), read
    return read


def _newer(recorded: RecordedRecord, name: str) -> RecordedRecord:
    """Return a request for the same object that is sent later, under another id."""
    later = str((recorded.sent_at or 0) + _LATER)
    sent = {**recorded.raw["attributes"], "SentTimestamp": later}
    sent_later = replace(
        recorded, raw={**recorded.raw, "attributes": sent, "messageId": f"{recorded.envelope.message_id}-{name}"}
    )
    return _with(sent_later, uniquerequestid=f"{name}-{recorded.envelope.message_id}", requestedat=later)


def _with(recorded: RecordedRecord, **attributes: str) -> RecordedRecord:
    """Return the record with other attributes."""
    given = {
        name: {"dataType": "Number" if name == "requestedat" else "String", "stringValue": text}
        for name, text in attributes.items()
    }
    record = {**recorded.raw, "messageAttributes": {**recorded.raw.get("messageAttributes", {}), **given}}
    [read] = read_recording({"Records": [record]})
    assert isinstance(read, RecordedRecord), read
    return read

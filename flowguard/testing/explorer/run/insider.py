"""The insider: somebody who may send to every queue, and knows every address, but has no signing key.

While a run waits, an insider says everything that a record can be, through each queue that a function of flows reads:
what settles the wait, ends it early, asks for its group, resets or cancels the run, or moves it on. And says something
under the ids of its next hops, of which a FIFO queue takes these for copies.

Each sender to an inbox may request a run, and a newer request takes the object: that is none of the insider's
forgeries. A request that repeats the run's own id is one, whatever else it says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId
from flowguard.protocol.groups import GROUP, Member
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.run_orders import ANSWER, CANCEL, RESET
from flowguard.protocol.waiting import DEADLINE
from flowguard.sim.event_source import EventSource
from flowguard.sim.waiting_records import Delivery
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import OF_INSIDERS, Schedule
from flowguard.testing.explorer.run.inbox import Inbox, arn_of, envelope_of
from flowguard.testing.lambda_events import sqs_event
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, REQUESTED_AT, Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.worker.record_sources import RecordKind

_AT_ONCE: Final = 0
"""When forged records are visible: before everything else."""

_HOPS_AHEAD: Final = 3

_SAID: Final = "forged"

_DEEP: Final = 10
"""How many runs stand before a forged request in its chain."""


class Forged(NamedTuple):
    """What a forged record says. ``place`` is its ``flowguard`` attribute, ``stage`` what it says that it is for."""

    kind: RecordKind
    run: tuple[str, int]
    stage: str
    place: Mapping[str, Any]
    body: Any

    @property
    def attributes(self) -> dict[str, str]:
        return {
            REQUEST_ID: self.run[0],
            REQUESTED_AT: str(self.run[1]),
            FLOW_STAGE: self.stage,
            PLACE: json.dumps(self.place, separators=(",", ":")),
        }


def forged(flow: AnyFlow, object_id: str, item: RunItem) -> Iterator[Forged]:
    """Yield everything that an insider says of a run that waits."""
    wait = item.wait
    if wait is None or wait.plan is None:
        return
    run, entry, resumed = (item.request_id, item.requested_at), *_stages(flow, wait.plan.stage)
    address = AnswerAddress(flow.name, object_id, *run, item.hop, "")  # type: ignore[arg-type]  # as the item has them

    def order(kind: RecordKind, key: str, name: str, body: Any, **more: str) -> Forged:
        return Forged(kind, run, entry, {key: {**address._replace(name=name).as_json(), **more}}, body)

    ended = {"status": Status.COMPLETED.value, "result": _SAID, "object": object_id}
    for name in wait.plan.names or [Member(0, 0).text]:
        yield order(RecordKind.ANSWER, ANSWER, name, ended)
    yield order(RecordKind.DEADLINE, DEADLINE, DEADLINE, {DEADLINE: item.requested_at})
    yield order(RecordKind.GROUP, GROUP, Member(0, 0).text, {})
    yield order(RecordKind.RESET, RESET, RESET, {})
    yield order(RecordKind.CANCEL, CANCEL, CANCEL, {}, why=_SAID)
    moved = {"object": object_id, "hop": item.hop + 1, "resumed": True}
    yield Forged(RecordKind.HOP, run, resumed, moved, {_SAID: True})
    yield Forged(RecordKind.RETRY, run, entry, {"object": object_id, "retry": 1}, {_SAID: True})
    yield Forged(RecordKind.CANCELLED, run, entry, {"object": object_id, "cancelled": _SAID}, {_SAID: True})
    yield from _repeated(run, entry, object_id)


def _repeated(run: tuple[str, int], entry: str, object_id: str) -> Iterator[Forged]:
    """Yield requests that repeat the run's id with another text, depth, reply address or time."""
    request_id, at = run
    for place in ({}, {"depth": _DEEP}, {"reply_to": f"sqs:{_SAID}"}):
        yield Forged(RecordKind.REQUEST, run, entry, {"object": object_id, **place}, {_SAID: True})
    for moment in (at - 1, at + 1):
        yield Forged(RecordKind.REQUEST, (request_id, moment), entry, {"object": object_id}, {_SAID: True})


def _later_hops(flow: str, object_id: str, item: RunItem) -> Iterator[str]:
    """Yield the ids of the run's next messages: who knows the run can compute them."""
    at = Message(flow, "", 1, ObjectId(object_id), item.request_id, item.requested_at, "")
    for hop in range(item.hop + 1, item.hop + 1 + _HOPS_AHEAD):
        yield id_of(IdKind.NEXT, at._replace(hop=hop))


def _stages(flow: AnyFlow, resumed: str) -> tuple[str, str]:
    return f"{flow.name}/{flow.entry().name}", f"{flow.name}/{resumed}"


class Insider:
    """The insider of one schedule. ``distrusted`` are the flows whose runs are attacked."""

    def __init__(
        self, schedule: Schedule, history: History, source: EventSource, distrusted: Mapping[str, AnyFlow]
    ) -> None:
        self._moments = {choice.at for choice in schedule.choices if choice.kind in OF_INSIDERS}
        self._history = history
        self._source = source
        self._distrusted = distrusted

    def comes(self, now: int, inbox: Inbox) -> int:
        """Send everything where the schedule says that it is time. Answer how many records that were."""
        number = len(self._history.deliveries) + 1
        if number not in self._moments:
            return 0
        self._moments.remove(number)
        before = len(self._history.forged)
        for key, item in self._history.latest().items():
            _, name, object_id = key.split("#", 2)
            if item.status is Status.WAITING and name in self._distrusted:
                for forgery in forged(self._distrusted[name], object_id, item):
                    self._say(forgery, now)
                inbox.forge(_later_hops(name, object_id, item), now)
        return len(self._history.forged) - before

    def _say(self, forgery: Forged, now: int) -> None:
        for queue, function in self._source.functions.by_queue.items():
            if not function.plain:
                event = sqs_event(
                    arn_of(queue), forgery.body, attributes=forgery.attributes, sent_at=now,
                    message_id=f"forged-{len(self._history.forged)}", group=_SAID if queue.endswith(".fifo") else None,
                )  # fmt: skip
                record = self._source.put(envelope_of(event), event["Records"][0], queue, _AT_ONCE)
                self._history.forged[record.number] = forgery.kind.value

    def give_up(self, delivery: Delivery, *, is_over: bool) -> None:
        """Let a forged record come once. Unless that is the end of it SQS gives it up, and its next function gets it.

        Its answer would be the same each time.
        """
        self._source.end(delivery, acked=True)
        if not (is_over or delivery.from_dlq):
            again = self._source.copy(delivery, _AT_ONCE)
            again.from_dlq = True
            self._history.forged[again.number] = self._history.forged[delivery.number]

"""Answers that come without an address of ours: they are found by the id that they are awaited under."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from flowguard.callback import Callback
from flowguard.destinations import Bus, Queue, Topic
from flowguard.errors import EnvelopeError, RunFailed, SendFailed
from flowguard.flow import AnyFlow
from flowguard.payload_names import text_at
from flowguard.payloads import encode_json
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.verdicts import AnswerVerdict
from flowguard.protocol.waiting import GivenAnswer
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.wire.tokens import awaited_id_problem
from flowguard.worker.dispatch import dispatch
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Services
from flowguard.worker.resumed import check_answer
from flowguard.worker.settler import Settler, failure
from flowguard.worker.wait_planner import ANSWER

ORDER = (
    AnswerVerdict.EARLY,
    AnswerVerdict.RESUMED,
    AnswerVerdict.RECORDED,
    AnswerVerdict.DUPLICATE,
    AnswerVerdict.SUPERSEDED,
    AnswerVerdict.EXPIRED,
    AnswerVerdict.UNKNOWN,
)
"""Where several runs wait for one id, its sender gets the first of these."""

_WAITING = frozenset({AnswerVerdict.RESUMED, AnswerVerdict.RECORDED, AnswerVerdict.EARLY})
"""The verdicts on an answer that its run could take."""

_MILLISECOND = timedelta(milliseconds=1)


class FoundAnswer(NamedTuple):
    """An answer of a party outside, read as its flow's callback says. ``awaited_id`` is what the runs wait for."""

    flow: AnyFlow
    awaited_id: str
    answer: GivenAnswer
    keep_early: timedelta | None = None
    names: tuple[str, ...] = ()
    """The names that it may be the answer to; none stand for all."""

    def is_for(self, row: AwaitingRow) -> bool:
        """Answer whether its sender may answer what the row awaits."""
        return not self.names or row.address.name in self.names


class OutsideAnswers:
    """Settles answers for every run that waits for them."""

    def __init__(self, services: Services, emitter: Emitter) -> None:
        self._services = services
        self._emitter = emitter
        self._settler = Settler(services)

    def settle(self, found: FoundAnswer, envelope: Envelope, *, queued: bool) -> tuple[AnswerVerdict, Ending]:
        """Settle the answer for every run that waits for its id, and send their next hops.

        The ending says whether its record may be acknowledged. ``queued`` is False for an answer that nobody sends
        again: a copy of it is put into the flow's answer queue first, so that nothing is lost when this process dies.

        Raises :class:`RunFailed` where a stage that waits for it cannot read it, after the runs whose stages can have
        got it; and :class:`SendFailed` where the copy is not taken. Nothing was settled then.
        """
        now, waits, flow = self._services.clock.now(), self._services.store.waits, found.flow
        if found.keep_early is not None:
            expires_at = now + found.keep_early // _MILLISECOND
            waits.keep_early(flow.name, found.awaited_id, found.answer, now=now, expires_at=expires_at)
        awaiting = [row for row in waits.waiting_for(flow.name, found.awaited_id) if found.is_for(row)]
        unread = {row: problem for row in awaiting if (problem := _unreadable(row, found)) is not None}
        rows = [row for row in awaiting if row not in unread]
        if not queued:
            self._put_into_queue(found, rows, now)
        verdicts, endings = [waits.verdict(row.address) for row in unread], []
        missed = [problem for problem, verdict in zip(unread.values(), verdicts, strict=True) if verdict in _WAITING]
        for row in rows:
            verdict, onward = self._settler.settle(flow, envelope, row.address, found.answer)
            verdicts.append(verdict)
            if onward is not None:
                arrival, send = onward
                endings.append(Ending(envelope, ack=True, arrival=arrival, sends=(send,)))
        left = [ending for ending in dispatch(self._services, self._emitter, endings) if not ending.ack]
        if missed:
            raise missed[0]
        verdict = _first(verdicts, kept=found.keep_early is not None)
        why = left[0].why if left else "its hop is not committed yet" if AnswerVerdict.EARLY in verdicts else ""
        return verdict, Ending(envelope, ack=not why, verdict=verdict, why=why)

    def _put_into_queue(self, found: FoundAnswer, rows: Iterable[AwaitingRow], now: int) -> None:
        sends = [answer_message(found, row, now, self._services) for row in rows]
        if refused := self._services.sender.send(sends):
            raise SendFailed({str(sends[place].to): refusal.why for place, refusal in refused.items()})


def _unreadable(row: AwaitingRow, found: FoundAnswer) -> RunFailed | None:
    """Return why the stage that waits cannot read the answer; None where it can.

    A row outlives its run, and the stage may have changed since, or be gone.
    """
    try:
        check_answer(found.flow.stage(row.stage), row.address.name, found.answer)
    except RunFailed as problem:
        return problem
    return None


def _first(verdicts: list[AnswerVerdict], *, kept: bool) -> AnswerVerdict:
    if not verdicts:
        return AnswerVerdict.EARLY if kept else AnswerVerdict.UNKNOWN
    return min(verdicts, key=ORDER.index)


def answer_message(found: FoundAnswer, row: AwaitingRow, now: int, services: Services) -> Send:
    """Build the message that brings an answer to the flow's own functions, with the address that it is for."""
    address = row.address._replace(signature=services.signer.sign(row.address.statement))
    own = f"{row.id}.{address.name}.answer"
    attributes = {
        REQUEST_ID: Attribute.string(own),
        REQUESTED_AT: Attribute.number(now),
        PLACE: Attribute.string(json.dumps({ANSWER: address.as_json()}, separators=(",", ":"))),
    }
    return Send(Kind.SIDE, found.flow.answers, _body(found.answer), own, attributes).checked()


def _body(answer: GivenAnswer) -> str:
    if not answer.failed:
        return f'{{"status":"COMPLETED","result":{answer.text}}}'
    error = json.loads(answer.text)
    return encode_json({"status": "FAILED", "error": f"{error['type']}: {error['text']}"})


# -- reading one -------------------------------------------------------------------------------------------------------


def read_outside(flows: Iterable[AnyFlow], envelope: Envelope) -> FoundAnswer | None:
    """Read a record as the callback says that it came through. None where no flow declares one.

    Raises :class:`EnvelopeError` for a record that names nothing awaited.
    """
    declared = [(flow, callback) for flow in flows for callback in flow.callbacks]
    found = [pair for pair in declared if comes_through(envelope, pair[1])] or (declared if len(declared) == 1 else [])
    if not found:
        return None
    flow, callback = found[0]
    payload = _payload(envelope)
    awaited_id = _awaited_id(envelope, callback, payload)
    try:
        answer = _answer(callback, payload)
    except TypeError as error:
        raise EnvelopeError(envelope.message_id, "body", str(error)) from None
    return FoundAnswer(flow, awaited_id, answer, callback.keep_early, callback.names)


def _answer(callback: Callback, payload: Any) -> GivenAnswer:
    if callback.failed is not None and (failed := _part(payload, callback.failed)):
        return failure("Failed", failed if isinstance(failed, str) else encode_json(failed))
    return GivenAnswer(encode_json(payload if callback.answer is None else _part(payload, callback.answer)))


def comes_through(envelope: Envelope, callback: Callback) -> bool:
    """Answer whether the record came from where the callback says."""
    match callback.source:
        case Queue() as queue:
            return envelope.queue == queue.short_name
        case Topic(arn):
            return envelope.topic_arn == arn
        case Bus(_, source, detail_type):
            event = envelope.event
            return event is not None and (event.source, event.detail_type) == (source, detail_type)
        case _:
            return False


def _payload(envelope: Envelope) -> Any:
    try:
        return json.loads(envelope.message)
    except (ValueError, RecursionError):
        return envelope.message


def _awaited_id(envelope: Envelope, callback: Callback, payload: Any) -> str:
    if callback.id is None:
        named = envelope.attributes.get(REQUEST_ID)
        own, where = (named.value if named is not None else None), f"attributes.{REQUEST_ID}"
    else:
        own, where = text_at(payload, callback.id), f"body.{callback.id}"
    if own is None:
        raise EnvelopeError(envelope.message_id, where, "is not there, and names what is awaited")
    if problem := awaited_id_problem(callback.prefix + own):
        raise EnvelopeError(envelope.message_id, where, problem)
    return callback.prefix + own


def _part(payload: Any, path: str) -> Any:
    """Return the value at the path. None where there is none."""
    value = payload
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value

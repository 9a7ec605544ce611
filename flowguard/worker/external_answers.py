"""Answers that come without an address of ours: they are found by the id that they are awaited under."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from flowguard.callback import Callback
from flowguard.errors import EnvelopeError, RunFailed
from flowguard.flow import AnyFlow
from flowguard.payload.encoding import encode_json
from flowguard.payload.names import text_at
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.run_orders import (
    ANSWER,
    USE,
    ArrivedAnswer,
    answer_statement,
    failed_answer,
    order_attributes,
)
from flowguard.protocol.waiting import ALL_WHO_WAITED, GivenAnswer, Use
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import REQUEST_ID, SEALED
from flowguard.wire.sealed_end import sealed_end
from flowguard.wire.send_ids import IdKind, digest_of, id_of
from flowguard.wire.signing import check_signs
from flowguard.wire.tokens import SEALED_IDS, awaited_id_problem
from flowguard.worker.dispatch import dispatch, not_sent
from flowguard.worker.early_answers import TAKEN, EarlyOffers, Offer
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.lifetimes import lifetimes_of
from flowguard.worker.ports import Budget, Services, Unlimited
from flowguard.worker.record_sources import NamedQueues
from flowguard.worker.settler import SettledAnswer, Settler, message_at

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

ROWS_A_PART = 50
"""Runs that get an answer before their next hops are sent."""

COPY_AFTER = timedelta(seconds=20)
"""When the copy of an answer comes that nobody sends again. The run has gone on by then, unless a worker has died."""

HELD = "what a run has to send before it goes on may be on its way"
"""Why an answer stays in its queue: it comes again as late as the copy of one that nobody sends again."""

KEPT_TO_END_MS = 3_000
"""Kept of an invocation, so that what was begun ends within it."""


class ExternalAnswers:
    """Settles answers for every run that waits for them, a part of them at a time."""

    def __init__(self, services: Services, emitter: Emitter, budget: Budget | None = None) -> None:
        self._services = services
        self._emitter = emitter
        self._settler = Settler(services)
        self._budget = Unlimited() if budget is None else budget

    def settle(self, brought: ExternalAnswer, envelope: Envelope, *, queued: bool) -> tuple[AnswerVerdict, Ending]:
        """Settle the answer for every run that waits for its id, and send their next hops.

        The ending says whether its record may be acknowledged. ``queued`` is False for an answer that nobody sends
        again: a copy of it is put into the flow's answer queue first, so that nothing is lost when this process dies.
        Where the invocation has no time for all of them, their place is kept, and the record is seen again at once.

        Raises :class:`RunFailed` where a stage that waits for it cannot read it, after the runs whose stages can have
        got it; and :class:`SendFailed` where the copy is not taken. Nothing was settled of that part then.
        """
        progress = _Progress()
        offers = self._offers(brought, envelope, progress)
        for offer in offers:
            self._make(offer, brought, envelope, progress, queued=queued)
        if progress.missed is not None:
            raise progress.missed
        return self._ending(brought, envelope, progress)

    def _offers(self, brought: ExternalAnswer, envelope: Envelope, progress: _Progress) -> Iterator[Offer]:
        """Yield to whom it is offered. The next offer follows from the verdicts on the one before."""
        early = EarlyOffers(self._services, brought, envelope)
        if brought.keep_early is None:
            yield Offer(early.rows(envelope.own_id), envelope.own_id)
            return
        kept = early.keep()
        if kept.stands:
            progress.verdicts.add(AnswerVerdict.UNKNOWN if kept.is_beside else AnswerVerdict.DUPLICATE)
        if (first := early.first_offer(kept)) is not None:
            yield first
        is_left = not kept.stands and not progress.is_taken and progress.is_whole
        if is_left and (first is None or early.free()):
            yield early.next_offer()
        elif ALL_WHO_WAITED in (kept.waited, kept.used_by) and progress.is_done:
            early.close()

    def _make(
        self, offer: Offer, brought: ExternalAnswer, envelope: Envelope, progress: _Progress, *, queued: bool
    ) -> None:
        """Make an offer in parts, and send the next hops of each.

        A part that is to be settled again keeps the place before it, whatever comes after.
        """
        rows, goes_on = iter(offer.rows), True
        place: AwaitingRow | None = None
        for part in iter(lambda: list(itertools.islice(rows, ROWS_A_PART)), []):
            goes_on = self._settle_part(part, offer, brought, envelope, progress, queued=queued) and goes_on
            place = part[-1] if goes_on else place
            if len(part) == ROWS_A_PART and not self._has_time():
                progress.is_whole = False
                self._keep_place(brought, offer.by, place)
                break
        progress.is_done = progress.is_whole and goes_on

    def _settle_part(
        self,
        part: Sequence[AwaitingRow],
        offer: Offer,
        brought: ExternalAnswer,
        envelope: Envelope,
        progress: _Progress,
        *,
        queued: bool,
    ) -> bool:
        """Settle the answer for some of those who wait, and send their next hops.

        False where one of them has to be asked again.
        """
        unread = {row: problem for row in part if (problem := brought.problem_for(row)) is not None}
        rows = [brought.admitting(row) for row in part if row not in unread]
        if not queued:
            self._put_into_queue(brought, [(row, _use(row, offer, brought, envelope)) for row in rows])
        verdicts, endings = [self._services.store.waits.verdict(row.address) for row in unread], []
        missed = [problem for problem, verdict in zip(unread.values(), verdicts, strict=True) if verdict in _WAITING]
        is_last, holds = queued and self._has_come_again(envelope), False
        for row in rows:
            settled = self._given(row, offer, brought, envelope, progress, is_last=is_last)
            if settled is None:
                continue
            verdict, onward, is_held = settled
            verdicts.append(verdict)
            if verdict in TAKEN:
                progress.is_taken = True
            holds = holds or (is_held and queued)
            if onward is not None:
                arrival, send = onward
                endings.append(Ending(envelope, ack=True, arrival=arrival, sends=(send,)))
        sent = dispatch(self._services, self._emitter, endings, have_copies=not queued)
        left = [ending for ending in sent if not ending.ack]
        return progress.add(verdicts, missed, left, is_held=holds)

    def _given(
        self,
        row: AwaitingRow,
        offer: Offer,
        brought: ExternalAnswer,
        envelope: Envelope,
        progress: _Progress,
        *,
        is_last: bool,
    ) -> SettledAnswer | None:
        """Give the answer to a run. None where another has used it up.

        One that has it already is settled again: the worker that gave it may have died, and another delivery of the
        message.
        """
        use = _use(row, offer, brought, envelope)
        if progress.is_taken:
            if use is not None and use.user != ALL_WHO_WAITED:
                return None
            use = None
        elif offer.looks_first:
            verdict = self._services.store.waits.verdict(row.address)
            if verdict is not AnswerVerdict.DUPLICATE and verdict not in TAKEN:
                return self._settler.not_given(row.address, brought.answer, verdict)
        given = ArrivedAnswer(row.address, brought.answer, use)
        return self._settler.settle(brought.flow, envelope, given, is_last=is_last)

    def _has_come_again(self, envelope: Envelope) -> bool:
        """Answer whether a record has waited as long as the copy of an answer, and comes again."""
        waited = self._services.clock.now() - (envelope.sent_at or 0)
        return envelope.receive_count > 1 and waited >= COPY_AFTER // timedelta(milliseconds=1)

    def _has_time(self) -> bool:
        left = self._budget.remaining()
        return left is None or left > KEPT_TO_END_MS

    # -- parts of what many wait for

    def _keep_place(self, brought: ExternalAnswer, by: str, place: AwaitingRow | None) -> None:
        """Keep the place up to which all have got the answer. None where the first part is to be settled again."""
        if place is not None:
            until = lifetimes_of(brought.flow).of_run(self._services.clock.now())
            self._services.store.waits.keep_place(brought.flow.name, brought.awaited_id, by, place, until)

    def _ending(self, brought: ExternalAnswer, envelope: Envelope, progress: _Progress) -> tuple[AnswerVerdict, Ending]:
        may_come = brought.keep_early is not None or brought.awaited_id.startswith(SEALED_IDS)
        verdict = _first(progress.verdicts, may_come=may_come)
        why = progress.why or ("its hop is not committed yet" if AnswerVerdict.EARLY in progress.verdicts else "")
        if progress.is_held and not why:
            again_in = COPY_AFTER // timedelta(seconds=1)
            return verdict, Ending(envelope, ack=False, verdict=verdict, why=HELD, again_in=again_in)
        if not progress.is_whole and not why:
            why = f"{progress.rows} runs have it, and more wait for it"
            return verdict, Ending(envelope, ack=False, verdict=verdict, why=why, again_in=0)
        ending = Ending(envelope, ack=not why, verdict=verdict, why=why, backs_off=True)
        return verdict, ending._replace(for_minutes=progress.for_minutes)

    def _put_into_queue(self, brought: ExternalAnswer, uses: Iterable[tuple[AwaitingRow, Use | None]]) -> None:
        if not brought.flow.trust_senders:
            check_signs(self._services.signer, brought.flow.name, "answers")
        now = self._services.clock.now()
        sends = [answer_message(brought, row, now, self._services, use) for row, use in uses]
        if refused := self._services.sender.send(sends):
            raise not_sent({str(sends[place].to): refusal for place, refusal in refused.items()})


class _Progress:
    """What an answer has met so far. ``is_done`` says that no run of the last offer has to be asked again."""

    def __init__(self) -> None:
        self.verdicts: set[AnswerVerdict] = set()
        self.missed: RunFailed | None = None
        self.why = ""
        self.rows = 0
        self.is_whole = True
        self.is_done = True
        self.is_taken = False
        self.is_held = False
        self.for_minutes = False

    def add(
        self, verdicts: Sequence[AnswerVerdict], missed: Sequence[RunFailed], left: Sequence[Ending], *, is_held: bool
    ) -> bool:
        """Add the verdicts of one part. ``left`` are the endings whose next hops could not be sent.

        Returns False where the answer has to come again for a run of this part.
        """
        self.is_held = self.is_held or is_held
        self.verdicts.update(verdicts)
        self.rows += len(verdicts)
        self.missed = self.missed or (missed[0] if missed else None)
        self.why = self.why or (left[0].why if left else "")
        self.for_minutes |= any(ending.for_minutes for ending in left)
        return not left and not missed and not is_held and AnswerVerdict.EARLY not in verdicts


def _use(row: AwaitingRow, offer: Offer, brought: ExternalAnswer, envelope: Envelope) -> Use | None:
    """Return how a run uses the answer. None where nothing is used by that."""
    return None if offer.user is None else Use(brought.awaited_id, envelope.own_id, offer.user(row))


def _first(verdicts: set[AnswerVerdict], *, may_come: bool) -> AnswerVerdict:
    """Return what the sender gets. A token is there before its wait is committed, and outlives no row of that."""
    return min(verdicts or [AnswerVerdict.EARLY if may_come else AnswerVerdict.UNKNOWN], key=ORDER.index)


def answer_message(
    brought: ExternalAnswer, row: AwaitingRow, now: int, services: Services, use: Use | None = None
) -> Send:
    """Build the message that brings an answer to the flow's own functions, with the address that it is for.

    Of one that is kept it says how it is used.
    """
    address = row.address._replace(signature=services.signer.sign(answer_statement(row.address, use)))
    hop = message_at(address, None)
    message_id = id_of(IdKind.ANSWER, hop, digest_of(address.name, row.id, brought.answer.text, brought.answer.failed))
    place: dict[str, Any] = {ANSWER: address.as_json(), **({} if use is None else {USE: list(use)})}
    body, codec = _body(brought.answer), brought.flow.codec
    if codec is not None:
        named = {"flow": address.flow, "object_id": address.object_id}
        body, place = sealed_end(codec, address.flow, address.object_id, named, body), {**place, SEALED: True}
    seconds = COPY_AFTER // timedelta(seconds=1)
    attributes = order_attributes(message_id, now, place)
    return Send(Kind.SIDE, brought.flow.answers, body, message_id, attributes, delay=seconds).checked()


def _body(answer: GivenAnswer) -> str:
    if not answer.failed:
        return f'{{"status":"COMPLETED","result":{answer.text}}}'
    error = json.loads(answer.text)
    return encode_json({"status": "FAILED", "error": f"{error['type']}: {error['text']}"})


# -- reading one -------------------------------------------------------------------------------------------------------


def read_outside(envelope: Envelope, queues: NamedQueues) -> list[ExternalAnswer]:
    """Read a record as each callback says that it may have come through. Empty where there is none.

    A queue, a topic or an event may be of several callbacks: the answer is for those who await its id.

    Raises :class:`EnvelopeError` for a record that names nothing awaited as any of them says.
    """
    answers, problems = [], []
    for flow, callback in queues.callbacks_of(envelope):
        try:
            answers.append(_read(flow, callback, envelope))
        except EnvelopeError as problem:
            problems.append(problem)
    if problems and not answers:
        raise problems[0]
    return answers


def _read(flow: AnyFlow, callback: Callback, envelope: Envelope) -> ExternalAnswer:
    awaited_id = _awaited_id(envelope, callback, payload := _payload(envelope))
    try:
        answer = _answer(callback, payload)
    except TypeError as error:
        raise EnvelopeError(envelope.message_id, "body", str(error)) from None
    return ExternalAnswer(flow, awaited_id, answer, callback.keep_early, callback.names)


def _answer(callback: Callback, payload: Any) -> GivenAnswer:
    if callback.failed is not None and (failed := _part(payload, callback.failed)):
        return failed_answer("Failed", failed if isinstance(failed, str) else encode_json(failed))
    return GivenAnswer(encode_json(payload if callback.answer is None else _part(payload, callback.answer)))


def _payload(envelope: Envelope) -> Any:
    try:
        return json.loads(envelope.message)
    except (ValueError, RecursionError):
        return envelope.message


def _awaited_id(envelope: Envelope, callback: Callback, payload: Any) -> str:
    if callback.id is None:
        named = envelope.attributes.get(REQUEST_ID)
        text, where = (named.value if named is not None else None), f"attributes.{REQUEST_ID}"
    else:
        text, where = text_at(payload, callback.id), f"body.{callback.id}"
    if text is None:
        raise EnvelopeError(envelope.message_id, where, "is not there, and names what is awaited")
    if problem := awaited_id_problem(callback.prefix + text):
        raise EnvelopeError(envelope.message_id, where, problem)
    return callback.prefix + text


def _part(payload: Any, path: str) -> Any:
    """Return the value at the path. None where there is none."""
    value = payload
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value

"""The settling of answers and deadlines: each changes its run's wait, and the run goes on when that is over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from flowguard.destinations import Destination
from flowguard.errors import CannotOpen, EnvelopeError, OtherRelease, RunFailed
from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.answers import is_run_of
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.run_orders import ArrivedAnswer, ArrivedDeadline, answer_of
from flowguard.protocol.waiting import ALL_WHO_WAITED, GivenAnswer, Look, Use, WaitPlan
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import ErrorNote, Message
from flowguard.wire.resumed_body import ResumedBody
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import signed_attributes
from flowguard.worker.denials import other_releases_of
from flowguard.worker.early_answers import TAKEN, address_of, user_of
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Services
from flowguard.worker.resumed_payload import admits_failed, check_answer
from flowguard.worker.routing import CLOCKS_DIFFER_BY, Arrival
from flowguard.worker.undeliverable import park
from flowguard.worker.wait_planner import deadline_message

LOST_AFTER = 2 * LONGEST_SQS_DELAY
"""After this time a deadline's message that came too early, and has not come again, will not come again."""

_MILLISECOND = timedelta(milliseconds=1)


class SettledAnswer(NamedTuple):
    """What an answer came to, and the message with which its run goes on.

    ``is_held`` says that the run is to go on, and another message is expected to say so: a look at its wait, or what
    has ended it.
    """

    verdict: AnswerVerdict
    onward: tuple[Arrival, Send] | None = None
    is_held: bool = False


class Settler:
    """Settles answers and deadlines of one function's flows. Holds nothing of them afterwards."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def ending(self, envelope: Envelope, flow: AnyFlow, arrived: ArrivedAnswer | ArrivedDeadline) -> Ending:
        """Settle what a record brings, which is believed already."""
        if isinstance(arrived, ArrivedAnswer):
            settled = self.settle(flow, envelope, _opened(flow, envelope, arrived), is_last=True)
            verdict, onward = (None, None) if settled is None else (settled.verdict, settled.onward)
            if verdict is AnswerVerdict.EARLY:
                why = "the hop that waits for it is not committed yet"
                return Ending(envelope, ack=False, verdict=verdict, why=why, backs_off=True)
        else:
            verdict, onward = None, self._time_out(flow, envelope, arrived)
        if onward is None:
            return Ending(envelope, ack=True, verdict=verdict)
        arrival, send = onward
        return Ending(envelope, ack=True, verdict=verdict, arrival=arrival, sends=(send,))

    def settle(
        self, flow: AnyFlow, envelope: Envelope, given: ArrivedAnswer, *, is_last: bool, was_early: bool = False
    ) -> SettledAnswer | None:
        """Settle one answer, and use it up where it is kept. None where another has, or a newer one is kept.

        Its run goes on at once where the answer has ended the wait, and a look has proved what was sent.

        ::

            commit ── side messages ── deadline ──▶ look: the run goes on
                                          answer: held         └▶ the copy of the answer, 20 s later: the run goes on

        Elsewhere another message is expected to say so, and this one would be a copy. ``is_last`` says that it has had
        its time: the worker that was to send it may have died. So it is where the run was cancelled: who did that sends
        the message, and a copy from each answer that is under way would end the run once more.
        """
        address, answer, use, waits = given.address, given.answer, given.use, self._services.store.waits
        settled = waits.settle(address, answer) if use is None else waits.take(address, answer, use)
        if settled is None:
            return None
        verdict, item = settled
        is_held = not is_last and _is_held(verdict, address, item)
        facts = {"name": address.name, "verdict": verdict.value, "failed": answer.failed}
        more = {name: True for name, holds in (("was_early", was_early), ("is_held", is_held)) if holds}
        self._emit(EventType.ANSWERED, address, item, **facts, **more)
        if is_held:
            return SettledAnswer(verdict, is_held=True)
        if _is_just_cancelled(verdict, item, self._services.clock.now()):
            return SettledAnswer(verdict)
        return SettledAnswer(verdict, self.onward(flow, envelope, address, item))

    def not_given(self, address: AnswerAddress, answer: GivenAnswer, verdict: AnswerVerdict) -> SettledAnswer:
        """Report an answer that a run does not get, as a look at its item has shown."""
        facts = {"name": address.name, "verdict": verdict.value, "failed": answer.failed}
        self._emit(EventType.ANSWERED, address, None, **facts, looked=True)
        return SettledAnswer(verdict)

    def look_early(self, flow: AnyFlow, envelope: Envelope, item: RunItem, message: Message) -> Iterator[Send]:
        """Settle what was kept before the wait began, and yield the message of a wait that is over.

        The hop's own worker calls it after its commit, and one that finds the hop committed.
        """
        wait = item.wait
        if item.status is not Status.WAITING or wait is None or wait.plan is None:
            return
        address = AnswerAddress(flow.name, message.object_id, item.request_id, item.requested_at, item.hop, "")
        onward = self.onward(flow, envelope, address, item)
        for name in sorted(wait.plan.early & wait.waiting) if onward is None else ():
            settled = self._take_kept(flow, envelope, message, wait.plan, address._replace(name=name))
            if settled is not None and (settled.onward is not None or settled.is_held):
                onward = settled.onward
                break
        if onward is not None:
            yield onward[1]

    def _take_kept(
        self, flow: AnyFlow, envelope: Envelope, message: Message, plan: WaitPlan, address: AnswerAddress
    ) -> SettledAnswer | None:
        """Take what was kept under a name. None where nothing is for it."""
        awaited_id, name = plan.names[address.name] or "", address.name
        user = user_of(address)
        kept = self._services.store.waits.early(flow.name, awaited_id, self._services.clock.now(), user)
        if kept is None or not kept.is_for(name) or not self._can_be_read(flow, message, plan.stage, name, kept.answer):
            return None
        if self._is_left_to_another(kept.waited, user):
            return None
        admitting = address._replace(admits=admits_failed(flow.stage(plan.stage), name))
        given = ArrivedAnswer(admitting, kept.answer, Use(awaited_id, kept.by, user))
        return self.settle(flow, envelope, given, is_last=False, was_early=True)

    def _is_left_to_another(self, waited: str, user: str) -> bool:
        """Answer whether those who waited when it came may have it yet. Its message brings it."""
        if waited in ("", ALL_WHO_WAITED):
            return bool(waited)
        address = address_of(waited)
        return user_of(address) != user and self._services.store.waits.verdict(address) in TAKEN

    def _can_be_read(self, flow: AnyFlow, message: Message, stage: str, name: str, kept: GivenAnswer) -> bool:
        """Answer whether the awaiting stage can read what was kept before it was known."""
        try:
            check_answer(flow.stage(stage), name, kept)
        except RunFailed as error:
            self._services.observer(Event(EventType.BROKEN, message, {"name": name, "why": str(error)}))
            return False
        return True

    def _time_out(self, flow: AnyFlow, envelope: Envelope, deadline: ArrivedDeadline) -> tuple[Arrival, Send] | None:
        """End the wait, or send its deadline again where that lies ahead. A wait that is over may need its message."""
        address, now = deadline.address, self._services.clock.now()
        if deadline.moment <= now:
            applied, item = self._services.store.waits.time_out(address, now)
            if applied:
                self._emit(EventType.TIMED_OUT, address, item)
            if item is None or item.wait is None or item.wait.end is not None:
                return self.onward(flow, envelope, address, item)
        return self._later(flow, envelope, deadline, now)

    def _later(
        self, flow: AnyFlow, envelope: Envelope, deadline: ArrivedDeadline, now: int
    ) -> tuple[Arrival, Send] | None:
        """Send the deadline again, if this message is not a copy of one that was. Copies would multiply."""
        since = min(deadline.since, now + CLOCKS_DIFFER_BY // _MILLISECOND)
        look = Look(envelope.message_id, since, now, long_ago=now - LOST_AFTER // _MILLISECOND)
        goes_on, item = self._services.store.waits.look(deadline.address, look)
        if not goes_on or item is None or item.wait is None:
            return self.onward(flow, envelope, deadline.address, item)
        message = message_at(deadline.address, item)._replace(tenant=deadline.tenant)
        again = deadline_message(flow, deadline.address, item.wait.deadline, now, message, sent_at=item.wait.looked_at)
        return Arrival(envelope, flow, None, message), again

    def onward(
        self, flow: AnyFlow, envelope: Envelope, address: AnswerAddress, item: RunItem | None
    ) -> tuple[Arrival, Send] | None:
        """Build the message of the hop after a wait that is over, as what its record leads to.

        A stage that this code does not have is of another release. Raises :class:`OtherRelease` while a deployment may
        bring it; then the message is a dead letter, and the run goes on when that is sent back to code that has it.
        """
        message = _resumed(address, item)
        if message is None:
            return None
        try:
            return Arrival(envelope, flow, None, message), self._to_its_stage(flow, message)
        except OtherRelease as error:
            if not self._is_parked(flow, envelope, message, error):
                raise
            return None

    def _is_parked(self, flow: AnyFlow, envelope: Envelope, message: Message, error: OtherRelease) -> bool:
        """Send the message to the dead letters, if its record has waited. False where the record is to come again."""
        now = self._services.clock.now()
        is_final = self._services.denials.are_final(other_releases_of(flow.name), envelope, now)
        if envelope.queue_arn is None or not is_final:
            return False
        send, emitter = self._send(message, flow.inbox), Emitter(self._services.observer)
        letter = park(flow, message, send, ErrorNote.of(error, now), self._services.signer)
        refusal = self._services.sender.send([letter]).get(0)
        emitter.sent(message, letter, refusal)
        if refusal is None:
            self._services.denials.ended(letter)
            emitter.parked(message, send, str(error))
        return refusal is None

    def next_hop(self, flow: AnyFlow, address: AnswerAddress, item: RunItem | None) -> tuple[Message, Send] | None:
        """Build the message of the hop after a wait that is over. None where it goes on, or the run went on already.

        Raises :class:`OtherRelease` where this code does not have its stage.
        """
        message = _resumed(address, item)
        return None if message is None else (message, self._to_its_stage(flow, message))

    def _to_its_stage(self, flow: AnyFlow, message: Message) -> Send:
        try:
            inbox = flow.inbox_of(flow.stage(message.stage), message.carried)
        except RunFailed as error:
            raise OtherRelease(str(error)) from None
        return self._send(message, inbox).checked()

    def _send(self, message: Message, inbox: Destination) -> Send:
        attributes = {**signed_attributes(message, self._services.signer), **message.carried}
        return Send(Kind.NEXT, inbox, message.body, id_of(IdKind.NEXT, message), attributes, group=message.object_id)

    def _emit(self, type_: EventType, address: AnswerAddress, item: RunItem | None, **facts: Any) -> None:
        message = message_at(address, item)
        self._services.observer(Event(type_, message, facts))


def _opened(flow: AnyFlow, envelope: Envelope, arrived: ArrivedAnswer) -> ArrivedAnswer:
    """Return the answer, opened where it is sealed. Raises :class:`EnvelopeError` for one that cannot be opened."""
    if arrived.sealed is None:
        return arrived
    try:
        return arrived._replace(answer=answer_of(arrived.sealed.opened(flow.codec)))
    except (CannotOpen, ValueError, RecursionError) as error:
        raise EnvelopeError(envelope.message_id, "body", str(error)) from None


def _resumed(address: AnswerAddress, item: RunItem | None) -> Message | None:
    """Return the message of the hop after a wait that is over. None where it goes on, or the run went on already.

    The store brings the plan of a wait only where the run is at the hop of the address, and waits.
    """
    if item is None or item.wait is None or item.wait.plan is None or item.wait.end is None:
        return None
    end, plan = item.wait.end, item.wait.plan
    return message_at(address, item)._replace(
        stage=plan.stage_at(end),
        body=ResumedBody(end.value, item.wait.deadline).to_text(),
        hop=item.hop + 1,
        reply_to=plan.reply_to,
        answer_to=plan.answer_to,
        carried=plan.carried,
        resumed=True,
    )


def _is_held(verdict: AnswerVerdict, address: AnswerAddress, item: RunItem | None) -> bool:
    """Answer whether a run that is to go on is left to another message."""
    if item is None or _resumed(address, item) is None:
        return False
    return verdict is not AnswerVerdict.RESUMED or item.awaits_look


def _is_just_cancelled(verdict: AnswerVerdict, item: RunItem | None, now: int) -> bool:
    """Answer whether the run was cancelled so lately that a look at its wait mends what its canceller has not sent."""
    if verdict is AnswerVerdict.RESUMED or item is None or item.cancelled_because is None:
        return False
    return now < item.lease_until + LONGEST_SQS_DELAY // _MILLISECOND


def message_at(address: AnswerAddress, item: RunItem | None) -> Message:
    """Return the message of the hop that waits, as far as its run item tells."""
    message = Message(
        flow=address.flow,
        stage="",
        version=1,
        object_id=address.object_id,
        request_id=address.request_id,
        requested_at=address.requested_at,
        body="",
        hop=address.hop,
    )
    if item is None or not is_run_of(item, address) or item.hop != address.hop:
        return message
    plan = None if item.wait is None else item.wait.plan
    here = message._replace(stage=item.stage, version=item.version)
    return here if plan is None else here._replace(trace=plan.trace, depth=plan.depth, tenant=plan.tenant)

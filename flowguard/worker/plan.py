"""The plan of what a commit writes, made from what a handler did.

It is pure, and the one place that knows the endings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Never

from flowguard.destinations import Destination, Queue, parse_destination
from flowguard.errors import Reject, RunFailed, TooLarge, TooManyWrites
from flowguard.failed import Failure
from flowguard.flow import AnyFlow
from flowguard.items.writes import MOST_WRITES
from flowguard.outcome import Done, Next, WaitFor
from flowguard.payload.encoding import encode, encode_json
from flowguard.payload.readable import written
from flowguard.protocol.callers import Caller, StoredEnd
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import ENDED, Commit, NewWait, Status
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.stage import AnyStage
from flowguard.startup.named_tuple import NamedTuple
from flowguard.step import AnyStep, NoState
from flowguard.text.printable import bounded
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, resend_alone
from flowguard.wire.message import FIFO_GROUP, REQUEST_ID, REQUESTED_AT, SEEMS, ErrorNote, Message
from flowguard.wire.sealed_message import sealed_message
from flowguard.wire.send_ids import IdKind, digest_of, id_of, unnamed
from flowguard.wire.signing import UNSIGNED, Signer, signed_attributes
from flowguard.worker.failure_note import veiled
from flowguard.worker.group_parts import SavedGroup
from flowguard.worker.lifetimes import Lifetimes, lifetimes_of
from flowguard.worker.replies import answer_place, end_body, takes_callers
from flowguard.worker.resend import as_it_came, marked, sent_again
from flowguard.worker.restart import first_message_text

if TYPE_CHECKING:
    from flowguard.worker.group_planner import GroupPlanner
    from flowguard.worker.wait_planner import WaitPlanner

_LONGEST_WHY = 100
"""Characters of why a reply cannot be sent: an item has little room for an error."""


class _Listener(NamedTuple):
    """A receiver of a run's end. ``is_answer`` says that a run waits for it."""

    to: Destination
    attributes: Mapping[str, Attribute]
    send_id: str | None = None
    is_answer: bool = False


class Planner(NamedTuple):
    """Plans the commit of one hop. ``moment`` is the hop's own time, ms, later than the commit before it.

    ``failed_hop`` is where the run failed for good, of a hop after that. ``asked`` is the request as the run item has
    noted it: in a later hop it still says that the run was redriven. ``lives_until`` is how long the item lived that
    the claim has found, ms.
    """

    flow: AnyFlow
    message: Message
    moment: int
    signer: Signer = UNSIGNED
    failed_hop: FailedHop | None = None
    cancelled: tuple[Send, ...] = ()
    """The requests that are cancelled with the run, where it was."""
    asked: Caller | None = None
    lives_until: int = 0

    def ended(self, outcome: Next | Done | WaitFor | SavedGroup, step: AnyStep) -> Commit:
        """Plan what a handler's outcome writes. Raises :class:`RunFailed` for one that the flow does not allow."""
        match outcome:
            case Next():
                return self._commit(Status.RUNNING, [*step.sends, self._next(outcome)], step)
            case Done():
                result = None if outcome.result is None else encode_json(outcome.result)
                if self.failed_hop is not None:
                    return self._undone(self.failed_hop, step, result)
                notices = self._complete(Status.COMPLETED, len(step.sends), result=result)
                return self._commit(Status.COMPLETED, [*step.sends, *notices], step, result=result)
            case WaitFor():
                return self._waiting(outcome, step)
            case SavedGroup():
                return self._waiting_for_group(outcome, step)
            case _:
                raise self._no_outcome(outcome)

    def _waiting(self, outcome: WaitFor, step: AnyStep) -> Commit:
        """Plan a wait. The run item outlives its deadline."""
        sends, wait = self._wait_planner().planned(outcome, len(step.sends))
        return self._begun(sends, wait, step)

    def _waiting_for_group(self, saved: SavedGroup, step: AnyStep) -> Commit:
        sends, wait = self.of_group(saved.plan.key).planned(saved)
        return self._begun(sends, wait, step)

    def _begun(self, sends: Sequence[Send], wait: NewWait, step: AnyStep) -> Commit:
        commit = self._commit(Status.WAITING, [*step.sends, *sends], step)
        needed = self._lifetimes.of_wait(wait.deadline)
        return commit._replace(expires_at=self._until(needed), told_until=self._told_until(needed), wait=wait)

    def of_group(self, key: str) -> GroupPlanner:
        """Return the planner of the hop's group."""
        from flowguard.worker.group_planner import GroupPlanner  # a function without groups starts quicker

        return GroupPlanner(self._wait_planner(), key)

    def _wait_planner(self) -> WaitPlanner:
        from flowguard.worker.wait_planner import WaitPlanner  # a function that waits for nothing starts quicker

        failed_at = 0 if self.failed_hop is None else self.failed_hop.hop
        return WaitPlanner(self.flow, self.message, self.moment, self._lifetimes.copies, self.signer, failed_at)

    def _undone(self, failed: FailedHop, step: AnyStep, result: str | None) -> Commit:
        """Plan the end of a run that failed before, and whose ``on_failed`` stage has done its work."""
        notices, error = self._notices_of(failed.error, len(step.sends), result)
        commit = self._commit(Status.FAILED, [*step.sends, *notices], step, result=result)
        return commit._replace(error=error, undone=True)

    def giving_up(self, to: str, failure: Failure, error: ErrorNote, letter: Sequence[Send]) -> Commit:
        """Plan the commit of a hop that failed for good, after which the run goes on at the stage ``to``.

        It has nothing that the handler recorded, but the dead letter, unless that was sent before, the requests that
        are cancelled with the run, and the message of the next hop. Raises :class:`flowguard.errors.Reject` where that
        is too large.
        """
        m, stage = self.message, self.flow.stage(to)
        onward = self._onward(stage, encode(failure), self.flow.version)
        return Commit(
            status=Status.RUNNING,
            committed_at=self.moment,
            expires_at=self._until(self._lifetimes.of_run(self.moment)),
            outbox=self._outbox([*self.cancelled, *letter, onward]),
            state=None,
            failed=FailedHop(m.request_id, m.requested_at, m.hop, m.redrive, veiled(self.flow, error)),
            ended_at=error.at,
            told_until=self._told_until(),
        )

    def failed(self, error: ErrorNote, envelope: Envelope) -> Commit:
        """Plan the end of a run that can never work.

        It has nothing that the handler recorded, but the requests that are cancelled with it, the replies and a dead
        letter. Of a run that had failed before,
        the replies say both errors.
        """
        failure = error
        if self.failed_hop is not None:
            error = self.failed_hop.error.because(f"and {bounded(self.message.stage)} failed: {failure}")
        notices, error = self._notices_of(error)
        letter, letter_error = letter_or_why(
            self.flow, self.message, error if self.failed_hop is None else failure, envelope, self.signer
        )
        return Commit(
            status=Status.FAILED,
            committed_at=self.moment,
            expires_at=self._until(self._lifetimes.of_end(self.moment, Status.FAILED)),
            outbox=self._outbox([*self.cancelled, *notices, *letter]),
            state=None,
            error=error if letter else letter_error,
            takes_callers=takes_callers(self.flow),
            ended_at=failure.at,
            told_until=self._told_until(),
        )

    def _notices_of(self, error: ErrorNote, first: int = 0, result: str | None = None) -> tuple[list[Send], ErrorNote]:
        """Build the Complete messages of a failed run, numbered from ``first``.

        One that no service takes is left out, and the error says so: a reply cannot keep its run from ending.
        """
        notices: list[Send] = []
        text = str(error)
        for number, listener in enumerate(self._listeners(), first):
            try:
                body = self._complete_body(listener, Status.FAILED, result=result, error=text)
                notices.append(self._complete_to(listener, body, number))
            except Reject as refusal:
                error = error.because(f"and nobody is notified: {bounded(ascii(str(refusal))[1:-1], _LONGEST_WHY)}")
        return notices, error

    def without_letter(self, commit: Commit) -> tuple[list[Send], Commit]:
        """Return the dead letter of a failed commit, if it has one, and the commit without it."""
        sends = commit.outbox.sends if commit.outbox is not None else ()
        letter = [send for send in sends if send.kind is Kind.DEAD]
        return letter, commit._replace(outbox=self._outbox([send for send in sends if send.kind is not Kind.DEAD]))

    @property
    def _lifetimes(self) -> Lifetimes:
        return lifetimes_of(self.flow)

    def _until(self, needed: int) -> int:
        """Return until when the item lives that is needed so long."""
        return self._lifetimes.not_before(self.lives_until, needed, self.moment)

    def _told_until(self, needed: int | None = None) -> int | None:
        """Return when the commit's row of a full history may expire, as its item does. None where the flow has none."""
        if not self.flow.full_history:
            return None
        return self._lifetimes.of_run(self.moment) if needed is None else needed

    def _commit(self, status: Status, sends: list[Send], step: AnyStep, result: str | None = None) -> Commit:
        if self.flow.full_history and len(step.writes) == MOST_WRITES:
            raise TooManyWrites(self.message.stage, MOST_WRITES - 1)
        return Commit(
            status=status,
            committed_at=self.moment,
            expires_at=self._until(self._lifetimes.of_end(self.moment, status)),
            outbox=self._outbox(sends),
            state=self._state(step),
            result=result,
            writes=tuple(step.writes),
            takes_callers=takes_callers(self.flow),
            first_message=self._first_message(status),
            told_until=self._told_until(),
        )

    def _first_message(self, status: Status) -> str | None:
        """Return the restart payload of a first hop that is not the last."""
        is_first = takes_callers(self.flow) and self.message.hop == 1 and status not in ENDED
        return first_message_text(self.message) if is_first else None

    def _state(self, step: AnyStep) -> str | None:
        """Return the state's text; None for no state. Raises :class:`RunFailed` for one that would be lost."""
        declared = self.flow.stage(self.message.stage).state
        if isinstance(step.state, declared):
            return None if declared is NoState else written(declared, step.state, what="the state")
        left = f"{self.message.stage!r} left {type(step.state).__name__} in step.state"
        if declared is NoState:
            raise RunFailed(f"{left}, and declares no state; write Stage[Payload, YourState]. Nothing was written")
        raise RunFailed(f"{left}, which is {declared.__name__}; assign {declared.__name__}(…). Nothing was written")

    def _outbox(self, sends: list[Send]) -> Outbox | None:
        return Outbox(self.message.request_id, self.moment, tuple(sends)) if sends else None

    def _no_outcome(self, outcome: Never) -> RunFailed:
        """Build the error for a handler that was not type-checked. The type checker allows no call of this."""
        kind = type(outcome).__name__
        return RunFailed(
            f"{self.message.stage!r} returned a {kind}; return OtherStage.message(…), OtherStage.when_all(…) or Done(…)"
        )

    def _next(self, outcome: Next) -> Send:
        this = self.flow.stage(self.message.stage)
        stage = self.flow.stage(outcome.stage)
        if stage.name not in this.then:
            raise RunFailed(f"{this.name} went on to {stage.name!r}, which its then= does not name")
        if self.message.hop - (0 if self.failed_hop is None else self.failed_hop.hop) >= self.flow.max_hops:
            raise RunFailed(f"{self.flow.name} has made {self.message.hop} hops, its max_hops; does it run in circles?")
        if not isinstance(outcome.payload, stage.payload):
            raise RunFailed(f"{stage.name!r} takes {stage.payload.__name__}, not {type(outcome.payload).__name__}")
        body = written(stage.payload, outcome.payload, what=f"the payload of {stage.name!r}")
        return self._onward(stage, body, self.message.version)

    def _onward(self, stage: AnyStage, body: str, version: int) -> Send:
        """Build the message of the next hop."""
        onward = sealed_message(self.flow.codec, self.message.next(stage.name, body)._replace(version=version))
        return Send(
            Kind.NEXT,
            self.flow.inbox_of(stage, onward.carried),
            onward.text,
            id_of(IdKind.NEXT, onward),
            {**signed_attributes(onward, self.signer), **onward.carried},
            group=onward.object_id,
        ).checked()

    def _complete(self, status: Status, number: int, *, result: str | None = None) -> list[Send]:
        """Build the Complete messages, to ``reply_to`` and to the flow's ``complete_to``."""
        return [
            self._complete_to(listener, self._complete_body(listener, status, result=result), i)
            for i, listener in enumerate(self._listeners(), number)
        ]

    def _listeners(self) -> list[_Listener]:
        """Return the destinations of the end with the attributes of each: those of an answer name its request.

        A request that the run of another request may have answered too gets its answer under the same id from both.
        """
        listeners: list[_Listener] = []
        if (m := self.message).reply_to is not None:
            caller = Caller.of(m) if takes_callers(self.flow) else None
            answer_id = None if caller is None else self._answer_id(caller)
            place = answer_place(self.flow, m.answer_to, m)
            listeners.append(_Listener(parse_destination(m.reply_to), place, answer_id, m.answer_to is not None))
        to = self.flow.complete_to
        return listeners if to is None else [*listeners, _Listener(to, answer_place(self.flow, None, m))]

    def _answer_id(self, caller: Caller) -> str:
        """Return the id of the answer to the run's own request. An end after a redrive is no copy of the one before."""
        noted = 0 if self.asked is None else self.asked.redrive
        redriven = caller._replace(redrive=caller.redrive or noted)
        return redriven.reply_id(self.flow.name, self.message.object_id)

    def _complete_body(self, to: _Listener, status: Status, *, result: str | None, error: str | None = None) -> str:
        end, m = StoredEnd(self.message.request_id, self.moment, status.value, result, error), self.message
        return end_body(self.flow, m.object_id, m.request_id, end, is_answer=to.is_answer)

    def _complete_to(self, listener: _Listener, body: str, number: int) -> Send:
        message_id = listener.send_id or id_of(IdKind.SEND, self.message, number)
        attributes = {
            REQUEST_ID: Attribute.string(message_id),
            REQUESTED_AT: Attribute.number(self.moment),
            **listener.attributes,
            **self.message.carried,
        }
        return Send(Kind.COMPLETE, listener.to, body, message_id, attributes, group=self.message.object_id).checked()


_NOWHERE: Final = Queue("")
"""Where nothing goes that a queue has brought."""


def retried(
    again: Message,
    envelope: Envelope,
    delay: int,
    signer: Signer = UNSIGNED,
    continued: int | None = None,
    inbox: Destination = _NOWHERE,
) -> Send:
    """Build the next attempt of the same request, hop and original.

    It goes to the queue that its record came through; a stream's record, which begins its run, goes to the ``inbox`` of
    the first stage, at once where that is FIFO. A long delay goes by a way that takes no attributes. ``continued`` is
    the epoch of a claim whose work goes on as the same attempt.
    """
    to: Destination = inbox
    group: str | None = again.object_id
    if envelope.queue_arn is not None:
        to, group = Queue(envelope.queue_arn), None
    delay = 0 if isinstance(to, Queue) and to.fifo else delay
    message_id = (
        id_of(IdKind.RETRY, again, again.retry) if continued is None else id_of(IdKind.CONTINUED, again, continued)
    )
    if delay > LONGEST_SQS_DELAY.total_seconds():
        body = resend_alone(envelope, signed_attributes(again, signer))
        return Send(Kind.SIDE, to, body, message_id, delay=delay).checked()
    return sent_again(Send(Kind.SIDE, to, "", message_id, delay=delay, group=group), again, envelope, signer)


def returned(message: Message, envelope: Envelope, to: Destination, delay: int, signer: Signer = UNSIGNED) -> Send:
    """Build the same attempt once more, for the queue that SQS has moved its record from.

    It is named by that record, so that copies of this message are one.
    """
    message_id = id_of(IdKind.BACK, message, digest_of(envelope.message_id))
    group = envelope.group_id or message.object_id
    return sent_again(Send(Kind.SIDE, to, "", message_id, delay=delay, group=group), message, envelope, signer)


def dead_letter(
    flow: AnyFlow, message: Message, error: ErrorNote, envelope: Envelope, signer: Signer = UNSIGNED
) -> Send:
    """Build the dead letter of a message.

    It is the original, untouched, with what is needed to send it again as it is: the next redrive, retry 0, the error.
    Where no object could be read it says which one the payload seems to name, and of a record of a FIFO queue in which
    group it was, if that is not its object's. Where not even the redrive fits beside
    the message it is the record as it came, as SQS would have moved it.

    Raises :class:`flowguard.errors.TooLarge` where the dead letters take less than the queue that the message came by.
    """
    letter_id, group = id_of(IdKind.LETTER, message, unnamed(message, envelope.first_id)), message.object_id
    letter = Send(Kind.DEAD, flow.dead_letters, "", letter_id, group=group or message.request_id)
    parked = message.redriven(veiled(flow, error))
    group_id = envelope.group_id if envelope.is_fifo else None
    marks = {
        SEEMS: None if message.object_id else flow.object_in(message.body),
        FIFO_GROUP: None if group_id == message.object_id else group_id,
    }
    if any(marks.values()):
        with suppress(Reject):  # a letter that is at its limit does without
            return marked(letter, marks, parked, envelope, signer)
    try:
        return sent_again(letter, parked, envelope, signer)
    except TooLarge:
        if message.redrive:  # as it came it would look like the letter that was redriven, and change nothing
            raise
        return as_it_came(letter, envelope).checked()


def letter_or_why(
    flow: AnyFlow, message: Message, error: ErrorNote, envelope: Envelope, signer: Signer
) -> tuple[list[Send], ErrorNote]:
    """Return the dead letter of a message that ends, and the error. Where no letter holds it, the error says so."""
    try:
        return [dead_letter(flow, message, error, envelope, signer)], error
    except Reject as refusal:
        return [], error.because(f"and no dead letter holds it: {bounded(ascii(str(refusal))[1:-1], _LONGEST_WHY)}")

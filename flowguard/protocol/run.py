"""The run item.

It is the one record of a (flow, object id) and decides who may do what. Values only, no expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias

from flowguard.errors import CannotOpen, KeyUnavailable, TextGone
from flowguard.items.writes import Write
from flowguard.names.ids import Owner, RequestId
from flowguard.protocol.callers import Callers, LeftEnd
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.memo import Memo
from flowguard.protocol.outbox import Outbox, Send, StoredOutbox
from flowguard.protocol.waiting import Late, Wait, WaitEnd, WaitPlan
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict, Verdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import ErrorNote, Message

LONGEST_LEASE = timedelta(minutes=30)
"""How long Lambda lets a function run, and by how much its clock may differ from another's."""


class Status(StrEnum):
    """Where a run stands."""

    RUNNING = "RUNNING"
    WAITING = "WAITING"
    """The hop is committed, and the run goes on with the answers that it waits for."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


ENDED = frozenset({Status.COMPLETED, Status.FAILED})


class RunName(NamedTuple):
    """What names a run of an object: its request, and when that was made (ms)."""

    request_id: RequestId
    requested_at: int


class Cancellation(NamedTuple):
    """A cancelled run: that of the request, unless it was asked for later than ``at`` (ms)."""

    request_id: RequestId
    at: int
    why: str


class BackOff(NamedTuple):
    """Why a hop rests that is tried again at ``until`` (ms).

    Its last attempt has failed, or it waits for a place. The latter has the number of the ``look`` that comes then.
    Nothing else decides by it.
    """

    error: ErrorNote
    until: int
    look: int | None = None

    @property
    def has_failed(self) -> bool:
        """Answer whether the attempt has failed. Who waits for a place has not begun."""
        return self.look is None


class Burst(NamedTuple):
    """Requests of one object that come in quick succession. The run of the last one begins when none has come for long.

    It is ``since`` the first of them came. The run of the time ``requested_at`` begins at ``until``. All are in ms.
    """

    since: int
    until: int
    requested_at: int


Rest: TypeAlias = BackOff | Burst | None
"""Why nobody works on a hop for a while."""


class RunItem(NamedTuple):
    """The item as it is stored. Times are ms since 1970; ``state`` and ``result`` are JSON text.

    ``epoch`` grows by one with every claim and never goes back. ``done`` says that the current hop is committed.
    ``stages`` holds the uniquerequestid of each stage passed; all are released when the run is complete.
    """

    request_id: RequestId
    requested_at: int
    version: int
    status: Status
    stage: str
    hop: int
    retry: int
    redrive: int
    epoch: int
    owner: Owner
    lease_until: int
    done: bool
    committed_at: int = 0
    outbox: Outbox | StoredOutbox | None = None
    state: str | None = None
    result: str | None = None
    error: str | None = None
    stages: Mapping[str, RequestId] = {}
    ttl: int = 0
    wait: Wait | None = None
    """What the hop waits for, or the resumed hop after it waited for."""
    left: LeftState | None = None
    """The state that the run before has left in the item. Only a claim by :func:`claims.begins_anew` has it."""
    memo: Memo | None = None
    """What the hop has remembered, or what is left of another hop or run."""
    late: Late | None = None
    """What an earlier hop waited for in vain."""
    callers: Callers | None = None
    """Those who get the end of this run, of a flow that takes callers."""
    answered: Callers | None = None
    """Those who got the last end, or get it now. It stays until the next one."""
    answered_by: RequestId | None = None
    """The request of the run that ended last."""
    answered_key: str | None = None
    """What names it among callers, by its time too."""
    askers: Mapping[str, str] = {}
    """The requests with a ``reply_to`` that have claimed the object and not been answered, by their keys."""
    reset_at: int | None = None
    """When the run was reset, ms, until the next one begins."""
    reset_by: str | None = None
    """The reset that came last."""
    first_message: str | None = None
    """The restart payload. Only a worker that has to send it reads it."""
    left_end: LeftEnd | None = None
    """The end of the run before. Only a claim of a first hop has it."""
    cancellation: Cancellation | None = None
    """The last cancellation that the item knows, of this run or an earlier one.

    :attr:`cancelled_because` is set only where it is of this run.
    """
    lost: TextGone | CannotOpen | KeyUnavailable | None = None
    """Why the state or the result cannot be read: it is gone, or sealed and cannot be opened."""
    failed: FailedHop | None = None
    """Where a run failed for good.

    It is this run (then :attr:`own_failure` is the same) or the run before, whose state the item still holds.
    """
    back_off: BackOff | None = None
    """Why the last attempt failed, and when the next one comes. Only where that takes long, or the record stays."""
    burst: Burst | None = None
    """What a run that is put off waits for, until its first hop is committed. A run that takes over finds it."""
    history: str = ""
    """What has happened lately, as :mod:`flowguard.protocol.run_history` writes it. Nothing decides by it."""
    kills: int = 0
    """How many workers of this attempt were killed before the last one. One less where that gave its claim back."""
    called_attempt: str = ""
    """The :func:`claims.attempt_key` of the attempt that follows a failed direct call. Nobody may repeat that call.

    Or the :func:`claims.queued_key` of a stream's record, whose copies begin nothing.
    """
    by_look: int | None = None
    """By which look the hop was committed, or by a call (0). None where its message had no turn in a line."""
    first_text: str | None = None
    """What tells the text that has claimed the first hop from others, until that hop is committed.

    None where another release has claimed it. A reset and a cancellation leave it.
    """
    full_history: bool = False
    """Whether rows beside the item tell what has happened. Nothing decides by it."""

    @property
    def own_failure(self) -> FailedHop | None:
        """Return where this run failed for good and went on at ``on_failed``. None for a run that did not."""
        failure = self.failed
        if failure is None or (failure.request_id, failure.requested_at) != (self.request_id, self.requested_at):
            return None
        return failure

    @property
    def wait_was_dispatched(self) -> bool:
        """Answer whether it is proved that the hop which waits sent its side messages.

        ::

            commit ── side messages ── deadline ── asks
                                          └▶ look: the item says when      └▶ the answer of another flow

        The deadline's message and the asks go out after them. Other answers prove nothing: their ids can be known
        without an ask. Nor does a deadline's message where the run was reset, for it may be of the time before that.
        """
        wait = self.wait
        if wait is None:
            return False
        by_deadline = wait.looked_at > 0 or (wait.timed_out and self.cancelled_because is None)
        if by_deadline and self.reset_at is None:
            return True
        if wait.group is not None:
            return wait.end is WaitEnd.ANSWERED
        return wait.plan is not None and bool(wait.plan.asked & wait.answered)

    @property
    def has_sent_beside_its_wait(self) -> bool:
        """Answer whether it is proved that what the outbox holds beside a wait was sent.

        A run that failed after its wait keeps the wait for its redrive. Its outbox is of the end, which nothing proves.
        """
        return self.outbox is not None and self.wait_was_dispatched and self.outbox.is_of_wait

    @property
    def awaits_look(self) -> bool:
        """Answer whether a look at this run's wait, which proves what was sent, is still to come.

        Where the worker of the hop that waits has died, it may come never. A run that was reset is proved by none.
        """
        plan = None if self.wait is None else self.wait.plan
        return plan is not None and plan.looks and self.reset_at is None and not self.wait_was_dispatched

    @property
    def cancelled_because(self) -> str | None:
        """Return why this run was cancelled. None for a run that was not."""
        cancellation = self.cancellation
        if cancellation is None or cancellation.request_id != self.request_id or cancellation.at < self.requested_at:
            return None
        return cancellation.why

    def unsent_at(self, hop: int) -> tuple[Send, ...]:
        """Return what the commit of ``hop`` may not have sent yet: nothing once a later hop was claimed."""
        return self.outbox.sends if self.outbox is not None and self.hop == hop else ()


class LeftState(NamedTuple):
    """A state in the item that is of the run before. ``read`` may raise :class:`flowguard.errors.TextGone`.

    ``size`` is the bytes of the item that it takes.
    """

    read: Callable[[], str]
    size: int


class ClaimRequest(NamedTuple):
    """The claim that a worker asks for.

    It is for this message's hop, until ``lease_until``. Times are in ms.
    """

    message: Message
    owner: Owner
    now: int
    lease_until: int
    on_conflict: OnConflict
    abandoned_before: int
    """A run whose lease ended before this moment counts as abandoned."""
    expires_at: int
    """When the item may be removed."""
    fresh_since: int = 0
    """Of a flow that takes callers: a result of this moment or a later one is good for the request."""
    longest_lease: int = LONGEST_LEASE // timedelta(milliseconds=1)
    """How long any worker of the hop can hold it, ms."""
    first_text: str = ""
    """For a sealed request: the digest of its sealed text, then the sealed digest of its content. Else empty."""

    @property
    def text(self) -> str:
        """Return what the claim of a first hop writes of the text."""
        return self.first_text or self.message.text_digest

    @property
    def believed_until(self) -> int:
        """Return the latest end of a lease that is believed. A worker whose clock is fast has written a later one."""
        return self.now + self.longest_lease


class Claim(NamedTuple):
    """Ownership of one hop, immutable from claim to commit.

    ``item`` is the run item as the claim left it. Its ``outbox`` is what is still there of an earlier commit: of this
    run's, where its last message was just claimed, or of a run that was taken over. ``before`` is the item as the
    claim found it, None where there was none.
    """

    message: Message
    item: RunItem
    before: RunItem | None
    unwritten: ClaimRequest | None = None
    """What was asked for, of a hop that was only read: the commit takes it, if ``before`` is still what is there."""
    at: int = 0
    """When it was asked for, ms."""


class Refused(NamedTuple):
    """The claim was not granted. ``item`` is what stood in its way, None where there was nothing."""

    verdict: Verdict
    item: RunItem | None


class NewWait(NamedTuple):
    """What a commit makes its run wait for. ``deadline`` is in ms."""

    plan: WaitPlan
    spare: int
    deadline: int
    rows: tuple[AwaitingRow, ...] = ()

    def begun(self) -> Wait:
        """Return the wait as the commit leaves it."""
        group = None if self.plan.group is None else self.plan.group.key
        return Wait(frozenset(self.plan.awaited), self.spare, self.deadline, plan=self.plan, group=group)


class AwaitingRow(NamedTuple):
    """Maps an id that an answer arrives under to the run that waits for it.

    ``stage`` is where the answer goes. ``expires_at`` is in ms.
    """

    id: str
    address: AnswerAddress
    stage: str
    expires_at: int


class Settled(NamedTuple):
    """The store's reply to an answer. ``item`` is the run item afterwards, None where there is none.

    Its wait has its plan where it is over and the run has not gone on, and never the answers.
    """

    verdict: AnswerVerdict
    item: RunItem | None


class ResetOnce(NamedTuple):
    """A reset of runs that were asked for until ``latest`` alone. Times are in ms.

    The order of a message is remembered until ``known_until``.
    """

    latest: int
    known_until: int | None = None


class TimedOut(NamedTuple):
    """The store's reply to a deadline. ``applied`` says that this call ended the wait."""

    applied: bool
    item: RunItem | None


class Looked(NamedTuple):
    """The store's reply to a deadline that comes too early. ``item`` is the run item afterwards.

    ``goes_on`` says that this message is to be sent again; of its copies no other is.
    """

    goes_on: bool
    item: RunItem | None


class Commit(NamedTuple):
    """Everything that one hop changes, to be written at once or not at all. Times in ms.

    ``state`` is the run's new state. A hop that failed leaves the stored one as it is, and says None. ``failed`` is
    of a hop after which the run goes on at ``on_failed``; ``undone`` of the FAILED end of a run that has done so.
    """

    status: Status
    committed_at: int
    expires_at: int
    outbox: Outbox | None
    state: str | None
    result: str | None = None
    error: ErrorNote | None = None
    writes: tuple[Write, ...] = ()
    wait: NewWait | None = None
    takes_callers: bool = False
    """Whether the flow takes callers: the commit of an end closes their list."""
    first_message: str | None = None
    """The restart payload, of a first hop that is not the last."""
    failed: FailedHop | None = None
    undone: bool = False
    ended_at: int = 0
    """When the handler had ended. Only the history tells it."""
    told_until: int | None = None
    """Of a flow with a full history: when the row that the commit writes may be removed."""

    @property
    def is_transaction(self) -> bool:
        """Answer whether something is written beside the run item."""
        return bool(self.writes) or self.told_until is not None

    @property
    def closes_list(self) -> bool:
        """Answer whether it closes the list of callers."""
        return self.takes_callers and self.status in ENDED

    @property
    def can_be_redriven(self) -> bool:
        """Answer whether the hop stays open for its dead letter: what it remembers, and waited for, is kept."""
        return self.status is Status.FAILED and not self.undone

    @property
    def leaves_first_message(self) -> bool:
        """Answer whether a reset may need the restart payload again: the run goes on, or may after a redrive."""
        return not self.closes_list or self.can_be_redriven

    @property
    def leaves_state(self) -> bool:
        """Answer whether the state is left as it is, since the hop failed."""
        return self.can_be_redriven or self.failed is not None


class Committed(NamedTuple):
    """The commit is in the item, whether or not the first answer said so."""

    callers: Callers | None = None
    """Those who get the end of the run that this commit has ended."""


class FencedBy(StrEnum):
    """Who owns the run now."""

    NEWER_RUN = "newer run"
    """Another request. Its claim keeps what was unsent: ack."""
    OTHER_ATTEMPT = "other attempt"
    """Another attempt of the same, unfinished hop. It may die: not acked."""
    FINISHED = "finished"
    """Another attempt, which finished the hop. It may die before it has sent anything: send its outbox, then ack."""
    EXPIRED = "expired"
    """Nobody, or an older request: the item had gone. This one has still to be carried out: not acked."""


class Fenced(NamedTuple):
    """The commit was refused because this worker no longer owns the hop. Nothing was written."""

    by: FencedBy
    item: RunItem | None

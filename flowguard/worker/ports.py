"""The interfaces that the runtime calls: a store, a sender, a clock, an alarm, ids and an observer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from flowguard.clock import Clock, SystemClock
from flowguard.events import Observer, log
from flowguard.items.writes import Write
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.names.ids import Ids, ObjectId, RandomIds, RequestId
from flowguard.payload.codec import Codecs
from flowguard.protocol.callers import Caller, Callers, StoredEnd
from flowguard.protocol.groups import GroupRequest, NewShard
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import (
    AwaitingRow,
    BackOff,
    Claim,
    ClaimRequest,
    Commit,
    Committed,
    Fenced,
    Looked,
    Refused,
    ResetOnce,
    Rest,
    RunItem,
    RunName,
    Settled,
    TimedOut,
)
from flowguard.protocol.waiting import EarlyAnswer, GivenAnswer, Kept, Look, Use
from flowguard.recorded.table_writes import ReadsTables
from flowguard.startup.named_tuple import NamedTuple
from flowguard.startup.value import Value, fresh
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import ErrorNote
from flowguard.wire.signing import UNSIGNED, Signer
from flowguard.wire.tokens import NO_TOKENS, Tokens
from flowguard.worker.alarm import Alarm, ThreadAlarm
from flowguard.worker.asks import Calls, CommitAnswer
from flowguard.worker.denials import Denials

if TYPE_CHECKING:
    from flowguard.worker.place_store import PlaceStore


class Groups(Protocol):
    """Groups of requests that runs wait for. Their answers are settled by :meth:`Waits.settle`."""

    def save(self, shard: NewShard) -> None:
        """Write a shard and its requests, before the commit of their hop. Raises where some are not written."""

    def run(self, address: AnswerAddress) -> RunItem | None:
        """Read the run item with the plan of its wait, consistently."""

    def requests(self, flow: str, key: str, shard: int) -> Sequence[GroupRequest]:
        """Read the requests of a shard, in order."""

    def asking(self, address: AnswerAddress, key: str, start: int, end: int) -> bool:
        """Note that these shards may be asked from now on. False where the run does not wait for that."""

    def asked(self, address: AnswerAddress, key: str, start: int, end: int, by: str) -> bool:
        """Note that ``by`` has asked these shards. False where the next were asked, or the run does not wait."""

    def answers(self, flow: str, key: str, shard: int) -> Sequence[tuple[GroupRequest, GivenAnswer | None]]:
        """Read the requests of a shard with their answers, and let it take no more. Its run has gone on."""

    def unanswered(self, flow: str, key: str, shard: int) -> Mapping[int, GroupRequest]:
        """Read who has not answered of a shard, without the bodies, and let it take no more."""

    def cancelled(self, flow: str, key: str, shard: int, end: int, by: str) -> bool:
        """Note that ``by`` has cancelled these shards. False where another has, and the next are closed."""


class Waits(Protocol):
    """What runs wait for, and the rows by which an answer from outside finds them."""

    @property
    def groups(self) -> Groups: ...

    def settle(self, address: AnswerAddress, answer: GivenAnswer) -> Settled:
        """Keep the answer if the run waits for it. After a :class:`flowguard.errors.TooLarge` the run still waits."""

    def take(self, address: AnswerAddress, answer: GivenAnswer, use: Use) -> Settled | None:
        """Settle an answer that is kept and use it up, both or nothing. None where it is used, or another is kept."""

    def verdict(self, address: AnswerAddress) -> AnswerVerdict:
        """Return the verdict that an answer would get, by a consistent read. Nothing is kept."""

    def time_out(self, address: AnswerAddress, now: int) -> TimedOut:
        """End the wait, if it goes on and its deadline has passed at ``now`` (ms). The address names no answer."""
        ...

    def look(self, address: AnswerAddress, look: Look) -> Looked:
        """Note that a deadline's message came too early, if it is not the copy of one that did before."""
        ...

    def save(self, rows: Sequence[AwaitingRow]) -> None:
        """Write rows, before anything is sent that may be answered."""
        ...

    def waiting_for(self, flow: str, awaited_id: str, by: str = "") -> Iterable[AwaitingRow]:
        """Yield who waits for the id, read consistently, but those before the place of the message ``by``."""
        ...

    def keep_place(self, flow: str, awaited_id: str, by: str, row: AwaitingRow, until: int) -> None:
        """Keep the row up to which the message ``by`` is settled, until ``until`` (ms)."""
        ...

    def keep_early(  # noqa: PLR0913 - everything but the first three is named
        self,
        flow: str,
        awaited_id: str,
        answer: GivenAnswer,
        *,
        now: int,
        expires_at: int,
        known_until: int = 0,
        by: str = "",
        at: int = 0,
        names: Sequence[str] = (),
        waited: str = "",
    ) -> Kept:
        """Keep an answer of the message ``by``, sent ``at`` (ms), for waits that begin until ``expires_at``."""
        ...

    def early(self, flow: str, awaited_id: str, now: int, reader: str = "") -> EarlyAnswer | None:
        """Return the answer that is kept for the id, unless another than ``reader`` has used it up."""
        ...

    def free_early(self, flow: str, awaited_id: str, by: str) -> bool:
        """Leave what the message ``by`` has brought to the next wait. False where it is used, or another is kept."""
        ...

    def close_early(self, flow: str, awaited_id: str, by: str) -> None:
        """Note that all who waited for what the message ``by`` has brought have it."""
        ...


class Memos(Protocol):
    """What hops remember before their commits."""

    def remember(
        self, claim: Claim, name: str, text: str, *, is_first: bool, writes: Sequence[Write] = ()
    ) -> Fenced | int:
        """Keep the text under the name and apply the writes with it. All of that is done once, or nothing.

        ``is_first`` says that the hop remembers nothing yet. Answers how many bytes of the item that takes, or by whom
        the claim is fenced. Raises as :meth:`Store.commit` does.
        """

    def fetch_key(self, claim: Claim) -> None:
        """Fetch the data key that seals, where the flow has a codec. Raises what the codec raises."""

    def holds(self, claim: Claim) -> bool:
        """Answer whether no other worker, no newer run and no cancellation has fenced the claim. Writes nothing."""

    def forget(self, claim: Claim) -> Fenced | None:
        """Remove what an earlier run has left. Answers by whom the claim is fenced, None where it holds."""


class Cancellations(Protocol):
    """Runs that are cancelled from outside."""

    def run_of(self, flow: str, object_id: ObjectId, by: RunName, known_until: int) -> RunName | None:
        """Return the run that the order ``by`` met when it first came, remembered until ``known_until`` (ms)."""
        ...

    def cancel(
        self, flow: str, object_id: ObjectId, at: int, why: str, now: int, only: RequestId | RunName | None = None
    ) -> RunItem | None:
        """Fence the run, and note that it is cancelled, unless it was asked for later than ``at``. Times are in ms.

        ``only`` restricts that to one run, or to a request's run of the time ``at``. A wait that goes on is over then.
        Returns the item afterwards, with the plan of its wait where it waits; None where there is no run to cancel.
        """
        ...


class CallerLists(Protocol):
    """Those who are answered with the end of a run that another request began."""

    def attach(
        self, flow: str, object_id: ObjectId, callers: Callers, caller: Caller, until: int, row_until: int
    ) -> bool:
        """Add the caller to the list if that is still open, and keep the item until ``until`` at least.

        A caller that becomes a row is kept until ``row_until``. Both are in ms. The same caller may be added again.
        Raises :class:`flowguard.errors.TooLarge` for one that no item can hold.
        """
        ...

    def rows(self, flow: str, object_id: ObjectId, term: str) -> Iterable[Sequence[Caller]]:
        """Yield the callers of a list that the item does not hold, page by page. They are read consistently."""
        ...

    def forget(self, flow: str, object_id: ObjectId, term: str, callers: Sequence[Caller]) -> None:
        """Remove callers that :meth:`rows` yielded and that were answered."""
        ...

    def reset(
        self, flow: str, object_id: ObjectId, by: str, at: int, now: int, order: ResetOnce | None = None
    ) -> RunItem | None:
        """Fence the run at work, or drop the stored end. Times are in ms.

        ``by`` names the reset: one that comes twice changes nothing more. That of an ``order`` changes nothing more
        however many resets came in between. A run that was asked for after ``latest``, else after ``at``, counts as
        reset. Returns the item afterwards, with the restart payload; None if there was nothing to reset.
        """
        ...

    def stored_end(self, flow: str, object_id: ObjectId) -> StoredEnd | None:
        """Read the end of the object's run, consistently. None where there is none. Raises what its text is lost by."""
        ...

    def forget_askers(self, flow: str, object_id: ObjectId, keys: Sequence[str]) -> None:
        """Remove requests from the item that were answered, by their keys."""
        ...


class Batches(Protocol):
    """Claims, reads and commits of several runs in few calls. None is of an object twice.

    Each is judged and answered on its own, and none raises. None stands for what was not answered: it may be written,
    and is asked again by :class:`Store`, a claim under the same owner.
    """

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]: ...

    def judge(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]:
        """Decide claims as :meth:`Store.judge` does."""
        ...

    def commit(self, commits: Sequence[tuple[Claim, Commit]], *, in_threads: bool = False) -> list[CommitAnswer]:
        """Commit hops that close no list of callers. Those that are transactions are made at once if ``in_threads``."""
        ...

    def release(self, claims: Sequence[Claim], now: int) -> None:
        """End the leases (``now``, ms) of hops that were not begun. Best effort: errors are dropped."""
        ...

    def refusals(self) -> list[str]:
        """Return why requests were refused as a whole, or not answered, since this was last asked."""
        ...


class Store(Protocol):
    """The run items. Each method is one call to the database, and answers from that call alone."""

    @property
    def codecs(self) -> Codecs:
        """Return the codecs of flows by which texts are sealed. It has to learn of each flow that is served."""

    @property
    def waits(self) -> Waits:
        """Return what keeps answers, on the same table."""

    @property
    def memos(self) -> Memos:
        """Return what keeps the memory of hops, on the same table."""

    @property
    def cancellations(self) -> Cancellations:
        """Return what cancels runs, on the same table."""

    @property
    def callers(self) -> CallerLists:
        """Return what keeps callers, on the same table."""

    @property
    def places(self) -> PlaceStore:
        """Return what keeps the places of limits, on the same table."""

    @property
    def batches(self) -> Batches | None:
        """Return what claims and commits several runs together. None where that cannot be."""

    def claim(self, request: ClaimRequest) -> Claim | Refused: ...

    def judge(self, request: ClaimRequest) -> Claim | Refused:
        """Decide the claim by a consistent read, and write nothing.

        The commit takes the hop, if it finds what was read. No other worker is kept from the hop meanwhile.
        """
        ...

    def release(self, claim: Claim, now: int, *, failed: bool, rest: Rest = None, called_attempt: str = "") -> None:
        """End the lease (``now``, ms) of a hop that is not committed. A ``failed`` attempt is counted in the item.

        A back-off (``rest``) is kept until the next claim, a burst and a ``called_attempt`` until a commit.
        """
        ...

    def back_off(self, claim: Claim, back_off: BackOff) -> None:
        """Note why a failed attempt's hop rests, and until when, unless another owns it. The next claim removes it."""
        ...

    def note_kills(self, claim: Claim) -> None:
        """Note how many workers were killed before the claim. Writes nothing where another owns the hop by now."""
        ...

    def tell(self, claim: Claim, error: ErrorNote) -> None:
        """Write a row of the full history on an attempt that has failed with the error, and is tried again.

        Writes nothing where another owns the hop by now.
        """
        ...

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced | Refused:
        """Commit the hop, or answer that its worker is fenced.

        Of a hop that was only read, the answer is the verdict on its message now: CLAIMED where the hop is still open,
        and the item another than the one that was read.

        Raises for conditions of the caller's own, as they say: :class:`flowguard.errors.ConditionFailed`,
        :class:`flowguard.errors.ConditionRejected` or :class:`flowguard.errors.NotHeld`; and
        :class:`flowguard.errors.TooLarge`. Nothing is written then.
        """
        ...


class Refusal(NamedTuple):
    """Why a message was not taken. ``final`` where it will not be, however often it is sent: malformed, too large.

    ``for_minutes`` where it may be taken in a while, and is refused for good if it is not: no such queue, denied.
    """

    why: str
    final: bool = False
    for_minutes: bool = False

    def after(self, minutes: bool) -> Refusal:
        """Return what it means to a record that has waited for ``minutes``, or cannot wait."""
        return self._replace(final=True) if self.for_minutes and minutes else self


class Sender(Protocol):
    """Sends what outboxes hold."""

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        """Send all it can, in order for each destination. The answer has those that were not taken, by position."""
        ...

    def postpone(self, envelope: Envelope, seconds: int) -> str | None:
        """Let a record that stays in its queue be seen again after ``seconds``, not at the queue's own pace.

        At most :data:`flowguard.retry.LONGEST_VISIBILITY`. Returns why the queue refuses, and brings it at its pace.
        """

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        """Postpone records, each by its own seconds, in batches of ten per queue. Raises nothing."""
        ...


class Services(Value):
    """Everything that is handed in. It is immutable, and keeps nothing of messages but which were sent of streams."""

    store: Store
    sender: Sender
    clock: Clock = fresh(default_factory=SystemClock)
    ids: Ids = fresh(default_factory=RandomIds)
    observer: Observer = log
    draw: random.Random = fresh(default_factory=random.Random)  # for jitter; seeded where a run is to be repeatable
    alarm: Alarm = fresh(default_factory=ThreadAlarm)
    denials: Denials = fresh(default_factory=Denials)
    stream_sends: dict[str, None] = fresh(default_factory=dict)  # what was sent for records of streams
    tables: ReadsTables | None = None
    """Reads the user's tables, for ``step.modify``."""
    signer: Signer = UNSIGNED
    tokens: Tokens = NO_TOKENS
    threads: bool = False
    """Whether handlers of stages with ``parallel`` run in threads. An AWS in memory takes one call at a time."""
    is_outage: Callable[[Exception], bool] = lambda error: False  # a service fails for now, whatever it is asked
    fails_for_now: Callable[[Exception], bool] = lambda error: False  # the call may succeed later, as it is
    debug_sampled: bool = False  # whether handlers log at DEBUG in runs whose trace is sampled
    names: Names = AS_IN_CODE
    """The names of queues and topics at AWS, for where records come from."""
    run_table: str | None = None  # at AWS: its own changes begin no runs
    watched: Callable[[Calls], Calls] = lambda calls: calls
    """Returns the store with its claims, reads and commits watched."""


class Budget(Protocol):
    """The time that the invocation has left, in ms. None where nothing limits it."""

    def remaining(self) -> int | None: ...


class Unlimited:
    """A budget without a limit: no Lambda is counting."""

    def remaining(self) -> int | None:
        return None

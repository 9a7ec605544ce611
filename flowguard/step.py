"""The step that a handler gets. Everything asked of it is recorded; nothing happens before the commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypeVar

from flowguard.clock import Clock
from flowguard.destinations import Destination
from flowguard.errors import OtherRelease, PayloadInvalid, RunFailed, shown
from flowguard.items.modified import MOST_TRIES, Change
from flowguard.items.newest import ItemFence, item_fence, milliseconds, newest_put
from flowguard.items.rows import row
from flowguard.items.writes import Check, Condition, Delete, Put, Update, Write
from flowguard.names.ids import ObjectId, RequestId, name_problem
from flowguard.outcome import Ask, AskFlow, AskGroup, AwaitedEvent, AwaitedToken
from flowguard.payload.encoding import Payload, decode
from flowguard.protocol.outbox import Send
from flowguard.recorded.awaitables import asked, asked_group, awaited_token
from flowguard.recorded.remembered import EarlyEffects, ForgottenMemory, Remembers, idempotency_key
from flowguard.recorded.side_messages import Needless, SideMessages, Startable
from flowguard.recorded.table_writes import (
    NOTHING_REFUSED,
    ReadsTables,
    RefusedWrites,
    TableWrites,
    read_and_change,
)
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.shown_facts import ShownFacts
from flowguard.wire.signing import UNSIGNED, Signer
from flowguard.wire.tokens import NO_TOKENS, Tokens

if TYPE_CHECKING:
    from flowguard.group import GroupAnswer
    from flowguard.protocol.run import Claim
    from flowguard.recorded.read_answers import EndedGroup
    from flowguard.sql.fence import SqlDatabase

_stage_logger = logging.getLogger("flowguard.stage")
_debug_logger = logging.getLogger("flowguard.stage.debug")
"""Whatever the level of the loggers above it, its lines reach their handlers."""
_debug_logger.setLevel(logging.DEBUG)


class NoState(BaseModel):
    """The state of a flow that declares none."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


StateT = TypeVar("StateT", bound=BaseModel, default=NoState)
AnswerT = TypeVar("AnswerT")


class Before(NamedTuple):
    """What is known before a handler is called."""

    refused: RefusedWrites = NOTHING_REFUSED
    memory: Remembers | None = None
    left: Callable[[], str] | None = None
    left_error: str | None = None
    tables: ReadsTables | None = None
    calls: int = 0
    """How often the handler was called in this attempt before."""
    epoch: int = 1
    leased: bool = True
    """Whether the stage claims its hops: what is written before the commit is written under a claim."""
    debugs: bool = False
    """Whether each line of the log is written, of the level DEBUG too."""
    group: EndedGroup | None = None
    reset_by: str | None = None
    """The last reset of the object."""
    claim: Claim | None = None
    """The claim of the hop. None for a step without a run."""
    children: Callable[[str], Needless] = lambda why: Needless((), 0)
    """Builds the requests, as cancelled, of the runs that were asked and have not answered."""


class Step(Generic[StateT]):
    """One attempt of one stage, as its handler sees it.

    ``state`` is the run's own typed state: read with the claim, written with the commit. Change it in place or assign
    a new value; no other worker can change it meanwhile.

    A write may have a ``condition``, a DynamoDB condition expression with its ``names`` (``#…``) and ``values``
    (``:…``). If it does not hold, nothing of the commit is applied, and the attempt fails with
    :class:`flowguard.errors.ConditionFailed`: it is tried again. With ``else_reject`` set the run ends FAILED instead.
    With ``else_go_on``, a name, the handler is called again at once, and its commit leaves this write out:
    ``refused`` then has that name, with the item that was met.
    """

    def __init__(
        self,
        message: Message,
        *,
        state: StateT,
        clock: Clock,
        committed_at: int,
        signer: Signer = UNSIGNED,
        tokens: Tokens = NO_TOKENS,
        before: Before | None = None,
    ) -> None:
        before = Before() if before is None else before
        self.state = state
        self.refused = before.refused
        """The writes with ``else_go_on`` that did not hold, by that name, each with the item that it met (or None).

        It is empty when a handler is first called. If some do not hold, the handler is called again with them.
        """
        self._before = before
        self._writes = TableWrites(message.stage, before.refused)
        memory = ForgottenMemory() if before.memory is None else before.memory
        self._early = EarlyEffects(memory, self._writes)
        self._messages = SideMessages(message, signer, committed_at)
        self._message = message
        self._clock = clock
        self._tokens = tokens
        self._committed_at = committed_at

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Return the stage's log, whose lines name the request, the flow, the stage and the hop."""
        message = self._message
        return logging.LoggerAdapter(
            _debug_logger if self._before.debugs else _stage_logger,
            {"request_id": message.request_id, "flow": message.flow, "stage": message.stage, "hop": message.hop},
        )

    @property
    def request_id(self) -> RequestId:
        """Return the id of the run. It is the same in every hop, retry and redrive."""
        return self._message.request_id

    @property
    def object_id(self) -> ObjectId:
        """Return the id of the business object that the run is for."""
        return self._message.object_id

    @property
    def requested_at(self) -> datetime:
        """Return when the run was asked for, by the requester's clock. UTC."""
        return datetime.fromtimestamp(self._message.requested_at / 1000, UTC)

    @property
    def hop(self) -> int:
        """Return the number of this hop in its run. The first is 1."""
        return self._message.hop

    @property
    def attempt(self) -> int:
        """Return the number of this attempt since the message was sent or redriven. The first is 1."""
        return self._message.retry + 1

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        """Return the message attributes that the flow carries from hop to hop."""
        return self._message.carried

    @property
    def superseded(self) -> StateT | None:
        """Return the state of the object's previous run, as its last commit wrote it.

        It is for the first stage, which can take back or build on the work of that run. None in later hops, without a
        previous run, and for one that has committed no state. It is there until the first hop is committed, also in
        later attempts. Raises :class:`flowguard.errors.OtherRelease` where it cannot be read as this flow's state: the
        message is parked then, unless the handler goes on without it.
        """
        if self._before.left is None:
            return None
        try:
            return cast("StateT", decode(type(self.state), self._before.left(), what="the state of the run before"))
        except PayloadInvalid as error:
            raise OtherRelease(str(error)) from None

    @property
    def superseded_error(self) -> str | None:
        """Return why the run before failed for good, where its ``on_failed`` stage has not undone that.

        It is there with :attr:`superseded`: this run has taken the object from the stage that was to undo, or that
        stage has failed. Take back what :attr:`superseded` says was done. None in any other case.
        """
        return self._before.left_error

    def now(self) -> datetime:
        """Return the time by the clock that was handed in. UTC."""
        return datetime.fromtimestamp(self._clock.now() / 1000, UTC)

    @property
    def writes(self) -> list[Write]:
        """Return the writes that are recorded so far."""
        return self._writes.recorded

    @property
    def sends(self) -> list[Send]:
        """Return the messages that are recorded so far."""
        return self._messages.recorded

    # -- writes to the user's own tables

    def put(
        self,
        table: str,
        item: BaseModel | Mapping[str, Any],
        *,
        condition: str | None = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        else_reject: bool = False,
        else_go_on: str | None = None,
    ) -> None:
        """Record an item to be written with the commit, or not at all.

        A model is stored as :mod:`flowguard.items.rows` says; a dict holds what DynamoDB holds, and floats.
        """
        fields = row(item, f"step.put({shown(table)}, …)")
        self._writes.add(Put(table, fields, self._writes.condition(condition, names, values, else_reject, else_go_on)))

    def update(
        self,
        table: str,
        key: Mapping[str, Any],
        change: str,
        *,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        condition: str | None = None,
        else_reject: bool = False,
        else_go_on: str | None = None,
    ) -> None:
        """Record an update expression. ``ADD total :n`` is applied exactly once, however often the stage runs.

        ``names`` and ``values`` serve both the change and the ``condition``.
        """
        both = Condition(change, names or {}, values or {})
        item_key = row(key, f"step.update({shown(table)}, key, …)")
        self._writes.add(
            Update(table, item_key, both, self._writes.condition(condition, None, None, else_reject, else_go_on))
        )

    def delete(
        self,
        table: str,
        key: Mapping[str, Any],
        *,
        condition: str | None = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        else_reject: bool = False,
        else_go_on: str | None = None,
    ) -> None:
        """Record that the item under ``key`` is to be removed."""
        item_key = row(key, f"step.delete({shown(table)}, key)")
        self._writes.add(
            Delete(table, item_key, self._writes.condition(condition, names, values, else_reject, else_go_on))
        )

    def check(
        self,
        table: str,
        key: Mapping[str, Any],
        condition: str,
        *,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        else_reject: bool = False,
        else_go_on: str | None = None,
    ) -> None:
        """Record a condition on an item that the stage only reads: the commit holds only while it does.

        Nothing is changed under ``key``.
        """
        item_key = row(key, f"step.check({shown(table)}, key, …)")
        checked = self._writes.condition(condition, names, values, else_reject, else_go_on)
        if checked is None:
            raise RunFailed(f"step.check({shown(table)}, …) has no condition; nothing was written")
        self._writes.add(Check(table, item_key, checked))

    # -- before the commit

    def key(self, name: str) -> str:
        """Return the idempotency key of a call to a service outside: the same in each attempt and redrive of the hop.

        It is a UUID. Another request, hop or name has another one, and so has a first hop that is repeated after
        a reset.
        """
        return idempotency_key(self._message, name, self._before.reset_by)

    def once(self, name: str, call: Callable[[], Any], result: Any = None) -> Any:
        """Make a call whose result the hop remembers, and return that result. Later attempts do not make it again.

        It is one write of the run item, under the fence of the commit. Where the worker dies between the call and that
        write, or the result cannot be written (a long one while S3 is away), the next attempt repeats the call: give
        the other side :meth:`key`. The result is kept as JSON. Numbers, texts,
        ``Decimal``, dates, and lists and dicts of them come back as they were. For anything else give the type
        ``result`` that pydantic knows (a model, ``list[Model]``), or get JSON values. Where ``call`` is an async
        function, await what this returns.

        Raises :class:`flowguard.errors.WorkerFenced` where another worker has the hop by now, and what ``call`` raises:
        that is not remembered.
        """
        self._need_claim("once")
        return self._early.once(name, call, result)

    def sql(self, name: str, database: SqlDatabase, statements: Callable[[Any], Any], result: Any = None) -> Any:
        """Run statements in a SQL database once in the hop, and return what they return. Later attempts get that.

        ``statements`` is called with what ``database`` makes statements with: a cursor, or the transaction of the Data
        API (:mod:`flowguard.sql`). What it does and the hop's fence are one transaction of that database, which is
        committed when it returns; what it raises takes all back. So a crash before the hop's own commit repeats
        nothing. The result is kept in the database, as :meth:`once` keeps one. Nothing is written to the run item.

        Raises :class:`flowguard.errors.WorkerFenced` where a newer request or another worker has written there, and
        :class:`flowguard.errors.FenceAhead` where only the database knows of that.
        """
        self._need_claim("sql")
        from flowguard.sql.once_per_hop import SqlOfHop  # not needed to start a function

        before = self._before
        is_current, now = self._early.is_current, self._clock.now()
        hop = SqlOfHop(database, self._message, before.epoch, now, is_current, before.reset_by, before.claim)
        return self._early.kept_elsewhere(name, statements, result, keeper=partial(hop.once, name))

    def is_current(self) -> bool:
        """Answer whether this worker still has the hop, for a long handler that would rather stop early.

        It is False once a newer request has the object, the run was cancelled or reset, or another worker has taken the
        hop over after the lease. Then nothing that the handler does through its step is applied, so it may return
        anything. True says so of this moment alone: the commit decides. It is one consistent read of the run item.
        """
        self._need_claim("is_current")
        return self._early.is_current()

    @contextmanager
    def apply(self, name: str) -> Iterator[None]:
        """Apply what is recorded within the block once in each hop. It is one transaction.

        It is for effects that must be there before the commit; they stay if the stage fails afterwards. A later attempt
        of the hop leaves the block's writes out. A condition that does not hold raises
        :class:`flowguard.errors.ConditionFailed` at the end of the block. Messages are sent after the commit as ever.

        Raises :class:`flowguard.errors.WorkerFenced` where another worker has the hop by now.
        """
        self._need_claim("apply")
        with self._early.apply(name):
            yield

    def _need_claim(self, method: str) -> None:
        """Raise :class:`RunFailed` in a stage without a claim."""
        if not self._before.leased:
            fix = f"leave lease=False out of {self._message.stage!r}"
            raise RunFailed(f"step.{method} works only under a claim; {fix}. Nothing was done")

    def newest_wins(
        self,
        table: str,
        item: BaseModel | Mapping[str, Any],
        key: str | Sequence[str],
        *,
        at: datetime | None = None,
        deleted: bool = False,
    ) -> None:
        """Record an item that is dropped where the table has a newer one under its key.

        ``key`` names the item's key attributes. ``at`` is how new it is, by default :attr:`requested_at`; older or
        equally old ones are dropped without an error, but for a repeated write of the same request. The time and the
        request are kept in the item, as ``newest_at`` (ms) and ``newest_by``. ``deleted`` leaves a tombstone, an item
        with ``newest_deleted``, so that an older write does not bring the item back.
        """
        fields = row(item, f"step.newest_wins({shown(table)}, …)")
        moment = self._message.requested_at if at is None else milliseconds(at)
        self._writes.add(newest_put(table, fields, key, moment, self.request_id, deleted=deleted))

    def fence(self) -> ItemFence:
        """Return a condition for a write that you make yourself, to an item which keeps the fence in its attributes.

        It is for tables in another account. Only what a step records is applied exactly once.
        """
        self._need_claim("fence")
        return item_fence(self.request_id, self._message.requested_at, self._before.epoch)

    def modify(
        self,
        table: str,
        key: Mapping[str, Any],
        change: Change,
        *,
        compare: Sequence[str] = (),
        tries: int = MOST_TRIES,
    ) -> dict[str, Any] | None:
        """Read an item, and record the write that makes of it what ``change`` returns. Return that, None for no item.

        ``change`` gets the item as a dict with Decimals, or None, and returns it as it should be (a dict or a model),
        or None for no item. The commit holds only while the item is still what was read. Where another writer was
        quicker the handler is called again at once and reads anew, ``tries`` times in one attempt; then the attempt
        fails with :class:`flowguard.errors.ItemChanged`. ``compare`` names the attributes that decide whether another
        was; by default all that were read. It is one consistent read.
        """
        write, wanted = read_and_change(
            self._before.tables, table, key, change, compare=compare, tries=tries, again=self._before.calls
        )
        self._writes.add(write)
        return wanted

    # -- messages

    def send(
        self,
        to: Destination | str,
        payload: Payload,
        *,
        attributes: Mapping[str, Attribute | str] | None = None,
        delay: int = 0,
        group: str | None = None,
    ) -> None:
        """Record a message that is sent after the commit. ``to`` is a queue (or its bare name), topic, function or bus.

        It carries an id of its own as ``uniquerequestid``, the same for every copy, so that the receiver can drop
        copies. ``attributes`` are further message attributes by name; a plain text stands for a String. ``delay`` is in
        whole seconds, for queues. ``group`` is the message group, for FIFO.
        """
        self._messages.send(to, payload, attributes or {}, delay, group)

    def start(
        self,
        flow: Startable,
        payload: Payload,
        *,
        object_id: str | None = None,
        reply_to: Destination | str | None = None,
        lane: str | None = None,
    ) -> None:
        """Record the request that starts another flow. Its request id is the same however often it is sent.

        A flow with a ``request_id`` rule reads that id from the payload. ``object_id`` is for a payload that does not
        name its object. ``reply_to`` is notified of that run's end. ``lane`` is one of that flow's first stage, by
        default the one with the name of this run's lane.
        """
        self._messages.start(flow, payload, object_id, reply_to, lane)

    def reset(self, flow: Startable, object_id: str) -> None:
        """Record the order to reset another flow's run of an object, as :meth:`flowguard.FlowClient.reset` does.

        It goes to the flow's ``answers`` queue after the commit. A run at work is fenced and restarted, a kept
        result answers no newer request any more.
        """
        if problem := name_problem(object_id):
            raise RunFailed(f"step.reset: object_id={shown(object_id)} {problem}")
        self._messages.reset(flow, object_id)

    def cancel(self, flow: Startable, object_id: str, *, why: str) -> None:
        """Record the order to cancel another flow's run of an object, as :meth:`flowguard.FlowClient.cancel` does.

        It goes to the flow's inbox after the commit. A run that was asked for after this commit is left alone; the
        order does not wait for a run that has not begun. ``why`` is the text of the error, for people.
        """
        if problem := name_problem(object_id):
            raise RunFailed(f"step.cancel: object_id={shown(object_id)} {problem}")
        self._messages.cancel(flow, object_id, why)

    def cancel_children(self, *, why: str = "the run that has asked for it needs it no more") -> int:
        """Record that the runs which this run has asked, and which have not answered, are cancelled. Return how many.

        That is for the stage right after a wait that ended without them: by its quorum, its deadline or a failure.
        Those count that were asked with ``cancel_too=True``; in other stages there are none. Each gets its request once
        more, as cancelled, after the commit: a run that has not begun never begins. ``why`` is the text of the error,
        for people.

        After a group, one message goes to the flow's ``answers`` queue, where each of those without an answer gets its
        request as cancelled. Who has answered is not known before: the number is of all that may have been asked.
        """
        return self._messages.cancel_children(self._before.children, why)

    # -- what the run can wait for, to be given to ``SomeStage.when_all(…)``

    @overload
    def ask(
        self,
        to: Destination | str,
        payload: Payload,
        *,
        attributes: Mapping[str, Attribute | str] | None = None,
        group: str | None = None,
    ) -> Ask: ...

    @overload
    def ask(
        self, to: Startable, payload: Payload, *, object_id: str | None = None, cancel_too: bool = False
    ) -> AskFlow: ...

    def ask(
        self,
        to: Destination | str | Startable,
        payload: Payload,
        *,
        attributes: Mapping[str, Attribute | str] | None = None,
        group: str | None = None,
        object_id: str | None = None,
        cancel_too: bool = False,
    ) -> Ask | AskFlow:
        """Ask another flow or a party outside for an answer to wait for.

        The result of another flow's run is the answer. A party outside brings an answer under the id that
        :meth:`answer_id` returns; the message has it as its ``uniquerequestid``, and its payload may name it.
        ``attributes`` and ``group`` are as in :meth:`send`, ``object_id`` as in :meth:`start`. With ``cancel_too`` the
        other flow's run is cancelled where this one is cancelled before it has that answer.
        """
        return asked(to, payload, attributes or {}, group, object_id, cancel_too)

    def group(
        self,
        to: Destination | str | Startable,
        requests: Iterable[tuple[str, Payload]],
        *,
        attributes: Mapping[str, Attribute | str] | None = None,
        cancel_too: bool = False,
    ) -> AskGroup:
        """Ask another flow or a party outside up to 100,000 requests. Wait for them with ``Stage.when_group``.

        ``requests`` are pairs of a name and a payload, such as a generator makes: they are read once, when the handler
        has returned, and never held all at once. A party outside answers under the ``uniquerequestid`` of its message;
        ``attributes`` are as in :meth:`send`. With ``cancel_too`` the other flow's runs are cancelled with this one, as
        those of :meth:`ask` are.
        """
        return asked_group(to, requests, attributes or {}, cancel_too)

    def answers(self, kind: type[AnswerT]) -> Iterator[GroupAnswer[AnswerT]]:
        """Yield the group's requests with their answers of the type ``kind``, in the order in which they were asked.

        They are read about a hundred at a time. An attempt that is repeated gets the same. Raises
        :class:`flowguard.errors.RunFailed` in a stage that does not go on right after a group.
        """
        if self._before.group is None:
            raise RunFailed(f"{self._message.stage!r} did not go on after a group; when_group leads to its stage")
        return self._before.group.answers(kind)

    def answer_id(self, name: str) -> str:
        """Return the id under which a party outside answers for this name. Each run and hop has its own."""
        return id_of(IdKind.ASKED, self._message, name)

    def token(
        self,
        name: str,
        *,
        valid: timedelta = timedelta(days=7),
        title: str | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> AwaitedToken:
        """Wait for a person or a third party, who answers with the token's ``text`` at the end of a URL.

        The text says nothing of the run, and is the same in each attempt of the hop, but for its expiry: ``valid``
        after the commit. Needs keys (``FLOWGUARD_TOKEN_KEYS``): raises :class:`flowguard.errors.SettingsError`.

        The page of its :meth:`flowguard.AwaitedToken.link` shows ``title`` and ``facts`` of the case, such as
        ``{"Amount": "420 EUR"}``. They stand in the link, sealed: its owner can read them, and cannot change them.
        """
        shown = None if title is None and not facts else ShownFacts(title or "Your answer", facts or {})
        return awaited_token(self._message, self._tokens, name, valid, self._committed_at, shown)

    def event(self, awaited_id: str, *, keep_early: bool = False) -> AwaitedEvent:
        """Wait for something that happens outside, under an id that others know: ``step.event(f"payment/{order_id}")``.

        Many runs may wait for one id. ``keep_early`` looks for an answer that came before the run began to wait, and
        was kept.
        """
        return AwaitedEvent(awaited_id, keep_early)


AnyStep = Step[Any]

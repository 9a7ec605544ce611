"""The step that a handler gets. Everything asked of it is recorded; nothing happens before the commit."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, cast, overload

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypeVar

from flowguard.clock import Clock
from flowguard.destinations import Destination, Queue, destination, form_problem
from flowguard.errors import RunFailed, TooManyWrites, shown, span_problem
from flowguard.ids import ObjectId, RequestId
from flowguard.modified import MOST_TRIES, Change, check_tries, modified
from flowguard.newest import ItemFence, item_fence, milliseconds, newest_put
from flowguard.outcome import Ask, AskFlow, AwaitedEvent, AwaitedToken
from flowguard.payloads import Payload, decode, encode, encode_json, problems_of
from flowguard.protocol.outbox import Kind, Send
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.rows import row
from flowguard.wire.attributes import Attribute, attributes_of
from flowguard.wire.message import REQUEST_ID, REQUESTED_AT, Message
from flowguard.wire.signing import UNSIGNED, Signer, signed_attributes
from flowguard.wire.tokens import NO_TOKENS, Tokens, token_row_id
from flowguard.writes import MOST_WRITES, Check, Condition, Delete, Put, Update, Write, key_of, same_item, verb

_LONGEST_NAME = 128
"""Bytes of what a hop remembers something under."""

_stage_logger = logging.getLogger("flowguard.stage")


class NoState(BaseModel):
    """The state of a flow that declares none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


StateT = TypeVar("StateT", bound=BaseModel, default=NoState)


RefusedWrites: TypeAlias = Mapping[str, Mapping[str, Any] | None]
"""Writes with ``else_go_on`` that did not hold, by that name, each with the item that it met (or None)."""


class Remembers(Protocol):
    """What one hop remembers before its commit, as seen from its step."""

    def recall(self, name: str) -> str | None: ...

    def remember(self, name: str, text: str, writes: Sequence[Write] = ()) -> None: ...


class ForgottenMemory:
    """A memory that lasts as long as one step: for a stage that is called without its runtime."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.writes: list[Write] = []

    def recall(self, name: str) -> str | None:
        return self.results.get(name)

    def remember(self, name: str, text: str, writes: Sequence[Write] = ()) -> None:
        self.results[name] = text
        self.writes += writes


NOTHING_REFUSED: Final[RefusedWrites] = MappingProxyType({})


class ReadsTables(Protocol):
    """Consistent reads of the user's tables. ``again`` counts reads before, in vain: the next one waits a little."""

    def read(self, table: str, key: Mapping[str, Any], *, again: int = 0) -> dict[str, Any] | None: ...


class Before(NamedTuple):
    """What is known before a handler is called."""

    refused: RefusedWrites = NOTHING_REFUSED
    memory: Remembers | None = None
    left: Callable[[], str] | None = None
    tables: ReadsTables | None = None
    calls: int = 0
    """How often the handler was called in this attempt before."""
    epoch: int = 1


class Startable(Protocol):
    """A flow that a stage can start, as seen from below it."""

    def request(
        self,
        payload: Payload,
        *,
        request_id: RequestId | Callable[[], RequestId],
        requested_at: int,
        object_id: str | None = None,
        reply_to: Destination | None = None,
        signed: bool = False,
    ) -> tuple[Message, Destination]: ...


class Step(Generic[StateT]):
    """One attempt of one stage, as its handler sees it.

    ``state`` is the run's own typed state: read with the claim, written with the commit. Change it in place or assign
    a new value; no other worker can change it meanwhile.

    A write may have a ``condition``, a DynamoDB condition expression with its ``names`` (``#…``) and ``values``
    (``:…``). If it does not hold, nothing of the commit is applied, and the attempt fails with
    :class:`flowguard.errors.ConditionFailed`: it is tried again. With ``else_reject`` set the run ends FAILED instead.
    With ``else_go_on``, a name, the handler is called again at once, and its commit does without this write:
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
        self._left = before.left
        self._tables = before.tables
        self._calls = before.calls
        self._epoch = before.epoch
        self._names: set[str] = set()
        self._memory = ForgottenMemory() if before.memory is None else before.memory
        self._remembered: set[str] = set()
        self._applying = False
        self.writes: list[Write] = []
        self.sends: list[Send] = []
        self.log = logging.LoggerAdapter(
            _stage_logger,
            {"request_id": message.request_id, "flow": message.flow, "stage": message.stage, "hop": message.hop},
        )
        self._message = message
        self._clock = clock
        self._signer = signer
        self._tokens = tokens
        self._committed_at = committed_at

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
        """Return the state that the run before left for this object, as its last commit wrote it.

        It is for the first stage, which can take back or build on what that run has done. None in later hops, and where
        no run was before, or none has committed a state. It is there until the first hop is committed, also in later
        attempts. Raises :class:`flowguard.errors.RunFailed` where it cannot be read as this flow's state.
        """
        if self._left is None:
            return None
        return cast("StateT", decode(type(self.state), self._left(), what="the state of the run before"))

    def now(self) -> datetime:
        """Return the time by the clock that was handed in. UTC."""
        return datetime.fromtimestamp(self._clock.now() / 1000, UTC)

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

        A model is stored as :mod:`flowguard.rows` says; a dict holds what DynamoDB holds, and floats.
        """
        found = row(item, f"step.put({shown(table)}, …)")
        self._write(Put(table, found, self._condition(condition, names, values, else_reject, else_go_on)))

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
        found = row(key, f"step.update({shown(table)}, key, …)")
        self._write(Update(table, found, both, self._condition(condition, None, None, else_reject, else_go_on)))

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
        found = row(key, f"step.delete({shown(table)}, key)")
        self._write(Delete(table, found, self._condition(condition, names, values, else_reject, else_go_on)))

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
        found = row(key, f"step.check({shown(table)}, key, …)")
        checked = self._condition(condition, names, values, else_reject, else_go_on)
        if checked is None:
            raise RunFailed(f"step.check({shown(table)}, …) has no condition; nothing was written")
        self._write(Check(table, found, checked))

    # -- before the commit

    def key(self, name: str) -> str:
        """Return the idempotency key of a call to a service outside: the same in each attempt and redrive of the hop.

        It is a UUID. Another request, hop or name has another one.
        """
        import uuid  # not needed to start a function

        _check_name(name)
        m = self._message
        digest = sha256(json.dumps([m.flow, m.object_id, m.request_id, m.hop, name]).encode()).digest()
        return str(uuid.UUID(bytes=digest[:16], version=5))

    def once(self, name: str, call: Callable[[], Any], result: Any = None) -> Any:
        """Make a call whose result the hop remembers, and return that result. Later attempts do not make it again.

        It is one write of the run item, under the fence of the commit. A worker that dies between the call and that
        write repeats the call: give the other side :meth:`key`. The result is kept as JSON and returned as JSON values,
        or as the type ``result`` that pydantic knows (a model, ``list[Model]``, ``datetime``).

        Raises :class:`flowguard.errors.WorkerFenced` where another worker has the hop by now, and what ``call`` raises:
        that is not remembered.
        """
        self._begin(name)
        if not callable(call):
            raise RunFailed(
                f"step.once({shown(name)}, …) has {shown(call)} to call; write a function. Nothing was done"
            )
        if isinstance(result, str):
            raise RunFailed(
                f"step.once({shown(name)}, …): result is no type but text: {shown(result)}. Nothing was called"
            )
        try:
            kind = None if result is None else TypeAdapter(result)
        except PydanticUserError as error:
            problem = str(error).partition("\n")[0]
            raise RunFailed(f"step.once({shown(name)}, …): result is no type: {problem}. Nothing was called") from None
        text = self._memory.recall(name)
        if text is None:
            text = self._text_of(name, call())
            self._memory.remember(name, text)
        if kind is None:
            return json.loads(text)
        try:
            return kind.validate_json(text)
        except ValidationError as error:
            raise RunFailed(
                f"what step.once({shown(name)}, …) remembers is no {shown(result)}: {problems_of(error)}"
            ) from None

    def _text_of(self, name: str, found: object) -> str:
        try:
            return encode_json(found)
        except TypeError as error:
            raise RunFailed(
                f"step.once({shown(name)}, …) has made its call, and cannot remember the result: {error}"
            ) from None

    @contextmanager
    def apply(self, name: str) -> Iterator[None]:
        """Apply what is recorded within the block, when it ends, once in each hop. It is one transaction.

        It is for effects that must be there before the commit; they stay if the stage fails afterwards. A later attempt
        of the hop leaves the block's writes out. A condition that does not hold raises
        :class:`flowguard.errors.ConditionFailed` at the end of the block. Messages are sent after the commit as ever.

        Raises :class:`flowguard.errors.WorkerFenced` where another worker has the hop by now.
        """
        self._begin(name)
        outer, self.writes, self._applying = self.writes, [], True
        try:
            yield
            inner = self.writes
        finally:
            self.writes, self._applying = outer, False
        if inner and self._memory.recall(name) is None:
            self._memory.remember(name, "null", inner)

    def _begin(self, name: str) -> None:
        """Raise :class:`RunFailed` for a name that the hop cannot remember something under."""
        _check_name(name)
        if name in self._remembered:
            raise RunFailed(f"two calls or blocks of one handler are named {shown(name)}; give each a name of its own")
        if self._applying:
            raise RunFailed(f"{shown(name)} is within a block of step.apply, which holds nothing but writes")
        self._remembered.add(name)

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
        found = row(item, f"step.newest_wins({shown(table)}, …)")
        moment = self._message.requested_at if at is None else milliseconds(at)
        names = (key,) if isinstance(key, str) else tuple(key)
        self._write(newest_put(table, found, names, moment, self.request_id, deleted=deleted))

    def fence(self) -> ItemFence:
        """Return a condition for a write that you make yourself, to an item which keeps the fence in its attributes.

        It is for tables in another account. Only what a step records is applied exactly once.
        """
        return item_fence(self.request_id, self._message.requested_at, self._epoch)

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
        check_tries(tries)
        if not callable(change):
            raise RunFailed(
                f"step.modify({shown(table)}, …) has {shown(change)} for its change; write a function of the item"
            )
        if self._tables is None:
            raise RunFailed("step.modify reads a table, and this step has none: run the stage with FlowRunner")
        where = row(key, f"step.modify({shown(table)}, key, …)")
        found = self._tables.read(table, where, again=self._calls)
        made = change(None if found is None else dict(found))
        wanted = None if made is None else row(made, f"the change in step.modify({shown(table)}, …)")
        self._write(modified(table, where, found, wanted, compare=compare, tries=tries))
        return None if wanted is None else {**where, **wanted}

    def _condition(
        self,
        expression: str | None,
        names: Mapping[str, str] | None,
        values: Mapping[str, Any] | None,
        else_reject: bool,
        else_go_on: str | None,
    ) -> Condition | None:
        if problem := self._else_problem(expression, else_reject, else_go_on):
            raise RunFailed(f"{problem}. Nothing was written")
        if not expression:
            return None
        if else_go_on is not None:
            self._names.add(else_go_on)
        return Condition(expression, names or {}, values or {}, else_reject, else_go_on)

    def _else_problem(self, expression: str | None, else_reject: bool, else_go_on: str | None) -> str:
        if not expression and (else_reject or else_go_on is not None):
            return "a write says what is to happen if its condition does not hold, and has none; write condition=…"
        if else_go_on is None:
            return ""
        if self._applying:
            return (
                f"else_go_on={shown(else_go_on)} is within step.apply; catch ConditionFailed around the block instead"
            )
        if else_reject:
            return f"a write has else_reject and else_go_on={shown(else_go_on)}; write one of them"
        if not else_go_on or type(else_go_on) is not str:
            return f"else_go_on is {shown(else_go_on)}; write a name: else_go_on='stock'"
        if else_go_on in self._names:
            return f"two writes have else_go_on={shown(else_go_on)}; give each a name of its own"
        return ""

    def _write(self, write: Write) -> None:
        if write.condition is not None and write.condition.go_on in self.refused:
            return
        if len(self.writes) == MOST_WRITES:
            raise TooManyWrites(self._message.stage, MOST_WRITES)
        if (before := same_item(self.writes, write)) is not None:
            problem = (
                f"{verb(before)} and {verb(write)} of {shown(key_of(write, before))} in the table {shown(write.table)}"
            )
            raise RunFailed(f"{problem} are two writes to one item, which no transaction holds; record one with both")
        self.writes.append(write)

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
        where, given = destination(to), attributes_of(attributes or {})
        if problem := form_problem(where):
            raise RunFailed(f"a message cannot be sent: {problem}")
        if delay:
            _check_delay(where, delay)
        self._send(
            where,
            encode(payload),
            lambda own: {
                REQUEST_ID: Attribute.string(own),
                REQUESTED_AT: Attribute.number(self._committed_at),
                **self._message.carried,
                **given,
            },
            delay,
            group,
        )

    def start(
        self,
        flow: Startable,
        payload: Payload,
        *,
        object_id: str | None = None,
        reply_to: Destination | str | None = None,
    ) -> None:
        """Record the request that starts another flow. Its request id is the same however often it is sent.

        A flow with a ``request_id`` rule reads that id from the payload. ``object_id`` is for a payload that does not
        name its object. ``reply_to`` is notified of that run's end.
        """
        message, inbox = flow.request(
            payload,
            request_id=self._next_id,
            requested_at=self._committed_at,
            object_id=object_id,
            reply_to=None if reply_to is None else destination(reply_to),
            signed=self._signer.is_on,
        )
        attributes = {**self._message.carried, **signed_attributes(message, self._signer)}
        self._send(inbox, message.body, lambda _: attributes, group=message.object_id)

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
    def ask(self, to: Startable, payload: Payload, *, object_id: str | None = None) -> AskFlow: ...

    def ask(
        self,
        to: Destination | str | Startable,
        payload: Payload,
        *,
        attributes: Mapping[str, Attribute | str] | None = None,
        group: str | None = None,
        object_id: str | None = None,
    ) -> Ask | AskFlow:
        """Ask another flow, or a queue, topic, function or bus outside flowguard, for something to wait for.

        The result of another flow's run is the answer. A party outside brings an answer under the id that
        :meth:`answer_id` returns; the message has it as its ``uniquerequestid``, and its payload may name it.
        ``attributes`` and ``group`` are as in :meth:`send`, ``object_id`` as in :meth:`start`.
        """
        if not isinstance(to, Destination | str):
            if not hasattr(to, "request"):
                raise RunFailed(f"{shown(to)} is no flow, nor a destination; nothing can be asked there")
            return AskFlow(to, payload, object_id)
        where = destination(to)
        if problem := form_problem(where):
            raise RunFailed(f"nothing can be asked there: {problem}")
        return Ask(where, encode(payload), attributes_of(attributes or {}), group)

    def answer_id(self, name: str) -> str:
        """Return the id under which a party outside answers for this name. Each run and hop has its own."""
        return f"{name}#{self._message.hop_id}"

    def token(self, name: str, *, valid: timedelta = timedelta(days=7)) -> AwaitedToken:
        """Wait for a person or a third party, who answers with the token's ``text`` at the end of a URL.

        The text says nothing of the run, and is the same in each attempt of the hop, but for its expiry: ``valid``
        after the commit. Needs keys (``FLOWGUARD_TOKEN_KEYS``): raises :class:`flowguard.errors.SettingsError`.
        """
        if problem := span_problem(valid):
            raise RunFailed(f"step.token({shown(name)}): valid {problem}")
        if valid <= timedelta(0):
            raise RunFailed(f"step.token({shown(name)}): valid is {valid}; it must be positive")
        m = self._message
        row_id = token_row_id(m.flow, m.object_id, m.request_id, m.hop, name)
        expires_at = self._committed_at + valid // timedelta(milliseconds=1)
        return AwaitedToken(self._tokens.make(m.flow, row_id, expires_at), row_id)

    def event(self, awaited_id: str, *, keep_early: bool = False) -> AwaitedEvent:
        """Wait for something that happens outside, under an id that others know: ``step.event(f"payment/{order_id}")``.

        Many runs may wait for one id. ``keep_early`` looks for an answer that came before the run began to wait, and
        was kept.
        """
        return AwaitedEvent(awaited_id, keep_early)

    def _next_id(self) -> RequestId:
        return RequestId(f"{self._message.hop_id}.{len(self.sends)}")

    def _send(self, to: Destination, body: str, attributes: Any, delay: int = 0, group: str | None = None) -> None:
        own = self._next_id()
        self.sends.append(Send(Kind.SIDE, to, body, own, attributes(own), delay, group).checked())


def _check_name(name: object) -> None:
    if type(name) is not str or not name or not name.isprintable() or len(name.encode()) > _LONGEST_NAME:
        raise RunFailed(
            f"{shown(name)} names nothing to remember; write printable text of at most {_LONGEST_NAME} bytes"
        )


def _check_delay(to: Destination, delay: int) -> None:
    if cure := _whole_seconds(delay):
        raise RunFailed(f"a message to {to} has a delay of {shown(delay)}; write whole seconds: delay={cure}")
    if not isinstance(to, Queue) or to.fifo:
        raise RunFailed(f"a message to {to} cannot be delayed; only standard queues do that")
    if not 0 <= delay <= LONGEST_SQS_DELAY.total_seconds():
        raise RunFailed(f"a message to {to} cannot be delayed by {delay} s; SQS delays by 0 to 900")


def _whole_seconds(delay: object) -> str | None:
    """Return what to write in place of a delay that is no whole number of seconds. None for one that is."""
    if type(delay) is int:
        return None
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    return f"{math.ceil(seconds)}" if isinstance(seconds, float) and math.isfinite(seconds) else "30"


AnyStep = Step[Any]


def untyped(step: Step[StateT]) -> AnyStep:
    """Return the step of a stage whose state type is not known here."""
    return cast("AnyStep", step)

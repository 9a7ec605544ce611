"""``@once``: a function that is called once for each key, in a Lambda function without a flow.

::

    key ── CLAIM ──▶ the function ── FINISH ──▶ its result
             │ DONE                    │ another call has the key by now
             ▼                         ▼
          the stored result         the other call's result

Nothing is kept on the decorator from one call to the next: what a call may do is in its own immutable claim.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar, cast

from flowguard.aws.clients import prepare_clients, prepared_clients
from flowguard.aws.ledger import ledger_of
from flowguard.clock import Clock, SystemClock
from flowguard.errors import (
    DefinitionError,
    InProgress,
    KeyMissing,
    KeyReused,
    LimitReached,
    NotABatch,
    ResultRefused,
    ResultUnsaved,
    TooLarge,
    shown,
    span_problem,
)
from flowguard.events import Event, EventType, Observer, log
from flowguard.key_table import KeyTable
from flowguard.names.ids import Ids, Owner, RandomIds
from flowguard.observers.named import named_observers
from flowguard.payload.call_keys import KeyRule, NoKey, PayloadRule, read_digest, read_key, rule_problem
from flowguard.payload.results import ResultType, Unstorable, result_type
from flowguard.protocol.entry import Completion, Entry, EntryStatus, KeyAsk, KeyClaim, KeyVerdict, Met
from flowguard.settings import Settings
from flowguard.startup.named_tuple import NamedTuple
from flowguard.text.printable import bounded

if TYPE_CHECKING:
    from flowguard.aws.sender import AWSSender
    from flowguard.limit import PerKey
    from flowguard.worker.call_places import CallPlaces, Wanted
    from flowguard.worker.place_store import PlaceStore

P = ParamSpec("P")
R = TypeVar("R")

_NAME: Final = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
_MS: Final = timedelta(milliseconds=1)
_LONGEST_LEASE: Final = timedelta(hours=12)
_LEAST_KEPT: Final = timedelta(minutes=1)

_deadline: Final = contextvars.ContextVar[int | None]("_deadline", default=None)
"""When Lambda stops the invocation that is at work, ms: for guarded functions that get no context themselves."""


class Ledger(Protocol):
    """The entries of keys. Each method is one write, and answers from that write alone."""

    def claim(self, ask: KeyAsk) -> KeyClaim | Met: ...

    def finish(self, claim: KeyClaim, end: Completion) -> Met | None:
        """Store the result under the key. Return the entry of another call, where that has taken the key meanwhile.

        Raises :class:`TooLarge` before anything is written.
        """
        ...

    def free(self, claim: KeyClaim, failure: str | None, now: int, *, holds: bool = False) -> None:
        """Let the next call begin at once. Writes nothing where another call has the key by now.

        ``failure`` is None of a call whose function was not called: it leaves the key as it was. ``holds`` says that it
        may hold places of limits, which the next call takes over.
        """
        ...

    def places(self) -> PlaceStore:
        """Return the places of limits."""
        ...

    def read(self, name: str, key: str) -> Entry | None: ...


class OnceServices(NamedTuple):
    """What guarded functions need from outside, handed in by tests. Nothing is kept on it between two calls."""

    ledger: Ledger
    clock: Clock = SystemClock()
    ids: Ids = RandomIds()
    observer: Observer = log
    sender: AWSSender | None = None
    """Hides a record of ``batch`` that has found no place. Without one it comes at its queue's own pace."""


class OnceRule(NamedTuple):
    """What ``@once`` was given. The options are those of :func:`once`."""

    name: str
    key: KeyRule
    argument: str | None
    payload: PayloadRule | None
    keep: timedelta
    lease: timedelta
    result: Any
    table: KeyTable | None
    limits: tuple[PerKey, ...] = ()


class _Guarded:
    """A function with its rule, and what follows from the two: made when first needed, and the same for every call."""

    def __init__(self, function: Callable[..., Any], rule: OnceRule, services: OnceServices | None = None) -> None:
        self.function = function
        self.rule = rule
        self.is_async = _is_async(function)
        self._given = services

    @functools.cached_property
    def services(self) -> OnceServices:
        if self._given is not None:
            return self._given
        settings = Settings.from_environment(os.environ)
        ledger = ledger_of(settings, prepared_clients(), self.rule.table)
        return OnceServices(
            ledger, observer=named_observers(settings.observers, settings.at_aws), sender=self._sender(settings)
        )

    def _sender(self, settings: Settings) -> AWSSender | None:
        if not self.rule.limits:
            return None
        from flowguard.aws.sender import AWSSender  # most functions have no limit

        return AWSSender(prepared_clients(), names=settings.at_aws)

    @functools.cached_property
    def results(self) -> ResultType:
        """Return how results are stored. Made before the first claim, so that a mistake costs no call."""
        try:
            return result_type(self.function, self.rule.result)
        except TypeError as error:
            raise DefinitionError(f"@once({self.rule.name!r})", (str(error),)) from None

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @functools.cached_property
    def argument(self) -> str:
        """Return the name of the argument that the key is read from."""
        if self.rule.argument is not None:
            return self.rule.argument
        return next(name for name in self.signature.parameters if name not in _SELF)


_LATE: Final = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def _is_async(function: Any) -> bool:
    """Answer whether the function is to be awaited, also where it is guarded once more."""
    inner = function._guarded.function if isinstance(function, OnceFunction) else function
    return _is_async(inner) if inner is not function else inspect.iscoroutinefunction(function)


def once(  # noqa: PLR0913 - everything but the first is named
    name: str,
    *,
    key: KeyRule,
    argument: str | None = None,
    payload: PayloadRule | None = None,
    keep: timedelta = timedelta(days=28),
    lease: timedelta = timedelta(minutes=15),
    result: Any = None,
    table: KeyTable | str | None = None,
    limit: PerKey | tuple[PerKey, ...] | None = None,
) -> Callable[[Callable[P, R]], OnceFunction[P, R]]:
    """Call the function once for each key. A repeat gets the stored result, and does not call it again.

    ``@once("charge", key="order_id")``

    ``name`` is part of each key in the table, so it is given and never derived: two functions of one name share keys.
    ``key`` says what of an argument identifies the call: a path such as ``"body.order_id"``, several as a tuple, or a
    function of the argument. The argument is the first one, or the one that ``argument`` names. ``payload`` names in
    the same way what must not differ between two calls with one key: :class:`KeyReused` is raised where it does.
    ``keep`` is how long a result stands for its key. ``lease`` is how long a call keeps others from its key where no
    Lambda context says when it ends. ``result`` is the type of the results, if the annotation does not say it.
    ``table`` is a table other than ``FLOWGUARD_TABLE``: a name, or a :class:`KeyTable` with keys of its own. ``limit``
    lets so many calls be at work at once for one value of the argument, or begin in a time: a
    :class:`flowguard.PerKey`, or a tuple of up to three, whose paths and functions read the same argument.
    :class:`LimitReached` is raised where no place is free.

    Raises :class:`DefinitionError`, which lists every mistake.
    """
    key_table = table if not isinstance(table, str) else KeyTable(table, "pk", "sk", "ttl")
    limits = () if limit is None else limit if isinstance(limit, tuple) else (limit,)
    rule = OnceRule(name, key, argument, payload, keep, lease, result, key_table, limits)

    def guard(function: Callable[P, R]) -> OnceFunction[P, R]:
        if problems := _problems(rule, function):
            raise DefinitionError(f"@once({shown(name)})", problems)
        prepare_clients("dynamodb")
        return OnceFunction(_Guarded(function, rule))

    return guard


class OnceFunction(Generic[P, R]):
    """A function that :func:`once` guards. It is called like the function itself, awaited where that is async."""

    def __init__(self, guarded: _Guarded, context: Any = None, owner: Any = None) -> None:
        functools.update_wrapper(cast("Callable[P, R]", self), guarded.function)
        self._guarded = guarded
        self._context = context
        self._owner = owner

    @property
    def rule(self) -> OnceRule:
        """Return what the function is guarded by."""
        return self._guarded.rule

    def using(self, services: OnceServices) -> OnceFunction[P, R]:
        """Return the same function on other services, such as a clock that can be set."""
        guarded = _Guarded(self._guarded.function, self._guarded.rule, services)
        return OnceFunction(guarded, self._context, self._owner)

    def within(self, context: Any) -> OnceFunction[P, R]:
        """Return the same function with Lambda's context, for calls whose arguments do not include it."""
        return OnceFunction(self._guarded, context, self._owner)

    def __get__(self, instance: Any, kind: type | None = None) -> Any:
        """Bind a method to its object."""
        return OnceFunction(self._guarded, self._context, instance)

    # -- a call

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, or return what it returned for this key.

        Raises :class:`InProgress` while another call is at work, :class:`KeyReused` for another payload under one key,
        :class:`LimitReached` while no place of a limit is free, :class:`KeyMissing`, :class:`ResultRefused`,
        :class:`ResultUnsaved`, and what the function raises.
        """
        if self._guarded.is_async:
            return cast("R", self._await(args, kwargs))
        return cast("R", self._run(args, kwargs))

    def read(self, key: str) -> Entry | None:
        """Read the entry of a key."""
        return self._guarded.services.ledger.read(self._guarded.rule.name, key)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, comes_back: bool = False) -> Any:
        ask, leased, wanted = self._ask(args, kwargs)
        claim = self._claim(ask)
        if isinstance(claim, Met):
            return self._answer_of(ask, claim)
        self._tell_claimed(claim)
        places = self._take(claim, wanted) if wanted else None
        try:
            with _until(ask.lease_until if leased else None):
                value = self._begun(self._guarded.function(*self._bound(args), **kwargs))
        except Exception as error:
            self._failed(claim, error, places, waits=comes_back and leased)
            raise
        return self._finish(claim, value, places)

    async def _await(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, comes_back: bool = False) -> Any:
        ask, leased, wanted = self._ask(args, kwargs)
        claim = await asyncio.to_thread(self._claim, ask)
        if isinstance(claim, Met):
            return self._answer_of(ask, claim)
        self._tell_claimed(claim)
        places = await asyncio.to_thread(self._take, claim, wanted) if wanted else None
        while places is not None and places.are_late:  # others of the event loop have held it up
            places = await asyncio.to_thread(self._take, claim, wanted, places)
        try:
            with _until(ask.lease_until if leased else None):
                value = await self._guarded.function(*self._bound(args), **kwargs)
        except (Exception, asyncio.CancelledError) as error:
            await asyncio.to_thread(self._failed, claim, error, places, waits=comes_back and leased)
            raise
        return await asyncio.to_thread(self._finish, claim, value, places)

    def _begun(self, value: Any) -> Any:
        """Return what the function returned. Raises :class:`DefinitionError` where it has not even begun its work.

        That is known of a wrapper alone. Any other function may have done something before it returned a coroutine.
        """
        inner = inspect.unwrap(self._guarded.function)
        is_wrapper = any(kind(inner) for kind in _LATE)  # of a function that is such a one itself nothing comes here
        if not is_wrapper or not (
            inspect.iscoroutine(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)
        ):
            return value
        if not inspect.isasyncgen(value):
            value.close()
        what = f"it got a {type(value).__name__} from its function, of which nothing has run"
        fix = "put @once below the wrapper that returns it, right above the function, and return no generator"
        raise DefinitionError(f"@once({self._guarded.rule.name!r})", (f"{what}; {fix}",))

    def _bound(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args if self._owner is None else (self._owner, *args)

    # -- before it

    def _ask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[KeyAsk, bool, tuple[Wanted, ...]]:
        """Return what to ask of the ledger and which places are wanted.

        The answer between the two is whether the lease ends when Lambda stops the invocation.
        """
        rule, services, _ = self._guarded.rule, self._guarded.services, self._guarded.results
        argument = self._argument(args, kwargs)
        try:
            key = read_key(rule.key, argument)
            digest = read_digest(rule.payload, argument) if rule.payload is not None else None
            wanted = self._wanted(argument, key) if rule.limits else ()
        except NoKey as problem:
            facts = {"function": rule.name, "why": str(problem)}
            services.observer(Event(EventType.UNREADABLE, None, facts))
            raise KeyMissing(rule.name, str(problem)) from None
        now = services.clock.now()
        ends_at = self._ends_at(args, kwargs, now)
        until = ends_at if ends_at is not None else now + rule.lease // _MS
        owner = Owner(services.ids.new())
        ask = KeyAsk(rule.name, key, owner, now, until, until + rule.keep // _MS, digest)
        return ask, ends_at is not None, wanted

    def _wanted(self, argument: Any, key: str) -> tuple[Wanted, ...]:
        from flowguard.worker.call_places import wanted  # most functions have no limit

        return wanted(self._guarded.rule.name, self._guarded.rule.limits, argument, key)

    def _take(self, claim: KeyClaim, wanted: tuple[Wanted, ...], late: CallPlaces | None = None) -> CallPlaces:
        """Take the places of all limits, or free the key and raise why not. Starts that are ``late`` are noted anew."""
        from flowguard.worker.call_places import CallPlaces  # most functions have no limit

        services = self._guarded.services
        places = late or CallPlaces(claim, services.ledger.places(), services.clock, services.ids)
        try:
            if late is None:
                places.take(wanted)
            else:
                late.begin_now()
        except Exception as error:
            if isinstance(error, LimitReached):
                self._tell(EventType.NO_PLACE, claim.ask, limit=error.limit, seconds=error.seconds)
            else:
                self._tell(EventType.BROKEN, claim.ask, why=type(error).__name__)
            with suppress(Exception):  # the lease ends by itself
                services.ledger.free(claim, None, services.clock.now(), holds=places.holds)
            raise
        return places

    def _argument(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = self._guarded.signature.bind(*self._bound(args), **kwargs)  # raises what the call would
        given.apply_defaults()
        return given.arguments[self._guarded.argument]

    def _claim(self, ask: KeyAsk) -> KeyClaim | Met:
        try:
            return self._guarded.services.ledger.claim(ask)
        except Exception as error:
            self._tell(EventType.BROKEN, ask, why=type(error).__name__)
            raise

    def _ends_at(self, args: tuple[Any, ...], kwargs: dict[str, Any], now: int) -> int | None:
        """Return when Lambda stops this invocation; None where nothing says it."""
        for argument in (self._context, *args, *kwargs.values()):
            if callable(remaining := getattr(argument, "get_remaining_time_in_millis", None)):
                return now + max(1, int(remaining()))
        outer = _deadline.get()
        return outer if outer is not None and outer > now else None

    # -- after it

    def _answer_of(self, ask: KeyAsk, met: Met) -> Any:
        """Return the result of the call that has the key, or raise what says that there is none yet."""
        entry, rule = met.entry, self._guarded.rule
        match met.verdict:
            case KeyVerdict.DONE:
                self._tell(EventType.DONE, ask, met=entry.met + 1)
                return self._stored(ask, entry)
            case KeyVerdict.REUSED:
                self._tell(EventType.KEY_REUSED, ask)
                raise KeyReused(rule.name, ask.key)
            case _:
                seconds = -((ask.now - entry.lease_until) // 1000)
                self._tell(EventType.BUSY, ask, seconds=seconds)
                raise InProgress(rule.name, ask.key, seconds)

    def _stored(self, ask: KeyAsk, entry: Entry) -> Any:
        if entry.result is None:
            raise ResultRefused(self._guarded.rule.name, ask.key, entry.refusal or "it was not stored")
        try:
            return self._guarded.results.decode(entry.result)
        except Unstorable as problem:
            raise ResultRefused(self._guarded.rule.name, ask.key, str(problem)) from None

    def _failed(self, claim: KeyClaim, error: BaseException, places: CallPlaces | None, *, waits: bool) -> None:
        """Let the next call begin. The key stays where its record ``waits`` in its queue for as long as the lease.

        A queue's visibility timeout is at least its function's timeout, and the lease is what is left of that.
        """
        name = type(error).__name__[:200]
        self._tell(EventType.RAISED, claim.ask, error=name)
        if not waits:
            with suppress(Exception):  # the function's own error is the one to report, and the lease ends by itself
                now, holds = self._guarded.services.clock.now(), places is not None and places.holds
                self._guarded.services.ledger.free(claim, name, now, holds=holds)
        if places is not None:
            places.give_back()

    def _finish(self, claim: KeyClaim, value: Any, places: CallPlaces | None) -> Any:
        try:
            return self._stored_result(claim, value)
        finally:
            if places is not None:
                places.give_back()

    def _stored_result(self, claim: KeyClaim, value: Any) -> Any:
        ask, problem = claim.ask, None
        try:
            text = self._guarded.results.encode(value)
            fenced = self._completed(claim, text, None)
        except (Unstorable, TooLarge) as refused:
            problem = bounded(str(refused))
            fenced = self._completed(claim, None, problem)
        if fenced is not None:
            return self._outrun(ask, fenced)
        self._tell(EventType.COMPLETED, ask)
        if problem is not None:
            self._tell(EventType.BROKEN, ask, why=problem)
            raise ResultRefused(self._guarded.rule.name, ask.key, problem)
        return value

    def _completed(self, claim: KeyClaim, text: str | None, problem: str | None) -> Met | None:
        now = self._guarded.services.clock.now()
        end = Completion(text, problem, now, now + self._guarded.rule.keep // _MS)
        try:
            return self._guarded.services.ledger.finish(claim, end)
        except TooLarge:
            raise
        except Exception as error:
            self._tell(EventType.UNSAVED, claim.ask, why=type(error).__name__)
            raise ResultUnsaved(self._guarded.rule.name, claim.ask.key, f"{type(error).__name__}: {error}") from error

    def _outrun(self, ask: KeyAsk, met: Met) -> Any:
        """Return the result of the call that took the key over when the lease of this one had ended.

        One with another payload has none for this call.
        """
        self._tell(EventType.FENCED, ask)
        if met.verdict is KeyVerdict.DONE:
            return self._stored(ask, met.entry)
        other = " with another payload" if met.verdict is KeyVerdict.REUSED else ""
        raise ResultUnsaved(
            self._guarded.rule.name, ask.key, f"the lease was over, and another call{other} has the key"
        )

    # -- a batch

    def batch(self, event: Any, context: Any = None) -> dict[str, Any]:
        """Call the function with each record of an SQS event, and answer which of them go back to the queue.

        The function's event source mapping must have ``ReportBatchItemFailures``. A record goes back when the function
        raises or another call is at work on its key; on a FIFO queue the later ones of its group go back with it. What
        little time remains too short for is not begun. A repeat that gets the stored result is a success.

        A record that goes back is hidden for the queue's visibility timeout, and that is at least the function's
        timeout. So a call that raises needs no write to free its key: its lease is over before the record comes back.
        One that finds no place of a limit is hidden for 10 s, longer at each receive, and no shorter than none is free.
        """
        records = _records(event)
        _ = self._guarded.services, self._guarded.results  # a mistake of settings or types is that of the whole batch
        bound = self.within(context)
        if not self._guarded.is_async:
            return bound._answered(records, lambda record: bound._run((record,), {}, comes_back=True))
        with asyncio.Runner() as runner:
            return bound._answered(records, lambda record: runner.run(bound._await((record,), {}, comes_back=True)))

    def _answered(self, records: list[dict[str, Any]], work: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        failed: list[str] = []
        stuck: set[str] = set()
        for record in records:
            group = _fifo_group(record)
            if group in stuck or self._is_late(record) or not self._is_done(work, record):
                failed.append(record["messageId"])
                stuck.update({group} if group is not None else ())
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}

    def _is_done(self, work: Callable[[dict[str, Any]], Any], record: dict[str, Any]) -> bool:
        try:
            work(record)
        except Exception as error:  # each was reported where it was raised
            if isinstance(error, LimitReached) and error.name == self._guarded.rule.name:
                self._hide(record, error.seconds)
            return False
        return True

    def _hide(self, record: dict[str, Any], seconds: int) -> None:
        """Hide a record that has found no place until it is to try again."""
        from flowguard.worker.call_places import rest_of  # most functions have no limit

        sender, handle, arn = self._guarded.services.sender, record.get("receiptHandle"), record.get("eventSourceARN")
        if sender is not None and isinstance(handle, str) and isinstance(arn, str):
            sender.hide(arn, handle, rest_of(record, seconds))

    def _is_late(self, record: dict[str, Any]) -> bool:
        remaining = getattr(self._context, "get_remaining_time_in_millis", None)
        if not callable(remaining) or remaining() >= LEAST_TIME // _MS:
            return False
        facts = {"function": self._guarded.rule.name, "record": record["messageId"]}
        self._guarded.services.observer(Event(EventType.RETURNED, None, facts))
        return True

    # -- reporting

    def _tell_claimed(self, claim: KeyClaim) -> None:
        before = claim.before
        if before is not None and before.status is EntryStatus.RUNNING and before.owner != claim.ask.owner:
            self._tell(EventType.ABANDONED, claim.ask)
        self._tell(EventType.CLAIMED, claim.ask, met=(before.met if before is not None else 0) + 1)

    def _tell(self, type_: EventType, ask: KeyAsk, **facts: Any) -> None:
        self._guarded.services.observer(Event(type_, None, {"function": ask.name, "key": ask.key, **facts}))


LEAST_TIME: Final = timedelta(seconds=1)
"""With less time left than that, a batch begins no further record."""


@contextmanager
def _until(deadline: int | None) -> Iterator[None]:
    """Let guarded functions that are called meanwhile know when Lambda stops the invocation."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def _records(event: Any) -> list[dict[str, Any]]:
    records = event.get("Records") if isinstance(event, dict) else None
    if not isinstance(records, list) or not all(_is_of_sqs(record) for record in records):
        raise NotABatch
    return records


def _is_of_sqs(record: object) -> bool:
    return isinstance(record, dict) and isinstance(record.get("messageId"), str) and "body" in record


def _fifo_group(record: dict[str, Any]) -> str | None:
    """Return the group of a record of a FIFO queue. On other queues a group says nothing of the order."""
    fifo = str(record.get("eventSourceARN", "")).endswith(".fifo")
    attributes = record.get("attributes")
    return str(attributes.get("MessageGroupId")) if fifo and isinstance(attributes, dict) else None


# -- mistakes of a definition ------------------------------------------------------------------------------------------


def _problems(rule: OnceRule, function: Any) -> tuple[str, ...]:
    """List every mistake of a rule. Code that nobody type-checked writes it too."""
    problems: tuple[str | None, ...] = (
        _name_problem(rule.name),
        rule_problem("key", rule.key),
        rule_problem("payload", rule.payload) if rule.payload is not None else None,
        _span("keep", rule.keep, _LEAST_KEPT, None),
        _span("lease", rule.lease, _MS, _LONGEST_LEASE),
        _table_problem(rule.table),
        _function_problem(rule, function),
    )
    if rule.limits:
        from flowguard.worker.call_places import limit_problems  # most functions have no limit

        problems += tuple(limit_problems(rule.limits, rule.table))
    return tuple(problem for problem in problems if problem is not None)


def _name_problem(name: object) -> str | None:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return None
    return f"its name is {shown(name)}; write 1 to 128 letters, digits or one of . _ : / -"


def _table_problem(table: Any) -> str | None:
    names = (table.name, table.key, table.ttl) if isinstance(table, KeyTable) else (table,)
    if table is None or all(isinstance(name, str) and name for name in names):
        return None
    return f"its table is {shown(table)}; write a name, or KeyTable('idempotency')"


def _span(option: str, value: object, least: timedelta, most: timedelta | None) -> str | None:
    if problem := span_problem(value):
        return f"{option} {problem}"
    assert isinstance(value, timedelta)  # noqa: S101 - or else there was a problem
    if value < least or (most is not None and value > most):
        return f"{option} is {value}; write {least} or more" + (f", and {most} at most" if most is not None else "")
    return None


def _function_problem(rule: OnceRule, function: Any) -> str | None:
    if not callable(function) or isinstance(function, type | staticmethod | classmethod):
        return f"it guards {shown(function)}; put it onto a function, below @staticmethod or @classmethod"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "it guards a generator, whose result cannot be stored; return a list"
    names = list(inspect.signature(function).parameters)
    if rule.argument is not None and rule.argument not in names:
        return f"argument is {shown(rule.argument)}, and the function has {', '.join(names) or 'none'}"
    if rule.argument is None and not [name for name in names if name not in _SELF]:
        return "its function takes no argument that a key could be read from"
    return None


_SELF: Final = ("self", "cls")

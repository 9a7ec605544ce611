"""Events of messages, and the observer that gets them. Logs, metrics and traces are made of these and nothing else."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, Protocol

from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple
from flowguard.text import lambda_log
from flowguard.text.printable import LONGEST, bounded, printable
from flowguard.wire.message import Message

logger = logging.getLogger("flowguard")

_TAKEN = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", *lambda_log.OWN})
"""What each log record or line has already. Logging refuses a field of such a name, and Lambda drops it."""

_TRACE = late_pattern("Root=(1-[0-9a-f]{8}-[0-9a-f]{24})")


class EventType(StrEnum):
    """One word for each thing that can happen. The verdicts of a claim keep their names, in lower case."""

    CLAIMED = "claimed"
    DONE = "done"
    BUSY = "busy"
    DUPLICATE = "duplicate"
    STALE = "stale"
    SUPERSEDED = "superseded"
    IGNORED = "ignored"
    RESET = "reset"
    GIVEN_UP = "given_up"
    ATTACHED = "attached"
    KEPT = "kept"
    GONE = "gone"
    EARLY = "early"
    WAS_CANCELLED = "was_cancelled"
    """A run was cancelled. Its next message ends it."""

    WAS_RESET = "was_reset"
    """A run was reset. The fact ``verdict`` says whether it is restarted or a stored end was dropped."""
    TOOK_OVER = "took_over"
    """A claim replaced another request's run, which had not ended."""
    FLUSHED = "flushed"
    """What a replaced run had committed to send was sent on its behalf."""
    COMMITTED = "committed"
    WAITING = "waiting"
    """The hop is committed, and its run waits for answers."""
    ANSWERED = "answered"
    """An answer arrived. The fact ``verdict`` is its result, such as RESUMED.

    ``is_held`` says that the run goes on when another message has shown that what it had to send was sent.
    """
    TIMED_OUT = "timed_out"
    """The deadline of a wait passed before it had its answers."""
    COMPLETED = "completed"
    FENCED = "fenced"
    """A worker that no longer owned its hop was refused its commit."""
    FAILED = "failed"
    """The run failed for good; its message is in the outbox, bound for the dead letters. With the fact ``on_failed`` it
    goes on at that stage, else it has ended FAILED."""
    UNDONE = "undone"
    """A run that had failed was ended FAILED by its flow's ``on_failed`` stage, or one after it."""
    RETRIED = "retried"
    IN_LINE = "in_line"
    """No place of a limit is free: the message waits for one, without an attempt. ``delay`` is when it looks again."""
    CALLED = "called"
    """A place of a limit is free: those who wait for it were sent their messages, so many ``hops``."""
    KEY_PAUSED = "key_paused"
    """A limit's ``key`` has paused itself, as ``why`` says, or its trial has failed. ``until`` is when one hop tries
    it next (ms since 1970)."""
    KEY_RESUMED = "key_resumed"
    """The trial of a ``key`` that had paused itself was answered: hops begin again."""
    CONTINUED = "continued"
    """No time was left to save all requests of a group: another invocation goes on, as the same attempt."""
    PUT_OFF = "put_off"
    """The run waits for newer requests of its object, by the flow's ``debounce``: it begins in ``delay`` seconds."""
    SENT = "sent"
    NOT_SENT = "not_sent"
    PARKED = "parked"
    """A message that its destination refuses for good lies among the dead letters. The run goes on without it."""
    LOST = "lost"
    """A message that a replaced run had committed cannot be sent any more, nor parked. The new run goes on."""
    UNREADABLE = "unreadable"
    UNROUTABLE = "unroutable"
    REFUSED = "refused"
    """An answer over HTTP was refused for what its sender sent, such as a forged token. Nothing was changed."""
    UNTRUSTED = "untrusted"
    """A message claims what its flow does not allow: it stays queued, and nothing was claimed."""
    OWN_TABLE = "own_table"
    """A change of the table of the run items came through a mapping that somebody has made. It is acked, and begins
    nothing: each run would begin others without end."""
    WEAK_ID = "weak_id"
    """The request id is the SQS message id, which changes when the message is redriven. Reported once of a flow."""
    ABANDONED = "abandoned"
    """A run that no worker worked on for longer than the flow allows was taken over."""
    RETURNED = "returned"
    """Not enough time was left: the record goes back to its queue untouched."""
    SPLIT = "split"
    """A record in which S3 says of several objects was sent on as a request for each."""
    TESTED = "tested"
    """A bucket has tried whether it may send to the queue, as when its notices are set up. That is no request."""
    UNSHARED = "unshared"
    """A request for several records was refused as a whole, or not answered. Each is asked for by its own call."""
    TIME_SHORT = "time_short"
    """The invocation is about to be cut off in the middle of this message."""
    RAISED = "raised"
    """A function under ``@once`` raised. The next call with its key calls it again."""
    UNSAVED = "unsaved"
    """A function under ``@once`` has done its work, and its result could not be stored: the next call with its key
    calls it again."""
    KEY_REUSED = "key_reused"
    """A key of ``@once`` came with another payload. The function was not called."""
    NO_PLACE = "no_place"
    """No place of a ``limit`` is free for a call of a function under ``@once``, for so many ``seconds`` at least. The
    function was not called."""
    BROKEN = "broken"
    """Something outside the stage failed (a service, a setting): the record stays queued."""


_DETAILS = frozenset({EventType.CLAIMED})
"""Each is followed by another event of its message, which says more."""

_WARNINGS = frozenset(
    {
        EventType.GIVEN_UP,
        EventType.GONE,
        EventType.EARLY,
        EventType.RETRIED,
        EventType.KEY_PAUSED,
        EventType.REFUSED,
        EventType.NOT_SENT,
        EventType.WEAK_ID,
        EventType.ABANDONED,
        EventType.RETURNED,
        EventType.UNSHARED,
        EventType.TIME_SHORT,
        EventType.RAISED,
    }
)
_ERRORS = frozenset(
    {
        EventType.FAILED,
        EventType.PARKED,
        EventType.LOST,
        EventType.UNREADABLE,
        EventType.UNROUTABLE,
        EventType.UNTRUSTED,
        EventType.OWN_TABLE,
        EventType.UNSAVED,
        EventType.KEY_REUSED,
        EventType.BROKEN,
    }
)


class Event(NamedTuple):
    """An event and its facts. These are ids and counts, no payload; ``message`` is None where none could be read."""

    type: EventType
    message: Message | None
    facts: Mapping[str, Any] = {}

    def fields(self) -> dict[str, Any]:
        """Return what a log line or a metric may show. Each text is printable, and cut where it is long."""
        return shown_fields({"event": self.type._value_}, self.message, self.facts)


def shown_fields(what: Mapping[str, Any], message: Message | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of that as fields, with where the message stands. Each text is printable, and cut where it is long."""
    fields = {**what, **facts}
    if (m := message) is not None:
        place = {"request_id": m.request_id, "flow": m.flow, "stage": m.stage}
        fields = {**what, **place, "hop": m.hop, "attempt": m.retry + 1, "redrive": m.redrive, **facts}
    for name, fact in fields.items():
        if isinstance(fact, str) and not (len(fact) <= LONGEST and fact.isprintable()):  # few are not: no call for each
            fields[name] = printable(bounded(fact))
    return fields


class Observer(Protocol):
    """Called with each event as it happens. It should be quick, for the message waits.

    It may also have a method ``span``: see :class:`flowguard.observers.SpanObserver`.
    """

    def __call__(self, event: Event) -> None: ...


def log(event: Event) -> None:
    """Log an event as one structured line through the standard ``flowguard`` logger: the default observer.

    Where Lambda logs JSON (``AWS_LAMBDA_LOG_FORMAT=JSON``) the fields are the line's own; elsewhere the line carries
    them as JSON text. A field that each line has, such as ``name`` or ``level``, gets an underscore there: ``name_``.
    Where Lambda traces, ``trace`` is the id of the trace.

    Where only Lambda's own handler would write it, a JSON line goes straight to standard output. Where somebody has
    configured Python's logging, the fields are a record's ``extra``.
    """
    name = event.type._value_  # for each event: ``value`` calls a function, and so does the hash of a member
    level = _LEVELS[name]
    if logger.isEnabledFor(level):
        log_fields(level, name, event.fields())


def log_fields(level: int, name: str, fields: Mapping[str, Any]) -> None:
    """Log these fields as one line, in the form that the function's logs have.

    A failing log breaks no message: an error of a handler, filter or formatter is printed to standard error, as by
    Python's own handlers.
    """
    try:
        if (trace := trace_id()) is not None:
            fields = {**fields, "trace": trace}
        if lambda_log.takes_all(logger, level):
            lambda_log.write(level, name, fields if _TAKEN.isdisjoint(fields) else _renamed(fields))
        elif os.environ.get("AWS_LAMBDA_LOG_FORMAT") == "JSON":
            logger.log(level, "flowguard %s", name, extra=_renamed(fields))
        else:
            logger.log(level, "flowguard %s", lambda_log.to_json(fields))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if logging.raiseExceptions:
            with suppress(Exception):  # standard error may be what is closed
                traceback.print_exc()


def _renamed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {f"{name}_" if name in _TAKEN else name: value for name, value in fields.items()}


def trace_id() -> str | None:
    """Return the id of the trace that Lambda has this invocation in. None where there is none."""
    header = os.environ.get("_X_AMZN_TRACE_ID")
    return match[1] if header and (match := _TRACE.search(header)) else None


def logged_bytes(event: Event) -> int:
    """Return how long the line of an event is in the log of a function that logs from INFO on. 0 for a detail."""
    level = _LEVELS[event.type._value_]
    return 0 if level < logging.INFO else len(lambda_log.line(level, event.type._value_, event.fields()).encode())


def _level_of(type_: EventType) -> int:
    if type_ in _ERRORS:
        return logging.ERROR
    if type_ in _WARNINGS:
        return logging.WARNING
    return logging.DEBUG if type_ in _DETAILS else logging.INFO


_LEVELS: Final = {type_.value: _level_of(type_) for type_ in EventType}


class Tally:
    """An observer that counts. It serves tests, replays and metrics."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def count(self, *events: EventType) -> int:
        """Return how many events of these types there were."""
        return sum(event.type in events for event in self.events)

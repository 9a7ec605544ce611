"""Everything flowguard raises, as one small tree.

It imports nothing of ours. Each error is a sentence, its facts are attributes, and it survives pickling
(``concurrent.futures`` and Lambda's own error report both need that). Expected endings (a duplicate, a stale
message, a fenced writer) are not here: they are values, see :mod:`flowguard.verdicts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum

LONGEST_SHOWN = 40
"""Characters of a value that an error shows: an attribute may hold a megabyte, and may be hostile."""


def shown(value: object) -> str:
    """Quote a value for an error, cut to what is enough to recognise it."""
    try:
        text = repr(value[: LONGEST_SHOWN + 1] if isinstance(value, str) else value)
    except Exception:  # nested too deeply, a number of thousands of digits, or a ``__repr__`` of a user's own
        text = type(value).__name__
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} …"


def span_problem(value: object) -> str | None:
    """Return what to write in place of a value that is no timedelta. None for a timedelta."""
    if isinstance(value, timedelta):
        return None
    seconds = shown(value) if type(value) in (int, float) else "…"
    return f"is {shown(value)}, which has no unit; write timedelta(seconds={seconds})"


def _reason(why: object) -> str:
    """Return the text of a reason, also where the caller gave the error that was caught."""
    return f"{type(why).__name__}: {why}" if isinstance(why, BaseException) else f"{why}"


def _is_a_time(value: object) -> bool:
    return isinstance(value, timedelta | int | float)


class FlowguardError(Exception):
    """Base of all errors of this package."""


# -- raised by a stage, to say what happens to the message -----------------------------------------------------------


class Retry(FlowguardError):
    """Raise it in a stage to have the same message tried again after this failed attempt.

    ``after`` overrides the delay of the stage's retry policy; above 15 minutes, the longest that SQS delays a message
    by, the flow must say ``long_delays=True``. The number of attempts stays capped by the policy.
    """

    def __init__(self, why: str = "the stage asked for a retry", after: timedelta | None = None) -> None:
        super().__init__(why, after)
        if _is_a_time(why):
            raise TypeError(f"Retry({shown(why)}): its first argument is the reason; write Retry(after=timedelta(…))")
        if after is not None and (problem := span_problem(after)):
            raise TypeError(f"Retry's after {problem}")
        if after is not None and not timedelta(0) <= after <= timedelta(days=14):
            raise ValueError(f"Retry(after={after!r}): a message can be delayed by 0 to 14 days")
        self.why = why
        self.after = after

    def __str__(self) -> str:
        return _reason(self.why)


class Reject(FlowguardError):
    """Raise it in a stage for a message that can never work. It becomes a dead letter and its run ends FAILED."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return _reason(self.why)


class Cancelled(Reject):
    """The run was cancelled from outside. It ends FAILED with this error, or goes on at the flow's ``on_failed``."""


# -- mistakes of definition and configuration ------------------------------------------------------------------------


class DefinitionError(FlowguardError):
    """A stage or flow class is wrong. ``problems`` lists every mistake found, each with its fix."""

    def __init__(self, what: str, problems: tuple[str, ...]) -> None:
        super().__init__(what, problems)
        self.what = what
        self.problems = problems

    def __str__(self) -> str:
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        return f"{self.what} is not well defined:{lines}"


class SettingsError(FlowguardError):
    """A setting is missing or malformed. Nothing has been read or written yet.

    ``in_stage`` is True where a stage missed it: other records may not need it.
    """

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(setting, problem)
        self.setting = setting
        self.problem = problem
        self.in_stage = False

    def __str__(self) -> str:
        return f"{self.setting}: {self.problem}"


# -- messages that cannot be read ------------------------------------------------------------------------------------


class EnvelopeError(FlowguardError):
    """A record is not a message that can be read.

    ``record`` names it (its message id, or its place such as ``Records[2]``), ``field`` is the path inside it.
    """

    def __init__(self, record: str, field: str, problem: str) -> None:
        super().__init__(record, field, problem)
        self.record = record
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.record}: {self.field}: {self.problem}"


class Untrusted(EnvelopeError):
    """A message claims what its flow does not allow. Nothing was claimed; after minutes it is a dead letter."""


class TooEarly(EnvelopeError):
    """A message's time is still to come, by less than a day. It stays in its queue until then."""


# -- answers that are not believed ------------------------------------------------------------------------------------


class TokenProblem(StrEnum):
    """Why a token is refused."""

    MALFORMED = "MALFORMED"
    """It does not have the form of a token."""

    UNKNOWN_KEY = "UNKNOWN_KEY"
    """It names a key that this function does not have."""

    FORGED = "FORGED"
    """No holder of that key has made it: it was changed or invented."""

    OTHER_FLOW = "OTHER_FLOW"
    """It is genuine, of a flow that this function does not serve."""

    EXPIRED = "EXPIRED"
    """It is genuine, and its time is over."""


_WHY_REFUSED = {
    TokenProblem.MALFORMED: "it does not have the form of a token; is the link whole?",
    TokenProblem.UNKNOWN_KEY: "it names a key that is not known here; is its maker's FLOWGUARD_TOKEN_KEYS this one?",
    TokenProblem.FORGED: "it was changed or invented, or its maker has another secret under the same key id",
    TokenProblem.OTHER_FLOW: "it is of a flow that this function does not serve; is the link the right one?",
    TokenProblem.EXPIRED: "its time is over",
}


class TokenRefused(FlowguardError):
    """A token is not believed. Nothing was read from the table or written. The error shows nothing of the token."""

    def __init__(self, reason: TokenProblem) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the token is refused: {_WHY_REFUSED[self.reason]}"


# -- work that cannot be done as asked: trying again would not help, so each is a Reject -----------------------------


class RunFailed(Reject):
    """The run cannot go on. Its stage or version is unknown, its payload does not validate, or it has too many hops."""


class PayloadInvalid(RunFailed):
    """A payload is not what its stage takes: no JSON, or the stage's model refuses it. No handler was called."""


class PayloadLost(RunFailed, TypeError):
    """A payload, a state or a result would not be read as it is written. Nothing was written or sent.

    It has a number that JSON does not have, or a field that its model does not read as it writes it.
    """


class OtherRelease(RunFailed):
    """A message or a run's state was written by another release: this code lacks its version, its stage or its type.

    Nothing was done, and the run is not failed: code of the right release goes on with it.
    """


class CannotOpen(OtherRelease):
    """A sealed value cannot be opened.

    It was changed, is about something else, or no key here opens it. ``what`` is its kind. Nothing was done or lost: a
    message is parked as one of another release is, and goes on once it is sent back to functions that can open it.
    """

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"the {what} cannot be opened: {why}")
        self.args = (what, why)
        self.what = what


class AskedOtherwise(OtherRelease):
    """An agent asks its model or a tool something else than the hop remembers an answer to. Nothing was asked.

    ``call`` names it, such as ``draft.2``. A release has changed the prompt or a tool, or the prompt differs by the
    attempt. The message is parked as one of another release.
    """

    def __init__(self, call: str) -> None:
        fix = "let a prompt depend on the payload and the step alone, or give the agent's calls another name"
        super().__init__(f"{call!r} is asked something else than is remembered; {fix} to ask anew")
        self.args = (call,)
        self.call = call


class GroupChanged(RunFailed):
    """A stage that goes on to save a group asks other requests than it has saved before. Nothing was sent.

    ``saved`` is how many were. The requests have to come again in the same order, with the same names and payloads.
    """

    def __init__(self, stage: str, saved: int) -> None:
        fix = "let them come in a fixed order, or give its function the time to save all at once"
        super().__init__(
            f"{stage!r} cannot wait: its first {saved:,} requests are not those that were saved before; {fix}. "
            "Nothing was sent"
        )
        self.args = (stage, saved)
        self.stage = stage
        self.saved = saved


class TooLarge(Reject):
    """Something does not fit where it has to go. Nothing was written or sent.

    ``sizes`` are bytes by part, ``limit`` is what the whole may have.
    """

    def __init__(self, what: str, sizes: dict[str, int], limit: int) -> None:
        parts = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        super().__init__(f"{what} is too large: {sum(sizes.values()):,} bytes of at most {limit:,} ({parts})")
        self.args = (what, sizes, limit)
        self.what = what
        self.sizes = sizes
        self.limit = limit


class TooManyWrites(Reject):
    """A handler recorded more writes than one transaction can hold. Nothing was written."""

    def __init__(self, stage: str, limit: int) -> None:
        super().__init__(
            f"stage {stage!r} records more than {limit} writes; one commit is one transaction: "
            f"split the work over several hops"
        )
        self.args = (stage, limit)
        self.stage = stage
        self.limit = limit


class WriteInvalid(Reject):
    """DynamoDB refuses the commit for good, and nothing was written.

    It is malformed or too large, or a table denies it.
    """


class WriteDenied(WriteInvalid):
    """A table denies a recorded write or is not there, and nothing was written.

    That may pass within minutes, so the record comes again a few times before the attempt has failed. In a flow with
    ``on_failed`` its message is parked then, and its run goes on when that is redriven. ``tables`` are those it may be.
    """

    def __init__(self, why: str, tables: Iterable[str] = ()) -> None:
        super().__init__(why)
        self.tables = frozenset(tables)


class ConditionRejected(Reject):
    """The condition of a write that was recorded with ``else_reject`` did not hold. Nothing of the commit was applied.

    ``item`` is the item of ``table`` as DynamoDB showed it, in plain Python values; None where there is none.
    """

    def __init__(self, table: str, condition: str, item: dict[str, object] | None) -> None:
        super().__init__(_does_not_hold(table, condition, item))
        self.args = (table, condition, item)
        self.table = table
        self.condition = condition
        self.item = item


class TextGone(Reject):
    """A long text that an item points to is not in S3 any more, or may not be read. The item itself is unchanged."""

    def __init__(self, bucket: str, key: str, why: str) -> None:
        super().__init__(f"the text at s3://{bucket}/{key} is gone: {why}")
        self.args = (bucket, key, why)
        self.bucket = bucket
        self.key = key


def _does_not_hold(table: str, condition: str, item: dict[str, object] | None) -> str:
    outcome = "no such item" if item is None else "the item is there, but it does not match"
    return f"the condition on {table!r} does not hold ({condition}): {outcome}"


# -- work that may succeed when it is tried again --------------------------------------------------------------------


class ConditionFailed(FlowguardError):
    """The caller's own condition on a recorded write did not hold. Neither that write nor the commit was applied.

    ``item`` is the item of ``table`` as DynamoDB showed it, in plain Python values; None where there is none.
    """

    def __init__(self, table: str, condition: str, item: dict[str, object] | None) -> None:
        super().__init__(table, condition, item)
        self.table = table
        self.condition = condition
        self.item = item

    def __str__(self) -> str:
        return _does_not_hold(self.table, self.condition, self.item)


class ItemChanged(ConditionFailed):
    """Each of the ``tries`` to modify an item met a change by another writer. Nothing was written.

    ``item`` is the item of ``table`` as it was met at last; None where there is none.
    """

    def __init__(self, table: str, tries: int, item: dict[str, object] | None) -> None:
        super().__init__(table, "it is as it was read", item)
        self.args = (table, tries, item)
        self.tries = tries

    def __str__(self) -> str:
        return f"an item of {self.table!r} was changed by others at each of {self.tries} tries to modify it"


class NotHeld(FlowguardError):
    """Conditions did not hold, of writes for which the handler is called again. Nothing of the commit was applied.

    ``refused`` has the item that each write with ``else_go_on`` met, by that name; None where there is none.
    ``changed`` is the error of a ``step.modify`` if this was its last try. No stage meets this error.
    """

    def __init__(self, refused: dict[str, dict[str, object] | None], changed: ItemChanged | None = None) -> None:
        super().__init__(refused, changed)
        self.refused = refused
        self.changed = changed

    def __str__(self) -> str:
        return f"these writes did not hold: {', '.join(self.refused)}" if self.changed is None else str(self.changed)


class GroupUnsaved(FlowguardError):
    """An invocation had no time to save even a hundred requests of a group. Nothing was sent; the attempt has failed.

    ``saved`` is how many were saved before, by other invocations.
    """

    def __init__(self, stage: str, saved: int) -> None:
        super().__init__(stage, saved)
        self.stage = stage
        self.saved = saved

    def __str__(self) -> str:
        why = f"no time was left to save a request after {self.saved:,} that were saved before"
        return f"{self.stage!r} cannot wait: {why}; give its function more. Nothing was sent"


class FenceAhead(FlowguardError):
    """The database has a newer fence than the run item, which is current. Nothing was written.

    That is so where the run item was lost and the fence was not: after a table was restored, or its items were deleted.
    Delete the object's row of ``flowguard_fence``, and retry the run.
    """


class WorkerFenced(FlowguardError):
    """The object has a newer run or another worker by now. Nothing was written, and nothing that follows would be.

    A stage lets it pass: the message goes on as its run does.
    """

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by

    def __str__(self) -> str:
        return f"this worker no longer owns the hop: {self.by}"


class RowsUnwritten(FlowguardError):
    """DynamoDB left some rows unprocessed, however often they were written. Their hop is not committed.

    ``what`` says what they are. It costs no attempt: the message comes again.
    """

    def __init__(self, rows: int, what: str) -> None:
        super().__init__(rows, what)
        self.rows = rows
        self.what = what

    def __str__(self) -> str:
        return f"{self.rows} {self.what} were not written; the hop is tried again"


class SendFailed(FlowguardError):
    """Some messages were not taken by the service. Those before them were; nothing is lost, the record stays queued.

    ``reasons`` maps each destination to the service's own words. ``for_minutes`` where one of them is denied or not
    there, which a deployment may change.
    """

    def __init__(self, reasons: dict[str, str], *, for_minutes: bool = False) -> None:
        super().__init__(reasons)
        self.reasons = reasons
        self.for_minutes = for_minutes

    def __str__(self) -> str:
        return "not sent: " + "; ".join(f"{to}: {why}" for to, why in self.reasons.items())


class KeyUnavailable(FlowguardError):
    """The keys of a codec, of signatures or of tokens cannot be asked now.

    Their service does not answer, is throttled, or denies it. It is an outage, and costs no attempt. ``key`` names
    the key, or where it is stored. ``opening`` is True where one value was to be opened: others may be of another
    key, or of none. ``refused`` is True where its service has answered that it is denied or not there, and ``in_stage``
    where a stage has met that: other records may not need the key.
    """

    def __init__(self, key: str, why: str, *, refused: bool = False) -> None:
        super().__init__(key, why)
        self.key = key
        self.why = why
        self.opening = False
        self.refused = refused
        self.in_stage = False

    def __str__(self) -> str:
        return f"the key {self.key} cannot be used now: {self.why}"


class RunTooBusy(FlowguardError):
    """A run moved on before each write that was to cancel it. It was not cancelled."""

    def __init__(self, flow: str, tries: int) -> None:
        super().__init__(flow, tries)
        self.flow = flow
        self.tries = tries

    def __str__(self) -> str:
        return f"the run of {self.flow} was not cancelled: it moved on {self.tries} times meanwhile; try again"


class PlacesBusy(FlowguardError):
    """Others have changed the places of a limit's key before each write. Nothing was changed."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(place, why)
        self.place = place
        self.why = why

    def __str__(self) -> str:
        return f"the places of {self.place} were not changed: {self.why}; it is tried again"


class NotForgotten(FlowguardError):
    """What a run had left was not removed, since the run goes on or has ended just now. Nothing was changed.

    ``goes_on`` says that it has not ended, so that it can be cancelled.
    """

    def __init__(self, flow: str, why: str, goes_on: bool = False) -> None:
        super().__init__(flow, why, goes_on)
        self.flow = flow
        self.why = why
        self.goes_on = goes_on

    def __str__(self) -> str:
        return f"the run of {self.flow} was not forgotten: {self.why}"


class NotProcessed(FlowguardError):
    """Some messages of an invocation without partial answers (SNS or direct) were not processed. Lambda will retry it.

    ``records`` maps each message id to why.
    """

    def __init__(self, records: dict[str, str]) -> None:
        super().__init__(records)
        self.records = records

    def __str__(self) -> str:
        return "not processed: " + "; ".join(f"{record}: {why}" for record, why in self.records.items())


# -- functions under ``@once`` ----------------------------------------------------------------------------------------


class InProgress(FlowguardError):
    """Another call with this key is at work. The function was not called; try again after ``seconds``.

    By then the other call has ended, or its Lambda function has been stopped.
    """

    def __init__(self, name: str, key: str, seconds: int) -> None:
        super().__init__(name, key, seconds)
        self.name = name
        self.key = key
        self.seconds = seconds

    def __str__(self) -> str:
        return f"{self.name}: {shown(self.key)} is in progress elsewhere, for {self.seconds} s at most; try again then"


class LimitReached(FlowguardError):
    """No place of a limit is free for the call. The function was not called, and its key is free.

    ``limit`` is the limit's name. None is free for ``seconds`` at least; 0 where a call at work may end at any moment,
    or the table was asked too often to say.
    """

    def __init__(self, name: str, limit: str, seconds: int) -> None:
        super().__init__(name, limit, seconds)
        self.name = name
        self.limit = limit
        self.seconds = seconds

    def __str__(self) -> str:
        when = f"for {self.seconds} s at least; try again then" if self.seconds else "now; try again later"
        return f"{self.name}: no place of the limit {self.limit!r} is free {when}. The function was not called"


class KeyReused(FlowguardError):
    """The key was used with another payload. That call has completed, is at work or has died.

    The function was not called, and nothing was changed.
    """

    def __init__(self, name: str, key: str) -> None:
        super().__init__(name, key)
        self.name = name
        self.key = key

    def __str__(self) -> str:
        fix = "send another request under another key"
        return f"{self.name}: {shown(self.key)} was used with another payload; {fix}. The function was not called"


class KeyMissing(FlowguardError):
    """The call has no usable key. The function was not called, and nothing was written."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}. The function was not called"


class ResultRefused(FlowguardError):
    """The function was called, and its result cannot be stored.

    The key is COMPLETED without a result: no repeat calls the function again, and each repeat raises this error.
    """

    def __init__(self, name: str, key: str, problem: str) -> None:
        super().__init__(name, key, problem)
        self.name = name
        self.key = key
        self.problem = problem

    def __str__(self) -> str:
        done = "The function was called, and the key is COMPLETED without a result: a repeat does not call it again"
        return f"{self.name}: the result of {shown(self.key)} cannot be stored: {self.problem}. {done}"


class ResultUnsaved(FlowguardError):
    """The function was called, and its result was not stored. A repeat may call it again.

    The store did not take the result, or another call took the key over after this one's lease.
    """

    def __init__(self, name: str, key: str, why: str) -> None:
        super().__init__(name, key, why)
        self.name = name
        self.key = key
        self.why = why

    def __str__(self) -> str:
        done = "The function was called; a repeat may call it again"
        return f"{self.name}: the result of {shown(self.key)} was not stored: {self.why}. {done}"


class NotABatch(FlowguardError):
    """An event is no batch of SQS records, as ``batch`` of a function under ``@once`` takes. Nothing was called."""

    def __str__(self) -> str:
        fix = "call the function itself with the event, or read it from SQS"
        return f"the event has no Records of SQS, each with a messageId and a body; {fix}. Nothing was called"

"""The hook at each call of a run. It counts the call, strikes where the schedule says so and notes the effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar, cast

from flowguard.errors import FlowguardError
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.event_source import EventSource
from flowguard.sim.limits.queues import queue_name
from flowguard.sim.memory.not_in_memory import NotInMemory
from flowguard.sim.posted_messages import Posted, posted
from flowguard.sim.provision import tables_of
from flowguard.sim.sends import sending
from flowguard.testing.explorer.record.history import CallRecord, History, RefusedCall, Version
from flowguard.testing.explorer.record.noted_calls import is_noted
from flowguard.testing.explorer.record.outside_call import DATA_API, OUTSIDE
from flowguard.testing.explorer.record.refusal import refusal_at, refusal_of_user
from flowguard.testing.explorer.record.schedule import AT_CALLS, FOR_GOOD, OF_SCANS, Choice, FaultKind, Schedule
from flowguard.testing.explorer.record.site import calling_site
from flowguard.testing.explorer.record.touched import places_of
from flowguard.testing.explorer.run.bad_day import BadDay
from flowguard.testing.explorer.run.earlier import EarlierStates
from flowguard.testing.explorer.run.fault_effects import LAST_RECEIVE, LOOKUPS, Killed, failure, kinds_at
from flowguard.testing.explorer.run.inbox import Inbox
from flowguard.testing.explorer.run.lives import Lives
from flowguard.testing.explorer.run.partial import refused, size, taken_in_part
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.run.shared_statements import written_in
from flowguard.testing.explorer.run.worker import Worker

_NO_TABLE: Final = "ResourceNotFoundException"
_WRITES: Final = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchExecuteStatement"})

MOST_CALLS: Final = 2_000
"""An invocation that makes more calls is taken not to end."""

Answer = TypeVar("Answer")


class OutOfTurn(FlowguardError):
    """A call from a thread that is not the invocation's, or after it was given up. It was not made."""

    def __init__(self, call: ApiCall) -> None:
        super().__init__(call.service, call.operation)
        self.call = f"{call.service} {call.operation}"

    def __str__(self) -> str:
        return f"{self.call} was called from a thread that is not its invocation's, and was not made"


class FaultInjector:
    """An interceptor. ``before`` may hold up the worker that has the turn and returns how it was held up.

    ``effects`` counts, for what a worker is to do, the writes and sends that user code made by itself. ``scheduled``
    are the messages of schedules that have not come due.
    """

    inbox: Inbox

    def __init__(
        self,
        sandbox: Sandbox,
        schedule: Schedule,
        history: History,
        source: EventSource,
        before: Callable[[Worker], tuple[FaultKind, ...]],
        day: BadDay,
    ) -> None:
        self.history = history
        self._invocation = sandbox.invocation
        self.effects: Counter[tuple[str | None, str]] = Counter()
        self._sandbox = sandbox
        self._schedule = schedule
        self._source = source
        self._before = before
        self._day = day
        self._invocation.history = history
        self._invocation.point = self
        self._earlier = EarlierStates(sandbox.fast, are_kept=schedule.has(frozenset({FaultKind.STALE})))
        self._lives = Lives(sandbox)
        turned = next((choice.kind for choice in schedule.choices if choice.kind in OF_SCANS), None)
        self._turned = turned if sandbox.turning is not None else None
        self._quiet = False
        self.scheduled: list[Posted] = []
        self.of_records: list[ApiCall] = []

    @property
    def worker(self) -> Worker | None:
        """Return the worker that has the turn."""
        return self._invocation.worker

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        worker = self.worker
        if worker is not None and not self._invocation.is_inside():
            raise OutOfTurn(call)
        if self._quiet or worker is None:
            return proceed()
        if call.operation in LOOKUPS:
            self._refuse(call)
            return self._quietly(proceed)
        held = self._before(worker)
        if len(worker.entry.calls) >= MOST_CALLS:
            self._end_without_end(worker)
        refused = self._day.refused
        try:
            return self._day.call(
                len(self.history.calls) + 1, worker.delivery, call, lambda: self._numbered(worker, held, call, proceed)
            )
        finally:
            self._note_weather(self._day.refused - refused)

    def _note_weather(self, refused: int) -> None:
        """Count a call that the weather refused."""
        if refused:
            self.history.weathered += 1
            site = calling_site(until="_work")
            self.history.weathered_users += site.is_users and not site.by_flowguard

    def _numbered(self, worker: Worker, held: tuple[FaultKind, ...], call: ApiCall, proceed: Proceed) -> Response:
        """Make a call that is counted."""
        made = self._made(call, worker, held)
        if (debugger := self._invocation.debugger) is not None:
            debugger.before(made.number)
        for choice in self._schedule.find(made.number, FOR_GOOD):
            self._begin_to_refuse(made, call, choice)
        self._refuse(call, made)
        choices = self._schedule.find(made.number, AT_CALLS)
        return (
            self._struck(worker, made, call, proceed, choices[-1]) if choices else self._carry_out(made, call, proceed)
        )

    def go_on_undisturbed(self, history: History) -> None:
        """Note what follows in another history. Nothing new goes wrong and what is refused for good stays so."""
        self.history, self._schedule = history, Schedule()
        self._invocation.history = history

    def _begin_to_refuse(self, made: CallRecord, call: ApiCall, choice: Choice) -> None:
        if (refusal := refusal_of_user(call) if made.site.is_users else refusal_at(call, choice.more)) is not None:
            made.fault = FaultKind.REFUSED
            self.history.refusals.append(RefusedCall(made.number, refusal))

    def _refuse(self, call: ApiCall, made: CallRecord | None = None) -> None:
        """Raise the answer of the first refusal that the call meets."""
        for refusal in self.history.refusals:
            if refusal.refusal.concerns(call) and not (refusal.refusal.of_user and self._is_repaired()):
                error = refusal.refusal.error(call)
                if made is not None:
                    made.fault, made.error = FaultKind.REFUSED, _code(error)
                raise error

    def _is_repaired(self) -> bool:
        """Answer whether a plain function's record comes back from the dead letters, to which someone has seen."""
        worker = self.worker
        return worker is not None and worker.function.plain and worker.delivery.from_dlq

    def _struck(self, worker: Worker, made: CallRecord, call: ApiCall, proceed: Proceed, choice: Choice) -> Response:
        if call.service in OUTSIDE and choice.kind not in kinds_at(made, first=True):  # a random walk may say so
            return self._carry_out(made, call, proceed)
        made.fault = choice.kind
        match choice.kind:
            case FaultKind.DIES_BEFORE:
                self._kill(worker, choice)
            case FaultKind.ERROR | FaultKind.THROTTLED:
                made.error = "ServerError" if made.fault is FaultKind.ERROR else "Throttled"
                raise failure(choice.kind, call)
            case FaultKind.DIES_AFTER:
                self._carry_out(made, call, proceed)
                self._kill(worker, choice)
            case FaultKind.UNANSWERED:
                self._carry_out(made, call, proceed)
                made.error = "TimedOut"
                raise failure(choice.kind, call)
            case FaultKind.LOST:
                self._carry_out(made, call, proceed)
                _rewind(call)
                if choice.more and "ClientRequestToken" in call.params:
                    cast("dict[str, Any]", call.params)["ClientRequestToken"] += "-2"
            case FaultKind.PARTIAL if entries := refused(choice.more, made.entries):
                made.refused = entries
                return self._carry_out(made, call, lambda: taken_in_part(call, proceed, entries))
            case FaultKind.STALE if made.eventual:
                return self._carry_out(made, call, lambda: self._earlier.read(call, proceed) or proceed())
            case _:
                made.fault = None
        return self._carry_out(made, call, proceed)

    def _end_without_end(self, worker: Worker) -> NoReturn:
        """Stop an invocation that calls AWS without end, and note it."""
        worker.killed = worker.entry.died = True
        worker.entry.why = f"it made {MOST_CALLS} calls of AWS and went on"
        worker.entry.raised_at = calling_site(until="_work")
        self.history.hung = self.history.hung or worker.entry
        raise Killed

    def _kill(self, worker: Worker, choice: Choice) -> NoReturn:
        worker.killed = worker.entry.died = True
        worker.entry.last = choice.more == LAST_RECEIVE
        raise Killed

    def _made(self, call: ApiCall, worker: Worker, held: tuple[FaultKind, ...]) -> CallRecord:
        number, now, target = len(self.history.calls) + 1, self._sandbox.now(), self._target(call)
        site = calling_site(until="_work")
        made = CallRecord(
            number,
            now,
            worker.entry.worker,
            call.service,
            call.operation,
            target,
            site,
            fault=self._turned if self._turned in (ways := ways_of(call)) else None,
            held=held,
            entries=size(call.service, call.operation, call.params),
            key=str(call.params["Key"]) if call.service == "s3" and "Key" in call.params else "",
            ways=ways,
            conditional=_is_conditional(call.params),
            eventual=site.is_users and self._earlier.may_be_behind(call, now, self.history.calls),
            places=places_of(call, target, self._sandbox.hash_keys),
            is_repeated=not (call.service == DATA_API and is_made_once(call)),
        )
        self.history.calls.append(made)
        worker.entry.calls.append(number)
        return made

    def _target(self, call: ApiCall) -> str:
        data_api = self._sandbox.data_api
        return data_api.target(call) if data_api.plays(call) else _target(call)

    def _carry_out(self, made: CallRecord, call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "dynamodb" and not made.is_read:
            self._earlier.keep(made.target.split(", "))
        try:
            of_record = self.of_record(call)
            made.of_record = of_record is not None
            made.is_played = self._sandbox.data_api.plays(call)
            answer = self._quietly(proceed) if of_record is None else of_record
        except NotInMemory as error:
            made.error = type(error).__name__
            problem = f"calls {call.service} {call.operation}: {error}"
            more = "; or install moto, which has more: pip install 'flowguard-aws[local]'"
            self._invocation.lack(made.site, problem, _fix(call) + more, error.service)
            raise
        except Exception as error:
            made.error = _code(error)
            if call.service in self._sandbox.elsewhere and not self._schedule.choices:
                problem = f"calls {call.service} {call.operation}: moto, in which nothing is there, answers: {error}"
                self._invocation.lack(made.site, problem, _fix(call))
            elif made.error == _NO_TABLE and not (made.site.is_users or self._schedule.choices):
                self._lacks_tables(made)
            raise
        made.applied += bool(answer.get("changed", True)) if call.service in OUTSIDE else 1
        made.error = None
        if made.site.is_users and not made.is_read and self.worker is not None:
            self.effects[self.worker.work] += 1
        self._quietly(lambda: self._note_effects(made, call, answer))
        return answer

    def _lacks_tables(self, made: CallRecord) -> None:
        """Note the tables for which a stage records writes, and which nobody has named."""
        for table in made.target.split(", "):
            if table not in self._sandbox.hash_keys:
                named = f"{{{table!r}: …}}"
                fix = f"say its key: TABLES = {named} in the flow's module, tables={named} or --table {table}=…"
                self._invocation.lack(made.site, f"a stage writes to the table {table!r}, which is not there", fix)

    def _quietly(self, step: Callable[[], Answer]) -> Answer:
        """Run a step whose calls are no calls of the run.

        They are the explorer's own, or what it takes to supply a queue.
        """
        self._quiet = True
        try:
            with self._sandbox.randomness.aside(with_random=self._sandbox.calls_draw):
                return step()
        finally:
            self._quiet = False

    def of_record(self, call: ApiCall) -> Response | None:
        """Answer here what a function asks about its records. They are here and not in the engine's queues."""
        answer: Response | None = {"ResponseMetadata": {}}
        if call.operation.startswith("ChangeMessageVisibility"):
            self._source.postponed(call, self._sandbox.now())
        else:
            answer = self._source.deleted(call)
        if answer is not None:
            self.of_records.append(call)
        return answer

    def _note_effects(self, made: CallRecord, call: ApiCall, answer: Mapping[str, Any]) -> None:
        history, now = self.history, self._sandbox.now()
        if made.site.is_users and is_noted(made):
            self._sandbox.outside.called(call.service, call.operation, call.params)
        if call.service == "dynamodb" and call.operation in _WRITES:
            for table, key in written_in(call.params, answer):
                if table == self._sandbox.settings.table and key is not None:
                    self._note_version(made, key)
        if call.service == "dynamodb" and not made.is_read:
            self._lives.note(history, made, call.params, answer)
        for message in posted(call, answer, call=made.number, at=now, from_user=made.site.is_users):
            self.post(message, now)

    def post(self, message: Posted, now: int) -> None:
        """Note a message, and let it arrive."""
        self.history.posted.append(message)
        if message.due is not None:
            self.scheduled.append(message)
            return
        received = self.inbox.receive(message, now)
        self.history.senders.update((delivery.number, message.call) for delivery in received)

    def state(self) -> tuple[Counter[tuple[str | None, str]], dict[str, Any]]:
        """Return what is known of effects and lives at this moment."""
        return Counter(self.effects), dict(self._lives.known)

    def put_back(self, state: tuple[Counter[tuple[str | None, str]], dict[str, Any]]) -> None:
        """Restore what was known of effects and lives at that moment."""
        effects, lives = state
        self.effects, self._lives.known = Counter(effects), dict(lives)

    def _note_version(self, made: CallRecord, key: Mapping[str, Any]) -> None:
        """Note the run item as a call of flowguard's own left it, or a stage that remembers something.

        There are other items in the table: those of groups, and a handler's own. It may change a run through a client.
        """
        if not _is_of_a_run(key):
            return
        version = Version(key["pk"]["S"], made.number, made.worker, self._sandbox.item(key))
        if not made.site.is_users or self._remembers(version):
            self.history.versions.append(version)

    def _remembers(self, version: Version) -> bool:
        """Answer whether the item has a memory, and its owner has not been fenced since the last version."""
        item, before = version.item, self.history.latest().get(version.key)
        return item is not None and item.memo is not None and before is not None and item.epoch == before.epoch


def _is_of_a_run(key: Mapping[str, Any]) -> bool:
    return key.get("sk") == {"S": "run"} and str(key.get("pk", {}).get("S")).startswith("run#")


def is_made_once(call: ApiCall) -> bool:
    """Answer whether the client of a call repeats none."""
    retries = getattr(call.client.meta.config, "retries", None) or {}
    return bool(retries.get("total_max_attempts") == 1)


def _rewind(call: ApiCall) -> None:
    """Let a body that was read be read again, as botocore does before it repeats a request."""
    seek = getattr(call.params.get("Body"), "seek", None)
    if call.service == "s3" and seek is not None:
        seek(0)


def _fix(call: ApiCall) -> str:
    return f'say what it answers: stubs={{"{call.service}.{call.operation}": …}}'


def _target(call: ApiCall) -> str:
    match call.service:
        case service if service in OUTSIDE:
            return str(call.params["To"])
        case "dynamodb":
            tables = [table for table, _ in tables_of(call.params)]
            return ", ".join(dict.fromkeys(tables or call.params.get("RequestItems", ())))
        case "events" if (sends := sending(call.service, call.operation)) is not None:
            return ", ".join(sends.receivers(call.params))
        case "sqs" if "QueueUrl" in call.params:
            return queue_name(call.params)
        case _:
            target = call.params.get("Target")
            arguments = {"Arn": target.get("Arn")} if isinstance(target, dict) else call.params
            named = (arguments.get(name) for name in ("Arn", "TopicArn", "TargetArn", "FunctionName", "Bucket", "Name"))
            return next((str(name).rpartition(":")[2] for name in named if name), "")


def _code(error: Exception) -> str:
    answer: Any = getattr(error, "response", {})
    return str(answer.get("Error", {}).get("Code") or type(error).__name__)


def ways_of(call: ApiCall) -> tuple[FaultKind, ...]:
    """Return how the items that a call reads may come otherwise."""
    if (call.service, call.operation) == ("dynamodb", "Scan"):
        return FaultKind.TURNED, FaultKind.PAGED
    if (call.service, call.operation) != ("dynamodb", "Query"):
        return ()
    return (FaultKind.TURNED, FaultKind.PAGED) if "IndexName" in call.params else (FaultKind.PAGED,)


def _is_conditional(params: Mapping[str, Any]) -> bool:
    """Answer whether a write has a condition, alone or in a transaction."""
    actions = [action for item in params.get("TransactItems", ()) for action in item.values()]
    return any("ConditionExpression" in request for request in (params, *actions))

"""Handlers of one event that run at once: each record ends as it would have, and all else is done one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, cast

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, services_of_environment
from flowguard.clock import ManualClock
from flowguard.errors import DefinitionError
from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.handler import lambda_handler
from flowguard.names.ids import RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Claim, Commit, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.stage import MOST_AT_ONCE, Stage
from flowguard.step import Step
from flowguard.testing.context import FakeContext
from flowguard.worker import batch
from flowguard.worker.asks import Committing
from flowguard.worker.driving import Driver
from flowguard.worker.invocation_lock import InvocationLock
from flowguard.worker.ports import Unlimited
from flowguard.worker.routing import Arrival
from flowguard.worker.together import LONGEST_WAIT_MS, PendingCommits, Turn, Waiting, at_once
from tests.aws.engines import on_dynamodb_local
from tests.scene import START, Order, OrderState, Scene, Script, record, scene
from tests.worker.test_together import (
    BATCH,
    Killed,
    deliver_fifo,
    fails_for,
    fifo,
    items,
    next_hops,
    order,
    orders,
    plain,
    together,
)
from tests.worker.test_together_calls import turn

PATIENCE = 3
"""Seconds after which a test fails that waits for another thread."""


def parallel(script: Script) -> AnyFlow:
    flow = plain(script)
    flow.stages[0].parallel = 3
    return flow


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(parallel) as found:
        yield threaded(found)


def threaded(at: Scene) -> Scene:
    """Its function may use threads, as a deployed one does."""
    at.handler = together(at).handler.using(at.handler._services._replace(threads=True))
    return at


def meeting(parties: int) -> Callable[[Step[OrderState]], None]:
    """Handlers that end when so many of them are at work."""
    barrier = threading.Barrier(parties, timeout=PATIENCE)

    def meet(step: Step[OrderState]) -> None:
        barrier.wait()

    return meet


class AtWork:
    """Counts the handlers that are at work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def __call__(self, meet: Callable[[Step[OrderState]], None]) -> Callable[[Step[OrderState]], None]:
        def handle(step: Step[OrderState]) -> None:
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            meet(step)
            with self._lock:
                self._now -= 1

        return handle


# -- at once ----------------------------------------------------------------------------------------------------------


def test_as_many_handlers_run_at_once_as_the_stage_says(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LONGEST_WAIT_MS", PATIENCE * 1_000)
    at_work = AtWork()
    at.script.pricing = at_work(meeting(3))
    assert at.deliver(*orders(at, 6)) == [True] * 6
    assert at_work.most == 3
    assert at.calls == [BATCH, BATCH]
    assert [item.done for item in items(at, 6) if item is not None] == [True] * 6
    assert len(at.sent("close-order")) == 6


def test_a_stage_that_does_not_say_so_handles_one_record_after_the_other(at: Scene) -> None:
    at.deliver(*orders(at, 3))
    at_work = AtWork()
    at.script.closing = at_work(lambda step: None)
    assert at.deliver(*next_hops(at, 3)) == [True] * 3
    assert at_work.most == 1
    assert at.calls == [BATCH, BATCH]


@pytest.mark.parametrize(("threads", "shared"), [(False, True), (True, False)])
def test_without_threads_or_shared_calls_one_record_comes_after_the_other(
    at: Scene, threads: bool, shared: bool
) -> None:
    at.handler = at.handler.using(at.handler._services._replace(threads=threads))
    at.handler.together = shared
    at_work = AtWork()
    at.script.pricing = at_work(lambda step: None)
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at_work.most == 1


def test_a_deployed_function_uses_threads_and_an_aws_in_memory_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert services_of_environment().threads
    assert not aws_services(Settings()).threads


def test_a_batch_ends_as_its_records_end_one_by_one() -> None:
    ends = []
    for threads in (False, True):
        with scene(parallel) as at:
            threaded(at)
            at.handler = at.handler.using(at.handler._services._replace(threads=threads))
            at.script.pricing = fails_for("o2")
            acked = [at.deliver(*orders(at, 4)), at.deliver(*next_hops(at, 4)), at.deliver(*orders(at, 4))]
            sent = {queue: sorted(one["Body"] for one in at.sent(queue)) for queue in ("emails", "close-order")}
            ends.append((acked, items(at, 4), sent, sorted(event.type.value for event in at.tally.events)))
    assert ends[0] == ends[1]


def test_groups_of_a_fifo_queue_go_at_once_and_each_in_its_order(at: Scene) -> None:
    at.script.pricing = meeting(2)
    groups = ["red", "blue", "red", "blue"]
    records = [fifo(order(at, place), place, group) for place, group in enumerate(groups)]
    assert deliver_fifo(at, *records) == []
    first, second = at.script.handled[:2], at.script.handled[2:]
    assert {name for name, _, _ in first} == {"o0", "o1"}
    assert {name for name, _, _ in second} == {"o2", "o3"}


def test_records_of_one_object_still_go_in_turn(at: Scene) -> None:
    later = order(at, 0, requested_at=order(at, 0).requested_at + 1)._replace(request_id=RequestId("later"))
    at_work = AtWork()
    at.script.pricing = at_work(lambda step: None)
    assert at.deliver(order(at, 0), later) == [True, True]
    assert at_work.most == 1


# -- one at a time ----------------------------------------------------------------------------------------------------


def test_observers_are_told_one_thing_at_a_time_while_handlers_are_at_work(at: Scene) -> None:
    inside, met = threading.Lock(), []

    def watch(event: Event) -> None:
        assert inside.acquire(blocking=False), "two events at once"
        met.append(event.type)
        inside.release()

    at.handler = at.handler.using(at.handler._services._replace(observer=watch))
    at.script.pricing = meeting(3)
    assert at.deliver(*orders(at, 9)) == [True] * 9
    assert met.count(EventType.COMMITTED) == 9


WORD: ContextVar[str] = ContextVar("WORD", default="")


def test_a_handler_has_the_context_of_its_invocation_and_changes_none(at: Scene) -> None:
    said: list[str] = []

    def handle(step: Step[OrderState]) -> None:
        said.append(WORD.get())
        WORD.set(str(step.object_id))

    at.script.pricing = handle
    token = WORD.set("outside")
    try:
        assert at.deliver(*orders(at, 3)) == [True] * 3
        assert said == ["outside"] * 3
        assert WORD.get() == "outside"
    finally:
        WORD.reset(token)


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_handler_that_fails_harms_its_own_record_alone(at: Scene) -> None:
    meet, fail = meeting(3), fails_for("o1")

    def handle(step: Step[OrderState]) -> None:
        meet(step)
        fail(step)

    at.script.pricing = handle
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at.told(EventType.RETRIED) == 1
    assert [item.done for item in items(at, 3) if item is not None] == [True, False, True]


def test_whoever_kills_the_process_does_so_and_the_others_come_again(at: Scene) -> None:
    def kill(step: Step[OrderState]) -> None:
        if step.object_id == "o1":
            raise Killed

    at.script.pricing = kill
    with pytest.raises(Killed):
        at.deliver(*orders(at, 3))
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=31)
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert [item.done for item in items(at, 3) if item is not None] == [True] * 3


def test_commits_do_not_wait_for_a_handler_that_takes_long(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LONGEST_WAIT_MS", 5)
    committed = threading.Event()

    def handle(step: Step[OrderState]) -> None:
        if step.object_id == "o1":
            assert committed.wait(PATIENCE), "the others are not committed"

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        done = [item for item in items(at, 3) if item is not None and item.done] if call.operation == BATCH else []
        if len(done) == 2:
            committed.set()
        return answer

    at.script.pricing = handle
    with intercept(watch):
        assert at.deliver(*orders(at, 3)) == [True] * 3
    assert [item.done for item in items(at, 3) if item is not None] == [True] * 3


def test_commits_do_not_wait_longer_when_others_are_at_work(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LONGEST_WAIT_MS", 3 * PATIENCE * 1_000)
    waits, committed = threading.Event(), threading.Event()
    add = PendingCommits.add

    def added(pending: PendingCommits, place: int, *given: Any) -> None:
        add(pending, place, *given)
        waits.set()

    def handle(step: Step[OrderState]) -> None:
        if step.object_id == "o1":
            assert waits.wait(PATIENCE)
            at.clock.advance(ms=LONGEST_WAIT_MS + 1)
        if step.object_id == "o2":
            assert committed.wait(PATIENCE), "the others are not committed"

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == BATCH and waits.is_set():
            committed.set()
        return answer

    monkeypatch.setattr(PendingCommits, "add", added)
    at.script.pricing = handle
    with intercept(watch):
        assert at.deliver(*orders(at, 3)) == [True] * 3
    assert [item.done for item in items(at, 3) if item is not None] == [True] * 3


def test_a_commit_waits_for_those_at_work_and_not_for_as_long_as_they_may_take(at: Scene) -> None:
    clock = ManualClock(START)
    pending = PendingCommits(cast(Driver, None), clock, Unlimited())
    commit = Commit(Status.RUNNING, START, START, None, "{}")
    ask = Committing(cast(Claim, None), commit)
    pending.add(0, Waiting(cast(Arrival, None), cast(Any, None), ask), START - 10 * LONGEST_WAIT_MS)
    assert [pending.is_due(), pending.is_due(at_work=True)] == [True, False]
    clock.advance(ms=LONGEST_WAIT_MS + 1)
    assert pending.is_due(at_work=True)


def test_a_handler_that_takes_an_invocations_last_time_lets_nothing_begin_after_it(at: Scene) -> None:
    at.script.pricing = lambda step: at.clock.advance(ms=3_100)
    context = FakeContext(timeout=timedelta(seconds=10), clock=at.clock)
    assert at.deliver(*orders(at, 5), context=context) == [True, True, True, False, False]
    assert at.told(EventType.RETURNED) == 2


@pytest.mark.parametrize(("left", "claimed"), [(40_998, 3), (40_999, 4)])
def test_what_is_handled_at_once_needs_its_time_once(at: Scene, left: int, claimed: int) -> None:
    at.flow.stages[0].timeout = timedelta(seconds=20)
    context = FakeContext(timeout=timedelta(milliseconds=left), clock=at.clock)
    with intercept(Recorder()) as calls:
        assert at.deliver(*orders(at, 6), context=context) == [True] * 6
    claims = next(call for call in calls.calls if call.operation == BATCH)
    assert len(claims.params["Statements"]) == claimed


def without_threads(at: Scene) -> Scene:
    at.handler = at.handler.using(at.handler._services._replace(threads=False))
    return at


def test_where_no_threads_are_used_each_handler_needs_its_own_time(at: Scene) -> None:
    at.flow.stages[0].timeout = timedelta(seconds=20)
    context = FakeContext(timeout=timedelta(milliseconds=60_999), clock=at.clock)
    with intercept(Recorder()) as calls:
        assert without_threads(at).deliver(*orders(at, 6), context=context) == [True] * 6
    claims = next(call for call in calls.calls if call.operation == BATCH)
    assert len(claims.params["Statements"]) == 2


def test_where_no_threads_are_used_a_commit_does_not_wait_for_all_that_may_run_at_once(at: Scene) -> None:
    done: list[bool] = []

    def handle(step: Step[OrderState]) -> None:
        at.clock.advance(ms=LONGEST_WAIT_MS // 2 + 1)
        if step.object_id == "o2":
            done.extend(item.done for item in items(at, 2) if item is not None)

    at.script.pricing = handle
    assert without_threads(at).deliver(*orders(at, 3)) == [True] * 3
    assert done == [True, True]


@pytest.mark.proof("the memory takes one call at a time, DynamoDB Local takes several")
def test_what_a_step_does_early_is_done_by_several_at_once(dynamodb_local_url: str) -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE)

    def once(step: Step[OrderState]) -> None:
        step.once("charge", lambda: barrier.wait() and None)

    with scene(parallel) as at:
        clients = on_dynamodb_local(dynamodb_local_url)
        services = aws_services(Settings(), clients, clock=at.clock)._replace(sender=at.handler._services.sender)
        at.handler = lambda_handler(at.flow, together=True).using(services._replace(threads=True))
        at.script.pricing = once
        answer = at.handler({"Records": [record(one, place) for place, one in enumerate(orders(at, 6))]})
        assert answer == {"batchItemFailures": []}
        assert len(at.script.handled) == 6


# -- the lock of the invocation


def test_results_come_as_they_are_there_and_what_is_raised_comes_when_all_have_ended() -> None:
    lock, ended = InvocationLock(), threading.Event()

    def slow() -> str:
        with lock.handed_on():
            assert ended.wait(PATIENCE)
        return "slow"

    def wrong() -> str:
        raise KeyError("wrong")

    found: list[dict[str, str]] = []
    for results in lock.at_once({"slow": slow, "quick": lambda: "quick"}, PATIENCE):
        found.append(dict(results))
        ended.set()
    assert found == [{"quick": "quick"}, {"slow": "slow"}]
    ended.clear()

    def late() -> str:
        with lock.handed_on():
            pass
        ended.set()
        return "late"

    with pytest.raises(KeyError):
        list(lock.at_once({"late": late, "wrong": wrong}, PATIENCE))
    assert ended.is_set()


def test_whoever_stops_asking_gets_the_baton_back() -> None:
    lock = InvocationLock()
    results = lock.at_once({1: lambda: 1, 2: lambda: 2}, PATIENCE)
    next(results)
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert lock._lock.locked()


# -- who may be handled at once ---------------------------------------------------------------------------------------


def test_the_records_of_one_stage_go_in_parts_of_its_number(at: Scene) -> None:
    first, second = at.flow.stages
    turns = [turn(stage=first)._replace(place=place) for place in range(5)]
    others = [turn(stage=second)._replace(place=place) for place in (5, 6)]

    def parts(of: list[Turn], *, in_threads: bool = True) -> list[list[int]]:
        return [[one.place for one in part] for part in at_once(of, in_threads=in_threads)]

    assert parts([*turns, *others]) == [[0, 1, 2], [3, 4], [5], [6]]
    assert parts(turns, in_threads=False) == [[0], [1], [2], [3], [4]]
    assert parts([turns[0], others[0], turns[1]]) == [[0], [5], [1]]
    assert parts([]) == []
    assert [Turn(0, turns[0].envelope).parallel, turn(stage=None).parallel, turns[0].parallel] == [1, 1, 3]


def test_a_function_without_such_a_stage_needs_no_threads(at: Scene) -> None:
    assert at.handler.routes.are_parallel
    assert not lambda_handler(at.flow, at.flow.stages[1]).routes.are_parallel


@pytest.mark.parametrize("number", [0, -1, MOST_AT_ONCE + 1, True, "3", 2.0, None])
def test_how_many_run_at_once_is_a_small_number(number: Any) -> None:
    class Inherited(Stage[Order], abstract=True):
        parallel = number

    with pytest.raises(DefinitionError, match=f"parallel is .*; it is a number from 1 to {MOST_AT_ONCE}"):

        class Many(Inherited, name="many"):
            def handle(self, order: Order, step: Step) -> Outcome:
                return Done()


def test_an_async_handler_has_the_one_event_loop_and_no_thread() -> None:
    with pytest.raises(DefinitionError, match="its handle is async, and an invocation has one event loop"):

        class Many(Stage[Order], name="many", parallel=2):
            async def handle(self, order: Order, step: Step) -> Outcome:
                return Done()


def test_a_base_class_gives_its_number_to_the_stages_of_it() -> None:
    class Many(Stage[Order], abstract=True, parallel=MOST_AT_ONCE):
        pass

    class One(Many, name="one"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    assert One.parallel == MOST_AT_ONCE


def test_clients_are_made_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.aws.botocore_clients.end_in_time", lambda client: None)  # these are none
    making, met = threading.Lock(), []

    class Session:
        def client(self, service: str, **given: object) -> object:
            assert making.acquire(blocking=False), "two at once"
            met.append(service)
            making.release()
            return object()

    clients = Clients(Session())  # type: ignore[arg-type]  # of a session only this is used
    threads = [threading.Thread(target=getattr, args=(clients, name)) for name in ("sqs", "sns", "s3", "ssm")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(met) == ["s3", "sns", "sqs", "ssm"]

"""An outage that a handler meets in what flowguard does for it: it says nothing of the stage, and costs no attempt."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.errors import KeyUnavailable, Reject, SettingsError, WorkerFenced
from flowguard.events import EventType
from flowguard.group import GroupEnd
from flowguard.names.ids import RequestId
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS
from flowguard.worker.handler_calls import HandlerCalls
from tests.scene import OrderState, Scene, scene
from tests.worker.runtime.mishaps import boom

Pricing = Callable[[Step[OrderState]], object]


def failure(call: ApiCall, code: str, *reasons: str) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": "no"},
        "ResponseMetadata": {"HTTPStatusCode": 400},
        "CancellationReasons": [{"Code": reason} for reason in reasons],
    }
    return ClientError(response, call.operation)


ERRORS: Final[dict[str, Callable[[ApiCall], Exception]]] = {
    "throttled": lambda call: failure(call, "ThrottlingException"),
    "no network": lambda call: EndpointConnectionError(endpoint_url="https://aws"),
    "denied": lambda call: failure(call, "AccessDeniedException"),
    "met": lambda call: failure(call, "TransactionConflictException"),
}


def applied(step: Step[OrderState]) -> None:
    with step.apply("counted"):
        step.update("orders", {"id": "pen"}, "ADD n :one", values={":one": 1})


CALLS: Final[dict[str, Pricing]] = {
    "once": lambda step: step.once("charge", lambda: 7),
    "apply": applied,
    "modify": lambda step: step.modify("orders", {"id": "pen"}, lambda item: {"n": 1}),
    "is_current": lambda step: step.is_current(),
}


@contextmanager
def refused_within(at: Scene, pricing: Pricing, error: Callable[[ApiCall], Exception]) -> Iterator[None]:
    """Let each call that the handler leads to meet the error, and no other one."""
    inside: list[bool] = []

    def priced(step: Step[OrderState]) -> None:
        inside.append(True)
        try:
            pricing(step)
        finally:
            inside.clear()

    def refuses(call: ApiCall, proceed: Proceed) -> Response:
        if inside:
            raise error(call)
        return proceed()

    at.script.pricing = priced
    with intercept(refuses):
        yield
    at.script.pricing = pricing


@pytest.mark.parametrize("error", ["throttled", "no network", "met"])
@pytest.mark.parametrize("call", CALLS)
def test_what_fails_for_now_in_a_handler_costs_no_attempt(at: Scene, call: str, error: str) -> None:
    with refused_within(at, CALLS[call], ERRORS[error]):
        for _ in range(9):  # of three attempts
            assert at.deliver(at.message()) == [False]
            at.clock.advance(seconds=31)
    assert (at.told(EventType.FAILED), at.told(EventType.RETRIED), at.sent("price-order")) == (0, 0, [])
    assert at.deliver(at.message()) == [True]
    assert (at.priced(), len(at.sent("close-order"))) == (1, 1)


def test_it_gives_the_lease_back(at: Scene) -> None:
    with refused_within(at, CALLS["once"], ERRORS["throttled"]):
        assert at.deliver(at.message()) == [False]
    assert at.deliver(at.message()) == [True], "at once"


@pytest.mark.parametrize("pricing", [boom, lambda step: step.send("emails", {"n": object()})])
def test_what_a_handler_raises_by_itself_costs_one(at: Scene, pricing: Pricing) -> None:
    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert at.told(EventType.RETRIED) + at.told(EventType.FAILED) == 1


def test_a_call_of_its_own_that_is_throttled_costs_one(at: Scene) -> None:
    def asks(step: Step[OrderState]) -> None:
        at.aws.client("dynamodb").list_tables()

    with refused_within(at, asks, ERRORS["throttled"]):
        assert at.deliver(at.message()) == [True]
    assert at.told(EventType.RETRIED) == 1


def test_the_same_error_of_a_call_that_was_tried_again_by_itself_is_the_handlers(at: Scene) -> None:
    def catches(step: Step[OrderState]) -> None:
        try:
            step.once("charge", lambda: 7)
        except ClientError as error:
            raise RuntimeError("no charge") from error

    with refused_within(at, catches, ERRORS["throttled"]):
        assert at.deliver(at.message()) == [True]
    assert at.told(EventType.RETRIED) == 1


def test_what_is_refused_for_good_is_the_handlers(at: Scene) -> None:
    with refused_within(at, CALLS["modify"], lambda call: failure(call, "ValidationException")):
        assert at.deliver(at.message()) == [True]
    assert (at.told(EventType.FAILED), at.sent("close-order")) == (1, [])


@pytest.mark.parametrize(("other", "costs"), [(None, 0), (ValueError("7"), 1)])
def test_of_several_errors_all_have_to_be_of_such_calls(at: Scene, other: Exception | None, costs: int) -> None:
    async def fails(error: Exception) -> None:
        raise error

    async def together(step: Step[OrderState]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(CALLS["is_current"], step))
            if other is not None:
                group.create_task(fails(other))

    with refused_within(at, lambda step: asyncio.run(together(step)), ERRORS["no network"]):
        assert at.deliver(at.message()) == [bool(costs)]
    assert at.told(EventType.RETRIED) == costs


async def in_a_group(pricing: Pricing, step: Step[OrderState]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(pricing, step))


def rejects(step: Step[OrderState]) -> None:
    raise Reject("sold out")


def is_fenced(step: Step[OrderState]) -> None:
    raise WorkerFenced("newer run")


@pytest.mark.parametrize(("pricing", "event"), [(rejects, EventType.FAILED), (is_fenced, EventType.FENCED)])
def test_one_error_of_a_group_counts_as_if_it_were_raised_alone(at: Scene, pricing: Pricing, event: EventType) -> None:
    at.script.pricing = lambda step: asyncio.run(in_a_group(pricing, step))
    at.deliver(at.message())
    assert (at.told(event), at.told(EventType.RETRIED)) == (1, 0)


def test_a_table_that_is_denied_within_a_group_costs_no_attempt(at: Scene) -> None:
    with refused_within(at, lambda step: asyncio.run(in_a_group(applied, step)), ERRORS["denied"]):
        assert at.deliver(at.message()) == [False]
    assert at.told(EventType.RETRIED) + at.told(EventType.FAILED) == 0


@pytest.mark.parametrize("error", [KeyUnavailable("ssm:keys", "no answer"), SettingsError("FLOWGUARD_KEYS", "no")])
def test_keys_and_settings_cost_none_wherever_they_are_missed(at: Scene, error: Exception) -> None:
    def misses(step: Step[OrderState]) -> None:
        raise error

    at.script.pricing = misses
    assert at.deliver(at.message()) == [False]
    assert at.told(EventType.RETRIED) + at.told(EventType.FAILED) == 0


def asks_for_a_token(step: Step[OrderState]) -> None:
    """No key is set for it."""
    if step.object_id == "o2":
        step.token("approval")


def lacks_its_key(step: Step[OrderState]) -> None:
    if step.object_id == "o2":
        raise KeyUnavailable("ssm:/keys", "ParameterNotFound", refused=True)


@pytest.mark.parametrize("pricing", [asks_for_a_token, lacks_its_key])
def test_a_setting_or_key_that_one_stage_misses_holds_up_its_record_alone(at: Scene, pricing: Pricing) -> None:
    at.script.pricing = pricing
    several = [at.order(object_id, request_id=RequestId(object_id)) for object_id in ("o1", "o2", "o3")]
    assert at.deliver(*several) == [True, False, True]
    assert at.told(EventType.RETURNED) == 0


def test_a_step_without_tables_stays_one() -> None:
    assert HandlerCalls().of_tables(None) is None


def test_what_a_stage_has_raised_is_known_by_its_classes() -> None:
    calls = HandlerCalls()
    error = Reject("no")
    assert calls.of_stage(ExceptionGroup("of a task", [error])) is error
    assert calls.raised == (Reject,)


def test_several_errors_say_nothing_about_a_stage_where_none_does() -> None:
    def fail(error: Exception) -> None:
        raise error

    calls, errors = HandlerCalls(lambda error: isinstance(error, OSError)), [OSError("first"), OSError("second")]
    for error in errors:
        with pytest.raises(OSError, match=str(error)):
            calls.made(partial(fail, error))
    assert calls.have_failed_with(ExceptionGroup("both", errors))
    assert calls.have_failed_with(ExceptionGroup("and a key", [*errors, KeyUnavailable("ssm:/keys", "throttled")]))
    assert not calls.have_failed_with(ExceptionGroup("and its own", [*errors, ValueError("a bug")]))


class Transaction:
    """Is open as long as anything has it."""


def test_what_a_handler_has_open_ends_with_its_failed_attempt(at: Scene) -> None:
    opened: list[weakref.ref[Transaction]] = []

    def fails(step: Step[OrderState]) -> None:
        transaction = Transaction()
        opened.append(weakref.ref(transaction))
        raise ValueError("a bug")

    at.script.pricing = fails
    gc.disable()
    try:
        at.deliver(at.message())
        assert [one() for one in opened] == [None]
    finally:
        gc.enable()


def meets_keys_that_are_away(step: Step[OrderState]) -> None:
    if step.object_id == "o2":
        raise KeyUnavailable("ssm:/keys", "throttled")


def test_keys_that_are_away_keep_the_records_behind_from_asking(at: Scene) -> None:
    at.script.pricing = meets_keys_that_are_away
    several = [at.order(object_id, request_id=RequestId(object_id)) for object_id in ("o1", "o2", "o3")]
    assert at.deliver(*several) == [True, False, False]
    assert at.told(EventType.RETURNED) == 1


@pytest.fixture
def with_bucket() -> Iterator[Scene]:
    with scene(settings=Settings(bucket="texts", offload_above=1_024)) as found:
        found.aws.client("s3").create_bucket(Bucket="texts")
        yield found


LONG: Final = random.Random(7).randbytes(2_000).hex()
"""No packing makes it short."""


LARGE: Final = int(LONG[:3_000], 16)


def reads_left(step: Step[OrderState]) -> None:
    assert step.superseded == OrderState(total=LARGE)


def recalls(step: Step[OrderState]) -> None:
    assert step.once("charge", lambda: LONG) == LONG


def counts(step: Step[OrderState]) -> None:
    step.state.total = LARGE


def recalls_and_fails(step: Step[OrderState]) -> None:
    recalls(step)
    raise RuntimeError("gateway down")


@pytest.mark.parametrize("pricing", [reads_left, recalls])
def test_a_text_in_s3_is_read_after_an_outage(with_bucket: Scene, pricing: Pricing) -> None:
    at = with_bucket
    at.script.closing = counts
    assert at.deliver(at.message()) == [True]
    assert at.deliver(at.second()) == [True]
    first = at.newer()
    if pricing is recalls:
        at.script.pricing = recalls_and_fails
        assert at.deliver(first) == [True]
        first = at.newer(retry=1)
    with refused_within(at, pricing, ERRORS["no network"]):
        for _ in range(9):
            assert at.deliver(first) == [False]
    assert at.deliver(first) == [True]
    assert at.told(EventType.FAILED) == 0


# -- groups ---------------------------------------------------------------------------------------------------


class Shop(BaseModel):
    shop: str


class Tour(BaseModel):
    tour: str


class Visited(Stage[Shop], name="visited"):
    def handle(self, shop: Shop, step: Step) -> Outcome:
        return Done(1)


class Visits(Flow, name="visits", object_id="shop"):
    stages = (Visited,)


READING: Final[list[bool]] = []


class Plan(Stage[Tour], name="plan", then="total"):
    def handle(self, tour: Tour, step: Step) -> Outcome:
        asked = step.group(Visits, ((f"n{place}", Shop(shop=f"s{place}")) for place in range(3)))
        return Total.when_group(asked, within=timedelta(days=1))


class Total(Stage[GroupEnd], name="total"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        READING.append(True)
        try:
            return Done(sum(each.answer for each in step.answers(int) if isinstance(each.answer, int)))
        finally:
            READING.clear()


class Tours(Flow, name="tours", object_id="tour"):
    stages = (Plan, Total)


def saves(call: ApiCall) -> bool:
    return call.operation == "BatchWriteItem"


def reads(call: ApiCall) -> bool:
    return bool(READING)


@pytest.mark.parametrize("meets", [saves, reads])
def test_the_rows_of_a_group_are_saved_and_read_after_an_outage(meets: Callable[[ApiCall], bool]) -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        began: list[int] = []

        def refuses(call: ApiCall, proceed: Proceed) -> Response:
            if meets(call):
                began.append(clock.now())
                if clock.now() - began[0] < 40 * 60_000:
                    raise failure(call, "ThrottlingException")
            return proceed()

        runner.serve(Visits).send(Tours, Tour(tour="t1"))
        with intercept(refuses):
            result = runner.run()
        run = result.run("t1", "tours")
        assert (run.status, run.result) == (Status.COMPLETED, 3)
        assert len(began) > 5
        assert max(each.attempt or 0 for each in result.deliveries if each.flow == "tours") == 1
        assert not result.dead_letters

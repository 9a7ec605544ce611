"""Each code of AWS's refusals, once, at each call of a run that waits, of its answer, and of the hop after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.faults import FINAL, FOR_MINUTES, STRANGERS
from flowguard.destinations import Queue
from flowguard.errors import FlowguardError
from flowguard.group import GroupAnswer
from flowguard.outcome import Outcome
from flowguard.protocol.run import Status
from flowguard.protocol.waiting import GivenAnswer
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.table_keys import create_table
from flowguard.step import Step
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.external_answers import ExternalAnswers
from tests.aws.engines import same_clients
from tests.once_world import ORDER, charge_in, once_world
from tests.scene import Scene, scene
from tests.waits import SCRIPT, START, WITHIN, AnyOf, Carts, Progress, WaitScene, wait_scene
from tests.worker import test_cancelling, test_resets, test_together_crashes
from tests.worker.runtime.test_callers import answers, caller, shared
from tests.worker.runtime.test_codes import PASSING
from tests.worker.runtime.test_resets import client, triggered_cache
from tests.worker.test_external_answers import sent_at
from tests.worker.test_groups import group_of, read_into
from tests.worker.test_together import together

pytestmark = pytest.mark.proof("carries a run out for each call and code")

KEPT: Final = ExternalAnswer(Carts, "paid", GivenAnswer("7"), timedelta(hours=1))
CODES: Final = sorted({*PASSING, *FINAL, *FOR_MINUTES, *STRANGERS})
A_FEW: Final = (
    "ProvisionedThroughputExceededException",
    "InternalServerError",
    "AccessDeniedException",
    "ValidationException",
)
"""What passes, from a stranger too, what is denied for minutes, and what is final: the other codes of each kind are
told apart by name alone, which the sweep of one run holds before a release, and ``runtime/test_codes.py`` ever."""

ANOTHER: Final = pytest.mark.long(
    "another code of a kind that is swept, and tests/worker/runtime/test_codes.py knows it"
)


SWEPT: Final = [pytest.param(code, marks=() if code in {*A_FEW, "ExpiredToken"} else ANOTHER) for code in CODES]


def waits(step: Step[Progress]) -> Outcome:
    step.once("rate", lambda: 3)
    with step.apply("reserved"):
        step.put("stock", {"id": step.object_id})
    step.update("totals", {"day": "monday"}, "ADD begun :one", values={":one": 1})
    return AnyOf.when_any(a=step.event("paid", keep_early=True), b=step.ask(Queue("asked"), {"id": 1}), within=WITHIN)


class Refusing:
    """Refuses one call, by its number, with one code. With the number 0 it refuses none, and counts them."""

    def __init__(self, number: int = 0, code: str = "") -> None:
        self._number = number
        self._code = code
        self.calls = 0
        self.at = ""

    @property
    def has_refused(self) -> bool:
        return bool(self.at)

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self.calls += is_asked(call)
        if self.calls != self._number or not is_asked(call):
            return proceed()
        self.at = f"{call.operation} {call.params.get('UpdateExpression', '')[:60]}"
        response: Any = {
            "Error": {"Code": self._code, "Message": "no"},
            "ResponseMetadata": {"HTTPStatusCode": 400},
        }
        raise ClientError(response, call.operation)


def carried_out(at: WaitScene) -> None:
    """Carry a run out: each record comes again, some minutes later, until it is taken."""
    for table, key in (("totals", "day"), ("stock", "id")):
        create_table(same_clients().dynamodb, table, key)
    repeated(at, lambda: at.begin(waits))
    go_on(at)
    repeated(at, lambda: settled(at))
    go_on(at)


def go_on(at: WaitScene) -> None:
    """Deliver what lies in the inbox, and what that sends, until nothing does."""
    while records := at.waiting("carts"):
        for record in records:
            repeated(at, partial(at.deliver, record))


def repeated(at: WaitScene | Scene, deliver: Callable[[], bool]) -> None:
    for _ in range(6):
        try:
            if deliver():
                return
        except (ClientError, FlowguardError):
            pass
        at.clock.advance(seconds=300)
    raise AssertionError("it is never taken")


def is_asked(call: ApiCall) -> bool:
    """Whether the library makes it, and not the test."""
    return call.operation not in {"CreateTable", "ReceiveMessage", "DeleteMessage", "GetQueueUrl"}


def ended(at: WaitScene) -> tuple[Status, set[int | None], int]:
    """How the run stands, what its last stage got each time, and how often its effect was applied."""
    found: Any = at.aws.client("dynamodb").scan(TableName="totals")["Items"]
    return at.item().status, {payload.a for _, payload in SCRIPT.got}, sum(int(one["begun"]["N"]) for one in found)


@cache
def calls_of_the_library() -> int:
    """How many it makes where nothing is refused."""
    with wait_scene() as at, intercept(counting := Refusing()):
        carried_out(at)
        assert len(SCRIPT.got) == 1
    return counting.calls


@pytest.mark.parametrize("code", SWEPT)
def test_a_code_that_comes_once_ends_no_run_and_one_that_is_final_ends_it_with_a_letter(code: str) -> None:
    for number in range(1, calls_of_the_library() + 1):
        with wait_scene() as at:
            with intercept(refusing := Refusing(number, code)):
                carried_out(at)
            assert refusing.has_refused, number
            if ended(at) == (Status.COMPLETED, {7}, 1):
                assert len(SCRIPT.got) == 1 or "done = :yes" in refusing.at, (number, refusing.at)
                continue
            assert code in FINAL | FOR_MINUTES, (number, refusing.at, ended(at))
            assert at.letters(), (number, refusing.at, ended(at))


def settled(at: WaitScene) -> bool:
    settling = ExternalAnswers(at.services, Emitter(at.services.observer))
    _, ending = settling.settle(KEPT, sent_at("m-1", START, receives=2), queued=True)
    return ending.ack


# -- requests that share a run, a group, and a function under @once ----------------------------------------------------


def swept(code: str, carry_out: Callable[[Refusing], bool]) -> int:
    """Carry something out with the code at each of its calls. ``carry_out`` answers whether it went well.

    How many calls the library makes where nothing is refused.
    """
    counting = Refusing()
    assert carry_out(counting)
    for number in range(1, counting.calls + 1):
        refusing = Refusing(number, code)
        assert carry_out(refusing), (number, refusing.at)
        assert refusing.has_refused, number
    return counting.calls


@pytest.mark.parametrize("code", A_FEW)
def test_a_code_that_comes_once_keeps_no_answer_from_those_who_share_a_run(code: str) -> None:
    def carry_out(refusing: Refusing) -> bool:
        with scene(shared) as at:
            with intercept(refusing):
                for message in (at.message(reply_to="sqs:completed"), caller(at), at.second(reply_to="sqs:completed")):
                    repeated(at, partial(taken, at, message))
            ends = answers(at)
            return ends == [(one, "run-1", "COMPLETED") for one in ("caller-0", "run-1")] or is_parked(
                code, at.sent("dead")
            )

    assert swept(code, carry_out) > 8


@pytest.mark.parametrize("code", A_FEW)
def test_a_code_that_comes_once_leaves_no_group_unanswered(code: str) -> None:
    def carry_out(refusing: Refusing) -> bool:
        got: list[GroupAnswer[int]] = []
        with wait_scene() as at:
            read_into(got)
            with intercept(refusing):
                repeated(at, lambda: at.begin(group_of("abc", "de"), carried={}))
                for queue in ("carts", "answers", "searches", "answers", "carts", "carts"):
                    for record in at.waiting(queue):
                        repeated(at, partial(at.deliver, record))
            letters = [*at.letters(), *at.waiting("search-dead-letters")]
            return set(got) == {(0, "abc", 3), (1, "de", 2)} or is_parked(code, letters)

    assert swept(code, carry_out) > 8


@pytest.mark.parametrize("code", A_FEW)
def test_a_code_that_comes_once_lets_no_function_under_once_do_its_work_twice(code: str) -> None:
    def carry_out(refusing: Refusing) -> bool:
        with once_world() as world:
            charge = charge_in(world)
            with intercept(refusing):
                for _ in range(3):
                    with suppress(ClientError, FlowguardError):
                        charge(ORDER, world.context())
                    world.clock.advance(seconds=60)
            return len(world.called) == 1 or (len(world.called) == 2 and "unsaved" in world.told())

    assert swept(code, carry_out) >= 2


def taken(at: Scene, message: Message) -> bool:
    return all(at.deliver(message))


def is_parked(code: str, letters: Sequence[object]) -> bool:
    """Whether a code that ends something ended it with a letter."""
    return code in FINAL | FOR_MINUTES and bool(letters)


# -- orders to cancel and to reset, and records that share their calls -------------------------------------------------


def ordered(at: Scene, give: Callable[[Any, Envelope], Ending], brought: Envelope) -> None:
    """Let an order come again until it is taken."""

    def is_taken() -> bool:
        return give(at, brought).ack

    repeated(at, is_taken)


@pytest.mark.parametrize("code", SWEPT)
def test_a_code_that_comes_once_keeps_no_order_to_cancel_from_its_run(code: str) -> None:
    def carry_out(refusing: Refusing) -> bool:
        with scene() as at:
            at.deliver(at.message())
            with intercept(refusing):
                ordered(at, test_cancelling.ending, test_cancelling.order())
            item = at.item()
            at.deliver(at.second())
            ended = at.item()
            assert item is not None
            assert ended is not None
            return (item.cancelled_because, ended.status) == ("a mistake", Status.FAILED)

    assert swept(code, carry_out) == 4, "which run it is, the row of the order, and the run's own read and write"


@pytest.mark.parametrize("code", CODES)
def test_a_code_that_comes_once_keeps_no_order_to_reset_from_its_run(code: str) -> None:
    def carry_out(refusing: Refusing) -> bool:
        with scene(triggered_cache) as at:
            at.deliver(at.message())
            with intercept(refusing):
                ordered(at, test_resets.ending, test_resets.order())
            item = at.item()
            assert item is not None
            return (item.reset_by, item.epoch) == ("reset-1", 2)

    assert swept(code, carry_out) >= 2


CLIENTS: Final[dict[str, Callable[[Scene], object]]] = {
    "cancel": lambda at: client(at).cancel(at.flow, "o1", why="a mistake"),
    "reset": lambda at: client(at).reset(at.flow, "o1"),
}


@pytest.mark.parametrize("what", CLIENTS)
@pytest.mark.parametrize("code", CODES)
def test_a_code_that_a_client_meets_is_told_and_its_next_try_does_it(code: str, what: str) -> None:
    def carry_out(refusing: Refusing) -> bool:
        with scene(triggered_cache) as at:
            at.deliver(at.message())

            def tried() -> bool:
                CLIENTS[what](at)
                return True

            with intercept(refusing):
                repeated(at, tried)
            item = at.item()
            assert item is not None
            return item.cancelled_because == "a mistake" if what == "cancel" else item.reset_by is not None

    assert swept(code, carry_out) >= 2


@pytest.mark.parametrize("flow", test_together_crashes.FLOWS)
@pytest.mark.parametrize("code", A_FEW)
def test_a_code_that_comes_once_keeps_no_record_of_a_batch_from_its_end(code: str, flow: str) -> None:
    wanted, _ = test_together_crashes.undisturbed(flow)

    def carry_out(refusing: Refusing) -> bool:
        with scene(test_together_crashes.FLOWS[flow]) as at:
            together(at)
            with intercept(refusing):
                for messages in test_together_crashes.hops(at):
                    repeated(at, partial(taken_together, at, messages))
            found = test_together_crashes.end_of(at)
            return found[:2] == wanted[:2] or (code in FINAL | FOR_MINUTES and bool(found.sent["dead"]))

    assert swept(code, carry_out) > 2


def taken_together(at: Scene, messages: list[Any]) -> bool:
    """Deliver what is left of a batch, as SQS does. Whether nothing is left."""
    messages[:] = test_together_crashes.deliver(at, messages, 2)
    return not messages

"""Each code of AWS's refusals, once, at each call of a run that waits, of its answer, and of the hop after it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.faults import FINAL, FOR_MINUTES, STRANGERS
from flowguard.destinations import Queue
from flowguard.errors import FlowguardError
from flowguard.outcome import Outcome
from flowguard.protocol.run import Status
from flowguard.protocol.waiting import GivenAnswer
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.keyed import create_table
from flowguard.step import Step
from flowguard.worker.emitter import Emitter
from flowguard.worker.found_answer import FoundAnswer
from flowguard.worker.outside import OutsideAnswers
from tests.aws.engines import same_clients
from tests.waits import SCRIPT, START, WITHIN, AnyOf, Carts, Progress, WaitScene, wait_scene
from tests.worker.runtime.test_codes import PASSING
from tests.worker.test_outside import sent_at

pytestmark = pytest.mark.proof("carries a run out for each call and code")

KEPT: Final = FoundAnswer(Carts, "paid", GivenAnswer("7"), timedelta(hours=1))
CALLS: Final = 16
"""That the library makes where nothing is refused, at least."""

CODES: Final = sorted({*PASSING, *FINAL, *FOR_MINUTES, *STRANGERS})


def waits(step: Step[Progress]) -> Outcome:
    step.once("rate", lambda: 3)
    with step.apply("reserved"):
        step.put("stock", {"id": step.object_id})
    step.update("totals", {"day": "monday"}, "ADD begun :one", values={":one": 1})
    return AnyOf.when_any(a=step.event("paid", keep_early=True), b=step.ask(Queue("asked"), {"id": 1}), within=WITHIN)


class Refusing:
    """Refuses one call, by its number, with one code."""

    def __init__(self, number: int, code: str) -> None:
        self._left = number
        self._code = code
        self.at = ""

    @property
    def has_refused(self) -> bool:
        return bool(self.at)

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self._left -= is_asked(call)
        if self._left != 0 or not is_asked(call):
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


def repeated(at: WaitScene, deliver: Callable[[], bool]) -> None:
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


def ended(at: WaitScene) -> tuple[Status, list[int | None], int]:
    """How the run stands, what its last stage got, and how often its effect was applied."""
    found: Any = at.aws.client("dynamodb").scan(TableName="totals")["Items"]
    return at.item().status, [payload.a for _, payload in SCRIPT.got], sum(int(one["begun"]["N"]) for one in found)


@pytest.mark.parametrize("code", CODES)
def test_a_code_that_comes_once_ends_no_run_and_one_that_is_final_ends_it_with_a_letter(code: str) -> None:
    for number in range(1, CALLS + 1):
        with wait_scene() as at:
            with intercept(refusing := Refusing(number, code)):
                carried_out(at)
            assert refusing.has_refused, number
            if ended(at) == (Status.COMPLETED, [7], 1):
                continue
            assert code in FINAL | FOR_MINUTES, (number, refusing.at, ended(at))
            assert at.letters(), (number, refusing.at, ended(at))


def settled(at: WaitScene) -> bool:
    settling = OutsideAnswers(at.services, Emitter(at.services.observer))
    _, ending = settling.settle(KEPT, sent_at("m-1", START, receives=2), queued=True)
    return ending.ack

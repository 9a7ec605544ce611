"""Functions that are killed, as processes: SQS gives up, the run ends FAILED, and a redrive completes it."""

from __future__ import annotations

import ctypes
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step, dlq_handler, lambda_handler
from flowguard.protocol.run import RunItem, Status
from tests.engines.polling import comes_true
from tests.proofs.soak.ground import Ground
from tests.proofs.soak.mapping import Mapping
from tests.proofs.soak.workers import Workers, workers_on

MIB = 1 << 20


class Work(Stage[dict[str, Any]], name="work"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        _allocate(payload.get("mib", 0) * MIB)
        if payload.get("hang") and signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
            signal.pause()
        step.update("doomed-effects", {"id": step.object_id}, "ADD applied :one", values={":one": 1})
        return Done({"worked": True})


class Doomed(Flow, name="doomed", object_id="id", dead_letters="doomed-dead"):
    stages = (Work,)


def _allocate(size: int) -> None:
    """As native code does that does not look at what it got: a process at its limit does not survive it."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    libc.free.argtypes = (ctypes.c_void_p,)
    memory = libc.malloc(size)
    ctypes.memset(memory, 0, size)
    libc.free(memory)


def move(ground: Ground) -> None:
    """What the console does."""
    ground.clients.sqs.start_message_move_task(SourceArn=ground.arn("doomed-dead"), DestinationArn=ground.arn("doomed"))


def copy(ground: Ground) -> None:
    """What AWS documents of a move: the same body and attributes under a new message id."""
    [letter] = ground.take("doomed-dead")
    ground.clients.sqs.send_message(
        QueueUrl=ground.url("doomed"), MessageBody=letter["Body"], MessageAttributes=letter["MessageAttributes"]
    )


@pytest.fixture
def doomed(ground: Ground) -> Ground:
    ground.create_tables("doomed-effects")
    ground.create_queue("doomed-told")
    ground.create_queue("doomed-dead")
    ground.create_queue("doomed-given-up", visibility=2, given_up_to="doomed-dead", max_receives=10)
    ground.create_queue("doomed", visibility=2, given_up_to="doomed-given-up", max_receives=2)
    return ground


@pytest.mark.parametrize(
    ("death", "cause", "payload", "redrive"),
    [
        pytest.param(("--kill", "1", "--point", "before-commit"), signal.SIGKILL, {}, move, id="killed"),
        pytest.param(("--memory", "700"), signal.SIGSEGV, {"mib": 600}, copy, id="out-of-memory"),
        pytest.param(("--timeout", "1"), signal.SIGKILL, {"hang": True}, copy, id="time-out"),
    ],
)
def test_a_function_killed_at_each_delivery_ends_as_one_dead_letter_which_a_redrive_completes(
    doomed: Ground,
    tmp_path: Path,
    death: tuple[str, ...],
    cause: signal.Signals,
    payload: dict[str, Any],
    redrive: Callable[[Ground], None],
) -> None:
    doomed.client.start(Doomed, {"id": "d1", **payload}, request_id="request-d1", reply_to="doomed-told")
    with workers_on(doomed, tmp_path / "journal") as workers:
        workers.start("doomed", "tests.on_engines.test_killed:Doomed", "doomed", "--timeout", "1.5", *death)
        assert comes_true(lambda: given_up(doomed, workers), seconds=30)
    assert workers.deaths[:2] == [cause, cause]

    ender = dlq_handler(Doomed).using(doomed.services())
    assert comes_true(lambda: serve(doomed, "doomed-given-up", ender) == 1)
    assert (run(doomed).status, doomed.rows("doomed-effects")) == (Status.FAILED, {})
    assert doomed.waiting("doomed-dead") == 1
    assert told(doomed) == ["FAILED"]

    redrive(doomed)
    healthy = lambda_handler(Doomed).using(doomed.services())
    assert comes_true(lambda: serve(doomed, "doomed", healthy) == 1)
    assert run(doomed).status is Status.COMPLETED
    assert doomed.rows("doomed-effects")["d1"]["applied"] == 1
    assert told(doomed) == ["COMPLETED"]
    assert [doomed.waiting(queue) for queue in ("doomed", "doomed-given-up", "doomed-dead")] == [0, 0, 0]


def given_up(ground: Ground, workers: Workers) -> bool:
    workers.tend()
    return ground.waiting("doomed-given-up") == 1


def serve(ground: Ground, queue: str, function: Any) -> int:
    """One round; how many messages were settled."""
    before = ground.waiting(queue)
    Mapping(ground.clients.sqs, ground.url(queue), function).once()
    return before - ground.waiting(queue)


def run(ground: Ground) -> RunItem:
    found = ground.store().read("doomed", "d1")
    assert found is not None
    return found


def told(ground: Ground) -> list[str]:
    return [json.loads(message["Body"])["status"] for message in ground.take("doomed-told")]

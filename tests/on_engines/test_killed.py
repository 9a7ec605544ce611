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
from tests.proofs.soak.mapping import Mapping
from tests.proofs.soak.sandbox import Sandbox
from tests.proofs.soak.workers import Workers, workers_on

pytestmark = pytest.mark.proof("waits until SQS gives up")

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


def move(sandbox: Sandbox) -> None:
    """What the console does."""
    sandbox.clients.sqs.start_message_move_task(
        SourceArn=sandbox.arn("doomed-dead"), DestinationArn=sandbox.arn("doomed")
    )


def copy(sandbox: Sandbox) -> None:
    """What AWS documents of a move: the same body and attributes under a new message id."""
    [letter] = sandbox.take("doomed-dead")
    sandbox.clients.sqs.send_message(
        QueueUrl=sandbox.url("doomed"), MessageBody=letter["Body"], MessageAttributes=letter["MessageAttributes"]
    )


@pytest.fixture
def doomed(sandbox: Sandbox) -> Sandbox:
    sandbox.create_tables("doomed-effects")
    sandbox.create_queue("doomed-told")
    sandbox.create_queue("doomed-dead")
    sandbox.create_queue("doomed-dlq", visibility=2, dead_letters_to="doomed-dead", max_receives=10)
    sandbox.create_queue("doomed", visibility=2, dead_letters_to="doomed-dlq", max_receives=2)
    return sandbox


@pytest.mark.parametrize(
    ("death", "cause", "payload", "redrive"),
    [
        pytest.param(("--kill", "1", "--point", "before-commit"), signal.SIGKILL, {}, move, id="killed"),
        pytest.param(("--memory", "700"), signal.SIGSEGV, {"mib": 600}, copy, id="out-of-memory"),
        pytest.param(("--timeout", "1"), signal.SIGKILL, {"hang": True}, copy, id="time-out"),
    ],
)
def test_a_function_killed_at_each_delivery_ends_as_one_dead_letter_which_a_redrive_completes(
    doomed: Sandbox,
    tmp_path: Path,
    death: tuple[str, ...],
    cause: signal.Signals,
    payload: dict[str, Any],
    redrive: Callable[[Sandbox], None],
) -> None:
    doomed.client.start(Doomed, {"id": "d1", **payload}, request_id="request-d1", reply_to="doomed-told")
    with workers_on(doomed, tmp_path / "journal") as workers:
        workers.start("doomed", "tests.on_engines.test_killed:Doomed", "doomed", "--timeout", "1.5", *death)
        assert comes_true(lambda: is_dead_lettered(doomed, workers), seconds=30)
    assert workers.deaths[:2] == [cause, cause]

    ender = dlq_handler(Doomed).using(doomed.services())
    assert comes_true(lambda: serve(doomed, "doomed-dlq", ender) == 1)
    assert (run(doomed).status, doomed.rows("doomed-effects")) == (Status.FAILED, {})
    assert doomed.waiting("doomed-dead") == 1
    assert told(doomed) == ["FAILED"]

    redrive(doomed)
    healthy = lambda_handler(Doomed).using(doomed.services())
    assert comes_true(lambda: serve(doomed, "doomed", healthy) == 1)
    assert run(doomed).status is Status.COMPLETED
    assert doomed.rows("doomed-effects")["d1"]["applied"] == 1
    assert told(doomed) == ["COMPLETED"]
    assert [doomed.waiting(queue) for queue in ("doomed", "doomed-dlq", "doomed-dead")] == [0, 0, 0]


def is_dead_lettered(sandbox: Sandbox, workers: Workers) -> bool:
    workers.tend()
    return sandbox.waiting("doomed-dlq") == 1


def serve(sandbox: Sandbox, queue: str, function: Any) -> int:
    """One round; how many messages were settled."""
    before = sandbox.waiting(queue)
    Mapping(sandbox.clients.sqs, sandbox.url(queue), function).once()
    return before - sandbox.waiting(queue)


def run(sandbox: Sandbox) -> RunItem:
    found = sandbox.store().read("doomed", "d1")
    assert found is not None
    return found


def told(sandbox: Sandbox) -> list[str]:
    return [json.loads(message["Body"])["status"] for message in sandbox.take("doomed-told")]

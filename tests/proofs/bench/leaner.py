"""What the lean client costs, against botocore's default client: the same calls, answered by a process on this machine.

::

    lean      handler ─ claim ─ validate, handle ─ commit ─ answer      ┐ over connections to one server, in rounds
    boto3     the same, by botocore's client                            │ that take turns
    bare                claim                      commit               ┘
"""

from __future__ import annotations

import time
from typing import Any

from botocore.config import Config

from flowguard import Settings, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.aws.transport.credentials import Credentials
from flowguard.sim.calls import Recorder, intercept
from tests.aws.transport.clients import LeanClients
from tests.garbage import spared
from tests.proofs.bench.answering import RECORDS, answering
from tests.proofs.bench.batches import a_batch, of_powertools, powertools, repeated, taken
from tests.proofs.bench.cpu import MESSAGES, Work
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import Context, OneStage, a_cart, a_request
from tests.proofs.bench.stub import a_session

MARK = 0.35
MARK_OF_TEN = 0.15
ROUNDS = 100
_KEYS = Credentials("AKIAIOSFODNN7EXAMPLE", "a secret")
_REGION = "us-east-1"


def figures(rounds: int = ROUNDS) -> list[Figure]:
    note = "two UpdateItems, answered by a process on this machine"
    with answering() as url:
        lean, boto3 = LeanClients(_KEYS, _REGION, {"dynamodb": url}), Clients(a_session(), {"dynamodb": url})
        bare, ours, theirs, of_lean = _of_one(url, lean, boto3)
        ten, ten_bare = _of_ten(url, lean, boto3)
        one, again, calls, _ = _shares(rounds, ours, theirs, of_lean, bare)
        of_ten, _ = _shares(rounds, ten, ten_bare)
        return [
            Figure("CPU a message by the lean client", one, MARK, "×", note, 0.05),
            Figure("  of the same by boto3", again, None, "×"),
            Figure("  two bare calls by the lean client", calls, None, "×"),
            Figure("CPU of ten records by it, of 20 bare calls", of_ten, MARK_OF_TEN, "×", noise=0.05),
            *of_powertools(
                "  of Powertools' batch and idempotency",
                lambda: _shares(rounds, ten, powertools(_by_hand(url)))[0],
                MARK_OF_TEN,
                note="20 calls to the same process",
            ),
        ]


def _shares(rounds: int, *works: Work) -> list[float]:
    """The least CPU that each takes in rounds that take turns, as a share of the last one's.

    What the kernel does for a connection differs from round to round, so a median is of the machine's other work.
    """
    for work in works:
        work()
    with spared():
        spent = [[_spent(work, frames=3 * number % 100) for work in works] for number in range(rounds)]
    least = [min(column) for column in zip(*spent, strict=True)]
    return [one / least[-1] for one in least]


def _spent(work: Work, *, frames: int) -> float:
    """CPU in s, begun at another depth of the stack in each round, for the reason that ``starts.least`` gives."""
    if frames:
        return _spent(work, frames=frames - 1)
    begun = time.process_time()
    for _ in range(MESSAGES):
        work()
    return time.process_time() - begun


def _of_one(url: str, lean: Clients, boto3: Clients) -> tuple[Work, Work, Work, Work]:
    """The two bare calls of a message; the message by each client; and the two calls by the lean one."""
    event, _ = a_request(OneStage, a_cart(), request_id="6c8c7d52-20f5-4b1c", requested_at=int(time.time() * 1000))
    by_lean, by_boto3 = (_handling(clients, event) for clients in (lean, boto3))
    calls = _calls(by_boto3)
    return repeated(_by_hand(url), calls), by_lean, by_boto3, repeated(lean.dynamodb, calls)


def _of_ten(url: str, lean: Clients, boto3: Clients) -> tuple[Work, Work]:
    """Ten records that share their calls, and the 20 bare calls that they save."""
    event = a_batch(RECORDS)
    return _handling(lean, event, together=True), repeated(_by_hand(url), _calls(_handling(boto3, event)))


def _by_hand(url: str) -> Any:
    """A client as boto3 makes it by default."""
    return a_session().client("dynamodb", endpoint_url=url, config=Config())


def _handling(clients: Clients, event: dict[str, object], *, together: bool = False) -> Work:
    handler, context = lambda_handler(OneStage, together=together).using(aws_services(Settings(), clients)), Context()

    def handled() -> object:
        return handler(event, context)

    taken(handled())
    return handled


def _calls(work: Work) -> list[tuple[str, dict[str, object]]]:
    with intercept(Recorder()) as recorder:
        work()
    return [(call.operation, dict(call.params)) for call in recorder.calls]

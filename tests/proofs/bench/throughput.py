"""Messages a second of one worker process, on DynamoDB Local and ElasticMQ, against bare calls in the same batches.

::

    flowguard   receive ─ read, route ─ claim ─ validate, handle ─ commit ─ delete     ┐ the same queue, and for each
    bare        receive ─               claim                      commit ─ delete     ┘ batch the very DynamoDB calls

An event has 1, 10 or 100 records. SQS hands out ten at a time, so one of 100 is received and deleted in ten calls, as
with a batch window.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from flowguard import lambda_handler
from flowguard.names.ids import RequestId
from tests.engines.dynamodb_local import dynamodb_local
from tests.engines.elasticmq import elasticmq
from tests.engines.process import EngineMissing
from tests.proofs.bench.batches import now_ms, repeated
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import OneStage, a_cart
from tests.proofs.bench.stub import Answer, recorded
from tests.proofs.soak.mapping import Mapping, Record
from tests.proofs.soak.sandbox import Sandbox

SIZES: Final = (1, 10, 100)
RECORDS: Final = 400
GROWING: Final = (10, 100, 1_000, 10_000)
ROUNDS: Final = 5
OF_BARE: Final = 0.85
LINEAR: Final = 1.15
NOISE: Final = 0.10
_QUEUE: Final = "one-stage"
_ON: Final = "DynamoDB Local, ElasticMQ"

Calls = list[tuple[str, Answer]]


def figures(records: int = RECORDS, growing: Sequence[int] = GROWING, rounds: int = ROUNDS) -> list[Figure]:
    try:
        with dynamodb_local() as dynamodb, elasticmq() as sqs:
            return [*_of_bare(dynamodb, sqs, records, rounds), *_growth(dynamodb, sqs, growing)]
    except EngineMissing as missing:
        return [Figure("messages a second, of bare calls", None, OF_BARE, "×", str(missing))]


def _of_bare(dynamodb: str, sqs: str, records: int, rounds: int) -> list[Figure]:
    found = []
    for size in SIZES:
        pairs = [compared(Sandbox(dynamodb, sqs), Sandbox(dynamodb, sqs), records, size) for _ in range(rounds)]
        ratio = statistics.median(bare / ours for ours, bare in pairs)
        rate = records / statistics.median(ours for ours, _ in pairs)
        name = f"messages a second, events of {size}, of bare calls"
        found.append(Figure(name, ratio, OF_BARE, "×", f"{rate:,.0f} a second on {_ON}", NOISE, is_least=True))
    return found


def _growth(dynamodb: str, sqs: str, growing: Sequence[int]) -> list[Figure]:
    """Time a message, of the most messages against a tenth of them."""
    took = {count: _flowguard(Sandbox(dynamodb, sqs), count, 10)[0] for count in growing}
    *_, fewer, most = growing
    rates = ", ".join(f"{count:,}: {count / seconds:,.0f}" for count, seconds in took.items())
    ratio = (took[most] / most) / (took[fewer] / fewer)
    return [Figure(f"time of {most:,} messages, of {most // fewer} × {fewer:,}", ratio, LINEAR, "×", rates, NOISE)]


def compared(one: Sandbox, other: Sandbox, records: int, size: int) -> tuple[float, float]:
    """Seconds of flowguard for so many messages, and of the bare calls that it made for them on another table."""
    ours, calls = _flowguard(one, records, size)
    return ours, _bare(other, records, size, calls)


def _flowguard(sandbox: Sandbox, records: int, size: int) -> tuple[float, list[Calls]]:
    handler = lambda_handler(OneStage, together=True).using(sandbox.services(lambda event: None))
    calls: list[Calls] = []

    def handle(event: Any, context: Any) -> Any:
        with recorded(sandbox.clients.dynamodb) as made:
            answered = handler(event, context)
        calls.append(made)
        return answered

    return _seconds(sandbox, records, size, handle), calls


def _bare(sandbox: Sandbox, records: int, size: int, calls: list[Calls]) -> float:
    client = sandbox.session().client("dynamodb", endpoint_url=sandbox.dynamodb_url)
    batches = iter([repeated(client, made) for made in calls])

    def handle(event: Any, context: Any) -> Any:
        next(batches)()
        return {"batchItemFailures": []}

    return _seconds(sandbox, records, size, handle)


def _seconds(sandbox: Sandbox, records: int, size: int, function: Callable[[Any, Any], Any]) -> float:
    """From the first receipt to the last deletion. The queue is filled before."""
    sandbox.create_tables()
    url = sandbox.create_queue(_QUEUE, visibility=600)
    _fill(sandbox, url, records)
    mapping = Mapping(sandbox.clients.sqs, url, function, timeout=timedelta(minutes=5), batch=min(size, 10))
    begun, left = time.perf_counter(), records
    while left:
        batch = _gathered(mapping, min(size, left))
        settled = mapping.invoke(batch)
        for at in range(0, len(settled), 10):
            mapping.delete(settled[at : at + 10])
        left -= len(settled)
    return time.perf_counter() - begun


def _gathered(mapping: Mapping, size: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < size:
        found += mapping.receive()
    return found


def _fill(sandbox: Sandbox, url: str, records: int) -> None:
    for at in range(0, records, 10):
        entries: Any = [_entry(number) for number in range(at, min(at + 10, records))]
        sandbox.clients.sqs.send_message_batch(QueueUrl=url, Entries=entries)


def _entry(number: int) -> dict[str, Any]:
    cart = a_cart(cart_id=f"cart-{number}")
    message, _ = OneStage.request(cart, request_id=RequestId(f"request-{number}"), requested_at=now_ms())
    attributes = {name: attribute.to_sqs_api() for name, attribute in message.attributes().items()}
    return {"Id": str(number), "MessageBody": message.body, "MessageAttributes": attributes}

"""Messages a second of one worker process, on DynamoDB Local and ElasticMQ, against bare calls in the same batches.

::

    lean        receive ─ read, route ─ claim ─ validate, handle ─ commit ─ delete
    boto3       the same, its calls of DynamoDB made by botocore
    bare        receive ─               claim                      commit ─ delete     the very calls of DynamoDB
    apart       receive ─               claim, …                   commit, … ─ delete  two of them for each record

The sides take turns, event by event, and the median of each counts: the machine's other work is on all sides. An event
has 1, 10 or 100 records. SQS hands out ten at a time, so one of 100 is received and deleted in ten calls, as with a
batch window. Messages are received and deleted by botocore on all sides, as Lambda does that by itself.
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
from tests.proofs.bench.batches import now_ms
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import OneStage, a_cart
from tests.proofs.bench.stub import Answer
from tests.proofs.soak.mapping import Function, Mapping, Record
from tests.proofs.soak.sandbox import Sandbox

MARKS: Final = {1: 1.0, 10: 0.85, 100: 0.85}
"""What the lean client is held to, by the records of an event."""
OF_APART: Final = 1.3
EVENTS: Final = 60
GROWING: Final = (10, 100, 1_000, 10_000)
BY_BOTO3: Final = 0.85
LINEAR: Final = 1.15
NOISE: Final = 0.10
LEAN, BOTO3, BARE, APART = "lean", "boto3", "bare", "apart"
_ON: Final = "DynamoDB Local, ElasticMQ"
_CALLED: Final = ("batch_execute_statement", "update_item")

Call = tuple[str, Answer]


def figures(events: int = EVENTS, growing: Sequence[int] = GROWING) -> list[Figure]:
    try:
        with dynamodb_local() as dynamodb, elasticmq() as sqs:
            return [*_of_bare(dynamodb, sqs, events), *_growth(dynamodb, sqs, growing)]
    except EngineMissing as missing:
        return [Figure("messages a second, of bare calls", None, MARKS[1], "×", str(missing))]


def _of_bare(dynamodb: str, sqs: str, events: int) -> list[Figure]:
    rows = []
    for size, mark in MARKS.items():
        took = compared(dynamodb, sqs, events if size < 100 else events // 4, size)
        name, lean = f"messages a second, events of {size}, of bare calls", took[LEAN]
        note = f"{size / lean:,.0f} a second on {_ON}"
        rows.append(Figure(name, took[BARE] / lean, mark, "×", note, NOISE, is_least=True))
        if size > 1:
            apart = "two calls of DynamoDB for each record"
            rows.append(Figure("  of bare calls apart", took[APART] / lean, OF_APART, "×", apart, NOISE, is_least=True))
        rows.append(Figure("  by boto3", took[BARE] / took[BOTO3], BY_BOTO3, "×", "", NOISE, is_least=True))
    return rows


def _growth(dynamodb: str, sqs: str, growing: Sequence[int]) -> list[Figure]:
    """Time an event of ten among so many messages, in a run of the most and in one of a tenth of them."""
    took = {count: _worked_off(Sandbox(dynamodb, sqs, lean=True), count) for count in growing}
    *_, fewer, most = growing
    rates = ", ".join(f"{count:,}: {10 / seconds:,.0f}" for count, seconds in took.items())
    ratio = took[most] / took[fewer]
    return [Figure(f"time of {most:,} messages, of {most // fewer} × {fewer:,}", ratio, LINEAR, "×", rates, NOISE)]


def compared(dynamodb: str, sqs: str, events: int, size: int) -> dict[str, float]:
    """Return the seconds of an event by its side, each on a table of its own, with messages of one queue."""

    def sandbox(*, lean: bool = False) -> Sandbox:
        made = Sandbox(dynamodb, sqs, lean=lean)
        made.create_tables()
        return made

    (lean, calls), (boto3, _) = (_flowguard(sandbox(lean=is_lean)) for is_lean in (True, False))
    functions = {LEAN: lean, BOTO3: boto3, BARE: _bare(sandbox(), calls)}
    if size > 1:
        alone, calls = _flowguard(sandbox(), together=False)
        functions |= {"alone": alone, APART: _bare(sandbox(), calls)}
    return _medians(sandbox(), functions, events, size)


def _medians(feeding: Sandbox, functions: dict[str, Function], events: int, size: int) -> dict[str, float]:
    url = _filled(feeding, len(functions) * events * size)
    mappings = [_mapping(feeding, url, size, function) for function in functions.values()]
    times = [[_seconds(mapping, size) for mapping in mappings] for _ in range(events)]
    return dict(zip(functions, map(statistics.median, zip(*times, strict=True)), strict=True))


def _worked_off(sandbox: Sandbox, count: int) -> float:
    """Return the seconds of an event of ten, the median of those that so many messages take."""
    sandbox.create_tables()
    function, _ = _flowguard(sandbox)
    mapping = _mapping(sandbox, _filled(sandbox, count), 10, function)
    return statistics.median(_seconds(mapping, 10) for _ in range(count // 10))


def _flowguard(sandbox: Sandbox, *, together: bool = True) -> tuple[Function, list[list[Call]]]:
    """Return a function, and the calls of DynamoDB that it makes for each event."""
    calls: list[list[Call]] = []
    _note(sandbox.clients.dynamodb, calls)
    handler = lambda_handler(OneStage, together=together).using(sandbox.services(lambda event: None))

    def handle(event: Any, context: Any) -> Any:
        calls.append([])
        return handler(event, context)

    return handle, calls


def _note(client: Any, calls: list[list[Call]]) -> None:
    """Let the client note each call as it is made. A listener would have botocore make the calls of the lean client."""

    def noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(**parameters: Any) -> Any:
            calls[-1].append((name, parameters))
            return method(**parameters)

        return call

    for name in _CALLED:
        setattr(client, name, noting(name, getattr(client, name)))


def _bare(sandbox: Sandbox, calls: list[list[Call]]) -> Function:
    """Return a function that makes the calls that were noted last, by a client as boto3 makes it."""
    client = sandbox.session().client("dynamodb", endpoint_url=sandbox.dynamodb_url)

    def handle(event: Any, context: Any) -> Any:
        for name, parameters in calls[-1]:
            getattr(client, name)(**parameters)
        return {"batchItemFailures": []}

    return handle


def _mapping(sandbox: Sandbox, url: str, size: int, function: Function) -> Mapping:
    return Mapping(sandbox.clients.sqs, url, function, timeout=timedelta(minutes=5), batch=min(size, 10))


def _seconds(mapping: Mapping, size: int) -> float:
    """Time an event, from the receipt of its messages to their deletion. The queue is filled before."""
    begun = time.perf_counter()
    settled = mapping.invoke(_gathered(mapping, size))
    for at in range(0, size, 10):
        mapping.delete(settled[at : at + 10])
    return time.perf_counter() - begun


def _gathered(mapping: Mapping, size: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < size:
        found += mapping.receive()
    return found


def _filled(sandbox: Sandbox, records: int) -> str:
    """Return the URL of a queue that has so many messages."""
    url = sandbox.create_queue("one-stage", visibility=3_600)
    for at in range(0, records, 10):
        entries: Any = [_entry(number) for number in range(at, min(at + 10, records))]
        sandbox.clients.sqs.send_message_batch(QueueUrl=url, Entries=entries)
    return url


def _entry(number: int) -> dict[str, Any]:
    cart = a_cart(cart_id=f"cart-{number}")
    message, _ = OneStage.request(cart, request_id=RequestId(f"request-{number}"), requested_at=now_ms())
    attributes = {name: attribute.to_sqs_api() for name, attribute in message.attributes().items()}
    return {"Id": str(number), "MessageBody": message.body, "MessageAttributes": attributes}

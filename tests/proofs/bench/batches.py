"""A batch of ten whose records share their calls: how many calls, what CPU, what time with a slow network.

::

    together    normalise, route ─ 10 claims ─ 10 × (validate, handle) ─ 10 commits ─ answer     ┐ on one botocore stub,
    alone       the same, each with two calls of its own                                         │ in rounds that take
    Powertools  10 × (PutItem ─ handle ─ UpdateItem) ─ answer                                    │ turns
    bare        20 UpdateItems                                                                   ┘
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from flowguard import LambdaHandler, Settings, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.flow import AnyFlow
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from tests.proofs.bench.answering import RECORDS, one_answer
from tests.proofs.bench.cpu import Work, ratio
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import Context, OneStage, Unleased, a_cart, a_request
from tests.proofs.bench.stub import Answer, a_session, answer, recorded

ROUNDS = 40
SLOW_MS = 10
OF_PEER = 0.3
_PEER = "  of Powertools' batch and idempotency"


def figures(rounds: int = ROUNDS) -> list[Figure]:
    together, alone, bare_calls, shared = batch_and_bare()
    slow = slow_times()
    return [
        *(Figure(f"DynamoDB calls, ten {said}", made, most) for said, made, most in calls_by_batch()),
        Figure("CPU of their calls, of 20 bare ones", ratio(shared, bare_calls, rounds=rounds, messages=1), 0.35, "×"),
        Figure("  with all that flowguard does", ratio(together, bare_calls, rounds=rounds, messages=1), None, "×"),
        Figure("  of ten records that go alone", ratio(alone, bare_calls, rounds=rounds, messages=1), None, "×"),
        *of_powertools(_PEER, lambda: cpu_of_powertools(together, rounds), OF_PEER),
        Figure("time of ten records, of one record's", slow["together"] / slow["one"], 2, "×", "10 ms a call"),
        Figure("  of ten records that go alone", slow["alone"] / slow["one"], None, "×"),
        *of_powertools(_PEER, lambda: slow["together"] / slow_powertools(), OF_PEER),
    ]


def of_powertools(
    name: str,
    measure: Callable[[], float],
    mark: float | None,
    noise: float = 0.05,
    least: Callable[[], float] | None = None,
    note: str = "20 calls on the same stub",
) -> list[Figure]:
    try:
        floor = None if least is None else least()
        return [Figure(name, measure(), mark, "×", note, noise, floor=floor)]
    except ImportError as missing:
        return [Figure(name, None, mark, "×", f"no {missing.name}")]


def a_batch(count: int, *, name: str = "cart", flow: AnyFlow = OneStage) -> dict[str, Any]:
    """An event of so many new requests, each for an object of its own."""
    found = []
    for number in range(count):
        cart = a_cart().model_copy(update={"cart_id": f"{name}-{number}"})
        event, _ = a_request(flow, cart, request_id=f"request-{name}-{number}", requested_at=now_ms())
        [record] = event["Records"]
        found.append({**record, "messageId": f"{record['messageId'][:-4]}{number:04}"})
    return {"Records": found}


def now_ms() -> int:
    return int(time.time() * 1000)


def calls_by_batch() -> list[tuple[str, int, int]]:
    with MemoryAWS() as aws:
        aws.create_table("flowguard")
        services = aws_services(Settings(), Clients())

        def calls(flow: AnyFlow) -> int:
            handler = lambda_handler(flow, together=True).using(services)
            with intercept(Recorder()) as recorder:
                taken(handler(a_batch(RECORDS, flow=flow), Context()))
            return recorder.count("dynamodb")

        return [
            ("records of new objects", calls(OneStage), 3),
            ("records that are repeated", calls(OneStage), 3),
            ("without a lease", calls(Unleased), 2),
            ("without a lease, again", calls(Unleased), 1),
        ]


def taken(answered: Any) -> None:
    if answered != {"batchItemFailures": []}:
        raise AssertionError("not all records were handled")


def batch_and_bare() -> tuple[Work, Work, Work, Work]:
    """Ten records together, and one by one; the twenty bare calls that they save; and the two that they make."""
    clients, by_hand = Clients(a_session()), a_session().client("dynamodb")

    for client in (clients.dynamodb, by_hand):
        answer(client, one_answer)
    services, event, context = aws_services(Settings(), clients), a_batch(RECORDS), Context()

    def together() -> object:
        return ours(event, context)

    def alone() -> object:
        return single(event, context)

    ours, single = (lambda_handler(OneStage, together=shared).using(services) for shared in (True, False))
    with recorded(clients.dynamodb) as shared_calls:
        taken(together())
    with recorded(clients.dynamodb) as single_calls:
        taken(alone())
    return together, alone, repeated(by_hand, single_calls), repeated(clients.dynamodb, shared_calls)


def repeated(client: Any, calls: list[tuple[str, Answer]]) -> Work:
    methods = {"UpdateItem": client.update_item, "BatchExecuteStatement": client.batch_execute_statement}

    def all_of_them() -> None:
        for name, params in calls:
            methods[name](**params)

    return all_of_them


def powertools(
    client: Any, send: Callable[[dict[str, Any]], None] = lambda cart: None, count: int = RECORDS
) -> Callable[[], object]:
    """So many records through Powertools' batch processor, each under its idempotency; its cache is off by default."""
    from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
    from aws_lambda_powertools.utilities.idempotency import (
        DynamoDBPersistenceLayer,
        IdempotencyConfig,
        idempotent_function,
    )

    store = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=client)
    config = IdempotencyConfig(event_key_jmespath="cart_id")

    guarded = idempotent_function(send, data_keyword_argument="cart", persistence_store=store, config=config)

    def handled(record: SQSRecord) -> None:
        guarded(cart=record.json_body)

    carts = [{**a_cart().model_dump(), "cart_id": f"cart-{number}"} for number in range(count)]
    records = [
        {**record, "body": json.dumps(cart)} for record, cart in zip(a_batch(count)["Records"], carts, strict=True)
    ]

    def batch() -> object:
        processor, context = BatchProcessor(event_type=EventType.SQS), Context()
        config.register_lambda_context(context)  # type: ignore[arg-type]  # it reads no more than this
        return process_partial_response(
            event={"Records": records},
            record_handler=handled,
            processor=processor,
            context=context,  # type: ignore[arg-type]  # as above
        )

    return batch


def cpu_of_powertools(together: Work, rounds: int) -> float:
    client = a_session().client("dynamodb")
    answer(client, one_answer)
    theirs = powertools(client)
    with recorded(client) as made:
        taken(theirs())
    if len(made) != 2 * RECORDS:
        raise AssertionError("each record takes a PutItem and an UpdateItem")
    return ratio(together, theirs, rounds=rounds, messages=1)


def slow_powertools(rounds: int = 9) -> float:
    """Seconds of ten records by Powertools, whose calls take 10 ms each."""
    client = a_session().client("dynamodb")
    answer(client, slowly)
    theirs = powertools(client)
    return statistics.median(seconds_of(theirs) for _ in range(rounds))


def slow_times(rounds: int = 9) -> dict[str, float]:
    """Seconds of an event whose calls take 10 ms each: of ten records together, of ten alone, of one."""
    clients = Clients(a_session())
    answer(clients.dynamodb, slowly)
    services = aws_services(Settings(), clients)
    ours, single = (lambda_handler(OneStage, together=shared).using(services) for shared in (True, False))
    events = {"together": (ours, a_batch(RECORDS)), "alone": (single, a_batch(RECORDS)), "one": (ours, a_batch(1))}
    return {name: statistics.median(spent(*work) for _ in range(rounds)) for name, work in events.items()}


def slowly(operation: str) -> Answer:
    time.sleep(SLOW_MS / 1000)
    return one_answer(operation)


def spent(handler: LambdaHandler, event: dict[str, Any]) -> float:
    return seconds_of(lambda: handler(event, Context()))


def seconds_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    taken(work())
    return time.perf_counter() - begun

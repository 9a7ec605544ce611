"""A batch of ten whose records share their calls: how many calls, what CPU, what time with a slow network.

::

    together    normalise, route ─ 10 claims ─ 10 × (validate, handle) ─ 10 commits ─ answer     ┐ on one botocore stub,
    alone       the same, each with two calls of its own                                         │ in rounds that take
    bare        20 UpdateItems                                                                   ┘ turns
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from flowguard import LambdaHandler, Settings, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from tests.proofs.bench.cpu import Work, ratio
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import Context, OneStage, a_cart, a_request
from tests.proofs.bench.stub import Answer, a_session, answer, recorded

RECORDS = 10
ROUNDS = 40
SLOW_MS = 10


def figures(rounds: int = ROUNDS) -> list[Figure]:
    together, alone, bare_calls, shared = batch_and_bare()
    slow = slow_times()
    return [
        *(Figure(f"DynamoDB calls, ten records {said}", made, most) for said, made, most in calls_by_batch()),
        Figure("CPU of their calls, of 20 bare ones", ratio(shared, bare_calls, rounds=rounds, messages=1), 0.35, "×"),
        Figure("  with all that flowguard does", ratio(together, bare_calls, rounds=rounds, messages=1), None, "×"),
        Figure("  of ten records that go alone", ratio(alone, bare_calls, rounds=rounds, messages=1), None, "×"),
        Figure("time of ten records, of one record's", slow["together"] / slow["one"], 2, "×", "10 ms a call"),
        Figure("  of ten records that go alone", slow["alone"] / slow["one"], None, "×"),
    ]


def a_batch(count: int, *, name: str = "cart") -> dict[str, Any]:
    """An event of so many new requests, each for an object of its own."""
    found = []
    for number in range(count):
        cart = a_cart().model_copy(update={"cart_id": f"{name}-{number}"})
        event, _ = a_request(OneStage, cart, request_id=f"request-{name}-{number}", requested_at=now_ms())
        [record] = event["Records"]
        found.append({**record, "messageId": f"{record['messageId'][:-4]}{number:04}"})
    return {"Records": found}


def now_ms() -> int:
    return int(time.time() * 1000)


def calls_by_batch() -> list[tuple[str, int, int]]:
    with MemoryAWS() as aws:
        aws.create_table("flowguard")
        handler = lambda_handler(OneStage, together=True).using(aws_services(Settings(), Clients()))

        def calls(name: str) -> int:
            with intercept(Recorder()) as recorder:
                taken(handler(a_batch(RECORDS, name=name), Context()))
            return recorder.count("dynamodb")

        return [("of new objects", calls("new"), 3), ("that are repeated", calls("new"), 3)]


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


def one_answer(operation: str) -> Answer:
    """No item was there, and the commits have nothing to answer."""
    return {"Responses": [{"TableName": "flowguard"}] * RECORDS} if operation == "BatchExecuteStatement" else {}


def repeated(client: Any, calls: list[tuple[str, Answer]]) -> Work:
    methods = {"UpdateItem": client.update_item, "BatchExecuteStatement": client.batch_execute_statement}

    def all_of_them() -> None:
        for name, params in calls:
            methods[name](**params)

    return all_of_them


def slow_times(rounds: int = 9) -> dict[str, float]:
    """Seconds of an event whose calls take 10 ms each: of ten records together, of ten alone, of one."""
    clients = Clients(a_session())

    def make(operation: str) -> Answer:
        time.sleep(SLOW_MS / 1000)
        return one_answer(operation)

    answer(clients.dynamodb, make)
    services = aws_services(Settings(), clients)
    ours, single = (lambda_handler(OneStage, together=shared).using(services) for shared in (True, False))
    events = {"together": (ours, a_batch(RECORDS)), "alone": (single, a_batch(RECORDS)), "one": (ours, a_batch(1))}
    return {name: statistics.median(spent(*work) for _ in range(rounds)) for name, work in events.items()}


def spent(handler: LambdaHandler, event: dict[str, Any]) -> float:
    begun = time.perf_counter()
    taken(handler(event, Context()))
    return time.perf_counter() - begun

"""CPU a message, against the two bare boto3 calls that it makes: the same parameters, the same answers.

Bare calls are made by a client as boto3 makes it by default, which is what a function by hand would have; and, to see
flowguard's own part, by flowguard's client, which leaves out botocore's check of parameters.

::

    flowguard   normalise, route ─ claim ─ validate, handle ─ commit ─ answer        ┐ on one botocore stub, in rounds
    bare                           claim                      commit                 ┘ that take turns
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

from botocore.config import Config

from flowguard import Settings, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from tests.garbage import spared
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import Context, OneStage, a_cart, a_request
from tests.proofs.bench.stub import Answer, a_session, answer, recorded

MARK = 1.10
ROUNDS = 200
MESSAGES = 10

Work = Callable[[], object]


def figures(rounds: int = ROUNDS) -> list[Figure]:
    message, by_hand, by_own_client = flowguard_and_bare()
    ours, own = ratio(message, by_hand, rounds=rounds), ratio(message, by_own_client, rounds=rounds)
    found = [
        Figure("CPU a message, of its bare calls", ours, MARK, "×", "two UpdateItems on one botocore stub"),
        Figure("  of the same, parameters unchecked", own, None, "×", "the same two by flowguard's own client"),
    ]
    once, anew = agents()
    agent = ratio(once, anew, rounds=rounds)
    found.append(Figure("  a bare call, user agent made once", agent, None, "×", "of one whose is made each time"))
    try:
        theirs = ratio(*powertools_and_bare(), rounds=rounds)
    except ImportError as missing:
        return [*found, Figure("  Powertools idempotency, of its own", None, None, "×", f"no {missing.name}")]
    note = "PutItem and UpdateItem on the same stub"
    return [*found, Figure("  Powertools idempotency, of its own", theirs, None, "×", note)]


def ratio(one: Work, other: Work, *, rounds: int, messages: int = MESSAGES) -> float:
    """How much more CPU ``one`` takes than ``other``: the median of short rounds next to each other.

    Rounds begin at different depths of the stack, for the reason that ``imports.least`` gives.
    """
    one(), other()
    found = []
    with spared():  # what the stub, the clients and the tests hold is not to be walked again and again
        for number in range(rounds):
            order = (one, other) if number % 2 else (other, one)
            spent = {work: _spent(work, messages, frames=3 * number % 100) for work in order}
            found.append(spent[one] / spent[other])
    return statistics.median(found)


def _spent(work: Work, times: int, *, frames: int) -> float:
    if frames:
        return _spent(work, times, frames=frames - 1)
    begun = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - begun


def flowguard_and_bare() -> tuple[Work, Work, Work]:
    """One message through a handler; and the calls that it made, by a default client and by its own."""
    clients, by_hand = Clients(a_session()), a_session().client("dynamodb")
    for client in (clients.dynamodb, by_hand):
        answer(client, lambda _: {})  # no item was there; the commit has nothing to answer
    handler = lambda_handler(OneStage).using(aws_services(Settings(), clients))
    event, _ = a_request(OneStage, a_cart(), request_id="6c8c7d52-20f5-4b1c", requested_at=int(time.time() * 1000))
    context = Context()

    def message() -> object:
        return handler(event, context)

    with recorded(clients.dynamodb) as calls:
        if message() != {"batchItemFailures": []}:
            raise AssertionError("the message was not handled")
    return message, bare(by_hand, calls), bare(clients.dynamodb, calls)


def bare(client: Any, calls: list[tuple[str, Answer]]) -> Work:
    """The recorded calls, made without anything round them."""
    methods = {"UpdateItem": client.update_item, "PutItem": client.put_item}
    (first, first_params), (second, second_params) = ((methods[name], params) for name, params in calls)

    def both() -> None:
        first(**first_params)
        second(**second_params)

    return both


def agents() -> tuple[Work, Work]:
    """One UpdateItem by a client with a text for a user agent, and by one that makes the text for each request."""
    clients = [a_session().client("dynamodb", config=config) for config in (Config(user_agent="bench"), Config())]
    for client in clients:
        answer(client, lambda _: {})
    params: Any = {
        "TableName": "flowguard",
        "Key": {"pk": {"S": "run#f#o"}, "sk": {"S": "run"}},
        "UpdateExpression": "SET retry = :retry",
        "ExpressionAttributeValues": {":retry": {"N": "1"}},
    }
    once, anew = (functools.partial(client.update_item, **params) for client in clients)
    return once, anew


def powertools_and_bare() -> tuple[Work, Work]:
    """The same for Powertools: its own calls are its baseline. Its payload is parsed already: it has no models here."""
    from aws_lambda_powertools.utilities.idempotency import (
        DynamoDBPersistenceLayer,
        IdempotencyConfig,
        idempotent_function,
    )

    client = Clients(a_session()).dynamodb
    answer(client, lambda _: {})
    store = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=client)
    config = IdempotencyConfig(event_key_jmespath="cart_id")
    config.register_lambda_context(Context())  # type: ignore[arg-type]  # it reads no more than this
    cart = a_cart().model_dump()

    def settle(cart: dict[str, Any]) -> None:
        return None

    guarded = idempotent_function(settle, data_keyword_argument="cart", persistence_store=store, config=config)

    def message() -> object:
        return guarded(cart=cart)

    with recorded(client) as calls:
        message()
    return message, bare(client, calls)

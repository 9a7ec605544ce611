"""What a call costs in calls and write units, beside the same by Powertools, measured on DynamoDB Local."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError

from flowguard import InProgress, once
from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.clock import Clock, SystemClock
from flowguard.events import Tally
from flowguard.key_table import KeyTable
from flowguard.names.ids import RandomIds
from flowguard.once_function import OnceServices
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.table_keys import create_table
from flowguard.testing import FlowClock, sqs_event
from flowguard.testing.context import FakeContext
from tests.aws.engines import on_dynamodb_local

EXPECTED = (ValueError, InProgress, IdempotencyAlreadyInProgressError)
FAILING, WORKING = {"order_id": "o-2", "fails": True}, {"order_id": "o-1"}


class Meter:
    """Counts calls and the units that DynamoDB says they took."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.units = 0.0

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        params: Any = call.params
        params["ReturnConsumedCapacity"] = "TOTAL"
        self.calls.append(call.operation)
        try:
            answer: Any = proceed()
        except Exception as error:
            self.units += 1  # a failed condition is charged like a write of its item; DynamoDB Local does not say it
            raise error
        self.units += answer["ConsumedCapacity"]["CapacityUnits"]
        return dict(answer)


class Sides(NamedTuple):
    """The same function guarded twice: it takes an order, or a record with one."""

    once: Callable[[dict[str, Any]], Any]
    of_a_batch: Callable[[dict[str, Any]], Any]
    powertools: Callable[[dict[str, Any]], Any]


MEANWHILE: list[Callable[[], object]] = []
"""What happens while the function is at work, once."""


def charge(order: dict[str, Any]) -> dict[str, Any]:
    if MEANWHILE:
        MEANWHILE.pop()()
    if order.get("fails"):
        raise ValueError
    return {"charged": order["order_id"]}


def charge_record(record: dict[str, Any]) -> dict[str, Any]:
    return charge(json.loads(record["body"]))


@pytest.fixture(scope="module")
def clients(dynamodb_local_url: str) -> Clients:
    found = on_dynamodb_local(dynamodb_local_url)
    create_table(found.dynamodb, "idempotency", "id")
    return found


@pytest.fixture(scope="module")
def sides(clients: Clients) -> Sides:
    return guarded(clients, SystemClock())


def guarded(clients: Clients, clock: Clock) -> Sides:
    services = OnceServices(ledger_of(Settings(), clients, KeyTable("idempotency")), clock, RandomIds(), Tally())
    context = FakeContext(clock=clock, timeout=timedelta(seconds=30))
    config = IdempotencyConfig(event_key_jmespath="order_id")
    config.register_lambda_context(context)  # type: ignore[arg-type]  # it reads no more than this
    store = DynamoDBPersistenceLayer("idempotency", boto3_client=clients.dynamodb)
    theirs: Any = idempotent_function(charge, data_keyword_argument="order", config=config, persistence_store=store)
    plain = once("plain", key="order_id")(charge).using(services).within(context)
    batch = once("batch", key="body.order_id")(charge_record).using(services)
    return Sides(
        plain,
        lambda order: batch.batch(sqs_event("orders", order), context),
        lambda order: theirs(order=order),
    )


def cost(call: Callable[[dict[str, Any]], Any], order: dict[str, Any]) -> tuple[list[str], float]:
    with intercept(Meter()) as meter, suppress(*EXPECTED), warnings.catch_warnings(action="ignore"):
        call(order)
    return meter.calls, meter.units


def test_each_costs_what_the_page_says(sides: Sides) -> None:
    new = {name: cost(side, WORKING) for name, side in sides._asdict().items()}
    assert new == {
        "once": (["UpdateItem", "UpdateItem"], 2),
        "of_a_batch": (["UpdateItem", "UpdateItem"], 2),
        "powertools": (["PutItem", "UpdateItem"], 2),
    }
    repeat = {name: cost(side, WORKING) for name, side in sides._asdict().items()}
    assert repeat == {
        "once": (["UpdateItem"], 1),
        "of_a_batch": (["UpdateItem"], 1),
        "powertools": (["PutItem"], 1),
    }
    failing = {name: cost(side, FAILING) for name, side in sides._asdict().items()}
    assert failing == {
        "once": (["UpdateItem", "UpdateItem"], 2),
        "of_a_batch": (["UpdateItem"], 1),
        "powertools": (["PutItem", "DeleteItem"], 2),
    }


def test_a_call_that_comes_while_another_is_at_work_costs_one_write(sides: Sides) -> None:
    found: dict[str, tuple[list[str], float]] = {}
    for name, side in sides._asdict().items():
        order = {"order_id": f"at-work-{name}"}

        def another(name: str = name, side: Any = side, order: Any = order) -> None:
            found[name] = cost(side, order)

        MEANWHILE.append(another)
        side(order)
    assert found == {
        "once": (["UpdateItem"], 1),
        "of_a_batch": (["UpdateItem"], 1),
        "powertools": (["PutItem"], 1),
    }


def test_a_call_whose_lease_was_over_costs_as_much_as_one_that_was_in_time(clients: Clients) -> None:
    """Both calls together: the slow one, and the faster one that takes its key over and finishes."""
    found = {}
    with FlowClock() as clock:
        for name in Sides._fields:
            order = {"order_id": f"late-{name}"}

            def faster(name: str = name, order: Any = order) -> None:
                clock.advance(seconds=31)
                getattr(guarded(clients, clock), name)(order)

            MEANWHILE.append(faster)
            found[name] = cost(getattr(guarded(clients, clock), name), order)
    assert found == {
        "once": (["UpdateItem"] * 4, 4),
        "of_a_batch": (["UpdateItem"] * 4, 4),
        "powertools": (["PutItem", "PutItem", "UpdateItem", "UpdateItem"], 4),
    }

"""What docs/start/from-powertools.md says of Powertools, shown with its own package beside @once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
)

from flowguard import KeyTable, once
from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.events import Tally
from flowguard.once_function import OnceServices
from flowguard.settings import Settings
from flowguard.sim.table_keys import create_table
from flowguard.testing import FlowClock, sqs_event
from flowguard.testing.context import FakeContext
from tests.aws.engines import on_memory

ORDER = {"order_id": "o-1"}
Act = Callable[[], Any]


@pytest.fixture
def clients() -> Iterator[Clients]:
    with on_memory() as found:
        create_table(found.dynamodb, "idempotency", "id")
        yield found


def by_powertools(clients: Clients, act: Act, clock: FlowClock) -> Act:
    """The function as another Lambda has it: with a store of its own, and 30 s left."""
    config = IdempotencyConfig(event_key_jmespath="order_id")
    store = DynamoDBPersistenceLayer("idempotency", boto3_client=clients.dynamodb)
    config.register_lambda_context(FakeContext(clock=clock))  # type: ignore[arg-type]  # it reads no more than this

    def work(order: dict[str, Any]) -> Any:
        return act()

    guarded: Any = idempotent_function(work, data_keyword_argument="order", config=config, persistence_store=store)
    return lambda: guarded(order=ORDER)


def by_once(clients: Clients, act: Act, clock: FlowClock) -> Act:
    def work(order: dict[str, Any]) -> Any:
        return act()

    services = OnceServices(ledger_of(Settings(), clients, KeyTable("idempotency")), clock=clock, observer=Tally())
    guarded = once("work", key="order_id")(work).using(services)
    return lambda: guarded.within(FakeContext(clock=clock))(ORDER)


Guard = Callable[[Clients, Act, FlowClock], Act]


def overtaken(guard: Guard, clients: Clients, clock: FlowClock, *, then: BaseException | None = None) -> list[str]:
    """What a call, one that overtakes it, and one after both return; the first lasts longer than its lease."""
    ran: list[str] = []

    def work(name: str, act: Act = lambda: None) -> Act:
        def run() -> str:
            ran.append(name)
            act()
            return name

        return guard(clients, run, clock)

    def slow() -> None:
        clock.advance(seconds=31)
        work("fast")()
        if then is not None:
            raise then

    with suppress(ValueError):
        work("slow", slow)()
    return [*ran, "then", work("third")()]


def test_a_late_call_of_powertools_overwrites_the_faster_one_and_one_of_once_does_not(clients: Clients) -> None:
    with FlowClock() as clock:
        assert overtaken(by_powertools, clients, clock) == ["slow", "fast", "then", "slow"]
        assert overtaken(by_once, clients, clock) == ["slow", "fast", "then", "fast"]


def test_a_late_failure_of_powertools_takes_the_faster_result_away_and_one_of_once_does_not(clients: Clients) -> None:
    with FlowClock() as clock:
        assert overtaken(by_powertools, clients, clock, then=ValueError())[2:] == ["then", "third"]
        assert overtaken(by_once, clients, clock, then=ValueError())[2:] == ["then", "fast"]


def test_without_a_context_a_record_of_powertools_has_no_end_before_it_expires(clients: Clients) -> None:
    store = DynamoDBPersistenceLayer("idempotency", boto3_client=clients.dynamodb)

    def work(order: dict[str, Any]) -> None:
        (item,) = clients.dynamodb.scan(TableName="idempotency")["Items"]
        assert "in_progress_expiration" not in item

    guarded: Any = idempotent_function(
        work, data_keyword_argument="order", config=IdempotencyConfig(event_key_jmespath="id"), persistence_store=store
    )
    with warnings.catch_warnings(action="ignore"):
        guarded(order={"id": 1})


def test_two_configurations_on_one_store_of_powertools_are_the_first(clients: Clients) -> None:
    store = DynamoDBPersistenceLayer("idempotency", boto3_client=clients.dynamodb)
    for path in ("a", "b"):
        config = IdempotencyConfig(event_key_jmespath=path)
        config.register_lambda_context(FakeContext())  # type: ignore[arg-type]  # it reads no more than this
        guarded: Any = idempotent_function(
            lambda order: order, data_keyword_argument="order", config=config, persistence_store=store
        )
        guarded(order={"a": 1, "b": path})
    assert store.event_key_jmespath == "a"


def test_a_decimal_of_powertools_is_another_value_on_a_repeat_and_one_of_once_is_itself(clients: Clients) -> None:
    value = {"amount": Decimal("1.10")}
    with FlowClock() as clock:
        theirs, ours = by_powertools(clients, lambda: value, clock), by_once(clients, lambda: value, clock)
        assert theirs() == value
        assert theirs() == {"amount": "1.10"}
        assert ours() == value == ours()


def test_a_date_of_powertools_leaves_its_record_in_progress_and_one_of_once_comes_back(clients: Clients) -> None:
    value = datetime(2026, 1, 1, tzinfo=UTC)
    with FlowClock() as clock:
        theirs, ours = by_powertools(clients, lambda: value, clock), by_once(clients, lambda: value, clock)
        with pytest.raises(IdempotencyPersistenceLayerError, match="not JSON serializable"):
            theirs()
        with pytest.raises(IdempotencyAlreadyInProgressError):
            theirs()
        assert ours() == value == ours()


def test_where_all_records_fail_powertools_raises_and_a_batch_of_once_names_them_all(clients: Clients) -> None:
    called: list[str] = []

    def fail(record: dict[str, Any]) -> None:
        called.append(record["messageId"])
        raise ValueError("no such parcel")

    event, clock = sqs_event("orders", {"order_id": "o-1"}, message_id="m-1"), FlowClock()
    context: Any = FakeContext(clock=clock)

    def by_record(record: SQSRecord) -> None:
        fail({"messageId": record.message_id})

    with pytest.raises(BatchProcessingError):
        process_partial_response(event, by_record, BatchProcessor(EventType.SQS), context)
    own = once("ship", key="body.order_id")(fail)
    services = OnceServices(ledger_of(Settings(), clients, KeyTable("idempotency")), clock=clock)
    assert own.using(services).batch(event, context) == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    assert called == ["m-1", "m-1"]


def test_its_defaults_are_those_of_our_key_table() -> None:
    store = DynamoDBPersistenceLayer("idempotency", boto3_client=object())  # type: ignore[arg-type]  # never called
    table = KeyTable("idempotency")
    assert (store.table_name, store.key_attr, store.sort_key_attr, store.expiry_attr) == tuple(table)
    assert timedelta(seconds=IdempotencyConfig().expires_after_seconds) == timedelta(hours=1)

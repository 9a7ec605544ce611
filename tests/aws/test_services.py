"""When clients are made: in Lambda while a function is initialised, elsewhere when they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard import callback_handler, dlq_handler, lambda_handler, once
from flowguard.aws import clients as made
from flowguard.aws.clients import Clients, NoRegion
from flowguard.aws.faults import PAUSES
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from tests.aws.store.run import claimed
from tests.scene import Script, orders

Orders = orders(Script())


@pytest.fixture(autouse=True)
def prepared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Clients]:
    """No client is made yet in this process."""
    found: dict[str, Clients] = {}
    monkeypatch.setattr(made, "_prepared", found)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME", raising=False)
    return found


MAKE: tuple[Callable[[], Any], ...] = (
    lambda: lambda_handler(Orders),
    lambda: dlq_handler(Orders),
    lambda: callback_handler(Orders),
)


@pytest.mark.parametrize("make", MAKE)
def test_in_lambda_the_clients_are_made_with_the_handler_and_once(
    make: Callable[[], Any], prepared: dict[str, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they are made in the init phase, and are in the snapshot of SnapStart."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    make()
    [clients] = prepared.values()
    assert {"dynamodb", "sqs"} <= vars(clients).keys()
    assert "sns" not in vars(clients), "not every function needs it"
    handler = make()
    assert [*prepared.values()] == [clients]
    store: Any = handler._services.store
    assert store._client is clients.dynamodb


@pytest.mark.parametrize("make", MAKE)
def test_elsewhere_a_handler_makes_no_client(make: Callable[[], Any], prepared: dict[str, Clients]) -> None:
    make()
    assert prepared == {}


def test_what_is_wrong_while_a_function_is_initialised_is_said_with_its_first_event(
    prepared: dict[str, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    handler = lambda_handler(Orders)
    assert prepared == {}
    with pytest.raises(NoRegion):
        handler({"Records": []})


def charge() -> Any:
    return once("charge", key="order_id")(lambda order: None)


def test_a_function_under_once_has_its_client_from_there_too(
    prepared: dict[str, Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    charge()
    assert prepared == {}
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    function = charge()
    [clients] = prepared.values()
    assert vars(clients).keys() >= {"dynamodb"}
    assert "sqs" not in vars(clients), "it calls no queue"
    assert function._guarded.services.ledger._client is clients.dynamodb
    lambda_handler(Orders)
    assert [*prepared.values()] == [clients]
    assert "sqs" in vars(clients)


def test_the_pause_that_is_handed_in_comes_before_each_further_try_of_the_store() -> None:
    pauses: list[float] = []
    conflicts = len(PAUSES)

    def conflicting(call: ApiCall, proceed: Proceed) -> Response:
        if len(pauses) < conflicts:
            raise ClientError({"Error": {"Code": "TransactionConflictException", "Message": "no"}}, call.operation)
        return proceed()

    with MemoryAWS(ManualClock()) as aws:
        aws.create_table("flowguard")
        store: Any = aws_services(Settings(), Clients(), pause=pauses.append).store
        with intercept(conflicting):
            assert claimed(store)
    assert pauses == list(PAUSES)

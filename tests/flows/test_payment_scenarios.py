"""TakePayment under the three things that go wrong with any consumer of a queue, and a gateway that keeps accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest

from flowguard.events import EventType
from flowguard.sim.calls import intercept
from flowguard.testing import FlowRunner
from flows.take_payment import flow
from flows.take_payment.flow import TakePayment
from flows.take_payment.gateway import Charge
from tests.flows.mishaps import Death, Meanwhile
from tests.flows.payments import balance
from tests.flows.samples import sample

REQUEST, COPY = "take_payment/01-request.json", "take_payment/02-copy.json"


class Accounts:
    """A gateway as it should be: a charge under a key that it knows gets the answer of the first one."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.charged: dict[str, Decimal] = {}
        self.while_charging: Callable[[], object] = lambda: None

    def charge(self, charge: Charge) -> str:
        self.asked[charge.key] += 1
        self.charged.setdefault(charge.key, charge.amount)
        meanwhile, self.while_charging = self.while_charging, lambda: None
        meanwhile()
        return f"auth-{charge.key}"


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> Accounts:
    found = Accounts()
    monkeypatch.setattr(flow, "gateway_for", lambda payment, attempt: found)
    return found


@pytest.fixture
def payments(flow_runner: FlowRunner, accounts: Accounts) -> FlowRunner:
    return flow_runner.serve(TakePayment)


def finished(payments: FlowRunner, accounts: Accounts, *, asked: int) -> None:
    """Run to the end: the gateway was asked so often, the card was charged once, and the payment is booked once."""
    result = payments.run()
    assert result.run("pay-3020").status == "COMPLETED"
    assert (balance(result), result.item("merchant-balances", merchant_id="tea-shop")) == (
        20,
        {"merchant_id": "tea-shop", "balance": 20, "payments": 1},
    )
    assert (accounts.asked.total(), list(accounts.charged.values())) == (asked, [Decimal("20.00")])


# -- scenario 1: two consumers at once --------------------------------------------------------------------------------


def test_a_second_consumer_comes_back_when_the_first_has_finished(payments: FlowRunner, accounts: Accounts) -> None:
    told: list[tuple[str | None, bool]] = []

    def second() -> None:
        [row] = payments.deliver(sample(COPY)).step().deliveries
        told.append((row.verdict, row.acked))

    accounts.while_charging = second
    first = payments.deliver(sample(REQUEST)).step()
    assert told == [("BUSY", False)]
    assert first.count(EventType.COMMITTED) == 1
    again = payments.run(within=timedelta(seconds=31))
    assert [row.verdict for row in again.deliveries if row.stage == "charge-card"] == ["DONE"]
    finished(payments, accounts, asked=1)


def test_a_first_consumer_that_was_held_up_until_the_second_took_over_books_nothing(
    payments: FlowRunner, accounts: Accounts
) -> None:
    with intercept(Meanwhile("TransactWriteItems", payments.run)):
        late = payments.deliver(sample(REQUEST)).step()
    assert late.count(EventType.FENCED) == 1
    finished(payments, accounts, asked=2)


# -- scenario 2: a crash after the claim ------------------------------------------------------------------------------


def test_a_claim_whose_consumer_died_holds_for_its_lease_and_no_longer(
    payments: FlowRunner, accounts: Accounts
) -> None:
    with intercept(Death("UpdateItem", made=True)):
        payments.deliver(sample(REQUEST)).step()
    assert payments.deliver(sample(COPY)).step().verdicts == ["BUSY"]
    assert accounts.asked.total() == 0
    result = payments.run(within=timedelta(seconds=30))
    assert [row.verdict for row in result.deliveries if row.stage == "charge-card"] == ["CLAIMED", "DONE"]
    finished(payments, accounts, asked=1)


# -- scenario 3: a crash after the business logic ---------------------------------------------------------------------


def test_a_consumer_that_died_before_its_commit_charges_again_under_the_same_key(
    payments: FlowRunner, accounts: Accounts
) -> None:
    with intercept(Death("TransactWriteItems", made=False)):
        died = payments.deliver(sample(REQUEST)).step()
    assert (accounts.asked.total(), died.item("payments", payment_id="pay-3020")) == (1, None)
    finished(payments, accounts, asked=2)
    assert len(accounts.charged) == 1


def test_a_consumer_that_died_after_its_commit_neither_charges_nor_books_again(
    payments: FlowRunner, accounts: Accounts
) -> None:
    with intercept(Death("TransactWriteItems", made=True)):
        payments.deliver(sample(REQUEST)).step()
    finished(payments, accounts, asked=1)


def test_the_next_stages_message_is_sent_by_whoever_comes_next(payments: FlowRunner, accounts: Accounts) -> None:
    """It is in the outbox, which the commit wrote."""
    with intercept(Death("SendMessageBatch", made=False)):
        died = payments.deliver(sample(REQUEST)).step()
    assert died.messages == ()
    finished(payments, accounts, asked=1)


def test_a_consumer_that_died_while_booking_books_once(payments: FlowRunner, accounts: Accounts) -> None:
    payments.deliver(sample(REQUEST)).step()
    for made in (False, True):
        with intercept(Death("TransactWriteItems", made=made)):
            payments.step()
    finished(payments, accounts, asked=1)

"""TakePayment: whatever the gateway does, a payment is booked once. What fails for good: test_payments_given_up."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from flowguard import Done, Outcome, Reject, Retry, Settings, Step
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.events import EventType, Tally
from flowguard.items.writes import Put, Update
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS, step_for
from flowguard.wire.message import Place
from flows.take_payment import gateway, handlers
from flows.take_payment.flow import CHARGING, BookPayment, ChargeCard, TakePayment
from flows.take_payment.gateway import Charge, GatewayDown, GatewayTimeout, RecordedGateway
from flows.take_payment.models import CardCharged, PaymentBooked, PaymentRequested, PaymentState
from tests.flows.mishaps import Copies, Death
from tests.flows.payments import REPLIES, balance, delays
from tests.flows.samples import sample


@pytest.fixture
def payments(flow_runner: FlowRunner) -> FlowRunner:
    return flow_runner.serve(TakePayment)


# -- a stage is a plain method ----------------------------------------------------------------------------------------


def requested(*script: str) -> PaymentRequested:
    return PaymentRequested(
        payment_id="p-1", merchant_id="m-1", card="tok-1", amount=Decimal("20.00"), gateway_script=script or ("ok",)
    )


def test_a_charge_is_kept_and_goes_on_to_be_booked() -> None:
    step = step_for(ChargeCard, object_id="p-1", request_id="r-1")
    assert ChargeCard().handle(requested(), step) == BookPayment.message(CardCharged(payment_id="p-1"))
    assert step.state == PaymentState(merchant_id="m-1", amount=Decimal("20.00"), authorization="auth-r-1")
    (write,) = step.writes
    assert isinstance(write, Put)
    assert (write.table, write.item["status"], write.item["attempt"]) == ("payments", "CHARGED", 1)


@pytest.mark.parametrize(("retry", "error"), [(0, GatewayDown), (1, GatewayTimeout)])
def test_a_gateway_that_fails_leaves_nothing(retry: int, error: type[Exception]) -> None:
    step = step_for(ChargeCard, retry=retry)
    with pytest.raises(error):
        ChargeCard().handle(requested("down", "timeout", "ok"), step)
    assert not step.writes


def test_at_the_third_attempt_the_recording_says_yes() -> None:
    step = step_for(ChargeCard, retry=2, request_id="r-1")
    ChargeCard().handle(requested("down", "timeout", "ok"), step)
    assert step.state.authorization == "auth-r-1"


def test_a_gateway_that_wants_a_pause_gets_it() -> None:
    with pytest.raises(Retry, match="asks for a pause") as raised:
        ChargeCard().handle(requested("limited:120"), step_for(ChargeCard))
    assert raised.value.after == timedelta(minutes=2)


def test_a_declined_card_is_not_tried_again() -> None:
    with pytest.raises(Reject, match="the card was declined: insufficient funds"):
        ChargeCard().handle(requested("declined"), step_for(ChargeCard))


def test_every_attempt_charges_under_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A charge that timed out may have gone through; asked again under its key, the gateway does not charge twice."""
    asked: list[Charge] = []

    class Noting(RecordedGateway):
        def charge(self, charge: Charge) -> str:
            asked.append(charge)
            return super().charge(charge)

    monkeypatch.setattr(gateway, "RecordedGateway", Noting)
    with pytest.raises(GatewayTimeout):
        ChargeCard().handle(requested("timeout", "ok"), step_for(ChargeCard, request_id="r-1"))
    ChargeCard().handle(requested("timeout", "ok"), step_for(ChargeCard, request_id="r-1", retry=1))
    assert asked == [Charge(key="r-1", card="tok-1", amount=Decimal("20.00"))] * 2


def test_booking_adds_to_the_balance_and_ends_the_run() -> None:
    state = PaymentState(merchant_id="m-1", amount=Decimal("20.00"), authorization="auth-1")
    step = step_for(BookPayment, state=state, hop=2)
    booked = PaymentBooked(payment_id="p-1", amount=Decimal("20.00"), authorization="auth-1")
    assert BookPayment().handle(CardCharged(payment_id="p-1"), step) == Done(booked)
    balance, payment = step.writes
    assert isinstance(balance, Update)
    assert isinstance(payment, Update)
    assert (balance.key, balance.change.values) == ({"merchant_id": "m-1"}, {":amount": Decimal("20.00"), ":one": 1})
    assert (payment.key, payment.change.values) == ({"payment_id": "p-1"}, {":booked": "BOOKED"})


@pytest.mark.parametrize("word", ["perhaps", "limited", "limited:soon", ""])
def test_a_recording_has_only_words_that_the_gateway_knows(word: str) -> None:
    with pytest.raises(ValidationError, match="gateway_script"):
        requested(word)


@pytest.mark.parametrize(
    ("error", "delays"),
    [
        (GatewayDown(), [30, 60, 120, 240, 300]),
        (GatewayTimeout(), [20, 20]),
        (ZeroDivisionError(), [8, 25, 82, 256]),  # 10, 30, 90 and 270 s, less the jitter that this seed draws
    ],
)
def test_the_policy_of_each_error(error: Exception, delays: list[int]) -> None:
    policy, draw = CHARGING.policy_for(error), random.Random(0)
    assert [policy.delay(retry, draw) for retry in range(1, policy.attempts)] == delays


# -- tried again ------------------------------------------------------------------------------------------------------


def test_a_flaky_gateway_is_asked_again_after_exact_delays_and_the_payment_is_booked_once(payments: FlowRunner) -> None:
    result = payments.deliver(sample("failures/01-flaky-gateway.json")).run()
    started = result.deliveries[0].at
    assert [one.at - started for one in result.deliveries] == [0, 30_000, 50_000, 50_020], "and then it is booked"
    assert delays(result) == [30, 20]
    payment = result.item("payments", payment_id="pay-3001")
    assert payment is not None
    assert (payment["status"], payment["attempt"]) == ("BOOKED", 3)
    assert balance(result) == 20
    assert result.dead_letters == ()
    assert [told.body["status"] for told in result.sent(REPLIES)] == ["COMPLETED"]
    assert [told.body["status"] for told in result.sent("payment-results")] == ["COMPLETED"]


def test_a_retry_is_the_same_request_with_its_first_error_beside_the_untouched_original(payments: FlowRunner) -> None:
    event = sample("failures/01-flaky-gateway.json")
    result = payments.deliver(event).run()
    first, second = (one for one in result.messages if one.to == "payments")
    assert [first.delay, second.delay] == [30, 20]
    for number, entry in enumerate((first, second), start=1):
        attributes = {name: attribute.value for name, attribute in entry.attributes.items()}
        assert (attributes["uniquerequestid"], attributes["requestedat"]) == ("pay-3001-request-1", "1767323100000")
        assert attributes["flowstage"] == "take-payment/charge-card"
        said = Place.parse(attributes["flowguard"])
        assert (said.hop, said.retry, said.redrive) == (1, number, 0)
        assert said.first_error is not None
        assert (said.first_error.type, said.first_error.text) == ("GatewayDown", "connection refused")
        assert entry.body["Message"] == event["Records"][0]["body"]


def test_a_pause_that_the_gateway_asks_for_is_the_delay(payments: FlowRunner) -> None:
    early = payments.deliver(sample("failures/02-rate-limited.json")).run(within=timedelta(seconds=119))
    assert (balance(early), delays(early)) == (None, [120])
    assert balance(payments.run(within=timedelta(seconds=1))) == 20


def test_copies_change_nothing_and_the_payment_is_booked_once(payments: FlowRunner) -> None:
    event = sample("failures/01-flaky-gateway.json")
    payments.deliver(event).run(within=timedelta(seconds=30))
    copy = payments.deliver(event).step()
    assert [one.acked for one in copy.deliveries] == [True]
    assert copy.count(EventType.DUPLICATE) == 1
    with intercept(Copies(3)):
        result = payments.run()
    assert balance(result) == 20
    assert len(result.deliveries) >= 6, "three of the last attempt, and three of the booking"
    assert result.count(EventType.COMMITTED, EventType.COMPLETED) == 2


def test_what_a_failed_attempt_recorded_is_not_applied(payments: FlowRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    booking, seen = BookPayment.handle, []

    def breaks_at_first(self: BookPayment, charged: CardCharged, step: Step[PaymentState]) -> Outcome:
        outcome = booking(self, charged, step)
        seen.append(len(step.writes))
        if step.attempt < 3:
            raise ConnectionError("the ledger is closed")
        return outcome

    monkeypatch.setattr(BookPayment, "handle", breaks_at_first)
    payments.deliver(sample("failures/02-rate-limited.json"))
    result = payments.run(within=timedelta(seconds=120))
    for _ in range(2):
        assert balance(result) is None
        result = payments.run(within=timedelta(seconds=15))
    assert seen == [2, 2, 2]
    assert balance(result) == 20


@pytest.mark.parametrize("made", [False, True])
def test_a_function_that_dies_at_its_commit_has_charged_and_booked_once(payments: FlowRunner, made: bool) -> None:
    event = sample("failures/02-rate-limited.json")
    event["Records"][0]["body"] = event["Records"][0]["body"].replace("limited:120", "ok")
    with intercept(Death("TransactWriteItems", made=made)):
        died = payments.deliver(event).step()
    assert [one.acked for one in died.deliveries] == [False]
    result = payments.run()
    assert result.deliveries[0].receive == 2
    assert balance(result) == 20
    assert result.run("pay-3002").status == "COMPLETED"


def test_while_a_payment_is_under_way_another_request_for_it_is_turned_away(payments: FlowRunner) -> None:
    event = sample("failures/01-flaky-gateway.json")
    payments.deliver(event).step()
    attributes = event["Records"][0]["messageAttributes"]
    attributes["uniquerequestid"]["stringValue"] = "pay-3001-request-2"
    attributes["requestedat"]["stringValue"] = str(int(attributes["requestedat"]["stringValue"]) + 1)
    assert payments.deliver(event).step().count(EventType.IGNORED) == 1
    result = payments.run()
    assert result.run("pay-3001").request_id == "pay-3001-request-1"
    assert balance(result) == 20


# -- in order ---------------------------------------------------------------------------------------------------------


class Hidden:
    """An interceptor: notes for how long each record is hidden. The samples' receipt handles are not the engine's."""

    def __init__(self) -> None:
        self.seconds: dict[str, int] = {}

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation != "ChangeMessageVisibility":
            return proceed()
        self.seconds[call.params["ReceiptHandle"]] = call.params["VisibilityTimeout"]
        return {}


def test_a_failed_record_of_a_fifo_queue_holds_up_its_group_and_no_other(
    payments: FlowRunner, flow_engine: MemoryAWS, flow_clock: FlowClock
) -> None:
    """The function itself gets the batch: the runner hands over a record at a time."""
    flow_engine.create_queue("payments.fifo", FifoQueue="true")
    tally = Tally()
    charge_card = handlers.charge_card.using(aws_services(Settings(), Clients(), clock=flow_clock, observer=tally))
    event = sample("failures/11-fifo-group.json")
    first, second, _ = event["Records"]
    with intercept(Hidden()) as hidden, intercept(Recorder()) as calls:
        answer = charge_card(event)
    assert answer == {
        "batchItemFailures": [{"itemIdentifier": first["messageId"]}, {"itemIdentifier": second["messageId"]}]
    }
    assert hidden.seconds == {first["receiptHandle"]: 30}
    assert sent_to("payments.fifo", calls) == [], "a copy would come after the second record"
    assert tally.count(EventType.RETURNED) == 1
    result = payments.run(within=timedelta(seconds=30))
    assert (balance(result, "tea-shop"), balance(result, "cup-shop")) == (None, 7.5)
    first["attributes"]["ApproximateReceiveCount"] = second["attributes"]["ApproximateReceiveCount"] = "2"
    assert charge_card({"Records": [first, second]}) == {"batchItemFailures": []}
    result = payments.run()
    assert balance(result, "tea-shop") == 25
    attempts = [result.item("payments", payment_id=f"pay-{number}") for number in (3011, 3012)]
    assert [payment and payment["attempt"] for payment in attempts] == [2, 1]


def sent_to(queue: str, calls: Recorder) -> list[Any]:
    """The entries of the batches that went to a queue."""
    sent = [call.params for call in calls.calls if call.operation == "SendMessageBatch"]
    return [entry for params in sent if params["QueueUrl"].endswith(f"/{queue}") for entry in params["Entries"]]

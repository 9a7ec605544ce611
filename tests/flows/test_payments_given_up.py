"""TakePayment: what fails for good is found where failures are looked for, and can be sent back from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flowguard.events import EventType
from flowguard.sim.calls import intercept
from flowguard.testing import FlowRunner, MemoryAWS, SentMessage
from flowguard.wire.message import Place
from flows.take_payment import flow
from flows.take_payment.flow import TakePayment
from flows.take_payment.gateway import Gateway, RecordedGateway
from flows.take_payment.models import PaymentRequested
from tests.flows.mishaps import Death
from tests.flows.payments import REPLIES, balance, delays
from tests.flows.samples import sample

DEAD = "take-payment-dead-letters"


@pytest.fixture
def payments(flow_runner: FlowRunner) -> FlowRunner:
    return flow_runner.serve(TakePayment)


@pytest.fixture
def repair(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the gateway answer every charge from now on."""

    def working(payment: PaymentRequested, attempt: int) -> Gateway:
        return RecordedGateway(("ok",), 1)

    return lambda: monkeypatch.setattr(flow, "gateway_for", working)


def place(letter: SentMessage) -> Place:
    return Place.parse(letter.attributes["flowguard"].value)


class DeadLetters:
    """The queue of dead letters, as somebody sees it who looks at it in the console."""

    def __init__(self, engine: MemoryAWS) -> None:
        self._sqs = engine.client("sqs")

    def take(self) -> Any:
        """The only letter that there is, taken out."""
        (letter,) = self._sqs.receive_message(QueueUrl=self._url(DEAD), MessageAttributeNames=["All"])["Messages"]
        self._sqs.delete_message(QueueUrl=self._url(DEAD), ReceiptHandle=letter["ReceiptHandle"])
        return letter

    def send_back(self, letter: Any) -> None:
        """A message with the body and the attributes of the letter, as the console's redrive makes it."""
        self._sqs.send_message(
            QueueUrl=self._url("payments"),
            MessageBody=letter["Body"],
            MessageAttributes=letter["MessageAttributes"],
        )

    def _url(self, queue: str) -> str:
        return self._sqs.get_queue_url(QueueName=queue)["QueueUrl"]


@pytest.fixture
def dead(flow_engine: MemoryAWS) -> DeadLetters:
    return DeadLetters(flow_engine)


# -- given up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "waits", "error", "text", "why"),
    [
        ("03-declined.json", [], "Reject", "the card was declined: insufficient funds", ""),
        ("04-attempts-used-up.json", [20, 20], "GatewayTimeout", "no answer within 2 s", "attempt 3 of 3"),
        ("05-given-up.json", [30, 60, 120, 240], "GatewayDown", "connection refused", "later than 0:10:00 after"),
        ("10-pause-too-long.json", [], "Retry", "the gateway asks for a pause", "its queue delays by at most 900"),
    ],
)
def test_what_can_not_work_ends_as_one_dead_letter_and_whoever_waits_is_told(
    payments: FlowRunner, name: str, waits: list[int], error: str, text: str, why: str
) -> None:
    event = sample(f"failures/{name}")
    (record,) = event["Records"]
    result = payments.deliver(event).run()
    assert all(one.acked for one in result.deliveries)
    assert delays(result) == waits
    (letter,) = result.dead_letters
    said = place(letter)
    assert said.first_error is not None
    assert said.first_error.type == error
    assert said.first_error.text.startswith(text)
    assert (said.redrive, said.retry, said.hop) == (1, 0, 1)
    for attribute in ("uniquerequestid", "flowstage"):
        assert letter.attributes[attribute].value == record["messageAttributes"][attribute]["stringValue"]
    assert letter.body["Message"] == record["body"]
    for queue in (REPLIES, "payment-results"):
        (told,) = result.sent(queue)
        assert told.body["status"] == "FAILED"
        assert told.body["error"].startswith(f"{error}: {text}")
        assert why in told.body["error"]
    assert result.run(json.loads(record["body"])["payment_id"]).status == "FAILED"
    assert balance(result) is None


def test_a_request_of_another_version_stays_with_its_queue_and_begins_no_run(payments: FlowRunner) -> None:
    result = payments.deliver(sample("failures/08-unknown-version.json")).run()
    (delivery,) = result.deliveries
    assert (delivery.acked, dict(delivery.events)) == (False, {EventType.UNROUTABLE: 1})
    assert "take-payment does not read version 9, only [1]" in str(delivery.why)
    assert (list(result.runs()), result.dead_letters) == ([], ())


def test_a_payload_that_names_no_payment_it_could_be_is_a_dead_letter_without_a_run(payments: FlowRunner) -> None:
    result = payments.deliver(sample("failures/06-bad-payload.json")).run()
    assert [one.acked for one in result.deliveries] == [True]
    (letter,) = result.dead_letters
    said = place(letter)
    assert said.first_error is not None
    assert said.first_error.text.startswith("the payload of charge-card is no PaymentRequested: amount:")
    assert "plenty" not in said.first_error.text, "payloads are not quoted"
    assert result.count(EventType.CLAIMED) == 0


def test_a_request_from_the_far_future_stays_with_its_queue(payments: FlowRunner) -> None:
    result = payments.deliver(sample("failures/09-from-the-future.json")).run()
    (delivery,) = result.deliveries
    assert (delivery.acked, dict(delivery.events)) == (False, {EventType.UNREADABLE: 1})
    assert "attributes.requestedat" in str(delivery.why)
    assert "is the sender's clock right?" in str(delivery.why)
    assert result.dead_letters == ()


def test_a_request_at_a_stage_that_the_flow_does_not_have_stays_with_its_queue_and_claims_nothing(
    payments: FlowRunner,
) -> None:
    result = payments.deliver(sample("failures/07-unknown-stage.json")).run()
    (delivery,) = result.deliveries
    assert (delivery.acked, dict(delivery.events)) == (False, {EventType.UNTRUSTED: 1})
    assert "attributes.flowstage" in str(delivery.why)
    assert "a first hop at 'refund-card', where no request enters take-payment" in str(delivery.why)
    assert result.dead_letters == ()


def test_what_sqs_gives_up_is_parked_and_whoever_waits_is_told(payments: FlowRunner) -> None:
    """Its function was killed each time, so nothing of flowguard's ran to the end."""
    with intercept(Death("TransactWriteItems", made=False, times=3)):
        result = payments.deliver(sample("failures/01-flaky-gateway.json")).run()
    assert [one.to_dlq for one in result.deliveries] == [False, False, False, False, True, False]
    (letter,) = result.dead_letters
    assert place(letter).redrive == 1
    run = result.run("pay-3001")
    assert (run.status, "the function was killed 3 times while it handled this message" in str(run.error)) == (
        "FAILED",
        True,
    )
    assert [told.body["status"] for told in result.sent(REPLIES)] == ["FAILED"]


# -- sent back --------------------------------------------------------------------------------------------------------


def test_a_dead_letter_sent_back_as_it_is_completes_the_payment(
    payments: FlowRunner, dead: DeadLetters, repair: Callable[[], None]
) -> None:
    payments.deliver(sample("failures/04-attempts-used-up.json")).run()
    repair()
    dead.send_back(dead.take())
    result = payments.run()
    run = result.run("pay-3004")
    assert (run.request_id, run.status) == ("pay-3004-request-1", "COMPLETED")
    assert balance(result) == 20
    assert [told.body["status"] for told in result.sent(REPLIES)] == ["COMPLETED"]


def test_a_dead_letter_sent_back_twice_books_once(
    payments: FlowRunner, dead: DeadLetters, repair: Callable[[], None]
) -> None:
    payments.deliver(sample("failures/03-declined.json")).run()
    letter = dead.take()
    repair()
    dead.send_back(letter)
    first = payments.run()
    dead.send_back(letter)
    second = payments.run()
    assert balance(second) == 20
    assert (first.count(EventType.DONE), second.count(EventType.DONE)) == (0, 1)


def test_a_dead_letter_sent_back_too_early_comes_again_with_the_next_number(
    payments: FlowRunner, dead: DeadLetters
) -> None:
    payments.deliver(sample("failures/03-declined.json"))
    for redrive in (1, 2, 3):
        (letter,) = payments.run().dead_letters
        assert place(letter).redrive == redrive
        dead.send_back(dead.take())


def test_a_redrive_of_what_a_newer_request_has_replaced_changes_nothing(
    payments: FlowRunner, dead: DeadLetters, repair: Callable[[], None]
) -> None:
    """The customer took another card meanwhile: the old payment must not be charged on top."""
    event = sample("failures/03-declined.json")
    payments.deliver(event).run()
    letter = dead.take()
    repair()
    attributes = event["Records"][0]["messageAttributes"]
    attributes["uniquerequestid"]["stringValue"] = "pay-3003-request-2"
    attributes["requestedat"]["stringValue"] = str(int(attributes["requestedat"]["stringValue"]) + 60_000)
    before = payments.deliver(event).run()
    dead.send_back(letter)
    after = payments.run()
    assert (after.ends, after.tables) == (before.ends, before.tables)
    assert after.count(EventType.STALE) == 1
    assert after.run("pay-3003").request_id == "pay-3003-request-2"
    assert balance(after) == 20

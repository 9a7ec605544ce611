"""TakePayment: whatever the gateway does, a payment is booked once, or it is found where failures are looked for."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from flowguard import Done, Outcome, Reject, Retry, Step
from flowguard.events import EventType
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.virtual import VirtualTime
from flowguard.testing import step_for
from flowguard.wire.message import Place
from flowguard.worker.runtime import LEASE_WITHOUT_LAMBDA
from flowguard.writes import Put, Update
from flows.take_payment import flow, gateway, handlers
from flows.take_payment.flow import CHARGING, QUEUES, TABLES, BookPayment, ChargeCard, TakePayment
from flows.take_payment.gateway import Charge, Gateway, GatewayDown, GatewayTimeout, RecordedGateway
from flows.take_payment.models import CardCharged, PaymentBooked, PaymentRequested, PaymentState
from tests.flows.world import NOW, SAMPLES, Death, Died, World

REPLIES = "shop-replies"
DEAD = "take-payment-dead-letters"
OK: dict[str, list[Any]] = {"batchItemFailures": []}


@dataclass
class Shop:
    """The flow's functions and queues, in a time that a test moves: SQS counts its delays by it."""

    world: World
    aws: EmbeddedAWS
    time: VirtualTime

    def wait(self, seconds: int) -> None:
        """Let so much time pass, then let the functions work off what is visible."""
        self.move(seconds)
        self.world.work()

    def move(self, seconds: int) -> None:
        self.world.clock.advance(seconds=seconds)
        self.time.move_to(self.world.clock.now())

    def send(self, queue: str, letter: Any) -> None:
        """A message with the body and the attributes of another one, as the console's redrive makes it."""
        self.aws.client("sqs").send_message(
            QueueUrl=self._url(queue), MessageBody=letter["Body"], MessageAttributes=letter["MessageAttributes"]
        )

    def take(self, queue: str) -> list[Any]:
        """What is visible in a queue, taken out of it."""
        sqs, found = self.aws.client("sqs"), []
        while more := sqs.receive_message(
            QueueUrl=self._url(queue), MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages"):
            found += more
            for one in more:
                sqs.delete_message(QueueUrl=self._url(queue), ReceiptHandle=one["ReceiptHandle"])
        return found

    def dead_letter(self) -> Any:
        """The only one there is."""
        (found,) = self.take(DEAD)
        return found

    def balance(self, merchant: str = "tea-shop") -> Decimal | None:
        found = self.world.item("merchant-balances", merchant)
        return None if found is None else found["balance"]

    def delays(self) -> list[int]:
        """What each retry waited for."""
        return [one.facts["delay"] for one in self.world.tally.events if one.type is EventType.RETRIED]

    def _url(self, queue: str) -> str:
        return self.aws.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]


@pytest.fixture
def shop() -> Iterator[Shop]:
    functions = {
        "payments": handlers.charge_card,
        "payments-to-book": handlers.book_payment,
        "payments-dlq": handlers.dead_letters,
    }
    with VirtualTime(NOW) as time, MemoryAWS(region="eu-west-1") as aws:
        yield Shop(World(aws, TakePayment, functions, tables=TABLES, queues=(*QUEUES, REPLIES)), aws, time)


@pytest.fixture
def repair(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the gateway answer every charge from now on."""

    def working(payment: PaymentRequested, attempt: int) -> Gateway:
        return RecordedGateway(("ok",), 1)

    return lambda: monkeypatch.setattr(flow, "gateway_for", working)


def sample(name: str) -> Any:
    return json.loads((SAMPLES / "failures" / name).read_text())


def place(letter: Any) -> Place:
    return Place.parse(letter["MessageAttributes"]["flowguard"]["StringValue"])


def sent_to(queue: str, calls: Recorder) -> list[Any]:
    """The entries of the batches that went to a queue."""
    sent = [call.params for call in calls.calls if call.operation == "SendMessageBatch"]
    return [entry for params in sent if params["QueueUrl"].endswith(f"/{queue}") for entry in params["Entries"]]


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


def test_a_flaky_gateway_is_asked_again_after_exact_delays_and_the_payment_is_booked_once(shop: Shop) -> None:
    assert shop.world.deliver("failures/01-flaky-gateway.json") == OK
    for seconds, attempts in [(29, 1), (1, 2), (19, 2), (1, 3)]:
        shop.wait(seconds)
        assert shop.world.count(EventType.RETRIED, EventType.COMMITTED) == attempts
    assert shop.delays() == [30, 20]
    payment = shop.world.item("payments", "pay-3001")
    assert payment is not None
    assert (payment["status"], payment["attempt"]) == ("BOOKED", 3)
    assert shop.balance() == Decimal("20.00")
    assert shop.take(DEAD) == []
    assert [told["status"] for told in shop.world.messages(REPLIES).values()] == ["COMPLETED"]
    assert [told["status"] for told in shop.world.messages("payment-results").values()] == ["COMPLETED"]


def test_a_retry_is_the_same_request_with_its_first_error_beside_the_untouched_original(shop: Shop) -> None:
    event = sample("01-flaky-gateway.json")
    with intercept(Recorder()) as calls:
        shop.world.enter(event)
        shop.wait(30)
        shop.wait(20)
    first, second = sent_to("payments", calls)
    assert [first["DelaySeconds"], second["DelaySeconds"]] == [30, 20]
    for number, entry in enumerate((first, second), start=1):
        attributes = {name: value["StringValue"] for name, value in entry["MessageAttributes"].items()}
        assert (attributes["uniquerequestid"], attributes["requestedat"]) == ("pay-3001-request-1", "1767323100000")
        assert attributes["flowstage"] == "take-payment/charge-card"
        said = Place.parse(attributes["flowguard"])
        assert (said.hop, said.retry, said.redrive) == (1, number, 0)
        assert said.first_error is not None
        assert (said.first_error.type, said.first_error.text) == ("GatewayDown", "connection refused")
        assert json.loads(entry["MessageBody"])["Message"] == event["Records"][0]["body"]


def test_a_pause_that_the_gateway_asks_for_is_the_delay(shop: Shop) -> None:
    shop.world.deliver("failures/02-rate-limited.json")
    shop.wait(119)
    assert shop.balance() is None
    shop.wait(1)
    assert shop.delays() == [120]
    assert shop.balance() == Decimal("20.00")


def test_copies_change_nothing_and_the_payment_is_booked_once(shop: Shop) -> None:
    shop.world.deliver("failures/01-flaky-gateway.json")
    shop.wait(30)
    assert shop.world.deliver("failures/01-flaky-gateway.json") == OK
    assert shop.world.count(EventType.DUPLICATE) == 1
    shop.move(20)
    shop.world.work(copies=3)
    assert shop.balance() == Decimal("20.00")
    assert shop.world.count(EventType.COMMITTED, EventType.COMPLETED) == 2


def test_what_a_failed_attempt_recorded_is_not_applied(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    booking, seen = BookPayment.handle, []

    def breaks_at_first(self: BookPayment, charged: CardCharged, step: Step[PaymentState]) -> Outcome:
        outcome = booking(self, charged, step)
        seen.append(len(step.writes))
        if step.attempt < 3:
            raise ConnectionError("the ledger is closed")
        return outcome

    monkeypatch.setattr(BookPayment, "handle", breaks_at_first)
    shop.world.deliver("failures/02-rate-limited.json")
    shop.wait(120)
    for _ in range(2):
        assert shop.balance() is None
        shop.wait(15)
    assert seen == [2, 2, 2]
    assert shop.balance() == Decimal("20.00")


@pytest.mark.parametrize("made", [False, True])
def test_a_function_that_dies_at_its_commit_has_charged_and_booked_once(shop: Shop, made: bool) -> None:
    event = sample("02-rate-limited.json")
    event["Records"][0]["body"] = event["Records"][0]["body"].replace("limited:120", "ok")
    with intercept(Death("TransactWriteItems", made=made)), pytest.raises(Died):
        shop.world.enter(event)
    shop.wait(int(LEASE_WITHOUT_LAMBDA.total_seconds()))
    assert shop.world.enter(event) == OK
    shop.world.work()
    assert shop.balance() == Decimal("20.00")
    assert shop.world.run("pay-3002").status is Status.COMPLETED


# -- given up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "waits", "error", "text", "why"),
    [
        ("03-declined.json", [], "Reject", "the card was declined: insufficient funds", ""),
        ("04-attempts-used-up.json", [20, 20], "GatewayTimeout", "no answer within 2 s", "attempt 3 of 3"),
        ("05-given-up.json", [30, 60, 120, 240], "GatewayDown", "connection refused", "later than 0:10:00 after"),
        ("08-unknown-version.json", [], "RunFailed", "take-payment does not read version 9, only [1]", ""),
        ("10-pause-too-long.json", [], "Retry", "the gateway asks for a pause", "its queue delays by at most 900"),
    ],
)
def test_what_can_not_work_ends_as_one_dead_letter_and_whoever_waits_is_told(
    shop: Shop, name: str, waits: list[int], error: str, text: str, why: str
) -> None:
    event = sample(name)
    (record,) = event["Records"]
    assert shop.world.enter(event) == OK
    for seconds in waits:
        shop.wait(seconds)
    shop.wait(900)
    assert shop.delays() == waits
    letter = shop.dead_letter()
    said = place(letter)
    assert said.first_error is not None
    assert said.first_error.type == error
    assert said.first_error.text.startswith(text)
    assert (said.redrive, said.retry, said.hop) == (1, 0, 1)
    attributes = {name: value["StringValue"] for name, value in letter["MessageAttributes"].items()}
    assert attributes["uniquerequestid"] == record["messageAttributes"]["uniquerequestid"]["stringValue"]
    assert attributes["flowstage"] == record["messageAttributes"]["flowstage"]["stringValue"]
    assert json.loads(letter["Body"])["Message"] == record["body"]
    for queue in (REPLIES, "payment-results"):
        (told,) = shop.world.messages(queue).values()
        assert told["status"] == "FAILED"
        assert told["error"].startswith(f"{error}: {text}")
        assert why in told["error"]
    assert shop.world.run(json.loads(record["body"])["payment_id"]).status is Status.FAILED
    assert shop.balance() is None


def test_a_payload_that_names_no_payment_it_could_be_is_a_dead_letter_without_a_run(shop: Shop) -> None:
    assert shop.world.deliver("failures/06-bad-payload.json") == OK
    said = place(shop.dead_letter())
    assert said.first_error is not None
    assert said.first_error.text.startswith("the payload of charge-card is no PaymentRequested: amount:")
    assert "plenty" not in said.first_error.text, "payloads are not quoted"
    assert shop.world.count(EventType.CLAIMED) == 0


def test_a_request_from_the_far_future_stays_with_its_queue(shop: Shop) -> None:
    (record,) = sample("09-from-the-future.json")["Records"]
    answer = shop.world.deliver("failures/09-from-the-future.json")
    assert answer == {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}
    (told,) = shop.world.tally.events
    assert told.type is EventType.UNREADABLE
    assert "attributes.requestedat" in told.facts["why"]
    assert "is the sender's clock right?" in told.facts["why"]
    assert shop.take(DEAD) == []


def test_a_request_at_a_stage_that_the_flow_does_not_have_stays_with_its_queue_and_claims_nothing(shop: Shop) -> None:
    (record,) = sample("07-unknown-stage.json")["Records"]
    answer = shop.world.deliver("failures/07-unknown-stage.json")
    assert answer == {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}
    (told,) = shop.world.tally.events
    assert (told.type, told.facts["field"]) == (EventType.UNTRUSTED, "attributes.flowstage")
    assert "a first hop at 'refund-card', where no request enters take-payment" in told.facts["why"]
    assert shop.take(DEAD) == []


def test_what_sqs_gives_up_is_parked_and_whoever_waits_is_told(shop: Shop) -> None:
    """Its function was killed each time, so nothing of flowguard's ran to the end."""
    event = sample("01-flaky-gateway.json")
    with intercept(Death("UpdateItem", made=True)), pytest.raises(Died):
        shop.world.enter(event)
    shop.send("payments-dlq", as_sent(event["Records"][0]))
    shop.wait(int(LEASE_WITHOUT_LAMBDA.total_seconds()))
    said = place(shop.dead_letter())
    assert said.first_error is not None
    assert said.first_error.text.startswith("SQS gave the message up")
    assert shop.world.run("pay-3001").status is Status.FAILED
    assert [told["status"] for told in shop.world.messages(REPLIES).values()] == ["FAILED"]


def as_sent(record: Any) -> Any:
    """A record in the words of SendMessage."""
    attributes = {
        name: {"DataType": value["dataType"], "StringValue": value["stringValue"]}
        for name, value in record["messageAttributes"].items()
    }
    return {"Body": record["body"], "MessageAttributes": attributes}


# -- sent back --------------------------------------------------------------------------------------------------------


def test_a_dead_letter_sent_back_as_it_is_completes_the_payment(shop: Shop, repair: Callable[[], None]) -> None:
    shop.world.deliver("failures/04-attempts-used-up.json")
    shop.wait(20)
    shop.wait(20)
    letter = shop.dead_letter()
    shop.world.messages(REPLIES)
    repair()
    shop.send("payments", letter)
    shop.wait(0)
    run = shop.world.run("pay-3004")
    assert (run.request_id, run.status) == ("pay-3004-request-1", Status.COMPLETED)
    assert shop.balance() == Decimal("20.00")
    assert [told["status"] for told in shop.world.messages(REPLIES).values()] == ["COMPLETED"]


def test_a_dead_letter_sent_back_twice_books_once(shop: Shop, repair: Callable[[], None]) -> None:
    shop.world.deliver("failures/03-declined.json")
    letter = shop.dead_letter()
    repair()
    for _ in range(2):
        shop.send("payments", letter)
        shop.wait(0)
    assert shop.balance() == Decimal("20.00")
    assert shop.world.count(EventType.DONE) == 1


def test_a_dead_letter_sent_back_too_early_comes_again_with_the_next_number(shop: Shop) -> None:
    shop.world.deliver("failures/03-declined.json")
    for redrive in (1, 2, 3):
        letter = shop.dead_letter()
        assert place(letter).redrive == redrive
        shop.send("payments", letter)
        shop.wait(0)


def test_a_redrive_of_what_a_newer_request_has_replaced_changes_nothing(shop: Shop, repair: Callable[[], None]) -> None:
    """The customer took another card meanwhile: the old payment must not be charged on top."""
    event = sample("03-declined.json")
    shop.world.enter(event)
    letter = shop.dead_letter()
    repair()
    attributes = event["Records"][0]["messageAttributes"]
    attributes["uniquerequestid"]["stringValue"] = "pay-3003-request-2"
    attributes["requestedat"]["stringValue"] = str(int(attributes["requestedat"]["stringValue"]) + 60_000)
    shop.world.enter(event)
    shop.world.work()
    before = shop.world.run("pay-3003"), shop.world.item("payments", "pay-3003"), shop.balance()
    shop.send("payments", letter)
    shop.wait(0)
    assert (shop.world.run("pay-3003"), shop.world.item("payments", "pay-3003"), shop.balance()) == before
    assert shop.world.count(EventType.STALE) == 1
    assert before[0].request_id == "pay-3003-request-2"
    assert shop.balance() == Decimal("20.00")


def test_while_a_payment_is_under_way_another_request_for_it_is_turned_away(shop: Shop) -> None:
    event = sample("01-flaky-gateway.json")
    shop.world.enter(event)
    event["Records"][0]["messageAttributes"]["uniquerequestid"]["stringValue"] = "pay-3001-request-2"
    shop.world.enter(event)
    assert shop.world.count(EventType.IGNORED) == 1
    shop.wait(30)
    shop.wait(20)
    assert shop.world.run("pay-3001").request_id == "pay-3001-request-1"
    assert shop.balance() == Decimal("20.00")


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


def test_a_failed_record_of_a_fifo_queue_holds_up_its_group_and_no_other(shop: Shop) -> None:
    shop.aws.create_queue("payments.fifo", FifoQueue="true")
    event = sample("11-fifo-group.json")
    first, second, _ = event["Records"]
    with intercept(Hidden()) as hidden, intercept(Recorder()) as calls:
        answer = shop.world.enter(event)
    assert answer == {
        "batchItemFailures": [{"itemIdentifier": first["messageId"]}, {"itemIdentifier": second["messageId"]}]
    }
    assert hidden.seconds == {first["receiptHandle"]: 30}
    assert sent_to("payments.fifo", calls) == [], "a copy would come after the second record"
    assert shop.world.count(EventType.RETURNED) == 1
    shop.wait(30)
    assert (shop.balance("tea-shop"), shop.balance("cup-shop")) == (None, Decimal("7.50"))
    first["attributes"]["ApproximateReceiveCount"] = second["attributes"]["ApproximateReceiveCount"] = "2"
    assert shop.world.enter({"Records": [first, second]}) == OK
    shop.world.work()
    assert shop.balance("tea-shop") == Decimal("25.00")
    attempts = [shop.world.item("payments", f"pay-{number}") for number in (3011, 3012)]
    assert [payment and payment["attempt"] for payment in attempts] == [2, 1]

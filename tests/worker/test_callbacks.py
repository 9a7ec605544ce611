"""Answers from outside, as their senders meet them: over HTTP, through queues and topics, and by a call."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pydantic import BaseModel

from flowguard import (
    AnswerVerdict,
    Callback,
    Done,
    Failed,
    Flow,
    FlowClient,
    Outcome,
    Settings,
    Stage,
    Step,
    callback_handler,
    lambda_handler,
)
from flowguard.aws.services import aws_services
from flowguard.callback_function import CallbackHandler
from flowguard.client import Started
from flowguard.clock import ManualClock
from flowguard.dev.saved_state import seconds_now, travelling
from flowguard.errors import KeyUnavailable, RunFailed, SendFailed, SettingsError, TokenRefused
from flowguard.events import EventType, Tally, log
from flowguard.handler import LambdaHandler
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem
from flowguard.protocol.waiting import GivenAnswer
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.testing import sns_to_sqs_event, sqs_event
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.tokens import NO_TOKENS, token_awaited_id, token_row_id
from flowguard.worker.callbacks import Callbacks
from flowguard.worker.ending import Ending
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.external_answers import COPY_AFTER, ExternalAnswers, read_outside
from flowguard.worker.ports import Refusal, Services
from flowguard.worker.record_sources import NamedQueues
from tests.aws.engines import empty

TOPIC = "arn:aws:sns:us-east-1:123456789012:parcels"


class Order(BaseModel):
    order_id: str


class Decision(BaseModel):
    answer: str


class Paid(BaseModel):
    amount: int


class Answers(BaseModel):
    decision: Decision
    paid: Paid
    parcel: dict[str, Any] | Failed


class AskAll(Stage[Order], name="ask-all", then=("go-on", "too-late")):
    def handle(self, order: Order, step: Step) -> Outcome:
        token = step.token("decision", valid=timedelta(days=3))
        step.send("mails", {"token": token.text})
        return GoOn.when_all(
            decision=token,
            paid=step.event(f"payment/{order.order_id}", keep_early=True),
            parcel=step.ask("carriers", {"ref": step.answer_id("parcel")}),
            within=timedelta(days=2),
            on_timeout="too-late",
        )


class GoOn(Stage[Answers], name="go-on"):
    def handle(self, answers: Answers, step: Step) -> Outcome:
        return Done(answers)


class TooLate(Stage[dict[str, Any]], name="too-late"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done("too late")


class Buying(
    Flow,
    name="buying",
    object_id="order_id",
    callbacks=(
        Callback("payments", id="order.id", prefix="payment/", keep_early=timedelta(hours=1)),
        Callback("parcels", id="ref", names=("parcel",), answer="parcel", failed="error"),
    ),
    trust_senders=True,
):
    stages = (AskAll, GoOn, TooLate)


class Shop:
    """The flow's functions on an AWS in memory, and what was sent."""

    def __init__(self, aws: Any) -> None:
        self.aws = aws
        aws.create_table("flowguard")
        for queue in ("buying", "mails", "carriers", "payments", "parcels", "buying-dead-letters"):
            aws.create_queue(queue)
        self.told = Tally()
        self.clock = ManualClock(1_767_225_600_000)
        settings = Settings(token_keys="k1:a-secret-of-the-tests-that-is-long-enough")  # type: ignore[arg-type]  # text
        self.services: Services = aws_services(settings, clock=self.clock, observer=self.told)
        self.stages: LambdaHandler = lambda_handler(Buying).using(self.services)
        self.answers: CallbackHandler = callback_handler(Buying).using(self.services)
        self.client = FlowClient.of(self.services)

    def received(self, queue: str) -> list[dict[str, Any]]:
        """Return what comes within the time after which the copy of an answer comes."""
        with travelling(seconds_now() + COPY_AFTER.total_seconds() + 1):
            return self._received(queue)

    def _received(self, queue: str) -> list[dict[str, Any]]:
        sqs = self.aws.client("sqs")
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        found: list[dict[str, Any]] = []
        while messages := sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        ).get("Messages"):
            for message in messages:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            found += messages
        return found

    def begin(self, order: str = "o1") -> tuple[str, str]:
        """Start a run. Return the token in its mail, and the id in what the carrier was asked."""
        self.client.start(Buying, Order(order_id=order))
        self.settle()
        [mail], [asked] = self.received("mails"), self.received("carriers")
        assert asked["MessageAttributes"]["uniquerequestid"]["StringValue"] == json.loads(asked["Body"])["ref"]
        return json.loads(mail["Body"])["token"], json.loads(asked["Body"])["ref"]

    def settle(self) -> None:
        while messages := self.received("buying"):
            assert self.stages({"Messages": messages}) == {"batchItemFailures": []}

    def run(self, order: str = "o1") -> RunItem:
        found: Any = self.services.store
        item: RunItem = found.read("buying", ObjectId(order))
        return item

    def post(self, token: str, body: object, query: str = "") -> tuple[int, dict[str, Any]]:
        answer = self.answers(url_event(token, body, query))
        return answer["statusCode"], json.loads(answer["body"])


def url_event(token: str, body: object, query: str = "", method: str = "POST") -> dict[str, Any]:
    return {
        "version": "2.0",
        "rawPath": f"/answers/{token}",
        "rawQueryString": query,
        "headers": {"content-type": "application/json"},
        "requestContext": {"domainName": "x.lambda-url.eu-west-1.on.aws", "http": {"method": method}},
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


@pytest.fixture
def shop() -> Iterator[Shop]:
    with empty("memory") as aws:
        yield Shop(aws)


def test_a_run_goes_on_when_person_bank_and_carrier_have_answered(shop: Shop) -> None:
    token, ref = shop.begin()
    assert shop.run().status == "WAITING"
    assert shop.post(token, {"answer": "yes"}) == (200, {"verdict": "RECORDED", "detail": "Your answer is recorded."})
    assert shop.answers(sqs_event("payments", {"order": {"id": "o1"}, "amount": 5})) == {"batchItemFailures": []}
    assert shop.client.answer(Buying, ref, {"number": 9}) is AnswerVerdict.RESUMED
    shop.settle()
    item = shop.run()
    assert item.status == "COMPLETED"
    assert json.loads(item.result or "") == {
        "decision": {"answer": "yes"},
        "paid": {"amount": 5},
        "parcel": {"number": 9},
    }
    assert shop.post(token, {"answer": "no"})[1]["verdict"] == "DUPLICATE"
    assert shop.client.answer(Buying, ref, {"number": 9}) is AnswerVerdict.DUPLICATE


def test_a_token_that_is_used_before_its_wait_is_committed_is_early(shop: Shop) -> None:
    """Its sender tries again, and is heard then."""
    got: list[tuple[int, str]] = []

    class Call(Stage[Order], name="call", then=("decided", "too-late")):
        def handle(self, order: Order, step: Step) -> Outcome:
            token = step.token("decision")
            got.append(post(token.text))
            if len(got) == 1:
                raise ConnectionError("after the call")
            return Decided.when_all(decision=token, within=timedelta(days=2), on_timeout="too-late")

    class Decided(Stage[dict[str, Any]], name="decided"):
        def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
            return Done(answers)

    class Calling(Flow, name="calling", object_id="order_id", inbox="buying", trust_senders=True):
        stages = (Call, Decided, TooLate)

    def post(token: str) -> tuple[int, str]:
        tokens.append(token)
        answer = callback_handler(Calling).using(shop.services)(url_event(token, {"answer": "yes"}))
        return answer["statusCode"], json.loads(answer["body"])["verdict"]

    tokens: list[str] = []
    handler = lambda_handler(Calling).using(shop.services)
    handler(sqs_event("buying", {"order_id": "o1"}, attributes={"uniquerequestid": "r1"}))
    assert post(tokens[0]) == (503, "EARLY"), "between two attempts"
    handler({"Messages": shop.received("buying")})
    assert got == [(503, "EARLY")] * 2
    assert post(tokens[0]) == (200, "RESUMED")
    assert len({*tokens}) == 1
    shop.clock.advance(seconds=8 * 86_400)
    assert post(tokens[0])[1] in {"DUPLICATE", "EXPIRED"}


def test_an_answer_over_http_counts_once_and_a_copy_of_it_is_in_the_queue(shop: Shop) -> None:
    token, _ = shop.begin()
    assert [shop.post(token, {"answer": "yes"})[1]["verdict"] for _ in range(2)] == ["RECORDED", "DUPLICATE"]
    assert shop._received("buying") == [], "the run goes on first"
    assert len(shop.received("buying")) == 2
    assert shop.answers(url_event(token, {}, method="GET"))["statusCode"] == 200
    assert shop.run().wait is not None
    assert shop.run().wait.answered == {"decision"}  # type: ignore[union-attr]  # asked for above


def test_an_answer_may_count_although_its_sender_got_a_503(shop: Shop) -> None:
    """SQS had taken its copy before the table refused the write."""

    def throttled(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem":
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, call.operation)
        return proceed()

    token, _ = shop.begin()
    with intercept(throttled):
        assert shop.post(token, {"answer": "no"})[0] == 503
    shop.settle()
    status, told = shop.post(token, {"answer": "yes"})
    assert (status, told["verdict"]) == (200, "DUPLICATE")


def test_a_function_that_dies_after_it_has_queued_an_answer_has_lost_nothing(shop: Shop) -> None:
    token, ref = shop.begin()
    shop.client.answer(Buying, "payment/o1", {"amount": 1})
    shop.client.answer(Buying, ref, {})
    store: Any = shop.services.store

    class Dying:
        def __getattr__(self, name: str) -> Any:
            if name == "waits":
                return self
            if name == "codecs":
                return store.codecs
            return self.die if name == "settle" else getattr(store.waits, name)

        def die(self, *_: Any) -> None:
            raise ConnectionError("the function is killed")

    dying = callback_handler(Buying).using(shop.services._replace(store=Dying()))
    assert dying(url_event(token, {"answer": "yes"}))["statusCode"] == 503
    shop.settle()
    assert shop.run().status == "COMPLETED"


def test_an_answer_whose_copy_is_not_taken_is_not_settled(shop: Shop) -> None:
    token, ref = shop.begin()

    class Full:
        def send(self, sends: Any) -> Any:
            return {place: Refusal("the queue is full") for place, _ in enumerate(sends)}

    services = shop.services._replace(sender=Full())
    assert callback_handler(Buying).using(services)(url_event(token, {"answer": "yes"}))["statusCode"] == 503
    with pytest.raises(SendFailed, match="the queue is full"):
        FlowClient.of(services).answer(Buying, ref, {})
    assert shop.run().wait.answered == frozenset()  # type: ignore[union-attr]  # it waits


def test_what_a_token_answers_is_answered_through_no_declared_callback(shop: Shop) -> None:
    shop.begin()
    row_id = token_row_id("buying", "o1", str(shop.run().request_id), shop.run().requested_at, 1, "decision")
    for ref in (row_id, token_awaited_id(row_id)):
        event = sqs_event("parcels", {"ref": ref, "parcel": {"answer": "yes"}})
        shop.answers(event)
    assert shop.run().wait.answered == frozenset()  # type: ignore[union-attr]  # it waits
    refused = shop.told.events[-1]
    assert refused.type is EventType.UNREADABLE
    assert "names the row of a token, which only the token answers" in refused.facts["why"]


def test_a_client_tells_the_observer_of_its_services_of_each_verdict(shop: Shop) -> None:
    shop.begin()
    before = len(shop.told.events)
    assert shop.client.answer(Buying, "payment/o1", {"amount": 3}) is AnswerVerdict.RECORDED
    assert shop.client.answer(Buying, "payment/o2", {"amount": 3}) is AnswerVerdict.UNKNOWN
    told = [one.facts["verdict"] for one in shop.told.events[before:] if one.type is EventType.ANSWERED]
    assert told == ["RECORDED", "UNKNOWN"]


def test_a_client_may_answer_one_run_of_those_that_wait_for_an_id(shop: Shop) -> None:
    shop.begin()
    item = shop.run()
    this = Started(item.request_id, item.requested_at, ObjectId("o1"))
    others = (
        replace(this, request_id=RequestId("another")),
        replace(this, requested_at=this.requested_at + 1),
        replace(this, object_id=ObjectId("o2")),
    )
    for other in others:
        assert shop.client.answer(Buying, "payment/o1", {"amount": 3}, only=other) is AnswerVerdict.UNKNOWN
        assert shop.client.fail(Buying, "payment/o1", "declined", only=other) is AnswerVerdict.UNKNOWN
    assert shop.client.answer(Buying, "payment/o1", {"amount": 3}, only=this) is AnswerVerdict.RECORDED
    assert shop.client.fail(Buying, "payment/o1", "declined", only=this) is AnswerVerdict.DUPLICATE


@pytest.mark.parametrize("awaited", ["row", "x" * 1_025, "\ud800", "a\x00b"])
def test_no_id_answers_for_a_token_nor_is_one_taken_that_nothing_can_await(shop: Shop, awaited: str) -> None:
    """The ids of a run are no secret, and its row can be told from them. The token is."""
    shop.begin()
    if awaited == "row":
        awaited = token_awaited_id(
            token_row_id("buying", "o1", str(shop.run().request_id), shop.run().requested_at, 1, "decision")
        )
    for call in (shop.client.answer, shop.client.fail):
        with pytest.raises(RunFailed, match="nothing can be answered by the id"):
            call(Buying, awaited, "yes")
    assert shop.run().wait.answered == frozenset()  # type: ignore[union-attr]  # it waits


def test_the_log_has_the_reason_that_the_sender_of_a_request_is_not_given(shop: Shop) -> None:
    token, _ = shop.begin()
    status, said = shop.post(f"k9{token[2:]}", {"answer": "yes"})
    assert (status, said["error"]) == (403, "TOKEN_UNKNOWN_KEY")
    keyless = shop.answers.using(shop.services._replace(tokens=NO_TOKENS))
    assert keyless(url_event(token, {"answer": "yes"}))["statusCode"] == 503
    refused, broken = shop.told.events[-2:]
    assert refused.type is EventType.REFUSED
    assert refused.facts["why"].startswith("TokenRefused: the token is refused: it names a key that is not known here")
    assert broken.type is EventType.BROKEN
    assert broken.facts["why"].startswith("SettingsError: FLOWGUARD_TOKEN_KEYS: is not set")
    assert token[3:] not in f"{refused} {broken}"


class Lines(logging.Handler):
    """The levels of what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.levels.append(record.levelno)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("flowguard")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_request_that_anybody_can_send_wakes_nobody_at_night(shop: Shop, lines: Lines) -> None:
    token, _ = shop.begin()
    shop.clock.advance(ms=3 * 24 * 3_600_000)
    forged = f"{token[:-2]}{'AA' if token[-2:] != 'AA' else 'BB'}"
    for one, status in ((forged, 403), ("wp-login.php", 400), (token, 200)):
        shop.told.events.clear()
        assert shop.post(one, {"answer": "yes"})[0] == status
        [told] = shop.told.events
        assert told.type is EventType.REFUSED
        assert told.facts.get("verdict") == ("EXPIRED" if one is token else None)
        lines.levels.clear()
        log(told)
        assert lines.levels == [logging.WARNING]


def test_what_the_awaiting_field_cannot_read_is_refused_before_anything_is_kept(shop: Shop) -> None:
    token, _ = shop.begin()
    status, said = shop.post(token, {"nope": 1})
    assert (status, said["error"]) == (422, "NOT_TAKEN")
    assert "decision.answer: Field required" in said["detail"]
    with pytest.raises(RunFailed, match=r"paid\.amount: Input should be a valid integer"):
        shop.client.answer(Buying, "payment/o1", {"amount": "a lot"})
    event = sqs_event("payments", {"order": {"id": "o1"}, "amount": "a lot"}, message_id="m-1")
    assert shop.answers(event) == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    assert "a lot" not in json.dumps([one.fields() for one in shop.told.events])
    assert shop.run().wait.answered == frozenset()  # type: ignore[union-attr]  # it waits


def test_a_failure_is_said_by_the_declared_field_or_by_the_query(shop: Shop) -> None:
    token, ref = shop.begin()
    shop.answers(sqs_event("parcels", {"ref": ref, "error": "no such street"}))
    shop.client.answer(Buying, "payment/o1", {"amount": 1})
    assert shop.post(token, {"why": "out of office"}, "failed=true")[1]["verdict"] == "RESUMED"
    shop.settle()
    assert shop.run().status == "FAILED"
    assert "decision failed: Failed:" in str(shop.run().error)


def test_a_failed_parcel_is_taken_where_its_field_admits_it(shop: Shop) -> None:
    token, ref = shop.begin()
    shop.answers(sqs_event("parcels", {"ref": ref, "error": {"code": 7}}))
    shop.client.answer(Buying, "payment/o1", {"amount": 1})
    shop.post(token, {"answer": "yes"})
    shop.settle()
    parcel = json.loads(shop.run().result or "")["parcel"]
    assert parcel == {"failed": True, "type": "Failed", "text": '{"code":7}'}


def test_the_part_that_is_the_answer_is_taken_from_the_message(shop: Shop) -> None:
    _, ref = shop.begin()
    shop.answers(sqs_event("parcels", {"ref": ref, "error": None, "parcel": {"number": 3}}))
    assert shop.run().wait.answers["parcel"].text == '{"number":3}'  # type: ignore[union-attr]  # it waits


def test_an_answer_that_came_before_the_wait_is_found_by_it(shop: Shop) -> None:
    assert shop.client.answer(Buying, "payment/o1", {"amount": 5}) is AnswerVerdict.UNKNOWN
    assert shop.answers(sqs_event("payments", {"order": {"id": "o1"}, "amount": 7})) == {"batchItemFailures": []}
    shop.begin()
    assert shop.run().wait.answers["paid"].text == '{"order":{"id":"o1"},"amount":7}'  # type: ignore[union-attr]


def test_an_answer_that_was_kept_too_long_is_not_there_and_makes_room_for_the_next(shop: Shop) -> None:
    shop.answers(sqs_event("payments", {"order": {"id": "o1"}, "amount": 1}))
    shop.clock.advance(seconds=3_600)
    shop.begin()
    assert shop.run().wait.answered == frozenset()  # type: ignore[union-attr]  # it waits
    shop.answers(sqs_event("payments", {"order": {"id": "o2"}, "amount": 1}))
    shop.answers(sqs_event("payments", {"order": {"id": "o2"}, "amount": 2}))
    shop.clock.advance(seconds=3_600)
    shop.answers(sqs_event("payments", {"order": {"id": "o2"}, "amount": 3}, sent_at=shop.clock.now()))
    shop.begin("o2")
    assert json.loads(shop.run("o2").wait.answers["paid"].text)["amount"] == 3  # type: ignore[union-attr]  # it waits


def test_what_was_kept_and_cannot_be_read_is_no_answer(shop: Shop) -> None:
    shop.answers(sqs_event("payments", {"order": {"id": "o1"}, "amount": "a lot"}))
    shop.begin()
    assert shop.run().wait.answered == frozenset()  # type: ignore[union-attr]  # it waits
    [broken] = [event for event in shop.told.events if event.type is EventType.BROKEN]
    assert broken.facts["name"] == "paid"
    assert "a lot" not in str(broken.fields())


def test_a_callback_answers_only_what_it_may(shop: Shop) -> None:
    shop.begin()
    assert shop.answers(sqs_event("parcels", {"ref": "payment/o1", "parcel": {"amount": 1}})) == {
        "batchItemFailures": []
    }
    assert shop.run().wait.answered == frozenset()  # type: ignore[union-attr]  # it waits
    [answered] = [event for event in shop.told.events if event.type is EventType.ANSWERED]
    assert answered.facts["verdict"] == "UNKNOWN"


def test_an_id_that_nobody_waits_for_is_unknown_and_said_so(shop: Shop) -> None:
    unknown = {"flow": "buying", "id": "nobody", "verdict": "UNKNOWN"}
    assert shop.answers(sqs_event("parcels", {"ref": "nobody"})) == {"batchItemFailures": []}
    assert [event.facts for event in shop.told.events if event.type is EventType.ANSWERED] == [unknown]
    nobody = ExternalAnswer(Buying, "nobody", GivenAnswer("1"))
    assert Callbacks((Buying,), shop.services).answer(nobody) is AnswerVerdict.UNKNOWN
    assert [event.facts for event in shop.told.events if event.type is EventType.ANSWERED] == [unknown, unknown]


def test_an_answer_that_is_taken_is_reported_once(shop: Shop) -> None:
    token, ref = shop.begin()
    shop.told.events.clear()
    shop.answers(sqs_event("parcels", {"ref": ref, "parcel": {"number": 3}}))
    assert shop.post(token, {"answer": "yes"})[0] == 200
    kinds = [event.type for event in shop.told.events if event.type is not EventType.SENT]
    assert kinds == [EventType.ANSWERED, EventType.ANSWERED]
    assert [event.facts["verdict"] for event in shop.told.events if "verdict" in event.facts] == ["RECORDED"] * 2


@pytest.mark.parametrize(
    ("queue", "payload", "why"),
    [
        ("parcels", {}, "unreadable: EnvelopeError: "),
        ("parcels", {"ref": ""}, "unreadable: EnvelopeError: "),
        ("parcels", {"ref": "x" * 2_000}, "unreadable: EnvelopeError: "),
        ("elsewhere", {"ref": "r"}, "broken: NoCallback: no callback of buying is declared for where this message"),
        ("buying", {"ref": "r"}, "broken: NoCallback: no callback of buying is declared for where this message"),
    ],
)
def test_a_message_that_names_nothing_awaited_stays_in_its_queue(
    shop: Shop, queue: str, payload: Any, why: str
) -> None:
    event = sqs_event(queue, payload, message_id="m-1")
    assert shop.answers(event) == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    [told] = shop.told.events
    assert f"{told.type.value}: {told.facts['why']}".startswith(why)
    assert told.facts["record"] == "m-1"


@pytest.mark.parametrize("key", ["answer", "group"])
def test_an_address_from_outside_is_not_even_read(shop: Shop, key: str) -> None:
    _, ref = shop.begin()
    attributes = {"flowguard": json.dumps({key: "of no form"})}
    shop.answers(sqs_event("parcels", {"ref": ref, "parcel": {"number": 3}}, attributes=attributes))
    assert shop.run().wait.answered == {"parcel"}  # type: ignore[union-attr]  # it waits


@pytest.mark.parametrize("text", ["\ud800", "\x00", "", "x" * 10_000, '"', "}{"])
def test_hostile_texts_are_answers_like_others(shop: Shop, text: str) -> None:
    _, ref = shop.begin()
    try:
        verdict = shop.client.answer(Buying, ref, {"text": text})
    except TypeError:
        assert text == "\ud800"
    else:
        assert verdict is AnswerVerdict.RECORDED
    assert shop.client.fail(Buying, "payment/o1", text, kind=text) is AnswerVerdict.RESUMED
    shop.settle()
    assert shop.run().status == "FAILED"


def test_a_forged_token_is_refused_without_a_call(shop: Shop) -> None:
    token, _ = shop.begin()
    forged = token[:-1] + ("A" if token[-1] != "A" else "B")
    assert shop.post(forged, {"answer": "yes"})[0] == 403
    with pytest.raises(TokenRefused):
        shop.client.answer(Buying, forged, {"answer": "yes"})
    shop.clock.advance(seconds=3 * 86_400)
    assert shop.post(token, {"answer": "yes"})[1]["verdict"] == "EXPIRED"


def test_a_topics_messages_are_known_by_their_topic() -> None:
    class Told(
        Flow,
        name="told",
        object_id="order_id",
        callbacks=(Callback(topic(), id="ref"), Callback("other")),
        trust_senders=True,
    ):
        stages = (AskAll, GoOn, TooLate)

    with empty("memory") as aws:
        aws.create_table("flowguard")
        told = Tally()
        handler = callback_handler(Told).using(aws_services(Settings(), observer=told))
        assert handler(sns_to_sqs_event("a-queue", {"ref": "r"}, topic=TOPIC)) == {"batchItemFailures": []}
    assert [event.facts["id"] for event in told.events] == ["r"]


def topic() -> Any:
    from flowguard import Topic

    return Topic(TOPIC)


def test_a_client_without_a_table_says_what_is_missing(shop: Shop) -> None:
    with pytest.raises(SettingsError, match="needs the run table"):
        FlowClient(shop.services.sender).answer(Buying, "x", {})


def test_asks_go_last() -> None:
    assert Kind.ASK.is_last
    assert not Kind.DEADLINE.is_last


def addressed(run: RunItem, queue: str) -> dict[str, Any]:
    """The end of another flow's run, for what ``buying`` awaits under ``paid``."""
    address = AnswerAddress("buying", ObjectId("o1"), run.request_id, run.requested_at, run.hop, "paid").as_json()
    body = {"status": "COMPLETED", "result": {"amount": 1}}
    return sqs_event(queue, body, attributes={"flowguard": json.dumps({"answer": address})}, message_id="m-1")


def test_the_address_in_a_message_from_outside_is_not_believed(shop: Shop) -> None:
    """Whoever knows an object and its request could answer for another party."""
    shop.begin()
    assert shop.answers(addressed(shop.run(), "parcels")) == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    assert shop.run().wait.answered == frozenset()  # type: ignore[union-attr]  # it waits


@pytest.mark.parametrize(("key", "name"), [("answer", "paid"), ("group", "group.0.0")])
def test_an_address_of_another_flow_is_not_settled_here(shop: Shop, key: str, name: str) -> None:
    shop.begin()
    run = shop.run()
    address = AnswerAddress("selling", ObjectId("o1"), run.request_id, run.requested_at, 1, name).as_json()
    attributes = {"flowguard": json.dumps({key: address})}
    event = sqs_event("buying", {"status": "COMPLETED"}, attributes=attributes, message_id="m-1")
    assert shop.answers(event) == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    [told] = [event for event in shop.told.events if event.type is EventType.BROKEN]
    assert told.facts["why"].startswith("NoCallback: ")


def test_a_flow_whose_inbox_is_a_topic_is_answered_from_outside_all_the_same(shop: Shop) -> None:
    class Fanned(
        Flow,
        name="fanned",
        object_id="order_id",
        inbox=topic(),
        callbacks=(Callback("parcels", id="ref"),),
        trust_senders=True,
    ):
        stages = (AskAll, GoOn, TooLate)

    handler = callback_handler(Fanned).using(shop.services)
    assert handler(sqs_event("parcels", {"ref": "r"})) == {"batchItemFailures": []}


def test_another_flow_answers_through_the_flows_own_queue(shop: Shop) -> None:
    shop.begin()
    assert shop.answers(addressed(shop.run(), "buying")) == {"batchItemFailures": []}
    assert shop.run().wait.answered == {"paid"}  # type: ignore[union-attr]  # it waits


def test_the_callback_function_leaves_the_messages_of_stages(shop: Shop) -> None:
    assert shop.answers(sqs_event("buying", {"order_id": "o1"}, message_id="m-1")) == {
        "batchItemFailures": [{"itemIdentifier": "m-1"}]
    }


# -- what two flows declare --------------------------------------------------------------------------------------------


class Taking(BaseModel):
    paid: dict[str, Any]


class AskPaid(Stage[Order], name="ask-paid", then=("take", "too-late")):
    def handle(self, order: Order, step: Step) -> Outcome:
        paid = step.event(f"payment/{order.order_id}")
        return Take.when_all(paid=paid, within=timedelta(days=2), on_timeout="too-late")


class Take(Stage[Taking], name="take"):
    def handle(self, taking: Taking, step: Step) -> Outcome:
        return Done(taking)


class Counting(
    Flow,
    name="counting",
    object_id="order_id",
    callbacks=(Callback("payments", id="order.id", prefix="payment/"),),
    trust_senders=True,
):
    stages = (AskPaid, Take, TooLate)


@pytest.fixture
def counted(shop: Shop) -> Shop:
    """A run of ``counting`` that waits, and a function that takes the answers of it and of ``buying``."""
    shop.aws.create_queue("counting")
    begun = sqs_event("counting", {"order_id": "o1"}, attributes={"uniquerequestid": "r1"})
    assert lambda_handler(Counting).using(shop.services)(begun) == {"batchItemFailures": []}
    shop.answers = callback_handler(Buying, Counting).using(shop.services)
    return shop


def waits_of(shop: Shop) -> RunItem:
    found: Any = shop.services.store
    item: RunItem = found.read("counting", ObjectId("o1"))
    return item


PAYMENT = {"order": {"id": "o1"}, "amount": 5}


def test_an_answer_is_offered_to_each_flow_whose_callback_its_queue_brings(counted: Shop) -> None:
    counted.begin()
    assert counted.answers(sqs_event("payments", PAYMENT)) == {"batchItemFailures": []}
    assert counted.run().wait.answered == {"paid"}  # type: ignore[union-attr]  # it waits
    assert waits_of(counted).wait.answered == {"paid"}  # type: ignore[union-attr]  # it waits
    answered = [event.facts["verdict"] for event in counted.told.events if event.type is EventType.ANSWERED]
    assert answered == ["RECORDED", "RESUMED"], "nothing is unknown"


def test_what_a_stage_of_the_first_flow_cannot_read_is_offered_to_the_second_and_stays(counted: Shop) -> None:
    counted.begin()
    event = sqs_event("payments", {"order": {"id": "o1"}, "amount": "many"}, message_id="m-1")
    assert counted.answers(event) == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    assert waits_of(counted).wait.answered == {"paid"}  # type: ignore[union-attr]  # it waits
    [told] = [event for event in counted.told.events if event.type is EventType.BROKEN]
    assert told.facts["why"].startswith("RunFailed: ")


@pytest.mark.parametrize("body", ["{}", "no JSON"])
def test_what_comes_through_no_callback_is_not_even_read(body: str) -> None:
    [inbox] = normalize(sqs_event("buying", body))
    assert isinstance(inbox, Envelope)
    assert read_outside(inbox, NamedQueues([Buying])) == []


def test_an_outage_of_the_first_flow_keeps_the_answer_from_no_other(
    counted: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record stays for the first, and the second has it."""
    settle = ExternalAnswers.settle

    def of_counting(answers: ExternalAnswers, answer: ExternalAnswer, *rest: Any, **options: Any) -> Any:
        if answer.flow is Buying:
            raise KeyUnavailable("k1", "it is disabled")
        return settle(answers, answer, *rest, **options)

    monkeypatch.setattr(ExternalAnswers, "settle", of_counting)
    event = sqs_event("payments", PAYMENT, message_id="m-1")
    assert counted.answers(event) == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    assert waits_of(counted).wait.answered == {"paid"}  # type: ignore[union-attr]  # it waits


@pytest.mark.parametrize("order", [1, -1])
def test_an_ending_that_keeps_the_record_counts_before_a_better_verdict(shop: Shop, order: int) -> None:
    callbacks = Callbacks((Buying, Counting), shop.services)
    endings = [(AnswerVerdict.RESUMED, True), (AnswerVerdict.DUPLICATE, False)][::order]

    class Settling:
        def settle(self, answer: ExternalAnswer, envelope: Any, *, queued: bool) -> Any:
            verdict, ack = endings.pop()
            return verdict, Ending(envelope, ack=ack, verdict=verdict)

    callbacks._outside = Settling()  # type: ignore[assignment]  # of the endings above
    [record] = normalize(sqs_event("payments", PAYMENT), invocation_id="i-1")
    assert isinstance(record, Envelope)
    assert callbacks.take(record).verdict is AnswerVerdict.DUPLICATE
    endings += [(AnswerVerdict.UNKNOWN, True), (AnswerVerdict.DUPLICATE, True)][::order]
    assert callbacks.take(record).verdict is AnswerVerdict.DUPLICATE

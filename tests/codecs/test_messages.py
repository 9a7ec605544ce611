"""Messages of a flow with a codec, on their ways: what says that they are sealed, and what stays as it travels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.codecs import Compressed, Encrypted
from flowguard.destinations import Queue
from flowguard.errors import CannotOpen, DefinitionError, EnvelopeError, KeyUnavailable, OtherRelease, Untrusted
from flowguard.flow import AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.payload.codec import codec_problems
from flowguard.protocol.groups import GroupPlan
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import Status
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.streams import KinesisStream
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import Envelope, normalize_record
from flowguard.wire.message import PLACE, REQUEST_ID, ErrorNote, Message, Place
from flowguard.wire.sealed_message import opened_message, opened_or_why, sealed_message
from flowguard.wire.signing import UNSIGNED, statement
from flowguard.worker.dead_letters import Letter
from flowguard.worker.failure_note import VEILED, veiled
from flowguard.worker.restart import first_message_text, restart_of
from flowguard.worker.routing import Routes
from flowguard.worker.trust import STRICT, Trust
from flowguard.worker.undeliverable import park
from tests.codecs.fakes import Vault
from tests.codecs.test_outage import sealing
from tests.protocol.run_items import run_item
from tests.scene import START, Script, orders, two_stages

CODEC = Compressed()
SEALS: AnyFlow = sealing(CODEC)(Script())
PLAIN: AnyFlow = orders(Script())
MESSAGE = Message(
    "orders", "price-order", 1, ObjectId("o1"), RequestId("r1"), START, '{"order_id":"o1"}', reply_to="sqs:replies"
)
SEALED = sealed_message(CODEC, MESSAGE)


def envelope(message: Message, **changes: Attribute | None) -> Envelope:
    attributes = {**message.attributes(), **changes}
    there = {name: attribute for name, attribute in attributes.items() if attribute is not None}
    return normalize_record(
        {
            "messageId": "m-1",
            "body": message.text,
            "attributes": {"SentTimestamp": str(START)},
            "messageAttributes": attributes_to(Attribute.to_sqs_record, there),
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:price-order",
        }
    )


def test_a_message_says_beside_its_version_that_it_is_sealed() -> None:
    place = SEALED.own_attributes()[PLACE].value
    assert json.loads(place)["version"] == [1, "sealed"]
    assert Place.parse(place).is_sealed
    assert Place.parse(place).version == 1
    plain = MESSAGE.own_attributes()[PLACE].value
    assert json.loads(plain)["version"] == 1
    assert not Place.parse(plain).is_sealed


@pytest.mark.parametrize("version", ["[1]", '[1,"other"]', '["sealed",1]', '[1,"sealed",2]', '["x","sealed"]', "[]"])
def test_no_other_list_is_a_version(version: str) -> None:
    with pytest.raises(ValueError, match="has 'version'"):
        Place.parse(f'{{"version":{version},"object":"o1"}}')


def test_a_sealed_message_names_its_object() -> None:
    with pytest.raises(ValueError, match="says that the body is sealed, and names no object"):
        Place.parse('{"version":[1,"sealed"]}')
    assert Place.parse('{"version":1}').object_id is None


def test_what_travels_is_signed_and_told_apart() -> None:
    again = sealed_message(CODEC, MESSAGE._replace(body='{"order_id":"o1","note":"x"}'))
    assert SEALED.text_digest != again.text_digest
    assert SEALED.text_digest != MESSAGE.text_digest
    assert SEALED.text_digest == SEALED._replace(body="").text_digest
    same_text = MESSAGE._replace(body=SEALED.text)
    texts = [statement(message, version=1, object_id="o1") for message in (SEALED, same_text)]
    assert texts[0] != texts[1]
    assert texts[0] == statement(SEALED._replace(body="opened"), version=1, object_id="o1")


def test_the_next_hop_is_not_sealed_by_the_one_before() -> None:
    assert SEALED.next("close-order", "{}").sealed is None
    assert SEALED.text == SEALED.sealed
    assert MESSAGE.text == MESSAGE.body


def test_a_message_is_opened_by_its_flows_codec() -> None:
    closed = SEALED._replace(body="")
    assert opened_message(CODEC, closed).body == MESSAGE.body
    assert opened_message(None, MESSAGE) is MESSAGE
    assert sealed_message(None, MESSAGE) is MESSAGE
    assert opened_or_why(CODEC, closed) == (SEALED, None)
    message, why = opened_or_why(CODEC, closed._replace(object_id=ObjectId("o2")))
    assert message.body == ""
    assert isinstance(why, CannotOpen)


def test_keys_that_do_not_answer_are_no_reason_to_say_that_it_cannot_be_opened() -> None:
    vault = Vault()
    codec = Encrypted("k", data_keys=vault)
    closed = sealed_message(codec, MESSAGE)._replace(body="")
    vault.away = True
    with pytest.raises(KeyUnavailable):
        opened_or_why(Encrypted("k", data_keys=vault), closed)


# -- routing


def test_a_sealed_message_finds_its_stage_opened() -> None:
    arrival = Routes((SEALS,)).resolve(envelope(SEALED), START, STRICT)
    assert arrival.problem is None
    assert arrival.message.body == MESSAGE.body
    assert arrival.message.sealed == SEALED.sealed


def test_without_a_judge_nothing_is_opened() -> None:
    for message in (SEALED, SEALED._replace(retry=1)):
        arrival = Routes((SEALS,)).resolve(envelope(message), START, trust=None)
        assert arrival.problem is None
        assert arrival.message.body == ""


UNREAD = MESSAGE._replace(body='{"order_id":"o1","n":"x"}', retry=1)


class Counts(BaseModel):
    order_id: str
    n: int


class Counting(Stage[Counts], name="price-order"):
    def handle(self, payload: Counts, step: Step) -> Outcome:
        return Done()


class CountedOrders(Flow, name="orders", object_id="order_id", codec=CODEC):
    stages = (Counting,)


@pytest.mark.parametrize(
    ("message", "trust", "is_read"),
    [
        (UNREAD, None, True),
        (UNREAD, STRICT, True),
        (sealed_message(CODEC, UNREAD), None, False),
        (sealed_message(CODEC, UNREAD), STRICT, True),
        (UNREAD._replace(retry=0), STRICT, False),
    ],
)
def test_a_request_that_comes_again_is_read_where_it_is_open(
    message: Message, trust: Trust | None, is_read: bool
) -> None:
    arrival = Routes((CountedOrders,)).resolve(envelope(message), START, trust)
    assert isinstance(arrival.problem, OtherRelease) is is_read


def test_what_cannot_be_opened_keeps_its_place() -> None:
    arrival = Routes((PLAIN,)).resolve(envelope(SEALED), START, STRICT)
    assert isinstance(arrival.problem, CannotOpen)
    assert (arrival.message.object_id, arrival.message.request_id) == ("o1", "r1")


def test_a_sealed_message_without_an_id_is_refused() -> None:
    with pytest.raises(EnvelopeError, match="uniquerequestid: is missing, and the body is sealed"):
        Routes((SEALS,)).resolve(envelope(SEALED, **{REQUEST_ID: None}), START, STRICT)


def test_the_rule_of_a_flow_is_not_asked_of_a_sealed_body() -> None:
    class Ruled(Flow, name="orders", object_id="order_id", request_id="order_id", codec=CODEC):
        stages = two_stages(Script())

    place = json.loads(SEALED.own_attributes()[PLACE].value) | {"weak": True}
    weak = Attribute.string(json.dumps(place))
    arrival = Routes((Ruled,)).resolve(envelope(SEALED, **{PLACE: weak}), START, STRICT)
    assert arrival.message.request_id == "r1"
    plain = Attribute.string(json.dumps(place | {"version": 1}))
    arrival = Routes((Ruled,)).resolve(envelope(MESSAGE, **{PLACE: plain}), START, STRICT)
    assert arrival.message.request_id == "o1"


def test_a_plain_message_needs_no_id() -> None:
    arrival = Routes((SEALS,)).resolve(envelope(MESSAGE, **{REQUEST_ID: None}), START, STRICT)
    assert arrival.message.request_id == "m-1"


def test_a_sealed_payload_must_name_the_object_of_its_message() -> None:
    other = sealed_message(CODEC, MESSAGE._replace(body='{"order_id":"o2"}'))
    with pytest.raises(Untrusted, match="it names the object 'o1', and that is not the payload's 'order_id'"):
        Routes((SEALS,)).resolve(envelope(other), START, STRICT)


class Only(Flow, name="orders", object_id="order_id", codec=CODEC, sealed_only=True):
    stages = two_stages(Script())


@pytest.mark.parametrize(
    ("message", "is_taken"),
    [
        (SEALED, True),
        (MESSAGE._replace(reply_to=None), False),
        (MESSAGE._replace(cancelled="by mistake", reply_to=None), True),
        (MESSAGE._replace(stage="close-order", hop=2, reply_to=None), True),
    ],
)
def test_sealed_only_refuses_plain_requests_and_nothing_else(message: Message, is_taken: bool) -> None:
    came = envelope(message)
    if message.hop > 1:
        came.received["eventSourceARN"] = "arn:aws:sqs:us-east-1:123456789012:close-order"
    if is_taken:
        assert Routes((Only,)).resolve(came, START, STRICT).problem is None
        return
    with pytest.raises(Untrusted, match="its body is not sealed, and orders takes sealed requests only"):
        Routes((Only,)).resolve(came, START, STRICT)


def test_where_none_enters_is_said_first() -> None:
    with pytest.raises(Untrusted, match="a first hop at 'close-order', where no request enters orders"):
        Routes((Only,)).resolve(envelope(MESSAGE._replace(stage="close-order", reply_to=None)), START, STRICT)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"codec": 7}, "codec is 7, which does not seal and open"),
        ({"codec": Compressed}, "codec is the class Compressed; write an object of it"),
        ({"sealed_only": True}, "sealed_only refuses what is not sealed, and it has no codec"),
        (
            {"sealed_only": True, "codec": CODEC, "streams": (KinesisStream("s"),)},
            "sealed_only refuses what is not sealed, and the records of its streams are not",
        ),
    ],
)
def test_a_mistake_is_refused_when_the_flow_is_defined(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):

        class Wrong(Flow, name="orders", object_id="order_id", **options):
            stages = two_stages(Script())


# -- what stays as it travels


def test_a_request_is_sealed_and_its_own_object_is_clear() -> None:
    message, _ = SEALS.request(SEALS.entry().payload(order_id="o1"), request_id=RequestId("r1"), requested_at=START)
    assert message.object_id == "o1"
    assert message.sealed is not None
    assert opened_message(CODEC, message._replace(body="")).body == message.body


@pytest.mark.parametrize("message", [SEALED, MESSAGE])
def test_a_restart_brings_the_first_text_again(message: Message) -> None:
    item = run_item(request_id=RequestId("r1"), requested_at=START, status=Status.RUNNING)
    stored = item._replace(reset_at=START + 5, first_message=first_message_text(message))
    restart = restart_of(SEALS, ObjectId("o1"), stored, UNSIGNED)
    assert restart is not None
    assert restart.send.body == message.text
    assert restart.message.sealed == message.sealed
    assert restart.message.body == ("" if message.sealed else message.body)
    assert Place.parse(restart.send.attributes[PLACE].value).is_sealed is (message.sealed is not None)


@pytest.mark.parametrize("message", [SEALED._replace(hop=2), MESSAGE._replace(hop=2)])
def test_a_next_hop_that_is_parked_stays_as_it_was(message: Message) -> None:
    send = Send(Kind.NEXT, Queue("price-order"), message.text, "id", message.attributes())
    letter = park(SEALS, message, send, ErrorNote("NotSent", "no", 7))
    assert letter.body == message.text
    assert Place.parse(letter.attributes[PLACE].value).is_sealed is (message.sealed is not None)


def test_a_side_message_that_is_parked_is_not_called_sealed() -> None:
    send = Send(Kind.SIDE, Queue("emails"), "text", "id")
    letter = park(SEALS, SEALED, send, ErrorNote("NotSent", "no", 7))
    assert letter.body == "text"
    assert not Place.parse(letter.attributes[PLACE].value).is_sealed


def test_a_letter_is_looked_at_without_opening_it() -> None:
    received = {
        "MessageId": "m-1",
        "ReceiptHandle": "r-1",
        "Body": SEALED.text,
        "Attributes": {"SentTimestamp": str(START), "ApproximateReceiveCount": "1"},
        "MessageAttributes": attributes_to(Attribute.to_sqs_api, SEALED.redriven(ErrorNote("E", "x", 5)).attributes()),
    }
    for flow in (None, SEALS):
        letter = Letter.read(received, now=START, flow=flow)
        assert letter.problem is None
        assert letter.unread_because is None
        assert letter.message is not None
        assert (letter.message.body, letter.message.sealed) == ("", SEALED.sealed)


def test_a_plan_of_a_group_says_that_its_requests_are_sealed() -> None:
    plan = GroupPlan("g-1", 3, "sqs:q", 5, "picks", "pick", 1)
    assert len(plan.as_json()) == 8
    assert GroupPlan.from_json(plan.as_json()) == plan
    sealed = plan._replace(is_sealed=True)
    assert len(sealed.as_json()) == 9
    assert GroupPlan.from_json(sealed.as_json()) == sealed


def test_a_flow_without_a_codec_asks_none_that_has_one() -> None:
    [problem] = codec_problems(PLAIN, SEALS)
    assert problem.startswith("orders has a codec, which seals its answer, and orders has none")
    assert [*codec_problems(SEALS, SEALS), *codec_problems(SEALS, PLAIN), *codec_problems(PLAIN, PLAIN)] == []


def test_a_flow_asks_none_whose_codec_is_of_another_kind() -> None:
    encrypts: AnyFlow = sealing(Encrypted("k"))(Script())
    fix = "give orders one that opens what orders seals"
    [problem] = codec_problems(SEALS, encrypts)
    assert problem == f"orders seals its answer by Encrypted, and orders opens by Compressed; {fix}"
    [problem] = codec_problems(encrypts, SEALS)
    assert problem == f"orders seals its answer by Compressed, and orders opens by Encrypted; {fix}"
    other: AnyFlow = sealing(Encrypted("another"))(Script())
    assert [*codec_problems(encrypts, other)] == [], "an alias and an ARN may name one key"


def test_the_text_of_an_error_is_veiled_where_the_flow_has_a_codec() -> None:
    note = ErrorNote("ValueError", "of a customer", 7)
    assert veiled(SEALS, note) == ErrorNote("ValueError", VEILED, 7)
    assert veiled(PLAIN, note) is note

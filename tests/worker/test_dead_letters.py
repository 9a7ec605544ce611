"""What a dead letter is, in which form it goes back, and what becomes of it there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.flow import IGNORE, Flow
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import RunItem, Status
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import bus_event, sns_to_sqs_event
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import Envelope, normalize_record
from flowguard.wire.message import ErrorNote, Message
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, Signer, signed_attributes
from flowguard.worker.dead_letters import Letter
from flowguard.worker.plan import dead_letter
from flowguard.worker.redrive import Fate, judge
from flowguard.worker.redriven_messages import check_returnable, sent_back
from flowguard.worker.routing import Routes
from flowguard.worker.trust import Trust
from tests.scene import START, Order, Orders

STAGE_QUEUE = "arn:aws:sqs:us-east-1:123456789012:price-order"
PARKING = "arn:aws:sqs:us-east-1:123456789012:dead"
ERROR = ErrorNote("Timeout", "no answer", START - 5_000)


def message(**changes: Any) -> Message:
    first = Message(
        flow="orders",
        stage="price-order",
        version=1,
        object_id=ObjectId("o1"),
        request_id=RequestId("run-1"),
        requested_at=START,
        body='{"order_id":"o1"}',
    )
    return first._replace(**changes)


def received(body: str, attributes: dict[str, Attribute], **by_sqs: str) -> dict[str, Any]:
    """What ReceiveMessage answers."""
    return {
        "MessageId": "m-1",
        "ReceiptHandle": "r-1",
        "Body": body,
        "Attributes": {"SentTimestamp": str(START), "ApproximateReceiveCount": "3", **by_sqs},
        "MessageAttributes": attributes_to(Attribute.to_sqs_api, attributes),
    }


def resent(letter: Letter, signer: Signer = UNSIGNED) -> tuple[str, dict[str, Attribute]]:
    """The body and attributes with which it goes back."""
    send = sent_back(letter, Queue("price-order"), signer)
    return send.body, dict(send.attributes)


def raw(m: Message, **by_sqs: str) -> Letter:
    by_sqs.setdefault("DeadLetterQueueSourceArn", STAGE_QUEUE)
    return Letter.read(received(m.body, m.attributes(), **by_sqs), now=START)


def parked(m: Message, error: ErrorNote = ERROR) -> Letter:
    record = {**received(m.body, m.attributes()), "EventSourceARN": STAGE_QUEUE}
    send = dead_letter(Orders, m, error, normalize_record(record))
    return Letter.read(received(send.body, dict(send.attributes)), now=START)


def run(m: Message, **changes: Any) -> RunItem:
    item = RunItem(
        request_id=m.request_id,
        requested_at=m.requested_at,
        version=1,
        status=Status.RUNNING,
        stage=m.stage,
        hop=m.hop,
        retry=m.retry,
        redrive=m.redrive,
        epoch=1,
        owner=Owner("w"),
        lease_until=START - 1,
        done=False,
        committed_at=0,
    )
    return item._replace(**changes)


# -- reading


def test_a_parked_letter_says_where_it_was_and_why_it_is_here() -> None:
    letter = parked(message(retry=4))
    facts = letter.facts(START + 90_000)
    assert facts["kind"] == "parked"
    assert (facts["flow"], facts["stage"], facts["object_id"]) == ("orders", "price-order", "o1")
    assert (facts["request_id"], facts["hop"], facts["redrive"]) == ("run-1", 1, 1)
    assert facts["error"] == {"type": "Timeout", "text": "no answer", "at": START - 5_000}
    assert (facts["age"], facts["receive_count"]) == (90, 3)
    assert letter.text == '{"order_id":"o1"}'
    assert letter.home_arn == STAGE_QUEUE
    assert "payload" not in facts
    assert letter.text not in json.dumps(facts)


def test_what_sqs_moved_by_itself_is_raw_even_where_it_was_redriven_before() -> None:
    letter = raw(message(redrive=1))
    assert (letter.is_parked, letter.home_arn, letter.error) == (False, STAGE_QUEUE, None)
    assert letter.returning().redrive == 2


def test_no_stage_could_read_what_is_no_json_or_what_was_parked_without_an_object() -> None:
    letters = [raw(message()), raw(message(body="no json")), parked(message()), parked(message(object_id=ObjectId("")))]
    assert [letter.unread_because is not None for letter in letters] == [False, True, False, True]
    assert not unsent({"hop": 1, "unsent": UNSENT}).unread_because, "what a stage sends may be any text"


@pytest.mark.parametrize(
    ("error", "unread"),
    [(ErrorNote("PayloadInvalid", "no Order", 5), "PayloadInvalid: no Order"), (ERROR, None)],
)
def test_where_its_flows_class_is_not_known_a_letters_errors_say_that_its_payload_is_invalid(
    error: ErrorNote, unread: str | None
) -> None:
    letter = parked(message(retry=2), error)
    assert letter.unread_because == (None if error == ERROR else unread)
    again = parked(message(retry=2, first_error=ErrorNote("PayloadInvalid", "no Order", 5)), error)
    assert again.unread_because == "PayloadInvalid: no Order", "the first error says it too"
    nameless = parked(message(object_id=ObjectId("")), error)
    assert nameless.unread_because == f"{error.type}: {error.text}"
    bare = parked(message(object_id=ObjectId("")))
    assert replace(bare, message=message(object_id=ObjectId(""), redrive=1)).unread_because == "it names no object"


def test_a_letter_that_says_nothing_has_no_last_error() -> None:
    assert Letter("m", START, 1, None, None, "{").last_error is None


def test_the_flows_class_decides_whether_a_letter_can_be_read_now() -> None:
    def read(m: Message) -> str | None:
        record = {**received(m.body, m.attributes()), "EventSourceARN": STAGE_QUEUE}
        send = dead_letter(Orders, m, ErrorNote("PayloadInvalid", "no Order", 5), normalize_record(record))
        return Letter.read(received(send.body, dict(send.attributes)), now=START, flow=Orders).unread_because

    assert read(message()) is None, "the stage was mended"
    assert read(message(body='{"order":1}')) == "the payload of price-order is no Order: order_id: Field required"
    assert "has no stage 'gone'" in str(read(message(stage="gone")))
    assert "does not read version 9" in str(read(message(version=9)))
    assert read(message(stage="close-order", hop=2, body="no")) == (
        "the payload of close-order is no Priced: the whole: Invalid JSON: expected ident at line 1 column 2"
    )
    assert read(message(stage="close-order", hop=2, body="no", resumed=True)) is None, "answers are in the item"


def test_whatever_a_model_raises_at_a_letter_it_is_one_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.scene.Priced.model_validate_json", lambda text: {}[text])
    letter = Letter.read(received("{}", message(stage="close-order", hop=2).attributes()), now=START, flow=Orders)
    assert letter.unread_because == "a validator of its payload raises KeyError"


def test_an_order_for_a_run_is_no_payload() -> None:
    address = {"flow": "orders", "object": "o1", "request": "r", "at": 1, "hop": 1, "name": "paid"}
    attributes = {"flowguard": Attribute.string(json.dumps({"answer": address})), "requestedat": Attribute.number(1)}
    letter = Letter.read(received("no json", attributes, DeadLetterQueueSourceArn=STAGE_QUEUE), now=START)
    assert (letter.message is not None, letter.unread_because) == (True, None)


def test_the_last_error_stands_beside_the_first() -> None:
    letter = parked(
        message(retry=2, first_error=ErrorNote("Timeout", "no answer", 5)), ErrorNote("OtherRelease", "v2", 9)
    )
    facts = letter.facts(START)
    assert (facts["error"]["type"], facts["last_error"]) == ("Timeout", {"type": "OtherRelease", "text": "v2", "at": 9})
    assert parked(message()).facts(START)["last_error"] is None


def test_a_letter_that_cannot_be_read_is_one_too_and_is_sent_nowhere() -> None:
    attributes = {**message().attributes(), "flowguard": Attribute.string("{")}
    letter = Letter.read(received("x", attributes), now=START)
    assert (letter.facts(START)["kind"], letter.text) == ("unreadable", "x")
    assert "is not JSON" in str(letter.problem)
    with pytest.raises(ValueError, match="is not JSON"):
        resent(letter)


def test_a_message_of_a_stranger_needs_its_flows_class_for_its_object() -> None:
    found = received('{"order_id":"o9"}', {})
    assert Letter.read(found, now=START).message == message(
        flow="", stage="", object_id=ObjectId(""), request_id=RequestId("m-1"), body='{"order_id":"o9"}'
    )
    known = Letter.read(found, now=START, flow=Orders).message
    assert known is not None
    assert (known.flow, known.stage, known.object_id) == ("orders", "price-order", "o9")


def test_it_goes_back_with_its_flow_and_stage_which_a_function_of_several_flows_asks_for() -> None:
    found = received('{"order_id":"o9"}', {}, DeadLetterQueueSourceArn=STAGE_QUEUE)
    _, attributes = resent(Letter.read(found, now=START, flow=Orders))
    assert attributes["flowstage"].value == "orders/price-order"


def test_an_id_that_its_sender_has_given_stays_though_the_flow_may_have_a_rule_for_ids() -> None:
    """Where it has none of its own, it goes back under that of its message, and a rule of its flow goes before that."""
    named, nameless = raw(message()), Letter.read(received("{}", {}, DeadLetterQueueSourceArn=STAGE_QUEUE), now=START)
    weak = [json.loads(resent(letter)[1]["flowguard"].value).get("weak") for letter in (named, nameless)]
    assert weak == [None, True]


def test_in_a_fifo_queue_it_goes_back_to_its_group_or_to_that_of_its_object() -> None:
    groups = [
        sent_back(raw(message(), **by_sqs), Queue("orders.fifo")).group for by_sqs in ({"MessageGroupId": "g"}, {})
    ]
    assert groups == ["g", "o1"]


def test_a_letter_of_another_flow_is_read_without_the_class() -> None:
    found = received("{}", message(flow="other", stage="x").attributes())
    letter = Letter.read(found, now=START, flow=Orders)
    assert (letter.flow, letter.problem) == (None, None)


def test_sqs_word_of_where_it_was_goes_before_that_of_the_body() -> None:
    """Whoever may send to a stage's queue may write any queue into a body."""
    body = json.dumps(our_notification("arn:aws:sqs:us-east-1:123456789012:forged"))
    moved = Letter.read(received(body, {}, DeadLetterQueueSourceArn=STAGE_QUEUE), now=START)
    assert moved.home_arn == STAGE_QUEUE
    assert json.loads(resent(moved)[0])["TopicArn"] == STAGE_QUEUE, "and a later redrive reads SQS's word too"
    assert Letter.read(received(body, {}), now=START).home_arn is None, "flowguard has not parked it"
    as_parked = Letter.read(received(body, message(redrive=1).attributes()), now=START)
    assert as_parked.home_arn == "arn:aws:sqs:us-east-1:123456789012:forged"


def test_where_the_dlq_handler_parks_it_sqs_word_stays_with_it() -> None:
    body = json.dumps(our_notification("arn:aws:sqs:us-east-1:123456789012:forged"))
    record = received(body, message().attributes(), DeadLetterQueueSourceArn=STAGE_QUEUE)
    send = dead_letter(Orders, message(), ERROR, normalize_record(record))
    letter = Letter.read(received(send.body, dict(send.attributes)), now=START)
    assert (letter.is_parked, letter.home_arn) == (True, STAGE_QUEUE)


def our_notification(arn: str) -> dict[str, Any]:
    """What flowguard writes around a message; anybody can."""
    told = {"Type": "Notification", "MessageId": "m", "TopicArn": arn, "Message": "{}"}
    return {**told, "Timestamp": "2026-01-02T03:04:05.678Z", "MessageAttributes": {}}


# -- messages that were not sent


UNSENT = {"kind": "side", "to": "sqs:emails", "id": "run-1.1.0", "attributes": {"a": ["Binary", "AP8="]}, "group": "g"}


def unsent(place: dict[str, Any], body: str = "hello", **by_sqs: str) -> Letter:
    attributes = {**message().attributes(), "flowguard": Attribute.string(json.dumps(place))}
    return Letter.read(received(body, attributes, **by_sqs), now=START)


def test_an_unsent_message_says_where_it_was_to_go_and_why_it_did_not() -> None:
    letter = unsent({"version": 1, "hop": 2, "object": "o1", "error": list(ERROR), "unsent": UNSENT})
    facts = letter.facts(START)
    assert (facts["kind"], facts["to"], facts["send_kind"], facts["send_id"]) == (
        "unsent",
        "sqs:emails",
        "side",
        "run-1.1.0",
    )
    assert (facts["flow"], facts["stage"], facts["object_id"], facts["hop"]) == ("orders", "price-order", "o1", 2)
    assert facts["error"]["text"] == "no answer"
    assert letter.unsent is not None
    assert letter.unsent.send(letter.text) == Send(
        Kind.SIDE, Queue("emails"), "hello", "run-1.1.0", {"a": Attribute("Binary", "AP8=")}, group="g"
    )
    assert judge(letter, None, now=START) == (Fate.REDRIVEN, "sent to where it was to go")
    assert sent_back(letter, Queue("elsewhere")) == letter.unsent.send(letter.text, Queue("elsewhere"))


def test_an_unsent_message_is_never_taken_for_a_stages_own() -> None:
    letter = unsent({"hop": 1, "redrive": 1, "to": "sqs:close-order", "unsent": UNSENT})
    assert (letter.kind, letter.is_parked, letter.to) == ("unsent", False, Queue("emails"))


@pytest.mark.parametrize(
    "body",
    [
        '{"Type":"Notification","MessageId":"m","TopicArn":"arn:aws:sns:r:1:t"}',
        '{"requestContext":{},"KinesisBatchInfo":{"batchSize":5}}',
    ],
)
def test_the_body_of_an_unsent_message_is_read_as_text_whatever_it_is(body: str) -> None:
    letter = unsent({"hop": 1, "unsent": UNSENT}, body)
    assert (letter.kind, letter.text, letter.problem) == ("unsent", body, None)


def test_an_unsent_message_that_sqs_moved_may_be_anybodys() -> None:
    letter = unsent({"hop": 1, "unsent": UNSENT}, DeadLetterQueueSourceArn=STAGE_QUEUE)
    with pytest.raises(ValueError, match=r"SQS moved it here from arn:aws:sqs:.* so anybody may have written it"):
        check_returnable(letter)
    check_returnable(unsent({"hop": 1, "unsent": UNSENT}))


def test_a_notification_in_a_body_makes_no_message_unsent() -> None:
    inside = {**our_notification(STAGE_QUEUE)}
    inside["MessageAttributes"] = {"flowguard": {"Type": "String", "Value": json.dumps({"unsent": UNSENT})}}
    letter = Letter.read(received(json.dumps(inside), {}), now=START)
    assert (letter.unsent, letter.kind) == (None, "raw")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"kind": "next"}, "of kind 'next'; it is side, complete, ask or deadline"),
        ({"to": "x" * 9_000}, "is no destination"),
        ({"to": 7}, "without kind, to, id and attributes"),
        ({"id": ""}, "without kind, to, id and attributes"),
        ({"attributes": {"a": ["String"]}}, "'unsent'"),
        ({"attributes": ["a"]}, "'unsent'"),
        ({"group": 7}, "group is not text"),
    ],
)
def test_an_unsent_message_that_cannot_be_read_says_why(changes: dict[str, Any], problem: str) -> None:
    letter = unsent({"hop": 1, "unsent": {**UNSENT, **changes}})
    assert letter.kind == "unreadable"
    assert problem in str(letter.problem)
    assert len(str(letter.problem)) < 1_000


@pytest.mark.parametrize("found", [None, [], "x", {}])
def test_an_unsent_message_that_is_no_object_cannot_be_read(found: Any) -> None:
    assert unsent({"hop": 1, "unsent": found}).kind == "unreadable"


def test_a_next_hops_message_says_where_it_was_to_go_unless_sqs_moved_it() -> None:
    place = {"hop": 2, "redrive": 1, "object": "o1", "to": "sqs:close-order"}
    letter = unsent(place)
    assert (letter.kind, letter.to, letter.facts(START)["to"]) == ("parked", Queue("close-order"), "sqs:close-order")
    assert resent(letter)[0] != "", "it goes back as a parked letter does"
    moved = unsent(place, DeadLetterQueueSourceArn=STAGE_QUEUE)
    assert (moved.kind, moved.to) == ("raw", None)
    assert "to" not in json.loads(resent(moved)[1]["flowguard"].value)
    assert unsent({**place, "to": 7}).kind == unsent({**place, "to": "x:y"}).kind == "unreadable"


# -- going back


def test_a_parked_letter_goes_back_exactly_as_it_is() -> None:
    m = message(retry=2, carried={"tenant": Attribute.binary(b"\x00\xff")})
    letter = parked(m)
    assert letter.envelope is not None
    body, attributes = resent(letter)
    assert (body, attributes) == (letter.envelope.received["body"], letter.envelope.extras())
    assert json.loads(attributes["flowguard"].value)["redrive"] == 1


def test_a_raw_record_goes_back_as_the_next_redrive_of_the_same_request_beside_the_untouched_original() -> None:
    m = message(redrive=1, retry=3, first_error=ERROR, carried={"tenant": Attribute.binary(b"\x00\xff")})
    body, attributes = resent(raw(m))
    back = normalize_record(received(body, attributes))
    assert (back.message, back.attributes["tenant"]) == (m.body, m.carried["tenant"])
    assert attributes["uniquerequestid"].value == "run-1"
    place = json.loads(attributes["flowguard"].value)
    assert (place["redrive"], "retry" in place, place["hop"], place["object"]) == (2, False, 1, "o1")
    assert "sig" not in place
    assert place["error"][0] == "Timeout"
    assert json.loads(body)["TopicArn"] == STAGE_QUEUE


def test_what_had_no_request_id_keeps_the_one_it_was_handled_under() -> None:
    """By then it has another message id: without this it would come back as another request."""
    letter = Letter.read(received("{}", {"a": Attribute.string("b")}), now=START)
    _, attributes = resent(letter)
    assert (attributes["uniquerequestid"].value, attributes["requestedat"].value) == ("m-1", str(START))
    assert json.loads(attributes["flowguard"].value) == {"weak": True}
    assert "flowstage" not in attributes


class KeyedOrders(Flow, name="orders", object_id="order_id", request_id="order_id", dead_letters="dead"):
    stages = Orders.stages


@pytest.mark.parametrize("flow", [None, KeyedOrders])
def test_what_its_flow_names_by_the_payload_comes_back_under_that_name(flow: type[Flow] | None) -> None:
    """Without the class the tool cannot know the rule. The stage does, and asks it."""
    letter = Letter.read(received('{"order_id":"o1"}', {}), now=START, flow=flow)
    body, attributes = resent(letter)
    back = Routes([KeyedOrders]).resolve(normalize_record(received(body, attributes)), START)
    assert (back.message.request_id, back.message.redrive) == ("o1", 0)
    assert ("weak" in attributes["flowguard"].value) is (flow is None)


@pytest.mark.parametrize("flow", [None, KeyedOrders])
def test_a_letter_that_has_no_id_comes_back_without_one(flow: type[Flow] | None) -> None:
    nameless = message(request_id=RequestId(""), object_id=ObjectId(""), body="{}")
    record = {**received("{}", {}), "EventSourceARN": STAGE_QUEUE}
    send = dead_letter(KeyedOrders, nameless, ERROR, normalize_record(record), KEYS)
    letter = Letter.read(received(send.body, dict(send.attributes)), now=START, flow=flow)
    assert (letter.kind, letter.facts(START)["request_id"]) == ("parked", None if flow else "m-1")
    _, attributes = resent(letter, KEYS)
    assert "uniquerequestid" not in attributes


def test_a_raw_record_that_its_rule_cannot_name_comes_back_without_an_id() -> None:
    letter = Letter.read(received("{}", {}), now=START, flow=KeyedOrders)
    _, attributes = resent(letter)
    assert ("uniquerequestid" in attributes, json.loads(attributes["flowguard"].value)) == (False, {})


def test_a_notification_of_sns_keeps_its_own_id_and_body() -> None:
    notification = {
        "Type": "Notification",
        "MessageId": "sns-1",
        "TopicArn": "arn:aws:sns:us-east-1:123456789012:orders",
        "Message": "{}",
        "Timestamp": "2026-01-02T03:04:05.678Z",
    }
    letter = Letter.read(received(json.dumps(notification), {}), now=START)
    body, attributes = resent(letter)
    assert (body, letter.home_arn) == (json.dumps(notification), None)
    assert attributes["uniquerequestid"].value == "sns-1"
    assert attributes["requestedat"].value == "1767323045678"


# -- where messages are signed

KEYS = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))
OTHERS = KeySigner(Keyring(lambda: Keys.parse("k1:" + "y" * 32), ManualClock()))
TRUST = Trust(KEYS)


def signed(m: Message, signer: KeySigner = KEYS, flow: type[Flow] | None = None) -> Letter:
    """A record that SQS moved."""
    by_sqs = {"DeadLetterQueueSourceArn": STAGE_QUEUE}
    return Letter.read(received(m.body, signed_attributes(m, signer), **by_sqs), now=START, flow=flow)


def taken(sent: tuple[str, dict[str, Attribute]]) -> Message:
    """What the stage reads of what is sent back, where it believes only what is signed."""
    body, attributes = sent
    return Routes([Orders]).resolve(normalize_record(received(body, attributes)), START, TRUST).message


@pytest.mark.parametrize("flow", [None, Orders])
@pytest.mark.parametrize(
    "changes", [{}, {"reply_to": "sqs:replies"}, {"retry": 2}, {"stage": "close-order", "hop": 2}, {"object_id": ""}]
)
def test_a_raw_letter_that_was_signed_is_signed_anew(changes: dict[str, Any], flow: type[Flow] | None) -> None:
    m = message(**changes)
    assert taken(resent(signed(m, flow=flow), KEYS)).attempt == (1, 0)


def test_a_parked_letter_is_signed_already_and_any_tool_may_send_it_back() -> None:
    record = {**received('{"order_id":"o1"}', signed_attributes(message(), KEYS)), "EventSourceARN": STAGE_QUEUE}
    send = dead_letter(Orders, message(), ERROR, normalize_record(record), KEYS)
    letter = Letter.read(received(send.body, dict(send.attributes)), now=START)
    for back in (resent(letter, KEYS), resent(letter), (send.body, dict(send.attributes))):
        assert taken(back).attempt == (1, 0)


@pytest.mark.parametrize("flow", [None, Orders])
def test_a_plain_request_goes_back_as_one_and_is_not_signed(flow: type[Flow] | None) -> None:
    """Anybody may have written it: signed as a redrive it would open a run that has failed, with its own payload."""
    stranger = Letter.read(received('{"order_id":"o9"}', {}), now=START, flow=flow)
    for plain in (raw(message()), stranger):
        body, attributes = resent(plain, KEYS)
        assert taken((body, attributes)).attempt == (0, 0)
        assert '"sig"' not in attributes["flowguard"].value


def test_a_plain_request_that_says_whom_to_tell_is_refused_as_its_stage_would() -> None:
    with pytest.raises(ValueError, match="no signature; its stage would refuse it, too"):
        resent(raw(message(reply_to="sqs:replies")), KEYS)


def test_a_request_that_is_given_up_twice_goes_back_twice() -> None:
    """Nothing in it counts its returns, and a FIFO queue drops what has the id of another."""
    letters = [replace(raw(message()), message_id=f"m-{n}") for n in (1, 2, 2)]
    ids = [sent_back(letter, Queue("orders.fifo")).id for letter in letters]
    assert len(set(ids)) == 2
    assert ids[1] == ids[2]


@pytest.mark.parametrize(
    ("letter", "told"),
    [
        (raw(message(hop=2)), "it carries no signature; its stage would refuse it, too"),
        (raw(message(reply_to="sqs:replies")), "it carries no signature; its stage would refuse it, too"),
        (parked(message()), "it carries no signature; its stage would refuse it, too"),
        (signed(message(), OTHERS), "of another message or another secret; its stage would refuse it, too"),
        (
            Letter.read(received("{}", {"flowguard": Attribute.string('{"sig":"k1.0"}')}), now=START),
            "it names no flow, so it cannot be signed; give --flow-class",
        ),
    ],
)
def test_a_redrive_makes_no_forged_message_a_true_one(letter: Letter, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        resent(letter, KEYS)


def test_a_signed_letter_is_not_sent_back_without_the_keys() -> None:
    with pytest.raises(ValueError, match="it is signed; set FLOWGUARD_SIGNING_KEYS, so that it can be signed anew"):
        resent(signed(message()))


# -- what becomes of it


THIRD = message(stage="close-order", hop=3)
GIVEN_UP = FailedHop(message().request_id, message().requested_at, 1, 0, ErrorNote("Reject", "sold out", START))
NEWER = {"request_id": RequestId("run-2"), "requested_at": START + 1}
OLDER = {"request_id": RequestId("run-0"), "requested_at": START - 1}


@pytest.mark.parametrize(
    ("letter", "item", "fate", "why"),
    [
        (message(), None, Fate.REDRIVEN, "no run item"),
        (THIRD, None, Fate.EXPIRED, "before hop 3 has expired"),
        (message(), run(message(), status=Status.FAILED, done=True), Fate.REDRIVEN, "failed at hop 1"),
        (message(), run(message()), Fate.REDRIVEN, "stopped at hop 1"),
        (message(), run(message(redrive=1), lease_until=START + 9), Fate.REDRIVEN, "is being worked on"),
        (message(), run(message(), **OLDER), Fate.REDRIVEN, "newer than request run-0"),
        (THIRD, run(message(hop=2), done=True), Fate.REDRIVEN, "hop 3 has not been claimed"),
        (message(), run(message(), **NEWER), Fate.SUPERSEDED, "run-2 holds the object"),
        (THIRD, run(message(), **OLDER), Fate.SUPERSEDED, "run-0 holds the object"),
        (message(), run(THIRD), Fate.SUPERSEDED, "at hop 3"),
        (THIRD, run(message()), Fate.SUPERSEDED, "at hop 1"),
        (message(), run(message(redrive=2)), Fate.SUPERSEDED, "redrive 2"),
        (message(), run(message(redrive=1), status=Status.FAILED, done=True), Fate.SUPERSEDED, "redrive 1, FAILED"),
        (message(), run(message(redrive=1), done=True), Fate.SUPERSEDED, "went on"),
        (message(), run(THIRD, status=Status.FAILED, done=True), Fate.SUPERSEDED, "at hop 3"),
        (message(), run(message(), done=True, failed=GIVEN_UP), Fate.GIVEN_UP, "under another id"),
        (message(), run(THIRD, failed=GIVEN_UP), Fate.GIVEN_UP, "at hop 3 (close-order), redrive 0, RUNNING"),
        (message(), run(THIRD, status=Status.FAILED, failed=GIVEN_UP), Fate.GIVEN_UP, "undo what it had done"),
        (message(), run(THIRD, failed=GIVEN_UP._replace(redrive=1)), Fate.SUPERSEDED, "went on"),
        (THIRD, run(THIRD, status=Status.FAILED, done=True, failed=GIVEN_UP), Fate.REDRIVEN, "failed at hop 3"),
        (
            THIRD,
            run(THIRD, status=Status.FAILED, done=True, failed=GIVEN_UP._replace(undone=True)),
            Fate.SUPERSEDED,
            "FAILED",
        ),
        (message(), run(message(), status=Status.COMPLETED, done=True), Fate.COMPLETED, "completed at hop 1"),
        (message(), run(THIRD, status=Status.COMPLETED, done=True), Fate.COMPLETED, "completed at hop 3"),
    ],
)
def test_the_run_item_decides_what_becomes_of_a_parked_letter(
    letter: Message, item: RunItem | None, fate: Fate, why: str
) -> None:
    judgement = judge(parked(letter), item, now=START, unsent=True)
    assert judgement.fate is fate
    assert why in judgement.why


@pytest.mark.parametrize("status", [Status.RUNNING, Status.COMPLETED])
def test_a_raw_record_whose_worker_died_after_its_commit_goes_back_for_what_it_had_to_send(status: Status) -> None:
    m = message(retry=1)
    committed = run(m, status=status, done=True)
    assert judge(raw(m), committed, now=START, unsent=True).fate is Fate.REDRIVEN
    assert judge(raw(m), committed, now=START, unsent=False).fate is not Fate.REDRIVEN


def test_not_where_another_attempt_committed_whose_own_record_does_that() -> None:
    later = run(message(redrive=1), status=Status.COMPLETED, done=True)
    assert judge(raw(message(retry=1)), later, now=START, unsent=True).fate is Fate.COMPLETED


def test_a_record_of_a_fifo_queue_is_the_only_one_of_its_hop_whatever_it_says_of_its_attempt() -> None:
    committed = run(message(retry=2), status=Status.COMPLETED, done=True)
    letter = raw(message(), DeadLetterQueueSourceArn=f"{STAGE_QUEUE}.fifo")
    assert judge(letter, committed, now=START, unsent=True).fate is Fate.REDRIVEN


def test_a_letter_without_an_object_is_left_to_its_claim() -> None:
    assert judge(parked(message(object_id=ObjectId(""))), None, now=START).fate is Fate.REDRIVEN


def test_where_the_first_keeps_the_object_a_newer_letter_is_not_sent() -> None:
    class Patient(Flow, name="orders", object_id="order_id", on_conflict=IGNORE):
        stages = (PriceOrderAlone,)

    m = message()
    held = run(m, **OLDER, lease_until=START + 1)
    known = Letter.read(received(m.body, m.attributes(), DeadLetterQueueSourceArn=STAGE_QUEUE), now=START, flow=Patient)
    assert judge(known, held, now=START).fate is Fate.SUPERSEDED
    assert judge(raw(m), held, now=START).fate is Fate.REDRIVEN


class PriceOrderAlone(Stage[Order], name="price-order", inbox="price-order"):
    """Where the flow has one stage."""

    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        return Done()


def test_the_record_of_a_letter_is_normalised_as_that_of_the_queue_it_died_in() -> None:
    envelope = raw(message()).envelope
    assert isinstance(envelope, Envelope)
    assert envelope.queue_arn == STAGE_QUEUE


def test_a_letters_error_is_known_with_its_flows_class_too() -> None:
    received = {
        "MessageId": "m-1",
        "ReceiptHandle": "r-1",
        "Body": '{"order_id":"o1"}',
        "MessageAttributes": {
            name: {"DataType": a.type, "StringValue": a.value}
            for name, a in Message(
                "orders", "price-order", 1, ObjectId("o1"), RequestId("r-1"), START, '{"order_id":"o1"}'
            )
            .redriven(ERROR)
            .own_attributes()
            .items()
        },
    }
    for flow in (None, Orders):
        assert Letter.read(received, now=START, flow=flow).error == ERROR


# -- the object of a payload that no stage could read


def nameless(body: str) -> Message:
    return message(object_id=ObjectId(""), body=body)


@pytest.mark.parametrize(
    ("body", "object_id"),
    [
        ('{"order_id": "o7", "quantity": "many"}', "o7"),
        ('{"order_id": 7}', "7"),
        ('{"order_id": ""}', None),
        ('{"order_id": ["o7"]}', None),
        (json.dumps({"order_id": "o" * 100_000}), None),
        ('{"order_id": "\\ud800"}', None),
        ("[" * 100_000, None),
        ("no JSON", None),
        ("[]", None),
    ],
)
def test_a_letter_shows_the_object_that_an_unreadable_payload_seems_to_name(body: str, object_id: str | None) -> None:
    letter = parked(nameless(body))
    assert letter.facts(START)["object_id"] == object_id
    assert letter.message is not None
    assert not letter.message.object_id


def test_what_a_letter_seems_to_be_about_decides_nothing_when_it_comes_back() -> None:
    letter = parked(nameless('{"order_id": "o7"}'))
    body, attributes = resent(letter)
    back = {**received(body, attributes), "EventSourceARN": STAGE_QUEUE}
    arrival = Routes((Orders,)).resolve(normalize_record(back), START, Trust())
    assert (arrival.message.object_id, arrival.message.redrive, arrival.problem) == ("o7", 1, None)
    said = json.loads(attributes["flowguard"].value)
    other = Attribute.string(json.dumps({**said, "seems": "o8"}))
    again = {**received(body, {**attributes, "flowguard": other}), "EventSourceARN": STAGE_QUEUE}
    assert Routes((Orders,)).resolve(normalize_record(again), START, Trust()).message.object_id == "o7"


@pytest.mark.parametrize("seems", [7, None, "", ["o7"], "o" * 100_000, "\ud800"])
def test_a_senders_word_of_what_it_seems_is_shown_only_where_it_may_be_an_id(seems: object) -> None:
    place = Attribute.string(json.dumps({"hop": 1, "redrive": 1, "seems": seems}))
    letter = Letter.read(received('{"order_id": 7', {**message().attributes(), "flowguard": place}), now=START)
    assert letter.facts(START)["object_id"] is None


@pytest.mark.parametrize(
    ("group", "sent_to"), [("acct-7", "acct-7"), (None, "o1"), ("", "o1"), (7, "o1"), ("o" * 100_000, "o1")]
)
def test_a_letter_goes_back_into_the_group_that_its_record_had(group: object, sent_to: str) -> None:
    place = {**json.loads(message().attributes()["flowguard"].value), "redrive": 1, "fifo_group": group}
    attributes = {**message().attributes(), "flowguard": Attribute.string(json.dumps(place))}
    letter = Letter.read(received('{"order_id": "o1"}', attributes), now=START)
    assert sent_back(letter, Queue("orders.fifo")).group == sent_to


@pytest.mark.parametrize(("spare", "says_so"), [(0, False), (12, False), (13, True)])
def test_a_letter_that_is_at_its_limit_does_without(spare: int, says_so: bool) -> None:
    def letter(body: str) -> Send:
        record = {**received(body, {}), "EventSourceARN": STAGE_QUEUE}
        return dead_letter(Orders, nameless(body), ERROR, normalize_record(record))

    short = '{"order_id": "o7"}'
    room = 1_048_576 - letter(short).size + len(',"seems":"o7"') - spare
    found = letter(short + " " * room)
    assert ('"seems":"o7"' in found.attributes["flowguard"].value) is says_so
    assert found.size <= 1_048_576


def test_a_raw_letters_payload_is_read_the_same_way_where_its_flow_is_known() -> None:
    m = nameless('{"order_id": "o7", "quantity": "many"}')
    there = received(m.body, m.attributes(), DeadLetterQueueSourceArn=STAGE_QUEUE)
    assert Letter.read(there, now=START).facts(START)["object_id"] is None
    assert Letter.read(there, now=START, flow=Orders).facts(START)["object_id"] == "o7"


# -- letters that say little, or what they must not


def test_a_letter_of_which_sqs_says_nothing_was_received_once_at_an_unknown_time() -> None:
    letter = Letter.read({"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": "{}"}, now=START)
    assert (letter.receive_count, letter.sent_at, letter.source_arn) == (1, 0, None)


def test_a_letter_that_cannot_be_read_has_no_place_and_is_no_parked_one() -> None:
    letter = Letter.read(received("x", {"flowguard": Attribute.string("{")}), now=START)
    assert (letter.is_parked, (letter.unread_because is not None), letter.place_text, letter.object_id) == (
        False,
        False,
        "{}",
        None,
    )
    with pytest.raises(ValueError, match="is not JSON"):
        letter.returning()


def test_an_unsent_letter_shows_its_place() -> None:
    letter = unsent({"hop": 1, "unsent": UNSENT})
    assert letter.envelope is not None
    assert json.loads(letter.place_text)["hop"] == 1


def test_what_says_a_retry_was_not_parked() -> None:
    place = Attribute.string(json.dumps({"hop": 1, "redrive": 1, "retry": 2, "object": "o1"}))
    letter = Letter.read(received("{}", {**message().attributes(), "flowguard": place}), now=START)
    assert (letter.kind, letter.is_parked) == ("raw", False)


def test_a_letter_from_the_future_has_no_age() -> None:
    assert raw(message()).facts(START - 5_000)["age"] == 0


def test_what_is_nested_too_deeply_is_no_json_that_a_stage_could_read() -> None:
    assert raw(message(body="[" * 100_000)).unread_because


def test_a_parked_letter_whose_body_names_no_queue_came_from_nowhere() -> None:
    m = message()
    homeless = dead_letter(Orders, m, ERROR, normalize_record(received(m.body, m.attributes())))
    [published] = sns_to_sqs_event("price-order", m.body, attributes=m.attributes())["Records"]
    of_a_topic = dead_letter(Orders, m, ERROR, normalize_record(published))
    for send in (homeless, of_a_topic):
        letter = Letter.read(received(send.body, dict(send.attributes)), now=START)
        assert (letter.is_parked, letter.home_arn) == (True, None)


def test_a_letter_says_all_of_its_place_without_its_flows_class() -> None:
    m = message(
        version=2,
        hop=3,
        retry=1,
        redrive=2,
        resumed=True,
        answer_to='{"flow":"claims"}',
        since=START - 9_000,
        depth=4,
        first_error=ERROR,
        reply_to="sqs:done",
    )
    assert raw(m).message == m
    m = message(cancelled="no more wanted")
    assert raw(m).message == m


@pytest.mark.parametrize(
    ("at", "problem"), [("soon", "'soon' is not whole milliseconds"), ("5.5", "'5.5' is not whole")]
)
def test_a_letter_whose_time_is_none_says_so(at: str, problem: str) -> None:
    letter = Letter.read(received("{}", {"requestedat": Attribute.string(at)}), now=START)
    assert problem in str(letter.problem)


def test_an_event_that_nobody_dated_is_as_old_as_eventbridge_says() -> None:
    event = bus_event({"order_id": "o1"}, source="shop", detail_type="Order placed")
    letter = Letter.read(received(json.dumps(event), {}), now=START)
    assert letter.message is not None
    assert letter.message.requested_at == datetime.fromisoformat(event["time"]).timestamp() * 1_000

"""What messages bring for runs: what is written is read again, and what is none of that is left to stages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.errors import EnvelopeError
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.groups import GroupPlan, Member
from flowguard.protocol.run_orders import (
    ANSWER,
    CANCEL,
    RESET,
    USE,
    ArrivedAnswer,
    ArrivedDeadline,
    CancelOrder,
    GroupOrder,
    ResetOrder,
    answer_statement,
    cancel_attributes,
    deadline_statement,
    order_attributes,
    order_signature,
    read_order,
    reset_attributes,
)
from flowguard.protocol.waiting import GivenAnswer, Use
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import FLOW_STAGE, LATEST_TIME, PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, Signer
from tests.make_records import sqs_record

AT = 1_800_000_000_000
SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))
ENDED = '{"status":"COMPLETED","result":7}'


def address(name: str, **more: Any) -> AnswerAddress:
    return AnswerAddress("orders", ObjectId("o1"), RequestId("r-1"), AT, 1, name)._replace(**more)


def record(place: str | None, body: str = ENDED) -> Envelope:
    attributes = {} if place is None else {PLACE: Attribute.string(place), REQUESTED_AT: Attribute.number(AT)}
    [envelope] = normalize({"Records": [sqs_record(body, attributes)]})
    assert isinstance(envelope, Envelope)
    return envelope


def brought(key: str, at: AnswerAddress, body: str = ENDED, **more: Any) -> Envelope:
    beside = {name: more.pop(name) for name in [USE] if name in more}
    return record(json.dumps({key: {**at.as_json(), **more}, **beside}), body)


def cancelling(signer: Signer = UNSIGNED) -> dict[str, Attribute]:
    return cancel_attributes("orders", "price-order", ObjectId("o1"), "r-1", AT, "a mistake", signer)


def resetting(signer: Signer = UNSIGNED) -> dict[str, Attribute]:
    return reset_attributes("orders", ObjectId("o1"), "r-1", AT, signer)


OF_GROUP = GroupCancelOrder(
    address("group.2.5"), Member(2, 5), GroupPlan("g-1", 300, "sqs:x", AT, "f", "s", 2), 3, "late", 4
)


# -- reading


@pytest.mark.parametrize(
    ("envelope", "order"),
    [
        (brought(ANSWER, address("priced")), ArrivedAnswer(address("priced"), GivenAnswer("7"))),
        (
            brought(ANSWER, address("priced"), use=["id", "by", "who"]),
            ArrivedAnswer(address("priced"), GivenAnswer("7"), Use("id", "by", "who")),
        ),
        (brought("deadline", address("deadline"), '{"deadline":9}'), ArrivedDeadline(address("deadline"), 9, AT)),
        (brought("deadline", address("deadline"), "[]"), ArrivedDeadline(address("deadline"), 0, AT)),
        (brought("deadline", address("deadline"), '{"deadline":"9"}'), ArrivedDeadline(address("deadline"), 0, AT)),
        (
            brought("deadline", address("deadline"), f'{{"deadline":{10**15}}}'),
            ArrivedDeadline(address("deadline"), LATEST_TIME, AT),
        ),
        (brought("deadline", address("deadline"), '{"deadline":-1}'), ArrivedDeadline(address("deadline"), 0, AT)),
        (brought("group", address("group.2.5")), GroupOrder(address("group.2.5"), Member(2, 5))),
        (
            record(json.dumps(OF_GROUP.as_json("k1:x"))),
            OF_GROUP._replace(address=OF_GROUP.address._replace(signature="k1:x")),
        ),
        (brought(CANCEL, address(CANCEL), why="late"), CancelOrder(address(CANCEL), "late")),
        (brought(RESET, address(RESET)), ResetOrder(address(RESET))),
    ],
    ids=[
        "answer",
        "used",
        "deadline",
        "deadline without a time",
        "deadline of no time",
        "deadline after all times",
        "deadline before all times",
        "group",
        "group to cancel",
        "cancel",
        "reset",
    ],
)
def test_each_kind_is_read_with_its_address(envelope: Envelope, order: object) -> None:
    assert read_order(envelope) == order


KEYS = (ANSWER, "deadline", "group", "cancel_group", CANCEL, RESET)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("place", ['{"hop":2}', '{"%s"', '{"%s":', '["%s"]', '"%s"', '{"name":"%s"}'])
def test_what_is_none_of_these_is_a_stages_message(key: str, place: str) -> None:
    assert read_order(record(place.replace("%s", key))) is None
    assert read_order(record(None)) is None


@pytest.mark.parametrize("key", KEYS)
def test_a_place_that_is_too_deep_to_be_read_is_left_to_the_reader_of_messages(key: str) -> None:
    assert read_order(record(f'{{"{key}":' + "[" * 200_000)) is None


@pytest.mark.parametrize("key", KEYS)
def test_an_address_that_lacks_something_says_what_and_names_its_record(key: str) -> None:
    at = address("group.0.0").as_json()
    del at["object"]
    envelope = record(json.dumps({key: {**at, "why": "late"}}))
    with pytest.raises(EnvelopeError, match="without 'object'") as caught:
        read_order(envelope)
    assert (caught.value.record, caught.value.field) == (envelope.message_id, f"attributes.{PLACE}")


@pytest.mark.parametrize("key", KEYS)
def test_what_is_no_address_is_refused(key: str) -> None:
    with pytest.raises(EnvelopeError, match="is not a JSON object"):
        read_order(record(json.dumps({key: 5})))


@pytest.mark.parametrize(("key", "more"), [(CANCEL, {"why": "late"}), (RESET, {}), ("deadline", {})])
def test_an_order_has_the_name_of_its_kind_whatever_it_says(key: str, more: dict[str, str]) -> None:
    """Otherwise its signature could be taken for that of an answer."""
    order = read_order(brought(key, address("priced"), "{}", **more))
    assert order is not None
    assert order.address.name == key


@pytest.mark.parametrize("why", [None, 7, "", " "])
def test_an_order_to_cancel_without_a_reason_is_broken(why: Any) -> None:
    with pytest.raises(EnvelopeError, match="whose reason is no text"):
        read_order(brought(CANCEL, address(CANCEL), why=why))


def test_a_message_of_a_group_names_one_of_its_requests() -> None:
    with pytest.raises(EnvelopeError, match="names no request of a group"):
        read_order(brought("group", address("priced")))


@pytest.mark.parametrize("body", ["{}", "[]", '{"status":"FAILED"}', '{"status":"FAILED","error":5}'])
def test_an_answer_is_an_end_of_a_run(body: str) -> None:
    with pytest.raises(EnvelopeError, match="no end of a run"):
        read_order(brought(ANSWER, address("priced"), body))


@pytest.mark.parametrize("body", ["", "{", "[" * 200_000])
@pytest.mark.parametrize("key", [ANSWER, "deadline"])
def test_a_body_that_is_no_json_is_refused(key: str, body: str) -> None:
    with pytest.raises(EnvelopeError):
        read_order(brought(key, address("priced"), body))


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        ("OutOfStock: none: left", {"type": "OutOfStock", "text": "none: left"}),
        ("broken", {"type": "Failed", "text": "broken"}),
    ],
)
@pytest.mark.parametrize("status", ["FAILED", "SUPERSEDED", "IGNORED"])
def test_the_error_of_a_flow_is_its_type_and_its_text(status: str, error: str, failed: dict[str, str]) -> None:
    order = read_order(brought(ANSWER, address("priced"), json.dumps({"status": status, "error": error})))
    assert isinstance(order, ArrivedAnswer)
    assert order.answer.failed
    assert {"failed": True, **failed} == json.loads(order.answer.text)


def test_a_deadline_without_the_attribute_of_its_time_has_none() -> None:
    attributes = {PLACE: Attribute.string(json.dumps({"deadline": address("deadline").as_json()}))}
    [envelope] = normalize({"Records": [sqs_record('{"deadline":1}', attributes)]})
    assert isinstance(envelope, Envelope)
    assert read_order(envelope) == ArrivedDeadline(address("deadline"), 1, 0)


@pytest.mark.parametrize("sent", ["-1", "1.5", "1e3", "1" * 16])
def test_a_deadline_that_says_no_time_of_its_own_has_none(sent: str) -> None:
    attributes = {PLACE: Attribute.string(json.dumps({"deadline": address("deadline").as_json()}))}
    attributes[REQUESTED_AT] = Attribute("Number", sent)
    [envelope] = normalize({"Records": [sqs_record('{"deadline":1}', attributes)]})
    assert isinstance(envelope, Envelope)
    assert read_order(envelope) == ArrivedDeadline(address("deadline"), 1, 0)


@pytest.mark.parametrize("use", [None, [], ["id", "by"], ["id", "by", 3], "use"])
def test_a_use_that_cannot_be_read_is_none(use: Any) -> None:
    order = read_order(brought(ANSWER, address("priced"), use=use))
    assert isinstance(order, ArrivedAnswer)
    assert order.use is None


# -- writing


@pytest.mark.parametrize(
    ("attributes", "order"),
    [(cancelling(), CancelOrder(address(CANCEL), "a mistake")), (resetting(), ResetOrder(address(RESET)))],
    ids=["cancel", "reset"],
)
def test_an_order_is_read_as_it_was_written_and_is_a_message_of_its_own(
    attributes: dict[str, Attribute], order: object
) -> None:
    assert read_order(record(attributes[PLACE].value)) == order
    assert attributes[REQUEST_ID] == Attribute.string("r-1")
    assert attributes[REQUESTED_AT] == Attribute.number(AT)
    assert (FLOW_STAGE in attributes) is isinstance(order, CancelOrder)


def test_an_order_to_cancel_names_the_stage_of_its_inbox_which_may_filter_by_it() -> None:
    assert cancelling()[FLOW_STAGE] == Attribute.string("orders/price-order")


@pytest.mark.parametrize("written", [cancelling, resetting])
def test_the_signature_of_an_order_covers_all_that_it_says(written: Callable[[Signer], dict[str, Attribute]]) -> None:
    place = written(SIGNER)[PLACE].value
    order = read_order(record(place))
    assert isinstance(order, CancelOrder | ResetOrder)
    signature = order.address.signature
    assert signature is not None
    assert order_signature(place) == signature
    assert SIGNER.problem(order.statement, signature) is None
    other = order._replace(address=order.address._replace(object_id=ObjectId("o2")))
    assert SIGNER.problem(other.statement, signature) is not None
    if isinstance(order, CancelOrder):
        assert SIGNER.problem(order._replace(why="not at all").statement, signature) is not None
        assert SIGNER.problem(order.address.statement, signature) is not None, "it is no address of an answer"


@pytest.mark.parametrize("place", ["{}", '{"reset":5}', '{"reset":{}}', '{"reset":{"sig":5}}', '{"hop":2,"sig":"x"}'])
def test_what_has_no_signed_address_has_no_signature(place: str) -> None:
    assert order_signature(place) is None


def test_the_signature_of_an_answer_covers_its_use() -> None:
    at, use = address("priced"), Use("id", "by", "who")
    others = [(at, None), (at, use), (at, use._replace(user="me")), (address("other"), use)]
    assert len({answer_statement(*other) for other in others}) == len(others)
    assert answer_statement(at, None) == at.statement
    order = ArrivedAnswer(at, GivenAnswer("7"), use)
    assert order.statement == answer_statement(at, use)


def test_the_attributes_of_an_order_are_a_message_of_its_own() -> None:
    assert order_attributes("own", 5, {"deadline": {}}) == {
        REQUEST_ID: Attribute.string("own"),
        REQUESTED_AT: Attribute.number(5),
        PLACE: Attribute.string('{"deadline":{}}'),
    }


def test_what_is_signed_of_a_deadline_has_the_tenant_that_it_names() -> None:
    of = address("deadline")
    assert deadline_statement(of, None) == of.statement
    assert json.loads(deadline_statement(of, "acme")) == [of.statement, "acme"]
    place = {"deadline": {**of.as_json(), "tenant": "acme"}, "tenant": "another"}
    order = read_order(record(json.dumps(place)))
    assert order is not None
    assert order.statement == deadline_statement(of, "acme")

"""What each part of a worker does with a sealed text, beside what it does with one that is not."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from flowguard.codecs import Encrypted, opened_end
from flowguard.errors import EnvelopeError, GroupChanged, KeyUnavailable
from flowguard.flow import AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import WaitForGroup
from flowguard.payload.codec import Codec
from flowguard.protocol.callers import Caller, StoredEnd
from flowguard.protocol.groups import MOST_IN_SHARD, Member, SavedPart
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.run_orders import ANSWER, ArrivedAnswer, read_order
from flowguard.protocol.waiting import GivenAnswer, Use
from flowguard.recorded.awaitables import asked_group
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import PLACE, Message, Place
from flowguard.wire.sealed_end import SealedEnd, sealed_end
from flowguard.wire.sealed_message import opened_message
from flowguard.worker.dead_letters import Letter
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.external_answers import answer_message
from flowguard.worker.group_parts import SavedGroup
from flowguard.worker.group_planner import group_ask
from flowguard.worker.replies import answer_place, end_body, reply
from flowguard.worker.settler import _opened
from tests.codecs.fakes import Vault
from tests.codecs.test_messages import CODEC, MESSAGE, PLAIN, SEALED, SEALS, envelope
from tests.scene import START
from tests.waits import WaitScene
from tests.worker.test_external_answers import at
from tests.worker.test_group_planner import (
    AddUp,
    CountShop,
    Recount,
    Saves,
    Shop,
    asked,
    planner,
    refused,
    saved,
    shops,
)

__all__ = ["at"]

ADDRESS = AnswerAddress("orders", ObjectId("o1"), RequestId("r1"), START, 1, "paid")
ENDED = '{"status":"COMPLETED","result":7}'
ABOUT = {"flow": "orders", "object_id": "o1"}
ANSWERED = sealed_end(CODEC, "orders", "o1", ABOUT, ENDED)


# -- dead letters


def letter(message: Message, flow: AnyFlow | None = None) -> Letter:
    """A letter that SQS moved by itself."""
    received = {
        "MessageId": "m-1",
        "ReceiptHandle": "r-1",
        "Body": message.text,
        "Attributes": {
            "SentTimestamp": str(START),
            "ApproximateReceiveCount": "3",
            "DeadLetterQueueSourceArn": "arn:aws:sqs:us-east-1:123456789012:price-order",
        },
        "MessageAttributes": attributes_to(Attribute.to_sqs_api, message.attributes()),
    }
    return Letter.read(received, now=START, flow=flow)


@pytest.mark.parametrize("message", [SEALED, MESSAGE])
def test_a_letter_holds_its_text_where_it_belongs(message: Message) -> None:
    read = letter(message).message
    assert read is not None
    assert (read.body, read.sealed) == (("", SEALED.sealed) if message is SEALED else (MESSAGE.body, None))


@pytest.mark.parametrize(
    ("message", "flow", "is_unread"),
    [
        (SEALED, None, False),
        (MESSAGE, None, False),
        (MESSAGE._replace(body="no json"), None, True),
        (SEALED, SEALS, False),
        (MESSAGE, SEALS, False),
        (MESSAGE._replace(body='{"order_id":"o1","note":7}'), SEALS, True),
    ],
)
def test_only_what_is_not_sealed_is_called_unreadable(message: Message, flow: AnyFlow | None, is_unread: bool) -> None:
    assert (letter(message, flow).unread_because is not None) is is_unread


# -- groups


class Sealing(Flow, name="count-shop", object_id="shop_id", version=4, trust_senders=True, codec=CODEC):
    stages = CountShop.stages


class Asking(Flow, name="recount", object_id="night", max_hops=5, trust_senders=True, codec=CODEC):
    stages = Recount.stages


@pytest.mark.parametrize("to", [Sealing, CountShop])
def test_a_request_of_a_group_is_sent_as_its_flow_takes_it(to: AnyFlow) -> None:
    by, saves = planner(Asking), Saves()
    plan = saved(asked(shops("a"), to), saves, by).plan
    assert plan.is_sealed is (to is Sealing)
    [request] = saves.shards[0].requests
    own = by.planner.address(Member(0, 0).text, admits=True)
    send = group_ask(plan, request, "id", own, Asking, {}, by.planner.signer, by.planner.message)
    place = Place.parse(send.attributes[PLACE].value)
    assert place.is_sealed is (to is Sealing)
    assert send.body == request.body
    if to is Sealing:
        sealed = Message("count-shop", "count", 4, ObjectId("a"), RequestId("id"), START, "", sealed=send.body)
        assert opened_message(CODEC, sealed).body == '{"shop_id":"a"}'
    else:
        assert send.body == '{"shop_id":"a"}'


class Noted(Shop):
    note: str


def test_a_group_goes_on_in_another_invocation_though_its_requests_are_sealed_anew() -> None:
    by, saves = planner(Asking), Saves()

    def noted(note: str, to: AnyFlow = Sealing) -> WaitForGroup:
        return asked([(str(n), Noted(shop_id=str(n), note=note)) for n in range(MOST_IN_SHARD + 1)], to)

    part = by.saved(noted("one"), saves, lambda: not saves.shards)
    assert isinstance(part, SavedPart)
    assert part.digest == planned_part(noted("one", CountShop)).digest
    assert isinstance(by.saved(noted("one"), saves, lambda: True, [part]), SavedGroup)
    with pytest.raises(GroupChanged):
        by.saved(noted("two"), saves, lambda: True, [part])
    for shard in saves.shards:
        assert not any("note" in request.body for request in shard.requests)


def planned_part(outcome: WaitForGroup) -> SavedPart:
    saves = Saves()
    part = planner(Asking).saved(outcome, saves, lambda: not saves.shards)
    assert isinstance(part, SavedPart)
    return part


def test_a_group_of_a_flow_with_a_codec_is_refused_where_the_one_that_asks_has_none() -> None:
    assert "count-shop has a codec, which seals its answer" in refused(asked(shops("a"), Sealing))
    by = planner()
    saved(AddUp.when_group(asked_group("shops", [("a", "x")], {}), within=timedelta(hours=1)), by=by)


# -- answers


END = StoredEnd(RequestId("r1"), 5, "COMPLETED", "7")


def test_the_end_of_a_flow_without_a_codec_is_said_as_it_is() -> None:
    body = json.loads(end_body(PLAIN, ObjectId("o1"), RequestId("r1"), END))
    assert body == {**ABOUT, "request_id": "r1", "status": "COMPLETED", "result": 7}
    assert answer_place(PLAIN, '{"name":"a"}', MESSAGE._replace(depth=0))[PLACE].value == '{"answer":{"name":"a"}}'


@pytest.mark.parametrize(
    ("answer_to", "clear"),
    [
        (None, {"flow", "object_id", "request_id", "status", "sealed"}),
        ('{"name":"a"}', {"flow", "object_id", "request_id", "sealed"}),
    ],
)
def test_only_an_answer_keeps_its_status_sealed(answer_to: str | None, clear: set[str]) -> None:
    caller = Caller(RequestId("r1"), 5, "sqs:replies", answer_to=answer_to)
    send = reply(SEALS, ObjectId("o1"), caller, END)
    assert json.loads(send.body).keys() == clear
    assert opened_end(CODEC, send.body) == {**ABOUT, "request_id": "r1", "status": "COMPLETED", "result": 7}


@pytest.mark.parametrize(
    ("beside", "body", "order"),
    [
        ({}, ENDED, ArrivedAnswer(ADDRESS, GivenAnswer("7"))),
        ({"sealed": 1}, ENDED, ArrivedAnswer(ADDRESS, GivenAnswer("7"))),
        ({"sealed": True}, ANSWERED, ArrivedAnswer(ADDRESS, GivenAnswer(""), None, SealedEnd.read(ANSWERED))),
    ],
)
def test_an_answer_is_read_as_it_says(beside: dict[str, Any], body: str, order: ArrivedAnswer) -> None:
    place = json.dumps({ANSWER: ADDRESS.as_json(), **beside})
    assert read_order(envelope(MESSAGE._replace(body=body), **{PLACE: Attribute.string(place)})) == order


def arrived(codec: Codec = CODEC, text: str = ENDED) -> ArrivedAnswer:
    sealed = SealedEnd.read(sealed_end(codec, "orders", "o1", ABOUT, text))
    return ArrivedAnswer(ADDRESS, GivenAnswer(""), Use("paid", "by", "who"), sealed)


def test_an_answer_that_is_sealed_is_opened_when_it_is_settled() -> None:
    came = arrived()
    assert _opened(SEALS, envelope(MESSAGE), came) == came._replace(answer=GivenAnswer("7"))
    plain = ArrivedAnswer(ADDRESS, GivenAnswer("7"))
    assert _opened(SEALS, envelope(MESSAGE), plain) is plain


@pytest.mark.parametrize(
    ("flow", "text", "why"),
    [
        (PLAIN, ENDED, "no codec is there to open it"),
        (SEALS, "no json", "Expecting value"),
        (SEALS, "[]", "no end of a run"),
        (SEALS, "[" * 200_000, "recursion|Stack overflow"),
    ],
    ids=["no codec", "no JSON", "no end", "too deep"],
)
def test_an_answer_that_cannot_be_opened_is_refused_by_its_record(flow: AnyFlow, text: str, why: str) -> None:
    with pytest.raises(EnvelopeError, match=why) as caught:
        _opened(flow, envelope(MESSAGE), arrived(text=text))
    assert (caught.value.record, caught.value.field) == ("m-1", "body")


def test_an_answer_whose_keys_are_away_is_not_refused() -> None:
    vault = Vault()
    came = arrived(Encrypted("k", data_keys=vault))
    vault.away = True

    class Away(Flow, name="orders", object_id="order_id", codec=Encrypted("k", data_keys=vault)):
        stages = SEALS.stages

    with pytest.raises(KeyUnavailable):
        _opened(Away, envelope(MESSAGE), came)


@pytest.mark.parametrize("flow", [SEALS, PLAIN])
def test_an_answer_from_outside_is_sealed_for_the_flow_that_waits(flow: AnyFlow, at: WaitScene) -> None:
    row, use = AwaitingRow("paid", ADDRESS, "price-order", START), Use("paid", "by", "who")
    send = answer_message(ExternalAnswer(flow, "paid", GivenAnswer("7")), row, START, at.services, use)
    place = json.loads(send.attributes[PLACE].value)
    assert place == {ANSWER: ADDRESS.as_json(), "use": list(use), **({"sealed": True} if flow is SEALS else {})}
    if flow is PLAIN:
        assert send.body == ENDED
        return
    body = json.loads(send.body)
    assert {name: body[name] for name in ABOUT} == ABOUT
    assert SealedEnd.read(send.body).opened(CODEC) == ENDED

"""Messages that their destinations refuse for good: parked with all that is needed to send them after all."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.errors import RunFailed, TooLarge
from flowguard.flow import Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import Kind, Send
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT, ErrorNote, Message, Place
from flowguard.worker.undeliverable import Undeliverable, bound_for, park

ERROR = ErrorNote("NotSent", "no such queue", 7)
TEN = {f"a{n}": Attribute.string("x") for n in range(10)}


class Work(Stage[dict[str, Any]], name="work"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Works(Flow, name="works", object_id="id", dead_letters="dead", retention=timedelta(days=1)):
    stages = (Work,)


MESSAGE = Message(
    "works", "work", 1, ObjectId("o1"), RequestId("r-1"), 5, "{}", hop=2, retry=3, redrive=1, reply_to="sqs:replies"
)


def place_of(letter: Send) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(letter.attributes[PLACE].value)
    return found


SIDES = [
    Send(Kind.SIDE, Queue("emails.fifo"), "text", "r-1.2.0", TEN, group="o1"),
    Send(Kind.COMPLETE, Topic("arn:aws:sns:eu-west-1:1:t"), "{}", "r-1.2.1"),
    Send(Kind.SIDE, Bus("default", "shop", "priced"), "{}", "r-1.2.2", {"b": Attribute.binary(b"\0")}),
    Send(Kind.ASK, Queue("searches"), "{}", "r-1.2.3"),
    Send(Kind.DEADLINE, Queue("answers"), "{}", "r-1.2.deadline", {REQUESTED_AT: Attribute.number(5)}),
]


@pytest.mark.parametrize("send", SIDES)
def test_a_parked_side_message_says_how_it_would_have_been_sent(send: Send) -> None:
    letter = park(Works, MESSAGE, send, ERROR)
    assert (letter.kind, letter.to, letter.body, letter.group) == (Kind.DEAD, Queue("dead"), send.body, "o1")
    assert letter.id == ("r-1.2.deadline.5.unsent" if send.kind is Kind.DEADLINE else f"{send.id}.unsent")
    place = place_of(letter)
    assert Undeliverable.parse(place["unsent"]) == Undeliverable(
        send.kind, send.to, send.id, send.attributes, send.group
    )
    assert (place["hop"], place["redrive"], place["error"]) == (2, 1, ["NotSent", "no such queue", 7])
    assert not place.keys() & {"retry", "reply_to", "last_error", "attempts", "to"}
    assert letter.attributes[REQUEST_ID].value == "r-1"
    assert Place.parse(letter.attributes[PLACE].value).is_unsent


def test_a_deadline_that_is_refused_again_after_it_was_sent_on_is_another_letter() -> None:
    first, on = (SIDES[-1]._replace(attributes={REQUESTED_AT: Attribute.number(at)}) for at in (5, 6))
    ids = [park(Works, MESSAGE, send, ERROR).id for send in (first, on, on)]
    assert ids[0] != ids[1] == ids[2]


def test_a_parked_next_hop_is_a_dead_letter_of_its_stage() -> None:
    onward = MESSAGE.next("work", '{"id":"o1"}')
    attributes = {**onward.attributes(), "tenant": Attribute.string("shop-1")}
    send = Send(Kind.NEXT, Queue("works"), onward.body, onward.hop_id, attributes, group="o1")
    letter = park(Works, MESSAGE, send, ERROR)
    place = Place.parse(letter.attributes[PLACE].value)
    assert (place.hop, place.retry, place.redrive, place.first_error) == (3, 0, 1, ERROR)
    assert (place.reply_to, place.object_id, place.version) == ("sqs:replies", "o1", 1)
    assert (place.is_unsent, place.attempts) == (False, None)
    assert place_of(letter)["to"] == "sqs:works"
    assert letter.attributes["tenant"] == Attribute.string("shop-1")
    assert (letter.kind, letter.body, letter.id) == (Kind.DEAD, onward.body, f"{onward.hop_id}.unsent")
    assert bound_for(letter.attributes) == Queue("works")


def test_a_parked_next_hop_keeps_its_version() -> None:
    onward = MESSAGE._replace(version=3).next("work", '{"id":"o1"}')
    send = Send(Kind.NEXT, Queue("works"), onward.body, onward.hop_id, onward.attributes(), group="o1")
    assert Place.parse(park(Works, MESSAGE, send, ERROR).attributes[PLACE].value).version == 3


def test_a_parked_next_hop_says_what_it_waited_for_and_whose_answer_its_run_is() -> None:
    onward = MESSAGE.next("work", "{}")._replace(resumed=True, answer_to='{"flow":"parent"}')
    send = Send(Kind.NEXT, Queue("works"), onward.body, onward.hop_id, onward.attributes(), group="o1")
    place = Place.parse(park(Works, MESSAGE, send, ERROR).attributes[PLACE].value)
    assert (place.resumed, place.answer_to) == (True, '{"flow":"parent"}')


@pytest.mark.parametrize(("said", "to"), [("{}", None), ('{"to":"sqs:works"}', Queue("works"))])
def test_a_letter_is_bound_for_where_it_says(said: str, to: Destination | None) -> None:
    assert bound_for({PLACE: Attribute.string(said)}) == to


@pytest.mark.parametrize("said", ['{"to":5}', '{"to":"smtp:me"}'])
def test_a_letter_bound_for_no_destination_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match=r"has a 'to' that is not text|is no destination"):
        bound_for({PLACE: Attribute.string(said)})


@pytest.mark.parametrize("send", SIDES)
def test_a_parked_side_message_can_be_sent_as_it_would_have_been(send: Send) -> None:
    letter = park(Works, MESSAGE, send, ERROR)
    unsent = Undeliverable.of(letter.attributes)
    assert unsent is not None
    assert unsent.send(letter.body) == send
    assert unsent.send(letter.body, Queue("elsewhere")).to == Queue("elsewhere")


def test_a_signature_covers_the_body_and_everything_that_is_said_of_it() -> None:
    one = Undeliverable(Kind.SIDE, Queue("q"), "r-1.2.0", {"a": Attribute.string("x")})
    others = (
        one._replace(kind=Kind.COMPLETE),
        one._replace(to=Queue("p")),
        one._replace(id="r-1.2.1"),
        one._replace(attributes={}),
        one._replace(group="o1"),
        one._replace(escaped=True),
    )
    covered = [one.covered("{}"), one.covered("[]"), *(other.covered("{}") for other in others)]
    assert len(set(covered)) == len(covered)


def test_a_parked_message_of_no_object_is_in_the_group_of_its_request() -> None:
    assert park(Works, MESSAGE._replace(object_id=ObjectId("")), SIDES[0], ERROR).group == "r-1"


def test_what_no_queue_takes_cannot_be_parked() -> None:
    with pytest.raises(TooLarge):
        park(Works, MESSAGE, Send(Kind.SIDE, Queue("q"), "x" * 1_048_576, "r-1.2.0"), ERROR)
    with pytest.raises(RunFailed, match="character"):
        park(Works, MESSAGE._replace(request_id=RequestId("\0")), SIDES[0], ERROR)


GOOD = Undeliverable(Kind.SIDE, Queue("q"), "r-1.2.0", {"a": Attribute.string("x")}).as_json()


def test_a_group_is_said_only_where_there_is_one() -> None:
    assert "group" not in Undeliverable(Kind.SIDE, Queue("q"), "r-1.2.0", {}).as_json()
    assert Undeliverable.parse(GOOD).group is None
    with pytest.raises(ValueError, match="group"):
        Undeliverable.parse({**GOOD, "group": 5})


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        {},
        *({name: value for name, value in GOOD.items() if name != left_out} for left_out in GOOD),
        {**GOOD, "kind": "letter"},
        {**GOOD, "kind": "dead"},
        {**GOOD, "kind": "next"},
        {**GOOD, "to": "smtp:me"},
        {**GOOD, "to": 5},
        {**GOOD, "attributes": {"a": "x"}},
        {**GOOD, "attributes": {"a": ["String"]}},
        {**GOOD, "attributes": {"a": ["String", 5]}},
        {**GOOD, "attributes": []},
    ],
)
def test_what_nobody_parked_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=r"has an 'unsent'|is no destination"):
        Undeliverable.parse(bad)


@pytest.mark.parametrize("body", ["a\0b", "\ud800", ""])
@pytest.mark.parametrize("to", [Function("f"), Bus("default", "shop", "priced")])
def test_a_body_that_no_queue_takes_is_parked_as_json_and_comes_back_as_it_was(to: Destination, body: str) -> None:
    """Functions and buses take any text. A message that could not even be parked would hold up its run."""
    send = Send(Kind.SIDE, to, body, "r-1.2.0")
    letter = park(Works, MESSAGE, send, ERROR)
    assert json.loads(letter.body) == body
    unsent = Undeliverable.of(letter.attributes)
    assert unsent is not None
    assert unsent.send(letter.body) == send
    with pytest.raises(ValueError, match="is not a JSON string"):
        unsent.send("[]")


@pytest.mark.parametrize("text", ["5", '["unsent"]', '"unsent"', "null", "[", "[" * 100_000])
def test_a_place_that_is_no_object_holds_no_message(text: str) -> None:
    assert Undeliverable.of({PLACE: Attribute.string(text)}) is None

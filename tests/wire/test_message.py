"""A stage's message: four attributes say which run, hop and attempt it is, and come back as they were."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import (
    FLOW_STAGE,
    HIGHEST_VERSION,
    LONGEST_ID,
    MOST_CARRIED,
    MOST_HOPS,
    OWN_ATTRIBUTES,
    PLACE,
    REQUEST_ID,
    REQUESTED_AT,
    ErrorNote,
    Message,
    Place,
)
from tests.sent_ids import readable

BOOM = ErrorNote("RuntimeError", "gateway down", 7)


def message(**changes: object) -> Message:
    given: dict[str, object] = {
        "flow": "validate-cart",
        "stage": "price-cart",
        "version": 1,
        "object_id": ObjectId("c-1"),
        "request_id": RequestId("r-1"),
        "requested_at": 1_000,
        "body": "{}",
    }
    return Message(**{**given, **changes})  # type: ignore[arg-type]  # a dict of mixed values


# -- what travels -----------------------------------------------------------------------------------------------------


def test_a_first_message_says_little() -> None:
    assert message().attributes() == {
        REQUEST_ID: Attribute("String", "r-1"),
        REQUESTED_AT: Attribute("Number", "1000"),
        FLOW_STAGE: Attribute("String", "validate-cart/price-cart"),
        PLACE: Attribute("String", '{"version":1,"hop":1,"object":"c-1"}'),
    }


def test_a_message_of_an_event_says_so_and_its_next_hop_does_not() -> None:
    of_event = message(is_event=True)
    assert json.loads(of_event.own_attributes()[PLACE].value)["event"] is True
    assert "event" not in of_event.next("confirm-cart", "{}").own_attributes()[PLACE].value
    assert Place.parse(of_event.own_attributes()[PLACE].value).is_event


@pytest.mark.parametrize("value", ["false", "null", "1", '"true"', "[]"])
def test_only_true_says_that_a_body_is_an_event_or_an_id_is_weak(value: str) -> None:
    place = Place.parse(f'{{"event":{value},"weak":{value}}}')
    assert (place.is_event, place.is_weak) == (False, False)
    place = Place.parse('{"event":true,"weak":true}')
    assert (place.is_event, place.is_weak) == (True, True)


def test_a_message_without_a_request_id_says_none() -> None:
    assert REQUEST_ID not in message(request_id=RequestId("")).own_attributes()


def test_four_attributes_leave_room_for_six() -> None:
    assert set(message().own_attributes()) == OWN_ATTRIBUTES
    assert len(OWN_ATTRIBUTES) + MOST_CARRIED == 10


def test_what_the_flow_carries_goes_along() -> None:
    carried = {"tenant": Attribute.string("shop-1")}
    assert message(carried=carried).attributes() == {**message().own_attributes(), **carried}


places = st.builds(
    message,
    object_id=st.text(st.characters(min_codepoint=0x20, max_codepoint=0xD7FF), max_size=300),
    version=st.integers(1, HIGHEST_VERSION),
    hop=st.integers(1, MOST_HOPS),
    retry=st.integers(0, MOST_HOPS),
    redrive=st.integers(0, MOST_HOPS),
    reply_to=st.none() | st.just("sqs:replies"),
    first_error=st.none() | st.builds(ErrorNote.storable, st.text(), st.text(), st.integers()),
)


@given(places)
def test_a_place_comes_back_as_it_was(one: Message) -> None:
    found = Place.parse(one.own_attributes()[PLACE].value)
    assert (found.object_id or "") == one.object_id
    assert (found.version, found.hop, found.retry, found.redrive) == (one.version, one.hop, one.retry, one.redrive)
    assert (found.reply_to, found.first_error) == (one.reply_to, one.first_error)


ADDRESS = '{"flow":"carts","object":"c-1"}'


@pytest.mark.parametrize("resumed", [True, False])
@pytest.mark.parametrize("answer_to", [ADDRESS, None])
def test_a_place_says_what_a_run_waited_for_and_whose_answer_it_is(resumed: bool, answer_to: str | None) -> None:
    text = message(resumed=resumed, answer_to=answer_to).own_attributes()[PLACE].value
    found = Place.parse(text)
    assert (found.resumed, found.answer_to) == (resumed, answer_to)
    assert [key for key in json.loads(text) if key in ("resumed", "answer_to")] == [
        key for key, said in (("resumed", resumed), ("answer_to", answer_to)) if said
    ]


@pytest.mark.parametrize("value", ["1", "null", "false", '"true"', "[true]"])
def test_only_true_says_that_a_hop_resumes_a_wait(value: str) -> None:
    assert not Place.parse(f'{{"resumed":{value}}}').resumed


@pytest.mark.parametrize("value", ["1", '"text"', "[]", "true", "false", json.dumps({"flow": "x" * 16_374})])
def test_an_address_is_an_object_that_is_not_too_long(value: str) -> None:
    with pytest.raises(ValueError, match=r"an 'answer_to' that is not a JSON object of at most 16,384 characters"):
        Place.parse(f'{{"answer_to":{value}}}')


def test_the_longest_address_is_read() -> None:
    longest = json.dumps({"flow": "x" * 16_373}, separators=(",", ":"))
    assert len(longest) == 16_384
    assert Place.parse(f'{{"answer_to":{longest}}}').answer_to == longest


@pytest.mark.parametrize("why", ["a mistake", None])
def test_a_place_says_why_its_request_is_cancelled(why: str | None) -> None:
    text = message(hop=1, retry=0, cancelled=why).own_attributes()[PLACE].value
    assert Place.parse(text).cancelled == why
    assert ("cancelled" in json.loads(text)) is (why is not None)


@pytest.mark.parametrize("value", ["1", "true", "[]", '""', '" "', json.dumps("x" * 401)])
def test_a_cancelled_request_has_a_reason(value: str) -> None:
    with pytest.raises(ValueError, match="whose reason is no text of at most 400 characters"):
        Place.parse(f'{{"cancelled":{value}}}')


def test_only_a_request_is_sent_as_cancelled() -> None:
    assert Place.parse('{"hop":1,"cancelled":"a mistake"}').cancelled == "a mistake"
    with pytest.raises(ValueError, match="only a request is sent as cancelled"):
        Place.parse('{"hop":2,"cancelled":"a mistake"}')


# -- the messages that come of one ------------------------------------------------------------------------------------


def test_the_next_hop_begins_anew() -> None:
    late = message(hop=2, retry=3, redrive=1, first_error=BOOM, reply_to="sqs:replies", is_event=True, resumed=True)
    late = late._replace(answer_to="{}", cancelled="a mistake")
    onward = late.next("confirm-cart", "[]")
    assert (onward.resumed, onward.answer_to, onward.cancelled) == (False, "{}", None)
    assert not onward.is_event
    assert (onward.stage, onward.body, onward.hop, onward.attempt) == ("confirm-cart", "[]", 3, (0, 0))
    assert onward.first_error is None
    assert (onward.request_id, onward.object_id, onward.reply_to) == ("r-1", "c-1", "sqs:replies")


def test_a_retry_is_the_same_hop_one_attempt_later() -> None:
    again = message(hop=2, redrive=1, retry=1).again(BOOM)
    assert (again.hop, again.attempt, again.first_error) == (2, (1, 2), BOOM)


def test_a_redrive_is_the_same_hop_from_its_first_attempt() -> None:
    redriven = message(hop=2, redrive=1, retry=4).redriven(BOOM)
    assert (redriven.hop, redriven.attempt, redriven.first_error) == (2, (2, 0), BOOM)


def test_what_is_sent_anew_has_not_been_going_back_to_its_queue() -> None:
    """The time since when is of a record, and this is another one."""
    back = message(since=5)
    for anew in (back.next("confirm", "{}"), back.again(BOOM), back.redriven(BOOM)):
        assert anew.since == 0


def test_attempts_are_ordered_by_redrive_then_retry() -> None:
    assert message(redrive=1).attempt > message(retry=9).attempt > message().attempt


def test_the_first_error_stays_the_first() -> None:
    later = ErrorNote("KeyError", "no", 9)
    assert message(first_error=BOOM).again(later).first_error == BOOM
    assert message(first_error=BOOM).redriven(later).first_error == BOOM


def test_a_message_learns_what_it_is_for() -> None:
    assert message(object_id="").for_object(ObjectId("c-9")).object_id == "c-9"


# -- errors -----------------------------------------------------------------------------------------------------------


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_an_error_is_kept_by_its_type_and_the_beginning_of_its_text() -> None:
    assert ErrorNote.of(KeyError("a"), 5) == ErrorNote("KeyError", "'a'", 5)
    assert len(ErrorNote.of(ValueError("x" * 9_999), 5).text) == 500


def test_pydantics_error_names_the_field_and_quotes_no_value() -> None:
    class Card(BaseModel):
        number: int

    with pytest.raises(ValidationError) as refused:
        Card.model_validate({"number": "4111-secret"})
    assert "secret" in str(refused.value)
    note = ErrorNote.of(refused.value, 5)
    assert (note.type, note.text[:14], "secret" in note.text) == ("ValidationError", "Card: number: ", False)


def test_an_error_is_noted_without_the_tokens_that_it_quotes_even_where_it_is_cut() -> None:
    token = f"k1.{'a' * 84}"
    for before in ("", "x" * 450):
        noted = ErrorNote.of(ValueError(f"{before} {token} is refused"), 5)
        assert noted.text == f"{before} <token> is refused"[:500]


def test_an_error_that_cannot_say_what_it_is_is_kept_by_its_type() -> None:
    assert ErrorNote.of(Unreadable(), 5) == ErrorNote("Unreadable", "(its text cannot be read)", 5)


def test_an_error_may_say_why_it_was_the_last() -> None:
    assert BOOM.because("attempt 5 of 5").text == "gateway down (attempt 5 of 5)"
    assert BOOM.because("") is BOOM


@pytest.mark.parametrize("text", ["long " * 200, "\ud800" * 200], ids=["long", "half pairs"])
def test_why_a_long_error_was_the_last_is_read_back_with_it(text: str) -> None:
    last = ErrorNote.of(ValueError(text), 7).because("attempt 5 of 5, of \ud800")
    assert last.text.endswith(r" (attempt 5 of 5, of \ud800)")
    assert len(last.text) == 500
    assert ErrorNote.storable(*last.as_json()) == last


def test_a_long_reason_leaves_room_for_the_error_itself() -> None:
    last = BOOM.because("no such queue " * 100)
    assert last.text.startswith("gateway down (no such queue ")
    assert ErrorNote.storable(*last.as_json()) == last


# -- a place that someone else wrote ----------------------------------------------------------------------------------


def test_an_empty_place_is_a_first_hop() -> None:
    assert Place.parse("{}") == Place()
    assert (Place().object_id, Place().version, Place().hop, Place().retry, Place().redrive) == (None, None, 1, 0, 0)


def test_a_key_of_a_newer_version_is_passed_over() -> None:
    assert Place.parse('{"hop":2,"colour":"red"}') == Place(hop=2)


@pytest.mark.parametrize("signature", ["k1.00", "x" * 128])
def test_a_signature_is_a_short_text(signature: str) -> None:
    assert Place.parse(message().own_attributes(signature)[PLACE].value).signature == signature
    assert Place.parse('{"sig":null}').signature is None


def test_null_is_as_good_as_nothing() -> None:
    assert Place.parse(json.dumps(dict.fromkeys([*Place._fields, "object", "error"]))) == Place()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "is not a JSON object"),
        ('{"object":7}', "has a 'object' that is not text"),
        ('{"reply_to":[]}', "has a 'reply_to' that is not text"),
        ('{"reply_to":"emails"}', "'emails' is no destination; write sqs:…, sns:…"),
        ('{"hop":0}', "has 'hop' 0; it is a whole number of at least 1"),
        ('{"hop":true}', "has 'hop' True; it is a whole number of at least 1"),
        ('{"hop":"2"}', "has 'hop' '2'; it is a whole number of at least 1"),
        ('{"version":0}', "has 'version' 0; it is a whole number of at least 1"),
        ('{"retry":-1}', "has 'retry' -1; it is a whole number of at least 0"),
        ('{"redrive":1.5}', "has 'redrive' 1.5; it is a whole number of at least 0"),
        ('{"hop":1000001}', "has 'hop' 1000001; it is at most 1,000,000"),
        ('{"retry":1000001}', "has 'retry' 1000001; it is at most 1,000,000"),
        ('{"redrive":1000001}', "has 'redrive' 1000001; it is at most 1,000,000"),
        ('{"attempts":1000001}', "has 'attempts' 1000001; it is at most 1,000,000"),
        ('{"version":1000000000000000}', "has 'version' 1000000000000000; it is at most 999,999,999,999,999"),
        (f'{{"hop":{"9" * 400}}}', f"has 'hop' {'9' * 40} …; it is at most 1,000,000"),
        (f'{{"hop":{"[" * 500}{"]" * 500}}}', "; it is a whole number of at least 1"),
        (f'{{"object":"{"x" * 1025}"}}', "has a 'object' that has 1,025 bytes of at most 1,024"),
        (f'{{"object":"{"é" * 513}"}}', "has a 'object' that has 1,026 bytes of at most 1,024"),
        ('{"object":"a\\u0000"}', "has a 'object' that has the character U+0000, which SQS refuses"),
        ('{"object":"\\ud800"}', "has a 'object' that has the character U+D800, which SQS refuses"),
        ('{"object":"\\uffff"}', "has a 'object' that has the character U+FFFF, which SQS refuses"),
        (f'{{"reply_to":"sqs:{"x" * 1025}"}}', "has a 'reply_to' that has 1,029 bytes of at most 1,024"),
        (f'{{"reply_to":"{"x" * 1000}"}}', f"'{'x' * 39} … is no destination"),
        ('{"sig":7}', "has a 'sig' that is not text of at most 128 characters"),
        (f'{{"sig":"{"x" * 129}"}}', "has a 'sig' that is not text of at most 128 characters"),
        ('{"error":"boom"}', "has an 'error' that is not [type, text, ms]"),
        ('{"error":["a","b","c"]}', "has an 'error' that is not [type, text, ms]"),
    ],
)
def test_a_place_that_cannot_be_read_says_why(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)) as caught:
        Place.parse(text)
    assert len(str(caught.value)) < 200


# -- the ids of what a hop sends (docs/decisions/0015) -----------------------------------------------------------------


def named(**changes: Any) -> str:
    first = Message("f", "s", 1, ObjectId("o1"), RequestId("r-1"), 5, "{}")
    return first._replace(**changes).hop_id


def test_a_hops_id_is_readable_and_says_a_redrive_only_after_one() -> None:
    assert readable(named()) == "r-1.1"
    assert readable(named(hop=2, retry=3)) == "r-1.2"
    assert readable(named(hop=2, redrive=1)) == "r-1.2r1"


@pytest.mark.parametrize(
    "changes", [{"flow": "g"}, {"object_id": "o2"}, {"requested_at": 6}, {"hop": 2}, {"redrive": 1}], ids=str
)
def test_flow_object_time_hop_and_redrive_each_make_another_id(changes: dict[str, Any]) -> None:
    assert named(**changes) != named()
    assert named(stage="t", version=2, body="x", retry=1, reply_to="sqs:a") == named()


def test_a_long_request_id_is_told_apart_by_the_digest_alone() -> None:
    longest_readable = RequestId("r" * (LONGEST_ID - 24 - len("-0123456789abcdef.1")))
    assert len(named(request_id=longest_readable)) == LONGEST_ID - 24
    assert named(request_id=longest_readable).startswith(longest_readable)
    longer = [named(request_id=RequestId(longest_readable + more)) for more in "ab"]
    assert [len(one) for one in longer] == [64 + len(".1")] * 2
    assert longer[0] != longer[1]


@pytest.mark.parametrize(("text", "is_unsent"), [('{"unsent":{}}', True), ('{"unsent":null}', True), ("{}", False)])
def test_a_place_says_whether_its_message_is_none_for_a_stage(text: str, is_unsent: bool) -> None:
    assert Place.parse(text).is_unsent is is_unsent

"""The outbox: what a commit has to send survives in the run item, and knows what may still be sent for whom."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.errors import RunFailed, TooLarge
from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import (
    LARGEST_SCHEDULED,
    LAST_PHASE,
    MOST_ATTRIBUTES,
    Kind,
    Outbox,
    Send,
    StoredOutbox,
    largest,
)
from flowguard.wire.attributes import Attribute
from flowguard.wire.bodies import bus_detail, function_payload

MINE, OTHER = RequestId("r-1"), RequestId("r-2")


def send(kind: Kind = Kind.SIDE, to: Destination | None = None, body: str = "{}", own: str = "r-1.1.0") -> Send:
    return Send(kind, to or Queue("emails"), body, own)


SENDS = [
    send(),
    send(to=Topic("arn:aws:sns:eu-west-1:123456789012:told"), body="", own="ж"),
    send(to=Function("arn:aws:lambda:eu-west-1:123456789012:function:f")),
    send(to=Bus("default", "shop", "told"), kind=Kind.COMPLETE),
    Send(Kind.SIDE, Queue("later"), "x", "own", {"a": Attribute.number(1), "b": Attribute.binary(b"\0")}, 900),
    Send(Kind.NEXT, Queue("carts.fifo"), "x", "own", {"a": Attribute.array([1, None])}, group="c-1"),
    Send(Kind.DEAD, Queue("dead"), "x", "own", {}, 0, "c-1"),
]


# -- one send ---------------------------------------------------------------------------------------------------------


def test_only_what_carries_the_run_goes_last() -> None:
    assert [kind for kind in Kind if kind.is_last] == [Kind.DEAD, Kind.NEXT, Kind.ASK]
    assert [kind for kind in Kind if kind.phase == LAST_PHASE] == [Kind.NEXT], "its claim clears the outbox"
    assert [kind for kind in Kind if kind.phase == 2] == [Kind.DEAD, Kind.ASK]
    assert [kind for kind in Kind if kind.phase == 1] == [Kind.DEADLINE], "its look proves that the others were sent"
    assert [kind for kind in Kind if kind.ends_with_its_run] == [Kind.NEXT, Kind.ASK, Kind.DEADLINE]


@pytest.mark.parametrize("one", SENDS)
def test_a_send_comes_back_from_its_text_as_it_was(one: Send) -> None:
    assert Send.from_json(one.as_json()) == one


def test_a_send_of_no_delay_and_no_group_says_neither() -> None:
    assert send().as_json() == ["side", "sqs:emails", "{}", "r-1.1.0", {}]


@pytest.mark.parametrize(("body", "size"), [("", 7), ("abc", 10), ("ж", 9)])
def test_a_size_is_counted_in_bytes_as_the_services_count(body: str, size: int) -> None:
    assert Send(Kind.SIDE, Queue("q"), body, "own", {"a": Attribute("String", "")}).size == size
    assert Send(Kind.SIDE, Queue("q"), body, "own").size == size - 7


@pytest.mark.parametrize("to", [Queue("q"), Topic("t")])
def test_a_message_of_one_byte_too_many_is_refused_with_its_sizes(to: Destination) -> None:
    limit = largest(to)
    assert Send(Kind.SIDE, to, "x" * limit, "own").checked().size == limit
    attributes = {"a": Attribute("String", "b")}
    with pytest.raises(TooLarge) as caught:
        Send(Kind.SIDE, to, "x" * (limit - 7), "own", attributes).checked()
    assert (caught.value.limit, caught.value.sizes) == (limit, {"body": limit - 7, "attributes": 8})
    assert str(caught.value).startswith(f"a message to {to} is too large: {limit + 1:,} bytes of at most {limit:,}")


def test_an_attribute_too_many_is_refused_by_their_names() -> None:
    attributes = {f"a{n}": Attribute.string("x") for n in range(MOST_ATTRIBUTES)}
    assert Send(Kind.SIDE, Queue("q"), "{}", "own", attributes).checked().attributes == attributes
    attributes[f"a{MOST_ATTRIBUTES}"] = Attribute.string("x")
    with pytest.raises(RunFailed, match="a message to sqs:q has 11 attributes of at most 10: a0, a1, a2"):
        Send(Kind.SIDE, Queue("q"), "{}", "own", attributes).checked()


def test_what_a_rule_sends_to_a_queue_of_the_largest_entry_fits_into_it() -> None:
    """Its form is that of the table's row ``events-form``, with the longest texts that EventBridge takes."""
    to = Bus("b", "s" * 256, '"' * 128)
    empty = Send(Kind.SIDE, to, "{}", "own").size
    body = '{"a":"' + "x" * (largest(to) - empty - len('"a":"",')) + '"}'
    send = Send(Kind.SIDE, to, body, "own").checked()
    assert send.size == largest(to) < 1_048_576
    event = {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": to.detail_type,
        "source": to.source,
        "account": "123456789012",
        "time": "2026-01-01T00:00:00Z",
        "region": "ap-southeast-12345",
        "resources": [],
        "detail": json.loads(bus_detail(send.body, {})),
    }
    assert len(json.dumps(event)) <= largest(Queue("q"))


@pytest.mark.parametrize("to", [Function("f"), Bus("b", "s", "d")])
@pytest.mark.parametrize("letter", ["x", "ж", "\ud800", '"', "\0"])
def test_where_attributes_go_into_the_text_the_size_is_that_of_the_text(to: Destination, letter: str) -> None:
    """What goes over the wire is longer than the body where its characters are escaped."""
    attributes = {"a": Attribute("String", "b")}
    empty = Send(Kind.SIDE, to, "", "own", attributes).size
    each = (Send(Kind.SIDE, to, letter * 1_000, "own", attributes).size - empty) / 1_000
    most = int((largest(to) - empty) / each)
    assert Send(Kind.SIDE, to, letter * most, "own", attributes).checked().size <= largest(to)
    with pytest.raises(TooLarge):
        Send(Kind.SIDE, to, letter * (most + 1), "own", attributes).checked()


def test_the_size_of_a_message_to_a_function_is_that_of_its_whole_record() -> None:
    attributes = {"a": Attribute.string("b")}
    text = function_payload("own", "{}", attributes)
    assert Send(Kind.SIDE, Function("f"), "{}", "own", attributes).size == len(text)


def test_a_message_sent_by_a_schedule_is_no_larger_than_a_schedule_takes() -> None:
    late = Send(Kind.SIDE, Queue("q"), "x" * LARGEST_SCHEDULED, "own", delay=901)
    assert late.checked() == late
    with pytest.raises(TooLarge, match="262,145 bytes of at most 262,144"):
        late._replace(body=late.body + "x").checked()
    assert late._replace(body=late.body + "x", delay=900).checked().delay == 900


@pytest.mark.parametrize("to", [Queue("q"), Topic("arn:aws:sns:eu-west-1:1:t")])
@pytest.mark.parametrize("character", ["\0", "\x1b", "\ud800", "\ufffe", "\uffff"])
def test_a_character_that_no_queue_takes_is_refused_by_name(to: Destination, character: str) -> None:
    with pytest.raises(RunFailed, match=f"has the character {re.escape(ascii(character))} in its body"):
        Send(Kind.SIDE, to, f"a{character}", "own").checked()
    attributes = {"tenant": Attribute.string(f"a{character}")}
    with pytest.raises(RunFailed, match=f"has the character {re.escape(ascii(character))} in the attribute 'tenant'"):
        Send(Kind.SIDE, to, "{}", "own", attributes).checked()


@pytest.mark.parametrize("character", ["\t", "\n", "\r", " ", "~", "\x7f", "\ud7ff", "\ue000", "\ufffd", "\U0010ffff"])
def test_every_other_character_is_taken(character: str) -> None:
    attributes = {"tenant": Attribute.string(character)}
    assert Send(Kind.SIDE, Queue("q"), character, "own", attributes).checked().body == character


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("tenant", "", "has the attribute 'tenant' without a value"),
        ("", "x", "has the attribute '', and a name is"),
        ("a b", "x", "has the attribute 'a b', and a name is"),
        ("AWS.x", "x", "has the attribute 'AWS.x', and a name is"),
        ("amazon.x", "x", "has the attribute 'amazon.x', and a name is"),
        (".x", "x", "has the attribute '.x', and a name is"),
        ("x..y", "x", "has the attribute 'x..y', and a name is"),
        ("x" * 257, "x", "and a name is up to 256"),
    ],
)
def test_an_attribute_that_no_queue_takes_is_refused_by_name(name: str, value: str, said: str) -> None:
    with pytest.raises(RunFailed, match=said):
        Send(Kind.SIDE, Queue("q"), "{}", "own", {name: Attribute.string(value)}).checked()


@pytest.mark.parametrize("body", ['{"total":1e999}', "[" * 100_000, '{"total":NaN}'])
def test_json_that_nobody_else_would_read_goes_to_a_bus_as_a_text(body: str) -> None:
    detail = json.loads(bus_detail(body, {"a": Attribute.string("x")}))
    assert detail == {"payload": body, "flowguard": {"a": "x"}}


def test_the_size_of_a_message_to_a_bus_of_hostile_names_can_be_counted() -> None:
    assert Send(Kind.SIDE, Bus("\ud800", "\ud800", "d"), "{}", "own").size == 3 + 1 + len('{"flowguard":{}}')


def test_the_size_of_a_message_with_a_hostile_attribute_can_be_counted() -> None:
    assert Send(Kind.SIDE, Queue("q"), "{}", "own", {"a": Attribute.string("\ud800")}).size == 2 + 1 + len("String") + 3


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("Numer", "1", "whose type 'Numer' there is not"),
        ("", "x", "whose type '' there is not"),
        ("Number", "one", "whose value is not of it"),
        ("Binary", "no base64", "whose value is not of it"),
        ("String.Array", "{}", "whose value is not of it"),
        ("String." + "x" * 250, "x", "whose type is no text of at most 256 characters"),
        ("String.\0", "x", "whose type is no text of at most 256 characters"),
    ],
)
def test_an_attribute_that_is_not_of_its_type_is_refused_by_name(kind: str, value: str, said: str) -> None:
    """Wherever it stands among the others."""
    attributes = {"good": Attribute.string("x"), "tenant": Attribute(kind, value), "last": Attribute.number(1)}
    with pytest.raises(RunFailed, match=f"has the attribute 'tenant', .*{re.escape(said)}"):
        Send(Kind.SIDE, Queue("q"), "{}", "own", attributes).checked()


@pytest.mark.parametrize("kind", ["String.ж", "String." + "x" * 249, "Number.int", "Number"])
def test_every_type_with_a_label_of_its_senders_is_taken(kind: str) -> None:
    attributes = {"tenant": Attribute(kind, "1")}
    assert Send(Kind.SIDE, Queue("q"), "{}", "own", attributes).checked().attributes == attributes


@pytest.mark.parametrize("name", ["tenant", "a.b", "A-1_", "x" * 256, "aws", "awsome.x"])
def test_every_other_name_is_taken(name: str) -> None:
    assert Send(Kind.SIDE, Queue("q"), "{}", "own", {name: Attribute.string("x")}).checked().attributes


@pytest.mark.parametrize(("to", "body"), [(Queue(""), "{}"), (Topic(""), "{}"), (Queue("q"), "")])
def test_a_message_to_nowhere_or_of_nothing_is_refused(to: Destination, body: str) -> None:
    with pytest.raises(RunFailed, match=r"names no destination|has an empty body"):
        Send(Kind.SIDE, to, body, "own").checked()


def test_a_destination_that_would_come_back_as_another_is_refused() -> None:
    """As code that nobody type-checked may write it: the outbox keeps texts."""
    to: Any = Queue(5)  # type: ignore[arg-type]  # see above
    with pytest.raises(RunFailed, match="a message to sqs:5 cannot be sent: it names no destination"):
        Send(Kind.SIDE, to, "{}", "own").checked()


@pytest.mark.parametrize("delay", [-1, 1.5, True, float("nan")])
def test_a_delay_that_is_no_number_of_seconds_is_refused(delay: Any) -> None:
    with pytest.raises(RunFailed, match="has a delay of"):
        Send(Kind.SIDE, Queue("q"), "{}", "own", delay=delay).checked()


def test_bytes_are_counted_as_they_are_and_not_as_their_base64() -> None:
    data = Attribute.binary(b"\0" * 300)
    assert Send(Kind.SIDE, Queue("q"), "{}", "own", {"a": data}).size == 2 + 1 + len("Binary") + 300


# -- a whole one ------------------------------------------------------------------------------------------------------


def test_an_outbox_comes_back_from_its_text_as_it_was() -> None:
    outbox = Outbox(MINE, 1_767_225_600_000, tuple(SENDS))
    assert Outbox.from_text(outbox.to_text()) == outbox


def test_what_this_run_sent_before_its_last_message_is_not_sent_again() -> None:
    assert Outbox(MINE, 100, tuple(SENDS)).left_by_another(MINE, not_before=0) == ()


def test_a_takeover_sends_all_of_the_other_run_but_its_next_hop() -> None:
    left = Outbox(OTHER, 100, tuple(SENDS)).left_by_another(MINE, not_before=100)
    assert left == tuple(one for one in SENDS if one.kind is not Kind.NEXT)
    assert {one.kind for one in left} == {Kind.SIDE, Kind.COMPLETE, Kind.DEAD}


def test_what_is_older_than_any_message_can_be_is_not_sent() -> None:
    assert Outbox(OTHER, 99, tuple(SENDS)).left_by_another(MINE, not_before=100) == ()


# -- one that lies outside the item -----------------------------------------------------------------------------------


class Stored:
    """The text of an outbox, and how often it was read."""

    def __init__(self) -> None:
        self.outbox = StoredOutbox(OTHER, 100, self._read)
        self.reads = 0

    def _read(self) -> str:
        self.reads += 1
        return Outbox(OTHER, 100, tuple(SENDS)).to_text()


def test_a_stored_outbox_is_read_once_and_only_when_its_sends_are_asked_for() -> None:
    stored = Stored()
    assert stored.reads == 0
    assert stored.outbox.sends == stored.outbox.sends == tuple(SENDS)
    assert stored.reads == 1


def test_a_stored_outbox_leaves_what_the_whole_one_leaves() -> None:
    whole = Outbox(OTHER, 100, tuple(SENDS))
    assert Stored().outbox.left_by_another(MINE, not_before=100) == whole.left_by_another(MINE, not_before=100)


@pytest.mark.parametrize(("request_id", "not_before"), [(OTHER, 0), (MINE, 101)])
def test_that_nothing_is_left_of_a_stored_outbox_is_known_without_reading_it(
    request_id: RequestId, not_before: int
) -> None:
    stored = Stored()
    assert stored.outbox.left_by_another(request_id, not_before) == ()
    assert stored.reads == 0

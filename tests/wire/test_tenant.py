"""What names a tenant, and where a message says it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from flowguard.aws.sender import queue_entry, topic_entry
from flowguard.destinations import Queue
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, Message, Place, place_at_depth, with_depth
from flowguard.wire.tenant import plain_id, read_tenant, tenant_in, tenant_named

LONG = "t" * 129


@pytest.mark.parametrize("text", ["acme", "t" * 128, "a!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"])
def test_a_text_that_sqs_takes_is_the_group(text: str) -> None:
    assert plain_id(text) == tenant_named(text) == read_tenant(text) == text


@pytest.mark.parametrize("text", ["two words", "Müller", LONG, "a\n", "\ud800"])
def test_of_another_text_the_digest_is_the_group(text: str) -> None:
    assert plain_id(text) == tenant_named(text) == hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@pytest.mark.parametrize("value", [None, 7, "", "two words", LONG, ["acme"], {"a": 1}])
def test_what_is_no_group_of_sqs_is_no_tenant(value: Any) -> None:
    assert read_tenant(value) is None


def test_no_text_names_no_tenant() -> None:
    assert tenant_named(None) is tenant_named("") is None


@pytest.mark.parametrize(
    ("place", "tenant"),
    [
        ('{"tenant":"acme"}', "acme"),
        ('{"hop":2,"tenant":"acme","sig":"x"}', "acme"),
        ('{"answer":{"flow":"a"},"tenant":"acme"}', "acme"),
        ('{"answer":{"tenant":"acme"}}', None),
        ('{"tenant":7}', None),
        ('{"tenant":"two words"}', None),
        ('["tenant":', None),
        ('[{"tenant":"acme"}]', None),
        ('{"tenant":' + "[" * 100_000, None),
        ("{}", None),
    ],
)
def test_flowguards_own_attribute_says_the_tenant(place: str, tenant: str | None) -> None:
    assert tenant_in(Attribute.string(place)) == tenant


def test_no_attribute_says_no_tenant() -> None:
    assert tenant_in(None) is None


def test_a_place_without_a_tenant_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.wire.tenant.json", None)
    assert tenant_in(FIRST.own_attributes()[PLACE]) is None


def test_a_message_says_its_tenant_and_passes_it_on() -> None:
    of_acme = FIRST._replace(tenant="acme")
    for message in (of_acme, of_acme.next("after", "{}"), of_acme.for_object(ObjectId("o2"), "other")):
        assert Place.parse(message.own_attributes()[PLACE].value).tenant == "acme"
    assert FIRST.for_object(ObjectId("o2"), "other").tenant == "other"
    assert FIRST.for_object(ObjectId("o2")).tenant is None


def test_a_place_with_a_wrong_tenant_is_still_a_place() -> None:
    place = Place.parse('{"hop":3,"tenant":["acme"]}')
    assert (place.hop, place.tenant) == (3, None)


def test_what_may_become_a_request_says_its_tenant() -> None:
    assert place_at_depth(2, "acme")[PLACE].value == '{"depth":2,"tenant":"acme"}'
    assert place_at_depth(2, None)[PLACE].value == '{"depth":2}'
    full = {f"a{n}": Attribute.string("x") for n in range(10)}
    assert with_depth(full, 2, "acme") == full
    assert PLACE in with_depth(dict(list(full.items())[:9]), 2, "acme")


def test_only_a_tenant_is_a_group_on_a_standard_queue_or_topic() -> None:
    place = place_at_depth(1, "acme")
    for entry in (queue_entry, topic_entry):
        assert entry(0, SEND, fifo=False).get("MessageGroupId") is None, "an object is no tenant"
        assert entry(0, SEND._replace(tenant="acme"), fifo=False)["MessageGroupId"] == "acme"
        assert entry(0, SEND._replace(attributes=place), fifo=False)["MessageGroupId"] == "acme"
        assert entry(0, SEND._replace(attributes=place, tenant="own"), fifo=False)["MessageGroupId"] == "own"
        assert entry(0, SEND._replace(attributes=place), fifo=True)["MessageGroupId"] == "o1"
        assert "MessageDeduplicationId" not in entry(0, SEND._replace(tenant="acme"), fifo=False)


FIRST = Message("a", "first", 1, ObjectId("o1"), RequestId("r1"), 1, "{}")
SEND = Send(Kind.SIDE, Queue("a"), "{}", "m1", group="o1")

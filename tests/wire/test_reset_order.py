"""The order to reset a run: what is written is read again, and what is no order is left to other readers."""

from __future__ import annotations

import json

import pytest

from flowguard.clock import ManualClock
from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.wire.reset_order import read_reset, reset_attributes
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner

ORDER = AnswerAddress("orders", ObjectId("o1"), RequestId("reset-1"), 1_800_000_000_000, 1, "reset")
SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))


def test_an_order_is_read_as_it_was_written_and_is_a_message_of_its_own() -> None:
    attributes = reset_attributes("orders", ObjectId("o1"), "reset-1", 1_800_000_000_000, UNSIGNED)
    assert read_reset(attributes[PLACE].value) == ORDER
    assert (attributes[REQUEST_ID], attributes[REQUESTED_AT]) == (
        Attribute.string("reset-1"),
        Attribute.number(1_800_000_000_000),
    )


def test_the_signature_of_an_order_covers_all_that_it_says() -> None:
    attributes = reset_attributes("orders", ObjectId("o1"), "reset-1", 1_800_000_000_000, SIGNER)
    found = read_reset(attributes[PLACE].value)
    assert found is not None
    assert SIGNER.problem(found.statement, found.signature) is None
    assert SIGNER.problem(found._replace(object_id=ObjectId("o2")).statement, found.signature) is not None


@pytest.mark.parametrize(
    "place",
    ["", "{}", '{"hop":2}', '{"reset"', '{"reset":', '["reset"]', '"reset"', '{"reset":5}', '{"name":"reset"}'],
)
def test_what_is_no_order_is_left_to_other_readers(place: str) -> None:
    assert read_reset(place) is None


def test_a_place_that_is_too_deep_to_be_read_is_no_order() -> None:
    assert read_reset('{"reset":' + "[" * 200_000) is None


def test_an_order_has_the_name_of_orders_whatever_it_says() -> None:
    """Otherwise its signature could be taken for that of an answer."""
    assert read_reset(json.dumps({"reset": {**ORDER.as_json(), "name": "priced"}})) == ORDER


def test_an_order_that_lacks_something_says_what() -> None:
    said = ORDER.as_json()
    del said["object"]
    with pytest.raises(ValueError, match="without 'object'"):
        read_reset(json.dumps({"reset": said}))

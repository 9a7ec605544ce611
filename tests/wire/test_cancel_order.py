"""The order to cancel a run: what is written is read again, and what is no order is left to other readers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.cancel_order import CancelOrder, cancel_attributes, read_cancel
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, Signer

AT = 1_800_000_000_000
ORDER = CancelOrder(AnswerAddress("orders", ObjectId("o1"), RequestId("cancel-1"), AT, 1, "cancel"), "a mistake")
SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))


def written(signer: Signer = UNSIGNED) -> dict[str, Attribute]:
    return cancel_attributes("orders", "price-order", ObjectId("o1"), "cancel-1", AT, "a mistake", signer)


def test_an_order_is_read_as_it_was_written_and_is_a_message_of_its_own() -> None:
    attributes = written()
    assert read_cancel(attributes[PLACE].value) == ORDER
    assert (attributes[REQUEST_ID], attributes[REQUESTED_AT], attributes[FLOW_STAGE]) == (
        Attribute.string("cancel-1"),
        Attribute.number(AT),
        Attribute.string("orders/price-order"),
    )


def test_the_signature_of_an_order_covers_all_that_it_says() -> None:
    found = read_cancel(written(SIGNER)[PLACE].value)
    assert found is not None
    signature = found.address.signature
    assert SIGNER.problem(found.statement, signature) is None
    other = found.address._replace(object_id=ObjectId("o2"))
    assert SIGNER.problem(found._replace(address=other).statement, signature) is not None
    assert SIGNER.problem(found._replace(why="not at all").statement, signature) is not None
    assert SIGNER.problem(found.address.statement, signature) is not None, "it is no address of an answer"


@pytest.mark.parametrize(
    "place",
    ["", "{}", '{"hop":2}', '{"cancel"', '{"cancel":', '["cancel"]', '"cancel"', '{"cancel":5}', '{"name":"cancel"}'],
)
def test_what_is_no_order_is_left_to_other_readers(place: str) -> None:
    assert read_cancel(place) is None


def test_a_place_that_is_too_deep_to_be_read_is_no_order() -> None:
    assert read_cancel('{"cancel":' + "[" * 200_000) is None


def test_an_order_has_the_name_of_orders_whatever_it_says() -> None:
    """Otherwise its signature could be taken for that of an answer."""
    assert read_cancel(json.dumps({"cancel": {**ORDER.address.as_json(), "name": "priced", "why": ORDER.why}})) == ORDER


def test_an_order_that_lacks_something_says_what() -> None:
    said = {**ORDER.address.as_json(), "why": "a mistake"}
    del said["object"]
    with pytest.raises(ValueError, match="without 'object'"):
        read_cancel(json.dumps({"cancel": said}))


@pytest.mark.parametrize("why", [None, 7, "", " "])
def test_an_order_without_a_reason_is_broken(why: Any) -> None:
    with pytest.raises(ValueError, match="whose reason is no text"):
        read_cancel(json.dumps({"cancel": {**ORDER.address.as_json(), "why": why}}))

"""Orders to cancel, carried out one by one: what each changes and sends. Whole runs: runtime/test_cancelled.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowguard.clock import ManualClock
from flowguard.errors import EnvelopeError, Untrusted
from flowguard.events import EventType
from flowguard.ids import ObjectId
from flowguard.protocol.run import RunItem
from flowguard.testing import sqs_event
from flowguard.wire.attributes import Attribute
from flowguard.wire.cancel_order import cancel_attributes
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, Signer
from flowguard.worker.cancelling import Canceller, find_cancel
from flowguard.worker.ending import Ending
from tests.scene import START, Scene, scene
from tests.waits import DEADLINE, WaitScene, wait_scene

SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))
OTHERS = KeySigner(Keyring(lambda: Keys.parse("k1:" + "y" * 32), ManualClock()))


def record(attributes: dict[str, Attribute]) -> Envelope:
    [found] = normalize(sqs_event("price-order", "{}", attributes=attributes))
    assert isinstance(found, Envelope)
    return found


def order(signer: Signer = UNSIGNED, *, object_id: str = "o1", flow: str = "orders", at: int = START) -> Envelope:
    return record(cancel_attributes(flow, "price-order", ObjectId(object_id), "cancel-1", at, "a mistake", signer))


def ending(at: Scene | WaitScene, brought: Envelope, signer: Signer = UNSIGNED) -> Ending:
    found = find_cancel(brought)
    assert found is not None
    services = at.handler._services if isinstance(at, Scene) else at.services
    return Canceller(replace(services, signer=signer)).ending(brought, at.flow, found)


def item(at: Scene) -> RunItem:
    found = at.item()
    assert found is not None
    return found


@pytest.mark.parametrize("attributes", [{}, {PLACE: Attribute.string('{"hop":2}')}])
def test_a_message_that_is_no_order_is_none(attributes: dict[str, Attribute]) -> None:
    assert find_cancel(record(attributes)) is None


def test_an_order_that_cannot_be_read_is_named_with_its_record() -> None:
    broken = record({PLACE: Attribute.string('{"cancel":{"flow":"orders"}}')})
    with pytest.raises(EnvelopeError, match="without 'object'") as caught:
        find_cancel(broken)
    assert broken.message_id in str(caught.value)


def test_a_run_is_cancelled_and_its_own_message_ends_it() -> None:
    with scene() as at:
        at.deliver(at.message())
        brought = order()
        assert ending(at, brought) == Ending(brought, ack=True)
        assert item(at).cancelled_because == "a mistake"
        [told] = [event for event in at.tally.events if event.type is EventType.WAS_CANCELLED]
        assert told.facts == {"by": "cancel-1"}


def test_an_order_that_comes_twice_changes_nothing_more() -> None:
    with scene() as at:
        at.deliver(at.message())
        ending(at, order())
        first = at.item()
        ending(at, order())
        assert at.item() == first


def test_where_there_is_no_run_or_a_later_one_nothing_is_changed() -> None:
    with scene() as at:
        assert ending(at, order()).sends == ()
        assert at.item() is None
        at.deliver(at.message(requested_at=START + 1))
        before = at.item()
        assert ending(at, order()).sends == ()
        assert at.item() == before
        assert at.told(EventType.WAS_CANCELLED) == 0


def test_of_a_run_that_waits_each_copy_of_the_order_sends_the_message_that_ends_it() -> None:
    with wait_scene() as at:
        at.begin()
        brought = order(object_id="c1", flow="carts", at=DEADLINE)
        first = ending(at, brought)
        [send] = first.sends
        assert first.arrival is not None
        assert (first.ack, first.envelope, send.id) == (True, brought, first.arrival.message.hop_id)
        assert ending(at, brought) == first


@pytest.mark.parametrize("signer", [UNSIGNED, OTHERS], ids=["nobody", "a stranger"])
def test_where_messages_are_signed_an_order_of_a_stranger_changes_nothing(signer: Signer) -> None:
    with scene() as at:
        at.deliver(at.message())
        with pytest.raises(Untrusted, match="an order to cancel: "):
            ending(at, order(signer), SIGNER)
        assert item(at).cancelled_because is None


@pytest.mark.parametrize(("by", "asked"), [(SIGNER, SIGNER), (SIGNER, UNSIGNED), (UNSIGNED, UNSIGNED)])
def test_an_order_that_is_signed_or_need_not_be_is_carried_out(by: Signer, asked: Signer) -> None:
    with scene() as at:
        at.deliver(at.message())
        ending(at, order(by), asked)
        assert item(at).cancelled_because == "a mistake"

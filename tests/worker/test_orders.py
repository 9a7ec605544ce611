"""Orders of a time of their own, which says how long copies of them count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from flowguard.errors import EnvelopeError, TooEarly
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.run_orders import ANSWER, cancel_attributes, order_attributes, read_order, reset_attributes
from flowguard.testing import sqs_event
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.signing import UNSIGNED
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.orders import Orders
from flowguard.worker.record_sources import NamedQueues
from flowguard.worker.routing import CLOCKS_DIFFER_BY_MS
from flowguard.worker.trust import STRICT
from tests.scene import Scene, scene
from tests.worker.runtime.test_resets import triggered_cache

DAY: Final = 86_400_000


def cancel(at: int) -> dict[str, Attribute]:
    return cancel_attributes("orders", "price-order", ObjectId("o1"), "by-1", at, "a mistake", UNSIGNED)


def reset(at: int) -> dict[str, Attribute]:
    return reset_attributes("orders", ObjectId("o1"), "by-1", at, UNSIGNED)


def ending(at: Scene, attributes: dict[str, Attribute], body: str = "{}") -> Ending:
    [brought] = normalize(sqs_event("price-order", body, attributes=attributes))
    assert isinstance(brought, Envelope)
    order, services = read_order(brought), at.handler._services
    assert order is not None
    orders = Orders(services, Emitter(services.observer), STRICT, NamedQueues([at.flow]))
    return orders.ending(brought, at.flow, order)


def item(at: Scene) -> RunItem:
    found = at.item()
    assert found is not None
    return found


@pytest.mark.parametrize("order", [cancel, reset])
@pytest.mark.parametrize(("ahead", "error"), [(1, TooEarly), (DAY + 1, EnvelopeError), (10**12, EnvelopeError)])
def test_an_order_of_the_future_changes_nothing(
    order: Callable[[int], dict[str, Attribute]], ahead: int, error: type[EnvelopeError]
) -> None:
    """Its row would be there for years, and a copy of it would cancel whatever run has the object then."""
    with scene(triggered_cache) as at:
        at.deliver(at.message())
        before = item(at)
        time = at.clock.now() + (CLOCKS_DIFFER_BY_MS if error is TooEarly else 0) + ahead
        with pytest.raises(EnvelopeError, match="ahead; is the sender's clock right") as caught:
            ending(at, order(time))
        assert caught.type is error
        assert item(at) == before


def test_an_answer_says_the_time_of_its_run_which_is_not_judged() -> None:
    """Of a run that was asked for by a fast clock, it comes to a function whose own clock is right."""
    with scene(triggered_cache) as at:
        address = AnswerAddress("orders", ObjectId("o1"), RequestId("run-1"), at.clock.now() + DAY, 1, "a")
        answer = order_attributes("m-1", at.clock.now(), {ANSWER: address.as_json()})
        assert ending(at, answer, '{"status":"COMPLETED","result":1}').ack


@pytest.mark.parametrize("order", [cancel, reset])
def test_an_order_of_a_clock_that_is_a_little_fast_is_carried_out(order: Callable[[int], dict[str, Attribute]]) -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message())
        assert ending(at, order(at.clock.now() + CLOCKS_DIFFER_BY_MS)).ack
        assert item(at).status is Status.RUNNING
        assert item(at).cancelled_because == "a mistake" or item(at).reset_at

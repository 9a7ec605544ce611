"""Orders to reset, carried out one by one: what each changes, sends and says. Whole runs: runtime/test_resets.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.errors import EnvelopeError, RunFailed, Untrusted
from flowguard.events import EventType
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run_orders import ResetOrder, read_order, reset_attributes
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.testing import sqs_event
from flowguard.verdicts import ResetVerdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, Signer
from flowguard.worker.ending import Ending
from flowguard.worker.lifetimes import Lifetimes
from flowguard.worker.record_sources import NamedQueues
from flowguard.worker.resets import GOOD_FOR, Resetter
from flowguard.worker.routing import CLOCKS_DIFFER_BY_MS
from flowguard.worker.trust import Trust
from tests.scene import START, Orders, Scene, scene
from tests.worker.runtime.mishaps import Died
from tests.worker.runtime.test_resets import built, triggered_cache, work_off

NOW = START + 1_000
SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))
OTHERS = KeySigner(Keyring(lambda: Keys.parse("k1:" + "y" * 32), ManualClock()))


def record(attributes: dict[str, Attribute]) -> Envelope:
    [found] = normalize(sqs_event("price-order", "{}", attributes=attributes))
    assert isinstance(found, Envelope)
    return found


def order(signer: Signer = UNSIGNED, *, when: int = NOW, by: str = "reset-1") -> Envelope:
    return record(reset_attributes("orders", ObjectId("o1"), by, when, signer))


def ending(at: Scene, brought: Envelope, signer: Signer = UNSIGNED) -> Ending:
    found = read_order(brought)
    assert isinstance(found, ResetOrder)
    Trust(signer).check_order(brought, at.flow, found, NamedQueues([at.flow]))
    return Resetter(at.handler._services._replace(signer=signer)).ending(brought, at.flow, found)


# -- what is an order


@pytest.mark.parametrize("attributes", [{}, {PLACE: Attribute.string('{"hop":2}')}])
def test_a_message_that_is_no_order_is_none(attributes: dict[str, Attribute]) -> None:
    assert read_order(record(attributes)) is None


def test_an_order_that_cannot_be_read_is_named_with_its_record() -> None:
    broken = record({PLACE: Attribute.string('{"reset":{"flow":"orders"}}')})
    with pytest.raises(EnvelopeError, match="without 'object'") as caught:
        read_order(broken)
    assert broken.message_id in str(caught.value)


# -- what it changes


def test_a_run_at_work_begins_anew_with_one_message_which_each_copy_of_the_order_sends_again() -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message())
        brought = order()
        first = ending(at, brought)
        assert first.arrival is not None
        [send] = first.sends
        assert (first.ack, first.verdict, first.envelope) == (True, ResetVerdict.RESTARTED, brought)
        assert (send.body, send.id) == (at.message().body, first.arrival.message.hop_id)
        assert ending(at, brought) == first


@pytest.mark.parametrize("asked_for", [NOW - 60_000, NOW + 60_000], ids=["before it came", "by a clock that is fast"])
def test_an_order_counts_from_its_arrival_and_never_from_before_it_was_given(asked_for: int) -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message())
        at.clock.advance(ms=NOW - at.clock.now())
        ending(at, order(when=asked_for))
        item = at.item()
        assert item is not None
        assert item.reset_at == max(asked_for, NOW)


DAY = GOOD_FOR // timedelta(milliseconds=1)


def asks(at: Scene, asked_for: int, *, at_work: bool) -> None:
    """A run is asked for at this moment. It is at work, or has ended."""
    at.clock.advance(ms=asked_for - at.clock.now())
    at.deliver(at.message(request_id=RequestId("run-2"), requested_at=asked_for))
    if not at_work:
        work_off(at)
    at.clock.advance(seconds=1)


@pytest.mark.parametrize("at_work", [False, True])
@pytest.mark.parametrize("later", [2, 60_000, DAY])
def test_an_order_that_somebody_sends_again_resets_nothing(later: int, at_work: bool) -> None:
    """Another order came between, so the item does not know the first one any more."""
    with scene(triggered_cache) as at:
        built(at)
        old, newer = order(), order(by="reset-2", when=NOW + 1)
        at.clock.advance(ms=NOW + 1 - at.clock.now())
        assert [ending(at, brought).verdict for brought in (old, newer)] == [ResetVerdict.DROPPED] * 2
        asks(at, NOW + later, at_work=at_work)
        before = at.item()
        assert [ending(at, brought).verdict for brought in (old, newer, old)] == [ResetVerdict.NOTHING] * 3
        assert at.item() == before


def test_an_order_that_came_when_there_was_nothing_to_reset_resets_nothing_later() -> None:
    with scene(triggered_cache) as at:
        at.clock.advance(ms=NOW - at.clock.now())
        assert [ending(at, order()).verdict for _ in range(2)] == [ResetVerdict.NOTHING] * 2
        asks(at, NOW + 60_000, at_work=False)
        before = at.item()
        assert ending(at, order()).verdict is ResetVerdict.NOTHING
        assert at.item() == before


@pytest.mark.parametrize("at_work", [False, True])
@pytest.mark.parametrize("later", [0, 1])
def test_an_order_that_comes_late_resets_nothing_that_was_asked_for_since(later: int, at_work: bool) -> None:
    with scene(triggered_cache) as at:
        asks(at, NOW + DAY + later, at_work=at_work)
        before = at.item()
        did = ResetVerdict.RESTARTED if at_work else ResetVerdict.DROPPED
        assert ending(at, order()).verdict is (ResetVerdict.NOTHING if later else did)
        assert (at.item() == before) is bool(later)


@pytest.mark.parametrize(("later", "is_reset"), [(0, False), (-1, True)])
def test_an_order_is_remembered_as_long_as_it_counts(later: int, is_reset: bool) -> None:
    with scene(triggered_cache) as at:
        built(at)
        copies = Lifetimes(at.flow).copies
        at.clock.advance(ms=NOW + copies + later - at.clock.now())
        assert ending(at, order()).verdict is (ResetVerdict.DROPPED if is_reset else ResetVerdict.NOTHING)
        rows = [
            one for one in at.aws.client("dynamodb").scan(TableName="flowguard")["Items"] if one["sk"]["S"] != "run"
        ]
        assert [int(one["ttl"]["N"]) for one in rows] == [
            (NOW + copies + later + copies + CLOCKS_DIFFER_BY_MS) // 1000
        ] * is_reset


def test_a_worker_whose_clock_is_slow_finds_an_order_remembered_that_it_still_believes() -> None:
    with scene(triggered_cache) as at:
        built(at)
        at.clock.advance(ms=NOW - at.clock.now())
        for brought in (order(), order(by="reset-2", when=NOW)):
            ending(at, brought)
        copies, dynamodb = Lifetimes(at.flow).copies, at.aws.client("dynamodb")
        at.clock.advance(ms=copies - 1)
        asks(at, NOW + 60_000, at_work=False)
        at.clock.advance(ms=NOW + copies - 1 - at.clock.now())
        expire(dynamodb, at.clock.now() + SLOW)
        before = at.item()
        assert ending(at, order()).verdict is ResetVerdict.NOTHING
        assert at.item() == before


SLOW = 14 * 60_000


def expire(dynamodb: Any, now: int) -> None:
    """Remove the rows of orders that DynamoDB may remove by its own clock."""
    for one in dynamodb.scan(TableName="flowguard")["Items"]:
        if one["sk"]["S"] != "run" and int(one["ttl"]["N"]) * 1_000 <= now:
            dynamodb.delete_item(TableName="flowguard", Key={name: one[name] for name in ("pk", "sk")})


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["TransactWriteItems", "GetItem"])
def test_whenever_its_function_dies_an_order_is_carried_out_once(operation: str, after: bool) -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message())

        def dies(call: ApiCall, proceed: Proceed, /) -> Response:
            if call.operation == operation and not after:
                raise Died
            answer = proceed()
            if call.operation == operation:
                raise Died
            return answer

        with intercept(dies), pytest.raises(Died):
            ending(at, order())
        first = ending(at, order())
        assert (first.verdict, len(first.sends)) == (ResetVerdict.RESTARTED, 1)
        item = at.item()
        assert ending(at, order()) == first
        assert at.item() == item


def test_a_run_whose_request_lies_ahead_is_as_good_as_reset() -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message(requested_at=NOW + 600_000))
        at.clock.advance(ms=NOW - at.clock.now())
        assert ending(at, order()).verdict is ResetVerdict.NOTHING


def test_an_order_whose_makers_clock_is_fast_counts_from_its_own_time_on() -> None:
    with scene(triggered_cache) as at:
        built(at)
        ahead = NOW + 10 * GOOD_FOR // timedelta(milliseconds=1)
        assert ending(at, order(when=ahead)).verdict is ResetVerdict.DROPPED
        item = at.item()
        assert item is not None
        assert item.reset_at == ahead


def test_a_result_is_dropped_and_nothing_is_sent() -> None:
    with scene(triggered_cache) as at:
        built(at)
        brought = order()
        assert ending(at, brought) == Ending(brought, ack=True, verdict=ResetVerdict.DROPPED)


def test_where_there_is_no_run_nothing_is_changed_and_nothing_told() -> None:
    with scene(triggered_cache) as at:
        brought = order()
        assert ending(at, brought) == Ending(brought, ack=True, verdict=ResetVerdict.NOTHING)
        assert (at.item(), at.told(EventType.WAS_RESET)) == (None, 0)


def test_a_first_hop_at_work_is_fenced_and_its_own_message_begins_anew() -> None:
    """Its item still has the first message of a run that was abandoned: that work is not to begin again."""
    with scene(triggered_cache) as at:
        at.deliver(at.message())
        at.clock.advance(seconds=86_400 + 31)
        now = at.clock.now()
        brought, endings = order(when=now), []
        at.script.pricing = lambda step: endings.append(ending(at, brought))
        assert at.deliver(at.message(request_id=RequestId("run-2"), requested_at=now)) == [False]
        assert endings == [Ending(brought, ack=True, verdict=ResetVerdict.RESTARTED)]


def test_an_observer_is_told_which_run_was_reset_by_what() -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message())
        ending(at, order())
        [told] = [event for event in at.tally.events if event.type is EventType.WAS_RESET]
        assert told.facts == {"verdict": "RESTARTED", "by": "reset-1"}
        assert told.message is not None
        assert (told.message.request_id, told.message.hop) == ("run-1", 1)


def test_a_flow_that_takes_no_callers_has_nothing_to_reset_and_says_the_cure() -> None:
    with scene() as at, pytest.raises(RunFailed, match="say on_conflict=ATTACH or keep_result="):
        Resetter(at.handler._services).reset(Orders, ObjectId("o1"), RequestId("reset-1"), NOW)


# -- who may order it


@pytest.mark.parametrize("signer", [UNSIGNED, OTHERS], ids=["nobody", "a stranger"])
def test_where_messages_are_signed_an_order_of_a_stranger_changes_nothing(signer: Signer) -> None:
    with scene(triggered_cache) as at:
        at.flow.trust_senders = False
        built(at)
        with pytest.raises(Untrusted, match="an order to reset: "):
            ending(at, order(signer), SIGNER)
        item = at.item()
        assert item is not None
        assert item.reset_at is None


@pytest.mark.parametrize(("by", "asked"), [(SIGNER, SIGNER), (SIGNER, UNSIGNED), (UNSIGNED, UNSIGNED)])
def test_an_order_that_is_signed_or_need_not_be_is_carried_out(by: Signer, asked: Signer) -> None:
    with scene(triggered_cache) as at:
        built(at)
        assert ending(at, order(by), asked).verdict is ResetVerdict.DROPPED

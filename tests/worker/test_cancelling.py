"""Orders to cancel, carried out one by one: what each changes and sends. Whole runs: runtime/test_cancelled.py."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.errors import EnvelopeError, OtherRelease, Untrusted
from flowguard.events import EventType
from flowguard.flow import Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import Refused, RunItem, RunName, Status
from flowguard.protocol.run_orders import CancelOrder, cancel_attributes, read_order
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.testing import sqs_event
from flowguard.verdicts import Verdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE, ErrorNote
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, Signer
from flowguard.worker.cancelling import Canceller, is_for_its_run
from flowguard.worker.ending import Ending
from flowguard.worker.lifetimes import Lifetimes
from flowguard.worker.record_sources import NamedQueues
from flowguard.worker.routing import Arrival
from flowguard.worker.trust import Trust
from tests.protocol.run_items import run_item
from tests.scene import START, Scene, scene
from tests.waits import DEADLINE, Late, WaitScene, wait_scene
from tests.worker.runtime.mishaps import Died, boom, die
from tests.worker.runtime.test_resets import triggered_cache

SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))
OTHERS = KeySigner(Keyring(lambda: Keys.parse("k1:" + "y" * 32), ManualClock()))


def record(attributes: dict[str, Attribute], queue: str = "price-order") -> Envelope:
    [found] = normalize(sqs_event(queue, "{}", attributes=attributes))
    assert isinstance(found, Envelope)
    return found


def order(signer: Signer = UNSIGNED, *, object_id: str = "o1", flow: str = "orders", at: int = START) -> Envelope:
    attributes = cancel_attributes(flow, "price-order", ObjectId(object_id), "cancel-1", at, "a mistake", signer)
    return record(attributes, "price-order" if flow == "orders" else flow)


def ending(at: Scene | WaitScene, brought: Envelope, signer: Signer = UNSIGNED) -> Ending:
    found = read_order(brought)
    assert isinstance(found, CancelOrder)
    Trust(signer).check_order(brought, at.flow, found, NamedQueues([at.flow]))
    services = at.handler._services if isinstance(at, Scene) else at.services
    return Canceller(services._replace(signer=signer)).ending(brought, at.flow, found)


def item(at: Scene) -> RunItem:
    found = at.item()
    assert found is not None
    return found


@pytest.mark.parametrize("attributes", [{}, {PLACE: Attribute.string('{"hop":2}')}])
def test_a_message_that_is_no_order_is_none(attributes: dict[str, Attribute]) -> None:
    assert read_order(record(attributes)) is None


def test_an_order_that_cannot_be_read_is_named_with_its_record() -> None:
    broken = record({PLACE: Attribute.string('{"cancel":{"flow":"orders"}}')})
    with pytest.raises(EnvelopeError, match="without 'object'") as caught:
        read_order(broken)
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


@pytest.mark.parametrize(("later", "is_cancelled"), [(0, False), (-1, True)])
def test_an_order_that_is_older_than_any_of_its_copies_cancels_nothing(later: int, is_cancelled: bool) -> None:
    with scene() as at:
        at.deliver(at.message(requested_at=START))
        brought = order()
        at.clock.advance(ms=START + Lifetimes(at.flow).copies + later - at.clock.now())
        assert ending(at, brought) == Ending(brought, ack=True)
        assert (item(at).cancelled_because == "a mistake") is is_cancelled


def test_an_order_that_is_sent_again_cancels_no_run_but_its_own() -> None:
    """Also one that was asked for before the order was given, and has the object only since."""
    with scene() as at:
        at.deliver(at.message())
        ending(at, order())
        at.deliver(at.newer())
        before = item(at)
        assert (before.request_id, before.requested_at < START) == ("run-2", True)
        assert ending(at, order()) == Ending(order(), ack=True)
        assert item(at) == before
        assert at.told(EventType.WAS_CANCELLED) == 1


def test_nor_where_the_clock_of_its_worker_is_slow_and_its_row_has_expired_by_that_of_dynamodb() -> None:
    with scene() as at:
        at.deliver(at.message())
        ending(at, order())
        at.deliver(at.newer())
        before, slow = item(at), 14 * 60_000
        at.clock.advance(ms=Lifetimes(at.flow).of_order(START) - 1 - at.clock.now())
        dynamodb = at.aws.client("dynamodb")
        [row] = [one for one in dynamodb.scan(TableName="flowguard")["Items"] if one["sk"]["S"] != "run"]
        if int(row["ttl"]["N"]) * 1_000 <= at.clock.now() + slow:
            dynamodb.delete_item(TableName="flowguard", Key={name: row[name] for name in ("pk", "sk")})
        ending(at, order())
        assert item(at) == before


def test_nor_does_one_that_came_when_there_was_no_run_or_another_order_of_its_id_or_time() -> None:
    with scene() as at:
        ending(at, order())
        at.deliver(at.message())
        before = item(at)
        ending(at, order())
        assert item(at) == before
        assert ending(at, order(at=START + 1)).ack
        assert item(at).cancelled_because == "a mistake", "another order is none that came before"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_whenever_its_function_dies_an_order_is_for_the_run_that_it_met(number: int, after: bool) -> None:
    with scene() as at:
        at.deliver(at.message())
        with intercept(dies_at_update(number, after=after)), pytest.raises(Died):
            ending(at, order())
        assert ending(at, order()).ack
        assert item(at).cancelled_because == "a mistake"


def dies_at_update(number: int, *, after: bool) -> Any:
    calls = itertools.count(1)

    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "UpdateItem" or next(calls) != number:
            return proceed()
        if after:
            proceed()
        raise Died

    return interceptor


def met(at: Scene, by: str = "cancel-1", given: int = START) -> RunName | None:
    cancellations = at.handler._services.store.cancellations
    return cancellations.run_of("orders", ObjectId("o1"), RunName(RequestId(by), given), START)


def test_an_order_is_for_the_run_that_has_the_object_and_goes_on() -> None:
    with scene() as at:
        assert met(at, "before it") is None
        assert met(at, "before it") is None, "which its copy reads"
        at.deliver(at.message())
        first = at.message()
        assert met(at) == met(at) == (first.request_id, first.requested_at)
        assert met(at, given=first.requested_at) == (first.request_id, first.requested_at)
        assert met(at, given=first.requested_at - 1) is None, "it was asked for later"
        at.deliver(at.second())
        assert item(at).status is Status.COMPLETED
        assert met(at, "after it") is None
        assert met(at) == (first.request_id, first.requested_at), "whatever has become of it"


@pytest.mark.parametrize("is_committed", [False, True])
def test_an_order_is_for_what_begins_a_run_anew_that_was_reset(is_committed: bool) -> None:
    with scene(triggered_cache) as at:
        if not is_committed:
            at.script.pricing = boom
        at.deliver(at.message())
        assert at.handler._services.store.callers.reset("orders", ObjectId("o1"), "reset-1", START, START)
        name = met(at)
        assert name is not None
        assert name.request_id.startswith("reset-") is is_committed


def test_the_row_of_an_order_lives_as_long_as_a_copy_may_come() -> None:
    with scene() as at:
        at.clock.advance(seconds=30)
        now = at.clock.now()
        moments = (now - 20_000, now + 60_000)
        for given in moments:
            ending(at, order(at=given))
        rows = at.aws.client("dynamodb").scan(TableName="flowguard")["Items"]
        lives = [Lifetimes(at.flow).of_order_row(max(given, now)) // 1_000 for given in moments]
        assert sorted(int(row["ttl"]["N"]) for row in rows) == lives
        assert all(row["sk"]["S"].startswith("cancel#") for row in rows)


def test_of_a_run_that_waits_each_copy_of_the_order_sends_the_message_that_ends_it() -> None:
    with wait_scene() as at:
        at.begin()
        brought = order(object_id="c1", flow="carts", at=DEADLINE)
        first = ending(at, brought)
        [send] = first.sends
        assert first.arrival is not None
        assert (first.ack, first.envelope, send.id) == (True, brought, first.arrival.message.hop_id)
        assert ending(at, brought) == first


def test_the_signed_address_of_what_is_awaited_as_cancel_is_no_order() -> None:
    """Whoever is asked has it. The signature of an order covers its reason as well."""
    with wait_scene() as at:
        at.begin()
        address = at.address("cancel")
        signed = address._replace(signature=SIGNER.sign(address.statement)).as_json()
        place = {PLACE: Attribute.string(json.dumps({"cancel": {**signed, "why": "a mistake"}}))}
        at.flow = type("Strict", (Flow,), {"stages": (Late,)}, name="carts", object_id="cart_id", answers="answers")
        with pytest.raises(Untrusted, match="of another message or another secret"):
            ending(at, record(place, "carts"), SIGNER)
        assert at.item().cancelled_because is None


class Older(Flow, name="carts", object_id="cart_id", answers="answers", trust_senders=True):
    """A release that does not have the stage at which the run goes on."""

    stages = (Late,)


@pytest.mark.usefixtures("denied_for_minutes")
def test_a_run_that_goes_on_at_a_stage_of_another_release_is_cancelled_and_its_message_parked_after_minutes() -> None:
    with wait_scene() as at:
        at.begin()
        at.flow = Older
        brought = order(object_id="c1", flow="carts", at=DEADLINE)
        with pytest.raises(OtherRelease, match="carts has no stage"):
            ending(at, brought)
        assert at.item().cancelled_because == "a mistake"
        again = brought._replace(received={**brought.received, "attributes": {"ApproximateReceiveCount": "3"}})
        assert ending(at, again) == Ending(again, ack=True)
        assert [letter[0] for letter in at.letters()] == ["OtherRelease"]


# -- a request that comes once more, as cancelled


def refused(at: Scene, verdict: Verdict) -> Ending:
    """Carry out the cancelled request that met its run so."""
    arrival = Arrival(order(), at.flow, None, at.message(cancelled="a mistake", body="cancelled"))
    return Canceller(at.handler._services).of_request(arrival, verdict)


def postponed(calls: Recorder) -> list[int]:
    return [call.params["VisibilityTimeout"] for call in calls.calls if call.operation == "ChangeMessageVisibility"]


def test_a_request_that_meets_its_own_worker_fences_it_and_comes_again_at_once() -> None:
    with scene() as at:
        endings: list[Ending] = []
        at.script.pricing = lambda step: endings.append(refused(at, Verdict.BUSY))
        with intercept(Recorder()) as calls:
            assert at.deliver(at.message()) == [False]
        [ending] = endings
        assert (ending.ack, ending.verdict, ending.why) == (
            False,
            Verdict.BUSY,
            "its run is cancelled, and ends in 1 s",
        )
        assert postponed(calls) == [1]


def dies_at_its_commit(call: ApiCall, proceed: Proceed) -> Response:
    if "done = :yes" in call.params.get("UpdateExpression", ""):
        raise Died
    return proceed()


def test_one_that_meets_the_worker_which_ends_the_run_comes_again_when_that_must_have_ended() -> None:
    with scene() as at:
        at.script.pricing = die
        with pytest.raises(Died):
            at.deliver(at.message())
        refused(at, Verdict.BUSY)
        with intercept(dies_at_its_commit), pytest.raises(Died):
            at.deliver(at.message())
        before = at.item()
        with intercept(Recorder()) as calls:
            assert refused(at, Verdict.BUSY).why == "its run is cancelled, and ends in 30 s"
        assert (postponed(calls), at.item()) == ([30], before)


def test_one_whose_run_is_gone_meanwhile_comes_again_to_see_that() -> None:
    with scene() as at, intercept(Recorder()) as calls:
        assert not refused(at, Verdict.BUSY).ack
        assert postponed(calls) == [1]


def test_one_whose_run_is_past_its_first_hop_cancels_it_and_is_done() -> None:
    with scene() as at:
        at.deliver(at.message())
        ending = refused(at, Verdict.DUPLICATE)
        assert (ending.ack, ending.verdict, ending.sends) == (True, Verdict.DUPLICATE, ())
        assert item(at).cancelled_because == "a mistake"


def test_one_meets_the_run_of_its_own_request_and_no_other() -> None:
    with scene() as at:
        at.deliver(at.newer(requested_at=at.message().requested_at - 1))
        before = at.item()
        refused(at, Verdict.DUPLICATE)
        assert at.item() == before


GOES_ON = {"request_id": RequestId("run-1"), "requested_at": START - 1_000, "status": Status.RUNNING}
OVER = FailedHop(RequestId("run-1"), START - 1_000, 1, 0, ErrorNote("Reject", "no", 1))


@pytest.mark.parametrize(
    ("changes", "is_its_own"),
    [
        ({}, True),
        ({"status": Status.WAITING}, True),
        ({"status": Status.FAILED}, False),
        ({"status": Status.COMPLETED}, False),
        ({"failed": OVER}, False),
        ({"request_id": RequestId("run-2")}, False),
        ({"requested_at": START}, False),
    ],
)
def test_a_request_is_for_its_run_while_that_goes_on(changes: dict[str, Any], is_its_own: bool) -> None:
    with scene() as at:
        message = at.message(cancelled="a mistake")
        found = Refused(Verdict.DUPLICATE, run_item(**{**GOES_ON, **changes}))
        assert is_for_its_run(message, found) is is_its_own
        assert not is_for_its_run(message._replace(cancelled=None), found)
        assert not is_for_its_run(message, Refused(Verdict.STALE, None))


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

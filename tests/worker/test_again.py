"""The request that begins a run anew: which runs have one, and what it says. By command: tests/cli/test_again.py."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.clock import ManualClock
from flowguard.failed import Failure
from flowguard.flow import PER_REQUEST, AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.forgotten import LAST_REDRIVE
from flowguard.protocol.run import Cancellation, RunItem, Status
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, ErrorNote, Message, Place
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner
from flowguard.worker.again import again_at, again_id, again_refusal, again_request, is_first_of, kept_first_message
from tests.protocol.run_items import run_item

NOTE = ErrorNote("Reject", "sold out", 1)
FAILED = FailedHop(RequestId("r"), 5, 1, 0, NOTE, undone=True)
FIRST = Message("orders", "take", 1, ObjectId("o"), RequestId("r"), 5, '{"order":"o"}', retry=1, since=3)
SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))


class Order(BaseModel):
    order: str


class Take(Stage[Order], name="take", inbox="orders.fifo"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Undo(Stage[Failure], name="undo", inbox="undo"):
    def handle(self, failure: Failure, step: Step) -> Outcome:
        return Done()


class Orders(Flow, name="orders", object_id="order", on_failed=Undo):
    stages = (Take, Undo)


class Others(Flow, name="others", object_id="order", on_failed=Undo):
    stages = (Take, Undo)


class Each(Flow, name="each", object_id=PER_REQUEST, on_failed=Undo):
    stages = (Take, Undo)


class Keyed(Flow, name="keyed", object_id="order", request_id="order", on_failed=Undo):
    stages = (Take, Undo)


class KeyedEach(Flow, name="keyed-each", object_id=PER_REQUEST, request_id="order", on_failed=Undo):
    stages = (Take, Undo)


def run(failed: FailedHop | None = FAILED, status: Status = Status.FAILED, **changes: Any) -> RunItem:
    return run_item(status=status, failed=failed, request_id=RequestId("r"), requested_at=5)._replace(**changes)


@pytest.mark.parametrize(
    ("item", "flow", "why"),
    [
        (run(), Orders, None),
        (run(), None, None),
        (run(status=Status.COMPLETED), Orders, "the run is COMPLETED"),
        (run(FAILED._replace(undone=False), Status.RUNNING), Orders, "is being taken back by the on_failed stage"),
        (run(None, Status.RUNNING), Orders, "goes on: it is RUNNING"),
        (run(None, Status.WAITING), Orders, "goes on: it is WAITING"),
        (run(cancellation=Cancellation(RequestId("r"), 6, "declined")), Orders, "cancelled; to begin anew, send the"),
        (run(cancellation=Cancellation(RequestId("r"), 6, "declined")), None, "cancelled; to begin anew, send the"),
        (run(redrive=LAST_REDRIVE), Orders, "it is forgotten: what it had left was removed; to begin anew, send"),
        (run(None), Orders, "nothing of it was taken back"),
        (run(FAILED._replace(request_id=RequestId("before"))), Orders, "nothing of it was taken back"),
        (run(FAILED._replace(undone=False)), Orders, "its on_failed stage has failed too"),
        (run(), Each, "each request of each is an object of its own; to begin anew, send the request under another id"),
        (run(), Keyed, "requests of keyed are named by their payload, and once a request of another id has the object"),
        (run(), Keyed, "a later copy of this one is carried out once more; to begin anew, send it for another object"),
        (run(cancellation=Cancellation(RequestId("r"), 6, "declined")), Keyed, "; to begin anew, send it for another"),
        (run(redrive=LAST_REDRIVE), Keyed, "; to begin anew, send it for another object, or, once no copy of it can"),
        (run(), KeyedEach, "is an object of its own; to begin anew, send the request under another id"),
    ],
)
def test_a_run_begins_anew_that_failed_for_good_and_was_taken_back(
    item: RunItem, flow: AnyFlow | None, why: str | None
) -> None:
    found = again_refusal(item, flow)
    assert found is None if why is None else found is not None and why in found


@pytest.mark.parametrize(("failed", "kept"), [(FAILED, True), (FAILED._replace(hop=2), False), (None, False)])
def test_a_dead_letter_of_the_first_hop_has_the_first_message(failed: FailedHop | None, kept: bool) -> None:
    assert kept_first_message(run(failed)) is kept


@pytest.mark.parametrize(
    "change",
    [
        {"flow": "others"},
        {"object_id": ObjectId("o2")},
        {"request_id": RequestId("r2")},
        {"requested_at": 6},
        {"hop": 2},
    ],
    ids=str,
)
def test_the_first_message_of_a_run_is_of_that_very_run(change: dict[str, Any]) -> None:
    assert is_first_of(FIRST, Orders, "o", run())
    assert not is_first_of(FIRST._replace(**change), Orders, "o", run())


def test_the_new_request_is_named_by_the_whole_run() -> None:
    ids = [
        again_id(Orders, "o", run()),
        again_id(Others, "o", run()),
        again_id(Orders, "o2", run()),
        again_id(Orders, "o", run(request_id=RequestId("r2"))),
        again_id(Orders, "o", run(requested_at=6)),
    ]
    assert again_id(Orders, "o", run()) == ids[0]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("now", "requested_at", "committed_at", "at"), [(50, 5, 7, 50), (3, 5, 4, 6), (3, 5, 7, 8), (6, 5, 4, 6)]
)
def test_it_is_later_than_the_run_and_its_end_by_whatever_clock(
    now: int, requested_at: int, committed_at: int, at: int
) -> None:
    assert again_at(run(requested_at=requested_at, committed_at=committed_at), now) == at


def test_it_is_the_first_message_as_a_request_of_now_signed_and_with_what_the_flow_carries() -> None:
    first = FIRST._replace(carried={"tenant": Attribute.string("shop")}, reply_to="sqs:told", redrive=2)
    message, send = again_request(Orders, first, run(committed_at=7), 50, SIGNER)
    assert (message.requested_at, message.retry, message.redrive, message.since) == (50, 0, 0, 0)
    assert (message.body, message.reply_to, message.carried) == (first.body, "sqs:told", first.carried)
    assert (send.group, send.body, send.attributes["tenant"]) == ("o", first.body, Attribute.string("shop"))
    assert Place.parse(send.attributes[PLACE].value).signature is not None
    _, unsigned = again_request(Orders, first, run(committed_at=7), 50, UNSIGNED)
    assert Place.parse(unsigned.attributes[PLACE].value).signature is None
    assert unsigned.id == send.id, "two calls make the same request"

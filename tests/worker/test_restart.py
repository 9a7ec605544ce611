"""The message with which a run that was reset begins anew: from what is stored of its first one."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.flow import ATTACH, Flow
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem, RunName, Status
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT, Message
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, statement
from flowguard.worker.restart import (
    Restart,
    first_message_text,
    needs_restart,
    restart_id,
    restart_of,
    run_that_goes_on,
)
from tests.protocol.run_items import run_item
from tests.scene import Script, two_stages


class Shared(Flow, name="orders", object_id="order_id", on_conflict=ATTACH, carry=("tenant", "count")):
    stages = two_stages(Script())


class Others(Flow, name="others", object_id="order_id", on_conflict=ATTACH):
    stages = two_stages(Script())


FIRST = Message(
    flow="orders",
    stage="price-order",
    version=3,
    object_id=ObjectId("o1"),
    request_id=RequestId("run-1"),
    requested_at=1_000,
    body='{"order_id":"o1"}',
    reply_to="sqs:replies",
    carried={"tenant": Attribute.string("shop-1"), "count": Attribute.number(2)},
)


def run(**changes: Any) -> RunItem:
    """The item of a run that was reset at its second hop."""
    item = run_item(
        request_id=RequestId("run-1"),
        requested_at=1_000,
        version=3,
        stage="close-order",
        epoch=7,
        owner=Owner("reset-1"),
        lease_until=0,
        done=False,
        committed_at=1_500,
        reset_at=2_000,
        first_message=first_message_text(FIRST),
    )
    return item._replace(**changes)


SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))


def restarted(*, flow: type[Flow] = Shared, object_id: str = "o1", **changes: Any) -> Restart:
    found = restart_of(flow, ObjectId(object_id), run(**changes), UNSIGNED)
    assert found is not None
    return found


def test_it_is_the_first_message_as_a_request_of_its_own_that_nobody_but_the_callers_waits_for() -> None:
    message, _ = restarted()
    assert message.request_id.startswith("reset-")
    assert message == FIRST._replace(request_id=message.request_id, requested_at=2_000, reply_to=None)


def test_it_is_sent_to_the_first_stage_and_says_there_what_it_is() -> None:
    message, send = restarted()
    assert (send.kind, send.to, send.body, send.id, send.group) == (
        Kind.NEXT,
        Queue("price-order"),
        FIRST.body,
        message.hop_id,
        "o1",
    )
    assert send.attributes == {**message.own_attributes(), **FIRST.carried}
    assert {REQUEST_ID, REQUESTED_AT} <= send.attributes.keys()


def test_it_is_signed_where_messages_are() -> None:
    found = restart_of(Shared, ObjectId("o1"), run(), SIGNER)
    assert found is not None
    message, send = found
    signed = SIGNER.sign(statement(message, version=3, object_id="o1"))
    assert signed is not None
    assert signed in send.attributes[PLACE].value


def test_each_run_has_a_restart_of_its_own_and_always_the_same() -> None:
    others = [
        restarted(request_id=RequestId("run-2")),
        restarted(requested_at=1_001),
        restarted(object_id="o2"),
        restarted(flow=Others),
    ]
    assert len({restarted().message.request_id, *(message.request_id for message, _ in others)}) == 5
    assert restarted() == restarted()
    assert restarted().message.request_id == restarted(epoch=8, reset_at=9_000).message.request_id, "reset once more"


@pytest.mark.parametrize(("reset_at", "requested_at"), [(1_000, 1_001), (1_001, 1_001), (1_002, 1_002), (500, 1_001)])
def test_it_is_newer_than_the_run_that_was_reset_whatever_the_clocks_say(reset_at: int, requested_at: int) -> None:
    assert restarted(reset_at=reset_at).message.requested_at == requested_at


def test_there_is_none_of_a_run_that_was_not_reset_or_does_not_say_what_it_was() -> None:
    for item in (run(reset_at=None), run(first_message=None)):
        assert restart_of(Shared, ObjectId("o1"), item, UNSIGNED) is None


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, True),
        ({"hop": 1, "done": True}, True),
        ({"hop": 1, "done": True, "status": Status.WAITING}, True),
        ({"hop": 1}, False),
        ({"done": True, "status": Status.COMPLETED}, False),
        ({"done": True, "status": Status.FAILED}, False),
        ({"reset_at": None}, False),
    ],
)
def test_a_message_is_needed_where_the_first_one_is_used_up_and_the_work_is_not_done(
    changes: dict[str, Any], needed: bool
) -> None:
    assert needs_restart(run(**changes)) is needed


def test_the_run_that_goes_on_after_a_reset_is_that_of_the_restart() -> None:
    item = run_item(hop=2, done=True, status=Status.RUNNING)
    here = (item.request_id, item.requested_at)
    assert run_that_goes_on("orders", ObjectId("o1"), item) == here
    reset = item._replace(reset_at=item.requested_at + 5)
    restart = restart_id("orders", ObjectId("o1"), reset)
    assert restart is not None
    assert run_that_goes_on("orders", ObjectId("o1"), reset) == RunName(*restart)
    at_first = reset._replace(hop=1, done=False)
    assert run_that_goes_on("orders", ObjectId("o1"), at_first) == here

"""Which letter a run is begun anew from, and which is believed. By command: tests/cli/test_again.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.aws.dead_letter_queue import Reading
from flowguard.clock import ManualClock
from flowguard.errors import RunFailed
from flowguard.lanes import Lane
from flowguard.names.ids import RequestId
from flowguard.operate.begun_anew import NotAnew, begin_again, first_in_letters
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import Status
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import normalize_record
from flowguard.wire.message import Message
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, Signer, signed_attributes
from flowguard.worker.again import again_request, with_payload
from flowguard.worker.dead_letters import Letter
from flowguard.worker.plan import dead_letter
from tests.scene import START, Order, Orders
from tests.worker.test_dead_letters import ERROR, STAGE_QUEUE, message, parked, raw, received, run

FIRST = message()
TAKEN_BACK = run(FIRST, status=Status.FAILED, failed=FailedHop(FIRST.request_id, START, 1, 0, ERROR, undone=True))
SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))


@contextmanager
def queue_of(*letters: Letter) -> Iterator[Reading]:
    yield cast(Any, SimpleNamespace(pages=lambda: [letters], queue=SimpleNamespace(name="dead")))


def begun_from(letters: Sequence[Letter], signer: Signer = UNSIGNED) -> Message:
    return first_in_letters(Orders, "o1", TAKEN_BACK, queue_of(*letters), signer)


def test_a_run_begins_anew_from_its_own_first_message_and_from_no_other_letter() -> None:
    others = [
        replace(parked(FIRST), unsent=cast(Any, "a message that was refused")),
        replace(parked(FIRST), message=None, problem="it cannot be read"),
        parked(message(request_id=RequestId("run-2"))),
    ]
    assert begun_from([*others, parked(message(body='{"order_id":"o1","note":"x"}'))]).body.endswith('"x"}')
    with pytest.raises(NotAnew, match="queue dead shows no letter of request run-1"):
        begun_from(others)


class Price(Stage[Order], name="price-order", inbox=(Lane("normal", "calm"), Lane("urgent", "price-order"))):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Laned(Flow, name="orders", object_id="order_id"):
    stages = (Price,)


def test_a_run_begins_anew_in_the_lane_of_its_letter() -> None:
    record = {**received(FIRST.body, FIRST.attributes()), "EventSourceARN": STAGE_QUEUE}
    send = dead_letter(Laned, FIRST, ERROR, normalize_record(record))
    letter = Letter.read(received(send.body, dict(send.attributes)), now=START, flow=Laned)
    found = first_in_letters(Laned, "o1", TAKEN_BACK, queue_of(letter), UNSIGNED)
    assert found.carried == {"lane": Attribute.string("urgent")}
    for flow, end in ((Laned, "FILE [--lane NAME] where FILE is"), (Orders, "FILE where FILE is")):
        with pytest.raises(NotAnew) as raised:
            first_in_letters(flow, "o1", TAKEN_BACK, queue_of(), UNSIGNED)
        assert f"o1 --again --from {end}" in str(raised.value)


def test_a_run_begins_anew_in_the_lane_that_is_given_with_its_payload() -> None:
    first = with_payload(Laned, FIRST.body, "o1", TAKEN_BACK, signed=False, lane="urgent")
    _, send = again_request(Laned, first, TAKEN_BACK, START, UNSIGNED)
    assert (str(send.to), send.attributes["lane"].value) == ("sqs:price-order", "urgent")
    with pytest.raises(RunFailed, match="orders has no lane 'fast'; it has normal, urgent"):
        with_payload(Laned, FIRST.body, "o1", TAKEN_BACK, signed=False, lane="fast")


def signed(letter: Message) -> Letter:
    attributes = dict(signed_attributes(letter, SIGNER))
    return Letter.read(received(letter.body, attributes, DeadLetterQueueSourceArn=STAGE_QUEUE), now=START)


def test_where_messages_are_signed_no_redrive_is_believed_that_is_not() -> None:
    redriven = message(redrive=1)
    assert begun_from([signed(redriven)], SIGNER).request_id == begun_from([raw(redriven)]).request_id
    with pytest.raises(NotAnew, match="it carries no signature"):
        begun_from([raw(redriven)], SIGNER)


def test_keys_that_cannot_be_read_do_not_make_a_letter_untrue() -> None:
    def away() -> Keys:
        raise ConnectionError("no keys now")

    with pytest.raises(ConnectionError):
        begun_from([signed(message(redrive=1))], KeySigner(Keyring(away, ManualClock())))


def test_a_run_that_goes_on_is_not_begun_anew_and_nothing_is_sent() -> None:
    sent: list[Any] = []

    def send(sends: Sequence[Any]) -> dict[str, Any]:
        sent.extend(sends)
        return {}

    sender = cast(Any, SimpleNamespace(send=send))
    with pytest.raises(NotAnew, match="goes on"):
        begin_again(Orders, FIRST, run(FIRST), START, sender=sender, signer=UNSIGNED)
    assert sent == []
    begin_again(Orders, FIRST, TAKEN_BACK, START, sender=sender, signer=UNSIGNED)
    assert len(sent) == 1

"""What a process has sent for a record of a stream is not sent for the copies that a head which stays brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from flowguard.destinations import Queue, Topic
from flowguard.names.ids import Owner
from flowguard.protocol.outbox import Kind, Send
from flowguard.sim.calls import intercept
from flowguard.testing import kinesis_event
from flowguard.wire.envelope import Envelope, normalize
from flowguard.worker.stream_sends import StreamSends
from tests.scene import START, Order, Scene, orders, scene
from tests.worker.runtime.mishaps import Died, dies_at, reject_once
from tests.worker.test_stream_copies import refusing

COPIES = 4
MINUTES_AHEAD = 25 * 60_000
BYTES = b"\xf3\x89\x9a\xc2x"


def a_record(place: int, data: bytes | None = None, at: int = START - 1_000, order: str = "o1") -> dict[str, Any]:
    payload = Order(order_id=order) if data is None else data
    made: dict[str, Any] = kinesis_event("orders", payload, sequence=f"4959{place:04d}", arrived_at=at)["Records"][0]
    return made


HEAD = a_record(1, at=START + MINUTES_AHEAD, order="o9")


def behind_a_head(at: Scene, *behind: dict[str, Any]) -> list[str]:
    """The records that stay when Lambda has brought them behind a head which stays."""
    answer = at.handler({"Records": [HEAD, *behind]})
    at.clock.advance(seconds=1)
    [head, *failed] = [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
    assert head == "49590001"
    return failed


def again_and_again(at: Scene, *behind: dict[str, Any]) -> None:
    for _ in range(COPIES):
        assert behind_a_head(at, *behind) == []


def another_process(at: Scene) -> None:
    at.handler = at.handler.using(at.handler._services._replace(stream_sends={}))


# -- letters -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("denied_for_minutes")
@pytest.mark.parametrize("data", [BYTES, b'{"note":"x"}', b"no JSON"], ids=["unread", "no object", "no payload"])
def test_a_letter_is_sent_once_for_each_record(data: bytes) -> None:
    with scene() as at:
        again_and_again(at, a_record(2, data), a_record(3, data))
        assert len(at.sent("dead")) == 2
        another_process(at)
        again_and_again(at, a_record(2, data), a_record(3, data))
        assert len(at.sent("dead")) == 2, "nothing lasting knows of them"


@pytest.mark.usefixtures("denied_for_minutes")
def test_a_record_of_another_shard_with_the_same_number_has_its_own_letter() -> None:
    there = {**a_record(2, BYTES), "eventID": "shardId-000000000001:49590002"}
    with scene() as at:
        again_and_again(at, a_record(2, BYTES))
        again_and_again(at, there)
        assert len(at.sent("dead")) == 2


@pytest.mark.usefixtures("denied_for_minutes")
def test_a_record_that_no_flow_takes_is_parked_once() -> None:
    """The function serves another stage alone."""
    with scene(orders, "close-order") as at:
        for _ in range(COPIES):
            assert at.handler({"Records": [a_record(2), a_record(3)]}) == {"batchItemFailures": []}
        assert len(at.sent("dead")) == 2


@pytest.mark.usefixtures("denied_for_minutes")
@pytest.mark.parametrize("data", [BYTES, b'{"note":"x"}'], ids=["unread", "no object"])
@pytest.mark.parametrize("code", ["", "AccessDenied"])
def test_a_letter_that_was_not_taken_is_sent_again(data: bytes, code: str) -> None:
    with scene() as at:
        with intercept(refusing("dead", code)):
            for _ in range(COPIES):
                assert behind_a_head(at, a_record(2, data)) == ["49590002"]
        again_and_again(at, a_record(2, data))
        assert len(at.sent("dead")) == 1


# -- what a commit has sent --------------------------------------------------------------------------------------------


def test_what_was_committed_is_sent_once() -> None:
    with scene() as at:
        again_and_again(at, a_record(2), a_record(3, order="o2"))
        assert [len(at.sent(queue)) for queue in ("emails", "close-order")] == [2, 2]
        another_process(at)
        again_and_again(at, a_record(2), a_record(3, order="o2"))
        assert [len(at.sent(queue)) for queue in ("emails", "close-order")] == [2, 2]


def test_the_letter_of_a_rejected_record_is_sent_once() -> None:
    with scene() as at:
        at.script.pricing = lambda step: reject_once(at)
        again_and_again(at, a_record(2))
        assert len(at.sent("dead")) == 1


def test_what_was_not_taken_is_sent_by_a_copy_and_nothing_else_is() -> None:
    with scene() as at:
        with intercept(refusing("close-order")):
            for _ in range(COPIES):
                assert behind_a_head(at, a_record(2)) == ["49590002"]
        again_and_again(at, a_record(2))
        assert [len(at.sent(queue)) for queue in ("emails", "close-order")] == [1, 1]


def test_what_was_parked_is_parked_once() -> None:
    with scene() as at:
        with intercept(refusing("emails", "InvalidParameterValue")):
            again_and_again(at, a_record(2))
        assert [len(at.sent(queue)) for queue in ("dead", "close-order")] == [1, 1]


def test_one_whose_worker_died_before_it_had_sent_is_sent_by_a_copy() -> None:
    with scene() as at:
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            behind_a_head(at, a_record(2))
        again_and_again(at, a_record(2))
        assert [len(at.sent(queue)) for queue in ("emails", "close-order")] == [1, 1]


@pytest.mark.parametrize("dies", [False, True])
def test_another_commit_sends_the_same_ids_anew_also_where_its_worker_dies_first(dies: bool) -> None:
    """The item has expired, and the record comes once more: it is a new run, whose messages nothing has sent."""

    with scene() as at:
        again_and_again(at, a_record(2))
        [first] = at.sent("emails")
        table = at.aws.client("dynamodb")
        [found] = [row for row in table.scan(TableName="flowguard")["Items"] if "epoch" in row]
        schema = table.describe_table(TableName="flowguard")["Table"]["KeySchema"]
        key = {part["AttributeName"]: found[part["AttributeName"]] for part in schema}
        table.delete_item(TableName="flowguard", Key=key)
        if dies:
            with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
                behind_a_head(at, a_record(2))
        again_and_again(at, a_record(2))
        [anew] = at.sent("emails")
        ids = [sent["MessageAttributes"]["uniquerequestid"]["StringValue"] for sent in (first, anew)]
        assert ids[0] == ids[1]


# -- what is one and what is another -----------------------------------------------------------------------------------

LETTER = Send(Kind.DEAD, Queue("dead"), "{}", "run-1.1.dead")
MAIL = Send(Kind.SIDE, Queue("emails"), "{}", "run-1.1.0")
MINE, THEIRS = Owner("mine"), Owner("theirs")


def opened(*records: Any) -> Sequence[Envelope]:
    return [envelope for envelope in normalize(list(records)) if isinstance(envelope, Envelope)]


def of_another_stream(there: dict[str, Any]) -> Envelope:
    [envelope] = opened({**there, "eventSourceARN": there["eventSourceARN"] + "-too"})
    return envelope


def test_a_letter_and_a_committed_message_are_known_again() -> None:
    [here] = opened(a_record(2))
    sends = StreamSends({})
    sends.note(LETTER, here)
    sends.note(MAIL, here, MINE)
    assert sends.has(LETTER._replace(body="later"), here)
    assert sends.has(MAIL, here, MINE)


@pytest.mark.parametrize(
    "differs",
    [
        lambda sends, here: sends.has(LETTER._replace(id="run-1.1r1.dead1"), here),
        lambda sends, here: sends.has(LETTER._replace(to=Topic("dead")), here),
        lambda sends, here: sends.has(LETTER, here, MINE),
        lambda sends, here: sends.has(LETTER, opened(a_record(3))[0]),
        lambda sends, here: sends.has(LETTER, of_another_stream(a_record(2))),
        lambda sends, here: sends.has(MAIL, here, THEIRS),
        lambda sends, here: sends.has(MAIL, here),
        lambda sends, here: sends.has(MAIL._replace(id="run-1.2.0"), here, MINE),
    ],
    ids=["redrive", "destination", "of a commit", "record", "stream", "commit", "no commit", "hop"],
)
def test_another_one_is_not(differs: Callable[[StreamSends, Envelope], bool]) -> None:
    [here] = opened(a_record(2))
    sends = StreamSends({})
    sends.note(LETTER, here)
    sends.note(MAIL, here, MINE)
    assert not differs(sends, here)


def test_nothing_is_remembered_of_messages_that_no_commit_has_but_letters() -> None:
    [here] = opened(a_record(2))
    sends = StreamSends({})
    sends.note(MAIL, here)
    assert not sends.has(MAIL, here)


def test_a_copy_from_a_queue_sends_once_more() -> None:
    """The queue brings it where it was not acked: its worker has died, or was cut off."""
    with scene() as at:
        for _ in range(COPIES):
            assert at.deliver(at.message()) == [True]
        assert (len(at.sent("emails")), at.handler._services.stream_sends) == (COPIES, {})


@pytest.mark.usefixtures("denied_for_minutes")
def test_so_does_a_letter() -> None:
    with scene() as at:
        at.receives = 3
        for _ in range(COPIES):
            assert at.deliver(at.message(stage="weigh")) == [True]
        assert (len(at.sent("dead")), at.handler._services.stream_sends) == (COPIES, {})


def test_the_older_half_is_forgotten_but_for_what_came_again() -> None:
    [here] = opened(a_record(2))
    sends = StreamSends({}, most=4)
    letters = [LETTER._replace(id=f"{place}.dead") for place in range(5)]
    for letter in letters[:4]:
        sends.note(letter, here)
    assert all(sends.has(letter, here) for letter in (*letters[1:4], letters[0]))
    sends.note(letters[4], here)
    assert [sends.has(letter, here) for letter in letters] == [True, False, False, False, True]

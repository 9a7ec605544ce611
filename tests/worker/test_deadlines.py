"""The message of a deadline that lies far ahead: it is sent again and again, and its copies do not multiply."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.wire.message import REQUESTED_AT
from tests.waits import Late, WaitScene, asks, wait_scene

QUARTER = 15 * 60_000
DAYS = timedelta(days=2)

Record = dict[str, Any]


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene() as found:
        found.begin(lambda step: Late.when_all(**asks(step), within=DAYS))
        yield found


def next_quarter(at: WaitScene) -> list[Record]:
    """The deadline's messages after another quarter of an hour."""
    at.clock.advance(ms=QUARTER)
    return [{**one, "messageId": f"{at.clock.now()}-{place}"} for place, one in enumerate(at.waiting("answers"))]


def deliver(at: WaitScene, *records: Record) -> bool:
    """Deliver records under their own ids. Whether all were acked."""
    return not at.function({"Records": list(records)})["batchItemFailures"]


def counted(at: WaitScene, *copies: int) -> list[int]:
    """How many there are after each quarter, if their queue delivers each of them so often."""
    counts = []
    for each in copies:
        found = next_quarter(at)
        counts.append(len(found))
        for record in found:
            for _ in range(each):
                deliver(at, record)
    return counts


def test_one_message_goes_on_however_often_each_is_delivered(at: WaitScene) -> None:
    assert counted(at, 3, 3, 3, 3, 3, 1, 1, 1) == [1, 3, 3, 3, 3, 3, 1, 1], "three of one, not of each of the three"


def test_copies_of_the_first_message_end_with_the_next_quarter(at: WaitScene) -> None:
    for _ in range(4):
        at.begin()  # the hop is committed: its worker sends the outbox again
    assert counted(at, 1, 1, 1) == [5, 1, 1]


def test_the_deadline_itself_comes_after_all_copies(at: WaitScene) -> None:
    quarters = DAYS // timedelta(minutes=15)
    assert set(counted(at, *[2] * (quarters - 1))) == {1, 2}
    deliver(at, *next_quarter(at))
    assert at.resume()
    assert at.item().status is Status.COMPLETED


def test_a_message_whose_worker_died_before_it_sent_the_next_one_is_no_copy(at: WaitScene) -> None:
    (record,) = next_quarter(at)
    with intercept(_refused_sends):
        assert not deliver(at, record)
    assert at.waiting("answers") == []
    assert deliver(at, record), "it was this message that looked"
    assert len(at.waiting("answers")) == 1


def test_a_repeated_message_does_not_outdate_the_one_that_it_sent_before(at: WaitScene) -> None:
    (record,) = next_quarter(at)
    deliver(at, record)
    (sent,) = at.waiting("answers")
    at.clock.advance(ms=1_000)
    with intercept(_refused_sends):
        deliver(at, record)  # it dies for good now; what it sent the first time is enough
    at.clock.advance(ms=QUARTER)
    deliver(at, {**sent, "messageId": "the next one"})
    assert len(at.waiting("answers")) == 1


def test_a_message_that_comes_back_under_another_id_goes_on_where_no_other_does(at: WaitScene) -> None:
    """A dead-letter queue gives its messages new ids when it is emptied."""
    (record,) = next_quarter(at)
    with intercept(_refused_sends):
        deliver(at, record)
    back = {**record, "messageId": "out of the dead letters"}
    at.clock.advance(ms=2 * QUARTER)
    deliver(at, back)
    assert at.waiting("answers") == [], "until then the other may still be alive"
    at.clock.advance(ms=1)
    deliver(at, back)
    assert len(at.waiting("answers")) == 1


def test_whoever_sends_a_deadline_of_the_future_cannot_stop_the_others(at: WaitScene) -> None:
    (record,) = next_quarter(at)
    said = {**record["messageAttributes"], REQUESTED_AT: {"stringValue": str(10**14), "dataType": "Number"}}
    deliver(at, {**record, "messageId": "forged", "messageAttributes": said})
    (genuine,) = at.waiting("answers")
    at.clock.advance(ms=QUARTER)
    deliver(at, {**genuine, "messageId": "genuine"})
    assert len(at.waiting("answers")) == 1
    assert at.wait.looked_at <= at.clock.now() + QUARTER


def test_a_clock_that_stands_still_or_goes_back_lets_one_message_go_on(at: WaitScene) -> None:
    for place in range(3):
        (record,) = at.waiting("answers")
        for copy in "abc":
            deliver(at, {**record, "messageId": f"{copy}{place}"})


def test_a_look_is_one_call(at: WaitScene) -> None:
    (record,) = next_quarter(at)
    at.deliver(record)
    assert at.calls == ["UpdateItem"]


@pytest.mark.parametrize("said", ["", "-1", "soon", "9" * 40, "²"])
def test_a_deadline_without_a_time_is_the_first(at: WaitScene, said: str) -> None:
    (record,) = next_quarter(at)
    stated = {**record["messageAttributes"], REQUESTED_AT: {"stringValue": said, "dataType": "String"}}
    if not said:
        del stated[REQUESTED_AT]
    assert deliver(at, {**record, "messageAttributes": stated})
    assert len(at.waiting("answers")) == 1


@pytest.mark.parametrize("body", ["{}", "[]", '{"deadline": "soon"}', '{"deadline": 1.5}', '{"deadline": true}'])
def test_the_item_knows_a_deadline_whose_message_does_not_say_it(at: WaitScene, body: str) -> None:
    (record,) = next_quarter(at)
    assert deliver(at, {**record, "body": body})
    assert len(at.waiting("answers")) == 1


def _refused_sends(call: ApiCall, proceed: Proceed, /) -> Response:
    if call.operation == "SendMessageBatch":
        failed = [
            {"Id": one["Id"], "SenderFault": False, "Code": "InternalError", "Message": "no"}
            for one in call.params["Entries"]
        ]
        return {"Successful": [], "Failed": failed}
    return proceed()

"""A stream brings a record again for as long as one before it stays. What a queue has of it is not sent anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard import PerKey
from flowguard.aws.history_rows import read_rows
from flowguard.codecs import Compressed
from flowguard.errors import TooLarge
from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.protocol.run import RunItem, Status
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.testing import kinesis_event
from flowguard.testing.lambda_events import Event
from flowguard.worker.failure_note import VEILED
from tests.aws.engines import same_clients
from tests.scene import START, Order, Scene, Script, orders, scene, told_orders, two_stages
from tests.worker.runtime.mishaps import boom, die

ACKED: dict[str, Any] = {"batchItemFailures": []}
COPIES = 4


def the_record(place: int = 2, at: int = START - 1_000, order: str = "o1") -> Event:
    return kinesis_event("orders", Order(order_id=order, note="x"), sequence=f"49590338{place:06d}", arrived_at=at)


def back(at: Scene, message: Any) -> Any:
    """Bring a message from its stage's queue, and return the answer to that."""
    return at.handler({"Messages": [{**message, "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:price-order"}]})


@pytest.fixture(autouse=True)
def delays() -> Iterator[list[int]]:
    """The delays of what is sent, which the queues of the tests hand out at once."""
    seen: list[int] = []

    def note(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            seen.extend(entry.pop("DelaySeconds", 0) for entry in call.params["Entries"])
        return proceed()

    with intercept(note):
        yield seen


def the_item(at: Scene) -> RunItem:
    item = at.item()
    assert item is not None
    return item


def miss_a_setting(step: Any) -> None:
    step.token("approval")


def put_off(script: Script) -> AnyFlow:
    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", debounce=timedelta(seconds=30)):
        stages = two_stages(script)

    return Orders


def with_limit(script: Script) -> AnyFlow:
    price, close = two_stages(script)
    price.limits = (PerKey("note", at_once=1),)

    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead"):
        stages = (price, close)

    return Orders


@pytest.mark.parametrize(
    ("flow", "broken", "told"), [(put_off, False, EventType.PUT_OFF), (orders, True, EventType.BROKEN)]
)
def test_what_went_on_as_the_same_attempt_is_sent_once(
    flow: Callable[[Script], AnyFlow], broken: bool, told: EventType
) -> None:
    with scene(flow) as at:
        if broken:
            at.script.pricing = miss_a_setting
        for _ in range(COPIES):
            assert at.handler(the_record()) == ACKED
            at.clock.advance(seconds=1)
        at.script.pricing = lambda step: None
        assert (at.told(told), at.told(EventType.DUPLICATE), at.priced()) == (1, COPIES - 1, 0)
        [message] = at.sent("price-order")
        at.clock.advance(seconds=60)
        assert at.handler(the_record()) == ACKED, "also when it may begin: its message will"
        assert at.priced() == 0
        assert back(at, message) == ACKED
        assert (at.priced(), the_item(at).called_attempt) == (1, "")


def test_what_waits_for_a_place_looks_once_and_its_copy_leaves_the_note_of_that() -> None:
    with scene(with_limit) as at:
        occupy(at)
        assert at.handler(the_record()) == ACKED
        noted = the_item(at).back_off
        assert noted is not None
        for _ in range(COPIES):
            assert at.handler(the_record()) == ACKED
            assert the_item(at).back_off == noted
        assert (at.told(EventType.IN_LINE), at.told(EventType.DUPLICATE)) == (1, COPIES)
        [look] = at.sent("price-order")
        at.clock.advance(seconds=60)
        assert back(at, look) == ACKED
        assert at.priced() == 1


def occupy(at: Scene) -> None:
    """Let a worker die in the only place of the limit."""
    at.script.pricing = die
    with pytest.raises(KeyboardInterrupt):
        at.handler(the_record(1, order="o9"))
    at.script.pricing = lambda step: None


def test_one_that_is_left_where_it_is_since_no_queue_takes_it_is_no_copy() -> None:
    with scene(with_limit) as at:
        occupy(at)
        with intercept(refusing("price-order")):
            assert at.handler(the_record()) != ACKED
        at.clock.advance(seconds=60)
        assert at.handler(the_record()) == ACKED
        assert at.priced() == 1


def test_one_that_waits_in_its_place_takes_it_once_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_too_large(*_: Any, **__: Any) -> Any:
        raise TooLarge("the message", {"body": 1_048_577}, 1_048_576)

    monkeypatch.setattr("flowguard.worker.turn_messages.TurnMessages.again", is_too_large)
    with scene(with_limit) as at:
        occupy(at)
        assert at.handler(the_record()) != ACKED
        at.clock.advance(seconds=60)
        assert at.handler(the_record()) == ACKED
        assert at.priced() == 1


def test_a_queue_marks_nothing_of_its_own_records() -> None:
    with scene(with_limit) as at:
        occupy(at)
        message = at.message(body='{"order_id":"o1","note":"x"}')
        at.deliver(message)
        assert (at.told(EventType.IN_LINE), the_item(at).called_attempt) == (1, "")
        at.clock.advance(seconds=60)
        at.script.pricing = boom
        with intercept(refusing("price-order")):
            at.deliver(message)
        assert the_item(at).back_off is None, "a look that came again would be taken for one whose retry is under way"


def test_what_no_queue_takes_begins_at_the_end_of_its_burst_all_the_same() -> None:
    with scene(put_off) as at, intercept(refusing("price-order")):
        assert at.handler(the_record()) != ACKED
        at.clock.advance(seconds=30)
        assert at.handler(the_record()) == ACKED
        assert at.priced() == 1


def test_a_record_that_is_put_off_costs_its_claim_and_one_write() -> None:
    with scene(put_off) as at, intercept(Recorder()) as calls:
        at.handler(the_record())
        assert [call.operation for call in calls.calls if call.service == "dynamodb"] == ["UpdateItem"] * 2


def test_a_later_record_of_the_same_request_goes_on_itself() -> None:
    """Its time is the run's from then on, and the message of the first is older."""

    def by_note(script: Script) -> AnyFlow:
        class Orders(
            Flow,
            name="orders",
            object_id="order_id",
            request_id="order_id",
            dead_letters="dead",
            debounce=timedelta(seconds=30),
        ):
            stages = two_stages(script)

        return Orders

    with scene(by_note) as at:
        assert at.handler(the_record(1)) == ACKED
        assert at.handler(the_record(2, START)) == ACKED
        assert at.handler(the_record(1)) == ACKED
        first, second = at.sent("price-order")
        at.clock.advance(seconds=60)
        assert (back(at, first), at.priced()) == (ACKED, 0)
        assert (back(at, second), at.priced()) == (ACKED, 1)


def refusing(queue: str, code: str = "") -> Callable[[ApiCall, Proceed], Response]:
    """Refuse each message to a queue: for now, or with a code for good."""

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch" and call.params["QueueUrl"].endswith(queue):
            if not code:
                raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": "no"}}, call.operation)
            failed = [{"Id": entry["Id"], "Code": code, "SenderFault": True} for entry in call.params["Entries"]]
            return {"Successful": [], "Failed": failed}
        return proceed()

    return refuse


def test_while_no_queue_takes_its_retry_the_handler_is_not_called_again(delays: list[int]) -> None:
    with scene(told_orders) as at:
        at.script.pricing = boom
        with intercept(refusing("price-order")):
            for _ in range(COPIES):
                assert at.handler(the_record()) != ACKED
                at.clock.advance(seconds=2)
        assert (len(at.script.handled), at.told(EventType.RETRIED)) == (1, 0)
        assert len(read_rows(same_clients().dynamodb, "flowguard", "orders", "o1").told) == 1
        assert at.handler(the_record()) == ACKED
        assert delays[-1] == 20 - 2 * COPIES, "what is left of its delay"
        assert at.handler(the_record()) == ACKED
        assert (len(at.script.handled), at.told(EventType.RETRIED), the_item(at).retry) == (1, 1, 1)
        at.script.pricing = lambda step: None
        [retry] = at.sent("price-order")
        at.clock.advance(seconds=20)
        assert (back(at, retry), at.priced()) == (ACKED, 1)


def test_a_retry_that_is_due_by_then_goes_at_once(delays: list[int]) -> None:
    with scene() as at:
        at.script.pricing = boom
        with intercept(refusing("price-order")):
            at.handler(the_record())
        at.clock.advance(seconds=60)
        assert at.handler(the_record()) == ACKED
        assert delays[-1] == 0
        [retry] = at.sent("price-order")
        assert back(at, retry) == ACKED
        assert [attempt for _, _, attempt in at.script.handled] == [1, 2]


def test_where_its_queue_refuses_the_retry_for_good_the_run_ends_with_the_error_of_its_handler() -> None:
    with scene() as at:
        at.script.pricing = boom
        with intercept(refusing("price-order")):
            at.handler(the_record())
        with intercept(refusing("price-order", "InvalidMessageContents")):
            assert at.handler(the_record()) == ACKED
        item = the_item(at)
        assert (item.status, len(at.script.handled), len(at.sent("dead"))) == (Status.FAILED, 1, 1)
        assert item.error is not None
        assert item.error.startswith("RuntimeError")


def test_the_error_is_noted_without_its_text_where_the_flow_seals() -> None:
    def sealed(script: Script) -> AnyFlow:
        class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", codec=Compressed()):
            stages = two_stages(script)

        return Orders

    with scene(sealed) as at:
        at.script.pricing = boom
        with intercept(refusing("price-order")):
            at.handler(the_record())
        noted = the_item(at).back_off
        assert noted is not None
        assert (noted.error.text, noted.until) == (VEILED, START + 20_000)

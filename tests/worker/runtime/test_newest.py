"""Items that say how new they are: an older writer leaves them as they are, and so does a stale one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flowguard.aws.writes import from_item, to_item
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.protocol.run import Status
from flowguard.step import Step
from tests.scene import START, OrderState, Scene
from tests.worker.runtime.mishaps import Died, boom, die

TEA = {"id": {"S": "tea"}}


def tea(at: Scene) -> dict[str, Any]:
    found: Any = at.aws.client("dynamodb").get_item(TableName="orders", Key=TEA)
    return from_item(found["Item"]) if "Item" in found else {}


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(START / 1000, UTC) + timedelta(seconds=seconds)


def priced_at(at: Scene, seconds: int, price: int, *, request: str = "run-1", object_id: str = "o1") -> None:
    """A run of its own that says what tea costs since that moment."""
    at.script.pricing = lambda step: step.newest_wins("orders", {"id": "tea", "price": price}, "id", at=moment(seconds))
    assert at.deliver(at.order(object_id, request_id=RequestId(request))) == [True]


def test_the_newest_price_stays_in_whatever_order_they_come(at: Scene) -> None:
    for number, (seconds, price) in enumerate([(10, 100), (30, 300), (20, 200)]):
        priced_at(at, seconds, price, request=f"run-{number}", object_id=f"o{number}")
    ms = START + 30_000
    assert tea(at) == {"id": "tea", "price": 300, "newest_at": ms, "newest_by": "run-1"}
    assert at.told(EventType.COMMITTED) == 3, "what is dropped fails nobody"


def test_an_equally_old_write_of_another_request_is_dropped_and_of_the_same_passes(at: Scene) -> None:
    priced_at(at, 10, 100, request="run-1", object_id="o1")
    priced_at(at, 10, 200, request="run-2", object_id="o2")
    assert tea(at)["price"] == 100
    priced_at(at, 10, 150, request="run-1", object_id="o3")
    assert tea(at)["price"] == 150


def test_a_deletion_leaves_a_tombstone_that_an_older_write_does_not_bring_back(at: Scene) -> None:
    priced_at(at, 10, 100, object_id="o1")
    at.script.pricing = lambda step: step.newest_wins("orders", {"id": "tea"}, ["id"], at=moment(30), deleted=True)
    at.deliver(at.order("o2"))
    assert tea(at)["newest_deleted"] is True
    priced_at(at, 20, 200, object_id="o3")
    assert "price" not in tea(at)
    priced_at(at, 40, 400, object_id="o4")
    assert (tea(at)["price"], "newest_deleted" in tea(at)) == (400, False)


def test_the_time_of_the_request_counts_by_default(at: Scene) -> None:
    at.script.pricing = lambda step: step.newest_wins("orders", {"id": "tea"}, "id")
    at.deliver(at.message())
    assert tea(at)["newest_at"] == at.message().requested_at


def test_an_item_of_others_without_a_time_is_replaced(at: Scene) -> None:
    at.aws.client("dynamodb").put_item(TableName="orders", Item={**TEA, "price": {"N": "1"}})
    priced_at(at, 10, 100)
    assert tea(at)["price"] == 100


def test_each_of_several_items_is_judged_for_itself(at: Scene) -> None:
    priced_at(at, 30, 300)

    def pricing(step: Step[OrderState]) -> None:
        for name in ("tea", "cups"):
            step.newest_wins("orders", {"id": name, "price": 1}, "id", at=moment(20))

    at.script.pricing = pricing
    at.deliver(at.order("o2"))
    cups: Any = at.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": "cups"}})
    assert (tea(at)["price"], cups["Item"]["price"]) == (300, {"N": "1"})


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda step: step.newest_wins("orders", {"price": 1}, "id"), "lacks its key 'id'"),
        (lambda step: step.newest_wins("orders", {"price": 1}, ()), "lacks its key"),
        (lambda step: step.newest_wins("orders", {"id": "x"}, 5), "newest_wins('orders', …) is 5; write the names"),
        (lambda step: step.newest_wins("orders", {"id": "x"}, None), "…) is None; write the names of its attributes"),
        (lambda step: step.newest_wins("orders", {"id": "x"}, [["id"]]), "…) is [['id']]; write the names"),
        (lambda step: step.newest_wins("orders", {"id": "x"}, [""]), "…) is ['']; write the names"),
        (lambda step: step.newest_wins("orders", {"id": "x"}, {"id": "x"}), "…) is {'id': 'x'}; write the names"),
        (lambda step: step.newest_wins("orders", {"id": "x"}, "id", at=5), "5 is no time"),
        (lambda step: step.newest_wins("orders", {"id": "x"}, "id", at=datetime(2027, 1, 1)), "no time zone"),  # noqa: DTZ001 - that is what is refused
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(at: Scene, call: Any, error: str) -> None:
    at.script.pricing = call
    at.deliver(at.message())
    item = at.item()
    assert item is not None
    assert error in str(item.error)
    assert item.status is Status.FAILED


# -- a fence in the item -----------------------------------------------------------------------------------------------


def fenced_put(at: Scene, step: Step[OrderState], price: int) -> bool:
    """Write by one's own call, as a stage would to a table of another account. Whether it was taken."""
    fence = step.fence()
    dynamodb = at.aws.client("dynamodb")
    try:
        dynamodb.put_item(
            TableName="orders",
            Item={**TEA, "price": {"N": str(price)}, **to_item(fence.attributes)},
            ConditionExpression=fence.condition,
            ExpressionAttributeNames=dict(fence.names),
            ExpressionAttributeValues=to_item(fence.values),
        )
    except dynamodb.exceptions.ConditionalCheckFailedException:
        return False
    return True


def test_a_worker_of_a_replaced_run_does_not_overwrite_the_newer_item(at: Scene) -> None:
    taken: list[bool] = []

    def newer(step: Step[OrderState]) -> None:
        taken.append(fenced_put(at, step, 2))

    def older(step: Step[OrderState]) -> None:
        at.script.pricing = newer
        at.deliver(at.newer())
        taken.append(fenced_put(at, step, 1))

    at.script.pricing = older
    at.deliver(at.message())
    assert (taken, tea(at)["price"]) == ([True, False], 2)


def test_a_worker_that_another_attempt_has_replaced_does_not_either_and_a_later_one_does(at: Scene) -> None:
    taken: list[bool] = []

    def writes_and_dies(step: Step[OrderState]) -> None:
        taken.append(fenced_put(at, step, 2))
        die(step)

    def stalls(step: Step[OrderState]) -> None:
        at.script.pricing = writes_and_dies
        at.clock.advance(seconds=31)
        with pytest.raises(Died):
            at.deliver(at.message())
        taken.append(fenced_put(at, step, 1))

    at.script.pricing = stalls
    at.deliver(at.message())
    assert (taken, tea(at)["price"]) == ([True, False], 2)


def test_what_the_items_fence_does_not_cover(at: Scene) -> None:
    """It is no commit: the write stays though its attempt failed, and is made again by the next one."""
    taken: list[bool] = []

    def pricing(step: Step[OrderState]) -> None:
        taken.append(fenced_put(at, step, step.attempt))
        if step.attempt == 1:
            boom(step)

    at.script.pricing = pricing
    at.deliver(at.message())
    assert (tea(at)["price"], at.priced()) == (1, 0)
    at.deliver(at.message(retry=1))
    assert (taken, tea(at)["price"]) == ([True, True], 2)

"""Records of Kafka at work: the answer names the first of each partition at which Lambda goes on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.errors import NotProcessed
from flowguard.events import EventType
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.testing import kafka_event
from tests.scene import START, Order, Scene, scene
from tests.worker.runtime.mishaps import boom

QUEUE: Final = "arn:aws:sqs:eu-west-1:123456789012:price-order"
ACKED: Final[dict[str, Any]] = {"batchItemFailures": []}


class Valued(BaseModel):
    key: str
    value: Order | None = None


class Mirror(Stage[Valued], name="mirror", inbox="price-order", retry=RetryPolicy(attempts=3, backoff=Fixed(0))):
    happens: Any = staticmethod(lambda step: None)

    def handle(self, valued: Valued, step: Step) -> Outcome:
        Mirror.happens(step)
        if valued.value is None:
            step.delete("orders", {"id": valued.key})
        else:
            step.put("orders", {"id": valued.key, "note": valued.value.note})
        return Done()


class Orders(Flow, name="orders", object_id="key", dead_letters="dead"):
    stages = (Mirror,)


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mirror, "happens", staticmethod(lambda step: None))


def handler(at: Scene, **more: Any) -> Any:
    return lambda_handler(Orders, **more).using(at.handler._services)


def event(*records: tuple[int, int, Any]) -> dict[str, Any]:
    """The event of records, each by its partition, its offset and its value. The key names partition and offset."""
    made = kafka_event("orders", None)
    made["records"] = {}
    for partition, offset, value in records:
        key = f"o{partition}-{offset}"
        [(name, several)] = kafka_event("orders", value, key=key, partition=partition, offset=offset, at=START - 1_000)[
            "records"
        ].items()
        made["records"].setdefault(name, []).extend(several)
    return made


def failed(*names: tuple[str, int]) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": {"partition": name, "offset": at}} for name, at in names]}


def kept(at: Scene) -> list[str]:
    return sorted(row["id"]["S"] for row in at.aws.client("dynamodb").scan(TableName="orders")["Items"])


ORDER: Final = Order(order_id="o1", note="tea")


@pytest.mark.parametrize("together", [False, True])
def test_the_answer_names_each_record_that_stays(together: bool, at: Scene) -> None:
    flow, batch = (
        handler(at, together=together),
        event((0, 1, ORDER), (0, 2, b"\xff"), (0, 3, b"\xff"), (0, 4, ORDER), (1, 7, b"\xff"), (2, 1, ORDER)),
    )
    assert flow(batch) == failed(("orders-0", 2), ("orders-0", 3), ("orders-1", 7))
    assert kept(at) == ["o0-1", "o0-4", "o2-1"]
    again = event((0, 2, ORDER), (0, 3, ORDER), (0, 4, ORDER), (1, 7, ORDER))
    assert flow(again) == ACKED
    assert at.told(EventType.DONE) == 1, "the one behind those that had failed"


def test_the_answer_names_them_so_where_all_can_be_read_and_where_none_can(at: Scene) -> None:
    assert handler(at)(event((0, 2, b"\xff"))) == failed(("orders-0", 2))

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "dynamodb":
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, call.operation)
        return proceed()

    with intercept(refuse):
        assert handler(at)(event((1, 7, ORDER))) == failed(("orders-1", 7))


def test_what_nobody_can_have_read_fails_as_a_whole(at: Scene) -> None:
    broken = event((0, 1, ORDER))
    broken["records"]["orders-0"][0]["offset"] = None
    with pytest.raises(NotProcessed):
        handler(at)(broken)


def test_what_fails_in_its_stage_is_tried_again_in_the_inbox_and_the_partition_goes_on(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mirror, "happens", staticmethod(boom))
    flow = handler(at)
    assert flow(event((0, 1, ORDER))) == ACKED
    [message] = at.sent("price-order")
    monkeypatch.setattr(Mirror, "happens", staticmethod(lambda step: None))
    back = {**message, "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:price-order"}
    assert flow({"Messages": [back]}) == ACKED
    assert kept(at) == ["o0-1"]


@pytest.mark.parametrize(("later", "ended"), [(0, False), (3_599, False), (3_601, True)])
def test_a_record_without_a_time_is_given_up_so_long_after_its_first_failure(
    later: int, ended: bool, at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mirror, "happens", staticmethod(boom))
    policy = RetryPolicy(attempts=9, backoff=Fixed(0), give_up_after=timedelta(hours=1))
    monkeypatch.setattr(Mirror, "retry", policy)
    untimed = event((0, 15, ORDER))
    untimed["records"]["orders-0"][0]["timestamp"] = -1
    assert handler(at)(untimed) == ACKED
    [retry] = at.sent("price-order")
    at.clock.advance(seconds=later)
    assert handler(at)({"Messages": [{**retry, "eventSourceARN": QUEUE}]}) == ACKED
    assert len(at.sent("dead")) == ended


def test_a_record_with_a_time_is_given_up_so_long_after_that(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mirror, "happens", staticmethod(boom))
    monkeypatch.setattr(Mirror, "retry", RetryPolicy(attempts=9, backoff=Fixed(0), give_up_after=timedelta(hours=1)))
    timed = event((0, 15, ORDER))
    timed["records"]["orders-0"][0]["timestamp"] = START - 3_601_000
    assert handler(at)(timed) == ACKED
    assert (at.sent("price-order"), len(at.sent("dead"))) == ([], 1)


def test_a_tombstone_is_a_request_too_and_the_later_offset_of_one_time_stays(at: Scene) -> None:
    flow = handler(at)

    def of_one(offset: int, value: Any) -> Any:
        return kafka_event("orders", value, key="o1", offset=offset, at=START - 1_000)

    assert flow(of_one(1, ORDER)) == ACKED
    assert kept(at) == ["o1"]
    assert flow(of_one(2, None)) == ACKED
    assert kept(at) == []
    assert flow(of_one(1, ORDER)) == ACKED
    assert (kept(at), at.told(EventType.STALE)) == ([], 1)

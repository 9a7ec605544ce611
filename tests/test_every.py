"""A flow that begins runs by the clock: what is wrong with a schedule is said where the flow is defined."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from flowguard.codecs import Compressed
from flowguard.destinations import Topic
from flowguard.errors import DefinitionError
from flowguard.events import EventType
from flowguard.every import SCHEDULED_AT, Every, every_problems
from flowguard.flow import IGNORE, PER_REQUEST, AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import LARGEST_SCHEDULED
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import schedule_event
from flowguard.wire.notification import from_timestamp
from tests.scene import START, Scene, Script, scene

TICK = "2027-01-15T08:00:00Z"


class Night(BaseModel):
    night: str
    shops: int = 0
    began: datetime | None = None


NIGHTLY = Every("cron(0 2 * * ? *)", {"night": SCHEDULED_AT, "shops": 500}, timezone="Europe/Berlin")


def counting(script: Script, **options: Any) -> AnyFlow:
    class Count(Stage[Night], name="count", inbox="price-order"):
        def handle(self, night: Night, step: Step) -> Outcome:
            script.handled.append((night.night, step.request_id, night.shops))
            return Done()

    class Nights(Flow, name="orders", **{"object_id": "night", "every": (NIGHTLY,), **options}):
        stages = (Count,)

    return Nights


def given(*arguments: Any, **options: Any) -> tuple[Every]:
    """A schedule of whatever somebody may write."""
    return (Every(*arguments, **options),)


def ticked(at: Scene, time: str = TICK) -> None:
    """What EventBridge Scheduler does at a tick."""
    moment = from_timestamp(time)
    assert at.handler(schedule_event(at.flow, at=moment)) == {"batchItemFailures": []}


def test_a_tick_is_a_request_with_its_own_id_and_time() -> None:
    with scene(counting) as at:
        ticked(at)
        item = at.item(TICK)
        assert item is not None
        assert (item.request_id, item.requested_at) == (f"orders/tick/{TICK}", START)
        assert at.script.handled == [(TICK, f"orders/tick/{TICK}", 500)]
        assert at.told(EventType.WEAK_ID) == 0


def test_a_tick_that_is_delivered_twice_is_one_run_also_after_the_next_one() -> None:
    def of_one_shop(script: Script) -> AnyFlow:
        return counting(script, every=(Every("rate(1 day)", {"night": "all"}),))

    with scene(of_one_shop) as at:
        for time in (TICK, TICK, "2027-01-15T08:10:00Z", TICK):
            ticked(at, time)
        assert [request for _, request, _ in at.script.handled] == [
            f"orders/tick/{time}" for time in (TICK, "2027-01-15T08:10:00Z")
        ]


@pytest.mark.parametrize("options", [{"object_id": PER_REQUEST}, {"on_conflict": IGNORE}])
def test_any_kind_of_flow_may_have_schedules(options: Any) -> None:
    with scene(lambda script: counting(script, **options)) as at:
        ticked(at)
        assert len(at.script.handled) == 1


@pytest.mark.parametrize("field", ["night", "began"])
def test_the_time_of_a_tick_stands_wherever_the_payload_says(field: str) -> None:
    every = Every("rate(1 day)", {"night": "n", field: SCHEDULED_AT})
    with scene(lambda script: counting(script, every=(every,))) as at:
        ticked(at)
        assert len(at.script.handled) == 1


WRONG: list[tuple[Any, str]] = [
    (NIGHTLY, "every is Every.*; write a tuple"),
    (("rate(1 day)",), "write a tuple: every="),
    *(
        (given(expression, {"night": "n"}), "is no schedule; write rate")
        for expression in ("", "1 day", "rate(0 days)", "rate(1 week)", "cron(0 2 * * ?)", "at(2027-01-01T00:00:00)", 7)
    ),
    *(
        (given(f"cron(0 2 {days} 2027)", {"night": "n"}), "says both days or none; write [?] for the day of the month")
        for days in ("* * *", "? * ?", "1 * 2")
    ),
    *(
        (given("rate(1 day)", {"night": "n"}, timezone=zone), "timezone=.* is no time zone; write one such as")
        for zone in ("", "Europe/", "a b", None)
    ),
    *(
        (given("rate(1 day)", {"night": "n"}, name=name), "name=.* must be 1 to 32 of")
        for name in ("", "a/b", "n" * 33, None)
    ),
    (given("rate(1 day)", "night"), "payload='night' is no object; write a dict"),
    ((Every("rate(1 day)", {"night": object()}),), "its payload cannot be sent: dict cannot become JSON"),
    (
        (Every("rate(1 day)", {"night": "<aws.scheduler.attempt-number>"}),),
        "its payload has <aws.scheduler.…, which EventBridge Scheduler replaces; only SCHEDULED_AT",
    ),
    ((NIGHTLY, NIGHTLY), "2 of its schedules are named 'tick'; give them names of their own"),
    ((Every("rate(1 day)", {"night": "n" * 300_000}),), "300,.* bytes, and EventBridge Scheduler takes 262,144"),
    ((Every("rate(1 day)", {"night": 7}),), "every: the payload of a schedule is no Night: night"),
    ((Every("rate(1 day)", {"night": ""}),), "every: the payload has no usable 'night' to name the object by"),
]


@pytest.mark.parametrize(("every", "says"), WRONG)
def test_a_schedule_that_cannot_be_meant_is_refused_where_its_flow_is_defined(every: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        counting(Script(), every=every)


@pytest.mark.parametrize("inbox", ["nights.fifo", Topic("arn:aws:sns:eu-west-1:123456789012:nights")])
def test_a_schedule_sends_to_a_standard_queue_alone(inbox: Any) -> None:
    class Count(Stage[Night], name="count", inbox=inbox):
        def handle(self, night: Night, step: Step) -> Outcome:
            return Done()

    with pytest.raises(DefinitionError, match="a schedule sends to a standard queue; give it such an inbox"):

        class Nights(Flow, name="nights", object_id="night", every=(NIGHTLY,)):
            stages = (Count,)


def test_a_flow_that_takes_sealed_requests_alone_has_no_schedule() -> None:
    with pytest.raises(DefinitionError, match="the requests of its schedules are not; leave it out"):
        counting(Script(), codec=Compressed(), sealed_only=True)


def test_an_event_of_a_schedule_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="orders has no schedule 'nightly'; it has tick"):
        schedule_event(counting(Script()), "nightly")
    with pytest.raises(ValueError, match="it has none"):
        schedule_event(counting(Script(), every=()))


@pytest.mark.parametrize("expression", ["cron(0 2 ? * MON *)", "cron(0 2 1 * ? *)", "rate(5 minutes)"])
def test_what_the_scheduler_takes_is_taken(expression: str) -> None:
    assert counting(Script(), every=given(expression, {"night": "n"})).every[0].problem() is None


def test_the_body_of_a_tick_names_stage_and_time() -> None:
    body = json.loads(NIGHTLY.input("orders", "count"))
    assert body["MessageAttributes"]["flowstage"] == {"Type": "String", "Value": "orders/count"}
    assert body["Timestamp"] == SCHEDULED_AT


@pytest.mark.parametrize("text", ["{{resolve:ssm:/shop/key}}", "{{{resolve", r"\{{", "{{{{", "{ {"])
def test_no_text_of_a_payload_is_a_reference_of_cloudformation(text: str) -> None:
    body = Every("rate(1 day)", {"night": text, text: [{"a": {}}]}).input("orders", "count")
    assert "{{" not in body
    assert json.loads(json.loads(body)["Message"])["detail"] == {"night": text, text: [{"a": {}}]}


class Unreadable(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise OSError("the file is gone")

    def __iter__(self) -> Iterator[str]:
        raise OSError("the file is gone")

    def __len__(self) -> int:
        return 1


class Checked(BaseModel):
    night: str

    @field_validator("night")
    @classmethod
    def _is_known(cls, night: str) -> str:
        raise OSError("the file is gone")


def test_an_error_that_is_not_the_payloads_is_no_problem_of_the_schedule() -> None:
    with pytest.raises(OSError, match="the file is gone"):
        counting(Script(), every=(Every("rate(1 day)", Unreadable()),))

    class Check(Stage[Checked], name="check", inbox="nights"):
        def handle(self, night: Checked, step: Step) -> Outcome:
            return Done()

    with pytest.raises(OSError, match="the file is gone"):

        class Checks(Flow, name="checks", object_id="night", every=(Every("rate(1 day)", {"night": "n"}),)):
            stages = (Check,)


def test_a_flow_without_schedules_may_read_anything_and_be_sealed() -> None:
    assert counting(Script(), every=(), codec=Compressed(), sealed_only=True).every == ()
    assert list(every_problems((), Topic("arn:aws:sns:eu-west-1:123456789012:nights"), sealed_only=False)) == []


def test_a_message_that_the_scheduler_just_takes_is_taken() -> None:
    [least] = given("rate(1 day)", {"night": ""})
    room = LARGEST_SCHEDULED - len(least.input("orders", "count"))
    assert counting(Script(), every=given("rate(1 day)", {"night": "n", "note": "x" * (room - 15)})).every

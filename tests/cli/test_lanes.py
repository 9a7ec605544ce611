"""Commands and the lanes of an inbox: a request says its own, and a stage is paused with all of its queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from boto3.session import Session
from click.testing import CliRunner, Result

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.clock import ManualClock
from flowguard.lanes import Lane
from tests.cli.test_pause import WHY, bound, mappings, on, rows, run
from tests.deploy.deployed import REGION, Stack, made_on_moto
from tests.deploy.test_lanes import text_of
from tests.scene import START, Scene, scene

ORDERS: Final = "tests.deploy.laned:Orders"
ALL: Final = {"orders", "orders-urgent", "shipping", "shipping-urgent"}
EVERYWHERE: Final = ALL | {"orders-answers", "orders-killed", "prices", "prices-urgent"}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    template = json.loads(text_of("cloudformation"))
    with made_on_moto(monkeypatch, template, Session("moto", "moto", region_name=REGION)) as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


# -- pause and resume -------------------------------------------------------------------------------------------------


def test_a_stage_is_paused_with_all_of_its_lanes_and_resumed(stack: Stack, clock: ManualClock) -> None:
    said = run(clock, "pause", ORDERS, "--why", WHY, "--stage", "take").stdout.splitlines()
    assert said[::2] == ["PAUSED  orders take", "PAUSED  orders take/urgent"]
    assert on(stack) == EVERYWHERE - {"orders", "orders-urgent"}
    stats = run(clock, "stats", "--flow", "orders").stdout
    assert "orders take/urgent" in stats
    said = run(clock, "resume", ORDERS, "--stage", "take").stdout.splitlines()
    assert said == ["RESUMED  orders take", "RESUMED  orders take/urgent"]
    assert on(stack) == EVERYWHERE
    assert rows(stack) == []


def test_a_flow_is_paused_with_the_lanes_of_all_stages_and_drained_slowly(stack: Stack, clock: ManualClock) -> None:
    bound(stack, "orders-urgent", 15)
    run(clock, "pause", ORDERS, "--why", WHY)
    assert on(stack) == EVERYWHERE - ALL
    run(clock, "resume", ORDERS, "--at-once", "4")
    assert on(stack) == EVERYWHERE
    assert {queue: most for queue, (_, most) in mappings(stack).items() if queue in ALL} == {
        "orders": 4,
        "orders-urgent": 4,
        "shipping": 3,
        "shipping-urgent": 3,
    }
    run(clock, "resume", ORDERS)
    assert mappings(stack)["orders-urgent"] == ("Enabled", 15)


@pytest.mark.parametrize(("lane", "queue"), [("take/urgent", "orders-urgent"), ("take/normal", "orders")])
def test_a_lane_may_be_paused_and_resumed_by_itself(stack: Stack, clock: ManualClock, lane: str, queue: str) -> None:
    run(clock, "pause", ORDERS, "--why", WHY, "--stage", lane)
    assert on(stack) == EVERYWHERE - {queue}
    run(clock, "resume", ORDERS, "--stage", lane)
    assert on(stack) == EVERYWHERE
    run(clock, "pause", ORDERS, "--why", WHY)
    run(clock, "resume", ORDERS, "--stage", lane)
    assert on(stack) == EVERYWHERE - ALL | {queue}


def test_a_lane_that_there_is_not_is_named(stack: Stack, clock: ManualClock) -> None:
    said = run(clock, "pause", ORDERS, "--why", WHY, "--stage", "take/fast", code=2).stderr
    assert "has no stage 'take/fast', but take, take/normal, take/urgent, ship, ship/by-night, ship/urgent" in said


class First(Stage[dict[str, str]], name="first", then="second"):
    def handle(self, payload: dict[str, str], step: Step) -> Outcome:
        return Done()


class Second(First, name="second", then=()):
    pass


class Both(
    Flow, name="both", object_id="id", inbox=(Lane("normal", "orders"), Lane("urgent", "orders-urgent", weight=3))
):
    stages = (First, Second)


@pytest.mark.parametrize(("lane", "queue"), [("urgent", "orders-urgent"), ("normal", "orders")])
def test_a_lane_of_two_stages_is_paused_for_both(stack: Stack, clock: ManualClock, lane: str, queue: str) -> None:
    both = (f"{__name__}:Both", "--why", WHY)
    said = run(clock, "pause", *both, "--stage", f"first/{lane}", code=2).stderr
    assert f"queue {queue!r} is also that of second/{lane}, and is paused as a whole; name it too" in said
    run(clock, "pause", *both, "--stage", f"first/{lane}", "--stage", f"second/{lane}")
    assert on(stack) == EVERYWHERE - {queue}


class Plain(First, name="take", then=(), inbox="orders"):
    pass


class Earlier(Flow, name="orders", object_id="id"):
    """The flow from before it had lanes."""

    stages = (Plain,)


def test_a_lane_that_a_flow_has_no_more_is_resumed_by_its_name_alone(stack: Stack, clock: ManualClock) -> None:
    run(clock, "pause", ORDERS, "--why", WHY, "--stage", "take")
    run(clock, "resume", f"{__name__}:Earlier", "--stage", "take")
    assert on(stack) == EVERYWHERE - {"orders-urgent"}
    run(clock, "resume", f"{__name__}:Earlier", "--stage", "take/urgent")
    assert on(stack) == EVERYWHERE


# -- send -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        for queue in ALL:
            found.aws.create_queue(queue)
        yield found


def send(at: Scene, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["send", *arguments], obj=CommandTime(at.clock))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize(("lane", "queue"), [((), "orders"), (("--lane", "urgent"), "orders-urgent")])
def test_a_request_says_its_lane(at: Scene, lane: tuple[str, ...], queue: str) -> None:
    asked = (ORDERS, "--payload", '{"order_id":"o1"}', "--request-id", "r1", *lane)
    assert send(at, *asked, "--dry-run").stdout.startswith(f"would be sent to sqs:{queue}\n")
    assert send(at, *asked).stdout == f"SENT  orders of o1: request r1 to sqs:{queue}\n"
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    (message,) = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
    attributes: dict[str, Any] = {**message["MessageAttributes"]}
    assert attributes.get("lane", {}).get("StringValue") == (lane[1] if lane else None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            (ORDERS, "--payload", '{"order_id":"o1"}', "--lane", "fast"),
            "orders has no lane 'fast'; it has normal, urgent",
        ),
        (("orders", "--payload", "x", "--lane", "urgent"), "--after and --lane are for a flow; write MODULE:FLOW"),
    ],
)
def test_a_lane_that_cannot_be_is_refused(at: Scene, arguments: tuple[str, ...], said: str) -> None:
    result = send(at, *arguments, code=2)
    assert said in " ".join(result.stderr.replace("│", "").split())

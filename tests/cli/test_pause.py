"""``flowguard pause`` and ``flowguard resume``: the event source mappings of a flow's queues, and why they are off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from boto3.session import Session
from botocore.exceptions import ClientError, EndpointConnectionError
from click.testing import CliRunner, Result

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.cli.pause import LONGEST_WHY
from flowguard.clock import ManualClock
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.deploy.deployed import REGION, Stack, made_on_moto
from tests.deploy.templates import template
from tests.scene import START

CART: Final = "flows.validate_cart.flow:ValidateCart"
QUEUES: Final = ("carts", "carts-to-complete", "carts-to-check", "carts-to-confirm")
PAGE: Final = Path(__file__).parents[2] / "docs" / "operate" / "pause.md"
WHY: Final = "the stock service is away"


class Pack(Stage[dict[str, str]], name="pack", then="ship", inbox="shelf"):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done()


class Ship(Stage[dict[str, str]], name="ship", inbox="shelf"):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done()


class Parcels(Flow, name="parcels", object_id="order_id"):
    stages = (Pack, Ship)


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    with made_on_moto(monkeypatch, template("validate_cart"), Session("moto", "moto", region_name=REGION)) as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def run(clock: ManualClock, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, obj=CommandTime(clock, lambda _: None))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def pause(clock: ManualClock, *options: str, why: str = WHY, code: int = 0) -> Result:
    return run(clock, "pause", CART, "--why", why, *options, code=code)


def mappings(stack: Stack) -> dict[str, tuple[str, int | None]]:
    """The state and the largest concurrency of each mapping, by its queue."""
    there = stack.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    return {
        one["EventSourceArn"].rpartition(":")[2]: (
            one["State"],
            (one.get("ScalingConfig") or {}).get("MaximumConcurrency"),
        )
        for one in there
    }


def on(stack: Stack) -> set[str]:
    return {queue for queue, (state, _) in mappings(stack).items() if state == "Enabled"}


def bound(stack: Stack, queue: str, at_once: int) -> None:
    """Give the mapping of a queue a largest concurrency."""
    change = {"UUID": stack.sources[queue], "ScalingConfig": {"MaximumConcurrency": at_once}}
    stack.client("lambda").update_event_source_mapping(**change)


def rows(stack: Stack) -> list[Any]:
    items: list[Any] = stack.client("dynamodb").scan(TableName="flowguard")["Items"]
    return items


# -- pause


def test_a_flow_is_paused_by_the_mappings_of_its_stages_and_resumed(stack: Stack, clock: ManualClock) -> None:
    everywhere = on(stack)
    said = pause(clock).stdout.splitlines()
    assert [line.split()[:3] for line in said[::2]] == [
        ["PAUSED", "validate-cart", stage] for stage in ("price-cart", "add-found", "check-cart", "confirm-cart")
    ]
    assert on(stack) == everywhere - set(QUEUES)
    assert "validate-cart" in on(stack)  # its answers and deadlines go on
    run(clock, "resume", CART)
    assert on(stack) == everywhere
    assert rows(stack) == []


def test_one_stage_is_paused_and_the_page_shows_what_is_said(stack: Stack, clock: ManualClock) -> None:
    shown = ["$ flowguard pause flows.validate_cart.flow:ValidateCart --stage check-cart --why '" + WHY + "'"]
    shown += pause(clock, "--stage", "check-cart").stdout.splitlines()
    assert set(QUEUES) - on(stack) == {"carts-to-check"}
    clock.advance(seconds=3_600)
    shown += ["", "$ flowguard stats --flow validate-cart"]
    shown += run(clock, "stats", "--flow", "validate-cart").stdout.splitlines()
    shown += ["", "$ flowguard resume flows.validate_cart.flow:ValidateCart --stage check-cart --at-once 5"]
    shown += run(clock, "resume", CART, "--stage", "check-cart", "--at-once", "5").stdout.splitlines()
    shown += ["", "$ flowguard resume flows.validate_cart.flow:ValidateCart --stage check-cart"]
    shown += run(clock, "resume", CART, "--stage", "check-cart").stdout.splitlines()
    assert "\n".join(shown) in PAGE.read_text(encoding="utf-8"), "\n".join(shown)


def test_what_was_paused_first_stays_and_a_second_time_goes_on(stack: Stack, clock: ManualClock) -> None:
    """The first one was cut off between its row and the mapping."""
    with intercept(refuse("UpdateEventSourceMapping", "ServiceException")):
        pause(clock, "--stage", "check-cart", code=2)
    assert "carts-to-check" in on(stack)
    clock.advance(seconds=60)
    said = pause(clock, "--stage", "check-cart", why="again").stdout
    assert said.startswith(f"PAUSED  validate-cart check-cart since 2027-01-15T08:00:00.000Z: {WHY}\n")
    assert "carts-to-check" not in on(stack)
    run(clock, "resume", CART, "--stage", "check-cart")
    assert "carts-to-check" in on(stack)


def refuse(operation: str, code: str) -> Any:
    def refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            raise ClientError({"Error": {"Code": code, "Message": "not now"}}, operation)
        return proceed()

    return refused


@contextmanager
def noted() -> Iterator[list[str]]:
    """The operations that are called meanwhile."""
    calls: list[str] = []

    def note(call: ApiCall, proceed: Proceed) -> Response:
        calls.append(call.operation)
        return proceed()

    with intercept(note):
        yield calls


def test_a_pause_is_one_write_of_its_row(stack: Stack, clock: ManualClock) -> None:
    with noted() as calls:
        pause(clock, "--stage", "check-cart")
        pause(clock, "--stage", "check-cart")
    assert (calls.count("PutItem"), calls.count("UpdateEventSourceMapping")) == (2, 1)


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "ThrottlingException", "Message": "not now"}}, "PutItem"),
        EndpointConnectionError(endpoint_url="https://dynamodb"),
    ],
    ids=["refused", "away"],
)
def test_nothing_is_paused_that_has_no_row(stack: Stack, clock: ManualClock, error: Exception) -> None:
    def fail(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "PutItem":
            raise error
        return proceed()

    with intercept(fail):
        assert "Error: stage check-cart: " in pause(clock, "--stage", "check-cart", code=2).stderr
    assert "carts-to-check" in on(stack)


def test_a_mapping_that_was_off_before_stays_off(stack: Stack, clock: ManualClock) -> None:
    stack.client("lambda").update_event_source_mapping(UUID=stack.sources["carts-to-check"], Enabled=False)
    with noted() as calls:
        pause(clock, "--stage", "check-cart")
    assert "UpdateEventSourceMapping" not in calls
    result = run(clock, "resume", CART, "--stage", "check-cart")
    assert "the mappings that were turned off are gone" in result.stderr
    assert "carts-to-check" not in on(stack)


def test_a_pause_as_json_counts_what_waits(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    queue = stack.client("sqs").get_queue_url(QueueName="carts-to-check")["QueueUrl"]
    stack.client("sqs").send_message(QueueUrl=queue, MessageBody="{}")
    assert json.loads(pause(clock, "--stage", "check-cart", "--json").stdout) == {
        "flow": "validate-cart",
        "stage": "check-cart",
        "verdict": "PAUSED",
        "since": "2027-01-15T08:00:00.000Z",
        "why": WHY,
        "queue": "carts-to-check",
        "messages": 1,
        "kept_for_seconds": 345_600,
        "functions": ["validate-cart-check-cart"],
    }


def test_a_queue_that_nothing_reads_cannot_be_paused(stack: Stack, clock: ManualClock) -> None:
    stack.client("lambda").delete_event_source_mapping(UUID=stack.sources["carts-to-check"])
    said = pause(clock, "--stage", "check-cart", code=2).stderr
    assert "queue 'carts-to-check': no event source mapping reads it, so nothing is paused" in said
    assert rows(stack) == []


def test_a_queue_that_is_not_there_is_named(stack: Stack, clock: ManualClock) -> None:
    said = run(clock, "pause", f"{__name__}:Parcels", "--why", WHY, code=2).stderr
    assert said.startswith("Error: queue 'shelf': ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pause", CART), "Missing option '--why'"),
        (("pause", CART, "--why", " "), f"--why: it takes 1 to {LONGEST_WHY} characters"),
        (("pause", CART, "--why", "x" * (LONGEST_WHY + 1)), f"--why: it takes 1 to {LONGEST_WHY} characters"),
        (("pause", CART, "--why", WHY, "--stage", "check"), "validate-cart has no stage 'check', but price-cart, "),
        (("pause", f"{__name__}:Parcels", "--why", WHY, "--stage", "ship"), "queue 'shelf' is also that of pack, and "),
        (("resume", f"{__name__}:Parcels", "--stage", "pack"), "queue 'shelf' is also that of ship, and is paused"),
        (("resume", CART, "--at-once", "1"), "1 is not in the range 2<=x<=1000"),
        (("resume", "flows.validate_cart.flow:Nothing"), "Nothing"),
    ],
)
def test_what_is_refused(clock: ManualClock, arguments: tuple[str, ...], said: str) -> None:
    """Nobody is asked: there are no credentials."""
    assert said in " ".join(run(clock, *arguments, code=2).stderr.split())


def test_a_why_of_200_characters_is_kept(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart", why="x" * LONGEST_WHY)
    assert [row["why"]["S"] for row in rows(stack)] == ["x" * LONGEST_WHY]


# -- resume


def test_what_has_piled_up_is_drained_slowly_and_then_as_before(stack: Stack, clock: ManualClock) -> None:
    bound(stack, "carts-to-check", 40)
    pause(clock)
    run(clock, "resume", CART, "--at-once", "5")
    assert {mappings(stack)[queue] for queue in QUEUES} == {("Enabled", 5)}
    clock.advance(seconds=7_200)
    told = run(clock, "stats", "--flow", "validate-cart").stdout
    assert f"validate-cart check-cart: drained, 5 batches at once, after it was paused 2 h ago: {WHY}" in told
    run(clock, "resume", CART)
    assert mappings(stack)["carts-to-check"] == ("Enabled", 40)
    assert mappings(stack)["carts"] == ("Enabled", None)
    assert rows(stack) == []


def test_a_stage_that_is_drained_can_be_paused_again(stack: Stack, clock: ManualClock) -> None:
    bound(stack, "carts-to-check", 40)
    pause(clock)
    run(clock, "resume", CART, "--at-once", "5")
    pause(clock)
    assert not on(stack) & set(QUEUES)
    assert {json.loads(line)["at_once"] for line in stats_lines(clock)} == {None}
    run(clock, "resume", CART)
    assert mappings(stack)["carts-to-check"] == ("Enabled", 40)


def stats_lines(clock: ManualClock) -> list[str]:
    return run(clock, "stats", "--flow", "validate-cart", "--json").stdout.splitlines()


def test_stats_as_json_name_what_is_paused(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    assert [json.loads(line) for line in stats_lines(clock)] == [
        {
            "flow": "validate-cart",
            "stage": "check-cart",
            "paused_since": "2027-01-15T08:00:00.000Z",
            "why": WHY,
            "at_once": None,
        }
    ]


def test_a_stage_that_is_not_paused_is_said_and_left_alone(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    result = run(clock, "resume", CART, "--json", code=1)
    verdicts = [json.loads(line)["verdict"] for line in result.stdout.splitlines()]
    assert verdicts == ["NOT_PAUSED", "NOT_PAUSED", "RESUMED", "NOT_PAUSED"]
    result = run(clock, "resume", CART, "--stage", "check-cart", code=1)
    assert result.stderr == "validate-cart check-cart: it was not paused, and nothing was changed\n"


def test_a_resume_that_was_stopped_is_repeated(stack: Stack, clock: ManualClock) -> None:
    pause(clock)
    with intercept(refuse("DeleteItem", "InternalServerError")):
        run(clock, "resume", CART, code=2)
    assert len(rows(stack)) == 4
    run(clock, "resume", CART)
    assert rows(stack) == []
    assert on(stack) >= set(QUEUES)


def test_a_mapping_in_provisioned_mode_keeps_its_pollers(stack: Stack, clock: ManualClock) -> None:
    """It takes no ScalingConfig, so none is sent where nothing of it changes."""
    pause(clock, "--stage", "check-cart")
    sent = []

    def noted(call: ApiCall, proceed: Proceed) -> Response:
        sent.append((call.operation, "ScalingConfig" in call.params))
        return proceed()

    with intercept(noted):
        run(clock, "resume", CART, "--stage", "check-cart")
    assert [changed for operation, changed in sent if operation == "UpdateEventSourceMapping"] == [False]

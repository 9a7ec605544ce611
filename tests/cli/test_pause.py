"""``flowguard pause`` and ``flowguard resume``: the event source mappings of a flow's queues, and why they are off."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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
UPDATE: Final = "UpdateEventSourceMapping"
WHY: Final = "the stock service is away"


class Pack(Stage[dict[str, str]], name="pack", then="ship", inbox="shelf"):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done()


class Ship(Stage[dict[str, str]], name="ship", inbox="shelf"):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done()


class Check(Stage[dict[str, str]], name="check", inbox="carts-to-check"):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done()


class CheckAgain(Check, name="check-again", inbox="carts-to-check"):
    pass


class First(Check, name="first", then="check-again", inbox="carts-to-check"):
    pass


class Carts(Check, name="check", inbox="carts"):
    pass


class Foreign(Check, name="check", inbox="arn:aws:sqs:eu-west-1:999999999999:carts-to-check"):
    pass


class Checks(Flow, name="checks", object_id="order_id"):
    stages = (Check,)


class Later(Flow, name="checks", object_id="order_id"):
    """The flow of the next release: its stage has another name."""

    stages = (CheckAgain,)


class Checks2(Flow, name="other-checks", object_id="order_id"):
    stages = (Carts,)


class Named(Check, name="check-cart", inbox="carts"):
    pass


class SameName(Flow, name="same-name", object_id="order_id"):
    stages = (Named,)


class Twice(Flow, name="twice", object_id="order_id"):
    stages = (First, CheckAgain)


class Elsewhere(Flow, name="elsewhere", object_id="order_id"):
    stages = (Foreign,)


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

    def lost(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateEventSourceMapping":
            raise EndpointConnectionError(endpoint_url="https://lambda")
        return proceed()

    with intercept(lost):
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
        calls.extend(name for name in call.params if name == "ScalingConfig")
        return proceed()

    with intercept(note):
        yield calls


def test_a_pause_is_one_write_of_its_row(stack: Stack, clock: ManualClock) -> None:
    with noted() as calls:
        pause(clock, "--stage", "check-cart")
        pause(clock, "--stage", "check-cart")
    assert (calls.count("PutItem"), calls.count(UPDATE), calls.count("ScalingConfig")) == (2, 1, 0)


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
        said = pause(clock, "--stage", "check-cart", code=2).stderr
    assert said.startswith("Error: stage check-cart: ")
    assert "somebody else" not in said
    assert "carts-to-check" in on(stack)


def test_a_mapping_that_was_off_before_stays_off(stack: Stack, clock: ManualClock) -> None:
    stack.client("lambda").update_event_source_mapping(UUID=stack.sources["carts-to-check"], Enabled=False)
    with noted() as calls:
        pause(clock, "--stage", "check-cart")
    assert "UpdateEventSourceMapping" not in calls
    result = run(clock, "resume", CART, "--stage", "check-cart", code=1)
    assert "its mappings were off before the pause, and stay off" in result.stderr
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
    assert "queue 'carts-to-check': no event source mapping reads it, so it is not paused" in said
    assert rows(stack) == []


def test_a_queue_that_is_not_there_is_named(stack: Stack, clock: ManualClock) -> None:
    said = run(clock, "pause", f"{__name__}:Parcels", "--why", WHY, code=2).stderr
    assert said.startswith("Error: queue 'shelf': ")


def test_a_queue_is_named_as_it_is_called_at_aws(
    stack: Stack, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWGUARD_NAMES", "dev-*,tables.flowguard=flowguard")
    assert pause(clock, code=2).stderr.startswith("Error: queue 'dev-carts': ")
    monkeypatch.setenv("FLOWGUARD_NAMES", "*-next,tables.flowguard=flowguard,queues.carts-to-check=carts-to-check")
    assert "        carts-to-check has about" in pause(clock, "--stage", "check-cart").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pause", CART), "Missing option '--why'"),
        (("pause", CART, "--why", " "), f"--why: it takes 1 to {LONGEST_WHY} characters"),
        (("pause", CART, "--why", "x" * (LONGEST_WHY + 1)), f"--why: it takes 1 to {LONGEST_WHY} characters"),
        (("pause", CART, "--why", WHY, "--stage", "check"), "validate-cart has no stage 'check', but price-cart, "),
        (("pause", CART, "--why", "\udcff"), "--why: it has a character that is no Unicode"),
        (("pause", f"{__name__}:Parcels", "--why", WHY, "--stage", "ship"), "queue 'shelf' is also that of pack, and "),
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
    resumed = run(clock, "resume", CART, "--at-once", "50").stdout
    assert mappings(stack)["carts-to-check"] == ("Enabled", 40), "no more than it had"
    assert "RESUMED  validate-cart check-cart, at most 50 batches at once; resume again without --at-once" in resumed
    assert mappings(stack)["carts"] == ("Enabled", 50)
    run(clock, "resume", CART, "--at-once", "5")
    clock.advance(seconds=7_200)
    told = run(clock, "stats", "--flow", "validate-cart").stdout
    assert f"validate-cart check-cart: drains, at most 5 batches at once, after a pause 2 h ago: {WHY}" in told
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
            "row": "pause",
            "flow": "validate-cart",
            "stage": "check-cart",
            "key": None,
            "paused_since": "2027-01-15T08:00:00.000Z",
            "why": WHY,
            "at_once": None,
            "tried_at": None,
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


@pytest.mark.parametrize("operation", ["PutItem", UPDATE])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_slow_resume_that_was_stopped_leaves_nothing_slow_behind(
    stack: Stack, clock: ManualClock, operation: str, after: bool
) -> None:
    bound(stack, "carts-to-check", 40)
    pause(clock, "--stage", "check-cart")

    def stop(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != operation:
            return proceed()
        if after:
            proceed()
        raise KeyboardInterrupt

    with intercept(stop):
        stopped = CliRunner().invoke(main, ("resume", CART, "--at-once", "5"), obj=CommandTime(clock, lambda _: None))
    assert stopped.exit_code != 0
    run(clock, "resume", CART, "--stage", "check-cart")
    assert mappings(stack)["carts-to-check"] == ("Enabled", 40)
    assert rows(stack) == []


def test_a_slow_resume_whose_row_the_table_does_not_take_changes_no_mapping(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    with intercept(refuse("PutItem", "ProvisionedThroughputExceededException")):
        run(clock, "resume", CART, "--stage", "check-cart", "--at-once", "5", code=2)
    assert "carts-to-check" not in on(stack)
    run(clock, "resume", CART, "--stage", "check-cart")
    assert mappings(stack)["carts-to-check"] == ("Enabled", None)


def test_a_mapping_that_takes_no_concurrency_stays_paused_and_its_row_as_it_was(
    stack: Stack, clock: ManualClock
) -> None:
    """One in provisioned mode takes no ScalingConfig, so a resume without the option sends none."""
    pause(clock, "--stage", "check-cart")
    given: list[Any] = []

    def provisioned(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == UPDATE and "ScalingConfig" in call.params:
            raise ClientError({"Error": {"Code": "InvalidParameterValueException", "Message": "mode"}}, UPDATE)
        given.extend([call.params] if call.operation == UPDATE else [])
        return proceed()

    with intercept(provisioned):
        run(clock, "resume", CART, "--stage", "check-cart", "--at-once", "5", code=2)
        assert [json.loads(line)["at_once"] for line in stats_lines(clock)] == [None]
        run(clock, "resume", CART, "--stage", "check-cart")
    assert len(given) == 1
    assert "carts-to-check" in on(stack)
    assert rows(stack) == []


def test_where_one_of_two_mappings_is_slow_the_row_says_so(stack: Stack, clock: ManualClock) -> None:
    client = stack.client("lambda")
    [mapping] = [one for one in client.list_event_source_mappings()["EventSourceMappings"] if is_of_checks(one)]
    client.create_event_source_mapping(EventSourceArn=mapping["EventSourceArn"], FunctionName=mapping["FunctionArn"])
    pause(clock, "--stage", "check-cart")
    calls: list[str] = []

    def second(call: ApiCall, proceed: Proceed) -> Response:
        calls.extend([UPDATE] if call.operation == UPDATE else [])
        if call.operation == UPDATE and len(calls) == 2:
            raise ClientError({"Error": {"Code": "ResourceInUseException", "Message": "no"}}, UPDATE)
        return proceed()

    with intercept(second):
        run(clock, "resume", CART, "--stage", "check-cart", "--at-once", "5", code=2)
    assert [row["at_once"] for row in rows(stack)] == [{"N": "5"}]
    run(clock, "resume", CART, "--stage", "check-cart")
    found = [one for one in client.list_event_source_mappings()["EventSourceMappings"] if is_of_checks(one)]
    assert [one.get("ScalingConfig") or None for one in found] == [None, None]


def test_a_resume_that_is_refused_writes_no_row(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    before = rows(stack)
    with intercept(refuse(UPDATE, "ResourceInUseException")):
        run(clock, "resume", CART, "--stage", "check-cart", code=2)
    assert rows(stack) == before


def test_what_a_deployment_has_set_meanwhile_stays(stack: Stack, clock: ManualClock) -> None:
    """So a mapping in provisioned mode goes on too, which takes no ScalingConfig."""
    bound(stack, "carts-to-check", 40)
    pause(clock, "--stage", "check-cart")
    bound(stack, "carts-to-check", 30)
    run(clock, "resume", CART, "--stage", "check-cart")
    assert mappings(stack)["carts-to-check"] == ("Enabled", 30)


def test_a_mapping_that_a_deployment_has_replaced_is_paused_and_resumed_too(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    replaced(stack, "carts-to-check")
    pause(clock, "--stage", "check-cart")
    assert "carts-to-check" not in on(stack)
    with intercept(gone(stack)):
        result = run(clock, "resume", CART, "--stage", "check-cart", code=1)
    said = "validate-cart check-cart: 1 of its mappings are gone; 'flowguard doctor' names those there"
    assert result.stderr.strip() == said
    assert "carts-to-check" in on(stack)
    assert rows(stack) == []


def gone(stack: Stack) -> Any:
    """Refuse changes of a mapping that is not there, as Lambda does. moto answers them."""

    def refused(call: ApiCall, proceed: Proceed) -> Response:
        there = stack.client("lambda").list_event_source_mappings if call.operation == UPDATE else None
        if there is not None and call.params["UUID"] not in [one["UUID"] for one in there()["EventSourceMappings"]]:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "gone"}}, UPDATE)
        return proceed()

    return refused


def replaced(stack: Stack, queue: str) -> None:
    """Delete a queue's mapping, and make another."""
    client = stack.client("lambda")
    gone = client.delete_event_source_mapping(UUID=stack.sources[queue])
    client.create_event_source_mapping(EventSourceArn=gone["EventSourceArn"], FunctionName=gone["FunctionArn"])


def test_two_flows_of_one_queue_are_not_paused_both(stack: Stack, clock: ManualClock) -> None:
    run(clock, "pause", f"{__name__}:Checks", "--why", WHY)
    said = pause(clock, "--stage", "check-cart", code=2).stderr
    assert f"queue 'carts-to-check': it is paused already, for check of checks: {WHY}; resume that before" in said
    assert [row["sk"]["S"] for row in rows(stack)] == ["checks#check"]
    run(clock, "resume", f"{__name__}:Checks")
    assert "carts-to-check" in on(stack)


def test_stages_of_one_queue_are_paused_and_resumed_together(stack: Stack, clock: ManualClock) -> None:
    bound(stack, "carts-to-check", 40)
    run(clock, "pause", f"{__name__}:Twice", "--why", WHY)
    assert [list(row["before"]["M"].values()) for row in rows(stack)] == [[{"N": "40"}], [{"N": "40"}]]
    run(clock, "resume", f"{__name__}:Twice", "--at-once", "5")
    run(clock, "resume", f"{__name__}:Twice")
    assert mappings(stack)["carts-to-check"] == ("Enabled", 40)


def test_a_queue_by_its_arn_is_that_of_its_account(stack: Stack, clock: ManualClock) -> None:
    asked: list[Any] = []

    def note(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetQueueUrl":
            asked.append(call.params)
        return proceed()

    with intercept(refuse("GetQueueAttributes", "AccessDenied")), intercept(note):
        run(clock, "pause", f"{__name__}:Elsewhere", "--why", WHY, code=2)
    assert asked[0] == {"QueueName": "carts-to-check", "QueueOwnerAWSAccountId": "999999999999"}
    assert "carts-to-check" in on(stack)


def test_a_pause_that_lambda_refuses_leaves_no_row(stack: Stack, clock: ManualClock) -> None:
    with intercept(refuse("UpdateEventSourceMapping", "ResourceInUseException")):
        said = pause(clock, "--stage", "check-cart", code=2).stderr
    fix = "Lambda is still changing its event source mapping; repeat the command in a minute"
    assert said == f"Error: stage check-cart: {fix}\n"
    assert rows(stack) == []


def test_a_stage_that_the_flow_has_no_more_is_resumed_by_its_name(stack: Stack, clock: ManualClock) -> None:
    run(clock, "pause", f"{__name__}:Checks", "--why", WHY)
    result = run(clock, "resume", f"{__name__}:Later", "--stage", "check")
    assert result.stdout == "RESUMED  checks check\n"
    assert "carts-to-check" in on(stack)
    assert rows(stack) == []


# -- two at once


def between(operation: str, act: Callable[[], object]) -> AbstractContextManager[object]:
    """Let somebody else act once before an operation."""
    left = [act]

    def first(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation and left:
            left.pop()()
        return proceed()

    return intercept(first)


def test_a_resume_between_a_pauses_row_and_its_mapping_leaves_a_row(stack: Stack, clock: ManualClock) -> None:
    with between("UpdateEventSourceMapping", lambda: run(clock, "resume", CART, "--stage", "check-cart")):
        pause(clock, "--stage", "check-cart")
    assert "carts-to-check" not in on(stack)
    assert len(rows(stack)) == 1
    run(clock, "resume", CART, "--stage", "check-cart")
    assert "carts-to-check" in on(stack)


def test_a_pause_before_a_resume_removes_its_row_is_said_and_stays(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    with between("DeleteItem", lambda: pause(clock, "--stage", "check-cart")):
        said = run(clock, "resume", CART, "--stage", "check-cart", code=2).stderr
    assert "stage check-cart: somebody else paused or resumed it at the same time; look with 'flowguard stats'" in said
    assert "carts-to-check" not in on(stack)
    assert len(rows(stack)) == 1
    run(clock, "resume", CART, "--stage", "check-cart")
    assert "carts-to-check" in on(stack)


def test_of_two_who_pause_at_once_one_is_refused(stack: Stack, clock: ManualClock) -> None:
    with between("PutItem", lambda: pause(clock, "--stage", "check-cart", why="the first")):
        said = pause(clock, "--stage", "check-cart", code=2).stderr
    assert "somebody else paused or resumed it at the same time" in said
    assert [row["why"]["S"] for row in rows(stack)] == ["the first"]


def test_stages_of_one_name_in_two_flows_are_two(stack: Stack, clock: ManualClock) -> None:
    run(clock, "pause", f"{__name__}:SameName", "--why", "another")
    assert pause(clock, "--stage", "check-cart").stdout.splitlines()[0] == "PAUSED  validate-cart check-cart"
    assert len(rows(stack)) == 2


# -- what Lambda refuses


def test_a_pause_that_was_there_keeps_its_row_where_lambda_refuses_the_next_one(
    stack: Stack, clock: ManualClock
) -> None:
    pause(clock, "--stage", "check-cart")
    stack.client("lambda").update_event_source_mapping(UUID=stack.sources["carts-to-check"], Enabled=True)
    with intercept(refuse(UPDATE, "ResourceInUseException")):
        pause(clock, "--stage", "check-cart", code=2)
    assert [row["why"]["S"] for row in rows(stack)] == [WHY]


def test_a_second_pause_leaves_what_a_deployment_has_set(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    bound(stack, "carts-to-check", 30)
    stack.client("lambda").update_event_source_mapping(UUID=stack.sources["carts-to-check"], Enabled=True)
    pause(clock, "--stage", "check-cart")
    assert mappings(stack)["carts-to-check"] == ("Disabled", 30)


def test_where_one_of_two_mappings_is_off_the_row_stays(stack: Stack, clock: ManualClock) -> None:
    client = stack.client("lambda")
    [mapping] = [one for one in client.list_event_source_mappings()["EventSourceMappings"] if is_of_checks(one)]
    client.create_event_source_mapping(EventSourceArn=mapping["EventSourceArn"], FunctionName=mapping["FunctionArn"])
    calls: list[str] = []

    def second(call: ApiCall, proceed: Proceed) -> Response:
        calls.extend([UPDATE] if call.operation == UPDATE else [])
        if call.operation == UPDATE and len(calls) == 2:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, UPDATE)
        return proceed()

    with intercept(second):
        said = pause(clock, "--stage", "check-cart", code=2).stderr
    assert "still changing" not in said
    assert [len(row["before"]["M"]) for row in rows(stack)] == [2]


def is_of_checks(mapping: Any) -> bool:
    return str(mapping["EventSourceArn"]).endswith(":carts-to-check")


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, UPDATE),
        EndpointConnectionError(endpoint_url="https://lambda"),
    ],
    ids=["refused", "away"],
)
def test_a_resume_that_lambda_does_not_carry_out_leaves_the_row(
    stack: Stack, clock: ManualClock, error: Exception
) -> None:
    pause(clock, "--stage", "check-cart")

    def fail(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == UPDATE:
            raise error
        return proceed()

    with intercept(fail):
        said = run(clock, "resume", CART, "--stage", "check-cart", code=2).stderr
    assert said.startswith("Error: stage check-cart: ")
    assert len(rows(stack)) == 1


# -- stats


def test_who_may_not_query_the_table_has_the_counts(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    with intercept(refuse("Query", "AccessDeniedException")):
        result = run(clock, "stats")
    assert result.stdout == "0 runs\n"
    assert "which stages are paused is unknown: pauses: " in result.stderr


def test_stats_name_the_pauses_of_all_flows_or_of_one(stack: Stack, clock: ManualClock) -> None:
    pause(clock, "--stage", "check-cart")
    run(clock, "pause", f"{__name__}:Checks2", "--why", "another")
    assert len(run(clock, "stats").stdout.splitlines()) == 3
    assert len(stats_lines(clock)) == 1

"""``flowguard reset``: of one run, and of many."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from flowguard.errors import Reject
from flowguard.flow import ATTACH, AnyFlow, Flow
from flowguard.names.ids import RequestId
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from tests.cli.test_many import run
from tests.scene import START, OrderState, Scene, Script, scene, two_stages

CACHED = f"{__name__}:Cached"


def cached(script: Script) -> AnyFlow:
    class Orders(
        Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead", on_conflict=ATTACH
    ):
        stages = two_stages(script)

    return Orders


Cached = cached(Script())


@pytest.fixture
def at() -> Iterator[Scene]:
    """The run done has ended well, and going is between two hops."""
    with scene(cached) as found:
        found.deliver(found.order("done"), found.order("going"), found.second(object_id="done"))
        yield found


def test_a_kept_result_is_dropped_and_a_run_at_work_begins_once_more(at: Scene) -> None:
    assert run(at, "reset", CACHED, "done").stdout == (
        "DROPPED  orders of done: its result is good for no newer request\n"
    )
    assert run(at, "reset", CACHED, "going").stdout == (
        "RESTARTED  orders of going: its worker was fenced, and its work begins once more for all who wait for it\n"
    )
    assert len(at.sent("price-order")) == 1


def test_a_reset_as_json(at: Scene) -> None:
    facts = {"flow": "orders", "object_id": "done", "verdict": "DROPPED", "problem": None}
    assert json.loads(run(at, "reset", CACHED, "done", "--json").stdout) == facts


def test_where_there_is_nothing_to_reset_it_says_so(at: Scene) -> None:
    result = run(at, "reset", CACHED, "nobody", code=1)
    assert (result.stdout, result.stderr) == (
        "",
        "orders of nobody: nothing was reset: there is no run that could be reset; it may have failed, or be "
        "cancelled\n",
    )


def test_where_the_restart_is_not_sent_it_may_be_repeated(at: Scene) -> None:
    sqs = at.aws.client("sqs")
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="price-order")["QueueUrl"])
    result = run(at, "reset", CACHED, "going", code=1)
    assert "; the reset may be repeated" in result.stderr
    assert run(at, "reset", CACHED, "--all", "--yes", "--status", "running", code=1).stdout == "1 FAILED, of 1 run\n"
    at.aws.create_queue("price-order")
    assert run(at, "reset", CACHED, "--all", "--yes", "--status", "running").stdout == "1 RESTARTED, of 1 run\n"
    assert len(at.sent("price-order")) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tests.scene:Orders", "o1"), "orders keeps no result that could be reset; that is for on_conflict=ATTACH"),
        ((CACHED, ""), "OBJECT: it is empty"),
        ((CACHED,), "name the OBJECT, or say --all"),
        ((CACHED, "done", "--limit", "1"), "--limit goes with --all"),
        ((CACHED, "done", "--table", "not-there"), "table not-there: does not exist"),
    ],
)
def test_what_cannot_be_run_is_named(at: Scene, arguments: tuple[str, ...], said: str) -> None:
    assert said in run(at, "reset", *arguments, code=2).stderr


def decline(step: Step[OrderState]) -> None:
    raise Reject("the card is declined")


def test_many_are_reset_once(at: Scene) -> None:
    at.script.pricing = decline
    at.deliver(at.order("bad"))
    command = ("reset", CACHED, "--all", "--yes")
    assert run(at, *command).stdout == "1 DROPPED, 1 RESTARTED, of 2 runs\n"
    [message] = at.sent("price-order")
    assert json.loads(message["Body"]) == {"order_id": "going"}
    assert run(at, *command).stdout == "1 RESTARTED, of 1 run\n", "its work has not begun once more"
    assert [each["MessageAttributes"] for each in at.sent("price-order")] == [message["MessageAttributes"]]


def test_a_cancelled_run_is_not_reset(at: Scene) -> None:
    run(at, "cancel", CACHED, "going", "--why", "sold out")
    assert run(at, "reset", CACHED, "--all", "--yes", "--status", "running").stdout == "nothing was done, of 0 runs\n"


def test_a_run_that_was_reset_is_cancelled_among_many(at: Scene) -> None:
    run(at, "reset", CACHED, "going")
    result = run(at, "cancel", CACHED, "--all", "--why", "sold out", "--yes")
    assert result.stdout == "1 CANCELLED, of 1 run\n"
    item = at.item("going")
    assert item is not None
    assert item.cancellation is not None
    assert item.cancellation.request_id.startswith("reset-")
    assert item.request_id == RequestId("run-1")


def test_a_newer_run_that_begins_between_the_look_and_the_write_is_left_alone(at: Scene) -> None:
    moved: list[str] = []
    at.clock.advance(seconds=10)

    def moving(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and not moved:
            moved.append(call.operation)
            run(at, "reset", CACHED, "done")
            at.deliver(at.order("done", request_id="newer", requested_at=START + 5_000))
        return proceed()

    with intercept(moving):
        result = run(at, "reset", CACHED, "--all", "--yes", "--status", "completed")
    item = at.item("done")
    assert item is not None
    assert (item.request_id, item.reset_at) == ("newer", None)
    assert result.stdout == "1 LEFT, of 1 run\n"

"""What ``flowguard doctor`` says of the runs of a table: late is what nobody goes on with, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard.deploy.derive import needs_of
from flowguard.deploy.finding import LiveFinding, Severity
from flowguard.deploy.found import find_functions
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.run_checks import check_runs
from flowguard.errors import Retry
from flowguard.flow import AnyFlow
from flowguard.step import Step
from tests.scene import OrderState, Scene, scene
from tests.waits import Carts, WaitScene, wait_scene

HOUR: Final = 3_600_000
ANY: Final[Deployment] = needs_of(find_functions(["tests.deploy.charging"]), DeployOptions())


@dataclass
class Here:
    """A session of the engine in this process."""

    clients: Callable[[str], Any]

    def client(self, service: str, **options: Any) -> Any:
        return self.clients(service)


def said(at: Scene | WaitScene, flow: AnyFlow, hours: float) -> list[LiveFinding]:
    """What the doctor says so many hours later."""
    session: Any = Here(at.aws.client)
    needed = replace(ANY, flows=(flow,), run_table="flowguard")
    return [*check_runs(needed, LiveAccount(session), at.clock.now() + int(hours * HOUR), 1_000)]


def rules(at: Scene | WaitScene, flow: AnyFlow, hours: float) -> list[tuple[str, str, str]]:
    return [(each.rule, each.severity.value, each.resource) for each in said(at, flow, hours)]


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as made:
        yield made


@contextmanager
def waiting() -> Iterator[tuple[WaitScene, AnyFlow]]:
    with wait_scene() as made:
        made.begin_and_look()
        yield made, made.flow


def in_a_quarter(step: Step[OrderState]) -> None:
    raise Retry("the bank is closed", after=timedelta(minutes=15))


def break_down(step: Step[OrderState]) -> None:
    raise RuntimeError("no tariff")


def test_a_run_that_rests_is_late_twelve_hours_after_its_next_attempt_was_to_come(at: Scene) -> None:
    """Its lease ended long before."""
    at.script.pricing = in_a_quarter
    at.deliver(at.message())
    assert [rules(at, at.flow, hours) for hours in (0.2, 12.2)] == [[], []]
    assert rules(at, at.flow, 12.3) == [("run-stuck", "warning", "orders of o1")]


def test_a_run_that_nobody_works_on_may_be_paused_or_in_a_backlog_and_is_not_to_be_begun_anew(at: Scene) -> None:
    at.script.pricing = break_down
    at.deliver(at.message())
    assert said(at, at.flow, 11) == []
    [found] = said(at, at.flow, 13)
    assert (found.rule, found.what) == (
        "run-stuck",
        "it is RUNNING at price-order, and nobody has worked on it for 13 h",
    )
    assert "in a backlog or at a stage that is paused" in found.why
    assert "anew" not in found.fix
    assert "flowguard dlq list dead --request-id run-1" in found.fix


def test_runs_between_two_stages_are_one_note(at: Scene) -> None:
    """Their messages lie before a stage that is paused, or wait for a delay, of which the items say nothing."""
    at.deliver(at.message())
    at.deliver(at.order("o2", request_id="run-2"))
    assert said(at, at.flow, 11) == []
    [found] = said(at, at.flow, 13)
    assert (found.rule, found.severity, found.resource) == ("run-between", Severity.NOTE, "orders")
    assert found.what == (
        "the next messages of 2 runs after the stage price-order are on their way for more than 12 h; "
        "that of o1 for 13 h"
    )


def test_a_run_that_has_ended_is_not_looked_at(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    assert said(at, at.flow, 99) == []


def test_runs_of_other_flows_and_what_is_no_run_are_left_alone(at: Scene) -> None:
    at.script.pricing = break_down
    at.deliver(at.message())
    dynamodb: Any = at.aws.client("dynamodb")
    [item] = dynamodb.scan(TableName="flowguard")["Items"]
    for pk, sk in (("once#orders#o1", "run"), ("run#orders#o1", "history")):
        dynamodb.put_item(TableName="flowguard", Item={**item, "pk": {"S": pk}, "sk": {"S": sk}})
    by_hand = {"pk": {"S": "run#orders#by-hand"}, "sk": {"S": "run"}, "status": {"S": "RUNNING"}}
    dynamodb.put_item(TableName="flowguard", Item=by_hand)
    assert [each.resource for each in said(at, at.flow, 13)] == ["orders of o1"]
    assert said(at, Carts, 13) == []


def test_a_wait_is_late_an_hour_after_its_deadline() -> None:
    with waiting() as (at, flow):
        assert said(at, flow, 1.1) == []
        [found] = said(at, flow, 1.2)
        assert (found.rule, found.severity.value, found.resource) == ("wait-late", "warning", "carts of c1")
        assert "in a backlog or at a stage that is paused" in found.why


def test_a_wait_that_is_over_is_no_late_one() -> None:
    """The message of its next hop waits in a queue."""
    with waiting() as (at, flow):
        for name in "abc":
            at.answer(name)
        assert [rules(at, flow, hours) for hours in (2, 12.1)] == [[], []]
        assert rules(at, flow, 12.5) == [("run-between", "note", "carts")]

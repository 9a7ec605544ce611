"""A release changes what becomes of a request that meets another's run, while runs are at work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flowguard.flow import IGNORE, SUPERSEDE, AnyFlow, Flow
from flowguard.handler import LambdaHandler, dlq_handler, lambda_handler
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Status
from flowguard.sim.calls import Recorder, intercept
from tests.scene import START, Scene, Script, scene, two_stages
from tests.worker.runtime.test_callers import caller, shared, told

HOUR = 3_600_000


def released(script: Script, conflict: OnConflict) -> AnyFlow:
    class Released(
        Flow, name="orders", object_id="order_id", on_conflict=conflict, dead_letters="dead", trust_senders=True
    ):
        stages = two_stages(script)

    return Released


def deploy(at: Scene, flow: AnyFlow) -> None:
    at.handler = lambda_handler(flow).using(at.handler._services)


def callers_answered(at: Scene) -> list[str]:
    return sorted(name.partition("-0c")[0] + " " + status for name, status in told(at, "completed"))


@pytest.mark.parametrize("conflict", [SUPERSEDE, IGNORE])
def test_who_had_attached_is_told_the_end_by_a_release_that_takes_no_callers(conflict: OnConflict) -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        at.deliver(caller(at))
        deploy(at, released(at.script, conflict))
        assert at.deliver(at.second()) == [True]
        assert callers_answered(at) == ["caller-0 COMPLETED"]
        assert at.deliver(at.second()) == [True]
        assert callers_answered(at) == ["caller-0 COMPLETED"], "its worker may have died before it had sent that"


def test_who_had_attached_is_told_the_end_of_the_run_that_took_over() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        at.deliver(caller(at))
        deploy(at, released(at.script, SUPERSEDE))
        at.deliver(at.newer(requested_at=START - 100))
        at.deliver(at.newer(requested_at=START - 100, stage="close-order", hop=2, body='{"total":7}'))
        assert callers_answered(at) == ["caller-0 COMPLETED"]


@pytest.mark.parametrize("made", [lambda_handler, dlq_handler])
def test_who_meets_a_run_that_began_without_callers_waits_with_growing_pauses(
    made: Callable[[AnyFlow], LambdaHandler],
) -> None:
    with scene(lambda script: released(script, SUPERSEDE)) as at:
        at.deliver(at.message())
        at.handler = made(shared(at.script)).using(at.handler._services)
        at.clock.advance(ms=HOUR)
        pauses: list[int] = []
        for at.receives in (1, 12):
            with intercept(Recorder()) as calls:
                assert at.deliver(caller(at)) == [False]
            [asked] = [call.params for call in calls.calls if "Visibility" in call.operation]
            [entry] = asked.get("Entries", [asked])
            pauses.append(entry["VisibilityTimeout"])
        assert len(pauses) == 2
        assert pauses[1] > 10, "it does not ask each second for as long as the run waits"
        assert told(at, "completed") == []


def test_then_it_is_answered_with_the_end() -> None:
    with scene(lambda script: released(script, SUPERSEDE)) as at:
        at.deliver(at.message())
        deploy(at, shared(at.script))
        assert at.deliver(caller(at)) == [False]
        at.deliver(at.second())
        assert at.deliver(caller(at)) == [True]
        assert callers_answered(at) == ["caller-0 COMPLETED"]
        item = at.item()
        assert item is not None
        assert item.status is Status.COMPLETED

"""Which runs pass filters."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from flowguard.aws.run_pages import Wanted
from flowguard.aws.run_reader import RunReader
from flowguard.errors import Reject, Retry
from flowguard.operate.selection import Selection
from flowguard.outcome import Outcome
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.step import Step
from tests.aws.engines import same_clients
from tests.cli.test_show import undoing
from tests.scene import OrderState, Scene, scene
from tests.waits import All, Progress, asks, wait_scene


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        found.deliver(found.message())
        yield found


def passes(at: Scene, object_id: str = "o1", **filters: object) -> bool:
    runs = RunReader.of(Settings(), same_clients())
    seen = runs.read("orders", object_id)
    assert seen is not None
    return Selection(**filters).has(seen, runs, at.clock.now())  # type: ignore[arg-type]


def decline(step: Step[OrderState]) -> None:
    raise Reject("the Card is declined")


def later(step: Step[OrderState]) -> None:
    raise Retry("the bank is closed", after=timedelta(minutes=15))


def test_without_a_filter_each_run_passes(at: Scene) -> None:
    assert passes(at)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("flow", "orders", "carts"),
        ("status", Status.RUNNING, Status.FAILED),
        ("stage", "price-order", "close-order"),
    ],
)
def test_a_run_is_of_a_flow_a_status_and_a_stage(at: Scene, name: str, good: object, bad: object) -> None:
    assert [passes(at, **{name: value}) for value in (good, bad)] == [True, False]  # type: ignore[arg-type]
    assert Selection(**{name: good}).wanted._replace(mark=None) == Wanted(**{name: good})  # type: ignore[arg-type]


def test_each_selection_has_a_mark_of_its_own() -> None:
    every: dict[str, Any] = {
        "flow": "orders", "status": Status.FAILED, "stage": "x", "older_than": 5, "quiet_for": 6, "error": "y",
        "tenant": "z",
    }  # fmt: skip
    selections = [Selection(), *(Selection(**{name: value}) for name, value in every.items()), Selection(**every)]
    assert len({selection.wanted.mark for selection in selections}) == len(every) + 2
    assert Selection(**every).wanted == Selection(**every).wanted


def test_a_run_is_older_than_a_time(at: Scene) -> None:
    at.clock.advance(seconds=59)
    assert [passes(at, older_than=seconds) for seconds in (59, 60, 61)] == [True, False, False]


def test_a_run_is_quiet_for_a_time_unless_a_worker_has_it(at: Scene) -> None:
    at.clock.advance(seconds=60)
    assert [passes(at, quiet_for=seconds) for seconds in (59, 60)] == [True, False]

    def look(step: Step[OrderState]) -> None:
        looks.append(passes(at, quiet_for=0))

    looks: list[bool] = []
    at.script.closing = look
    at.deliver(at.second())
    assert looks == [False]


def test_the_error_of_an_end_is_found_by_its_type_or_by_a_part_of_its_text(at: Scene) -> None:
    at.script.pricing = decline
    at.deliver(at.order("bad"))
    texts = ("Reject", "the card", "CARD", "Rejec", "reject", "no tariff")
    assert [passes(at, "bad", error=text) for text in texts] == [True, True, True, False, False, False]
    assert not passes(at, error="Reject")


def test_an_error_that_the_run_before_has_left_does_not_count(at: Scene) -> None:
    at.script.pricing = decline
    at.deliver(at.order("bad"))
    runs = RunReader.of(Settings(), same_clients())
    seen = runs.read("orders", "bad")
    assert seen is not None
    card = Selection(error="card")
    running = seen._replace(item=seen.item._replace(status=Status.RUNNING))
    assert [card.has(each, runs, at.clock.now()) for each in (seen, running)] == [True, False]
    assert not card.has(seen._replace(stored={}), runs, at.clock.now())


def test_the_error_of_the_last_attempt_counts_too(at: Scene) -> None:
    at.script.pricing = later
    at.deliver(at.order("resting"))
    assert [passes(at, "resting", error=text) for text in ("bank", "card")] == [True, False]


def test_so_does_that_which_is_taken_back() -> None:
    with scene(undoing) as at:
        at.script.pricing = decline
        at.deliver(at.message())
        assert [passes(at, error=text) for text in ("card", "bank")] == [True, False]


def for_a_day(step: Step[Progress]) -> Outcome:
    return All.when_all(**asks(step), within=timedelta(days=1))


def test_the_tenant_is_known_of_a_run_that_waits() -> None:
    with wait_scene() as at:
        at.begin(for_a_day, tenant="acme")
        runs = RunReader.of(Settings(), same_clients())
        seen = runs.read("carts", "c1")
        assert seen is not None
        tenants = [Selection(tenant=name).has(seen, runs, at.clock.now()) for name in ("acme", "other", None)]
        assert tenants == [True, False, True]
        for item in (seen.item._replace(status=Status.RUNNING), seen.item._replace(wait=None)):
            assert not Selection(tenant="acme").has(seen._replace(item=item), runs, at.clock.now())


def test_of_a_run_that_does_not_wait_nobody_knows_the_tenant(at: Scene) -> None:
    assert not passes(at, tenant="acme")

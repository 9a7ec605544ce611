"""A step records what a handler asks for. Nothing of it has happened when the handler returns."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from flowguard.clock import ManualClock
from flowguard.errors import RunFailed
from flowguard.step import NoState, Step
from flowguard.testing import step_for
from tests.recorded.carts import CartState, Price, price_step
from tests.scene import Orders


@pytest.fixture
def step() -> Step[CartState]:
    return price_step()


def test_a_step_knows_its_run_and_attempt(step: Step[CartState]) -> None:
    assert (step.object_id, step.request_id, step.hop, step.attempt) == ("c-1", "r-1", 2, 4)


def test_times_are_of_the_clock_that_was_handed_in() -> None:
    clock = ManualClock()
    step = step_for(Price, clock=clock)
    clock.advance(seconds=1.5)
    assert step.requested_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert step.now() == datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


def test_the_state_is_changed_in_place_or_replaced(step: Step[CartState]) -> None:
    step.state.total += 1
    assert step.state == CartState(total=Decimal(1))
    step.state = CartState(total=Decimal(2))
    assert step.state.total == 2


def test_a_flow_without_state_cannot_be_given_any_by_mistake() -> None:
    with pytest.raises(ValidationError):
        NoState.model_validate({"total": 1})


def test_its_log_says_which_run_it_is_about(step: Step[CartState], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "flowguard.stage"):
        step.log.info("priced %s lines", 3)
    (line,) = caplog.records
    said = vars(line)
    assert line.getMessage() == "priced 3 lines"
    assert (said["request_id"], said["stage"], said["hop"]) == ("r-1", "price", 2)


@pytest.mark.parametrize("given", [None, 7, "", "x" * 3_000, "\ud800", "a\x01"])
def test_a_cancellation_of_an_object_that_has_no_usable_id_is_refused(step: Step[CartState], given: Any) -> None:
    with pytest.raises(RunFailed, match=r"step.cancel: object_id=.* (is empty|and an id is text|has )"):
        step.cancel(Orders, given, why="a mistake")
    assert step.sends == []


@pytest.mark.parametrize("given", [None, 7, "", "x" * 3_000, "\ud800", "a\x01"])
def test_a_reset_of_an_object_that_has_no_usable_id_is_refused(step: Step[CartState], given: Any) -> None:
    with pytest.raises(RunFailed, match=r"step.reset: object_id=.* (is empty|and an id is text|has )"):
        step.reset(Orders, given)

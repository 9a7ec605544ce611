"""The lines of the level DEBUG: written in runs whose trace is sampled, and in all of such a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock
from flowguard.settings import Settings
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.wire.trace_context import is_sampled
from tests.scene import record, scene
from tests.test_handler import Context

TRACE: Final = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-"
XRAY: Final = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled="


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Return what reaches a handler of the logger of all flowguard, whose level is WARNING."""
    logger, handler = logging.getLogger("flowguard"), Lines()
    before = logger.level
    logger.setLevel(logging.WARNING)
    logger.addHandler(handler)
    yield handler.found
    logger.removeHandler(handler)
    logger.setLevel(before)


def work(*, debug_sampled: bool, trace: str | None) -> None:
    with scene() as at:
        at.script.pricing = lambda step: step.log.debug("found 3 lines")
        services: Any = at.handler._services._replace(debug_sampled=debug_sampled)
        at.handler.using(services)({"Records": [record(at.message(trace=trace))]}, Context())


@pytest.mark.parametrize("trace", [TRACE + "01", TRACE + "03", XRAY + "1"])
def test_a_sampled_run_writes_them(trace: str, lines: list[str]) -> None:
    work(debug_sampled=True, trace=trace)
    assert lines == ["found 3 lines"]


@pytest.mark.parametrize(
    ("debug_sampled", "trace"),
    [(False, TRACE + "01"), (True, TRACE + "00"), (True, TRACE + "02"), (True, XRAY + "0"), (True, None)],
)
def test_no_other_run_does(debug_sampled: bool, trace: str | None, lines: list[str]) -> None:
    work(debug_sampled=debug_sampled, trace=trace)
    assert lines == []


def test_the_setting_switches_it_on() -> None:
    def services(**variables: str) -> Any:
        return aws_services(Settings.from_environment(variables), Clients(), clock=ManualClock())

    with MemoryAWS():
        assert services(FLOWGUARD_DEBUG_SAMPLED="true").debug_sampled
        assert not services().debug_sampled


@pytest.mark.parametrize("trace", [None, XRAY[: -len(";Sampled=")], TRACE + "fe"])
def test_what_says_nothing_is_not_sampled(trace: str | None) -> None:
    assert not is_sampled(trace)

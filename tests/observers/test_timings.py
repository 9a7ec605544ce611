"""How long each phase of a message took stands in one line of the logs."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from flowguard.handler import lambda_handler
from flowguard.observers import Timings
from tests.scene import message_id, record, scene
from tests.test_handler import Context


def ticking() -> Iterator[float]:
    """A timer that goes on by 10 ms whenever it is looked at."""
    return (tick / 100 for tick in itertools.count())


def timed(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    lines = [line.getMessage().removeprefix("flowguard ") for line in caplog.records]
    return [fields for line in lines if (fields := json.loads(line))["event"] == "timed"]


def test_a_message_and_its_invocation_have_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    with scene() as at, caplog.at_level(logging.INFO, "flowguard"):
        timings = Timings(timer=ticking().__next__)
        handler = lambda_handler(at.flow, observers=[timings]).using(at.handler._services)
        for _ in range(2):
            handler({"Records": [record(at.message())]}, Context())
    message, invocation, again, _ = timed(caplog)
    assert message == {
        "event": "timed",
        "phase": "message",
        "request_id": "run-1",
        "flow": "orders",
        "stage": "price-order",
        "hop": 1,
        "attempt": 1,
        "redrive": 0,
        "record": message_id(0),
        "source": "sqs",
        "claim_ms": 10.0,
        "claim_verdict": "CLAIMED",
        "handle_ms": 10.0,
        "commit_ms": 10.0,
        "commit_verdict": "COMMITTED",
        "message_ms": 70.0,
    }
    assert invocation == {
        "event": "timed",
        "phase": "invocation",
        "invocation": Context.aws_request_id,
        "dispatch_ms": 20.0,
        "invocation_ms": 130.0,
    }
    assert (again["claim_verdict"], "handle_ms" in again) == ("DONE", False)


def test_a_message_that_fails_has_its_line_too(caplog: pytest.LogCaptureFixture) -> None:
    with scene() as at, caplog.at_level(logging.INFO, "flowguard"):
        at.script.pricing = fail
        handler = lambda_handler(at.flow, observers=[Timings()]).using(at.handler._services)
        handler({"Records": [record(at.message())]}, Context())
    assert timed(caplog)[0].keys() >= {"claim_ms", "handle_ms", "dispatch_ms", "message_ms"}


def test_nothing_is_measured_for_a_logger_that_writes_no_such_lines(caplog: pytest.LogCaptureFixture) -> None:
    with scene() as at, caplog.at_level(logging.WARNING, "flowguard"):
        timings = Timings(timer=iter(()).__next__)
        handler = lambda_handler(at.flow, observers=[timings]).using(at.handler._services)
        handler({"Records": [record(at.message())]}, Context())
    assert caplog.records == []


def fail(step: object) -> None:
    raise RuntimeError("down")

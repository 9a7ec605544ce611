"""Many copies of one slow message: they wait for its lease to end, and do not wear out their receive counts."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.events import EventType, Tally
from tests.engines.polling import comes_true
from tests.proofs.soak.mapping import Mapping
from tests.proofs.soak.sandbox import Sandbox

pytestmark = pytest.mark.proof("waits for leases and for fifty copies", first=True)

COPIES = 50
LEASE = timedelta(seconds=10)
"""Nearly three times what the work takes, so that no copy finds it over on a machine with much else to do."""

SLOW = 3.5
"""Seconds. Copies that came back at their queue's pace, one second, would be received a fourth time within these."""


class TakeTime(Stage[dict[str, Any]], name="take-time"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        began = time.monotonic()
        assert comes_true(lambda: time.monotonic() > began + SLOW)
        step.update("slow-effects", {"id": "s1"}, "ADD applied :one", values={":one": 1})
        return Done()


class Slow(Flow, name="slow", object_id="id"):
    stages = (TakeTime,)


def test_of_fifty_copies_of_a_slow_message_none_is_given_up_and_one_is_executed(sandbox: Sandbox) -> None:
    sandbox.create_tables("slow-effects")
    sandbox.create_queue("slow-dlq")
    url = sandbox.create_queue("slow", visibility=1, dead_letters_to="slow-dlq", max_receives=3)
    tally = Tally()
    handler = lambda_handler(Slow).using(sandbox.services(tally))
    for _ in range(COPIES):
        sandbox.client.start(Slow, {"id": "s1"}, request_id="request-slow", requested_at=1_700_000_000_000)
    with ThreadPoolExecutor(1) as other:
        slow = Mapping(sandbox.clients.sqs, url, handler, LEASE, batch=1)
        first = other.submit(slow.once)
        assert comes_true(lambda: tally.count(EventType.CLAIMED) == 1)
        busy = Mapping(sandbox.clients.sqs, url, handler, LEASE)
        assert comes_true(lambda: busy.once() == 0 and sandbox.waiting("slow") == 0, seconds=40)
        first.result()
    assert (tally.count(EventType.CLAIMED), tally.count(EventType.BUSY)) == (1, COPIES)
    assert sandbox.rows("slow-effects")["s1"]["applied"] == 1
    assert sandbox.waiting("slow-dlq") == 0

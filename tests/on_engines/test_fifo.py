"""A FIFO queue: a group's order is kept over failures, groups do not wait for each other, attempts are counted."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from flowguard import PER_REQUEST, Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step, lambda_handler
from flowguard.events import EventType, Tally
from flowguard.protocol.run import Status
from tests.engines.polling import comes_true
from tests.proofs.soak.mapping import Mapping
from tests.proofs.soak.sandbox import Sandbox

pytestmark = pytest.mark.proof("waits for a queue that delivers again")

HANDLED: list[tuple[str, int]] = []
DEADLY = -1
"""For ``fails``: the worker dies, as a process that is told to go."""


class Apply(Stage[dict[str, Any]], name="apply", retry=RetryPolicy(attempts=3, backoff=Fixed(1), jitter=0)):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        HANDLED.append((payload["name"], step.attempt))
        if payload["fails"] == DEADLY and len(HANDLED) <= 2:
            raise KeyboardInterrupt
        if [name for name, _ in HANDLED].count(payload["name"]) <= payload["fails"]:
            raise ConnectionError("not now")
        return Done()


class Ordered(Flow, name="ordered", object_id=PER_REQUEST, inbox="ordered.fifo", dead_letters="ordered-dead"):
    stages = (Apply,)


def work_off(sandbox: Sandbox, *messages: tuple[str, str, int]) -> Tally:
    """Each message is its group, its name, and how many attempts of it fail."""
    HANDLED.clear()
    sandbox.create_tables()
    sandbox.create_queue("ordered-dead")
    url = sandbox.create_queue("ordered.fifo", visibility=2)
    for group, name, fails in messages:
        sandbox.clients.sqs.send_message(
            QueueUrl=url,
            MessageBody=json.dumps({"name": name, "fails": fails}),
            MessageGroupId=group,
            MessageDeduplicationId=name,
            MessageAttributes={"uniquerequestid": {"DataType": "String", "StringValue": f"request-{name}"}},
        )
    tally = Tally()
    mapping = Mapping(sandbox.clients.sqs, url, lambda_handler(Ordered).using(sandbox.services(tally)))
    assert comes_true(lambda: mapping.once() == 0 and sandbox.waiting("ordered.fifo") == 0, seconds=30)
    return tally


def test_the_order_in_a_group_is_kept_over_a_record_that_fails_twice_and_other_groups_go_on(sandbox: Sandbox) -> None:
    tally = work_off(
        sandbox, ("red", "r1", 2), ("red", "r2", 0), ("blue", "b1", 0), ("red", "r3", 0), ("blue", "b2", 0)
    )
    red = [handled for handled in HANDLED if handled[0].startswith("r")]
    assert [name for name, _ in red] == ["r1", "r1", "r1", "r2", "r3"]
    assert [attempt for name, attempt in red if name == "r1"] == [1, 2, 3], "the item says the attempt"
    assert HANDLED.index(("b2", 1)) < HANDLED.index(("r1", 2)), "blue did not wait for red"
    assert (tally.count(EventType.COMPLETED), tally.count(EventType.FAILED)) == (5, 0)
    assert tally.count(EventType.SENT) == 0, "no copies: the record itself comes again"


def test_the_last_failed_attempt_frees_its_group(sandbox: Sandbox) -> None:
    work_off(sandbox, ("red", "r1", 9), ("red", "r2", 0))
    assert [name for name, _ in HANDLED] == ["r1", "r1", "r1", "r2"]
    assert sandbox.waiting("ordered-dead") == 1


def test_a_record_that_only_waited_behind_another_keeps_all_its_attempts(sandbox: Sandbox) -> None:
    work_off(sandbox, ("red", "r1", 2), ("red", "r2", 2))
    assert [name for name, _ in HANDLED] == ["r1"] * 3 + ["r2"] * 3
    assert sandbox.waiting("ordered-dead") == 0


def test_a_record_that_sqs_gave_up_runs_again_when_it_is_sent_back_as_a_new_message(sandbox: Sandbox) -> None:
    HANDLED.clear()
    sandbox.create_tables()
    sandbox.create_queue("ordered-dlq.fifo")
    url = sandbox.create_queue("ordered.fifo", visibility=1, dead_letters_to="ordered-dlq.fifo", max_receives=2)
    sent: dict[str, Any] = {"uniquerequestid": {"DataType": "String", "StringValue": "request-k1"}}
    body = json.dumps({"name": "k1", "fails": DEADLY})

    def send(copy: str) -> None:
        sandbox.clients.sqs.send_message(
            QueueUrl=url, MessageBody=body, MessageGroupId="red", MessageDeduplicationId=copy, MessageAttributes=sent
        )

    handler = lambda_handler(Ordered).using(sandbox.services(Tally()))
    mapping = Mapping(sandbox.clients.sqs, url, handler, timedelta(seconds=1))
    send("k1")

    def is_given_up() -> bool:
        dies(mapping)
        return sandbox.waiting("ordered-dlq.fifo") == 1

    assert comes_true(is_given_up, seconds=15)
    sandbox.take("ordered-dlq.fifo")
    send("as-a-move-does")
    assert not dies(mapping), "it died once less before"
    assert HANDLED == [("k1", 1), ("k1", 1), ("k1", 1)], "an attempt whose worker died is begun again"
    found = sandbox.store().read("ordered", "request-k1")
    assert found is not None
    assert found.status is Status.COMPLETED


def dies(mapping: Mapping) -> bool:
    """Whether the worker of one poll was told to go. An interrupt that a test lets through ends all of pytest."""
    try:
        mapping.once()
    except KeyboardInterrupt:
        return True
    return False

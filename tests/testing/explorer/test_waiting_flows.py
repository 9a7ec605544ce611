"""Flows that wait under faults: what settles a wait is no stage's message, and nothing is wrong with what is right."""

from __future__ import annotations

from typing import Any, Final

import pytest

from flowguard.testing.explorer import replay
from tests.proofs.prove.flows import TABLES
from tests.proofs.prove.waiting import Waits, Wanted, payment
from tests.testing.explorer import waiting
from tests.testing.explorer.histories import history_of

ASKS = waiting.Order(order_id="o1")
EVERYTHING = waiting.Order(order_id="o1", asks=("stock", "parcel", "paid", "approval"))
PERSON = waiting.Order(order_id="o1", asks=("approval",))
PERSON_AGAIN = waiting.Order(order_id="o1", asks=("approval",), minutes=9)
PRESSED: Final[dict[str, Any]] = {
    "version": "2.0",
    "rawPath": "/{token:waits/o1/approval}",
    "rawQueryString": "",
    "headers": {"content-type": "application/json"},
    "requestContext": {"domainName": "answers.lambda-url.eu-west-1.on.aws", "http": {"method": "POST"}},
    "body": '{"yes": true}',
    "isBase64Encoded": False,
}


@pytest.mark.parametrize("schedule", ["none", "d1", "d2.d5-1.r1", "z1-3", "x2", "x2-2"])
def test_nothing_is_wrong_with_a_wait_that_ends_at_its_deadline(schedule: str) -> None:
    trace = replay(waiting.FLOWS, [EVERYTHING], schedule, tables=waiting.TABLES)
    assert trace.ok, str(trace)


@pytest.mark.parametrize("schedule", ["none", "d1", "a8", "d8-1", "a9", "l9", "z9", "f3", "f4", "x3"])
def test_nothing_is_wrong_with_a_wait_that_another_flow_answers(schedule: str) -> None:
    trace = replay(waiting.FLOWS, [ASKS], schedule, tables=waiting.TABLES)
    assert trace.ok, str(trace)


@pytest.mark.long("runs the orders of a request and two answers; the test above replays ten schedules of a wait")
def test_an_answer_that_comes_before_its_hop_is_committed_waits_for_each_attempt_of_that() -> None:
    """The hop's commit is denied, for minutes and then for good. Queues of templates let an answer wait for days."""
    trace = replay([Waits], [Wanted(names=("paid",)), payment(20), payment(30)], "f3-1", tables=TABLES)
    assert trace.ok, str(trace)


@pytest.mark.parametrize("schedule", ["a2", "d3", "z3"])
def test_nobody_answers_by_a_link_whose_wait_was_never_committed(schedule: str) -> None:
    """The older worker has saved the row of its link, and the newer request overtakes it before its commit."""
    trace = replay([waiting.Waits], [PERSON, PERSON_AGAIN, PRESSED], schedule, tables=waiting.TABLES)
    assert trace.ok, str(trace)
    assert "go-on, hop 2" in str(trace)


@pytest.mark.parametrize("schedule", ["none", "a3", "z4"])
def test_a_link_is_answered_whose_worker_has_not_reported_its_commit(schedule: str) -> None:
    trace = replay([waiting.Waits], [PERSON, PRESSED], schedule, tables=waiting.TABLES)
    assert trace.ok, str(trace)
    assert "go-on, hop 2" in str(trace)


def test_a_record_that_settles_is_known_as_one_and_requests_nothing() -> None:
    history = history_of(waiting.FLOWS, [ASKS], "none", tables=waiting.TABLES)
    settling = [one for one in history.deliveries if one.settles]
    assert [(one.queue, one.address.name if one.address else None) for one in settling] == [
        ("to-answers", "stock"),
        ("to-answers", "deadline"),
    ]
    assert history.requests.count(("run#waits#o1", "request-1")) == 1


def test_the_time_line_names_what_is_settled() -> None:
    trace = replay(waiting.FLOWS, [ASKS], "none", tables=waiting.TABLES)
    text = "\n".join(trace.timeline)
    assert "answer 'stock' for waits, hop 1" in text
    assert "deadline for waits, hop 1" in text
    assert "(settle)" in text
    assert "(time out)" in text

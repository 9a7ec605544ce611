"""What each fault does to a call, where that is not seen elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.protocol.run import Claim, Committed, Fenced, FencedBy, RunItem, Status
from flowguard.testing import invocation, sqs_event
from flowguard.testing.explorer import explore, replay
from flowguard.worker import runtime
from tests.testing.explorer import seeded
from tests.testing.explorer.histories import history_of

ORDER = seeded.Order(order_id="o1")
COMMIT = 2
"""The transaction of the first hop."""

Patch = pytest.MonkeyPatch


def seen(schedule: str) -> Any:
    """The commit of the first hop, and whether all was well."""
    history = history_of(seeded.TwoStages, [ORDER], schedule, tables=seeded.TABLES)
    made = history.calls[COMMIT - 1]
    assert (made.operation, str(made.site)) == ("TransactWriteItems", "commit")
    return made


def rules(schedule: str, flow: Any = seeded.TwoStages) -> set[str]:
    return {one.rule for one in replay(flow, [ORDER], schedule, tables=seeded.TABLES).violations}


def test_a_transaction_whose_answer_is_lost_is_made_again_under_its_token() -> None:
    made = seen(f"l{COMMIT}")
    assert (made.applied, made.error) == (2, None), "DynamoDB knows the token, and carries it out once"
    assert rules(f"l{COMMIT}") == set()


def test_under_another_token_its_own_conditions_fail_and_that_is_a_success() -> None:
    made = seen(f"l{COMMIT}-1")
    assert (made.applied, made.error) == (1, "TransactionCanceledException")
    assert rules(f"l{COMMIT}-1") == set()


def test_a_worker_that_does_not_know_its_own_commit_is_noticed(monkeypatch: Patch) -> None:
    monkeypatch.setattr("flowguard.aws.store.refused_commit", lambda *_: Fenced(FencedBy.NEWER_RUN, None))
    assert "I7" in rules(f"l{COMMIT}-1")


def test_an_answer_that_never_comes_is_an_error_of_what_was_applied() -> None:
    made = seen(f"u{COMMIT}")
    assert (made.applied, made.error) == (1, "TimedOut")
    assert rules(f"u{COMMIT}") == set()


def test_a_commit_without_an_answer_that_counts_as_a_failure_is_noticed(monkeypatch: Patch) -> None:
    """docs/decisions/0010: the last attempt would end the run as FAILED, and find its own commit there."""

    def mine(claim: Claim, wanted: Status, item: RunItem | None) -> Committed | Fenced:
        return Committed() if item is not None and item.owner == claim.item.owner else Fenced(FencedBy.EXPIRED, item)

    flow = seeded.OneTryOnly
    assert rules("u3", flow) == set()
    monkeypatch.setattr(runtime, "ConditionFailed", Exception)
    monkeypatch.setattr("flowguard.aws.store.refused_commit", mine)
    assert rules("u3", flow) == {"equivalence"}, "who waits is told of a failure, and never of the success"


@pytest.mark.slow("explores flows and handlers")
def test_who_tries_again_after_an_answer_that_never_came_is_found_at_the_line() -> None:
    report = explore(seeded.flow_of(seeded.Unanswered), [ORDER], tables=seeded.TABLES, bound=0, walks=0)
    (violation,) = report.violations
    assert violation.site is not None
    assert violation.site.line == seeded.guilty_line("Unanswered")


def test_a_death_at_the_last_receive_leaves_the_record_to_sqs() -> None:
    once = history_of(seeded.TwoStages, [ORDER], "d2-1", tables=seeded.TABLES)
    assert [one.from_dlq for one in once.deliveries] == [False, True, False, False]
    assert [item.status for item in once.latest().values()] == ["COMPLETED"]
    history = history_of(seeded.TwoStages, [ORDER], "d2.d5-1", tables=seeded.TABLES)
    assert [one.from_dlq for one in history.deliveries] == [False, False, True]
    assert [item.status for item in history.latest().values()] == ["FAILED"]
    assert rules("d2.d5-1") == set(), "a run that SQS gave up may fail"


@pytest.mark.slow("explores flows and handlers")
def test_a_record_that_no_queue_delivered_is_never_seen_too_early() -> None:
    about = {"order_id": "o1"}
    by_queue, direct = (
        explore(seeded.flow_of(seeded.PlainPut), [event], tables=seeded.TABLES, bound=0, walks=0, for_good=False)
        for event in (sqs_event("orders", about), invocation(about))
    )
    claim = "plain-put: UpdateItem of claim"
    assert ("v" in by_queue.coverage[claim], "v" in direct.coverage[claim]) == (True, False)

"""Schedules of EventBridge Scheduler come due, so that long retries are explored."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws.schedules import Schedules
from flowguard.retry import RetryPolicy
from flowguard.testing.explorer import explore, replay
from flowguard.testing.explorer.checks.invariants import broken
from tests.testing.explorer import seeded
from tests.testing.explorer.histories import history_of

ORDER = seeded.Order(order_id="o1")
FLOW = seeded.OpensLater
HOUR = 3_600_000


def test_what_was_scheduled_is_delivered_at_its_time() -> None:
    history = history_of(FLOW, [ORDER], "none", tables=seeded.TABLES)
    first, second = history.deliveries
    assert second.at - first.at == HOUR
    assert (second.stage, second.hop, second.queue) == ("closed", 1, "closed")
    assert [item.status for item in history.latest().values()] == ["COMPLETED"]
    assert history.tables["totals"] == ({"day": "monday", "amount": 5},)


@pytest.mark.proof("explores a flow, with every fault")
def test_every_fault_at_a_long_retry_is_survived() -> None:
    report = explore(FLOW, [ORDER], tables=seeded.TABLES, bound=15, walks=5)
    assert report.ok, str(report)
    assert report.ends == 1
    met = {call: faults for call, faults in report.coverage.items() if "CreateSchedule" in call}
    assert met == {"closed: CreateSchedule of dispatch": "aefltuvz"}


def test_a_back_off_that_cannot_be_noted_keeps_no_record_whose_retry_was_sent() -> None:
    history = history_of(FLOW, [ORDER], "f3", tables=seeded.TABLES)
    assert [str(one.site) for one in history.calls[:4]] == ["claim", "dispatch", "note the back-off", "claim"]
    assert [one.acked for one in history.deliveries[:2]] == [True, False]
    assert list(broken(history, [FLOW], ())) == []


def test_the_time_line_shows_the_schedule_and_what_it_sent() -> None:
    trace = replay(FLOW, [ORDER], "l2", tables=seeded.TABLES)
    shown = "\n".join(trace.timeline)
    assert trace.violations == ()
    assert "CreateSchedule closed  (dispatch)" in shown
    assert "3600.000 s  w2  closed, hop 1" in shown


def test_a_schedule_that_is_lost_leaves_a_run_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Schedules, "create", lambda schedules, sends: {})
    history = history_of(FLOW, [ORDER], "none", tables=seeded.TABLES)
    assert {problem.rule for problem in broken(history, [FLOW], ())} == {"I6"}


def test_a_schedule_at_another_time_than_was_told_breaks_i10(monkeypatch: pytest.MonkeyPatch) -> None:
    create: Any = Schedules.create

    def early(schedules: Schedules, sends: Any) -> Any:
        return create(schedules, {place: _sooner(send) for place, send in sends.items()})

    monkeypatch.setattr(Schedules, "create", early)
    history = history_of(FLOW, [ORDER], "none", tables=seeded.TABLES)
    assert {problem.rule for problem in broken(history, [FLOW], ())} == {"I10"}


def _sooner(send: Any) -> Any:
    return send._replace(delay=send.delay // 2)


def test_delays_beyond_the_policy_break_i10(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = seeded.flow_of(seeded.PlainPut)
    monkeypatch.setattr(RetryPolicy, "judged_delay", lambda policy, retry, draw: (700, ""))
    history = history_of(flow, [ORDER], "e2", tables=seeded.TABLES)
    assert {problem.rule for problem in broken(history, [flow], ())} == {"I10"}

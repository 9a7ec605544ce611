"""flowguard with one of its guards taken away: the explorer has to notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flowguard.aws import expressions
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Kind, Outbox
from flowguard.protocol.run import RunItem
from flowguard.testing.explorer import Report, explore
from flowguard.worker import batch
from flowguard.worker.dispatch import dispatch
from tests.testing.explorer import seeded

Patch = pytest.MonkeyPatch


def next_before_side(patch: Patch) -> None:
    patch.setattr(Kind, "phase", property(lambda kind: 2 - 2 * (kind is Kind.NEXT)))


def ack_whether_or_not_it_was_sent(patch: Patch) -> None:
    def careless(services: Any, emitter: Any, endings: Any) -> Any:
        dispatch(services, emitter, endings)
        return endings

    patch.setattr(batch, "dispatch", careless)


def commit_without_the_fence(patch: Patch) -> None:
    always = "(epoch = :epoch OR epoch <> :epoch) AND (#owner = :owner OR #owner <> :owner)"
    loose = f"request_id = :request_id AND {always} AND (done = :no OR done <> :no)"
    patch.setattr(expressions, "COMMIT", loose)


def forget_the_outbox(patch: Patch) -> None:
    patch.setattr(RunItem, "unsent_at", lambda item, hop: ())


def claim_an_earlier_run(patch: Patch) -> None:
    anyone = "(request_id <> :request_id AND requested_at >= :zero AND :requested_at >= :zero)"
    condition = expressions.FIRST_HOP[OnConflict.SUPERSEDE].replace(expressions._NEWER, anyone)
    patch.setitem(expressions.FIRST_HOP, OnConflict.SUPERSEDE, condition)


def leave_the_old_runs_messages_behind(patch: Patch) -> None:
    patch.setattr(Outbox, "left_by_another", lambda *_: ())


def explored(*messages: seeded.Order, most: int = 20) -> Report:
    return explore(seeded.TwoStages, messages, tables=seeded.TABLES, bound=0, walks=0, most=most)


ONE = (seeded.Order(order_id="o1"),)
TWO = (seeded.Order(order_id="o1", amount=3), seeded.Order(order_id="o1", amount=5))


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    ("mutant", "messages", "rule"),
    [
        (next_before_side, ONE, "I7"),
        (ack_whether_or_not_it_was_sent, ONE, "I7"),
        (commit_without_the_fence, ONE, "I2"),
        (forget_the_outbox, ONE, "I6"),
        (claim_an_earlier_run, TWO, "I5"),
        pytest.param(leave_the_old_runs_messages_behind, TWO, "I7", marks=pytest.mark.proof("explores two runs")),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_guard_taken_away_is_noticed(
    mutant: Callable[[Patch], None], messages: Any, rule: str, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    report = explored(*messages, most=2)
    assert rule in {violation.rule for violation in report.violations}, str(report)


@pytest.mark.proof("explores every single fault")
@pytest.mark.parametrize("messages", [ONE, TWO], ids=["one", "two"])
def test_with_all_guards_there_is_nothing_to_notice(messages: Any) -> None:
    report = explored(*messages)
    assert report.ok, str(report)

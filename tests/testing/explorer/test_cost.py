"""What it costs to find a bug: each of the seeded ones, by the whole search that ``flowguard explore`` makes."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from flowguard.testing import sqs_event
from flowguard.testing.explorer import Report, explore
from tests.testing.explorer import seeded

BUGS = (
    seeded.PlainAdd,
    seeded.PlainSend,
    seeded.CheckThenAct,
    seeded.RandomKey,
    seeded.BeforeClaim,
    seeded.Swallowed,
    seeded.InPart,
    seeded.Unanswered,
)
MOST = 2.0
"""Seconds of CPU, so that a busy machine fails nothing. The mark is 30."""


def found(stage: Any) -> tuple[Report, float]:
    """The report, which ends with the first violation, and the seconds."""
    message: Any = sqs_event("orders", {"order_id": "o1"})
    began = time.process_time()
    report = explore(seeded.flow_of(stage), [message], tables=seeded.TABLES, most=1)
    return report, time.process_time() - began


@pytest.mark.parametrize("stage", BUGS, ids=lambda one: one.__name__)
def test_a_seeded_bug_is_found_in_two_seconds(stage: Any) -> None:
    report, spent = found(stage)
    (violation,) = report.violations
    guilty = seeded.Counted if stage is seeded.BeforeClaim else stage
    assert violation.site is not None
    assert violation.site.line == seeded.guilty_line(guilty.__name__)
    assert spent < MOST


def main() -> None:
    """``python -m tests.testing.explorer.test_cost`` says what each costs."""
    for stage in BUGS:
        report, spent = found(stage)
        schedule = report.violations[0].schedule if report.violations else "not found"
        sys.stdout.write(f"{stage.__name__:13} {schedule:10} {report.schedules:4} schedules {spent:6.2f} s\n")


if __name__ == "__main__":
    main()

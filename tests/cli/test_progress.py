"""How far an exploration has come is told on standard error, and not too often."""

from __future__ import annotations

import pytest

from flowguard.cli.progress import EVERY, Progress


def test_without_a_terminal_a_line_is_told_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 1.0, EVERY, EVERY + 1, 2 * EVERY])
    with Progress(clock=lambda: next(times)) as progress:
        for schedules in (10, 20, 30, 4_000):
            progress(schedules, 1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "exploring: 20 schedules, 1 violations",
        "exploring: 4,000 schedules, 1 violations",
    ]

"""Flows whose runs begin by the clock: one with delays above 15 minutes too, and one without."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.every import SCHEDULED_AT, Every

OPTIONS: Final[dict[str, Any]] = {
    "settings": {"signing_keys": "ssm:/keys"},
    "schedules": {"reports-monthly": {"enabled": False}},
}


class Day(BaseModel):
    day: str
    note: str = ""


class Report(Stage[Day], name="report"):
    def handle(self, day: Day, step: Step) -> Outcome:
        return Done()


class Reports(
    Flow,
    name="reports",
    object_id="day",
    long_delays=True,
    every=(
        Every("cron(30 6 * * ? *)", {"day": SCHEDULED_AT}, timezone="Europe/Berlin", name="daily"),
        Every("cron(0 7 1 * ? *)", {"day": f"month {SCHEDULED_AT}", "note": "all shops"}, name="monthly"),
    ),
):
    stages = (Report,)


class Sweep(Stage[Day], name="sweep", inbox="to-sweep"):
    def handle(self, day: Day, step: Step) -> Outcome:
        return Done()


class Sweeps(Flow, name="sweeps", object_id="day", every=(Every("rate(5 minutes)", {"day": "all"}),)):
    stages = (Sweep,)


report = lambda_handler(Reports)
sweep = lambda_handler(Sweeps)

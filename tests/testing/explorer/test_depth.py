"""A circle of flows comes to its end under every fault: one dead letter, and no run more or less than undisturbed."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing.explorer import explore

TABLES = {"seen": "id"}


class Ball(BaseModel):
    id: str


class Serve(Stage[Ball], name="serve", inbox="serve"):
    def handle(self, ball: Ball, step: Step[Any]) -> Outcome:
        step.update("seen", {"id": ball.id}, "ADD served :one", values={":one": 1})
        step.start(Return, ball)
        return Done()


class Volley(Stage[Ball], name="volley", inbox="volley"):
    def handle(self, ball: Ball, step: Step[Any]) -> Outcome:
        step.start(Service, ball)
        return Done()


class Service(Flow, name="service", object_id="id", max_depth=1, dead_letters="out"):
    stages = (Serve,)


class Return(Flow, name="return", object_id="id", max_depth=1, dead_letters="out"):
    stages = (Volley,)


@pytest.mark.proof("explores a circle")
def test_some_faults_at_flows_that_start_each_other() -> None:
    report = explore([Service, Return], [Ball(id="b1")], tables=TABLES, bound=0, walks=0, most=40, for_good=False)
    assert report.ok, str(report)


@pytest.mark.proof("explores every single fault of a circle")
def test_a_circle_of_flows_comes_to_the_same_end_under_every_fault() -> None:
    report = explore([Service, Return], [Ball(id="b1")], tables=TABLES, bound=0, walks=0)
    assert report.ok, str(report)

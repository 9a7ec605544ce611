"""How quick the explorer is, and how its work grows with the calls of a flow: chains of two, four and eight stages."""

from __future__ import annotations

import logging
import time
from typing import Any, Final, NamedTuple

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.flow import AnyFlow
from flowguard.stage import AnyStage
from flowguard.testing import explore
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import Cart, a_cart, a_request

LENGTHS: Final = (2, 4, 8)
_NOW: Final = 1_767_225_600_000


class Explored(NamedTuple):
    stages: int
    calls: int
    schedules: int
    cpu: float


def figures(lengths: tuple[int, ...] = LENGTHS) -> list[Figure]:
    found = [explored(length) for length in lengths]
    said = "; ".join(f"{one.stages} stages: {one.calls} calls, {one.schedules:,} in {one.cpu:.1f} s" for one in found)
    *_, fewer, most = found
    grown = (most.cpu / most.schedules) / (fewer.cpu / fewer.schedules)
    return [
        Figure("schedules explored a CPU second", round(fewer.schedules / fewer.cpu), None, "", said),
        Figure(
            f"  CPU of one, {most.stages} stages, of {fewer.stages}", grown, None, "×", "a schedule runs all stages"
        ),
    ]


def explored(length: int) -> Explored:
    """Every fault at every call of one request through so many stages."""
    flow = chain(length)
    event, _ = a_request(flow, a_cart(), request_id="request-1", requested_at=_NOW)
    quiet, before = logging.getLogger("flowguard"), logging.getLogger("flowguard").level
    quiet.setLevel(logging.CRITICAL)
    begun = time.process_time()
    try:
        report = explore([flow], [event])
    finally:
        quiet.setLevel(before)
    if not report.ok:
        raise AssertionError(str(report))
    cpu = time.process_time() - begun
    return Explored(length, len(report.coverage), report.schedules, cpu)


def chain(length: int) -> AnyFlow:
    """A flow whose stages hand one payload on, from the first to the last."""
    stages: list[AnyStage] = []
    for number in reversed(range(length)):
        stages.insert(0, _stage(number, stages[0] if stages else None))
    members = {"stages": tuple(stages)}
    made: Any = type(f"ChainOf{length}", (Flow,), members, name=f"chain-of-{length}", object_id="cart_id")
    return made  # type: ignore[no-any-return]  # a class made by its metaclass


def _stage(number: int, follower: AnyStage | None) -> AnyStage:
    then = () if follower is None else (follower.name,)

    class Hop(Stage[Cart], name=f"hop-{number}", then=then):
        def handle(self, cart: Cart, step: Step) -> Outcome:
            return Done() if follower is None else follower.message(cart)

    return Hop

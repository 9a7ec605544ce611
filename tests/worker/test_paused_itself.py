"""Keys that pause themselves: failures of one kind pause a key, one hop tries it, and the line moves on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard.aws.pause_rows import PauseRows
from flowguard.errors import Reject, Retry
from flowguard.events import EventType
from flowguard.limit import PerKey
from flowguard.pause_after import PauseAfter
from flowguard.protocol.places import SKEW, Holder, Places
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall
from flowguard.step import Step
from tests.worker.crowd import HOUR, START, Crowd, Killed, Trouble
from tests.worker.limited import CROWDS, Order, all_end, crowd_of, flow_of, key_of, places_of

MINUTE: Final = 60_000
REST: Final = 5 * MINUTE
BACK: Final = START + 22 * MINUTE
"""When the gateway answers again."""


class GatewayAway(Exception):
    """The gateway does not answer, whoever asks."""


RULE: Final = PauseAfter(3, errors=(GatewayAway,), within=timedelta(minutes=1), rest=timedelta(minutes=5))


def limit_of(at_once: int = 5, rule: PauseAfter | None = RULE) -> PerKey:
    return PerKey("customer", at_once=at_once, pause_after=rule)


def away_until(back: int = BACK, takes: int = 200) -> Callable[[Order, Step[Any], Crowd], None]:
    """What asks a gateway that is away for some time."""

    def does(order: Order, step: Step[Any], crowd: Crowd) -> None:
        crowd.pass_time(takes)
        if crowd.now() < back:
            raise GatewayAway

    return does


def paused_flow(limit: PerKey = limit_of(), does: Callable[..., object] = away_until(), **options: Any) -> Any:
    return flow_of(limit, does=does, **options)


def begin(crowd: Crowd, runs: int, every: int = 100) -> None:
    for number in range(runs):
        crowd.start(Order(order_id=f"o{number}"), every * number)


def rows_of(crowd: Crowd) -> list[Any]:
    return PauseRows(crowd.aws.client("dynamodb"), "flowguard").all()


def test_failures_pause_the_key_one_hop_tries_it_and_the_line_moves_on() -> None:
    with crowd_of(paused_flow(), slots=10) as crowd:
        begin(crowd, 30, every=1000)
        crowd.run(2 * MINUTE)
        tripped_after = [at for at, _, _ in crowd.handled]
        assert len(tripped_after) == 3
        pause = places_of(crowd).pause
        assert pause is not None
        print(pause, crowd.tally)
        [row] = rows_of(crowd)
        crowd.run(21 * MINUTE)
        print(crowd.handled)
        crowd.run(2 * HOUR)
        print([(at // 1000, name) for at, name, _ in crowd.handled])
        print(crowd.tally)
        all_end(crowd, 30)
        assert rows_of(crowd) == []

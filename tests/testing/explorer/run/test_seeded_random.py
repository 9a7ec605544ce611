"""What a call of AWS draws from ``random`` is not missing from what the handler draws."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import boto3
import pytest

from flowguard.sim.engine import EngineFor
from flowguard.sim.engines import in_memory, on_moto
from flowguard.testing.explorer import PlainFunction, replay
from flowguard.testing.explorer.run.seeded_random import SeededRandom
from tests.testing.explorer.handlers import TABLES


def asks(event: Any, context: Any) -> None:
    """Ends well where the calls have left ``random`` as it was."""
    before = random.getstate()
    item = {"order_id": {"S": "o1"}}
    boto3.client("dynamodb", region_name="us-east-1").put_item(TableName="orders", Item=item)
    boto3.client("ssm", region_name="us-east-1").get_parameter(Name="price")
    assert random.getstate() == before


def draws(params: Mapping[str, Any]) -> dict[str, Any]:
    return {"Parameter": {"Value": str(random.random())}}


@pytest.mark.parametrize("engine", [in_memory, on_moto])
def test_the_answers_that_a_user_gives_may_draw(engine: EngineFor) -> None:
    stubs = {"ssm.GetParameter": draws}
    trace = replay(PlainFunction("orders", asks), [{}], "none", tables=TABLES, engine=engine, stubs=stubs)
    assert trace.ok, str(trace)


def test_what_is_drawn_aside_is_drawn_again() -> None:
    source = SeededRandom()
    source.seed("attempt")
    wanted = (source.urandom(8), random.random())
    source.seed("attempt")
    with source.aside():
        assert source.urandom(8) != wanted[0]
        random.random()
    assert (source.urandom(8), random.random()) == wanted


def test_where_nothing_draws_from_random_its_state_is_not_touched() -> None:
    source = SeededRandom()
    source.seed("attempt")
    with source.aside(with_random=False):
        drawn = random.random()
        source.urandom(8)
    kept = source.urandom(8)
    source.seed("attempt")
    assert (source.urandom(8), random.random()) == (kept, drawn)

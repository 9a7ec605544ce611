"""Mistakes as users write them, and the errors that they get.

Each error names the thing, says what was and was not done, and has the cure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from flowguard.errors import DefinitionError, FlowguardError

SHOP = """
import functools
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID
from pydantic import BaseModel
from flowguard import *
from flowguard.wire.attributes import Attribute

class Order(BaseModel):
    order_id: str

class OrderState(BaseModel):
    pieces: int = 0
"""


def written(source: str) -> dict[str, Any]:
    """What is defined after a shop's module with this source was imported."""
    found: dict[str, Any] = {"__name__": "shop"}
    exec(SHOP + source, found)  # noqa: S102 - the source is this module's own
    return found


class Mistake(NamedTuple):
    wrote: str
    holds: tuple[str, ...]


def stage(options: str = "", body: str = "", handle: str = "def handle(self, order, step): return Done()") -> str:
    lines = f"class PriceOrder(Stage[Order], name='price-order'{options}):\n"
    return lines + "".join(f"    {line}\n" for line in (body, handle) if line)


DEFINITIONS = {
    "a timeout in seconds": Mistake(
        stage(", timeout=30"), ("stage PriceOrder", "timeout is 30", "write timedelta(seconds=30)")
    ),
    "a timeout in seconds, in the body": Mistake(
        stage(body="timeout = 2.5"), ("timeout is 2.5", "write timedelta(seconds=2.5)")
    ),
    "a timeout that is a text": Mistake(stage(", timeout='30s'"), ("timeout is '30s'", "write timedelta(seconds=…)")),
    "a number of retries": Mistake(
        stage(", retry=3"), ("stage PriceOrder", "retry is 3", "write retry=RetryPolicy(attempts=3)")
    ),
    "retries off": Mistake(stage(", retry=False"), ("retry is False", "write retry=RetryPolicy(attempts=…)")),
    "a policy's delays in seconds": Mistake(
        stage(", retry=RetryPolicy(max_delay=60, give_up_after=3600)"),
        (
            "retry.max_delay is 60, which has no unit; write timedelta(seconds=60)",
            "retry.give_up_after is 3600, which has no unit; write timedelta(seconds=3600)",
        ),
    ),
    "a policy without a longest delay": Mistake(
        stage(", retry=RetryPolicy(max_delay=None)"), ("retry.max_delay is None",)
    ),
    "a backoff in seconds": Mistake(
        stage(", retry=RetryPolicy(backoff=5)"), ("retry.backoff is 5", "write Fixed(…), Linear(…) or Exponential(…)")
    ),
    "attempts as a text": Mistake(stage(", retry=RetryPolicy(attempts='3')"), ("retry.attempts is '3'", "attempts=5")),
    "a jitter in percent": Mistake(stage(", retry=RetryPolicy(jitter='20%')"), ("retry.jitter is '20%'", "jitter=0.2")),
    "attempts for an error": Mistake(
        stage(", retry=RetryPolicy(for_errors={KeyError: 3})"),
        ("for KeyError, retry is 3", "write retry=RetryPolicy(attempts=3)"),
    ),
    "a policy for the name of an error": Mistake(
        stage(", retry=RetryPolicy(for_errors={'KeyError': RetryPolicy()})"), ("retry.for_errors has 'KeyError'",)
    ),
    "policies in a list": Mistake(stage(", retry=RetryPolicy(for_errors=[KeyError])"), ("retry.for_errors is [",)),
    "an async handler": Mistake(
        stage(handle="async def handle(self, order, step): return Done()"),
        ("stage PriceOrder", "its handle is async", "a plain function", "write def handle(self, payload, step)"),
    ),
    "a handler that yields": Mistake(
        stage(handle="def handle(self, order, step): yield Done()"), ("its handle yields", "return its outcome")
    ),
    "an async handler that yields": Mistake(
        stage(handle="async def handle(self, order, step): yield Done()"), ("its handle is async",)
    ),
    "a handler without a step": Mistake(
        stage(handle="def handle(self, order): return Done()"),
        ("stage PriceOrder", "cannot be called with a payload and a step", "write def handle(self, payload, step)"),
    ),
    "a handler with one thing more": Mistake(
        stage(handle="def handle(self, order, step, context): return Done()"), ("cannot be called with a payload",)
    ),
    "a handler without self": Mistake(
        stage(handle="def handle(order, step): return Done()"), ("cannot be called with a payload and a step",)
    ),
    "a handler that is none": Mistake(stage(handle="handle = 3"), ("its handle is 3, which cannot be called",)),
    "a retention in days": Mistake(
        stage() + "class Shop(Flow, name='shop', object_id='order_id', retention=14): stages = (PriceOrder,)",
        ("flow Shop", "retention is 14", "write timedelta(seconds=14)"),
    ),
    "a time of abandonment in hours": Mistake(
        stage()
        + "class Shop(Flow, name='shop', object_id='order_id', abandoned_after=24, long_delays=True,\n"
        + "           on_conflict=IGNORE): stages = (PriceOrder,)",
        ("flow Shop", "abandoned_after is 24", "write timedelta(seconds=24)"),
    ),
}


@pytest.mark.parametrize("mistake", DEFINITIONS.values(), ids=DEFINITIONS)
def test_a_wrong_definition_is_refused_when_its_class_is_defined(mistake: Mistake) -> None:
    with pytest.raises(DefinitionError) as caught:
        written(mistake.wrote)
    for words in mistake.holds:
        assert words in str(caught.value)


HANDLERS = {
    "a method": "def handle(self, order, step): return Done()",
    "a static one": "@staticmethod\n    def handle(order, step): return Done()",
    "one of the class": "@classmethod\n    def handle(cls, order, step): return Done()",
    "with defaults": "def handle(self, order, step, rate=3, *rest, **more): return Done()",
    "of any arguments": "def handle(self, *given): return Done()",
    "a wrapped one with other parameters": (
        "def with_rate(function):\n"
        "        return functools.wraps(function)(lambda self, order, step: function(self, order, step, 3))\n"
        "    @with_rate\n"
        "    def handle(self, order, step, rate): return Done()"
    ),
}


@pytest.mark.parametrize("handle", HANDLERS.values(), ids=HANDLERS)
def test_any_handler_that_takes_a_payload_and_a_step_is_good(handle: str) -> None:
    assert written(stage(handle=handle))["PriceOrder"].name == "price-order"


ENDINGS = {
    "a retry after seconds": Mistake("Retry(after=60)", ("after is 60", "write timedelta(seconds=60)")),
    "a retry with seconds alone": Mistake("Retry(60)", ("Retry(60)", "write Retry(after=timedelta(…))")),
    "a retry with a time alone": Mistake("Retry(timedelta(minutes=1))", ("write Retry(after=timedelta(…))",)),
}


@pytest.mark.parametrize("mistake", ENDINGS.values(), ids=ENDINGS)
def test_a_wrong_ending_is_refused_where_it_is_made(mistake: Mistake) -> None:
    with pytest.raises(TypeError) as caught:
        written(mistake.wrote)
    for words in mistake.holds:
        assert words in str(caught.value)


@pytest.mark.parametrize("ending", ["Retry", "Reject"])
def test_the_error_that_was_caught_is_a_reason(ending: str) -> None:
    made: FlowguardError = written(f"ending = {ending}(KeyError('sku'))")["ending"]
    assert str(made) == "KeyError: 'sku'"

"""Calls before the commit of a stage that is called without its runtime, and errors that are the user's own."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from flowguard.errors import OtherRelease, RunFailed
from flowguard.recorded.remembered import EarlyEffects, ForgottenMemory, ResultForm
from flowguard.recorded.table_writes import NOTHING_REFUSED, TableWrites


def effects() -> EarlyEffects:
    return EarlyEffects(ForgottenMemory(), TableWrites("stage", NOTHING_REFUSED))


class Buggy(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def broken(cls, value: int) -> int:
        raise ZeroDivisionError("a validator with a bug")


class Unmade:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        raise ZeroDivisionError("a schema with a bug")


@pytest.mark.parametrize("kind", [Buggy, Unmade])
def test_a_bug_in_the_type_of_a_result_is_raised_as_it_is(kind: type) -> None:
    """It does not fail the run for good: the next release may have mended it."""
    with pytest.raises(ZeroDivisionError, match="with a bug"):
        effects().once("a", lambda: {"a": 1}, kind)


def test_what_another_release_remembers_is_of_another_type_and_a_bug_is_raised_as_it_is() -> None:
    with pytest.raises(OtherRelease, match="what it remembers is no <class 'int'>"):
        ResultForm.of("it", effects, int).read('"text"')
    with pytest.raises(ZeroDivisionError, match="with a bug"):
        ResultForm.of("it", effects, Buggy).read('{"a": 1}')


def test_a_coroutine_that_is_nobodys_to_await_is_closed() -> None:
    made: list[Coroutine[Any, Any, None]] = []

    async def works() -> None: ...

    def call() -> object:
        made.append(works())
        return made[0]

    with pytest.raises(RunFailed, match="got a coroutine from its call"):
        effects().once("a", call, None)
    assert [inspect.getcoroutinestate(one) for one in made] == [inspect.CORO_CLOSED]

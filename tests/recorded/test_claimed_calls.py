"""What a stage without a lease may not do is found when it, or its flow, is defined."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest

from flowguard.errors import DefinitionError
from flowguard.flow import ATTACH, IGNORE, SUPERSEDE, Flow
from flowguard.outcome import Done, Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.recorded.claimed_calls import NEED_CLAIM, claimed_calls
from flowguard.stage import AnyStage, Stage
from flowguard.step import Step

Handler = Callable[[Any, Any, Step[Any]], Outcome]


def plain(self: object, payload: Any, step: Step[Any]) -> Outcome:
    step.put("carts", {"id": step.key("cart")})
    return Done()


def once(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(step.once("charge", lambda: 1))


def apply(self: object, payload: Any, step: Step[Any]) -> Outcome:
    with step.apply("stock"):
        step.put("carts", {"id": "c1"})
    return Done()


def fence(self: object, payload: Any, step: Step[Any]) -> Outcome:
    step.log.info("%s", step.fence())
    return Done()


def within(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done([step.once(name, lambda: 1) for name in ("a", "b")])


def of_another(self: object, payload: Any, step: Step[Any]) -> Outcome:
    payload.once(step)
    payload.apply("stock")
    return Done(())


@functools.wraps(fence)
def wrapped(*args: Any) -> Outcome:
    return fence(*args)


def define(handle: Handler, **options: Any) -> AnyStage:
    return types.new_class("Made", (Stage[dict[str, Any]],), options, lambda space: space.update(handle=handle))


@pytest.mark.parametrize(
    ("handle", "found"),
    [
        (plain, []),
        (of_another, []),
        (once, ["once"]),
        (apply, ["apply"]),
        (fence, ["fence"]),
        (within, ["once"]),
        (wrapped, ["fence"]),
        (lambda: None, []),
        (print, []),
    ],
)
def test_a_handlers_calls_that_need_a_claim_are_found(handle: Any, found: list[str]) -> None:
    assert claimed_calls(handle) == found


def test_what_needs_a_claim_is_a_method_of_the_step() -> None:
    assert all(callable(getattr(Step, name)) for name in NEED_CLAIM)


@pytest.mark.parametrize("handle", [once, apply, fence])
def test_a_stage_that_needs_a_claim_cannot_go_without(handle: Handler) -> None:
    with pytest.raises(DefinitionError) as raised:
        define(handle, name="made", lease=False)
    [problem] = raised.value.problems
    name = handle.__name__
    assert problem == f"its handle calls step.{name}, which works only under a claim; leave lease=False out"
    assert define(handle, name="made").lease


@pytest.mark.parametrize("lease", [0, 1, "no", None])
def test_a_lease_is_taken_or_it_is_not(lease: Any) -> None:
    if lease is None:
        assert define(plain, name="made", lease=None).lease is True
        return
    with pytest.raises(DefinitionError, match='write lease=False or lease="auto", or leave it out'):
        define(plain, name="made", lease=lease)


def test_a_derived_stage_goes_without_as_its_base_does() -> None:
    base = define(plain, lease=False, abstract=True)
    derived: Any = types.new_class("Derived", (base,), {"name": "derived"})
    assert derived.lease is False


@pytest.mark.parametrize("policy", [SUPERSEDE, IGNORE, ATTACH])
def test_where_the_first_request_keeps_the_object_a_claim_has_to_show_it(policy: OnConflict) -> None:
    space = {"stages": (define(plain, name="made", lease=False),)}
    options = {"name": "carts", "object_id": "cart", "on_conflict": policy}
    if policy is SUPERSEDE:
        types.new_class("Carts", (Flow,), options, lambda found: found.update(space))
        return
    with pytest.raises(DefinitionError) as raised:
        types.new_class("Carts", (Flow,), options, lambda found: found.update(space))
    [problem] = raised.value.problems
    assert f"stage 'made' has lease=False, and with on_conflict={policy.name} the first request keeps" in problem

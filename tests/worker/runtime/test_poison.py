"""A record that does everything wrong harms no other: endless recursion, exits, errors that cannot speak, sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flowguard.events import EventType
from flowguard.names.ids import ObjectId, RequestId
from flowguard.step import Step
from flowguard.wire.message import Message
from tests.scene import OrderState, Scene


def order(at: Scene, number: int) -> Message:
    name = f"o{number}"
    return at.message(object_id=ObjectId(name), request_id=RequestId(f"run-{name}"), body=f'{{"order_id":"{name}"}}')


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def recurse(step: Step[OrderState]) -> None:
    recurse(step)


def leave(step: Step[OrderState]) -> None:
    raise SystemExit(3)


def unspeakable(step: Step[OrderState]) -> None:
    raise Unspeakable


def huge(step: Step[OrderState]) -> None:
    step.send("emails", "x" * 2_000_000)


@pytest.mark.parametrize("poison", [recurse, leave, unspeakable, huge])
def test_one_poisoned_record_does_not_harm_its_batch(at: Scene, poison: Callable[[Step[OrderState]], None]) -> None:
    at.script.pricing = lambda step: poison(step) if step.object_id == "o1" else None
    assert at.deliver(order(at, 0), order(at, 1), order(at, 2)) == [True, True, True]
    assert at.told(EventType.COMMITTED) == 2
    assert at.told(EventType.RETRIED) + at.told(EventType.FAILED) == 1


def test_a_message_too_large_to_send_ends_the_run_naming_its_size(at: Scene) -> None:
    at.script.pricing = huge
    at.deliver(at.message())
    item = at.item()
    assert item is not None
    assert "2,000,0" in (item.error or "")
    assert "of at most 1,048,576" in (item.error or "")

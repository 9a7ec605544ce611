"""How a flow declares its callbacks, and what is refused when the class is defined."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Bus, Callback, DefinitionError, Done, Flow, Function, Outcome, Queue, Stage, Step, Topic


class Order(BaseModel):
    order_id: str


class Only(Stage[Order], name="only"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


def define(callbacks: Any, **options: Any) -> type[Flow]:
    class Declared(Flow, name="declared", object_id="order_id", callbacks=callbacks, **options):
        stages = (Only,)

    return Declared


GOOD = (
    Callback("answers"),
    Callback(
        Queue("answers.fifo"),
        id="a.b",
        names=("c",),
        prefix="p/",
        answer="c",
        failed="d",
        keep_early=timedelta(hours=1),
    ),
    Callback(Topic("arn:aws:sns:eu-west-1:123456789012:told"), id="a"),
    Callback(Bus("default", "shop", "Paid"), id="a"),
)


def test_what_is_well_declared_is_there() -> None:
    assert define(GOOD).callbacks == GOOD
    assert define(()).callbacks == ()


DAY = timedelta(days=1)


@pytest.mark.parametrize("early", [(DAY, None), (None, DAY), (DAY, DAY)])
def test_two_callbacks_of_the_same_ids_keep_no_early_answers(early: tuple[timedelta | None, timedelta | None]) -> None:
    """An early answer is kept for one of them, by its id and its message."""
    first = Callback("q", id="a", names=("x",), keep_early=early[0])
    with pytest.raises(DefinitionError, match=r"two of its callbacks have the ids of sqs:q, and keep_early"):
        define((first, Callback("q", id="a", names=("y",), keep_early=early[1])))
    others = [Callback("q", id="a", prefix="p/"), Callback("q", id="b"), Callback("r", id="a")]
    assert all(define((first, other)).callbacks for other in others)


def test_two_callbacks_of_the_same_ids_are_good_without_early_answers() -> None:
    assert define((Callback("q", id="a", names=("x",)), Callback("q", id="a", names=("y",)))).callbacks


@pytest.mark.parametrize(
    ("callback", "said"),
    [
        (Callback(""), "has a form that AWS does not know"),
        (Callback(7), "7 is no destination"),  # type: ignore[arg-type]  # on purpose
        (Callback(Function("f")), "answers come from a queue, a topic or a bus"),
        (Callback("q", id=""), "a callback's id is ''"),
        (Callback("q", id="a..b"), "a callback's id is 'a..b'"),
        (Callback("q", names="parcel"), "a callback's names is 'parcel'"),  # type: ignore[arg-type]  # on purpose
        (Callback("q", names=("",)), "a callback's names is ('',)"),
        (Callback("q", answer=""), "a callback's answer is ''"),
        (Callback("q", failed=3), "a callback's failed is 3"),  # type: ignore[arg-type]  # on purpose
        (Callback("q", prefix=None), "a callback's prefix is None"),  # type: ignore[arg-type]  # on purpose
        (Callback("q", keep_early=timedelta(0)), "keep_early is 0:00:00; it must be positive"),
        (Callback("q", keep_early=60), "a callback's keep_early is 60, which has no unit"),  # type: ignore[arg-type]
        (Callback("declared"), "brings its own messages too"),
        (Callback("own-answers"), "brings its own messages too"),
    ],
)
def test_what_cannot_work_is_named(callback: Callback, said: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        define((callback,), answers="own-answers")
    [problem] = refused.value.problems
    assert said in problem


@pytest.mark.parametrize("callbacks", [Callback("q"), [Callback("q")], ("q",), None])
def test_callbacks_are_a_tuple(callbacks: Any) -> None:
    with pytest.raises(DefinitionError, match="write a tuple"):
        define(callbacks)


@pytest.mark.parametrize("answers", ["answers.fifo", Topic("arn:aws:sns:eu-west-1:123456789012:told"), Function("f")])
def test_answers_come_through_a_standard_queue(answers: Any) -> None:
    with pytest.raises(DefinitionError, match="is no standard queue; deadlines are delayed"):
        define((), answers=answers)

"""Options of another kind than declared: each is refused when its class is defined, and none breaks a record later."""

from __future__ import annotations

import enum
import inspect
import types
from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard.callback import Callback
from flowguard.debounce import Debounce
from flowguard.destinations import Bus
from flowguard.errors import DefinitionError
from flowguard.every import Every
from flowguard.flow import Flow
from flowguard.limit import PerKey
from flowguard.outcome import Done, Outcome
from flowguard.retry import RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.streams import KafkaTopic, KinesisStream, TableStream


class Order(BaseModel):
    order_id: str


def handle(self: object, order: Order, step: Step) -> Outcome:
    return Done()


def stage(**options: Any) -> Any:
    given = {"name": "made", **options}
    return types.new_class("Made", (Stage[Order],), given, lambda space: space.update(handle=handle))


def flow(**options: Any) -> Any:
    given = {"name": "made", "object_id": "order_id", **options}
    return types.new_class("Made", (Flow,), given, lambda space: space.update(stages=(stage(),)))


A_DAY: Final = timedelta(days=1)
THING: Final = object()
VALUES: Final[tuple[Any, ...]] = (
    "text", "", 7, -1, 0, 1.5, True, False, None, THING, [], [7], {}, {"a": 1}, (), ("text",), (7,), (1.5,), A_DAY,
    Flow, Stage, b"bytes",
)  # fmt: skip
_NAMES: Final = ("text", None)
_FLAG: Final = (True, False)
_NUMBERS: Final[tuple[Any, ...]] = ([], [7], {}, (), (7,))

RIGHT: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    "Stage": {
        "name": ("text",),
        "then": VALUES,  # the flow misses what is no stage among its stages
        "inbox": _NAMES,
        "retry": (None,),
        "timeout": (None, A_DAY),
        "lease": (True, False, None),
        "parallel": (7, None),
        "limit": (None, ()),
        "abstract": (False,),
    },
    "Flow": {
        "name": ("text",),
        "object_id": (),  # a field of the payload, which has none of these names
        "request_id": (None,),
        "on_conflict": (None,),
        "keep_result": (None, A_DAY),
        "on_failed": (None,),
        "entries": ((),),
        "version": (7,),
        "accepts": _NUMBERS,
        "inbox": _NAMES,
        "dead_letters": _NAMES,
        "answers": _NAMES,
        "callbacks": ((),),
        "streams": ((),),
        "every": ((),),
        "debounce": (None,),
        "complete_to": _NAMES,
        "reply_to": (None, (), ("text",)),
        "tenant": (None,),
        "carry": ((), ("text",)),
        "max_hops": (7,),
        "max_depth": (7, 0),
        "retention": (A_DAY,),
        "remember": (None,),
        "abandoned_after": (A_DAY,),
        "long_delays": _FLAG,
        "full_history": _FLAG,
        "trust_senders": _FLAG,
        "codec": (None,),
        "sealed_only": (False,),
        "limit": (None,),
    },
}

CASES: Final = [
    (kind, option, value)
    for kind, options in RIGHT.items()
    for option, right in options.items()
    for value in VALUES
    if not any(type(value) is type(each) and value == each for each in right)
]


@pytest.mark.parametrize("base", [Stage, Flow])
def test_each_option_stands_in_the_table(base: type) -> None:
    assert list(inspect.signature(base.__init_subclass__).parameters) == list(RIGHT[base.__name__])


@pytest.mark.parametrize(("kind", "option", "value"), CASES)
def test_a_value_of_another_kind_is_refused_at_definition(kind: str, option: str, value: Any) -> None:
    with pytest.raises(DefinitionError):
        {"Stage": stage, "Flow": flow}[kind](**{option: value})


def test_the_right_values_of_the_table_are_taken() -> None:
    for option, right in RIGHT["Flow"].items():
        for value in right:
            flow(**{option: value})
    for option, right in RIGHT["Stage"].items():
        for value in right:
            stage(**{option: value})


@pytest.mark.parametrize("made", [KinesisStream, TableStream, KafkaTopic])
@pytest.mark.parametrize("value", [[], {}, {"a": 1}, 7, None])
def test_a_stream_with_a_name_of_another_kind_is_refused(made: Any, value: Any) -> None:
    with pytest.raises(DefinitionError, match="has a form that AWS does not know"):
        flow(streams=(made(value),))


@pytest.mark.parametrize("part", ["source", "detail_type"])
def test_a_bus_needs_texts(part: str) -> None:
    given: dict[str, Any] = {"source": "shop", "detail_type": "ended", part: 7}
    with pytest.raises(DefinitionError, match="needs a source and a detail_type"):
        flow(complete_to=Bus("bus", **given))


def told(**options: Any) -> str:
    with pytest.raises(DefinitionError) as refused:
        flow(**options)
    (problem,) = refused.value.problems
    return problem


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"on_conflict": "supersede"}, "write one of flowguard's own constants: SUPERSEDE, IGNORE, ATTACH"),
        ({"version": "1"}, "version is '1'; write a whole number: version=7"),
        ({"accepts": 2}, "accepts is 2; write a tuple of whole numbers: accepts=(1, 2)"),
        ({"long_delays": "no"}, "long_delays is 'no'; write long_delays=True, or leave it out"),
        ({"object_id": 7}, "its object_id is 7, which is no text"),
    ],
)
def test_what_is_of_another_kind_is_told_with_its_cure(options: dict[str, Any], problem: str) -> None:
    assert problem in told(**options)


def parts() -> list[tuple[str, Any]]:
    """Each part of what an option is made of, of another kind."""
    retries = [{"attempts": "5"}, {"jitter": "0.2"}, {"max_delay": 5}, {"backoff": 5}, {"for_errors": []}]
    limits = [{"at_once": "3"}, {"key": 7}, {"name": 7}]
    callbacks = [{"arrives": 7}, {"id": 7}, {"names": "x"}, {"prefix": 7}, {"keep_early": 7}]
    return [
        *[("retry", lambda part=part: stage(retry=RetryPolicy(**part))) for part in retries],
        *[
            ("limit", lambda part=part: stage(limit=PerKey(**{"key": "order_id", "at_once": 1, **part})))
            for part in limits
        ],
        *[
            ("callback", lambda part=part: flow(callbacks=(Callback(**{"arrives": "q", **part}),)))
            for part in callbacks
        ],
        ("debounce", lambda: flow(debounce=Debounce(7))),  # type: ignore[arg-type]  # which nobody type-checked
        ("every", lambda: flow(every=(Every(7, {"order_id": "o"}),))),  # type: ignore[arg-type]  # the same
    ]


@pytest.mark.parametrize(("option", "make"), parts())
def test_parts_of_another_kind_are_refused_too(option: str, make: Any) -> None:
    with pytest.raises(DefinitionError):
        make()


class Names(str, enum.Enum):  # noqa: UP042 - a StrEnum's text is its value
    """Older than ``StrEnum``. The text of a member is ``Names.STAGE``."""

    STAGE = "price"
    FLOW = "orders"
    QUEUE = "arrivals"


def test_a_name_may_be_a_member_of_an_enumeration() -> None:
    made = stage(name=Names.STAGE, then=Names.FLOW, inbox=Names.QUEUE)
    assert [f"{text}" for text in (made.name, *made.then, made.inbox)] == ["price", "orders", "sqs:arrivals"]
    orders = flow(name=Names.FLOW, dead_letters=Names.QUEUE)
    texts = (orders.name, orders.inbox, orders.dead_letters)
    assert [f"{text}" for text in texts] == ["orders", "sqs:orders", "sqs:arrivals"]


class Numbers(enum.IntEnum):
    TWO = 2


def test_a_number_may_be_a_member_of_an_enumeration() -> None:
    made = stage(parallel=Numbers.TWO, retry=RetryPolicy(attempts=Numbers.TWO))
    assert (made.parallel, made.retry.attempts) == (2, 2)
    assert stage(limit=PerKey("order_id", at_once=Numbers.TWO)).limits[0].most == 2
    orders = flow(version=Numbers.TWO, accepts=(Numbers.TWO,), max_hops=Numbers.TWO, max_depth=Numbers.TWO)
    numbers: list[Any] = [orders.version, *orders.accepts, orders.max_hops, orders.max_depth]
    assert [repr(number) for number in numbers] == ["2", "2", "2", "2"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: stage(parallel=True),
        lambda: stage(limit=PerKey("order_id", at_once=True)),
        lambda: flow(version=True),
        lambda: flow(accepts=(True,)),
    ],
)
def test_a_flag_is_no_number(make: Any) -> None:
    with pytest.raises(DefinitionError):
        make()

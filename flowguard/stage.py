"""A stage: one Lambda's worth of work, as a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any, ClassVar, Generic, get_args, get_origin

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar

from flowguard.destinations import Destination, Queue, Topic, destination
from flowguard.errors import DefinitionError
from flowguard.outcome import Next, Outcome
from flowguard.payloads import Payload, is_payload_type
from flowguard.retry import RetryPolicy
from flowguard.step import NoState, StateT, Step

PayloadT = TypeVar("PayloadT", bound=Payload)


class Stage(ABC, Generic[PayloadT, StateT]):
    """Subclass it with the type of the payload, and of the run's state where the flow keeps one.

    ``class PriceCart(Stage[CartSubmitted, CartState], name="price-cart", then="confirm-cart")``

    ``name`` travels in messages, so it is given and never derived. ``then`` names the stages that may come next (a
    name, a stage class, or several). ``inbox`` is where the stage's messages arrive, a queue's name or a destination;
    without one it is the flow's. ``timeout`` is how long one message may take: with less time left than that, an
    invocation begins no further message, and it is the lease where no Lambda says how long it has (else 30 s).
    """

    name: ClassVar[str]
    payload: ClassVar[type[Any]]
    state: ClassVar[type[BaseModel]]
    then: ClassVar[tuple[str, ...]]
    inbox: ClassVar[Destination | None]
    retry: ClassVar[RetryPolicy]
    timeout: ClassVar[timedelta | None]

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        then: str | type[Stage[Any, Any]] | tuple[str | type[Stage[Any, Any]], ...] = (),
        inbox: Destination | str | None = None,
        retry: RetryPolicy | None = None,
        timeout: timedelta | None = None,
        **rest: Any,
    ) -> None:
        super().__init_subclass__(**rest)
        payload, state = _type_arguments(cls)
        if name is None and _is_open(cls, payload, state):
            return  # a base class for stages, with its types still to be chosen
        cls.then = tuple(one if isinstance(one, str) else one.name for one in _as_tuple(then))
        cls.inbox = None if inbox is None else destination(inbox)
        cls.retry = retry if retry is not None else RetryPolicy()
        cls.timeout = timeout
        problems = [
            *_name_problems(name),
            *_type_problems(payload, state),
            *_inbox_problems(cls.inbox),
            *cls.retry.problems(),
        ]
        if timeout is not None and timeout <= timedelta(0):
            problems.append(f"timeout is {timeout}; it must be positive")
        if problems or name is None:
            raise DefinitionError(f"stage {cls.__qualname__}", tuple(problems))
        cls.name, cls.payload, cls.state = name, payload, state

    @abstractmethod
    def handle(self, payload: PayloadT, step: Step[StateT]) -> Outcome:
        """Do the work: read ``step.state``, record writes and sends, return how it ends.

        Called again from the top when an attempt died before its commit; nothing recorded has happened until then.
        """

    @classmethod
    def message(cls, payload: PayloadT) -> Next:
        """The next hop, to this stage."""
        return Next(cls.name, payload)


AnyStage = type[Stage[Any, Any]]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _type_arguments(cls: type) -> tuple[Any, Any]:
    """The types the class gives to Stage, through generic bases of its own; TypeVars where it leaves them open."""
    for base in getattr(cls, "__orig_bases__", ()):
        origin = get_origin(base)
        if origin is Stage:
            args = get_args(base)
            return args[0], args[1] if len(args) > 1 else NoState
        if isinstance(origin, type) and issubclass(origin, Stage):
            given = dict(zip(getattr(origin, "__parameters__", ()), get_args(base), strict=False))
            inner = _type_arguments(origin)
            return given.get(inner[0], inner[0]), given.get(inner[1], inner[1])
    for parent in cls.__bases__:
        if parent is not Stage and issubclass(parent, Stage):
            return _type_arguments(parent)
    return None, NoState


def _is_open(cls: type, payload: Any, state: Any) -> bool:
    return (
        isinstance(payload, TypeVar)
        or isinstance(state, TypeVar)
        or "handle" in getattr(cls, "__abstractmethods__", {"handle"} if "handle" not in vars(cls) else set())
    )


def _name_problems(name: str | None) -> list[str]:
    if not name:
        return ['it has no name; messages carry it, so give one: class …(Stage[…], name="price-cart")']
    if not all(letter.isalnum() or letter in "-_." for letter in name):
        return [f"its name {name!r} may have letters, digits, '-', '_' and '.' only"]
    return []


def _type_problems(payload: Any, state: Any) -> list[str]:
    found = []
    if payload is None:
        found.append("it does not say what it takes; write Stage[YourModel], Stage[dict] or Stage[str]")
    elif not is_payload_type(get_origin(payload) or payload):
        found.append(f"its payload type {payload!r} is none of: a pydantic model, dict, str")
    if not (isinstance(state, type) and issubclass(state, BaseModel)):
        found.append(f"its state type {state!r} is no pydantic model")
    else:
        found.extend(_state_problems(state))
    return found


def _state_problems(state: type[BaseModel]) -> list[str]:
    try:
        state()
    except ValidationError:
        needed = ", ".join(name for name, field in state.model_fields.items() if field.is_required())
        return [f"its state {state.__name__} cannot start empty; give a default to: {needed or 'every field'}"]
    return []


def _inbox_problems(inbox: Destination | None) -> list[str]:
    if inbox is None or isinstance(inbox, Queue | Topic):
        return []
    return [f"its inbox {inbox} is no queue or topic; a stage reads from SQS, SNS→SQS or a direct invocation"]

"""The base class of stages: one Lambda's worth of work each."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar

from flowguard.destinations import Destination, Queue, Topic, destination, form_problem
from flowguard.errors import DefinitionError, shown, span_problem
from flowguard.outcome import AskGroup, Awaited, Next, Outcome, WaitFor, WaitForGroup
from flowguard.payload.encoding import Payload, is_payload_type
from flowguard.payload.readable import BY_REFERENCE, hidden_fields
from flowguard.recorded.claimed_calls import claimed_calls
from flowguard.retry import RetryPolicy, policy_problems
from flowguard.startup.late_pattern import late_pattern
from flowguard.step import NoState, StateT, Step
from flowguard.text.option_problems import flag_problems, is_whole, text_of, text_problems

if TYPE_CHECKING:
    from flowguard.lanes import Lane
    from flowguard.limit import PerKey

PayloadT = TypeVar("PayloadT", bound=Payload)


AUTO: Final = "auto"
"""The lease of a stage that leaves it to its code."""

MOST_LIMITS: Final = 3
"""Of one stage: each is a write before its handler and one after it."""

MOST_AT_ONCE: Final = 10
"""Handlers at once: botocore keeps so many connections for each client."""


class Stage(ABC, Generic[PayloadT, StateT]):
    """Subclass it with the type of the payload, and of the run's state where the flow keeps one.

    ``class PriceCart(Stage[CartSubmitted, CartState], name="price-cart", then="confirm-cart")``

    A model has to read its own text as it is: the payload for a next stage, and the state, are read once before their
    commit, and :class:`flowguard.errors.PayloadLost` names what would be lost, such as a secret or a NaN.

    ``name`` travels in messages, so it is given and never derived. ``then`` names the stages that may come next (a
    name, a stage class, or several). ``inbox`` is where the stage's messages arrive: a queue's name, a destination, or
    a tuple of :class:`flowguard.lanes.Lane`; without one it is the flow's.

    ``timeout`` is how long one message may take: with less time left than that, an invocation begins no further
    message, and it is the lease where no Lambda says how long it has (else 30 s).
    ``retry`` says when a failed message is tried again: a :class:`RetryPolicy`. ``lease`` (default True) keeps
    other workers from the same work. Without it a hop saves the claim's write, and two workers may do its work at once.
    ``lease="auto"`` leaves it out where the handler's code proves that it only does what its step records.
    ``parallel`` lets so many records of an event be handled at once, in threads, where they share their calls.
    ``limit`` lets so many hops be at work at once for one key, or begin in a time, all functions taken together: a
    :class:`PerKey`, or a tuple of several.

    What several stages share can be in a base class of yours: one without a name, which leaves a type open or says
    ``abstract=True``. All but the name is inherited from it. ``abstract`` itself is not.
    """

    name: ClassVar[str]
    payload: ClassVar[type[Any]]
    state: ClassVar[type[BaseModel]]
    then: ClassVar[tuple[str, ...]] = ()
    inbox: ClassVar[Destination | None] = None
    inbox_lanes: ClassVar[tuple[Lane, ...]] = ()
    """Those of its own inbox. That is the queue of the first one then."""
    retry: ClassVar[RetryPolicy] = RetryPolicy()
    timeout: ClassVar[timedelta | None] = None
    lease: ClassVar[bool | Literal["auto"]] = True
    lease_given: ClassVar[bool] = False
    """Whether the stage, or a base class of it, says what its lease is."""
    parallel: ClassVar[int] = 1
    limits: ClassVar[tuple[PerKey, ...]] = ()

    def __init_subclass__(  # noqa: PLR0913 - the options of a class, each with a default
        cls,
        *,
        name: str | None = None,
        then: str | type[Stage[Any, Any]] | tuple[str | type[Stage[Any, Any]], ...] | None = None,
        inbox: Destination | str | tuple[Lane, ...] | None = None,
        retry: RetryPolicy | None = None,
        timeout: timedelta | None = None,
        lease: bool | Literal["auto"] | None = None,
        parallel: int | None = None,
        limit: PerKey | tuple[PerKey, ...] | None = None,
        abstract: bool = False,
    ) -> None:
        super().__init_subclass__()
        cls.then = _names(cls.then if then is None else then)
        where = vars(cls).get("inbox", cls.inbox_lanes or cls.inbox) if inbox is None else inbox
        cls.inbox, cls.inbox_lanes = (None, ()) if where is None else inbox_and_lanes(where)
        cls.retry = cls.retry if retry is None else retry
        cls.timeout = cls.timeout if timeout is None else timeout
        cls.lease, cls.lease_given = (cls.lease, cls.lease_given) if lease is None else (lease, True)
        cls.parallel = cls.parallel if parallel is None else parallel
        cls.limits = cls.limits if limit is None else limit if isinstance(limit, tuple) else (limit,)
        payload, state = _type_arguments(cls)
        if name is None and (abstract is True or isinstance(payload, TypeVar) or isinstance(state, TypeVar)):
            return  # a base class for stages
        problems = [
            *_name_problems(name),
            *flag_problems({"abstract": abstract}),
            *_type_problems(payload, state),
            *_work_problems(cls),
            *_inbox_problems(cls.inbox, cls.inbox_lanes),
            *policy_problems(cls.retry),
            *_timeout_problems(cls.timeout),
            *_lease_problems(cls),
            *_parallel_problems(cls),
            *_limit_problems(cls, payload),
        ]
        if abstract is True:
            problems.append("it says abstract=True and has a name; a base class has none, a stage is not abstract")
        if problems or name is None:
            raise DefinitionError(f"stage {cls.__qualname__}", tuple(problems))
        cls.name, cls.payload, cls.state = text_of(name), get_origin(payload) or payload, state

    @abstractmethod
    def handle(self, payload: PayloadT, step: Step[StateT]) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Do the work and return how it ends. On the way read ``step.state`` and record writes and sends.

        An ``async def`` is awaited, on one event loop an invocation.

        Called again from the top when an attempt died before its commit; nothing recorded has happened until then.
        """

    @classmethod
    def message(cls, payload: PayloadT) -> Next:
        """Make the next hop, to this stage."""
        return Next(cls.name, payload)

    @classmethod
    def when_all(
        cls,
        *,
        within: timedelta | None = None,
        on_timeout: StageOrName | None = None,
        on_error: StageOrName | None = None,
        **awaited: Awaited,
    ) -> WaitFor:
        """Wait for all of these, then go on at this stage. The names are the fields of its payload.

        ``within`` is the deadline, counted from the commit: after it the run goes on at ``on_timeout``. When something
        awaited fails and its field admits no :class:`flowguard.Failed`, it goes on at ``on_error`` at once. Where they
        are not given, this stage gets what there is, and the run fails if its payload does not take it. Name both in
        the waiting stage's ``then=``.
        """
        return WaitFor(cls.name, awaited, None, within, name_of(on_timeout), name_of(on_error))

    @classmethod
    def when_any(
        cls,
        *,
        within: timedelta | None = None,
        on_timeout: StageOrName | None = None,
        on_error: StageOrName | None = None,
        **awaited: Awaited,
    ) -> WaitFor:
        """Wait for the first answer to any of these. Each field of the payload needs a default.

        ``within``, ``on_timeout`` and ``on_error`` are as in :meth:`when_all`.
        """
        return WaitFor(cls.name, awaited, 1, within, name_of(on_timeout), name_of(on_error))

    @classmethod
    def when(
        cls,
        *,
        quorum: int,
        within: timedelta | None = None,
        on_timeout: StageOrName | None = None,
        on_error: StageOrName | None = None,
        **awaited: Awaited,
    ) -> WaitFor:
        """Wait for ``quorum`` answers to these. Each field of the payload needs a default.

        ``within``, ``on_timeout`` and ``on_error`` are as in :meth:`when_all`.
        """
        return WaitFor(cls.name, awaited, quorum, within, name_of(on_timeout), name_of(on_error))

    @classmethod
    def when_group(
        cls,
        group: AskGroup,
        *,
        within: timedelta | None = None,
        quorum: float | None = None,
        on_timeout: StageOrName | None = None,
    ) -> WaitForGroup:
        """Wait for the requests of ``step.group(…)``. This stage takes a :class:`flowguard.GroupEnd`.

        ``within`` and ``on_timeout`` are as in :meth:`when_all`. With a ``quorum`` such as 0.95 that share of the
        requests is enough: of each 99 in the order in which they were asked. A failed request counts as answered.
        """
        return WaitForGroup(cls.name, group, quorum, within, name_of(on_timeout))


AnyStage = type[Stage[Any, Any]]
StageOrName = str | AnyStage
"""A stage, or its name where the class is defined further down."""


def is_good_name(name: str) -> bool:
    """Answer whether a stage or a flow may have this name. It travels in attributes and is a queue's by default."""
    return _GOOD_NAME.fullmatch(name) is not None


_GOOD_NAME = late_pattern("[A-Za-z0-9_-]{1,64}")


def name_of(stage: StageOrName | None) -> str | None:
    """Return the stage's name. Anything else gives its ``repr``, which the flow will miss among its stages."""
    return None if stage is None else _name(stage)


def _names(then: Any) -> tuple[str, ...]:
    """Return the names of the stages. Anything else gives its ``repr``, which the flow will miss among its stages."""
    return tuple(map(_name, then if isinstance(then, tuple) else (then,)))


def _name(stage: Any) -> Any:
    return text_of(stage) if isinstance(stage, str) else getattr(stage, "name", repr(stage))


def _type_arguments(cls: type) -> tuple[Any, Any]:
    """Return the type arguments that the class gives to Stage, also through generic base classes.

    One that it leaves open is a TypeVar.
    """
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


def _name_problems(name: str | None) -> list[str]:
    if not name:
        return ['it has no name; messages carry it, so give one: class …(Stage[…], name="price-cart")']
    if problems := list(text_problems({"name": name})):
        return problems
    if not is_good_name(name):
        return [f"its name {name!r} must be 1 to 64 of: a-z, A-Z, 0-9, '-', '_'"]
    return []


def _type_problems(payload: Any, state: Any) -> list[str]:
    type_problems = []
    if payload is None:
        type_problems.append(
            "it does not say what it takes; write Stage[YourModel], Stage[dict[str, Any]] or Stage[str]"
        )
    elif isinstance(payload, TypeVar):
        type_problems.append(f"it has a name but leaves its payload type {payload!r} open; choose one: Base[YourModel]")
    elif not is_payload_type(get_origin(payload) or payload):
        type_problems.append(f"its payload type {payload!r} is none of: a pydantic model, dict, str")
    if isinstance(state, TypeVar):
        type_problems.append(f"it has a name but leaves its state type {state!r} open; choose one")
    elif not (isinstance(state, type) and issubclass(state, BaseModel)):
        type_problems.append(f"its state type {state!r} is no pydantic model")
    else:
        type_problems.extend(_state_problems(state))
    return type_problems


def _state_problems(state: type[BaseModel]) -> list[str]:
    try:
        state()
    except ValidationError:
        needed = ", ".join(name for name, field in state.model_fields.items() if field.is_required())
        return [f"its state {state.__name__} cannot start empty; give a default to: {needed or 'every field'}"]
    if hidden := hidden_fields(state):
        return [
            f"its state {state.__name__} would not be read as it is written: {', '.join(hidden)} (a secret, or "
            f"exclude=True); {BY_REFERENCE}"
        ]
    return []


def _work_problems(stage: AnyStage) -> list[str]:
    """List what would keep the runtime from calling ``stage().handle(payload, step)``."""
    members = [name for name in dir(stage) if getattr(getattr(stage, name, None), "__isabstractmethod__", False)]
    work_problems = [
        f"it has no {name}(…); write one, or say abstract=True if it is a base class" for name in sorted(members)
    ]
    work_problems += _handle_problems(stage)
    if needed := _needed_by(stage.__init__):
        work_problems.append(
            f"its __init__ needs {', '.join(needed)}; a stage is made anew for every message, without arguments: "
            f"give defaults, or keep what it needs in a module or class attribute"
        )
    return work_problems


def _handle_problems(stage: AnyStage) -> list[str]:
    handle: Any = stage.handle
    if getattr(handle, "__isabstractmethod__", False):
        return []  # which is a problem of its own
    fix = "write def handle(self, payload, step)"
    if not callable(handle):
        return [f"its handle is {shown(handle)}, which cannot be called; {fix}"]
    if inspect.isgeneratorfunction(handle) or inspect.isasyncgenfunction(handle):
        return [f"its handle yields, and a handler returns; {fix}, and return its outcome"]
    return [] if _takes_two(stage, handle) else [f"its handle cannot be called with a payload and a step; {fix}"]


def _takes_two(stage: AnyStage, handle: Any) -> bool:
    """Answer whether a stage's method can be called with two arguments."""
    is_bound = isinstance(inspect.getattr_static(stage, "handle"), staticmethod | classmethod)
    try:
        inspect.signature(handle, follow_wrapped=False).bind(*["it"] * (2 if is_bound else 3))
    except TypeError:
        return False
    except ValueError:  # a function written in C may not say what it takes
        return True
    return True


def _needed_by(method: Any) -> list[str]:
    if method is object.__init__:  # inspect would read what it takes from a text, which costs more than all the rest
        return []
    _, *parameters = inspect.signature(method).parameters.values()
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def inbox_and_lanes(given: Destination | str | tuple[Lane, ...]) -> tuple[Destination, tuple[Lane, ...]]:
    """Return the destination that an inbox stands for and its lanes. Of lanes it is the queue of the first one."""
    several: Any = (given,) if _is_lane(given) else given
    if not isinstance(several, tuple | list) or not several:
        return destination(several), ()  # type: ignore[arg-type]  # an empty tuple is named as what it is
    first: Any = several[0]
    return destination(getattr(first, "inbox", first)), tuple(several)


def lane_problems(lanes: Any) -> list[str]:
    """List what is wrong with the lanes of an inbox."""
    if strangers := [lane for lane in lanes if not _is_lane(lane)]:
        return [
            f"its inbox has {shown(strangers[0])}; write lanes: (Lane('normal', 'a'), Lane('urgent', 'b', weight=3))"
        ]
    return [f"its inbox: {problem}" for problem in (lanes[0].among(lanes) if lanes else ())]


def _is_lane(given: object) -> bool:
    return callable(getattr(given, "among", None)) and not isinstance(given, type)


def _inbox_problems(inbox: Destination | None, lanes: tuple[Lane, ...]) -> list[str]:
    if lanes or inbox is None:
        return lane_problems(lanes)
    if isinstance(inbox, Queue | Topic):
        return [f"its inbox: {problem}"] if (problem := form_problem(inbox)) else []
    return [f"its inbox {inbox} is no queue or topic; a stage reads from SQS, SNS→SQS or a direct invocation"]


def _timeout_problems(timeout: timedelta | None) -> list[str]:
    if timeout is None:
        return []
    if problem := span_problem(timeout):
        return [f"timeout {problem}"]
    return [f"timeout is {timeout}; it must be positive"] if timeout <= timedelta(0) else []


def _lease_problems(stage: AnyStage) -> list[str]:
    """List what a stage without a lease does that needs a claim."""
    lease: Any = stage.lease
    if lease is True or lease == AUTO:
        return []
    if lease is not False:
        return [f'lease is {shown(lease)}; write lease=False or lease="auto", or leave it out']
    return [
        f"its handle calls step.{name}, which works only under a claim; leave lease=False out"
        for name in claimed_calls(stage.handle)
    ]


def _parallel_problems(stage: AnyStage) -> list[str]:
    parallel: Any = stage.parallel
    if not is_whole(parallel) or not 0 < parallel <= MOST_AT_ONCE:
        return [f"parallel is {shown(parallel)}; it is a number from 1 to {MOST_AT_ONCE}"]
    if parallel > 1 and inspect.iscoroutinefunction(inspect.unwrap(stage.handle)):
        return ["its handle is async, and an invocation has one event loop; leave parallel out, or write def handle"]
    return []


def _limit_problems(stage: AnyStage, payload: Any) -> list[str]:
    limits: Any = stage.limits
    if not all(callable(getattr(limit, "place_of", None)) for limit in limits):
        return [f"limit is {shown(limits)}; write PerKey('customer', at_once=3), or a tuple of several"]
    if limits and stage.parallel != 1:
        return ["limit: its records are handled one after the other; leave parallel out"]
    if len(limits) > MOST_LIMITS:
        return [f"limit has {len(limits)} of at most {MOST_LIMITS}"]
    problems = [f"limit: {problem}" for limit in limits for problem in limit.problems(stage.lease, payload)]
    names = [limit.title for limit in limits]
    twice = sorted({name for name in names if names.count(name) > 1})
    return [*problems, *(f"limit: two are named {name!r}; give one of them another name" for name in twice)]

"""A flow is a named process made of stages. It is checked as a whole when the class is defined."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeGuard

from flowguard.callback import Callback
from flowguard.debounce import Debounce, debounce_of, debounce_problems
from flowguard.destinations import Destination, Queue, Topic, destination, form_problem
from flowguard.errors import DefinitionError, RunFailed, shown, span_problem
from flowguard.every import Every, every_problems, payload_problem
from flowguard.failed import Failure
from flowguard.names.ids import LONGEST_NAME, ObjectId, RequestId, id_problem, name_problem
from flowguard.payload.codec import Codec
from flowguard.payload.encoding import Payload, decode
from flowguard.payload.foreign import recognised
from flowguard.payload.names import RequestIdRule, path_problems, read_request_id, rule_problems, text_at
from flowguard.payload.readable import written
from flowguard.protocol.conflict import OnConflict
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.stage import AnyStage, Stage, StageOrName, inbox_and_lanes, is_good_name, lane_problems, name_of
from flowguard.step import NoState
from flowguard.streams import Stream, stream_problems
from flowguard.text.option_problems import flag_problems, number_problems, numbers_problems, text_of, text_problems
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import HIGHEST_VERSION, LANE, MOST_CARRIED, MOST_HOPS, OWN_ATTRIBUTES, Message
from flowguard.wire.sealed_message import sealed_message
from flowguard.wire.tenant import tenant_named

if TYPE_CHECKING:
    from flowguard.lanes import Lane


class _UntilReset(Enum):
    UNTIL_RESET = "until-reset"


UNTIL_RESET: Final = _UntilReset.UNTIL_RESET
"""For ``keep_result``: a result is good until ``FlowClient.reset`` or ``step.reset`` drops it."""

FOR_EVER: Final = 253_402_300_799_000
"""The end of the year 9999, in ms."""


class _PerRequest(Enum):
    PER_REQUEST = "per-request"


PER_REQUEST: Final = _PerRequest.PER_REQUEST
"""For ``object_id``: every request is carried out, each as a run of its own."""

SUPERSEDE: Final = OnConflict.SUPERSEDE
IGNORE: Final = OnConflict.IGNORE
ATTACH: Final = OnConflict.ATTACH


SHORTEST_BESIDE_LIMIT: Final = timedelta(minutes=5)
"""The shortest ``abandoned_after`` of a flow with a limit: a run that waits for a place looks three times in it."""

_NO_LIMIT: Final = (
    "it has a limit, which stages have: no lease holds the place of a run that waits for weeks; give the stage that "
    "uses what is scarce a limit= of its own"
)

LONGEST_OBJECT_ID: Final = LONGEST_NAME

_NOTHING: Final[Mapping[str, Attribute]] = {}


class Flow:
    """Subclass it and list the stages; the first one is where requests enter.

    ``name``          the flow's name; it travels in messages and names the queues that are not given
    ``object_id``     the field of the first stage's payload that names the business object (dots reach inside:
                      ``"cart.id"``), or ``PER_REQUEST``
    ``request_id``    names the requests that come without an id of their own: a field of the first stage's payload, a
                      tuple of fields, or a function that takes the payload and returns text. The same id is one run
    ``on_conflict``   SUPERSEDE (default), IGNORE or ATTACH
    ``on_failed``     the stage, or its name, at which a run goes on that has failed for good: it may undo what the run
                      has done, and takes a :class:`flowguard.Failure`. The run ends FAILED in any case
    ``keep_result``   how long a result is good for newer requests, which are answered with it at once: a timedelta, or
                      UNTIL_RESET. The flow's ``on_conflict`` is ATTACH
    ``entries``       names of further stages where requests may enter; a first hop at any other is refused
    ``version``       of the flow's messages; ``accepts`` are older ones that its stages can still read
    ``inbox``         the queue of every stage that names none; the flow's name by default. A tuple of
                      :class:`flowguard.lanes.Lane` has several: the urgent one does not wait for the others
    ``dead_letters``  where messages go that can never work; ``<name>-dead-letters`` by default
    ``answers``       the standard queue that brings answers and deadlines to a flow that waits; by default the inbox,
                      or ``<name>-answers`` where that has lanes. One of the flow's functions reads it
    ``callbacks``     how parties outside flowguard answer what the flow's stages await: a tuple of
                      :class:`flowguard.Callback`
    ``streams``       the streams whose records begin runs at the first stage: a tuple of
                      :class:`flowguard.streams.KinesisStream`, :class:`flowguard.streams.TableStream` and
                      :class:`flowguard.streams.KafkaTopic`
    ``every``         the schedules that begin runs at the first stage: a tuple of :class:`flowguard.every.Every`
    ``debounce``      puts a run off until no newer request has come for so long: a timedelta, or a
                      :class:`flowguard.debounce.Debounce`. Of a burst of requests the last one runs
    ``complete_to``   the destination that is notified of every ended run, beside the ``reply_to`` of its request
    ``reply_to``      the destinations (or names of queues) that a request may give as its ``reply_to``, exactly as it
                      names them; by default all of the function's own account and region
    ``tenant``        the field of the first stage's payload that says whose work a run is: standard queues give the
                      messages of quiet tenants out before those of one with a backlog (docs/guides/fairness.md)
    ``carry``         names of message attributes that go along with everything the flow sends (at most six)
    ``max_hops``      stops a run that goes in circles; retries are no hops
    ``max_depth``     stops flows that start each other in a circle: how many runs may stand before one of this flow in
                      a chain of requests. A request that comes deeper is a dead letter
    ``retention``     how long a message can live in a queue and its dead-letter queue together; run items are kept for
                      twice that (docs/decisions/0003)
    ``remember``      how long an object's last run is remembered: copies of its request are dropped, and a newer one
                      gets its state as ``step.superseded``; at least, and by default, twice the retention;
                      ``timedelta.max`` is for ever
    ``long_delays``   lets retries wait longer than SQS's 15 minutes, and brings the deadlines of long waits by one
                       message, both through EventBridge Scheduler
    ``full_history``  writes a row of the run table for each commit and each failed attempt, so that
                      ``flowguard show`` tells all of a run's past. A hop costs five write units then, not two
    ``trust_senders``  believes unsigned messages in its queues. Every sender to them can then answer what its runs
                    wait for, and end, reset or move on every run (docs/explain/trust.md)
    ``codec``       seals payloads, state, results and whatever else is made of them, in messages, in the run table and
                    in S3: such as :class:`flowguard.codecs.Encrypted` (docs/guides/encryption.md)
    ``sealed_only``  refuses requests that are not sealed. Without it those of senders who know no codec are taken
    ``limit``       is refused: stages have limits (docs/guides/limits.md)
    ``abandoned_after``  when a run that no worker works on may be taken over under IGNORE by what is asked for
                    then, or under ATTACH
    """

    stages: ClassVar[tuple[AnyStage, ...]] = ()

    name: ClassVar[str]
    object_id: ClassVar[str | Literal[_PerRequest.PER_REQUEST]]
    request_id: ClassVar[RequestIdRule | None]
    on_conflict: ClassVar[OnConflict]
    keep_result: ClassVar[timedelta | Literal[_UntilReset.UNTIL_RESET] | None]
    on_failed: ClassVar[str | None]
    entries: ClassVar[tuple[str, ...]]
    version: ClassVar[int]
    accepts: ClassVar[frozenset[int]]
    inbox: ClassVar[Destination]
    inbox_lanes: ClassVar[tuple[Lane, ...]]
    dead_letters: ClassVar[Destination]
    answers: ClassVar[Destination]
    callbacks: ClassVar[tuple[Callback, ...]]
    streams: ClassVar[tuple[Stream, ...]]
    every: ClassVar[tuple[Every, ...]]
    debounce: ClassVar[Debounce | None]
    complete_to: ClassVar[Destination | None]
    reply_to: ClassVar[tuple[Destination, ...] | None]
    tenant: ClassVar[str | None]
    carry: ClassVar[tuple[str, ...]]
    max_hops: ClassVar[int]
    max_depth: ClassVar[int]
    retention: ClassVar[timedelta]
    remember: ClassVar[timedelta | None]
    abandoned_after: ClassVar[timedelta]
    long_delays: ClassVar[bool]
    full_history: ClassVar[bool]
    trust_senders: ClassVar[bool]
    codec: ClassVar[Codec | None]
    sealed_only: ClassVar[bool]
    by_name: ClassVar[Mapping[str, AnyStage]] = {}
    """The stages by their names."""

    def __init_subclass__(  # noqa: PLR0913 - the options of a class, each with a default
        cls,
        *,
        name: str = "",
        object_id: str | Literal[_PerRequest.PER_REQUEST] = "",
        request_id: RequestIdRule | None = None,
        on_conflict: OnConflict | None = None,
        keep_result: timedelta | Literal[_UntilReset.UNTIL_RESET] | None = None,
        on_failed: StageOrName | None = None,
        entries: tuple[str, ...] = (),
        version: int = 1,
        accepts: Collection[int] = (),
        inbox: Destination | str | tuple[Lane, ...] | None = None,
        dead_letters: Destination | str | None = None,
        answers: Destination | str | None = None,
        callbacks: tuple[Callback, ...] = (),
        streams: tuple[Stream, ...] = (),
        every: tuple[Every, ...] = (),
        debounce: timedelta | Debounce | None = None,
        complete_to: Destination | str | None = None,
        reply_to: tuple[Destination | str, ...] | None = None,
        tenant: str | None = None,
        carry: tuple[str, ...] = (),
        max_hops: int = 50,
        max_depth: int = 16,
        retention: timedelta = timedelta(days=14),
        remember: timedelta | None = None,
        abandoned_after: timedelta = timedelta(days=1),
        long_delays: bool = False,
        full_history: bool = False,
        trust_senders: bool = False,
        codec: Codec | None = None,
        sealed_only: bool = False,
        limit: object = None,
    ) -> None:
        super().__init_subclass__()
        flags = {"long_delays": long_delays, "full_history": full_history}
        flags |= {"trust_senders": trust_senders, "sealed_only": sealed_only}
        if kind_problems := [
            *text_problems({"name": name} if object_id is PER_REQUEST else {"name": name, "object_id": object_id}),
            *_conflict_problems(on_conflict),
            *number_problems({"version": version, "max_hops": max_hops, "max_depth": max_depth}),
            *numbers_problems("accepts", accepts),
            *flag_problems(flags),
        ]:
            raise DefinitionError(f"flow {cls.__qualname__}", tuple(kind_problems))
        name = text_of(name)
        cls.name, cls.object_id, cls.request_id, cls.keep_result = name, object_id, request_id, keep_result
        by_default = OnConflict.SUPERSEDE if keep_result is None else OnConflict.ATTACH
        cls.on_conflict = by_default if on_conflict is None else on_conflict
        cls.on_failed = name_of(on_failed)
        cls.version, cls.accepts = int(version), frozenset(map(int, (version, *accepts)))
        cls.inbox, cls.inbox_lanes = (Queue(name), ()) if inbox is None else inbox_and_lanes(inbox)
        cls.dead_letters = Queue(f"{name}-dead-letters") if dead_letters is None else destination(dead_letters)
        by_itself = Queue(f"{name}-answers") if cls.inbox_lanes else cls.inbox
        cls.answers = by_itself if answers is None else destination(answers)
        cls.callbacks, cls.streams, cls.every, cls.debounce = callbacks, streams, every, debounce_of(debounce)
        cls.complete_to = None if complete_to is None else destination(complete_to)
        cls.entries = entries if _are_names(entries) else ()
        cls.tenant, cls.carry, cls.max_hops, cls.max_depth = tenant, carry, int(max_hops), int(max_depth)
        cls.retention, cls.abandoned_after, cls.long_delays = retention, abandoned_after, long_delays
        cls.remember, cls.full_history, cls.trust_senders = remember, full_history, trust_senders
        cls.codec, cls.sealed_only = codec, sealed_only
        if of_lanes := _lane_problems(cls):
            raise DefinitionError(f"flow {cls.__qualname__}", tuple(of_lanes))
        given = {
            "inbox": None if inbox is None else cls.inbox,
            "dead_letters": dead_letters,
            "answers": answers,
            "complete_to": complete_to,
        }
        if problems := [
            *([] if limit is None else [_NO_LIMIT]),
            *_trust_problems(entries, reply_to),
            *_destination_problems(given, reply_to),
            *_option_problems(cls),
            *_callback_problems(cls),
            *_codec_problems(cls),
            *stream_problems(streams, on_conflict=cls.on_conflict, inbox=_first_inbox(cls)),
            *_stage_problems(cls),
            *debounce_problems(cls.debounce, cls.on_conflict, cls.object_id, _entry_stages(cls), cls.inbox),
        ]:
            raise DefinitionError(f"flow {cls.__qualname__}", tuple(dict.fromkeys(problems)))
        if cls.inbox_lanes or any(stage.inbox_lanes for stage in cls.stages):
            cls.carry = tuple(dict.fromkeys((*carry, LANE)))
        cls.by_name = {stage.name: stage for stage in cls.stages}
        cls.entries = tuple(dict.fromkeys((cls.stages[0].name, *entries)))
        cls.reply_to = None if reply_to is None else tuple(map(destination, reply_to))

    @classmethod
    def fresh_since(cls, requested_at: int) -> int:
        """Return the time of the oldest result that is good for a request of this time. Both are ms since 1970."""
        if cls.keep_result is None:
            return requested_at
        return 0 if cls.keep_result is UNTIL_RESET else requested_at - cls.keep_result // timedelta(milliseconds=1)

    @classmethod
    def abandoned_before(cls, now: int, requested_at: int) -> int:
        """Return since when nobody may have worked on a run that a request of this time takes over. All are in ms.

        Under IGNORE only the request's own time counts: a copy of one that was ignored may come when the run is
        abandoned by then.
        """
        asked = min(now, requested_at) if cls.on_conflict is OnConflict.IGNORE else now
        return asked - cls.abandoned_after // timedelta(milliseconds=1)

    @classmethod
    def good_until(cls, committed_at: int) -> int | None:
        """Return how long a result of this time is good for newer requests, in ms since 1970. None for not at all."""
        if cls.keep_result is None:
            return None
        return (
            FOR_EVER if cls.keep_result is UNTIL_RESET else committed_at + cls.keep_result // timedelta(milliseconds=1)
        )

    @classmethod
    def entry(cls) -> AnyStage:
        """Return the stage where requests enter."""
        return cls.stages[0]

    @classmethod
    def entrance(cls, carried: Mapping[str, Attribute] = _NOTHING) -> tuple[str, Destination]:
        """Return the name of the first stage, where requests enter, and the destination to send them to.

        Of a stage with lanes that depends on what is ``carried``, as :meth:`inbox_of` says.
        """
        return cls.entry().name, cls.inbox_of(cls.entry(), carried)

    @classmethod
    def stage(cls, name: str) -> AnyStage:
        """Return the stage of that name. Raises :class:`RunFailed`, naming the stages there are, if there is none."""
        if (stage := cls.by_name.get(name)) is not None:
            return stage
        raise RunFailed(
            f"{cls.name} has no stage {shown(name)}; it has {', '.join(stage.name for stage in cls.stages)}"
        )

    @classmethod
    def inbox_of(cls, stage: AnyStage, carried: Mapping[str, Attribute] | None = None) -> Destination:
        """Return the destination of messages for the stage. Where it has lanes, what is ``carried`` may name one.

        Where that names none, or none of the stage's, it is the first lane where requests enter, or else the first of
        the stage. That is where messages are sent of which nothing is known.
        """
        if carried is not None and (lanes := cls.lanes_of(stage)):
            first = [lane.name for lane in cls.lanes_of(cls.entry())[:1]]
            wanted = [carried[LANE].value, *first] if LANE in carried else first
            by_name = {lane.name: lane.inbox for lane in lanes}
            return by_name[next((name for name in wanted if name in by_name), lanes[0].name)]
        return stage.inbox if stage.inbox is not None else cls.inbox

    @classmethod
    def lanes_of(cls, stage: AnyStage) -> tuple[Lane, ...]:
        """Return the lanes of the stage's inbox. None where it is a single destination."""
        return cls.inbox_lanes if stage.inbox is None else stage.inbox_lanes

    @classmethod
    def inboxes_of(cls, stage: AnyStage) -> tuple[Destination, ...]:
        """Return where messages for the stage arrive, of lanes the queue of each."""
        return tuple(lane.inbox for lane in cls.lanes_of(stage)) or (cls.inbox_of(stage),)

    @classmethod
    def carried_from(cls, attributes: Mapping[str, Attribute], stage: str, queue: str | None) -> dict[str, Attribute]:
        """Return the attributes of a message for the stage that go along with all that its run sends.

        One that names none of the flow's lanes has that of the ``queue`` by which it came, or else the first one where
        requests enter.
        """
        carried = {name: attributes[name] for name in cls.carry if name in attributes}
        if LANE not in cls.carry or (LANE in carried and cls._has_lane(carried[LANE].value)):
            return carried
        named = cls.by_name.get(stage)
        by_queue = [lane for lane in (() if named is None else cls.lanes_of(named)) if queue in lane.inbox.called]
        in_lane = [(LANE, Attribute.string(lane.name)) for lane in by_queue or cls.lanes_of(cls.entry())[:1]]
        return carried | dict(in_lane)

    @classmethod
    def _has_lane(cls, name: str) -> bool:
        return any(lane.name == name for stage in cls.stages for lane in cls.lanes_of(stage))

    @classmethod
    def object_of(cls, payload: Any, request_id: RequestId) -> ObjectId:
        """Read the run's object id from the first stage's payload. Raises :class:`RunFailed` where it is not there."""
        if not isinstance(cls.object_id, str):
            return ObjectId(request_id)
        text = text_at(payload, cls.object_id)
        if text is None:
            seen_as = recognised(payload)
            raise RunFailed(f"the payload has no usable {cls.object_id!r} to name the object by{seen_as}")
        if problem := id_problem(text):
            raise RunFailed(f"the payload's {cls.object_id!r} {problem}")
        return ObjectId(text)

    @classmethod
    def tenant_of(cls, payload: Any) -> str | None:
        """Read from the first stage's payload whose work the run is. None where it does not say so."""
        return None if cls.tenant is None else tenant_named(text_at(payload, cls.tenant))

    @classmethod
    def object_in(cls, text: str) -> ObjectId | None:
        """Read the object's id from a payload's text that need not be valid. None where it is not there.

        The text of a valid payload may name it in another way: this is for who looks at a dead letter.
        """
        if not isinstance(cls.object_id, str):
            return None
        try:
            return cls.object_of(json.loads(text), RequestId(""))
        except (ValueError, RecursionError, RunFailed):
            return None

    @classmethod
    def request(  # noqa: PLR0913 - the parts of a request, each with a default
        cls,
        payload: Payload,
        *,
        request_id: RequestId | Callable[[], RequestId],
        requested_at: int,
        object_id: str | None = None,
        reply_to: Destination | None = None,
        signed: bool = False,
        tenant: str | None = None,
        lane: str | None = None,
        carried: Mapping[str, Attribute] = _NOTHING,
    ) -> tuple[Message, Destination]:
        """Build the message that starts a run, with its destination. ``requested_at`` is ms since 1970.

        ``request_id`` is the caller's own, or draws one: then the flow's ``request_id`` rule comes before it.
        ``reply_to`` is notified of the run's end. ``object_id`` is for a payload that does not name its object.
        ``tenant`` says whose work it is, before the flow's own rule. ``lane`` is the request's, of those that the first
        stage has, or else that of what the asking run has ``carried``. Raises
        :class:`RunFailed` for what the flow's own functions would refuse: another object than the payload's, an id that
        cannot travel, and unless the message will be ``signed``, a ``reply_to`` that the flow does not list.
        """
        entry = cls.entry()
        if not isinstance(payload, entry.payload):
            raise TypeError(
                f"{cls.name} starts with {entry.name!r}, which takes {entry.payload.__name__}, "
                f"not {type(payload).__name__}"
            )
        body = written(entry.payload, payload, what=f"the payload of {entry.name!r}")
        chosen_id = cls._own_id(body, request_id) if callable(request_id) else request_id
        if problem := name_problem(chosen_id):
            raise RunFailed(f"the request id {shown(chosen_id)} {problem}")
        if reply_to is not None and (problem := form_problem(reply_to)):
            raise RunFailed(f"reply_to: {problem}")
        if reply_to is not None and not signed and cls.reply_to is not None and reply_to not in cls.reply_to:
            raise RunFailed(f"{cls.name} tells nobody at {shown(str(reply_to))}; add it to the flow's reply_to=(…)")
        message = Message(
            flow=cls.name,
            stage=entry.name,
            version=cls.version,
            object_id=cls._object(payload, chosen_id, object_id),
            request_id=chosen_id,
            requested_at=requested_at,
            body=body,
            reply_to=None if reply_to is None else str(reply_to),
            tenant=tenant_named(tenant) or cls.tenant_of(payload),
            carried=_NOTHING if lane is None else cls._in_lane(lane),
        )
        return sealed_message(cls.codec, message), cls.inbox_of(entry, message.carried or carried)

    @classmethod
    def _in_lane(cls, lane: str) -> dict[str, Attribute]:
        """Return the attribute that names a lane. Raises :class:`RunFailed` for one that the first stage has not."""
        names = [each.name for each in cls.lanes_of(cls.entry())]
        if lane not in names:
            raise RunFailed(f"{cls.name} has no lane {shown(lane)}; it has {', '.join(names) or 'none'}")
        return {LANE: Attribute.string(lane)}

    @classmethod
    def _own_id(cls, body: str, draw: Callable[[], RequestId]) -> RequestId:
        """Return the id that the flow's functions would read from the message's text, or draw one."""
        if cls.request_id is None:
            return draw()
        return read_request_id(cls.request_id, decode(cls.entry().payload, body, what="the payload"))

    @classmethod
    def _object(cls, payload: Any, request_id: RequestId, given: str | None) -> ObjectId:
        """Return the payload's object id. The caller's counts only where the payload has none."""
        if given is None:
            return cls.object_of(payload, request_id)
        if problem := name_problem(given):
            raise RunFailed(f"object_id={shown(given)} {problem}")
        try:
            named = cls.object_of(payload, request_id)
        except RunFailed:
            return ObjectId(given)
        if named != given:
            whose = f"the payload's {cls.object_id!r}" if isinstance(cls.object_id, str) else "the request id"
            raise RunFailed(f"object_id={shown(given)} contradicts {whose}; leave object_id out")
        return named


AnyFlow = type[Flow]


def is_flow(value: object) -> TypeGuard[AnyFlow]:
    """Answer whether the value is the class of a flow. ``Flow`` itself has no stages and is none."""
    return isinstance(value, type) and issubclass(value, Flow) and value is not Flow


def _conflict_problems(on_conflict: object) -> list[str]:
    """Say why it is none of its constants. None stands for the flow's own."""
    if on_conflict is None or isinstance(on_conflict, OnConflict):
        return []
    names = ", ".join(constant.name for constant in OnConflict)
    return [f"on_conflict is {shown(on_conflict)}; write one of flowguard's own constants: {names}"]


def _option_problems(flow: AnyFlow) -> list[str]:
    problems = []
    if flow.object_id == "":
        problems.append(
            "it does not say what a run is for; give object_id='<a field of the first payload>' or PER_REQUEST"
        )
    if not flow.name:
        problems.append('it has no name; messages carry it, so give one: class …(Flow, name="validate-cart")')
    elif not is_good_name(flow.name):
        problems.append(f"its name {flow.name!r} must be 1 to 64 of: a-z, A-Z, 0-9, '-', '_'")
    if not isinstance(flow.inbox, Queue | Topic):
        problems.append(
            f"its inbox {flow.inbox} is no queue or topic; its stages read from SQS, SNS→SQS or an invocation"
        )
    if flow.answers is not flow.inbox and not takes_answers(flow.answers):
        problems.append(
            f"its answers {flow.answers} is no standard queue; deadlines are delayed, which only those can do"
        )
    if any(not 1 <= version <= HIGHEST_VERSION for version in flow.accepts):
        problems.append(f"versions {sorted(flow.accepts)} must be whole numbers from 1 to {HIGHEST_VERSION:,}")
    if not 1 <= flow.max_hops <= MOST_HOPS:
        problems.append(f"max_hops is {flow.max_hops}; a run has at least one hop, and at most {MOST_HOPS:,}")
    if not 0 <= flow.max_depth <= MOST_HOPS:
        problems.append(f"max_depth is {flow.max_depth}; a chain has no runs before one, or up to {MOST_HOPS:,}")
    return [*problems, *_span_problems(flow), *_keep_problems(flow), *_carry_problems(flow.carry)]


def _first_inbox(flow: AnyFlow) -> Destination:
    first = next((stage.inbox for stage in _entry_stages(flow)), None)
    return flow.inbox if first is None else first


def _entry_stages(flow: AnyFlow) -> list[AnyStage]:
    """Return the stages where requests enter, of those that are stages at all."""
    listed: Any = flow.stages
    classes = [stage for stage in listed if isinstance(stage, type)] if isinstance(listed, tuple) else []
    stages = [stage for stage in classes if issubclass(stage, Stage) and hasattr(stage, "name")]
    return [stage for place, stage in enumerate(stages) if not place or stage.name in flow.entries]


def _callback_problems(flow: AnyFlow) -> list[str]:
    callbacks: Any = flow.callbacks
    if not (isinstance(callbacks, tuple) and all(isinstance(callback, Callback) for callback in callbacks)):
        return [f"callbacks is {shown(callbacks)}; write a tuple: callbacks=(Callback('answers', id='order_id'),)"]
    if callback_problems := [problem for callback in callbacks for problem in callback.problems()]:
        return callback_problems
    ids = [(callback.source, callback.id, callback.prefix) for callback in callbacks]
    for callback, its_ids in zip(callbacks, ids, strict=True):
        if callback.keep_early and ids.count(its_ids) > 1:
            what = (
                f"two of its callbacks have the ids of {callback.source}, and keep_early keeps an answer for one alone"
            )
            return [f"{what}; make them one callback, or give each a prefix= of its own"]
    return [
        f"its callback's {callback.source} brings its own messages too, whose function reads no answers from outside; "
        f"give the callback another queue"
        for callback in callbacks
        if callback.source in (flow.inbox, flow.answers, *(lane.inbox for lane in flow.inbox_lanes))
    ]


def _codec_problems(flow: AnyFlow) -> list[str]:
    codec: Any = flow.codec
    if codec is not None and not (callable(getattr(codec, "seal", None)) and callable(getattr(codec, "open", None))):
        return [f"codec is {shown(codec)}, which does not seal and open; write codec=Encrypted('alias/…')"]
    if isinstance(codec, type):
        return [f"codec is the class {codec.__name__}; write an object of it: codec={codec.__name__}(…)"]
    if flow.sealed_only and codec is None:
        return ["sealed_only refuses what is not sealed, and it has no codec; leave it out, or say codec="]
    if flow.sealed_only and flow.streams:
        return ["sealed_only refuses what is not sealed, and the records of its streams are not; leave it out"]
    return []


def takes_answers(to: Destination) -> bool:
    """Answer whether answers and deadlines can be sent there: only a standard queue delays messages."""
    return isinstance(to, Queue) and not to.fifo


def _span_problems(flow: AnyFlow) -> list[str]:
    spans = {"retention": flow.retention, "abandoned_after": flow.abandoned_after}
    if span_problems := [f"{name} {problem}" for name, span in spans.items() if (problem := span_problem(span))]:
        return span_problems
    if min(spans.values()) <= timedelta(0):
        return ["retention and abandoned_after must be positive"]
    return _remember_problems(flow)


def _remember_problems(flow: AnyFlow) -> list[str]:
    """Say what is wrong with how long an object's last run is remembered."""
    if flow.remember is None:
        return []
    if problem := span_problem(flow.remember):
        return [f"remember {problem}"]
    if flow.remember < (least := 2 * flow.retention):
        fix = "leave remember out, or shorten the retention of its queues, and say so with retention="
        return [f"it remembers a run for {flow.remember}, and copies of its messages may come for {least}; {fix}"]
    return []


def _keep_problems(flow: AnyFlow) -> list[str]:
    """Say what is wrong with a kept result: of how long, and of who else may take the object from its run."""
    kept: Any = flow.keep_result
    if kept is None:
        return []
    problems = []
    if kept is not UNTIL_RESET and (problem := span_problem(kept)):
        problems.append(f"keep_result {problem}; or say UNTIL_RESET")
    elif kept is not UNTIL_RESET and kept <= timedelta(0):
        problems.append("keep_result must be positive")
    if flow.on_conflict is not OnConflict.ATTACH:
        fix = "leave on_conflict out, it is ATTACH then"
        problems.append(f"it keeps results, and on_conflict={flow.on_conflict.name} would not answer with them; {fix}")
    if flow.object_id is PER_REQUEST:
        problems.append("it keeps results, and with PER_REQUEST no request has the object of another")
    return problems


def _lane_problems(flow: AnyFlow) -> list[str]:
    """Say what is wrong with the lanes of the flow's inbox, and of its stages together."""
    listed: Any = vars(flow).get("stages", flow.stages)
    stages = [stage for stage in listed if _stranger(stage) is None] if isinstance(listed, tuple) else []
    if not (flow.inbox_lanes or any(stage.inbox_lanes for stage in stages)):
        return []
    if problems := lane_problems(flow.inbox_lanes):
        return problems
    read = ((stage.name, flow.inboxes_of(stage), flow.lanes_of(stage)) for stage in stages)
    problems = list(shared_problems(read))
    if _are_names(flow.carry) and len({*flow.carry, LANE}) > MOST_CARRIED >= len(flow.carry):
        fix = f"beside these SQS has room for {MOST_CARRIED - 1}"
        problems.append(f"it carries {len(flow.carry)} attributes, and its lanes need one; {fix}")
    return problems


def shared_problems(reading: Iterable[tuple[str, Iterable[Destination], tuple[Lane, ...]]]) -> Iterator[str]:
    """Yield why two stages cannot read one queue: how much of its function it gets would have two answers.

    Of each stage its name, its inboxes and its lanes are given.
    """
    known: dict[str, tuple[str, tuple[Lane, ...]]] = {}
    for stage, inboxes, lanes in reading:
        for inbox in inboxes:
            if isinstance(inbox, Queue):
                other, theirs = known.setdefault(inbox.short_name, (stage, lanes))
                if theirs != lanes:
                    yield (
                        f"{other!r} and {stage!r} both read the queue {inbox.short_name!r}, and by other lanes; give "
                        f"both the same inbox=, or queues of their own"
                    )


def _are_names(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def _are_destinations(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(target, Destination | str) and target != "" for target in value)


def _trust_problems(entries: object, reply_to: object) -> list[str]:
    trust_problems = []
    if not _are_names(entries):
        trust_problems.append(
            f"entries is {entries!r}; write a tuple of the names of stages: entries=('confirm-cart',)"
        )
    if reply_to is not None and not _are_destinations(reply_to):
        trust_problems.append(
            f"reply_to is {reply_to!r}; write a tuple of destinations or names: reply_to=('replies',)"
        )
    return trust_problems


def _destination_problems(given: Mapping[str, Destination | str | None], reply_to: Any) -> list[str]:
    several = [("reply_to", target) for target in reply_to] if _are_destinations(reply_to) else []
    return [
        f"{name}: {problem}"
        for name, to in (*given.items(), *several)
        if to is not None and (problem := form_problem(destination(to)))
    ]


def _carry_problems(carry: Any) -> list[str]:
    if not _are_names(carry):
        return [f"carry is {carry!r}; write a tuple of attribute names: carry=('tenant',)"]
    problems = []
    if len(carry) > MOST_CARRIED:
        problems.append(f"it carries {len(carry)} attributes; beside flowguard's own SQS has room for {MOST_CARRIED}")
    if taken := OWN_ATTRIBUTES.intersection(carry):
        problems.append(f"it carries {', '.join(sorted(taken))}, which flowguard sets itself; leave it out")
    return problems


def _stage_problems(flow: AnyFlow) -> list[str]:
    stages = vars(flow).get("stages", flow.stages)
    if not isinstance(stages, tuple):
        return ["its stages are no tuple; write stages = (FirstStage, …), with a comma even after a single one"]
    if not stages:
        return ["it has no stages; list them, the first is where requests enter: stages = (FirstStage, …)"]
    if strangers := [problem for stage in stages if (problem := _stranger(stage))]:
        return strangers
    return [
        *_duplicate_problems(stages),
        *_route_problems(stages),
        *_entry_problems(flow.entries, stages),
        *_on_failed_problems(flow, stages),
        *_reach_problems((*flow.entries, *(() if flow.on_failed is None else (flow.on_failed,))), stages),
        *_state_problems(stages),
        *_delay_problems(flow, stages),
        *_lease_problems(flow, stages),
        *_limit_problems(flow, stages),
        *_object_problems(flow, stages[0]),
        *_tenant_problems(flow.tenant, stages[0]),
        *rule_problems(flow.request_id, stages[0].name, stages[0].payload),
        *_every_problems(flow, stages[0]),
    ]


def _stranger(value: object) -> str | None:
    if isinstance(value, Stage):
        return f"its stages have an instance of {type(value).__name__}; list the class"
    if not (isinstance(value, type) and issubclass(value, Stage)):
        return f"its stages have {value!r}, which is no stage class"
    if "name" not in vars(value):
        return f"its stages have {value.__name__}, which is a base class without a name; list what derives from it"
    return None


def _duplicate_problems(stages: tuple[AnyStage, ...]) -> list[str]:
    names = [stage.name for stage in stages]
    return [
        f"{names.count(name)} of its stages are named {name!r}; messages could not tell them apart"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]


def _route_problems(stages: tuple[AnyStage, ...]) -> list[str]:
    known = {stage.name for stage in stages}
    return [
        f"stage {stage.name!r} goes on to {name!r}, which is not among its stages: {', '.join(sorted(known))}"
        for stage in stages
        for name in stage.then
        if name not in known
    ]


def _entry_problems(entries: tuple[str, ...], stages: tuple[AnyStage, ...]) -> list[str]:
    known = [stage.name for stage in stages]
    return [
        f"requests enter at {name!r}, which is not among its stages: {', '.join(known)}"
        for name in entries
        if name not in known
    ]


def _on_failed_problems(flow: AnyFlow, stages: tuple[AnyStage, ...]) -> list[str]:
    """Say why no failed run could go on at ``on_failed``."""
    name = flow.on_failed
    if name is None:
        return []
    stage = next((stage for stage in stages if stage.name == name), None)
    if stage is None:
        return [
            f"on_failed is {shown(name)}, which is not among its stages: {', '.join(other.name for other in stages)}"
        ]
    problems = []
    if name in (stages[0].name, *flow.entries):
        problems.append(f"on_failed is {name!r}, where requests enter; give the failed runs a stage of their own")
    if stage.payload is not Failure:
        problems.append(f"on_failed is {name!r}, which takes {stage.payload.__name__}; write Stage[Failure, …]")
    if flow.max_hops > MOST_HOPS // 2:
        problems.append(f"max_hops is {flow.max_hops}; with on_failed it is at most {MOST_HOPS // 2:,}")
    return problems


def _reach_problems(entries: tuple[str, ...], stages: tuple[AnyStage, ...]) -> list[str]:
    by_name = {stage.name: stage for stage in stages}
    reached: set[str] = set()
    ahead = [stages[0].name, *entries]
    while ahead:
        name = ahead.pop()
        if name in by_name and name not in reached:
            reached.add(name)
            ahead.extend(by_name[name].then)
    return [
        f"no stage leads to {name!r}; name it in another stage's then=, or leave it out"
        for name in by_name
        if name not in reached
    ]


def _state_problems(stages: tuple[AnyStage, ...]) -> list[str]:
    kinds = {stage.state for stage in stages}
    if len(kinds) == 1:
        return []
    listed = ", ".join(f"{stage.name}: {stage.state.__name__}" for stage in stages)
    kind = next(stage.state.__name__ for stage in stages if stage.state is not NoState)
    return [
        f"its stages disagree on the run's state ({listed}); a run has one: give all the same, as in Stage[…, {kind}]"
    ]


def _delay_problems(flow: AnyFlow, stages: tuple[AnyStage, ...]) -> list[str]:
    if span_problem(flow.abandoned_after):
        return []  # which is a problem of its own
    if flow.long_delays:
        return [
            f"stage {stage.name!r} may delay a retry by {stage.retry.longest_delay}, and after {flow.abandoned_after} "
            f"the run is taken for abandoned; lower its max_delay, or raise abandoned_after"
            for stage in stages
            if flow.on_conflict is not OnConflict.SUPERSEDE and stage.retry.longest_delay > flow.abandoned_after
        ]
    return [
        f"stage {stage.name!r} may delay a retry by {stage.retry.longest_delay}, and SQS delays by at most "
        f"{LONGEST_SQS_DELAY}; lower its max_delay, or say long_delays=True (EventBridge Scheduler)"
        for stage in stages
        if stage.retry.longest_delay > LONGEST_SQS_DELAY
    ]


def _limit_problems(flow: AnyFlow, stages: tuple[AnyStage, ...]) -> list[str]:
    """Say what is wrong with a flow of which stages have limits."""
    limited = [stage for stage in stages if stage.limits]
    if not limited:
        return []
    return [*_patience_problems(flow, limited[0]), *_fifo_problems(flow, limited)]


def _patience_problems(flow: AnyFlow, stage: AnyStage) -> list[str]:
    """Refuse a flow whose run another may take for abandoned while it waits for a place, between two looks."""
    after = flow.abandoned_after
    if flow.on_conflict is OnConflict.SUPERSEDE or span_problem(after) or after >= SHORTEST_BESIDE_LIMIT:
        return []
    return [
        f"stage {stage.name!r} has a limit, and after {after} a run that waits for a place would be taken for "
        f"abandoned; raise abandoned_after to {SHORTEST_BESIDE_LIMIT} or more"
    ]


def _fifo_problems(flow: AnyFlow, limited: list[AnyStage]) -> list[str]:
    """Name the stages with limits whose messages a FIFO queue brings. It delays none."""
    return [
        f"stage {stage.name!r} has a limit, and its inbox {inbox} is FIFO, where nobody can wait for a place while "
        f"others pass; give it a standard queue"
        for stage in limited
        if isinstance(inbox := flow.inbox_of(stage), Queue | Topic) and inbox.fifo
    ]


def _lease_problems(flow: AnyFlow, stages: tuple[AnyStage, ...]) -> list[str]:
    """Name the stages without a lease in a flow that needs claims: only a claim shows that a run is at work."""
    if flow.on_conflict is OnConflict.SUPERSEDE:
        return []
    return [
        f"stage {stage.name!r} has lease=False, and with on_conflict={flow.on_conflict.name} the first request keeps "
        f"the object while it is at work, which only a claim shows; leave lease=False out"
        for stage in stages
        if not stage.lease
    ]


def _every_problems(flow: AnyFlow, entry: AnyStage) -> list[str]:
    """Say what is wrong with the schedules of a flow, also where its first stage would refuse what they send."""
    if problems := [*every_problems(flow.every, flow.inbox_of(entry), sealed_only=flow.sealed_only)]:
        return problems
    lanes: list[str | None] = [lane.name for lane in flow.lanes_of(entry)]
    if strange := [every.lane for every in flow.every if every.lane not in [None, *lanes]]:
        return [f"every: {entry.name} has no lane {shown(strange[0])}; it has {', '.join(map(str, lanes)) or 'none'}"]

    def read(text: str) -> ObjectId:
        return flow.object_of(decode(entry.payload, text, what="the payload of a schedule"), RequestId("tick"))

    return [problem for schedule in flow.every if (problem := payload_problem(schedule, flow.name, entry.name, read))]


def _tenant_problems(path: object, entry: AnyStage) -> list[str]:
    if path is None:
        return []
    if not isinstance(path, str):
        return [f"tenant is {shown(path)}; write a field of the payload: tenant='customer.id'"]
    if entry.payload is str:
        return [f"{entry.name!r} takes text, which has no {path!r}; leave tenant out, and give it with each request"]
    return path_problems("tenant", path, entry.payload, "a tenant")


def _object_problems(flow: AnyFlow, entry: AnyStage) -> list[str]:
    if not isinstance(flow.object_id, str) or not flow.object_id:
        return []
    kind: Any = entry.payload
    if kind is str:
        return [f"{entry.name!r} takes text, which has no {flow.object_id!r}; use object_id=PER_REQUEST"]
    return path_problems("object_id", flow.object_id, kind, "an object")

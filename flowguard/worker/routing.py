"""The way from an envelope to a stage's message. The flow, stage, run, hop and attempt that it is for are read here."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from flowguard.destinations import Queue
from flowguard.errors import EnvelopeError, FlowguardError, OtherRelease, RunFailed, SettingsError, TooEarly, shown
from flowguard.flow import AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId, id_problem
from flowguard.payload.encoding import decode
from flowguard.payload.names import RequestIdRule, read_request_id
from flowguard.protocol.outbox import attributes_problem
from flowguard.stage import AnyStage
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, REQUESTED_AT, Message, Place
from flowguard.wire.sealed_message import first_text, opened_or_why
from flowguard.wire.trace_context import made_in
from flowguard.worker.leases import keeps_lease
from flowguard.worker.record_sources import NamedQueues
from flowguard.worker.trust import STRICT, Trust, trusted_payload

CLOCKS_DIFFER_BY = timedelta(minutes=15)
"""How far ahead a sender's clock may be. A request from the far future would shut out every later one."""

CLOCKS_DIFFER_BY_MS = CLOCKS_DIFFER_BY // timedelta(milliseconds=1)

_DAY_MS = timedelta(days=1) // timedelta(milliseconds=1)
"""No clock is faster than that: what is further ahead is in another unit, or made up."""

_LOOKS_LIKE_SECONDS = 1_000_000_000
"""September 2001 in seconds since 1970, and the twelfth of January 1970 in milliseconds."""

_EARLIEST = 100_000_000_000
"""March 1973 in milliseconds; in seconds the year 5138."""

CLAIMED_AT_RECEIVE = 3
"""The receive from which on a stage without a lease claims its record: its function may have been killed."""

MOST_DIGITS = 15
"""Of a time in ms: enough for thirty thousand years."""


class Unroutable(FlowguardError):
    """A message that is for no stage of this function. It stays in its queue, which is wired to the wrong function."""


class Arrival(NamedTuple):
    """A message that found its stage.

    ``payload`` is decoded where that was needed to find the object; ``problem`` is why the message can never work.
    ``weak_id``: the request id is the SQS message id, which a redrive changes. ``leased``: the hop is claimed although
    its stage has no lease. ``begins``: False if the hop is only read. ``first_text``: see ``ClaimRequest``.
    """

    envelope: Envelope
    flow: AnyFlow
    stage: AnyStage | None
    message: Message
    payload: Any = None
    problem: RunFailed | None = None
    weak_id: bool = False
    leased: bool = False
    begins: bool = True
    first_text: str = ""

    @property
    def takes_lease(self) -> bool:
        """Answer whether the hop is claimed before it is handled.

        The item counts the attempts of a record that is retried in its place, so that is claimed in any case. It counts
        the functions that are killed, too, so one that was received again and again is claimed. A stream does not say
        how often a record has come.
        """
        if self.leased or self.stage is None or keeps_lease(self.flow, self.stage) or self.envelope.retried_in_place:
            return True
        return self.envelope.source.is_stream or self.envelope.receive_count >= CLAIMED_AT_RECEIVE

    @property
    def too_deep(self) -> RunFailed | None:
        """Return why no run begins so deep in a chain. None where one may, or has begun."""
        if (problem := depth_problem(self.flow, self.message)) is None:
            return None
        return RunFailed(f"{problem}; do flows start each other in a circle?")

    def to_claim(self) -> Arrival:
        """Return it as it is handled once more, under a claim. The handler may have changed its payload."""
        return self._replace(payload=None, leased=True)


class _Named(NamedTuple):
    """The request that a message is for.

    Its id is empty where the flow's ``request_id`` rule finds none: ``problem`` says why. ``payload`` is decoded where
    the rule was asked.
    """

    request_id: RequestId
    is_weak: bool = False
    payload: Any = None
    problem: RunFailed | None = None


class Routes:
    """The flows and stages that one function serves."""

    def __init__(self, targets: Iterable[object]) -> None:
        """Take flows, each followed by those of its stages that are served here. By none for all of them."""
        self._stages: dict[str, dict[str, AnyStage]] = {}
        self._flows: dict[str, AnyFlow] = {}
        flow: AnyFlow | None = None
        for target in targets:
            if isinstance(target, type) and issubclass(target, Flow):
                flow = target
                if self._flows.setdefault(flow.name, flow) is not flow:
                    raise SettingsError("lambda_handler", f"two of its flows are named {flow.name!r}")
                self._stages.setdefault(flow.name, {})
            elif flow is not None and target in flow.stages:
                stage = next(stage for stage in flow.stages if stage is target)
                self._stages[flow.name][stage.name] = stage
            else:
                raise SettingsError("lambda_handler", f"{_shown(target)} is no flow, nor a stage of the flow before it")
        if not self._flows:
            raise SettingsError("lambda_handler", "it serves nothing; give it a flow: lambda_handler(ValidateCart)")
        for name, stages in self._stages.items():
            if not stages:
                stages.update({stage.name: stage for stage in self._flows[name].stages})
        self.flows: tuple[AnyFlow, ...] = tuple(self._flows.values())
        self.queues = NamedQueues(self.flows)

    @property
    def are_parallel(self) -> bool:
        """Answer whether some stage lets several of its records be handled at once."""
        return any(stage.parallel > 1 for stages in self._stages.values() for stage in stages.values())

    def flow(self, name: str) -> AnyFlow:
        """Return the flow of that name. Raises :class:`Unroutable` where it is not served here."""
        if name not in self._flows:
            raise Unroutable(f"{shown(name)} is not served here; {self._served()} is")
        return self._flows[name]

    def serves(self, flow: AnyFlow) -> tuple[AnyStage, ...]:
        """Return the flow's stages that this function handles."""
        return tuple(self._stages.get(flow.name, {}).values())

    def resolve(self, envelope: Envelope, now: int, trust: Trust | None = STRICT) -> Arrival:
        """Find the stage that an envelope is for, and read its message.

        Raises :class:`Unroutable`, :class:`EnvelopeError` for attributes that cannot be read, or :class:`Untrusted` for
        what they may not say; and :class:`flowguard.errors.KeyUnavailable` while a sealed body cannot be opened.
        Without ``trust`` nothing is judged or opened: for tools that only look.
        """
        flow, stage_name = self._address(envelope)
        place = self._place(envelope)
        named = self._named(envelope, flow, stage_name, place)
        requested_at = self._requested_at(envelope, now)
        message = Message(
            flow=flow.name,
            stage=stage_name,
            version=flow.version if place.version is None else place.version,
            object_id=(None if named.problem else place.object_id) or ObjectId(""),
            request_id=named.request_id,
            requested_at=requested_at,
            body="" if place.is_sealed else envelope.message,
            sealed=envelope.message if place.is_sealed else None,
            hop=place.hop,
            retry=place.retry,
            redrive=place.redrive,
            reply_to=place.reply_to,
            first_error=place.first_error if place.retry else None,
            carried=self._carried(envelope, flow, stage_name),
            is_event=envelope.event is not None,
            resumed=place.resumed and place.hop > 1,  # a request comes after no wait
            answer_to=place.answer_to,
            cancelled=place.cancelled,
            since=min(place.since, now),  # one ahead would never be long ago
            trace=place.trace or (made_in(envelope.attributes, envelope.of_sqs) if place.hop == 1 else None),
            depth=place.depth,
            tenant=place.tenant or envelope.tenant,
            turn=place.turn,
        )
        if trust is None:
            return self._arrival(envelope, flow, message, named, opens=False)
        trust.judge(envelope, flow, message, place, self.queues)
        message, problem = opened_or_why(flow.codec, message)
        if problem is not None:
            return self._arrival(envelope, flow, message, named._replace(problem=problem), opens=False)
        judged = trusted_payload(envelope, flow, message)
        named = named if judged is None else named._replace(payload=judged)
        arrival = self._arrival(envelope, flow, message, named)
        return arrival if flow.codec is None else arrival._replace(first_text=first_text(flow.codec, message))

    def _arrival(
        self, envelope: Envelope, flow: AnyFlow, message: Message, named: _Named, *, opens: bool = True
    ) -> Arrival:
        """Settle the message's object and stage. A sealed body is read where it ``opens`` alone.

        A message that can never work keeps its place, so that its run can be ended. One whose request has no id has no
        run: it names no object, and nothing is claimed.
        """
        payload = named.payload
        stage: AnyStage | None = None
        problem: RunFailed | None = None
        try:
            if message.version not in flow.accepts:
                raise OtherRelease(f"{flow.name} does not read version {message.version}, only {sorted(flow.accepts)}")
            stage = _stage(flow, message.stage)
            if named.problem is not None:
                raise named.problem
            if not message.object_id:
                payload = payload if payload is not None else _decoded(stage, message.body)
                message = message.for_object(flow.object_of(payload, message.request_id), flow.tenant_of(payload))
            elif payload is None and _is_repeated_request(message) and (opens or message.sealed is None):
                payload = _read_before(stage, message.body)
        except RunFailed as error:
            problem = error
        if stage is not None and stage.name not in self._stages[flow.name]:
            raise Unroutable(f"{flow.name}/{stage.name} is not served here; {self._served()} is")
        return Arrival(envelope, flow, stage, message, payload, problem, named.is_weak)

    def _address(self, envelope: Envelope) -> tuple[AnyFlow, str]:
        named = envelope.attributes.get(FLOW_STAGE)
        if named is None:
            flow = self._by_queue(envelope)
            return flow, flow.entry().name
        flow_name, _, stage_name = named.value.partition("/")
        served = self._flows.get(flow_name)
        if served is None:
            raise Unroutable(f"{shown(named.value)} is not served here; {self._served()} is")
        return served, stage_name

    def _by_queue(self, envelope: Envelope) -> AnyFlow:
        """Find the flow of a message that names none. It is the only flow, or that of the queue it came through."""
        entered = [flow for flow in self._flows.values() if flow.entry().name in self._stages[flow.name]]
        if len(entered) == 1:
            return entered[0]
        for flow in entered:
            inboxes = flow.inboxes_of(flow.entry())
            if any(isinstance(inbox, Queue) and envelope.queue in inbox.called for inbox in inboxes):
                return flow
        if envelope.source.is_stream:
            raise Unroutable(f"a stream's record names no flow; give its function one flow, not {self._served()}")
        raise Unroutable(
            f"the message names no flow ({FLOW_STAGE}), and its queue tells none of {self._served()}; put "
            f"it into the inbox of a first stage, or name that in {FLOW_STAGE}, as FLOW/STAGE"
        )

    def _served(self) -> str:
        return ", ".join(f"{flow}/{stage}" for flow, stages in self._stages.items() for stage in stages)

    @staticmethod
    def _carried(envelope: Envelope, flow: AnyFlow, stage: str) -> dict[str, Attribute]:
        """Return the attributes that go along with everything that the flow sends.

        Raises :class:`EnvelopeError` for those that SQS refuses: only a direct invocation can bring them.
        """
        carried = flow.carried_from(envelope.attributes, stage, envelope.came_through)
        if problem := attributes_problem(carried):
            raise EnvelopeError(envelope.message_id, "attributes", f"the message {problem}")
        return carried

    @staticmethod
    def _place(envelope: Envelope) -> Place:
        attribute = envelope.attributes.get(PLACE)
        if attribute is None:
            return Place()
        where = f"attributes.{PLACE}"
        try:
            place = Place.parse(attribute.value)
        except ValueError as error:
            raise EnvelopeError(envelope.message_id, where, str(error)) from None
        if place.is_unsent:
            problem = "this is a message that could not be sent, and none for a stage: use 'flowguard dlq redrive'"
            raise EnvelopeError(envelope.message_id, where, problem)
        return place

    @staticmethod
    def _named(envelope: Envelope, flow: AnyFlow, stage: str, place: Place) -> _Named:
        """Name the request.

        The attribute survives a redrive, and counts before the flow's rule, which is for requests at the first stage.
        The ids of EventBridge and SNS are the same for every copy; the SQS id is the last resort, and weak.
        """
        rule = flow.request_id if place.hop == 1 and stage == flow.entry().name else None
        given = envelope.attributes.get(REQUEST_ID)
        if given is not None and (place.is_sealed or not (rule is not None and place.is_weak)):
            return _Named(_checked_id(given.value, envelope))
        if place.is_sealed:
            raise EnvelopeError(envelope.message_id, f"attributes.{REQUEST_ID}", "is missing, and the body is sealed")
        if rule is not None:
            return _named_by(rule, flow.entry(), envelope)
        is_weak = envelope.own_id == envelope.message_id and envelope.queue_arn is not None
        return _Named(RequestId(envelope.own_id), is_weak)

    @staticmethod
    def _requested_at(envelope: Envelope, now: int) -> int:
        """Return the sender's time. Where there is none, EventBridge, SNS and SQS have one.

        None may be far ahead: it would shut out every later request.
        """
        sent_at = envelope.sent_at
        arrived = now if sent_at is None else sent_at
        if (given := envelope.attributes.get(REQUESTED_AT)) is not None:
            return _plausible(given.value, f"attributes.{REQUESTED_AT}", envelope, max(arrived, now))
        if envelope.event is not None:
            return _plausible(str(envelope.event.time), "body.time", envelope, max(arrived, now))
        if (published_at := envelope.published_at) is not None:
            return _plausible(str(published_at), "body.Timestamp", envelope, max(arrived, now))
        return _plausible(str(arrived), "attributes.SentTimestamp", envelope, now)


def depth_problem(flow: AnyFlow, message: Message) -> str | None:
    """Return why the flow begins no run for the message. None where one may begin, or has."""
    if message.hop > 1 or message.retry or message.depth <= flow.max_depth:
        return None
    where = f"{flow.name} is asked for at depth {message.depth} of a chain of runs"
    return f"{where}, and its max_depth is {flow.max_depth}"


def _stage(flow: AnyFlow, name: str) -> AnyStage:
    try:
        return flow.stage(name)
    except RunFailed as error:
        raise OtherRelease(str(error)) from None


def _checked_id(text: str, envelope: Envelope) -> RequestId:
    if problem := "is empty" if not text else id_problem(text):
        raise EnvelopeError(envelope.message_id, f"attributes.{REQUEST_ID}", problem)
    return RequestId(text)


def _named_by(rule: RequestIdRule, stage: AnyStage, envelope: Envelope) -> _Named:
    """Name the request by its flow's rule. A payload in which the rule finds nothing can never work."""
    try:
        payload = _decoded(stage, envelope.message)
        return _Named(read_request_id(rule, payload), payload=payload)
    except RunFailed as problem:
        return _Named(RequestId(""), problem=problem)


def _decoded(stage: AnyStage, body: str) -> Any:
    """Decode a payload, without which the object or the request is not known. Raises :class:`RunFailed`.

    It is :class:`OtherRelease` where a model's own validator raises what none should: this release cannot read it.
    """
    payload_name = f"the payload of {stage.name}"
    try:
        return decode(stage.payload, body, what=payload_name)
    except RunFailed:
        raise
    except Exception as error:
        raise OtherRelease(f"{payload_name} cannot be read: a validator raises {type(error).__name__}") from error


def _is_repeated_request(message: Message) -> bool:
    """Answer whether a handler may have read the request, of this release or another. A cancelled one is not read."""
    return message.hop == 1 and bool(message.retry or message.redrive) and message.cancelled is None


def _read_before(stage: AnyStage, body: str) -> Any:
    """Decode a payload that an earlier attempt may have read. It is of another release where this one cannot.

    None where a model's own validator raises anything else: the stage meets it again, and says so.
    """
    try:
        return _decoded(stage, body)
    except OtherRelease:
        return None
    except RunFailed as error:
        raise OtherRelease(str(error)) from None


def _plausible(text: str, field: str, envelope: Envelope, latest: int) -> int:
    """Return the time in ms that ``text`` says. Raises :class:`EnvelopeError` where no sender can have meant it."""
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise EnvelopeError(envelope.message_id, field, f"{text[:40]!r} is not whole milliseconds since 1970")
    moment = int(text)
    if _LOOKS_LIKE_SECONDS <= moment < _EARLIEST:
        raise EnvelopeError(envelope.message_id, field, f"{moment} looks like seconds; write milliseconds since 1970")
    check_not_ahead(moment, field, envelope, latest)
    return moment


def check_not_ahead(moment: int, field: str, envelope: Envelope, latest: int) -> None:
    """Raise :class:`TooEarly` for a time (ms) in the next day, :class:`EnvelopeError` for a later one."""
    if moment > latest + CLOCKS_DIFFER_BY_MS:
        problem = f"{moment} is more than {CLOCKS_DIFFER_BY} ahead; is the sender's clock right?"
        refused = TooEarly if moment <= latest + _DAY_MS else EnvelopeError
        raise refused(envelope.message_id, field, problem)


def _shown(target: object) -> str:
    return target.__name__ if isinstance(target, type) else repr(target)

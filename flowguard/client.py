"""The client with which code outside a flow starts it. It knows which attributes a request needs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_sender, aws_store
from flowguard.aws.signing_keys import aws_signer, aws_tokens
from flowguard.clock import Clock, SystemClock
from flowguard.destinations import Destination, destination, form_problem
from flowguard.errors import RunFailed, SendFailed, SettingsError, TokenProblem, TokenRefused, shown, span_problem
from flowguard.events import Observer, log
from flowguard.flow import FOR_EVER, AnyFlow, is_flow
from flowguard.names.ids import Ids, ObjectId, RandomIds, RequestId, name_problem
from flowguard.observers.named import named_observers
from flowguard.payload.encoding import Payload, encode_json
from flowguard.protocol.run import ResetOnce, RunName, Status
from flowguard.protocol.run_orders import failed_answer
from flowguard.protocol.waiting import GivenAnswer
from flowguard.settings import Settings
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict, ResetVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute, attributes_of
from flowguard.wire.cancel_reason import reason
from flowguard.wire.message import LATEST_TIME
from flowguard.wire.signing import UNSIGNED, Signer, check_signs
from flowguard.wire.tokens import NO_TOKENS, Tokens, awaited_id_problem, is_token, token_awaited_id, token_of
from flowguard.worker.callbacks import Callbacks
from flowguard.worker.cancelling import Canceller
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.ports import Sender, Services, Store
from flowguard.worker.requests import send_request
from flowguard.worker.resets import Resetter

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_SECOND: Final = 1_000  # ms
_FIRST: Final = 946_684_800_000  # an earlier time looks like seconds
_LAST: Final = FOR_EVER - 366 * 86_400_000  # a schedule in whole seconds is within what a datetime has


@dataclass(frozen=True)
class Started:
    """A request that was sent. Keep ``request_id`` and ``requested_at`` to repeat the same request safely."""

    request_id: RequestId
    requested_at: int
    object_id: ObjectId


class KeptResult(NamedTuple):
    """The result of a run that has ended. ``request_id`` is of the request that was carried out. UTC."""

    value: Any
    completed_at: datetime
    request_id: RequestId


class FlowClient:
    """Sends the requests that start flows, and the answers that they wait for.

    ::

        client = FlowClient.from_environment()
        client.start(PlaceOrder, {"order_id": "o1"})

    They go to the queue, topic or function that the flow's first stage reads from. ``signer`` is the functions' own
    where messages are signed (``services.signer``). ``clock`` and ``ids`` say when requests are made and how they are
    named; a test hands in its own. Answers need ``store``, which opens the run table when the first one is given, and
    ``tokens``, which reads tokens; ``observer`` gets their verdicts.
    """

    def __init__(
        self,
        sender: Sender,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        signer: Signer = UNSIGNED,
        store: Callable[[], Store] | None = None,
        tokens: Tokens = NO_TOKENS,
        observer: Observer = log,
    ) -> None:
        self._sender = sender
        self._observer = observer
        self._store = store
        self._tokens = tokens
        self._signer = signer
        self._clock = clock if clock is not None else SystemClock()
        self._ids = ids if ids is not None else RandomIds()

    @classmethod
    def from_environment(cls) -> FlowClient:
        """Build a client on AWS with boto3's own configuration. It signs where ``FLOWGUARD_SIGNING_KEYS`` is set."""
        clients, clock, settings = Clients(), SystemClock(), Settings.from_environment(os.environ)
        return cls(
            aws_sender(settings, clients),
            clock=clock,
            signer=aws_signer(settings, clients, clock),
            store=lambda: aws_store(settings, clients),
            tokens=aws_tokens(settings, clients, clock),
            observer=named_observers(settings.observers, settings.at_aws),
        )

    @classmethod
    def of(cls, services: Services) -> FlowClient:
        """Build a client on the services of a function, such as those of an embedded engine."""
        return cls(
            services.sender,
            clock=services.clock,
            ids=services.ids,
            signer=services.signer,
            store=lambda: services.store,
            tokens=services.tokens,
            observer=services.observer,
        )

    def start(  # noqa: PLR0913 - the parts of a request, each with a default
        self,
        flow: AnyFlow,
        payload: Payload,
        *,
        object_id: str | None = None,
        request_id: str | None = None,
        requested_at: int | None = None,
        at: datetime | None = None,
        after: timedelta | None = None,
        reply_to: Destination | str | None = None,
        to: Destination | str | None = None,
        attributes: Mapping[str, Attribute | str] | None = None,
        tenant: str | None = None,
        lane: str | None = None,
    ) -> Started:
        """Ask for a run of the flow.

        ``request_id`` and ``requested_at`` (ms) are new and now, unless a caller repeats a request of its own: the
        same id twice is one run. A flow with a ``request_id`` rule reads the id from the payload where none is given.
        ``object_id`` is for a payload that does not name its object. ``reply_to`` is notified when the run ends. ``to``
        sends elsewhere than to the first stage's inbox: to a topic, or a function. ``attributes`` go along beside
        flowguard's own four; a plain text stands for a String. ``tenant`` says whose work it is, where the flow's
        ``tenant`` rule should not: all messages of the run have it as their group on standard queues. ``lane`` is one
        of those of the first stage's inbox, by default the first: the run keeps it in each stage that has it.

        ``at``, a datetime with its time zone, or ``after`` sends it later, to a standard queue: by SQS within 15
        minutes, and by EventBridge Scheduler beyond that, which needs ``FLOWGUARD_SCHEDULER_ROLE``. The request's time
        is that moment then, so the run is newer than all that is asked for until then. It cannot be called back.

        Raises :class:`SendFailed` where the service did not take it, :class:`flowguard.errors.RunFailed` for what the
        flow would refuse, and TypeError for a payload of another type; then nothing was started.
        """
        _check_flow(flow)
        now = self._clock.now()
        due = _due(now, at, after)
        if requested_at is not None and (at is not None or after is not None):
            raise RunFailed("requested_at, and at or after, both say the request's time; leave one out")
        if requested_at is not None:
            _check_moment(requested_at)
        if to is not None and (problem := form_problem(destination(to))):
            raise RunFailed(f"to: {problem}")
        message, inbox = flow.request(
            payload,
            request_id=self._new_id if request_id is None else RequestId(request_id),
            requested_at=due if requested_at is None else requested_at,
            object_id=object_id,
            reply_to=None if reply_to is None else destination(reply_to),
            signed=self._signer.is_on,
            tenant=tenant,
            lane=lane,
        )
        target, more = inbox if to is None else destination(to), attributes_of({} if attributes is None else attributes)
        send_request(self._sender, self._signer, message, target, more, delay=max(0, -((now - due) // _SECOND)))
        return Started(message.request_id, message.requested_at, message.object_id)

    def answer(self, flow: AnyFlow, awaited: str, payload: object, *, only: Started | None = None) -> AnswerVerdict:
        """Answer what the flow's runs wait for, and return the verdict.

        ``awaited`` is a token or its link, or the id that is awaited: of an event, or of what a party outside was asked
        for. All runs that wait for the id get the answer; with ``only`` the run of that request alone.
        ``payload`` is a pydantic model, or what JSON can hold. The same answer may be given again. Raises
        :class:`flowguard.errors.TokenRefused` for a token that never was good, :class:`flowguard.errors.RunFailed` for
        an answer that an awaiting stage cannot read, after the runs whose stages can have got it; :class:`SendFailed`
        where its copy was not taken, and TypeError for what JSON cannot hold: then nothing was answered.
        """
        return self._settle(flow, awaited, GivenAnswer(encode_json(payload)), only)

    def fail(
        self, flow: AnyFlow, awaited: str, why: str, *, kind: str = "Failed", only: Started | None = None
    ) -> AnswerVerdict:
        """Say that what the flow's runs wait for has failed, and return the verdict.

        ``awaited``, ``only`` and the errors are as in :meth:`answer`. ``why`` and ``kind`` become the text and type of
        a :class:`flowguard.Failed`.
        """
        for name, text in (("why", why), ("kind", kind)):
            if not isinstance(text, str):
                raise RunFailed(f"{name}={shown(text)} is of type {type(text).__name__}; write a text")
        return self._settle(flow, awaited, failed_answer(kind, why), only)

    def reset(self, flow: AnyFlow, object_id: str, *, only: Started | None = None) -> ResetVerdict:
        """Reset the flow's run of an object, and return the outcome.

        A run at work is fenced and restarted with the same payload; all its callers get the new end. A kept result
        answers no newer request any more. Raises :class:`flowguard.errors.RunFailed` for a flow that takes no callers,
        and :class:`SendFailed` if the message that restarts the run could not be sent. The run is fenced then, and its
        own next message restarts it; the reset may be repeated. With ``only`` a run that was asked for after that
        request is left alone.
        """
        _check_flow(flow, only)
        reset_id, now, object_id = self._new_id(), self._clock.now(), _object(object_id)
        order = None if only is None else ResetOnce(only.requested_at)
        done = Resetter(self._services("a reset", flow)).reset(flow, object_id, reset_id, now, order)
        if done.restart is not None and (refusals := self._sender.send([done.restart.send])):
            raise SendFailed({str(done.restart.send.to): refusal.why for refusal in refusals.values()})
        return done.verdict

    def cancel(self, flow: AnyFlow, object_id: str, *, why: str, only: Started | None = None) -> bool:
        """Cancel the flow's run of an object. Return False where there is none that goes on.

        Its worker is fenced: nothing of it is applied any more. The run's next message ends it as FAILED with the error
        :class:`flowguard.errors.Cancelled`, without a dead letter, or goes on at the flow's ``on_failed``. All who wait
        for its end get that. That message is under way, or comes when the worker's lease or the delay of a retry is
        over. If it lies among the dead letters, nothing ends the run until that is redriven. A run that waits is ended
        at once, and answers to it are EXPIRED. A run that was asked for after this call is left alone, and so is one
        that ``on_failed`` undoes already. With ``only`` the run of every other request is, too, and that run is
        cancelled whatever this machine's clock says.

        ``why`` is the text of the error, for people, which no codec seals in the order. Raises
        :class:`flowguard.errors.RunTooBusy` for a run that moves on with each try, and :class:`SendFailed` where the
        message for a run that waits was not taken. The run is cancelled then, and its deadline ends it. Raises
        :class:`SettingsError` without keys for a run that waits, of a flow that believes that message only when it is
        signed. Nothing is cancelled then.
        """
        _check_flow(flow, only)
        text, message_id, now, object_id = reason(why), self._new_id(), self._clock.now(), _object(object_id)
        self._check_can_end(flow, object_id)
        run = None if only is None else RunName(only.request_id, only.requested_at)
        canceller = Canceller(self._services("a cancellation", flow))
        done = canceller.cancel(flow, object_id, message_id, now, text, run)
        if done.onward is not None and (refusals := self._sender.send([done.onward[1]])):
            raise SendFailed({str(done.onward[1].to): refusal.why for refusal in refusals.values()})
        return done.item is not None

    def result(
        self, flow: AnyFlow, object_id: str, *, max_age: timedelta | None = None, otherwise: Payload | None = None
    ) -> KeptResult | None:
        """Read the result of the flow's last run of an object. None where there is none that is good.

        It is good for the flow's ``keep_result``, and no longer than ``max_age``; ``timedelta(0)`` takes none that is
        older than this call. A flow without ``keep_result`` has its last result until its run item expires, or a newer
        run begins. ``otherwise`` is the payload of a request that is sent where there is none. Raises as :meth:`start`
        does, and :class:`flowguard.errors.TextGone` for a result whose text is gone.
        """
        _check_flow(flow)
        _check_age(max_age)
        now, object_id = self._clock.now(), _object(object_id)
        end = self._services("a result", flow).store.callers.stored_end(flow.name, object_id)
        oldest = flow.fresh_since(now) if flow.keep_result is not None else 0
        if max_age is not None:
            oldest = max(oldest, now - max_age // timedelta(milliseconds=1))
        if end is not None and end.error is None and end.committed_at >= oldest:
            completed_at = datetime.fromtimestamp(end.committed_at / 1000, UTC)
            return KeptResult(json.loads(end.result or "null"), completed_at, end.request_id)
        if otherwise is not None:
            self.start(flow, otherwise, object_id=object_id)
        return None

    def _check_can_end(self, flow: AnyFlow, object_id: ObjectId) -> None:
        """Check that the message which ends a run that waits will be believed. Only without keys that takes a read."""
        if self._signer.is_on or flow.trust_senders:
            return
        address = AnswerAddress(flow.name, object_id, RequestId(""), 0, 0, "")
        item = self._services("a cancellation", flow).store.waits.groups.run(address)
        if item is not None and item.status is Status.WAITING:
            check_signs(self._signer, flow.name, "the message that ends a run which waits")

    def _services(self, purpose: str, flow: AnyFlow) -> Services:
        if self._store is None:
            raise SettingsError("FlowClient", f"{purpose} needs the run table; use FlowClient.from_environment()")
        (store := self._store()).codecs.learn([flow])
        return Services(
            store=store,
            sender=self._sender,
            clock=self._clock,
            signer=self._signer,
            tokens=self._tokens,
            observer=self._observer,
        )

    def _settle(self, flow: AnyFlow, awaited: str, answer: GivenAnswer, only: Started | None) -> AnswerVerdict:
        _check_flow(flow, only)
        awaited = token_of(awaited)
        if problem := _awaited_problem(awaited):
            raise RunFailed(f"nothing can be answered by the id {shown(awaited)}: it {problem}")
        services = self._services("an answer", flow)
        if is_token(awaited):
            try:
                claim = self._tokens.read(awaited, [flow.name], self._clock.now())
            except TokenRefused as refused:
                if refused.reason is TokenProblem.EXPIRED:
                    return AnswerVerdict.EXPIRED
                raise
            awaited = token_awaited_id(claim.row_id)
        run = None if only is None else (only.object_id, only.request_id, only.requested_at)
        return Callbacks((flow,), services).answer(ExternalAnswer(flow, awaited, answer, only=run))

    def _new_id(self) -> RequestId:
        return RequestId(self._ids.new())


def _check_flow(flow: object, only: object = None) -> None:
    if not is_flow(flow):
        raise RunFailed(f"{shown(flow)} is no flow; give the class of a flow")
    if only is not None and not isinstance(only, Started):
        raise RunFailed(f"only={shown(only)} names no request; give the Started that start() has returned")


def _check_moment(requested_at: object) -> None:
    if type(requested_at) is not int or not 0 <= requested_at <= LATEST_TIME:
        raise RunFailed(f"requested_at={shown(requested_at)} is no time; write whole milliseconds since 1970")


def _due(now: int, at: datetime | None, after: timedelta | None) -> int:
    """Return when a request is due, in ms since 1970. Raises :class:`RunFailed` for a moment that cannot be."""
    if at is not None and after is not None:
        raise RunFailed("at and after both say when; leave one out")
    if after is not None and (problem := span_problem(after)):
        raise RunFailed(f"after {problem}")
    if after is not None and after < timedelta(0):
        raise RunFailed(f"after is {after}; it must not be negative")
    if at is not None:
        given: Any = at
        if not isinstance(given, datetime) or given.utcoffset() is None:
            raise RunFailed(f"at={shown(given)} names no moment; write a datetime with its time zone")
        return _in_range("at", at, (at - _EPOCH) // _MS)
    return now if after is None else _in_range("after", after, now + after // _MS)


def _in_range(name: str, given: object, moment: int) -> int:
    if not _FIRST <= moment <= _LAST:
        raise RunFailed(f"{name}={given} is no time from the year 2000 to 9998")
    return moment


def _check_age(max_age: timedelta | None) -> None:
    if max_age is not None and (problem := span_problem(max_age)):
        raise RunFailed(f"max_age {problem}")
    if max_age is not None and max_age < timedelta(0):
        raise RunFailed(f"max_age is {max_age}; it must not be negative")


def _awaited_problem(awaited: str) -> str | None:
    return name_problem(awaited) or awaited_id_problem(awaited)


def _object(object_id: str) -> ObjectId:
    if problem := name_problem(object_id):
        raise RunFailed(f"object_id={shown(object_id)} {problem}")
    return ObjectId(object_id)

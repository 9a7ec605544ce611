"""The answers of one callback function. Each is settled, and its sender gets a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flowguard.destinations import Queue
from flowguard.errors import EnvelopeError, FlowguardError, Untrusted
from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.run_orders import failed_answer, read_order
from flowguard.protocol.waiting import GivenAnswer
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.http_response import lambda_response
from flowguard.wire.tokens import TokenClaim, token_awaited_id
from flowguard.worker.dispatch import dispatch
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.external_answers import ORDER, ExternalAnswers, read_outside
from flowguard.worker.http_callbacks import HttpCallbacks, unavailable
from flowguard.worker.object_notices import tell_tested
from flowguard.worker.orders import Orders
from flowguard.worker.outages import Outages
from flowguard.worker.ports import Budget, Services
from flowguard.worker.record_sources import NamedQueues
from flowguard.worker.trust import Trust


class NoCallback(FlowguardError):
    """A message came through nothing that a flow declares as a callback. It stays in its queue."""


class Callbacks:
    """Takes the answers of one function, for these flows."""

    def __init__(self, flows: tuple[AnyFlow, ...], services: Services, budget: Budget | None = None) -> None:
        self._flows = {flow.name: flow for flow in flows}
        self._queues = NamedQueues(flows)
        self._services = services
        services.store.codecs.learn(flows)
        self._emitter = Emitter(services.observer)
        self._orders = Orders(services, self._emitter, Trust(services.signer), self._queues)
        self._outside = ExternalAnswers(services, self._emitter, budget)
        self._outages = Outages(services, self._emitter, flows)

    def take_all(self, envelopes: Iterable[Envelope]) -> list[Ending]:
        """Settle what the records bring, and let those that stay be seen again after a pause each."""
        endings = [self._outages.left_alone(envelope) or self.take(envelope) for envelope in envelopes]
        again_in = [(ending.envelope, self._outages.again_in(ending)) for ending in endings]
        self._services.sender.hand_back([(envelope, seconds) for envelope, seconds in again_in if seconds is not None])
        return endings

    def take(self, envelope: Envelope) -> Ending:
        """Settle what a record brings. Whatever goes wrong leaves the record in its queue, and is reported."""
        try:
            return self._taken(envelope)
        except Exception as error:  # a service, the network, a setting: delivered again by the queue
            ending = self._outages.ending(envelope, error)
            bad = EventType.UNTRUSTED if isinstance(error, Untrusted) else EventType.UNREADABLE
            event = bad if isinstance(error, EnvelopeError) else EventType.BROKEN
            self._emitter.emit(event, None, record=envelope.message_id, why=ending.why)
            return ending

    def _taken(self, envelope: Envelope) -> Ending:
        return self._addressed(envelope) or self._from_outside(envelope)

    def _addressed(self, envelope: Envelope) -> Ending | None:
        """Carry out what comes for a run. Its address is believed only in the flow's own queue of answers."""
        flows = {flow.name: flow for flow in self._flows.values() if _is_own_queue(envelope, flow)}
        if not flows:
            return None
        order = read_order(envelope)
        if order is None or order.address.flow not in flows:
            return None
        ending = self._orders.ending(envelope, flows[order.address.flow], order)
        [ending] = dispatch(self._services, self._emitter, [ending])
        return ending

    def _from_outside(self, envelope: Envelope) -> Ending:
        """Settle each answer in a record. S3 may say of several objects in one, or of none; one that fails keeps it."""
        if envelope.notice is not None and not envelope.notice.events:
            tell_tested(self._emitter, envelope, envelope.notice)
            return Ending(envelope, ack=True)
        endings = [self._answer_of(part) for part in envelope.parts]
        return next((ending for ending in endings if not ending.ack), endings[-1])

    def _answer_of(self, envelope: Envelope) -> Ending:
        answers = read_outside(envelope, self._queues)
        if not answers:
            raise NoCallback(f"no callback of {', '.join(self._flows)} is declared for where this message came from")
        settled: list[tuple[AnswerVerdict, Ending]] = []
        missed: Exception | None = None
        for answer in answers:
            try:
                settled.append(self._outside.settle(answer, envelope, queued=envelope.source.is_queue))
            except Exception as problem:  # what one flow cannot take now or ever, the others may
                missed = missed or problem
        if missed is not None:
            raise missed
        verdict, ending = min(settled, key=lambda each: (each[1].ack, ORDER.index(each[0])))
        if verdict is AnswerVerdict.UNKNOWN:
            self._report_missed(answers[0], verdict)
        return ending

    def respond(self, event: Any) -> dict[str, Any]:
        """Answer an HTTP request, as its gateway expects it."""
        http = HttpCallbacks(self._services.tokens, list(self._flows), self._answered)
        response = http.respond_to(event, self._services.clock.now())
        if response.cause is not None:
            event_type = EventType.BROKEN if response.status == 503 else EventType.REFUSED
            why = f"{type(response.cause).__name__}: {response.cause}"
            verdict = {} if response.verdict is None else {"verdict": response.verdict.value}
            self._emitter.emit(event_type, None, record="HTTP", why=why, **verdict)
        return lambda_response(response, event)

    def _answered(self, claim: TokenClaim, payload: str, failed: bool) -> AnswerVerdict:
        answer = failed_answer("Failed", payload) if failed else GivenAnswer(payload)
        return self.answer(ExternalAnswer(self._flows[claim.flow], token_awaited_id(claim.row_id), answer))

    def answer(self, answer: ExternalAnswer) -> AnswerVerdict:
        """Settle an answer whose sender will not repeat it. A copy in the answer queue repairs what dies here."""
        [envelope] = normalize({}, invocation_id=answer.awaited_id)
        assert isinstance(envelope, Envelope)  # noqa: S101 - an empty invocation can be read
        verdict, ending = self._outside.settle(answer, envelope, queued=False)
        if verdict is AnswerVerdict.UNKNOWN or (verdict is AnswerVerdict.EARLY and ending.ack):
            self._report_missed(answer, verdict)
        return verdict

    def _report_missed(self, answer: ExternalAnswer, verdict: AnswerVerdict) -> None:
        """Report the verdict on an answer that no run has met: each run reports its own."""
        facts = {"flow": answer.flow.name, "id": answer.awaited_id, "verdict": verdict.value}
        self._services.observer(Event(EventType.ANSWERED, None, facts))


def _is_own_queue(envelope: Envelope, flow: AnyFlow) -> bool:
    """Answer whether the record came through the flow's queue of answers. No callback may be declared for that."""
    return isinstance(flow.answers, Queue) and envelope.queue in flow.answers.called


def respond_unavailable(error: FlowguardError, event: Any) -> dict[str, Any]:
    """Answer an HTTP request where the function has no services, as its gateway expects it."""
    return lambda_response(unavailable(error, in_page=False), event)

"""The plan of a wait: its asks, its deadline and the rows by which answers find it. Everything is checked by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias, assert_never

from flowguard.destinations import Destination
from flowguard.errors import RunFailed, shown, span_problem
from flowguard.flow import AnyFlow, takes_answers
from flowguard.names.ids import RequestId
from flowguard.outcome import Ask, AskFlow, Awaited, AwaitedEvent, AwaitedToken, WaitFor, WaitForGroup
from flowguard.payload.codec import codec_problems
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import AwaitingRow, NewWait
from flowguard.protocol.run_orders import RESET, deadline_statement, order_attributes
from flowguard.protocol.waiting import DEADLINE, Child, WaitPlan
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.stage import AnyStage
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.answer_address import LONGEST_AWAITED_NAME, AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import FLOW_STAGE, REQUEST_ID, REQUESTED_AT, Message, with_depth
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import UNSIGNED, Signer, check_signs, signed_attributes
from flowguard.wire.tenant import of_tenant, tenant_for
from flowguard.wire.tokens import awaited_id_problem, token_awaited_id
from flowguard.worker.lifetimes import LONGEST_WAIT
from flowguard.worker.resumed_payload import admits_failed, fields_of

PayloadProblems: TypeAlias = Callable[[AnyStage], Iterator[str]]

MOST_AWAITED = 100
"""How many things one stage can wait for."""


class WaitPlanner(NamedTuple):
    """Plans the wait of one hop. ``moment`` is the hop's own time; rows outlive the wait by ``keep_for``. In ms."""

    flow: AnyFlow
    message: Message
    moment: int
    keep_for: int
    signer: Signer = UNSIGNED
    failed_at: int = 0
    """The hop at which the run failed for good; 0 where it has not. Its hops are counted from there."""

    def planned(self, outcome: WaitFor, first: int) -> tuple[list[Send], NewWait]:
        """Plan a wait. Its sends are numbered from ``first``; the deadline comes before the asks.

        Where side messages go before it, and an answer from outside proves nothing of them, its first message comes at
        once: that the wait is looked at proves that they were sent.

        Raises :class:`RunFailed`, naming what is wrong with it, and :class:`flowguard.errors.SettingsError` where what
        it waits for could not be signed. Nothing was written.
        """
        self.check_signs()
        if problems := list(self._problems(outcome)):
            raise RunFailed(f"{self.message.stage!r} cannot wait: {'; '.join(problems)}. Nothing was written")
        stage = self.flow.stage(outcome.stage)
        deadline = self.deadline(outcome)
        names = {name: self._id_of(name, awaited) for name, awaited in outcome.awaited.items()}
        addresses = {name: self.address(name, admits=admits_failed(stage, name)) for name in names}
        asked = frozenset(name for name, awaited in outcome.awaited.items() if isinstance(awaited, AskFlow))
        sends = [deadline_message(self.flow, self.of_deadline(), deadline, self.moment, self.message)]
        looks = bool(first) and asked != names.keys()
        if looks:
            sends = [sends[0]._replace(delay=0)]
        children: dict[str, Child] = {}
        for name, awaited in outcome.awaited.items():
            message_id = id_of(IdKind.SEND, self.message, first + len(sends))
            if isinstance(awaited, AskFlow):
                send, child = self._ask_flow(awaited, addresses[name], message_id)
                sends.append(send)
                children |= {name: child} if awaited.cancel_too else {}
            elif isinstance(awaited, Ask):
                sends.append(self._ask(name, awaited, message_id))
        self._check_children(sends)
        expires_at = deadline + self.keep_for
        events = {name: awaited for name, awaited in outcome.awaited.items() if isinstance(awaited, AwaitedEvent)}
        plan = self.wait_plan(outcome, names)._replace(
            asked=asked,
            early=frozenset(name for name, event in events.items() if event.keep_early),
            on_error=outcome.on_error,
            children=children,
            looks=looks,
        )
        rows = tuple(
            AwaitingRow(awaited_id, addresses[name], outcome.stage, expires_at)
            for name, awaited_id in names.items()
            if awaited_id is not None
        )
        spare = 0 if outcome.quorum is None else len(names) - outcome.quorum
        return sends, NewWait(plan, spare, deadline, rows)

    def check_signs(self) -> None:
        """Raise :class:`flowguard.errors.SettingsError` where no answer or deadline of the wait would be believed."""
        if not self.flow.trust_senders:
            check_signs(self.signer, self.flow.name, "answers and deadlines")

    def deadline(self, outcome: WaitFor | WaitForGroup) -> int:
        """Return the deadline of a wait, ms."""
        within: Any = outcome.within
        return self.moment + int(within // timedelta(milliseconds=1))

    def wait_plan(self, outcome: WaitFor | WaitForGroup, names: Mapping[str, str | None]) -> WaitPlan:
        """Return the plan of a wait for these names, with what its next hop takes over from this one's message."""
        m = self.message
        plan = WaitPlan(outcome.stage, names, on_timeout=outcome.on_timeout, reply_to=m.reply_to, answer_to=m.answer_to)
        return plan._replace(carried=m.carried, trace=m.trace, depth=m.depth, tenant=m.tenant)

    def address(self, name: str, *, admits: bool = False) -> AnswerAddress:
        """Return the address of one name that this hop waits for, signed where messages are."""
        m = self.message
        address = AnswerAddress(m.flow, m.object_id, m.request_id, m.requested_at, m.hop, name, admits)
        return address._replace(signature=self.signer.sign(address.statement))

    def of_deadline(self) -> AnswerAddress:
        """Return the address of this hop's deadline, signed with the tenant where messages are."""
        address = self.address(DEADLINE)
        return address._replace(signature=self.signer.sign(deadline_statement(address, self.message.tenant)))

    def problems(
        self, outcome: WaitFor | WaitForGroup, targets: Mapping[str | None, str], payload_problems: PayloadProblems
    ) -> Iterator[str]:
        """Say what is wrong with a wait, of whatever kind. ``targets`` are its stages, each with the option it is for.

        ``payload_problems`` says why a stage could not be called with what comes of it.
        """
        yield from span_problems(outcome.within)
        if not takes_answers(self.flow.answers):
            fix = f"give {self.flow.name} answers='a-standard-queue', which one of its functions reads"
            yield f"answers and deadlines cannot come through {self.flow.answers}; {fix}"
        if self.message.hop - self.failed_at >= self.flow.max_hops:
            yield f"{self.flow.name} has made {self.message.hop} hops, its max_hops; does it run in circles?"
        this, stages = self.flow.stage(self.message.stage), {stage.name: stage for stage in self.flow.stages}
        for target, option in targets.items():
            if target is None:
                continue
            if (stage := stages.get(target)) is None:
                yield f"{option}{shown(target)} is no stage of {self.flow.name}"
            elif target not in this.then:
                yield f"{option}{shown(target)} is not in then= of {this.name!r}"
            else:
                yield from payload_problems(stage)

    def _check_children(self, sends: Sequence[Send]) -> None:
        """Check that the runs that are asked do not take each other's object, nor this run's."""
        runs = [(self.message.flow, str(self.message.object_id))]
        for send in sends:
            flow = send.attributes.get(FLOW_STAGE)
            if flow is not None:
                run = (flow.value.partition("/")[0], str(send.group))
                if run in runs:
                    whose = "this very run" if run == runs[0] else "another ask of it"
                    problem = f"an ask of {run[0]} for {shown(run[1])} would take the object from {whose}"
                    raise RunFailed(f"{self.message.stage!r} cannot wait: {problem}. Nothing was written")
                runs.append(run)

    # -- the parts

    def _id_of(self, name: str, awaited: Awaited) -> str | None:
        match awaited:
            case AskFlow():
                return None
            case AwaitedEvent(awaited_id):
                return awaited_id
            case AwaitedToken():
                return token_awaited_id(awaited.row_id)
            case Ask():
                return id_of(IdKind.ASKED, self.message, name)
            case _:
                assert_never(awaited)

    def _ask(self, name: str, awaited: Ask, message_id: str) -> Send:
        m, awaited_id = self.message, id_of(IdKind.ASKED, self.message, name)
        asker = m._replace(tenant=tenant_for(awaited.to, awaited.group, m.tenant))
        attributes = ask_attributes(awaited_id, self.moment, {**m.carried, **awaited.attributes}, asker)
        send = Send(Kind.ASK, awaited.to, awaited.body, message_id, attributes, 0, awaited.group, asker.tenant)
        return send.checked()

    def _ask_flow(self, awaited: AskFlow, address: AnswerAddress, message_id: str) -> tuple[Send, Child]:
        """Build the request to another flow, and what names it where it is cancelled."""
        m, inbox = awaited.flow.request(
            awaited.payload,
            request_id=lambda: RequestId(message_id),
            requested_at=self.moment,
            object_id=awaited.object_id,
            reply_to=self.flow.answers,
            signed=self.signer.is_on,
            carried=self.message.carried,
        )
        send = ask_of_flow(m, inbox, message_id, address, self.message.carried, self.signer, self.message)
        return send, Child(str(inbox), m.flow, m.stage, m.version, m.object_id, m.request_id, m.requested_at)

    # -- what may be wrong

    def _problems(self, outcome: WaitFor) -> Iterator[str]:
        yield from _count_problems(outcome)
        for name, awaited in outcome.awaited.items():
            yield from _name_problems(name, awaited)
            if isinstance(awaited, AskFlow):
                yield from codec_problems(self.flow, awaited.flow)
        targets = {outcome.stage: "", outcome.on_timeout: "on_timeout=", outcome.on_error: "on_error="}
        yield from self.problems(outcome, targets, lambda stage: _payload_problems(stage, outcome))


def ask_attributes(awaited_id: str, at: int, more: Mapping[str, Attribute], asker: Message) -> dict[str, Attribute]:
    """Return the attributes of what is asked of a party outside, which answers under the id. Time in ms."""
    attributes = {REQUEST_ID: Attribute.string(awaited_id), REQUESTED_AT: Attribute.number(at), **more}
    return with_depth(attributes, asker.depth + 1, asker.tenant)


def ask_of_flow(
    request: Message,
    inbox: Destination,
    message_id: str,
    address: AnswerAddress,
    carried: Mapping[str, Attribute],
    signer: Signer,
    asker: Message,
) -> Send:
    """Build the message of a request to another flow, which answers to the address. ``asker`` is of the run that asks.

    Raises :class:`flowguard.errors.Reject` for one that no service takes.
    """
    back = json.dumps(address.as_json(), separators=(",", ":"))
    asked = request.below(asker)._replace(answer_to=back, trace=asker.trace)
    attributes = {**carried, **signed_attributes(asked, signer)}
    return Send(Kind.ASK, inbox, asked.text, message_id, attributes, group=asked.object_id).checked()


def deadline_message(
    flow: AnyFlow, wait: AnswerAddress, deadline: int, now: int, message: Message, sent_at: int | None = None
) -> Send:
    """Build the message that comes back to the flow at its wait's deadline, or in between to be sent again.

    SQS delays a message by at most 15 minutes, so a long wait takes several, one after the other. A flow with
    ``long_delays`` has one, by EventBridge Scheduler. ``sent_at`` is what the item says of when this one is sent, by
    which tells it from the copies of an earlier one. The signature of ``wait`` covers the tenant of the ``message``.
    """
    left = max(0, -((now - deadline) // 1000))
    message_id = id_of(IdKind.DEADLINE, message)
    tenant = of_tenant(message.tenant)
    place = {DEADLINE: {**wait._replace(name=DEADLINE).as_json(), **tenant}, **tenant}
    attributes = order_attributes(message_id, now if sent_at is None else sent_at, place)
    body = json.dumps({DEADLINE: deadline})
    delay = left if flow.long_delays else min(left, int(LONGEST_SQS_DELAY.total_seconds()))
    return Send(Kind.DEADLINE, flow.answers, body, message_id, attributes, delay).checked()


def span_problems(within: Any) -> Iterator[str]:
    """Say what is wrong with the deadline of a wait."""
    if within is None:
        yield "it has no deadline; say within=timedelta(…)"
    elif problem := span_problem(within):
        yield f"within {problem}"
    elif not timedelta(seconds=1) <= within <= LONGEST_WAIT:
        yield f"within is {within}; it is 1 second to {LONGEST_WAIT.days} days"


def _count_problems(outcome: WaitFor) -> Iterator[str]:
    count, quorum = len(outcome.awaited), outcome.quorum
    if not count:
        yield "it names nothing to wait for; say name=step.ask(…)"
    if count > MOST_AWAITED:
        yield f"it waits for {count} things of at most {MOST_AWAITED}"
    if quorum is not None and (type(quorum) is not int or not 1 <= quorum <= max(count, 1)):
        yield f"quorum is {shown(quorum)} of {count}"


_NAMES_OF_ORDERS: Final = frozenset({DEADLINE, RESET})
"""An asked party gets a signed address with the name. An address with one of these would be an order of flowguard."""


def _name_problems(name: str, awaited: object) -> Iterator[str]:
    if name in _NAMES_OF_ORDERS:
        yield f"{name!r} is a name that flowguard uses itself"
    if not (name.isascii() and name.isidentifier() and len(name) <= LONGEST_AWAITED_NAME):
        yield f"{shown(name)} is no name of up to {LONGEST_AWAITED_NAME} letters, digits and '_'"
    if not isinstance(awaited, Awaited):
        yield f"{shown(name)} is {type(awaited).__name__}; write {name}=step.ask(…), step.token(…) or step.event(…)"
    elif isinstance(awaited, AwaitedEvent) and (problem := _id_problem(awaited.id)):
        yield f"the id of {name} {problem}"


def _id_problem(text: object) -> str | None:
    if not isinstance(text, str) or not text:
        return "is no text"
    return awaited_id_problem(text)


def _payload_problems(stage: AnyStage, outcome: WaitFor) -> Iterator[str]:
    """Say why the stage could not be called with the answers."""
    fields, is_main = fields_of(stage), stage.name == outcome.stage
    if stage.payload is str:
        yield f"{stage.name!r} takes text; give it a model or dict, whose fields are the answers"
    if fields is None:
        return
    if is_main and (missing := [name for name in outcome.awaited if name not in fields]):
        yield f"{stage.payload.__name__} of {stage.name!r} has no field {', '.join(missing)}"
    for name, field in fields.items():
        if not field.is_required():
            continue
        if name not in outcome.awaited:
            yield f"the field {name!r} of {stage.payload.__name__} is not awaited, and has no default"
        elif is_main and outcome.quorum is not None and outcome.quorum < len(outcome.awaited):
            yield f"the field {name!r} of {stage.payload.__name__} needs a default, since it may stay without an answer"
        elif not is_main and not admits_failed(stage, name):
            fix = f"needs a default or {field.annotation} | Failed, since it may have no answer"
            yield f"the field {name!r} of {stage.payload.__name__} {fix}"

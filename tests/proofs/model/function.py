"""The function under test: the library's own batch, runtime and dispatch, stopped at each call to the outside.

A worker is its nonce and the answers it has got. To go on, it is run again from its start with those answers, up to
the first call that has none: nothing of its order of steps is modelled, so a wrong one is found.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel

from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.errors import Reject
from flowguard.events import Event
from flowguard.flow import AnyFlow, Flow
from flowguard.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Fenced, Refused
from flowguard.retry import Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import Envelope, normalize_record
from flowguard.wire.message import FLOW_STAGE, REQUEST_ID, Message
from flowguard.worker.batch import Batch
from flowguard.worker.ports import Memos, Refusal, Services, Unlimited, Waits
from flowguard.worker.routing import Arrival, Routes
from tests.proofs.model.scenarios import Scenario
from tests.proofs.model.world import Shelf, Worker

NOW = 1_800_000_000_000
INBOX = "inbox"
FIFO_INBOX = "inbox.fifo"


class Claiming(NamedTuple):
    request: ClaimRequest


class Handling(NamedTuple):
    """The stage runs; answered by how it ends: ``ok``, ``fail``, ``reject``."""


class Committing(NamedTuple):
    claim: Claim
    commit: Commit


class Releasing(NamedTuple):
    claim: Claim


class Sending(NamedTuple):
    sends: tuple[Send, ...]


class Ended(NamedTuple):
    """All that is left is to tell the queue."""

    ack: bool


Call = Claiming | Handling | Releasing | Committing | Sending | Ended


class _Suspended(KeyboardInterrupt):
    """Passes through the runtime as the end of its process would."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call


class _Outside:
    """The store, the sender and the ids of one worker; also what its stages ask how to end."""

    asked: ClassVar[_Outside]

    def __init__(self, owner: int, answers: Sequence[Any]) -> None:
        self._owner = owner
        self._answers = iter(answers)

    @property
    def waits(self) -> Waits:
        raise AssertionError("no stage of the worlds waits")

    @property
    def memos(self) -> Memos:
        raise AssertionError("no stage of the worlds remembers anything")

    def ask(self, call: Call) -> Any:
        answer = next(self._answers, None)
        if answer is None:
            raise _Suspended(call)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def claim(self, request: ClaimRequest) -> Claim | Refused:
        answer: Claim | Refused = self.ask(Claiming(request))
        return answer

    def release(self, claim: Claim, now: int, *, failed: bool) -> None:
        self.ask(Releasing(claim))

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced:
        answer: Committed | Fenced = self.ask(Committing(claim, commit))
        return answer

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        answer: Mapping[int, Refusal] = self.ask(Sending(tuple(sends)))
        return answer

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        """The model delivers every visible record at any time."""

    def new(self) -> str:
        return owner_name(self._owner)


def run_name(run: int) -> RequestId:
    return RequestId(f"run-{run}")


def owner_name(owner: int) -> str:
    return f"owner-{owner}"


class Cart(BaseModel):
    cart: str
    order: str = ""


class Passed(BaseModel):
    """The run's state: the hops it has passed, in their order."""

    hops: tuple[int, ...] = ()


def make_flow(scenario: Scenario) -> AnyFlow:
    """A flow of one or two stages, each of which sends one side message. The last may read from a FIFO queue."""
    inbox = Queue(FIFO_INBOX if scenario.is_fifo else INBOX)
    policy = RetryPolicy(attempts=scenario.attempts, backoff=Fixed(0), jitter=0)
    last = scenario.hops == 1

    class First(
        Stage[Cart, Passed], name="first", then=() if last else "second", retry=policy, inbox=inbox if last else None
    ):
        def handle(self, payload: Cart, step: Step[Passed]) -> Outcome:
            _work(step)
            return Done() if last else Second.message(payload)

    class Second(Stage[Cart, Passed], name="second", retry=policy, inbox=inbox):
        def handle(self, payload: Cart, step: Step[Passed]) -> Outcome:
            _work(step)
            return Done()

    class Modelled(
        Flow,
        name="modelled",
        object_id="cart",
        inbox=INBOX,
        dead_letters="parked",
        complete_to="told",
        on_conflict=scenario.on_conflict,
        abandoned_after=timedelta(days=1),
        request_id="order" if scenario.by_payload else None,
    ):
        stages = (First,) if last else (First, Second)

    return Modelled


def _work(step: Step[Passed]) -> None:
    ending = _Outside.asked.ask(Handling())
    if ending == "fail":
        raise ValueError("this attempt fails")
    if ending == "reject":
        raise Reject("this can never work")
    step.state.hops = (*step.state.hops, step.hop)
    step.send("sides", {"of": step.hop})


class Function:
    """All workers of a scenario, run step by step."""

    def __init__(self, scenario: Scenario, shelf: Shelf) -> None:
        self._shelf = shelf
        self._apart = scenario.apart
        self._by_payload = scenario.by_payload
        self.flow = make_flow(scenario)
        self._routes = Routes([self.flow])
        self._calls: dict[tuple[int, bool, int, tuple[int, ...]], Call] = {}
        self._arrivals: dict[int, Arrival] = {}
        self._records: dict[int, int] = {}

    def call_of(self, worker: Worker) -> Call:
        """What the worker does next."""
        key = (worker.record.envelope, worker.record.from_dlq, worker.owner, worker.answers)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._run(worker)
        return call

    def _run(self, worker: Worker) -> Call:
        outside = _Outside.asked = _Outside(worker.owner, [self._shelf[answer] for answer in worker.answers])
        services = Services(
            store=outside,
            sender=outside,
            clock=ManualClock(NOW),
            ids=outside,
            observer=_unheard,
            draw=random.Random(0),
        )
        batch = Batch(self._routes, services, Unlimited(), from_dlq=worker.record.from_dlq)
        try:
            [ending] = batch.run([self._shelf[worker.record.envelope]])
        except _Suspended as suspended:
            return suspended.call
        return Ended(ending.ack)

    def message_of(self, envelope: int) -> Message:
        """The message of a record, as the library's own routing reads it."""
        if envelope not in self._arrivals:
            self._arrivals[envelope] = self._routes.resolve(self._shelf[envelope], NOW)
        return self._arrivals[envelope].message

    def request(self, run: int, later: int = 0) -> int:
        """The envelope of the first message of a run; a greater run was asked for later. ``later`` is in ms."""
        message = Message(
            flow=self.flow.name,
            stage="first",
            version=1,
            object_id=ObjectId("c"),
            request_id=run_name(run),
            requested_at=NOW - 1_000 + run + (run - 1) * self._apart + later,
            body='{"cart":"c"}',
        )
        if not self._by_payload:
            return self._envelope(message.body, message.attributes())
        body = json.dumps({"cart": "c", "order": run_name(run)})
        said = {name: one for name, one in message.attributes().items() if name != REQUEST_ID}
        return self._envelope(body, said, message_id=f"m{later}")

    def received(self, send: Send) -> int:
        """The envelope in which a queue delivers what was sent to it."""
        number = self._shelf.put(send)
        if number not in self._records:
            self._records[number] = self._envelope(send.body, send.attributes)
        return self._records[number]

    def _envelope(self, body: str, attributes: Mapping[str, Attribute], message_id: str = "m") -> int:
        """As the inbox of its stage delivers it, also where it comes from the dead letters."""
        stage = self.flow.stage(attributes[FLOW_STAGE].value.rpartition("/")[2])
        inbox = self.flow.inbox_of(stage)
        assert isinstance(inbox, Queue)
        record = {
            "messageId": message_id,
            "body": body,
            "attributes": {"SentTimestamp": str(NOW), "MessageGroupId": "c"},
            "messageAttributes": attributes_to(_IN_RECORD, attributes),
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:{inbox.name}",
        }
        return self._shelf.put(normalize_record(record))


_IN_RECORD: Callable[[Attribute], dict[str, Any]] = Attribute.to_sqs_record


def _unheard(event: Event) -> None:
    """The model looks at what is done, not at what is told."""

"""Those that a run asks: other flows, and parties that know nothing of flowguard."""

from __future__ import annotations

import json
from typing import Any

from flowguard.clock import ManualClock
from flowguard.flow import PER_REQUEST, Flow
from flowguard.outcome import Awaited, Done
from flowguard.protocol.outbox import Kind, Send
from flowguard.stage import Stage
from flowguard.step import NoState, Step
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import ErrorNote
from flowguard.worker.plan import Planner
from flowguard.worker.routing import Routes
from tests.proofs.model.scenarios import Scenario

PARTIES = "parties"
"""The queue in which they are asked."""
PARTY_QUEUE = "from-parties"
"""The queue of their answers."""
EVENT_QUEUE = "events"
"""The queue of answers that nobody asks for."""
_MOMENT = 1_800_000_000_000


class Answer(Stage[dict[str, Any]], name="answer"):
    def handle(self, payload: dict[str, Any], step: Step) -> Done:
        return Done({"of": payload["name"]})


class Another(
    Flow, name="another", object_id=PER_REQUEST, inbox="another", dead_letters="another-parked", trust_senders=True
):
    stages = (Answer,)


def awaited_of(scenario: Scenario, step: Step[Any]) -> dict[str, Awaited]:
    """What a stage of the scenario waits for, by name."""
    flows = {name: step.ask(Another, {"name": name}) for name in scenario.flows}
    parties = {name: step.ask(PARTIES, {"ref": step.answer_id(name)}) for name in scenario.parties}
    return {**flows, **parties, **{name: step.event(name, keep_early=True) for name in scenario.events}}


def answer_of(ask: Send, envelope: Envelope, failing: tuple[str, ...]) -> Send:
    """The Complete message of the run that the ask starts, as the other flow's own planner writes it."""
    arrival = Routes([Another]).resolve(envelope, _MOMENT)
    planner = Planner(Another, arrival.message, _MOMENT)
    if any(f'"{name}"' in arrival.message.body for name in failing):
        commit = planner.failed(ErrorNote("ValueError", "it failed", _MOMENT), envelope)
    else:
        step = Step(arrival.message, state=NoState(), clock=ManualClock(_MOMENT), committed_at=_MOMENT)
        commit = planner.ended(Answer().handle(json.loads(arrival.message.body), step), step)
    assert commit.outbox is not None
    return next(send for send in commit.outbox.sends if send.kind is Kind.COMPLETE)

"""Runs that go round in one function for longer than Lambda's loop detection lets a chain of requests go on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pydantic import BaseModel

from flowguard import PER_REQUEST, Done, Flow, Outcome, Stage, Step
from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import Kind, Send
from tests.proofs.soak.check import Check, same

ROUNDS: Final = "soak-rounds"
TIMES: Final = 20
"""Hops of a run: more than the 16 invocations that a chain may have of a function whose loops Lambda terminates."""


class Round(BaseModel):
    pass


class GoRound(Stage[Round], name="go-round", then="go-round"):
    def handle(self, payload: Round, step: Step) -> Outcome:
        step.update(ROUNDS, {"id": step.request_id}, "ADD hops :one", values={":one": 1})
        return GoRound.message(payload) if step.hop < TIMES else Done()


class Rounds(Flow, name="soak-rounds", object_id=PER_REQUEST, inbox="soak-rounds", max_hops=TIMES):
    stages = (GoRound,)


def send(request_id: str, at: int) -> Send:
    """The request as it is sent, ms since 1970."""
    message, inbox = Rounds.request(Round(), request_id=RequestId(request_id), requested_at=at)
    return Send(Kind.SIDE, inbox, message.body, message.request_id, message.attributes(), 0, message.object_id)


def round_sums(asked: Collection[str], hops: Mapping[str, int]) -> Iterator[Check]:
    """``hops`` counts the commits of each run."""
    yield same(
        f"rounds: each run has its {TIMES} hops, each applied once",
        (f"{request_id} {TIMES}" for request_id in asked),
        (f"{request_id} {times}" for request_id, times in hops.items()),
    )

"""A driver that replays answers: a way through the runtime, its branches as rows of a table.

What a way asks of the store gets the next answer of the row, or has the next error thrown in. What else it does is
noted: releases, sends, postponements, events.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flowguard.clock import ManualClock
from flowguard.events import Tally
from flowguard.names.ids import SeededIds
from flowguard.protocol.claims import taken
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import BackOff, Claim, Rest, RunItem
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import ErrorNote
from flowguard.worker.asks import Answer, Ask, Calls, Claiming, Committing, Judging
from flowguard.worker.driving import Driver
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Refusal, Services, Unlimited
from flowguard.worker.routing import Arrival
from flowguard.worker.runtime import Runtime

Recorded: TypeAlias = Answer | Exception | Callable[[Any], Answer]
"""An answer, an error, or what makes an answer of the ask."""

_NAMES: Mapping[type[Any], str] = {Claiming: "claim", Judging: "read", Committing: "commit"}


def given(before: RunItem | None = None) -> Callable[[Any], Claim]:
    """Answer that the hop is claimed, or may be. The claim found this item."""

    def answer(ask: Claiming | Judging) -> Claim:
        read = ask.request if isinstance(ask, Judging) else None
        return Claim(ask.message, taken(before, ask.request), before, unwritten=read, at=ask.request.now)

    return answer


@dataclass
class Replayed:
    """The ports of one way. ``did`` names what was done, in order: asks, and what is done without asking."""

    answers: Sequence[Recorded]
    refusals: Mapping[int, Refusal] = field(default_factory=dict)
    """What becomes of what is sent before the ending."""
    clock: ManualClock = field(default_factory=lambda: ManualClock(0))
    did: list[str] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._left: Iterator[Recorded] = iter(self.answers)

    def run(self, arrival: Arrival) -> Ending:
        """Take the message its way. Raises as the way does."""
        services = self.services()
        ending = Driver(services).alone(Runtime(services, Emitter(self.tally)).work(arrival, Unlimited()))
        assert next(self._left, None) is None, "an answer was not asked for"
        return ending

    def services(self) -> Services:
        port: Any = self
        ids, draw = SeededIds(1), random.Random(1)
        watched: Callable[[Calls], Calls] = lambda calls: self._answered  # noqa: E731 - typed
        return Services(
            store=port, sender=port, clock=self.clock, ids=ids, observer=self.tally, draw=draw, watched=watched
        )

    def _answered(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        [ask] = asks
        self.asks.append(ask)
        self.did.append(_NAMES[type(ask)])
        answer = next(self._left)
        if isinstance(answer, Exception):
            raise answer
        return [answer(ask) if callable(answer) else answer]

    # -- what is done without asking

    @property
    def batches(self) -> None:
        return None

    def release(self, claim: Claim, now: int, *, failed: bool, rest: Rest = None, called_attempt: str = "") -> None:
        self.did.append("count the attempt" if failed else "release")

    def note_kills(self, claim: Claim) -> None:
        self.did.append(f"note {claim.item.kills} kills")

    def back_off(self, claim: Claim, back_off: BackOff) -> None:
        self.did.append("note the rest")

    def tell(self, claim: Claim, error: ErrorNote) -> None:
        self.did.append("tell")

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        self.did.append(f"send {' '.join(send.kind.value for send in sends)}")
        return self.refusals

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        self.did.append(f"postpone {seconds}")

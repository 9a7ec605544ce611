"""Outboxes that are sent again: by a takeover, or by a copy of the hop."""

from __future__ import annotations

from typing import Any

from flowguard.errors import SendFailed
from flowguard.protocol.outbox import Kind, Outbox
from flowguard.protocol.run import Claim, RunItem
from flowguard.worker import flush_phase
from flowguard.worker.flush_phase import FlushPhase
from tests.proofs.model.mutants.mutant import Mutant

_LEFT, _FLUSH = Outbox.left_by_another, FlushPhase.flush


def _own_too(self: Outbox, request_id: Any, not_before: int) -> Any:
    return tuple(send for send in self.sends if send.kind is not Kind.NEXT)


def _no_dead_letter(self: Outbox, request_id: Any, not_before: int) -> Any:
    return tuple(send for send in _LEFT(self, request_id, not_before) if send.kind is not Kind.DEAD)


def _next_too(self: Outbox, request_id: Any, not_before: int) -> Any:
    return () if self.request_id == request_id or self.committed_at < not_before else self.sends


def _however_old(self: Outbox, request_id: Any, not_before: int) -> Any:
    return _LEFT(self, request_id, 0)


def _flush_or_not(self: FlushPhase, arrival: Any, claim: Claim) -> None:
    try:
        _FLUSH(self, arrival, claim)
    except SendFailed:
        return


OUTBOXES = (
    Mutant(
        "flush-own",
        "a redriven hop sends its own old outbox",
        ((Outbox, "left_by_another", _own_too),),
        caught_by="used-up",
    ),
    Mutant(
        "flush-no-letter",
        "a takeover drops the old run's dead letter",
        ((Outbox, "left_by_another", _no_dead_letter),),
        caught_by="newer-fails",
    ),
    Mutant(
        "flush-next",
        "a takeover sends the old run's next hop too",
        ((Outbox, "left_by_another", _next_too),),
        harmless="it is told SUPERSEDED: one message that nobody needs",
    ),
    Mutant(
        "flush-old",
        "a takeover sends what was committed however long ago",
        ((Outbox, "left_by_another", _however_old),),
        caught_by="retention",
    ),
    Mutant(
        "flush-trusts",
        "a takeover takes the old run's messages for sent, whatever the item proves",
        ((flush_phase, "_has_sent", lambda before: True),),
        caught_by="newer-fails",
    ),
    Mutant(
        "flush-deaf",
        "a takeover goes on although its sends were refused",
        ((FlushPhase, "flush", _flush_or_not),),
        caught_by="newer-fails",
    ),
    Mutant(
        "no-resend",
        "a committed hop's outbox is not sent again",
        ((RunItem, "unsent_at", lambda self, hop: ()),),
        caught_by="chain",
    ),
    Mutant(
        "resend-any",
        "an outbox is sent again whichever hop asks",
        ((RunItem, "unsent_at", lambda self, hop: self.outbox.sends if self.outbox else ()),),
        harmless="copies of what the later hop's own record sends",
    ),
)

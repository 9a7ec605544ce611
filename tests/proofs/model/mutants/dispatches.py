"""Dispatch: what goes last, and that a record is acked after it."""

from __future__ import annotations

from typing import Any

from flowguard.protocol.outbox import Kind
from flowguard.worker import batch, dispatch
from flowguard.worker.ending import Ending
from tests.proofs.model.actions import Environment
from tests.proofs.model.mutants.mutant import Mutant


def _dispatch_all(services: Any, emitter: Any, endings: list[Ending], *, have_copies: bool = False) -> list[Ending]:
    """The last sends go whether or not those before them were taken."""
    each = [dispatch._send(services, emitter, endings, phase, have_copies=have_copies) for phase in range(3)]
    return [next((one for one in record if not one.ack), record[0]) for record in zip(*each, strict=True)]


def _dispatch_deaf(services: Any, emitter: Any, endings: list[Ending], *, have_copies: bool = False) -> list[Ending]:
    """What was refused is not sent again."""
    dispatch.dispatch(services, emitter, endings, have_copies=have_copies)
    return endings


DISPATCHES = (
    Mutant(
        "next-first",
        "the next hop goes with the rest",
        ((Kind, "phase", property(lambda self: 0)),),
        caught_by="sends",
    ),
    Mutant(
        "letter-first",
        "the dead letter goes with the rest",
        ((Kind, "phase", property(lambda self: 2 if self is Kind.NEXT else 0)),),
        caught_by="newer-fails",
    ),
    Mutant(
        "dispatch-on",
        "the next hop is sent although a side message was refused",
        ((batch, "dispatch", _dispatch_all),),
        caught_by="sends",
    ),
    Mutant(
        "dispatch-deaf",
        "a record is acked although its sends were refused",
        ((batch, "dispatch", _dispatch_deaf),),
        caught_by="sends",
    ),
    Mutant(
        "ack-first",
        "a record is acked before its messages are sent",
        environment=Environment(acks_before_sending=True),
        caught_by="chain",
    ),
)

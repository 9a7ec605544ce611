"""Calls of AWS services whose state is not compared."""

from __future__ import annotations

from typing import Final

from flowguard.sim.sends import sending
from flowguard.testing.explorer.record.history import CallRecord
from flowguard.testing.explorer.record.outside_call import OUTSIDE

ONCE_MORE: Final = ("Send", "Start", "Submit", "Run", "PutRecord")
"""Operations of which each call does something more. To put or to tag the same again is the same."""

_COMPARED: Final = frozenset({"dynamodb", "s3", "sqs", "sns", "events", "lambda", "scheduler", *OUTSIDE})


def is_noted(made: CallRecord) -> bool:
    """Answer whether a second call does a second thing, which no table and no queue shows."""
    if made.service in _COMPARED or sending(made.service, made.operation) is not None:
        return False
    return made.operation.startswith(ONCE_MORE)

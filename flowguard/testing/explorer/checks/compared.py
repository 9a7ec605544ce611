"""The calls whose effect is in the comparison of ends: tables, objects in S3, and messages."""

from __future__ import annotations

from typing import Final

from flowguard.sim.sends import sending
from flowguard.testing.explorer.record.history import CallRecord
from flowguard.testing.explorer.record.noted_calls import is_noted
from flowguard.testing.explorer.record.outside_call import OUTSIDE

_WHOLE: Final = frozenset({"dynamodb", "s3", *OUTSIDE})
"""Services of which all state is compared."""

_TIMING: Final = frozenset({"ChangeMessageVisibility", "ChangeMessageVisibilityBatch"})


def is_compared(made: CallRecord) -> bool:
    """Answer whether what a call changes counts, or it changes nothing."""
    if made.is_read or made.service in _WHOLE or made.operation in _TIMING or is_noted(made):
        return True
    return made.of_record or made.is_played or sending(made.service, made.operation) is not None

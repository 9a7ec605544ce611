"""Which of several records a report is about.

A report has its message, and the same message may have come twice in one event. So it is read from the frames that lead
to the report, as the site of a call is.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any, Final

from flowguard.testing.explorer.record.site import is_flowguards

_AT_WORK: Final = frozenset(
    {*(("batch.py", name) for name in ("_arrival", "_ending", "_begun", "_broken")), ("callbacks.py", "take")}
)
_COMMITTED: Final = ("batch.py", "_committed")
_SENDING: Final = frozenset({("dispatch.py", "send_or_park"), ("dispatch.py", "_park")})
_SENT: Final = ("dispatch.py", "_send")


def told_record() -> str | None:
    """Return the id of the record that the calling report is about. None where the frames do not show one.

    What is sent at the end of an event is of the record whose ending is sent.
    """
    number: int | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        place = frame.f_code.co_filename.rpartition(os.sep)[2], frame.f_code.co_name
        if place in _PLACES and is_flowguards(frame.f_code.co_filename):
            known: dict[str, Any] = frame.f_locals
            if place in _SENDING and number is None:
                number = known["number"]
            elif place == _SENT and number is not None:
                ending, _ = known["due"][number]
                return str(known["endings"][ending].envelope.message_id)
            elif place in _AT_WORK:
                return str(known["envelope"].message_id)
            elif place == _COMMITTED:
                return str(known["left"].arrival.envelope.message_id)
        frame = frame.f_back
    return None


_PLACES: Final = _AT_WORK | _SENDING | {_COMMITTED, _SENT}

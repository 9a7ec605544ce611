"""Lets the calls of a botocore client end before the invocation does that makes them.

::

    try 1 ── no answer ── pause ── try 2 ── no answer ── no time is left for another: the error is raised
    │<-- 5 s, or what is left -->│

The lean client does so by itself (``flowguard/aws/transport/json_client.py``). Nothing is kept from call to call, so
that threads, forks and environments restored from a snapshot share nothing.
"""

from __future__ import annotations

import time
from math import inf
from typing import Any, Final

from flowguard.aws.transport.connections import READ_SECONDS
from flowguard.aws.transport.retries import AFTER, LONGEST, MOST_LONGER
from flowguard.aws.transport.time_left import LEAST_SECONDS, seconds_left

_BEGAN: Final = "flowguard_began"
_READ: Final = "read_timeout"
"""Where botocore looks for how long a request waits for its answer. Versions that do not look wait for five seconds."""


_ASKS: Final = "Expect"
_ASKS_SECONDS: Final = 1
"""How long botocore waits, beside that, for S3 to say that it takes an object. Then it sends the object anyway."""


def end_in_time(client: Any) -> None:
    """Let each try of the client wait no longer than its invocation lasts, and begin none again that could not end.

    Outside an invocation, calls are as they were.
    """
    service = client.meta.service_model.service_id.hyphenize()
    created, retried, events = f"request-created.{service}", f"needs-retry.{service}", client.meta.events
    events.register_last(created, _begin)  # it is signed then: a renewal of keys takes time, too
    events.register_first(retried, _refuse_late)  # who answers first decides


def _begin(request: Any, **_: Any) -> None:
    """Note when a try begins, and cut how long it waits for its answer."""
    if (left := seconds_left()) != inf:
        request.context[_BEGAN] = time.monotonic()
        request.context[_READ] = min(READ_SECONDS, left)
        if left < READ_SECONDS + _ASKS_SECONDS:
            del request.headers[_ASKS]  # it is not signed


def _refuse_late(attempts: int, request_dict: Any, response: Any, **_: Any) -> bool | None:
    """Refuse another try unless there is time for the longest pause before it, and for as long as the last one took.

    None leaves to botocore whether there is one.
    """
    if (began := request_dict["context"].get(_BEGAN)) is None:
        return None
    took = max(time.monotonic() - began, LEAST_SECONDS)
    return None if _longest_pause(attempts, response) + took < seconds_left() else False


def _longest_pause(attempts: int, response: Any) -> float:
    """Return for how long (s) botocore may pause after so many tries."""
    asks = response is not None and AFTER in response[0].headers
    return min(2.0 ** (attempts - 1), LONGEST) + (MOST_LONGER if asks else 0)

"""What a process is refused, and since when.

A record's receives do not say that: each throttled or failed invocation uses up one. A record that has waited out a
backlog meets its first denial at its tenth receive.

::

    12:00:00  record 1, receive 9   queue 'prices' ✗ denied    noted                        comes again
    12:00:01  record 2, receive 1   queue 'prices' ✓           forgotten
    12:00:02  record 3, receive 12  queue 'prices' ✗ denied    noted anew                   comes again
    12:04:00  record 3, receive 13  queue 'prices' ✗ denied    refused for four minutes     final
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.worker import patience

_RECEIVES_OF_MINUTES: Final = 3
"""The receive at which a record has waited twice for so long, about five minutes in all."""

FORGOTTEN_AFTER: Final = timedelta(hours=3)
"""A denial that came so long after the last one is another. Two longest pauses of one record are less."""


class _Denied(NamedTuple):
    """When something was refused first and last, in ms."""

    first: int
    last: int


class Denials:
    """Remembers what is refused for as long as its process lives, and nothing of messages."""

    def __init__(self) -> None:
        self._denied: dict[str, _Denied] = {}

    def are_final(self, what: str, envelope: Envelope, now: int, since: int = 0) -> bool:
        """Note that ``what`` was refused to a record at ``now`` (ms). Answer whether that lasts for minutes by now.

        The record has to have waited as well; one that no queue brings again cannot. ``since`` is when it was first
        sent (ms), if SQS gave it up since then and it went back, else 0.
        """
        has_lasted = self._last_until(what, now) >= patience.SOME_MINUTES
        went_back = bool(since) and timedelta(milliseconds=now - since) >= patience.SOME_MINUTES
        has_waited = has_lasted and envelope.receive_count >= _RECEIVES_OF_MINUTES
        return envelope.queue_arn is None or went_back or has_waited

    def _last_until(self, what: str, now: int) -> timedelta:
        """Note the refusal. Return for how long it is refused by now, taken never between."""
        denied = self._denied.get(what, _Denied(now, now))
        if timedelta(milliseconds=now - denied.last) > FORGOTTEN_AFTER:
            denied = _Denied(now, now)
        self._denied[what] = denied._replace(last=now)
        return timedelta(milliseconds=now - denied.first)

    def ended(self, what: str) -> None:
        """Forget that it was refused: it was taken."""
        self._denied.pop(what, None)


def writes_of(message: Message) -> str:
    """Return what names the writes and reads of a stage among what is refused."""
    return f"the writes of {message.flow}/{message.stage}"


def other_releases_of(flow: str) -> str:
    """Return what names a flow's messages of releases that this code does not know."""
    return f"other releases of {flow}"

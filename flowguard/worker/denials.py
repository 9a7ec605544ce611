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

from collections.abc import Iterable
from datetime import timedelta
from typing import Final, TypeAlias

from flowguard.protocol.outbox import Send
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.envelope import Envelope
from flowguard.worker import patience

_RECEIVES_OF_MINUTES: Final = 3
"""The receive at which a record has waited twice for so long, three to ten minutes in all."""

AT_LAST: Final = timedelta(days=1)
"""The age at which a record has waited, also for a denial that each new process meets for the first time."""

FORGOTTEN_AFTER: Final = timedelta(hours=3)
"""A denial that came so long after the last one is another. Two longest pauses of one record are less."""

MOST_KNOWN: Final = 1_000
"""Of so many the old ones are forgotten: senders choose where answers go."""

Refused: TypeAlias = str | frozenset[str]
"""A destination, or the tables of a stage's writes."""


class _Denied(NamedTuple):
    """When something was refused first and last, in ms."""

    first: int
    last: int


class Denials:
    """Remembers what is refused for as long as its process lives. Threads may share one."""

    def __init__(self) -> None:
        self._denied: dict[Refused, _Denied] = {}

    def are_final(
        self, refused: Refused, envelope: Envelope, now: int, since: int = 0, *, comes_often: bool = False
    ) -> bool:
        """Note that ``refused`` was denied to a record at ``now`` (ms). Answer whether that lasts for minutes by now.

        The record has to have waited as well; one that nothing brings again cannot, and one of a stream always has: all
        behind it wait, too. Its age says nothing there, for streams are read from their beginning. ``since`` is when it
        was first sent (ms), if SQS gave it up since then and it went back, else 0: what it has waited before says
        nothing of this denial. One that stands in line for a limit between its tries is another record each time. It
        ``comes_often``.
        """
        has_lasted = self._last_until(refused, now) >= patience.SOME_MINUTES
        sent_at = since or (now if envelope.sent_at is None else envelope.sent_at)
        is_old = not envelope.source.is_stream and timedelta(milliseconds=now - sent_at) >= AT_LAST
        has_waited = comes_often or envelope.source.is_stream or envelope.receive_count >= _RECEIVES_OF_MINUTES
        return envelope.source_arn is None or ((has_lasted or is_old) and has_waited)

    def have_lasted(self, refused: Refused, now: int) -> bool:
        """Answer whether this process knows by ``now`` (ms) that it was refused for minutes, and never taken."""
        denied = self._denied.get(refused)  # None where another thread's write was taken just now
        return denied is not None and timedelta(milliseconds=now - denied.first) >= patience.SOME_MINUTES

    def _last_until(self, refused: Refused, now: int) -> timedelta:
        """Note the refusal. Return for how long it is refused by now, taken never between."""
        if len(self._denied) >= MOST_KNOWN:
            self._denied = {known: denial for known, denial in list(self._denied.items()) if not _is_over(denial, now)}
        denied = self._denied.get(refused, _Denied(now, now))
        if _is_over(denied, now):
            denied = _Denied(now, now)
        self._denied[refused] = denied._replace(last=now)
        return timedelta(milliseconds=now - denied.first)

    def ended(self, send: Send) -> None:
        """Forget that its destination was refused: it was taken."""
        self._denied.pop(place_of(send), None)

    def ended_for(self, tables: Iterable[str]) -> None:
        """Forget that writes to some of the tables were refused: they were taken."""
        taken = frozenset(tables)
        for refused in list(self._denied):
            if not isinstance(refused, str) and refused <= taken:
                self._denied.pop(refused, None)


def _is_over(denied: _Denied, now: int) -> bool:
    return timedelta(milliseconds=now - denied.last) > FORGOTTEN_AFTER


def place_of(send: Send) -> str:
    """Return what names its destination among what is refused. A long delay is the scheduler's, another service."""
    is_scheduled = send.delay > LONGEST_SQS_DELAY.total_seconds()
    return f"{send.to} by a schedule" if is_scheduled else str(send.to)


def other_releases_of(flow: str) -> str:
    """Return what names a flow's messages of releases that this code does not know."""
    return f"other releases of {flow}"

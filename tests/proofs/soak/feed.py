"""Sends a soak's requests, never many more than the workers have before them."""

from __future__ import annotations

from collections.abc import Sequence

from flowguard.clock import SystemClock
from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import Kind, Send
from flowguard.worker.ports import Sender
from tests.proofs.soak.request import Asked

AHEAD = 400
"""Messages that lie ready, at most: newer requests are to meet runs of older ones, so it is not a handful either."""

_LONG_AGO_MS = 3_600_000


class Feed:
    """Each call of ``more`` sends what there is room for."""

    def __init__(self, sender: Sender, sends: Sequence[Asked]) -> None:
        self._sender = sender
        self._sends = sends
        self._next = 0
        self._began = SystemClock().now() - _LONG_AGO_MS

    @property
    def is_over(self) -> bool:
        return self._next == len(self._sends)

    def more(self, waiting: int) -> None:
        """``waiting`` is how many messages the inbox holds."""
        room = AHEAD - waiting
        if room < AHEAD // 4 and not self.is_over:
            return
        chunk = self._sends[self._next : self._next + max(room, 0)]
        self.send(chunk)
        self._next += len(chunk)

    def send(self, chunk: Sequence[Asked]) -> None:
        """Send these now."""
        if failures := self._sender.send([self._send(asked) for asked in chunk]):
            raise NotSent(str(failures))

    def _send(self, asked: Asked) -> Send:
        message, inbox = asked.flow.request(
            asked.payload, request_id=RequestId(asked.request_id), requested_at=self._began + asked.moment
        )
        return Send(
            Kind.SIDE, inbox, message.body, message.request_id, message.attributes(), asked.delay, message.object_id
        )


class NotSent(Exception):
    """The queue did not take the soak's own requests: nothing can be said about the rest."""

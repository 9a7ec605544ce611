"""What a process has sent for records of streams. A stream brings a record again for as long as one before it stays.

::

    head, which stays   record ✗ unreadable   letter ✓ noted     the head keeps the shard
    head, which stays   record ✗ unreadable   (letter noted)     nothing is sent
"""

from __future__ import annotations

from typing import Final

from flowguard.names.ids import Owner
from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.envelope import Envelope
from flowguard.wire.send_ids import digest_of

MOST_KNOWN: Final = 20_000
"""Of so many the older half is forgotten: twice the records of the largest batch."""


class StreamSends:
    """Remembers what was ``taken``, which lives as long as its process. Threads may share that.

    What is forgotten is sent once more, as after a crash or in another process.
    """

    def __init__(self, taken: dict[str, None], most: int = MOST_KNOWN) -> None:
        self._taken = taken
        self._most = most

    def has(self, send: Send, envelope: Envelope, owner: Owner | None = None) -> bool:
        """Answer whether this was taken for an earlier copy of the record.

        ``owner`` is the claim whose commit has the send: of another commit nothing was sent, whatever its ids are. What
        no commit has is known by its id if it is a dead letter, which has the whole record.
        """
        key = _key(send, envelope, owner)
        if key not in self._taken:
            return False
        self._note(key)
        return True

    def note(self, send: Send, envelope: Envelope, owner: Owner | None = None) -> None:
        """Note that this was taken, or parked."""
        if (key := _key(send, envelope, owner)) is not None:
            self._note(key)

    def _note(self, key: str) -> None:
        """Make it the newest of all."""
        self._taken.pop(key, None)
        self._taken[key] = None
        if len(self._taken) > self._most:
            for old in list(self._taken)[: -(self._most // 2)]:
                self._taken.pop(old, None)


def _key(send: Send, envelope: Envelope, owner: Owner | None) -> str | None:
    """Return what tells it from all others. None for what is not remembered.

    The whole record counts: of one that nobody can read, the place alone may be that of a record of another shard.
    """
    if owner is None and send.kind is not Kind.DEAD:
        return None
    return digest_of(envelope.received["body"], owner, str(send.to), send.id)

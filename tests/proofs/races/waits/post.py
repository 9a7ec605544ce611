"""The queues of this race: one file that all processes append to. Any of them may take any record that is due."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from flowguard.destinations import Queue
from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import FLOW_STAGE, Message
from flowguard.worker.ports import Refusal
from tests.proofs.races.post import is_redriven
from tests.proofs.races.shared import Shared
from tests.proofs.races.shared_file import Record, SharedFile, sqs_record
from tests.proofs.races.waits.flow import ASKED, CALLED, CHILDREN, INBOX

TOLD = "told"
"""Where nobody reads."""

ASKS: Final = frozenset({ASKED, CALLED})
"""The queues that parties read, who answer each message that they get."""

EARLY = 0.2
"""The share of deadlines that come before their time."""


class Post:
    """One process's view of the file. Implements :class:`flowguard.worker.ports.Sender`.

    ``waiting`` are the records that are due, the oldest first; ``later`` those that are not, with their times.
    """

    def __init__(self, path: Path, process: str, shared: Shared, draw: random.Random) -> None:
        self.waiting: dict[str, Record] = {}
        self.later: dict[str, tuple[int, Record]] = {}
        self.settled: deque[Record] = deque(maxlen=40)
        self._file = SharedFile(path)
        self._process, self._shared, self._draw = process, shared, draw
        self._written = 0

    # -- writing

    def request(self, message: Message) -> None:
        self.put("request", message.request_id, INBOX, message.body, message.attributes())

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        for send in sends:
            queue = send.to.short_name if isinstance(send.to, Queue) else str(send.to)
            if send.kind is Kind.DEAD:
                flow = send.attributes[FLOW_STAGE].value.partition("/")[0]
                queue = {"waits": INBOX, "child": CHILDREN}[flow] if is_redriven(send.id) else TOLD
            early = self._draw.randrange(500) if self._draw.random() < EARLY else 0
            ticks = max(0, send.delay * 1_000 - early)
            self.put(send.kind.value, send.id, queue, send.body, send.attributes, ticks)
        return {}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        """Nobody waits here: a record that is not settled may be tried again at once."""

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        """Nobody waits here: a record that is not settled may be tried again at once."""

    def settle(self, record: Record) -> None:
        self._file.write({"settled": record["messageId"]})

    def put(
        self,
        kind: str,
        own: str,
        queue: str,
        body: str,
        attributes: Mapping[str, Attribute],
        ticks: int = 0,
    ) -> None:
        """Put a message into a queue, from which it may be taken after so many ticks."""
        self._written += 1
        record = sqs_record(f"{self._process}-{self._written}", queue, body, attributes)
        due = self._shared.now() + ticks if ticks else 0
        self._file.write({"kind": kind, "id": own, "queue": queue, "due": due, "record": record})

    # -- reading

    def read(self) -> None:
        """Take in what was written since, whole lines only, and what has become due."""
        for line in self._file.written_since():
            self._take(line)
        now = self._shared.now()
        for name in [name for name, (due, _) in self.later.items() if due <= now]:
            self.waiting[name] = self.later.pop(name)[1]

    def _take(self, line: Mapping[str, Any]) -> None:
        if "settled" in line:
            self.later.pop(line["settled"], None)
            if (record := self.waiting.pop(line["settled"], None)) is not None and queue_of(record) not in ASKS:
                self.settled.append(record)
        elif line["queue"] != TOLD:
            name = line["record"]["messageId"]
            if line["due"]:
                self.later[name] = line["due"], line["record"]
            else:
                self.waiting[name] = line["record"]


def queue_of(record: Record) -> str:
    return str(record["eventSourceARN"]).rpartition(":")[2]

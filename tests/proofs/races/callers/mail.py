"""What one process still has to deliver, and what it has answered, in a file that outlives it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.envelope import Envelope
from flowguard.worker.ports import Refusal
from tests.proofs.races.callers.flow import INBOX, asked
from tests.proofs.races.shared_file import Record, sqs_record


class Mail:
    """Implements :class:`flowguard.worker.ports.Sender`. ``open`` are the ids of the records that are not settled."""

    def __init__(self, path: Path, numbers: Iterable[int], life: int) -> None:
        self.open: dict[str, Any] = {f"m{number}": number for number in numbers}
        self._life, self._sent = life, 0
        for line in lines(path):
            self._take(line)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _take(self, line: Mapping[str, Any]) -> None:
        if "settled" in line:
            self.open.pop(line["settled"], None)
        elif "messageId" in line:
            self.open[line["messageId"]] = line

    def record(self, message_id: str) -> Record:
        found = self.open[message_id]
        return asked(found) if isinstance(found, int) else found

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        for send in sends:
            if send.kind is Kind.COMPLETE:
                self._write({"answer": send.id, **json.loads(send.body)})
                continue
            self._sent += 1
            name = f"{send.kind.value}-{self._life}-{self._sent}"
            self._write(sqs_record(name, INBOX, send.body, send.attributes))
        return {}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        """Nobody waits here: a record that is not settled may be tried again at once."""

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        """Nobody waits here: a record that is not settled may be tried again at once."""

    def settle(self, message_id: str) -> None:
        if message_id in self.open:
            self._write({"settled": message_id})

    def _write(self, line: Mapping[str, Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")
        self._take(line)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_bytes().splitlines()) if path.exists() else iter(())

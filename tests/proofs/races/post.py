"""The queues of a race: one file that all processes append to, and read on from where each has got to.

A record may be delivered by any process at any time, as often as it likes, until and after it was acknowledged.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import FLOW_STAGE, PLACE, Message
from flowguard.worker.ports import Refusal
from tests.proofs.races.flow import FLOWS
from tests.proofs.races.shared_file import Record, SharedFile, sqs_record

LETTERS_LEFT = 4
"""One of so many dead letters stays where it is; the others are redriven."""

_INBOX = {flow.name: str(flow.inbox).removeprefix("sqs:") for flow in FLOWS}


@dataclass
class Mail:
    """The messages of one object."""

    requests: int = 0
    waiting: dict[str, Record] = field(default_factory=dict)
    settled: deque[Record] = field(default_factory=lambda: deque(maxlen=12))


class Post:
    """One process's view of the file. Implements :class:`flowguard.worker.ports.Sender`.

    ``mail`` is by the objects' numbers, ``busy`` are those with mail that waits.
    """

    def __init__(self, path: Path, process: str) -> None:
        self.mail: dict[int, Mail] = {}
        self.busy: set[int] = set()
        self.written = 0
        self._file = SharedFile(path)
        self._process = process

    # -- writing

    def request(self, message: Message) -> None:
        self._put("request", message.request_id, message.body, message.attributes())

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        for send in sends:
            kind = send.kind.value
            if send.kind is Kind.COMPLETE:
                self._file.write({"kind": kind, "id": send.id})
                continue
            self._put(kind, send.id, send.body, send.attributes)
        return {}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        """Nobody waits here: a record that is not settled may be tried again at once."""

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        """Nobody waits here: a record that is not settled may be tried again at once."""

    def settle(self, record: Record) -> None:
        self._file.write({"settled": record["messageId"], "object": record["attributes"]["MessageGroupId"]})

    def _put(self, kind: str, own: str, body: str, attributes: Mapping[str, Attribute]) -> None:
        """Into its flow's inbox; a dead letter too, for that is where a redrive puts it."""
        self.written += 1
        object_id = json.loads(attributes[PLACE].value)["object"]
        inbox = _INBOX[attributes[FLOW_STAGE].value.partition("/")[0]]
        record = sqs_record(f"{self._process}-{self.written}", inbox, body, attributes, MessageGroupId=object_id)
        self._file.write({"kind": kind, "id": own, "object": object_id, "record": record})

    # -- reading

    def read(self) -> None:
        """Take in what was written since, whole lines only."""
        for line in self._file.written_since():
            self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        if line.get("kind") == Kind.COMPLETE.value:
            return
        number = int(line["object"].removeprefix("o"))
        mail = self.mail.setdefault(number, Mail())
        if "settled" in line:
            if (record := mail.waiting.pop(line["settled"], None)) is not None:
                mail.settled.append(record)
                if not mail.waiting:
                    self.busy.discard(number)
            return
        mail.requests += line["kind"] == "request"
        if line["kind"] != Kind.DEAD.value or is_redriven(line["id"]):
            mail.waiting[line["record"]["messageId"]] = line["record"]
            self.busy.add(number)


def object_name(number: int) -> str:
    return f"o{number}"


def is_redriven(letter: str) -> bool:
    """Every process comes to the same opinion, so that several redrive one letter at once."""
    return crc32(letter.encode()) % LETTERS_LEFT != 0


def read_post(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]

"""One file that all processes of a race append lines to, and the records of queues in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flowguard.wire.attributes import Attribute

Record = dict[str, Any]
"""An SQS record as a Lambda event has it."""


class SharedFile:
    """One process's view of the file."""

    def __init__(self, path: Path) -> None:
        self._append = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = path.open("rb")

    def write(self, line: Mapping[str, Any]) -> None:
        os.write(self._append, json.dumps(line).encode() + b"\n")

    def written_since(self) -> Iterator[dict[str, Any]]:
        """What all have written since the last call, whole lines only."""
        begin = self._file.tell()
        text = self._file.read()
        whole = text.rfind(b"\n") + 1
        self._file.seek(begin + whole)
        return map(json.loads, text[:whole].splitlines())


def sqs_record(name: str, queue: str, body: str, attributes: Mapping[str, Attribute], **system: str) -> Record:
    """A record of the queue, with its system attributes beside the receive count."""
    return {
        "messageId": name,
        "receiptHandle": "receipt",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1", **system},
        "messageAttributes": {name: one.to_sqs_record() for name, one in attributes.items()},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
        "awsRegion": "us-east-1",
    }

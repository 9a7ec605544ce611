"""``python -m tests.proofs.bench.answering``: DynamoDB's side of a connection, in a process of its own.

It prints its port, and answers as DynamoDB does of items that were not there, until its input ends.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from zlib import crc32

from tests.proofs.bench.stub import Answer

RECORDS: Final = 10
_TARGET: Final = re.compile(rb"x-amz-target: *DynamoDB_20120810\.(\w+)", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def one_answer(operation: str) -> Answer:
    """No item was there, and the commits have nothing to answer."""
    return {"Responses": [{"TableName": "flowguard"}] * RECORDS} if operation == "BatchExecuteStatement" else {}


@contextmanager
def answering() -> Iterator[str]:
    """The URL of such a process, which lives as long as the block."""
    command = [sys.executable, "-m", "tests.proofs.bench.answering"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


def _whole(operation: str) -> bytes:
    body = json.dumps(one_answer(operation)).encode()
    head = (
        "HTTP/1.1 200 OK\r\nServer: Server\r\nDate: Thu, 26 Nov 2026 09:00:00 GMT\r\n"
        f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\nConnection: keep-alive\r\n"
        f"x-amzn-RequestId: 5VKQ3ZT6N0BENCH\r\nx-amz-crc32: {crc32(body)}\r\n\r\n"
    )
    return head.encode() + body


def _serve(connection: socket.socket, answers: dict[str, bytes]) -> None:
    buffered = b""
    while more := connection.recv(1 << 20):
        buffered += more
        head, end, body = buffered.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or length is None or len(body) < int(length[1]):
            continue
        target = _TARGET.search(head)
        operation = "" if target is None else target[1].decode()
        if operation not in answers:
            answers[operation] = _whole(operation)
        connection.sendall(answers[operation])
        buffered = b""


def main() -> None:
    listening, answers = socket.create_server(("127.0.0.1", 0)), dict[str, bytes]()

    def accept() -> None:
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_serve, args=(connection, answers), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

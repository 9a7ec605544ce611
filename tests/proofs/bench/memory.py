"""Memory of a warm worker over 100,000 messages, each of another request and object: does anything stay behind?

The worker is a process of its own, on the stub in the place of botocore's HTTP connection. Half of its messages go
alone, half in events of ten that share their calls. What it has in memory is read after a tenth of them, when
everything is loaded and each cache full, and at the end.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from flowguard import Settings, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from tests.proofs.bench.answering import RECORDS, one_answer
from tests.proofs.bench.batches import a_batch, taken
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import Context, OneStage
from tests.proofs.bench.stub import a_session, answer

MESSAGES: Final = 100_000
MARK: Final = 1.01
NOISE: Final = 0.02
ROOT: Final = Path(__file__).parents[3]


def figures(messages: int = MESSAGES) -> list[Figure]:
    first, last = grown(messages)
    note = f"{last - first:+,} KiB on {first / 1024:,.0f} MiB"
    return [Figure(f"memory after {messages:,} messages, of a tenth", last / first, MARK, "×", note, NOISE)]


def grown(messages: int) -> tuple[int, int]:
    """KiB of the process after a tenth of so many messages, and after all of them."""
    command = [sys.executable, "-m", "tests.proofs.bench.memory", str(messages)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=True)
    first, last = json.loads(done.stdout)
    return first, last


def work(messages: int) -> tuple[int, int]:
    clients = Clients(a_session())
    answer(clients.dynamodb, one_answer)
    handler = lambda_handler(OneStage, together=True).using(aws_services(Settings(), clients))
    rounds, first = messages // (2 * RECORDS), 0
    for number in range(rounds):
        taken(handler(a_batch(RECORDS, name=f"together-{number}"), Context()))
        for record in a_batch(RECORDS, name=f"alone-{number}")["Records"]:
            taken(handler({"Records": [record]}, Context()))
        if number == rounds // 10:
            first = kib()
    return first, kib()


def kib() -> int:
    """What the process has in memory now."""
    found: Any = re.search(r"VmRSS:\s*([0-9]+) kB", Path("/proc/self/status").read_text())
    return int(found[1])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(work(int(sys.argv[1]))))

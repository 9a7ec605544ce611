"""What a cold start loads, against bare boto3 clients and pydantic with the same models: CPU and memory.

Each side is a fresh process and makes ready to handle: modules, models, a client of DynamoDB and one of SQS. The two
take turns, and the least of many rounds counts: what is above it is the machine's noise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.proofs.bench.figure import Figure

MARK = 1.10
ROUNDS = 15
ROOT = Path(__file__).parents[3]

FLOWGUARD = """
import os
from flows.validate_cart.handlers import price_cart
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.settings import Settings
clients = Clients()
ready = price_cart.using(aws_services(Settings.from_environment(os.environ), clients)), clients.sqs
"""

BARE = """
import boto3
from flows.validate_cart import models
session = boto3.session.Session()
ready = session.client("dynamodb"), session.client("sqs")
"""

_MEASURED = """
import time

def deep(frames):
    if frames:
        return deep(frames - 1)
    exec({work!r}, {{}})

begun = time.process_time()
deep({frames})
spent = time.process_time() - begun
import json, re
with open("/proc/self/status") as status:  # what getrusage tells is the parent's, where that was larger
    memory = int(re.search(r"VmHWM:\\s*([0-9]+) kB", status.read())[1])
print(json.dumps([spent * 1000, memory / 1024]))
"""


class Start(NamedTuple):
    """CPU in ms, without the interpreter's own start; the process's largest memory in MiB, with it."""

    cpu: float
    memory: float


def figures(rounds: int = ROUNDS) -> list[Figure]:
    ours, bare = least(rounds, FLOWGUARD, BARE)
    cpu = f"{ours.cpu - bare.cpu:+.0f} ms on {bare.cpu:.0f} ms"
    memory = f"{ours.memory - bare.memory:+.1f} MiB on {bare.memory:.0f} MiB"
    return [
        Figure("CPU of a cold start", ours.cpu / bare.cpu, MARK, "×", cpu),
        Figure("memory of a cold start", ours.memory / bare.memory, MARK, "×", memory),
    ]


def least(rounds: int, *works: str) -> list[Start]:
    """The least that each needs, rounds interleaved. A first round, uncounted, leaves compiled modules behind.

    Each round begins at another depth of the stack: Python keeps its frames in pieces of 16 KB, and a loop that
    happens to run on the edge of a piece maps and unmaps the next one with every call, which can cost a fifth more.
    """
    for work in works:
        start(work)
    found = [[start(work, frames=7 * number) for work in works] for number in range(rounds)]
    return [Start(*(min(values) for values in zip(*column, strict=True))) for column in zip(*found, strict=True)]


def start(work: str, frames: int = 0) -> Start:
    """Runs it in a process that knows no account and no file of the user's."""
    environment = {
        "PATH": os.defpath,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "a secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    command = [sys.executable, "-c", _MEASURED.format(work=work, frames=frames)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return Start(*json.loads(done.stdout))

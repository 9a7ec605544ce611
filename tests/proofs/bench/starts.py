"""What a cold start loads, against bare boto3 clients and pydantic with the same models, and against others.

Each side is a fresh process and makes ready to handle: modules, models, clients. The sides take turns, and the least of
many rounds counts: what is above it is the machine's noise.

::

    flowguard    flows/validate_cart/handlers.py, its clients of DynamoDB and SQS           ┐
    bare         boto3, the same models, the same clients                                   │
    least        the same models, and the lean clients of both: no flow, no worker          │ each in a process
    Powertools   boto3, its idempotency and batches, the same models, the same clients      │ of its own
    durable SDK  the decorator, the same models, its client of Lambda                       ┘
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.engines.process import EngineMissing, engine_home
from tests.proofs.bench.figure import Figure

MARK: Final = 1.05
NOISE: Final = 0.05
LEAN_MARK: Final = 0.60
MEMORY_MARK: Final = 1.10
LEAN_MEMORY_MARK: Final = 0.75
ROUNDS: Final = 15
ROOT: Final = Path(__file__).parents[3]

FLOWGUARD: Final = """
import os
from flows.validate_cart.handlers import price_cart
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.settings import Settings
clients = Clients()
ready = price_cart.using(aws_services(Settings.from_environment(os.environ), clients)), clients.sqs
"""

_FAILED: Final = """
import sys, types
from pydantic import BaseModel
sys.modules["flowguard"] = types.SimpleNamespace(Failed=BaseModel)
"""
"""Another model stands for the one that the models take from flowguard."""

_ALONE: Final = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("models", "flows/validate_cart/models.py")
sys.modules["models"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["models"])
"""
_MODELS: Final = _FAILED + _ALONE
"""The same models and nothing of flowguard."""

BARE: Final = f"""
import boto3
{_MODELS}
session = boto3.session.Session()
ready = session.client("dynamodb"), session.client("sqs")
"""

LEAST: Final = f"""
{_ALONE}
from flowguard.aws.clients import Clients
clients = Clients()
ready = clients.dynamodb, clients.sqs
"""
"""What a start with the lean client is at least: the models, which take theirs from flowguard, and the clients."""

POWERTOOLS: Final = f"""
import boto3
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function,
)
{_MODELS}
session = boto3.session.Session()
store = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=session.client("dynamodb"))
guarded = idempotent_function(
    lambda cart: None, data_keyword_argument="cart", persistence_store=store, config=IdempotencyConfig()
)
ready = BatchProcessor(event_type=EventType.SQS), session.client("sqs")
"""

DURABLE: Final = f"""
from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.lambda_service import LambdaClient
{_MODELS}
ready = durable_execution(lambda event, context: None), LambdaClient.initialize_client()
"""

_MEASURED: Final = """
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


class Program(NamedTuple):
    """What a process runs, and the Python that it runs in."""

    work: str
    python: str = sys.executable
    client: str = "boto3"


LEAN: Final = Program(FLOWGUARD, client="lean")
LEAST_LEAN: Final = Program(LEAST, client="lean")


class Start(NamedTuple):
    """CPU in ms, without the interpreter's own start; the process's largest memory in MiB, with it."""

    cpu: float
    memory: float


def figures(rounds: int = ROUNDS) -> list[Figure]:
    try:
        python = str(engine_home("rivals") / "bin" / "python")
    except EngineMissing as missing:
        ours, lean, floor, bare = least(rounds, Program(FLOWGUARD), LEAN, LEAST_LEAN, Program(BARE))
        return [
            *_of_bare(ours, bare),
            *_of_lean(lean, floor, bare),
            Figure("  of Powertools, of the durable SDK", None, None, "×", str(missing)),
        ]
    rivals = (Program(POWERTOOLS, python), Program(DURABLE, python))
    programs = (Program(FLOWGUARD), LEAN, LEAST_LEAN, Program(BARE), *rivals)
    ours, lean, floor, bare, powertools, durable = least(rounds, *programs)
    cpu, memory = _of_bare(ours, bare)
    return [
        cpu,
        Figure("  of Powertools' batch and idempotency", ours.cpu / powertools.cpu, None, "×", _ms(powertools)),
        Figure("  of the durable execution SDK", ours.cpu / durable.cpu, None, "×", _ms(durable)),
        *_of_lean(lean, floor, bare),
        memory,
    ]


def _of_lean(lean: Start, floor: Start, bare: Start) -> tuple[Figure, Figure, Figure]:
    cpu, memory = f"{lean.cpu:.0f} ms", f"{lean.memory - bare.memory:+.1f} MiB"
    return (
        Figure("CPU of a cold start with the lean client", lean.cpu / bare.cpu, LEAN_MARK, "×", cpu, NOISE),
        Figure("  of its models and clients alone", floor.cpu / bare.cpu, None, "×", f"{floor.cpu:.0f} ms: no flow"),
        Figure("  its memory", lean.memory / bare.memory, LEAN_MEMORY_MARK, "×", memory),
    )


def _of_bare(ours: Start, bare: Start) -> tuple[Figure, Figure]:
    cpu = f"{ours.cpu - bare.cpu:+.0f} ms on {bare.cpu:.0f} ms"
    memory = f"{ours.memory - bare.memory:+.1f} MiB on {bare.memory:.0f} MiB"
    return (
        Figure("CPU of a cold start", ours.cpu / bare.cpu, MARK, "×", cpu, NOISE),
        Figure("memory of a cold start", ours.memory / bare.memory, MEMORY_MARK, "×", memory),
    )


def _ms(start: Start) -> str:
    return f"it takes {start.cpu:.0f} ms and {start.memory:.0f} MiB"


def least(rounds: int, *programs: Program) -> list[Start]:
    """The least that each needs, rounds interleaved. A first round, uncounted, leaves compiled modules behind.

    Each round begins at another depth of the stack: Python keeps its frames in pieces of 16 KB, and a loop that
    happens to run on the edge of a piece maps and unmaps the next one with every call, which can cost a fifth more.
    """
    for program in programs:
        start(program)
    found = [[start(program, frames=7 * number) for program in programs] for number in range(rounds)]
    return [Start(*(min(values) for values in zip(*column, strict=True))) for column in zip(*found, strict=True)]


def start(program: Program, frames: int = 0) -> Start:
    """Run it in a process that knows no account and no file of the user's."""
    environment = {
        "PATH": os.defpath,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "FLOWGUARD_CLIENT": program.client,
    }
    command = [program.python, "-c", _MEASURED.format(work=program.work, frames=frames)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return Start(*json.loads(done.stdout))

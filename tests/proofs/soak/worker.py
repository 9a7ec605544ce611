"""One worker: a process that does for its queue what Lambda does, until it is told to stop, or dies."""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.callback_function import CallbackHandler, callback_handler
from flowguard.flow import AnyFlow
from flowguard.handler import LambdaHandler, dlq_handler, lambda_handler
from flowguard.sim.calls import intercept
from flowguard.worker import patience
from tests.aws.transport.beneath import Beneath
from tests.proofs.soak.deaths import Deaths, Point
from tests.proofs.soak.faults import Faults
from tests.proofs.soak.journal import Journal
from tests.proofs.soak.mapping import Mapping, Record, die_at_the_end_of
from tests.proofs.soak.mutants import MUTANTS
from tests.proofs.soak.place import place_of, run_of
from tests.proofs.soak.sandbox import Sandbox


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.proofs.soak.worker", description=__doc__)
    parser.add_argument("--dynamodb", required=True, help="endpoint URL")
    parser.add_argument("--sqs", required=True, help="endpoint URL")
    parser.add_argument("--access-key", required=True)
    parser.add_argument("--flow", required=True, action="append", help="module:class; more than one may be given")
    parser.add_argument("--queue", required=True)
    parser.add_argument("--journal", required=True, type=Path)
    parser.add_argument("--name", default="worker")
    parser.add_argument("--dlq", action="store_true", help="the queue is where SQS puts what it moved away")
    parser.add_argument("--callbacks", action="store_true", help="the queue is where parties outside answer")
    parser.add_argument("--signed", action="store_true", help="sign messages, and believe nothing without a signature")
    parser.add_argument("--lean", action="store_true", help="call DynamoDB and SQS by the lean client")
    parser.add_argument("--patience", type=float, help="seconds that a record waits at most which nobody believes")
    parser.add_argument("--together", action="store_true", help="let the records of an event share their calls")
    parser.add_argument("--timeout", type=float, default=4, help="seconds that an invocation may take before it dies")
    parser.add_argument("--kill", type=float, default=0, help="the share of deliveries that kill the worker")
    parser.add_argument("--point", action="append", type=Point, help="where; anywhere when not given")
    parser.add_argument("--stall", type=float, default=0, help="the share of deliveries that outlive their lease")
    parser.add_argument("--throttle", type=float, default=0, help="the share of calls that AWS refuses")
    parser.add_argument("--lost", type=float, default=0, help="the share of calls that are applied, and not answered")
    parser.add_argument("--mutant", choices=MUTANTS, help="a guard of flowguard to work without")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, help="the most the process may have, in MiB")
    return parser


def main(words: Sequence[str]) -> None:
    given = arguments().parse_args(words)
    if given.memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (given.memory << 20, given.memory << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if given.mutant is not None:
        MUTANTS[given.mutant]()
    if given.patience is not None:
        patience.SOME_MINUTES = timedelta(seconds=given.patience)  # type: ignore[misc]  # nobody has minutes here
    journal = Journal(given.journal, given.name)
    sandbox = Sandbox(given.dynamodb, given.sqs, given.access_key, given.signed)
    flows = map(_flow, given.flow)
    handler: LambdaHandler | CallbackHandler
    if given.callbacks:
        handler = callback_handler(*flows)
    else:
        handler = dlq_handler(*flows) if given.dlq else lambda_handler(*flows, together=given.together)
    deaths = Deaths(given.kill, given.point or list(Point), given.seed, journal, given.stall)
    faults = Faults(given.throttle, given.lost, given.seed, journal)
    mapping = Mapping(
        sandbox.clients.sqs,
        sandbox.url(given.queue),
        handler.using(sandbox.services(journal.happened)),
        timedelta(seconds=given.timeout),
    )
    beneath = intercept(Beneath(), innermost=True) if given.lean else nullcontext()
    with intercept(deaths), intercept(faults), beneath:
        _work(mapping, deaths, faults, journal)


def _work(mapping: Mapping, deaths: Deaths, faults: Faults, journal: Journal) -> None:
    """Until SIGTERM, which is heeded between two batches, or until whoever started the worker is gone."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    parent, batch = os.getppid(), 0
    while not stopped and os.getppid() == parent:
        records = _received(mapping)
        if not records:
            continue
        batch += 1
        for record in records:
            _tell(journal, record, f"{os.getpid()}.{batch}")
        die_at_the_end_of(mapping.timeout, lambda: journal.write("killed", point="time-out"))
        deaths.begin(records)
        faults.begin(records)
        settled = mapping.invoke(records)
        deaths.end()
        signal.setitimer(signal.ITIMER_REAL, 0)
        with suppress(ClientError, BotoCoreError):  # not deleted: delivered again
            mapping.delete(settled)


def _received(mapping: Mapping) -> list[Record]:
    """Nothing, where SQS refuses."""
    with suppress(ClientError, BotoCoreError):
        return mapping.receive()
    return []


def _tell(journal: Journal, record: Record, batch: str) -> None:
    """``cpu`` is what the process has used so far, in seconds."""
    system = record["attributes"]
    journal.write(
        "received",
        batch=batch,
        message=record["messageId"],
        request_id=run_of(record),
        place=json.dumps(place_of(record)),
        receives=int(system["ApproximateReceiveCount"]),
        waited=int(system["ApproximateFirstReceiveTimestamp"]) - int(system["SentTimestamp"]),
        cpu=time.process_time(),
    )


def _flow(name: str) -> AnyFlow:
    module, _, attribute = name.partition(":")
    flow: AnyFlow = getattr(import_module(module), attribute)
    return flow

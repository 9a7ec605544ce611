"""One worker: a process that does for its queue what Lambda does, until it is told to stop, or dies."""

from __future__ import annotations

import argparse
import os
import resource
import signal
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from flowguard.flow import AnyFlow
from flowguard.handler import dlq_handler, lambda_handler
from flowguard.local.calls import intercept
from tests.soak.deaths import Deaths, Point
from tests.soak.ground import Ground
from tests.soak.journal import Journal
from tests.soak.mapping import Mapping, Record, die_at_the_end_of


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.worker", description=__doc__)
    parser.add_argument("--dynamodb", required=True, help="endpoint URL")
    parser.add_argument("--sqs", required=True, help="endpoint URL")
    parser.add_argument("--access-key", required=True)
    parser.add_argument("--flow", required=True, help="module:class")
    parser.add_argument("--queue", required=True)
    parser.add_argument("--journal", required=True, type=Path)
    parser.add_argument("--name", default="worker")
    parser.add_argument("--given-up", action="store_true", help="the queue is where SQS puts what it gave up")
    parser.add_argument("--timeout", type=float, default=4, help="seconds that an invocation may take before it dies")
    parser.add_argument("--kill", type=float, default=0, help="the share of deliveries that kill the worker")
    parser.add_argument("--point", action="append", type=Point, help="where; anywhere when not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, help="the most the process may have, in MiB")
    return parser


def main() -> None:
    given = arguments().parse_args()
    if given.memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (given.memory << 20, given.memory << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    journal = Journal(given.journal, given.name)
    ground = Ground(given.dynamodb, given.sqs, given.access_key)
    handler = (dlq_handler if given.given_up else lambda_handler)(_flow(given.flow))
    deaths = Deaths(given.kill, given.point or list(Point), given.seed, journal)
    mapping = Mapping(
        ground.clients.sqs,
        ground.url(given.queue),
        handler.using(ground.services(journal.happened)),
        timedelta(seconds=given.timeout),
    )
    with intercept(deaths):
        _work(mapping, deaths, journal)


def _work(mapping: Mapping, deaths: Deaths, journal: Journal) -> None:
    """Until SIGTERM, which is heeded between two batches, or until whoever started the worker is gone."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    parent, batch = os.getppid(), 0
    while not stopped and os.getppid() == parent:
        records = mapping.receive()
        if not records:
            continue
        batch += 1
        for record in records:
            _received(journal, record, f"{os.getpid()}.{batch}")
        die_at_the_end_of(mapping.timeout, lambda: journal.write("killed", point="time-out"))
        deaths.begin(records)
        settled = mapping.invoke(records)
        deaths.end()
        signal.setitimer(signal.ITIMER_REAL, 0)
        mapping.delete(settled)


def _received(journal: Journal, record: Record, batch: str) -> None:
    system, said = record["attributes"], record["messageAttributes"]
    journal.write(
        "received",
        batch=batch,
        message=record["messageId"],
        request_id=said["uniquerequestid"]["stringValue"],
        place=said["flowguard"]["stringValue"],
        receives=int(system["ApproximateReceiveCount"]),
        waited=int(system["ApproximateFirstReceiveTimestamp"]) - int(system["SentTimestamp"]),
    )


def _flow(name: str) -> AnyFlow:
    module, _, attribute = name.partition(":")
    flow: AnyFlow = getattr(import_module(module), attribute)
    return flow


if __name__ == "__main__":
    main()

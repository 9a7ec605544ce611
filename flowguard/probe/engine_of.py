"""The engines that programs can be run on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Lock
from typing import Any, Final, NamedTuple

import boto3

from flowguard.clock import ManualClock
from flowguard.probe.lab import Clients, Interrupted
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.virtual import VirtualTime

SERVED: Final[Mapping[str, tuple[str, ...] | None]] = {
    "dynamodb-local": ("dynamodb",),
    "elasticmq": ("sqs",),
    "ministack": None,
}
"""The engines behind an address, with the services that they have. None is all."""

IN_PROCESS: Final = ("memory", "moto")
NAMES: Final = (*IN_PROCESS, *SERVED, "aws")

_IN_MEMORY: Final = ("dynamodb", "sqs", "sns", "events", "lambda", "scheduler", "s3")

_START: Final = 1_767_225_600_000
"""A moment for the virtual time to begin at, ms since 1970."""


class ProbedEngine(NamedTuple):
    """An engine that is open. ``together`` says that several programs may work at once, since its time is real."""

    name: str
    clients: Clients
    pause: Callable[[float], None]
    services: tuple[str, ...] | None
    together: bool


@contextmanager
def opened(
    name: str, url: str | None = None, region: str | None = None, stop: Event | None = None
) -> Iterator[ProbedEngine]:
    """Open an engine by its name. ``url`` is where one is that is served, ``region`` that of AWS."""
    waits = stop if stop is not None else Event()
    match name:
        case "memory":
            clock = ManualClock()
            with MemoryAWS(clock) as memory:
                yield ProbedEngine(name, memory.client, lambda s: clock.advance(seconds=s), _IN_MEMORY, False)
        case "moto":
            with VirtualTime(_START) as virtual, EmbeddedAWS() as moto:
                yield ProbedEngine(name, moto.client, lambda seconds: _move(virtual, seconds), None, False)
        case _:
            session = boto3.session.Session(**_credentials(url), region_name=region)
            yield ProbedEngine(name, _clients(session, url), lambda s: _wait(waits, s), SERVED.get(name), True)


def _move(virtual: VirtualTime, seconds: float) -> None:
    virtual.move_to(virtual.now() + round(seconds * 1000))


def _wait(stop: Event, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if stop.wait(left):
            raise Interrupted


def _credentials(url: str | None) -> Mapping[str, Any]:
    """Return made-up credentials for an engine behind an address: it shall never get real ones."""
    return {} if url is None else {"aws_access_key_id": "probe", "aws_secret_access_key": "probe"}


def _clients(session: boto3.session.Session, url: str | None) -> Clients:
    made: dict[str, Any] = {}
    lock = Lock()  # sessions are not thread-safe

    def client(service: str) -> Any:
        with lock:
            if service not in made:
                make: Any = session.client  # typed for the services that boto3-stubs knows by name
                made[service] = make(service, endpoint_url=url)
            return made[service]

    return client

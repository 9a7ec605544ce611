"""The services of AWS that a runtime needs, built from settings and clients."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

from flowguard.aws.clients import Clients, prepared_clients
from flowguard.aws.faults import fails_for_now, is_outage
from flowguard.aws.packing import Packing
from flowguard.aws.schedules import Schedules
from flowguard.aws.sender import AWSSender
from flowguard.aws.signing_keys import aws_signer, aws_tokens
from flowguard.aws.store import DynamoDBStore
from flowguard.aws.tables import DynamoDBTables
from flowguard.clock import Clock, SystemClock
from flowguard.events import Observer, log
from flowguard.names.ids import Ids, RandomIds
from flowguard.observers.named import named_observers
from flowguard.settings import Settings
from flowguard.worker.ports import Services


def aws_store(
    settings: Settings,
    clients: Clients,
    pause: Callable[[float], None] = time.sleep,
    draw: Callable[[], float] = random.random,
) -> DynamoDBStore:
    """Build the run items' store on DynamoDB. It learns of the flows whose texts are sealed."""
    packing = Packing.of(settings, clients)
    return DynamoDBStore(
        clients.dynamodb,
        settings.run_table,
        packing,
        settings.prefix,
        pause=pause,
        once=lambda: clients.dynamodb_once,
        names=settings.at_aws,
        draw=draw,
    )


def aws_sender(settings: Settings, clients: Clients, clock: Clock | None = None) -> AWSSender:
    """Build the sender to the destinations that the code names."""
    return AWSSender(clients, _schedules(clients, settings, clock), names=settings.at_aws)


def aws_services(
    settings: Settings,
    clients: Clients | None = None,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    observer: Observer = log,
    draw: random.Random | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Services:
    """Build all of a runtime's services on AWS.

    Clock, ids, observer and jitter's randomness can be handed in for a repeatable run, and ``pause``, which waits so
    many seconds before a call is made again that met another transaction, and before ``step.modify`` tries again.
    """
    clients = clients if clients is not None else Clients()
    clock = clock if clock is not None else SystemClock()
    jitter = draw if draw is not None else random.Random()  # noqa: S311 - jitter needs no secrecy
    return Services(
        store=aws_store(settings, clients, pause, jitter.random),
        sender=aws_sender(settings, clients, clock),
        clock=clock,
        ids=ids if ids is not None else RandomIds(),
        observer=observer,
        draw=jitter,
        tables=DynamoDBTables(clients, jitter, pause, names=settings.at_aws),
        signer=aws_signer(settings, clients, clock, jitter, pause),
        tokens=aws_tokens(settings, clients, clock, jitter, pause),
        is_outage=is_outage,
        fails_for_now=fails_for_now,
        debug_sampled=settings.debug_sampled,
        names=settings.at_aws,
        run_table=settings.run_table,
    )


def services_of_environment() -> Services:
    """Build the services with the settings of the process: what runs in production."""
    settings, clients = Settings.from_environment(os.environ), prepared_clients()
    services = aws_services(settings, clients, observer=named_observers(settings.observers, settings.at_aws))
    return services._replace(threads=True)


def _schedules(clients: Clients, settings: Settings, clock: Clock | None) -> Schedules:
    role, group, undelivered = settings.scheduler_role, settings.scheduler_group, settings.scheduler_undelivered
    key, names = settings.scheduler_key, settings.at_aws
    return Schedules(clients, role, group, undelivered=undelivered, key=key, clock=clock, names=names)

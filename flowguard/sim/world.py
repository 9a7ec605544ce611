"""A small world for flows. It has their functions, queues and tables, on an AWS in the process and virtual time.

What a flow calls is real: boto3, DynamoDB's expressions, SQS's and SNS's checks, all on moto. What Lambda does between
a queue and a function is done here, and nothing sleeps::

    recorded record ──────────────▶ EventSource ── due ──▶ function ── answer ──▶ deleted, or visible again later
    moto's SQS ── ReceiveMessage ──▶     ▲                                            │
        ▲      (delays run on the        └────── visibility timeout, receive count ───┘
        └─ sends   virtual time)

So recorded records keep their ids and times, which SQS would give anew, and the order of everything is decided: by the
moment, then by arrival. One record makes an invocation, and takes ``STEP`` of virtual time.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Protocol, Self

from pydantic import SecretStr

from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.aws.services import aws_services, aws_store
from flowguard.aws.signing_keys import aws_signer
from flowguard.clock import no_pause
from flowguard.errors import NotProcessed
from flowguard.events import Event, EventType, Observer
from flowguard.flow import AnyFlow
from flowguard.names.ids import SeededIds
from flowguard.project.declared import (
    DeclaredKey,
    declared_items,
    declared_tables,
    modules_of_flows,
    overridden,
    read_keys,
)
from flowguard.project.queues import topics
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_ROLE, SIMULATED_SECRETS
from flowguard.sim.calls import intercept
from flowguard.sim.crash import Died
from flowguard.sim.delivered import Delivered, delivered
from flowguard.sim.delivery_trace import DeliveryTrace, Watch
from flowguard.sim.engine import Engine
from flowguard.sim.event_source import LEFT_THERE, MOST_RECEIVES, STEP, EventSource, QueueTimes, failures_of
from flowguard.sim.functions import Functions, ServedFunction
from flowguard.sim.issued_tokens import MadeTokens, NoSuchToken
from flowguard.sim.mail import Mail
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.points import Point, with_points
from flowguard.sim.provision import AutoProvisioner
from flowguard.sim.stored_keys import KEYS_PARAMETER, Believing, BelievingWithKeys, answer_for_keys
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.forecast import forecast
from flowguard.sim.weather.layer import Invoked
from flowguard.verdicts import Verdict
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.wire.signing import Signer

EXPIRES_EVERY: Final = 24 * 3_600_000
"""ms between two looks for what has expired."""

_NEVER: Final = {"N": "253402300800"}

START: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z, at which a world starts by default."""


class Passed(Protocol):
    """A listener that is called when a record passes a point.

    It may raise :class:`Died`, or let something else happen.
    """

    def __call__(self, point: Point, delivery: Delivery, message: Message | None, /) -> None: ...


def nothing(point: Point, delivery: Delivery, message: Message | None, /) -> None:
    """Ignore the point."""


class World:
    """A simulation of flows and the AWS that they use.

    Open it as a block, ``put`` records into it and ``run`` it until nothing is due. One at a time in a process.

    ``tables`` are the flows' own, each with the name of its hash key; those in ``TABLES`` of the flows' modules need
    not be given. After ``most_receives`` a record is passed on, as by a redrive policy: a function made by
    ``dlq_handler`` gets it. ``times`` are those of a deployment's queues, which keep no record for ever. Equal
    arguments and records give equal results throughout. ``aws`` and ``clock`` are open ones to work on; without them
    the world opens its own. ``weather`` names what AWS does on this day (``flowguard/sim/weather/forecast.py``).
    ``observer`` receives each event.
    """

    def __init__(  # noqa: PLR0913 - options, each with a default
        self,
        flows: Sequence[AnyFlow],
        *,
        tables: Mapping[str, DeclaredKey] | None = None,
        seed: int = 0,
        start: int = START,
        passed: Passed = nothing,
        most_receives: int = MOST_RECEIVES,
        times: QueueTimes | None = None,
        aws: Engine | None = None,
        clock: VirtualTime | None = None,
        weather: str = "",
        observer: Observer | None = None,
    ) -> None:
        self.flows = tuple(flows)
        self._observer = observer
        self.keys = overridden(declared_tables(modules_of_flows(flows)), read_keys(tables or {}))
        self.clock = clock if clock is not None else VirtualTime(start)
        self.start = self._looked_at = start
        self.aws = aws if aws is not None else EmbeddedAWS(seed=seed)
        self._own = [part for part, given in ((self.clock, clock), (self.aws, aws)) if given is None]
        self.settings = Settings.model_validate({**SIMULATED_SECRETS, "scheduler_role": SIMULATED_ROLE})
        self.provisioner = AutoProvisioner(self.aws, self.keys, self.settings.table)
        self.put_in = 0
        self._seed = seed
        self._passed = passed
        self._watch = Watch(self.settings.table, self.keys)
        self.made_tokens = MadeTokens()
        self.without_token: list[tuple[Envelope, NoSuchToken]] = []
        """The recorded requests that mean a token which no run has made."""
        self.source = EventSource(most_receives, times)
        self.mail = Mail(self.aws, self.provisioner, self.source, self.clock)
        self._hands: list[Delivery] = []
        self.weather = forecast(weather, self.clock, seed=seed)
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            for part in self._own:
                opened.enter_context(part)
            for interceptor in (self._watch, self.weather, self.mail, self.provisioner, answer_for_keys):
                opened.enter_context(intercept(interceptor))
            self._set_up()
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def _set_up(self) -> None:
        clients = Clients()
        self.store = aws_store(self.settings, clients)
        self.store.codecs.learn(self.flows)
        services = aws_services(
            self.settings,
            clients,
            clock=self.clock,
            ids=SeededIds(self._seed),
            observer=self._on_event,
            draw=random.Random(self._seed),  # noqa: S311 - repeatable on purpose
            pause=no_pause,
        )
        services = services._replace(signer=self._signer(clients), tokens=self.made_tokens.noting(services.tokens))
        ledger = ledger_of(self.settings, clients)
        self.source.functions = Functions(self.flows, with_points(services, self._pass), ledger=ledger)
        self.provisioner.set_up(self.source.functions.by_queue)
        self.provisioner.subscribe(topics(self.flows))
        self.provisioner.put_in(declared_items(modules_of_flows(self.flows)))

    def _signer(self, clients: Clients) -> Signer:
        """Return one that believes each record. Where Systems Manager is to be away it needs keys from there."""
        if not self.weather.is_ever_away("ssm"):
            return Believing()
        settings = Settings(signing_keys=SecretStr(f"ssm:{KEYS_PARAMETER}"))
        draw = random.Random(self._seed)  # noqa: S311 - repeatable on purpose
        return BelievingWithKeys(aws_signer(settings, clients, self.clock, draw, no_pause))

    def _on_event(self, event: Event) -> None:
        self._watch.tell(event)
        self.made_tokens.tell(event)
        if self._observer is not None:
            self._observer(event)

    # -- what happens

    def put(self, envelope: Envelope, raw: Any, *, at: int | None = None) -> None:
        """Add a recorded record to be delivered as it is. ``raw`` is what it was read from, ``at`` is ms or now."""
        self.put_in += 1
        self.source.put(envelope, raw, envelope.queue, self.clock.now() if at is None else at)

    def run(self) -> Iterator[Delivered]:
        """Deliver records in order of time until nothing is left.

        Called during a delivery, deliver only what is due now.
        """
        until = self.clock.now() if self._hands else None
        while (row := self.step(until)) is not None:
            yield row

    def step(self, until: int | None = None) -> Delivered | None:
        """Deliver the next message, due by ``until`` (ms) if that is given. Return None where there is none."""
        while (delivery := self.source.next(self.clock, self, until=until)) is not None:
            if (polled := self.weather.polled_from(self.clock.now())) <= self.clock.now():
                return self._deliver(delivery)
            if until is not None and polled > until:
                return None
            self.clock.move_to(polled)
        return None

    def arrive(self, now: int) -> None:
        """Fetch what was sent and can be received by now."""
        self.mail.collect(self.source.functions.by_queue)

    def moments(self) -> Iterable[int]:
        """Return when more that was sent can be received."""
        return self.mail.moments

    def _deliver(self, delivery: Delivery) -> Delivered:
        at, trace, crash, acked = self.clock.now(), DeliveryTrace(), None, False
        expired = self._expire(at)
        function = self.source.begin(delivery, at)
        receive, from_dlq = delivery.receives, delivery.from_dlq
        self._hands.append(delivery)
        self._watch.open.append(trace)
        how = self.weather.invoked(delivery, function.name, at)
        try:
            with self.weather.over(delivery):
                acked = how is Invoked.YES and self._invoke(function, delivery, trace)
        except Died as died:
            crash = died.point
            acked = crash is Point.AFTER_ACK
        finally:
            self._watch.open.pop()
            self._hands.pop()
        to_dlq = self._end(delivery, trace, acked=acked, died=crash is not None)
        for moment in self.weather.copies(delivery, at) if acked else ():
            self.source.copy(delivery, moment)
        self.clock.move_to(self.clock.now() + STEP)
        row = delivered(
            delivery, trace, at, receive=receive, crash=crash, acked=acked, to_dlq=to_dlq, from_dlq=from_dlq
        )
        return replace(row, expired=expired)

    def _end(self, delivery: Delivery, trace: DeliveryTrace, *, acked: bool, died: bool) -> bool:
        """Delete a record or let it come again, as its function answered. Returns True where SQS gives it up.

        What came too early comes again as often as in queues of templates. So does a request over HTTP, whose sender
        got the time of its next try, until that gives up. Any other request is sent once.
        """
        early = trace.verdict == Verdict.EARLY and not died
        left = (delivery.is_request and not early) or (trace.verdict in LEFT_THERE and not died)
        given_up = self.source.end(delivery, acked=acked, left=left, too_early=early)
        if given_up and delivery.is_request:
            self.source.end(delivery, acked=True)
        return given_up and not delivery.is_request

    def _expire(self, now: int) -> tuple[str, ...]:
        """Remove what has expired in the run table by now, and return its keys. DynamoDB looks now and then, too."""
        if now - self._looked_at < EXPIRES_EVERY:
            return ()
        self._looked_at = now
        expired = [item for item in self.scan(self.settings.table) if int(item.get("ttl", _NEVER)["N"]) < now // 1000]
        for item in expired:
            key = {"pk": item["pk"], "sk": item["sk"]}
            self.aws.client("dynamodb").delete_item(TableName=self.settings.table, Key=key)
        return tuple(item["pk"]["S"] for item in expired)

    def _invoke(self, function: ServedFunction, delivery: Delivery, trace: DeliveryTrace) -> bool:
        """Invoke the function and answer whether the record may be deleted."""
        try:
            event = self.made_tokens.filled_in(delivery.raw) if delivery.is_request else delivery.event()
            answer = function.handler(event)
        except NoSuchToken as error:
            self.without_token.append((delivery.envelope, error))
            self._on_event(Event(EventType.UNROUTABLE, None, {"why": str(error)}))
            return False
        except NotProcessed:
            return False
        trace.status = answer.get("statusCode") if delivery.is_request and isinstance(answer, dict) else None
        if trace.sends:
            self._pass(Point.AFTER_DISPATCH, None)
        if failures_of(answer) or (delivery.is_request and trace.verdict == Verdict.EARLY):
            return False
        self._pass(Point.BEFORE_ACK, None)
        self._pass(Point.AFTER_ACK, None)
        return True

    def _pass(self, point: Point, message: Message | None) -> None:
        trace = self._watch.open[-1]
        trace.message = trace.message or message
        self._passed(point, self._hands[-1], message)

    # -- what is there

    def scan(self, table: str) -> list[Any]:
        """Return all items of a table in low-level form."""
        pages = self.aws.client("dynamodb").get_paginator("scan").paginate(TableName=table)
        return [item for page in pages for item in page["Items"]]

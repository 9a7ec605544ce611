"""What a million stages cost that take a message, save that, and send the next: events of ten, SQS and Lambda included.

What is counted: units of DynamoDB and requests of SQS, on the AWS in memory (moto for Powertools). Receiving and
deleting a batch are two requests. What is assumed: each call takes 10 ms, a function has 256 MB. The CPU is that of the
event on the stub, on the machine that measures.
"""

from __future__ import annotations

import functools
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import boto3

from flowguard import Done, Flow, Outcome, Settings, Stage, Step, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.deploy.flow_cost import A_POLL, LAMBDAS_LINES, MONTH, POLLERS, Invocations
from flowguard.deploy.meter import Meter
from flowguard.deploy.prices import Prices, Unit
from flowguard.events import logged_bytes
from flowguard.flow import AnyFlow
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.table_keys import create_table
from tests.proofs.bench.answering import RECORDS
from tests.proofs.bench.batches import SLOW_MS, a_batch, batch_and_bare, of_powertools, powertools, taken
from tests.proofs.bench.cpu import Work
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import Cart, Context, a_cart
from tests.proofs.bench.stub import a_session, answer

MARK: Final = 0.67
MEMORY_MB: Final = 256
ONE_CORE_MB: Final = 1_769
"""With so much memory a function has one core; with less, a part of it."""
ROUNDS: Final = 40
PRICES: Final = Prices()


class Begin(Stage[Cart], name="begin", then="finish"):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        return Finish.message(cart)


class Finish(Stage[Cart], name="finish"):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        return Done()


class TwoStages(Flow, name="two-stages", object_id="cart_id"):
    stages = (Begin, Finish)


class BeginUnleased(Stage[Cart], name="begin", then="finish", lease=False):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        return Finish.message(cart)


class Unleased(Flow, name="two-stages-unleased", object_id="cart_id"):
    stages = (BeginUnleased, Finish)


@dataclass(frozen=True)
class Event:
    """What it writes and reads in DynamoDB, its calls of SQS, all its calls, the CPU it takes; ten records or fewer.

    ``logged`` are the bytes of its lines in the log. They are priced where the bill is to be whole.
    """

    writes: float
    reads: float
    sends: int
    calls: int
    cpu_ms: float
    records: int = RECORDS
    logged: int = 0

    def in_full(self) -> Event:
        """Return it with all of Lambda's bill: a seventh of a core, cold starts, and the lines in the log."""
        cpu_ms = self.cpu_ms * ONE_CORE_MB / MEMORY_MB + Invocations().cold * Invocations().init_milliseconds
        return replace(self, cpu_ms=cpu_ms, logged=self.logged + LAMBDAS_LINES)

    def in_no_time(self) -> Event:
        """Return the least that such an event can be: what it writes and sends, and Lambda's time for nothing."""
        return replace(self, calls=0, cpu_ms=0, logged=0)

    def dollars_a_million(self) -> float:
        """Return the price of a million records."""
        seconds = (self.calls * SLOW_MS + self.cpu_ms) / 1_000
        used = {
            Unit.WRITES: self.writes,
            Unit.READS: self.reads,
            Unit.SQS: self.sends + 2,
            Unit.INVOCATIONS: 1,
            Unit.GB_SECONDS: seconds * MEMORY_MB / 1_024,
            Unit.LOGS: self.logged / 1e6,
        }
        return sum(amount * PRICES.of(unit) for unit, amount in used.items()) / self.records * 1_000_000


def figures(rounds: int = ROUNDS) -> list[Figure]:
    together, *_ = batch_and_bare()
    cpu_ms = milliseconds(together, rounds)
    event = event_of(TwoStages, cpu_ms)
    whole = event.in_full().dollars_a_million()
    event = replace(event, logged=0)
    leased, least = event.dollars_a_million(), event.in_no_time().dollars_a_million()
    unleased = replace(event_of(Unleased, cpu_ms), logged=0).dollars_a_million()
    theirs = functools.cache(lambda: powertools_event(rounds))
    one_by_one = "events of one: three requests of SQS and an invocation for each record"
    note = f"events of {RECORDS}, {SLOW_MS} ms a call, {MEMORY_MB} MB, prices of {PRICES.as_of}"
    return [
        Figure("dollars a million stages", leased, None, " $", note),
        Figure("  without a lease", unleased, None, " $", "the work may run twice at once"),
        Figure("  with logs and cold starts, on arm64", whole, None, " $", _whole()),
        Figure("  polls of an empty queue, a month", polls_a_month(), None, " $", f"{POLLERS} pollers, of each queue"),
        *of_powertools(
            "  of Powertools' batch and idempotency", lambda: leased / theirs(), MARK, least=lambda: least / theirs()
        ),
        *of_powertools("    with calls and CPU in no time", lambda: least / theirs(), None),
        *of_powertools("  without a lease, of the same", lambda: unleased / theirs(), MARK),
        *of_powertools(
            "  of Powertools' idempotency alone", lambda: leased / powertools_event(rounds, 1), MARK, note=one_by_one
        ),
        Figure("  of Step Functions, a transition", leased / 25, None, "×", "$25 a million, without what it calls"),
    ]


def _whole() -> str:
    """Say what is assumed of the whole bill."""
    share, init = Invocations().cold, Invocations().init_milliseconds
    return f"a seventh of a core, {share:.0%} cold starts of {init:.0f} ms"


def polls_a_month() -> float:
    """Return the dollars for asking one queue for messages, by the pollers of a mapping that gets none."""
    return POLLERS * MONTH / A_POLL * PRICES.of(Unit.SQS)


def event_of(flow: AnyFlow, cpu_ms: float) -> Event:
    """Ten new requests for its first stage, sharing their calls."""
    with MemoryAWS() as aws:
        aws.create_table("flowguard")
        aws.create_queue(flow.name)
        lines: list[int] = []
        services = aws_services(Settings(), Clients(), observer=lambda event: lines.append(logged_bytes(event)))
        handler = lambda_handler(flow, together=True).using(services)
        taken(handler(a_batch(1, flow=flow, name="first"), Context()))  # which looks for the queue
        lines.clear()
        with intercept(Recorder()) as recorder:
            taken(handler(a_batch(RECORDS, flow=flow), Context()))
        logged = sum(lines)
        with intercept(Meter()) as meter:  # one by one, since it reads no PartiQL: what is written is the same
            for record in a_batch(RECORDS, flow=flow, name="alone")["Records"]:
                taken(handler({"Records": [record]}, Context()))
        used = meter.take()
    return Event(used[Unit.WRITES], used[Unit.READS], recorder.count("sqs"), recorder.count(), cpu_ms, logged=logged)


def powertools_event(rounds: int, records: int = RECORDS) -> float:
    """Dollars a million records whose handler sends the next message itself."""
    stubbed = a_session().client("dynamodb")
    answer(stubbed, lambda _: {})
    cpu_ms = milliseconds(powertools(stubbed, count=records), rounds)
    with EmbeddedAWS():
        create_table(boto3.client("dynamodb"), "idempotency", "id")
        sqs = boto3.client("sqs")
        url = sqs.create_queue(QueueName="next")["QueueUrl"]

        def send(cart: dict[str, Any]) -> None:
            sqs.send_message(QueueUrl=url, MessageBody=json.dumps(a_cart().model_dump()))

        work = powertools(boto3.client("dynamodb"), send, records)
        with intercept(Recorder()) as recorder, intercept(Meter()) as meter:
            taken(work())
        used = meter.take()
    sends = recorder.count("sqs")
    event = Event(used[Unit.WRITES], used[Unit.READS], sends, sends + 2 * records, cpu_ms, records)
    return event.dollars_a_million()


def milliseconds(work: Work, rounds: int) -> float:
    work()
    return statistics.median(_cpu(work) for _ in range(rounds)) * 1_000


def _cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun

"""A queue whose records find no place: each comes again when it is hidden no more, and all are done in the end."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from flowguard import PerKey, once
from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.aws.sender import AWSSender
from flowguard.clock import ManualClock
from flowguard.events import Tally
from flowguard.names.ids import SeededIds
from flowguard.once_function import OnceServices
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.testing.context import FakeContext
from flowguard.worker.call_places import rest_of

RECORDS = 12
LIMITS = (
    PerKey("body.merchant", at_once=1),
    PerKey("body.merchant", per=timedelta(minutes=1), count=2, name="rate"),
)


class Died(BaseException):
    """The function is gone, and makes no call any more."""


class Served:
    """A queue with its function, which is killed by chance at a call. The clock goes on with each call."""

    def __init__(self, aws: MemoryAWS, clock: ManualClock, killed: float) -> None:
        self.clock, self.killed, self.is_dead, self.is_at_work = clock, killed, False, False
        self.draw = random.Random(3)
        self.begun, self.effects, self.receives, self.done = list[int](), Counter[str](), Counter[str](), 0
        aws.create_table("flowguard")
        self.url = aws.create_queue("orders", VisibilityTimeout="210")
        self.arn, self.clients = aws.queue_arn(self.url), Clients()
        for number in range(RECORDS):
            body = json.dumps({"order_id": f"o-{number}", "merchant": "m"})
            self.clients.sqs.send_message(QueueUrl=self.url, MessageBody=body)

        @once("charge", key="body.order_id", limit=LIMITS)
        def charge(record: dict[str, Any]) -> None:
            self.begun.append(clock.now())
            self.effects[json.loads(record["body"])["order_id"]] += 1
            clock.advance(seconds=1)

        ledger, sender = ledger_of(Settings(), self.clients), AWSSender(self.clients)
        self.charge = charge.using(OnceServices(ledger, clock, SeededIds(), Tally(), sender))

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if not self.is_at_work:
            return proceed()
        self.clock.advance(ms=self.draw.randint(2, 16))
        if self.is_dead or self.draw.random() < self.killed:
            self.is_dead = True
            raise Died
        return proceed()

    def batch(self) -> None:
        """Work off what is visible, as Lambda does."""
        self.clock.advance(seconds=1)
        records = self._received()
        self.receives.update(record["messageId"] for record in records)
        self.is_dead, self.is_at_work = False, True
        context = FakeContext(clock=self.clock, timeout=timedelta(seconds=35))
        try:
            answer = self.charge.batch({"Records": records}, context)
        except Died:
            return
        finally:
            self.is_at_work = False
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for record in records:
            if record["messageId"] not in failed:
                self.clients.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=record["receiptHandle"])
                self.done += 1

    def _received(self) -> list[dict[str, Any]]:
        found = self.clients.sqs.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        )
        return [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "eventSource": "aws:sqs",
                "eventSourceARN": self.arn,
            }
            for message in found.get("Messages", [])
        ]


@pytest.mark.slow("serves a queue for an hour of virtual time")
@pytest.mark.parametrize("killed", [0, 0.03])
def test_a_queue_of_records_is_worked_off_as_its_limits_let_it_and_each_is_done(
    killed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is received so often that SQS would give it up."""
    monkeypatch.setattr(rest_of, "__defaults__", (random.Random(5).random,))
    clock = ManualClock(1_800_000_000_000)
    with MemoryAWS(clock) as aws, intercept(served := Served(aws, clock, killed)):
        while served.done < RECORDS:
            served.batch()
    assert set(served.effects) == {f"o-{number}" for number in range(RECORDS)}
    assert all(later - at >= 60_000 for at, later in zip(served.begun, served.begun[2:], strict=False))
    assert 4 < max(served.receives.values()) < 30
    if not killed:
        assert set(served.effects.values()) == {1}
        assert served.begun[-1] - served.begun[0] < 20 * 60_000

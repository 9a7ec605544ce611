"""The requests of a race of sums, and what they add up to. Both follow from how many there are: nothing is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from flowguard.names.ids import RequestId
from flowguard.wire.message import Message
from tests.proofs.races.shared import START
from tests.proofs.races.sums.flow import Added, Adds

GROUP: Final = 4
"""So many requests in a row may be for one object; of so many rows one is. They belong to as many processes."""


class Asked(NamedTuple):
    """A request, by its number."""

    number: int

    @property
    def is_alone(self) -> bool:
        """Whether it is the only one for its object."""
        return self.number // GROUP % GROUP != 0

    @property
    def payload(self) -> Added:
        number = self.number
        return Added(
            id=f"a{number}" if self.is_alone else f"g{number // GROUP}",
            amount=1 + number % 97,
            early=self.is_alone and number % 8 == 5,
            computes=self.is_alone and number % 16 == 7,
        )

    @property
    def request_id(self) -> RequestId:
        return RequestId(f"request-{self.number}")

    @property
    def requested_at(self) -> int:
        """By which the requests for one object are newer or older. No two of them have one time."""
        return START - self.number * 7_919 % 1_000

    def message(self) -> Message:
        return Adds.request(self.payload, request_id=self.request_id, requested_at=self.requested_at)[0]

    def record(self) -> dict[str, Any]:
        """Return the record that its queue delivers."""
        message = self.message()
        attributes = {name: one.to_sqs_record() for name, one in message.attributes().items()}
        return record(f"m{self.number}", message.body, attributes)


class Expected(NamedTuple):
    """What must be there in the end: the amount of each object, how many count alone, at once, and by computing."""

    amounts: Mapping[str, int]
    newest: Mapping[str, str]
    alone: frozenset[str]
    early: int
    computed: int


def expected(number: int) -> Expected:
    """Of so many requests."""
    asked = [Asked(one) for one in range(number)]
    newest: dict[str, Asked] = {}
    for one in sorted(asked, key=lambda one: one.requested_at):
        newest[one.payload.id] = one
    return Expected(
        {name: one.payload.amount for name, one in newest.items()},
        {name: one.request_id for name, one in newest.items()},
        frozenset(one.payload.id for one in asked if one.is_alone),
        sum(one.payload.early for one in asked),
        sum(one.payload.computes for one in asked),
    )


def record(message_id: str, body: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """An SQS record as a Lambda event has it."""
    return {
        "messageId": message_id,
        "receiptHandle": "receipt",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": dict(attributes),
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:adds",
        "awsRegion": "us-east-1",
    }

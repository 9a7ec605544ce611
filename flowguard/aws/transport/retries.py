"""Decides when a call is made again, and after how long, as botocore's retry mode ``standard`` does."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Final

from flowguard.aws.transport.services import Operation, Service
from flowguard.startup.named_tuple import NamedTuple

THROTTLED: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
PASSING: Final = frozenset({"PriorRequestNotComplete", "RequestTimeout", "RequestTimeoutException"})
SERVER_ERRORS: Final = frozenset({500, 502, 503, 504})
TOO_MANY: Final = 429

CAPACITY: Final = 500
"""What a client may spend on tries before successes have earned some of it back."""

_PRICE, _PRICE_OF_THROTTLED = 14, 5
LONGEST: Final = 20.0
MOST_LONGER: Final = 5.0
AFTER: Final = "x-amz-retry-after"
_DIGITS: Final = 15
"""More than these say no time."""

_JITTER: Final = random.SystemRandom()
"""It has no state that environments restored from one snapshot would share."""


class Failed(NamedTuple):
    """How an attempt failed. Without an answer ``status`` is 0."""

    status: int = 0
    code: str = ""
    headers: Mapping[str, str] = {}


class Quota:
    """What the tries of one client may cost. In an outage it runs out, and calls fail at once. Safe in threads."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._most = self.left = capacity
        self._lock = threading.Lock()

    def take(self, price: int) -> bool:
        """Take the price of another try. False where too little is left."""
        with self._lock:
            if price > self.left:
                return False
            self.left -= price
            return True

    def earn(self, amount: int) -> None:
        """Give back what the last try of a success has cost, or 1."""
        if self.left >= self._most:  # mostly, and a child of a fork may find the lock taken for good
            return
        with self._lock:
            self.left = min(self._most, self.left + amount)


def may_pass(service: Service, operation: Operation, failed: Failed) -> bool:
    """Answer whether another try may succeed."""
    if not failed.status or failed.status in SERVER_ERRORS or failed.code in PASSING:
        return True
    return failed.code in service.repeats & operation.errors or is_throttled(operation, failed)


def is_throttled(operation: Operation, failed: Failed) -> bool:
    """Answer whether the service refuses more calls for now."""
    if failed.code in THROTTLED:
        return True
    return failed.status == TOO_MANY and failed.code not in operation.errors


def price(operation: Operation, failed: Failed) -> int:
    """Return what another try costs."""
    return _PRICE_OF_THROTTLED if is_throttled(operation, failed) else _PRICE


def delay(
    service: Service,
    operation: Operation,
    failed: Failed,
    attempt: int,
    draw: Callable[[], float] = _JITTER.random,
) -> float:
    """Return how long (s) to wait after an attempt, counted from 1. ``draw`` returns 0 to 1."""
    scale = 1.0 if is_throttled(operation, failed) else service.backoff
    waited = draw() * min(scale * 2.0 ** (attempt - 1), LONGEST)
    asked = failed.headers.get(AFTER, "")
    is_time = asked.isdecimal() and len(asked) <= _DIGITS
    return max(waited, min(int(asked) / 1000, waited + MOST_LONGER)) if is_time else waited

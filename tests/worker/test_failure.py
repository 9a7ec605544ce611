"""What becomes of a message whose stage raised: the whole decision as a table."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Any

import pytest

from flowguard.errors import Reject, Retry, RunFailed, TooManyWrites
from flowguard.retry import Exponential, Fixed, RetryPolicy
from flowguard.worker.failure import Again, Attempt, Never, after_failure, kinds_of, only_error


class GatewayDown(ConnectionError):
    pass


POLICY = RetryPolicy(
    attempts=3,
    backoff=Exponential(first=10, factor=3),
    jitter=0,
    give_up_after=timedelta(hours=1),
    for_errors={ConnectionError: RetryPolicy(attempts=5, backoff=Fixed(60), jitter=0)},
)
HOUR = timedelta(hours=1)

TABLE: dict[str, tuple[BaseException, dict[str, Any], Again | Never]] = {
    "a first failure waits for the first delay": (RuntimeError(), {}, Again(10)),
    "a second one for the next": (RuntimeError(), {"retry": 1}, Again(30)),
    "the last attempt was the last": (RuntimeError(), {"retry": 2}, Never("attempt 3 of 3")),
    "an error with a policy of its own follows that": (ConnectionError(), {"retry": 2}, Again(60)),
    "and so does what derives from it": (GatewayDown(), {"retry": 3}, Again(60)),
    "and that policy has an end too": (GatewayDown(), {"retry": 4}, Never("attempt 5 of 5")),
    "a stage may ask for a delay of its own": (Retry(after=timedelta(minutes=2)), {}, Again(120)),
    "for none at all": (Retry(after=timedelta(0)), {}, Again(0)),
    "or leave it to the policy": (Retry("not yet"), {"retry": 1}, Again(30)),
    "but not for more attempts": (Retry(after=timedelta(minutes=2)), {"retry": 2}, Never("attempt 3 of 3")),
    "what can never work is not tried again": (Reject("no"), {}, Never()),
    "nor is what flowguard itself refuses": (RunFailed("no stage"), {}, Never()),
    "nor a handler that records too much": (TooManyWrites("pay", 99), {}, Never()),
    "a request that is too old is given up": (
        RuntimeError(),
        {"age": HOUR},
        Never("the next attempt would come later than 1:00:00 after the request"),
    ),
    "one that is just young enough is not": (RuntimeError(), {"age": HOUR - timedelta(seconds=10)}, Again(10)),
    "a backoff that names no delay has the longest": (
        GatewayDown(),
        {"backoff": Fixed(math.nan)},
        Again(900, "retry.backoff Fixed(delay=nan) asks for nan before retry 1; a delay is a number of seconds"),
    ),
    "an error that is no Exception counts like any other": (SystemExit(), {}, Again(10)),
    "the longest delay that SQS has is kept": (Retry(after=timedelta(minutes=15)), {}, Again(900)),
    "a delay that SQS does not have is never clamped": (
        Retry(after=timedelta(minutes=16)),
        {},
        Never("it asks for a retry after 960 s, and its queue delays by at most 900; say long_delays=True"),
    ),
    "with long delays it is kept": (
        Retry(after=timedelta(minutes=16)),
        {"longest_delay": timedelta(days=14)},
        Again(960),
    ),
    "a FIFO queue delays by twelve hours": (
        Retry(after=timedelta(hours=13)),
        {"longest_delay": timedelta(hours=12)},
        Never("it asks for a retry after 46800 s, and its queue delays by at most 43200; ask for less"),
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_decision(case: str) -> None:
    error, changes, expected = TABLE[case]
    changes = dict(changes)
    policy = POLICY if (backoff := changes.pop("backoff", None)) is None else RetryPolicy(backoff=backoff, jitter=0)
    attempt = Attempt(**{"retry": 0, "age": timedelta(0), "longest_delay": timedelta(minutes=15), **changes})
    assert after_failure(error, policy, attempt, random.Random(0)) == expected


def test_jitter_takes_its_share_off_the_delay_and_nothing_else() -> None:
    policy = RetryPolicy(backoff=Fixed(100), jitter=0.2)
    attempt = Attempt(retry=0, age=timedelta(0), longest_delay=timedelta(minutes=15))
    decisions = [after_failure(RuntimeError(), policy, attempt, random.Random(seed)) for seed in range(200)]
    delays = {decision.delay for decision in decisions if isinstance(decision, Again)}
    assert len(decisions) == 200
    assert min(delays) >= 80
    assert max(delays) <= 100
    assert len(delays) > 10, "they are spread"


def test_the_error_of_a_group_with_one_is_that_one() -> None:
    error = Reject("no")
    assert only_error(error) is error
    assert only_error(ExceptionGroup("tasks", [ExceptionGroup("more", [error])])) is error
    several = ExceptionGroup("tasks", [error, RuntimeError()])
    assert only_error(several) is several


def test_the_kinds_of_an_error_are_those_of_the_errors_in_it_as_well() -> None:
    assert kinds_of(Reject("no")) == (Reject,)
    several = BaseExceptionGroup("tasks", [Reject("no"), BaseExceptionGroup("more", [SystemExit(), KeyError()])])
    assert kinds_of(several) == (BaseExceptionGroup, Reject, BaseExceptionGroup, SystemExit, KeyError)

"""When a failed message is tried again: arithmetic, and a policy that is checked before it is used."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.retry import Backoff, Exponential, Fixed, Linear, RetryPolicy


class Middle(random.Random):
    """Always draws the same."""

    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Fixed(20), [20, 20, 20, 20]),
        (Linear(10, 5), [10, 15, 20, 25]),
        (Exponential(10, 3), [10, 30, 90, 270]),
        (Exponential(first=1, factor=1.5), [1, 1.5, 2.25, 3.375]),
    ],
)
def test_delays_grow_as_declared(backoff: Backoff, delays: list[float]) -> None:
    assert [backoff.seconds(retry) for retry in (1, 2, 3, 4)] == delays
    assert RetryPolicy(backoff=backoff, jitter=0).delay(4, Middle()) == round(delays[3])


def test_max_delay_caps_the_growth() -> None:
    policy = RetryPolicy(backoff=Exponential(10, 10), jitter=0, max_delay=timedelta(seconds=60))
    assert [policy.delay(retry, Middle()) for retry in (1, 2, 3)] == [10, 60, 60]


def test_without_a_cap_of_its_own_a_policy_stays_below_what_sqs_can_delay() -> None:
    assert RetryPolicy(backoff=Exponential(10, 10), jitter=0).delay(5, Middle()) == 900


def test_jitter_is_the_share_that_is_drawn() -> None:
    policy = RetryPolicy(backoff=Fixed(100), jitter=0.2)
    assert policy.delay(1, Middle()) == 90
    draw = random.Random(1)
    drawn = [policy.delay(1, draw) for _ in range(200)]
    assert min(drawn) >= 80
    assert max(drawn) <= 100
    assert len(set(drawn)) > 10


policies = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 20),
    backoff=st.builds(Fixed, st.integers(0, 5_000))
    | st.builds(Linear, st.integers(0, 900), st.integers(0, 900))
    | st.builds(Exponential, st.integers(0, 100), st.integers(1, 10)),
    jitter=st.floats(0, 1),
    max_delay=st.timedeltas(timedelta(0), timedelta(minutes=15)),
    give_up_after=st.none(),
    for_errors=st.just({}),
)


@given(policies, st.integers(1, 19), st.randoms(use_true_random=False))
def test_no_delay_is_ever_outside_what_was_declared(policy: RetryPolicy, retry: int, draw: random.Random) -> None:
    assert policy.problems() == []
    assert 0 <= policy.delay(retry, draw) <= round(policy.max_delay.total_seconds())


# -- policies for some errors -----------------------------------------------------------------------------------------

SLOW, FAST = RetryPolicy(backoff=Fixed(600)), RetryPolicy(backoff=Fixed(1))
BY_ERROR = RetryPolicy(for_errors={OSError: SLOW, ConnectionError: FAST})


@pytest.mark.parametrize(
    ("error", "policy"),
    [(ConnectionResetError(), FAST), (OSError(), SLOW), (FileNotFoundError(), SLOW), (ValueError(), BY_ERROR)],
)
def test_the_nearest_class_of_an_error_has_the_word(error: Exception, policy: RetryPolicy) -> None:
    assert BY_ERROR.policy_for(error) is policy


def test_the_longest_delay_is_that_of_any_of_its_policies() -> None:
    long = RetryPolicy(max_delay=timedelta(hours=2))
    assert RetryPolicy(for_errors={OSError: long}).longest_delay == timedelta(hours=2)
    assert RetryPolicy().longest_delay == timedelta(minutes=15)


# -- mistakes ---------------------------------------------------------------------------------------------------------


def test_a_policy_without_a_word_is_well_defined() -> None:
    assert RetryPolicy().problems() == []


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            RetryPolicy(attempts=0),
            "retry.attempts is 0; it counts the first attempt, so it is at least 1, and at most 100",
        ),
        (
            RetryPolicy(attempts=101),
            "retry.attempts is 101; it counts the first attempt, so it is at least 1, and at most 100",
        ),
        (RetryPolicy(jitter=1.1), "retry.jitter is 1.1; it is a share between 0 and 1"),
        (RetryPolicy(jitter=-0.1), "retry.jitter is -0.1; it is a share between 0 and 1"),
        (RetryPolicy(max_delay=timedelta(days=15)), "retry.max_delay is 15 days, 0:00:00; it is between 0 and 14 days"),
        (
            RetryPolicy(max_delay=timedelta(seconds=-1)),
            "retry.max_delay is -1 day, 23:59:59; it is between 0 and 14 days",
        ),
        (RetryPolicy(give_up_after=timedelta(0)), "retry.give_up_after is 0:00:00; it must be positive"),
        (
            RetryPolicy(backoff=Fixed(-5)),
            "retry.backoff Fixed(delay=-5) asks for a negative delay; time goes forward",
        ),
        (
            RetryPolicy(attempts=9, backoff=Linear(30, -10)),
            "retry.backoff Linear(first=30, step=-10) asks for a negative delay; time goes forward",
        ),
        (
            RetryPolicy(for_errors={OSError: RetryPolicy(jitter=3)}),
            "for OSError, retry.jitter is 3; it is a share between 0 and 1",
        ),
    ],
)
def test_a_mistake_is_a_sentence(policy: RetryPolicy, told: str) -> None:
    assert policy.problems() == [told]


class Odd:
    """A backoff that answers so before each retry from ``since`` on, and that has no text."""

    def __init__(self, answer: Any, since: int = 1) -> None:
        self.answer, self.since = answer, since

    def seconds(self, retry: int) -> Any:
        if retry < self.since:
            return 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def __repr__(self) -> str:
        raise KeyError("no text")


ODD: list[tuple[Any, str]] = [
    (math.nan, "asks for nan before retry {}; a delay is a number of seconds"),
    (math.inf, "asks for inf before retry {}; a delay is a number of seconds"),
    (-math.inf, "asks for -inf before retry {}; a delay is a number of seconds"),
    (None, "asks for None before retry {}; a delay is a number of seconds"),
    ("7", "asks for '7' before retry {}; a delay is a number of seconds"),
    (True, "asks for True before retry {}; a delay is a number of seconds"),
    (timedelta(1), "asks for datetime.timedelta(days=1) before retry {}; a delay is a number of seconds"),
    (-5, "asks for a negative delay; time goes forward"),
    (LookupError("4111"), "raises LookupError for retry {}"),
]


@pytest.mark.parametrize(("answer", "told"), ODD)
def test_a_backoff_that_names_no_delay_is_refused(answer: Any, told: str) -> None:
    assert RetryPolicy(backoff=Odd(answer)).problems() == [f"retry.backoff Odd {told.format(1)}"]
    assert RetryPolicy(attempts=3, backoff=Odd(answer, since=3)).problems() == [], "it is not asked"


@pytest.mark.parametrize(("answer", "told"), ODD)
def test_where_it_names_none_later_the_longest_delay_counts(answer: Any, told: str) -> None:
    policy = RetryPolicy(backoff=Odd(answer, since=2), jitter=0, max_delay=timedelta(seconds=60))
    assert policy.judged_delay(1, Middle()) == (1, "")
    assert policy.judged_delay(2, Middle()) == (60, f"retry.backoff Odd {told.format(2)}")
    assert (policy.delay(2, Middle()), policy.longest(2)) == (60, 60)


@pytest.mark.parametrize("seconds", [0, 0.4, 1e308, 10**400])
def test_any_number_of_seconds_is_a_delay(seconds: float) -> None:
    assert RetryPolicy(backoff=Odd(seconds)).problems() == []
    assert RetryPolicy(backoff=Odd(seconds), jitter=0).delay(1, Middle()) == round(min(seconds, 900))


def test_a_backoff_that_would_fall_below_zero_too_late_to_matter_is_fine() -> None:
    assert RetryPolicy(attempts=4, backoff=Linear(30, -10)).problems() == []

"""A call is made again exactly where botocore's retry mode ``standard`` makes it again."""

from __future__ import annotations

import itertools
from typing import Any, Final

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.retries import quota
from botocore.retries import standard as botocores

from flowguard.aws.transport import retries
from flowguard.aws.transport.retries import CAPACITY, Failed, Quota, delay, is_throttled, may_pass, price
from flowguard.aws.transport.services import SERVICES

standard: Any = botocores  # its stubs leave out what is private

SESSION: Final = botocore.session.Session()
STATUSES: Final = (400, 403, 408, 413, 429, 500, 501, 502, 503, 504, 509)
CODES: Final = (
    *sorted(retries.THROTTLED | retries.PASSING),
    "ValidationException",
    "IDPCommunicationError",
    "429",
    "500",
)
CASES: Final = [(service, method) for service, found in SERVICES.items() for method in found.operations]


_NO_HEADERS: Any = {}


def context(service: str, operation: str, status: int, code: str, attempt: int = 1) -> Any:
    """What botocore judges."""
    model = SESSION.get_service_model(service).operation_model(operation)
    if not status:
        return standard.RetryContext(attempt, model, caught_exception=ConnectionClosedError(endpoint_url="u"))
    answered: Any = AWSResponse("u", status, _NO_HEADERS, None)
    answered._content = b""
    return standard.RetryContext(attempt, model, {"Error": {"Code": code}}, answered)


@pytest.mark.parametrize(("service", "method"), CASES)
def test_each_failure_is_judged_and_priced_as_botocore_does(service: str, method: str) -> None:
    ours, operation = SERVICES[service], SERVICES[service].operations[method]
    theirs = standard.StandardRetryConditions(max_attempts=4)
    throttling = standard.ThrottlingErrorDetector(standard.RetryEventAdapter())
    for status, code in [(0, ""), *itertools.product(STATUSES, {*CODES, *ours.errors})]:
        judged = context(service, operation.name, status, code)
        failed = Failed(status, code)
        assert may_pass(ours, operation, failed) == bool(theirs.is_retryable(judged)), (status, code)
        assert is_throttled(operation, failed) == throttling.is_throttling_error_from_context(judged), (status, code)
        left = quota.RetryQuota()
        standard.RetryQuotaChecker(left, throttling).acquire_retry_quota(judged)
        assert price(operation, failed) == CAPACITY - left.available_capacity


def test_the_codes_are_botocores() -> None:
    assert set(standard.ThrottledRetryableChecker._THROTTLED_ERROR_CODES) == retries.THROTTLED
    assert set(standard.TransientRetryableChecker._TRANSIENT_ERROR_CODES) == retries.PASSING
    assert set(standard.TransientRetryableChecker._TRANSIENT_STATUS_CODES) == retries.SERVER_ERRORS
    assert [retries.TOO_MANY] == standard.ThrottlingStatusCodeChecker._THROTTLING_STATUS_CODES
    assert quota.RetryQuota.INITIAL_CAPACITY == CAPACITY


ASKED: Final = (None, "0", "100", "4000", "60000", "-5", "soon", "1.5", "", "9" * 15, "9" * 320, "9" * 5_000)


@pytest.mark.parametrize("drawn", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("service", SERVICES)
def test_pauses_are_botocores(service: str, drawn: float) -> None:
    operation = next(iter(SERVICES[service].operations.values()))
    throttling = standard.ThrottlingErrorDetector(standard.RetryEventAdapter())
    theirs = standard.ExponentialBackoff(random=lambda: drawn, service_name=service, throttling_detector=throttling)
    failures = ((500, ""), (400, "ThrottlingException"), (429, "x"))
    for attempt, (status, code), asked in itertools.product(range(1, 8), failures, ASKED):
        judged = context(service, operation.name, status, code, attempt)
        judged.http_response.headers.update({} if asked is None else {"x-amz-retry-after": asked})
        failed = Failed(status, code, {} if asked is None else {"x-amz-retry-after": asked})
        ours = delay(SERVICES[service], operation, failed, attempt, lambda: drawn)
        assert ours == pytest.approx(theirs.delay_amount(judged)), (attempt, status, asked)


def test_a_full_quota_earns_nothing_and_takes_no_lock() -> None:
    """A fork may have taken place while another thread had it: nobody gives it back in the child."""

    class Taken:
        def __enter__(self) -> None:
            raise AssertionError

    ours = Quota(20)
    ours._lock = Taken()  # type: ignore[assignment]  # nobody takes it
    ours.earn(1)
    assert ours.left == 20


def test_a_quota_is_spent_and_earned() -> None:
    ours = Quota(20)
    assert ours.take(14)
    assert not ours.take(7)
    assert ours.take(6)
    assert not ours.take(1)
    ours.earn(5)
    assert ours.left == 5
    ours.earn(500)
    assert ours.left == 20

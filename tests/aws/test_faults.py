"""Errors that pass and errors that are final. A transaction that only met another one is tried again, a few times."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

from flowguard.aws.faults import (
    FINAL,
    FOR_MINUTES,
    PAUSES,
    STRANGERS,
    fails_for_now,
    is_final,
    is_final_code,
    is_for_minutes,
    is_outage,
    is_passing,
    is_refusal,
    patiently,
)
from flowguard.errors import KeyUnavailable, RowsUnwritten, RunFailed, SendFailed, SettingsError


def error(code: str, *reasons: str) -> ClientError:
    response: Any = {"Error": {"Code": code}, "CancellationReasons": [{"Code": reason} for reason in reasons]}
    return ClientError(response, "TransactWriteItems")


@pytest.mark.parametrize(
    ("failure", "passing"),
    [
        (error("TransactionCanceledException", "None", "TransactionConflict"), True),
        (error("TransactionCanceledException", "ThrottlingError", "TransactionConflict"), True),
        (
            error(
                "TransactionCanceledException",
                "TransactionConflict",
                "ThrottlingError",
                "ProvisionedThroughputExceeded",
            ),
            True,
        ),
        (error("TransactionCanceledException", "ConditionalCheckFailed", "TransactionConflict"), False),
        (error("TransactionCanceledException", "None", "ValidationError"), False),
        (error("TransactionCanceledException"), False),
        (error("TransactionConflictException"), True),
        (error("TransactionInProgressException"), True),
        (error("ReplicatedWriteConflictException"), True),
        (error("ConditionalCheckFailedException"), False),
        (error("ThrottlingException"), False),
    ],
)
def test_what_passes_by_itself(failure: ClientError, passing: bool) -> None:
    assert is_passing(failure) is passing


def answered(status: int, code: str = "InvalidParameterValue") -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "SendMessageBatch")


@pytest.mark.parametrize(
    ("failure", "final"),
    [
        (answered(400), True),
        (answered(499), True),
        (answered(399), False),
        (answered(500), False),
        (answered(400, "ThrottlingException"), False),
        (answered(402, "ServiceQuotaExceededException"), False),
        (answered(409, "ResourceConflictException"), False),
        (answered(409, "ConflictException"), False),
        (answered(409, "ConditionalRequestConflict"), False),
        (answered(409, "OperationAborted"), False),
        (answered(429, "TooManyRequestsException"), False),
        (error("AccessDenied"), False),
        (ParamValidationError(report="a name is empty"), True),
        (EndpointConnectionError(endpoint_url="https://nowhere"), False),
        (TypeError("a mistake"), False),
    ],
)
def test_what_is_final(failure: Exception, final: bool) -> None:
    assert is_final(failure) is final


@pytest.mark.parametrize(
    ("code", "final"),
    [
        ("InvalidParameterValue", True),
        ("AccessDenied", False),
        ("AWS.SimpleQueueService.NonExistentQueue", False),
        ("ServiceQuotaExceededException", False),
        ("ACodeThatNobodyHasSeen", False),
        ("SlowDown", False),
        ("ExpiredToken", False),
        ("TransactionConflictException", False),
        ("KMS.ThrottlingException", False),
        ("RequestThrottled", False),
    ],
)
def test_a_code_that_says_nothing_of_what_was_asked_for_is_not_final(code: str, final: bool) -> None:
    assert is_final_code(code) is final


def of_one_value(error: KeyUnavailable) -> KeyUnavailable:
    error.opening = True
    return error


@pytest.mark.parametrize(
    ("failure", "outage"),
    [
        (EndpointConnectionError(endpoint_url="https://nowhere"), True),
        (answered(500, "InternalServerError"), True),
        (answered(400, "ProvisionedThroughputExceededException"), True),
        (answered(400, "AccessDeniedException"), True),
        (answered(400, "ResourceNotFoundException"), True),
        (answered(400, "ExpiredTokenException"), True),
        (SettingsError("FLOWGUARD_TABLE", "there is no table"), True),
        (KeyUnavailable("k", "throttled"), True),
        (of_one_value(KeyUnavailable("k", "disabled")), False),
        (answered(400, "ValidationException"), False),
        (answered(400, "TransactionConflictException"), False),
        (error("TransactionCanceledException", "None", "TransactionConflict"), False),
        (error("TransactionCanceledException", "None", "ValidationError"), False),
        (ParamValidationError(report="a name is empty"), False),
        (SendFailed({"sqs:emails": "no"}), False),
        (TypeError("a mistake"), False),
    ],
)
def test_what_fails_whatever_is_asked(failure: Exception, outage: bool) -> None:
    assert is_outage(failure) is outage


@pytest.mark.parametrize(
    ("failure", "minutes"),
    [
        (answered(400, "AccessDeniedException"), True),
        (answered(403, "AccessDenied"), True),
        (answered(404, "ResourceNotFoundException"), True),
        (answered(400, "AWS.SimpleQueueService.NonExistentQueue"), True),
        (answered(400, "KMS.AccessDeniedException"), True),
        (answered(403, "KMS.OptInRequired"), True),
        (answered(400, "KMSDisabled"), True),
        (answered(500, "AccessDeniedException"), False),
        (answered(400, "ValidationException"), False),
        (answered(400, "ThrottlingException"), False),
        (EndpointConnectionError(endpoint_url="https://nowhere"), False),
    ],
)
def test_what_passes_for_minutes(failure: Exception, minutes: bool) -> None:
    assert is_for_minutes(failure) is minutes
    assert is_refusal(failure) is (minutes or is_final(failure))


NEW_ROLE = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."


@pytest.mark.parametrize(
    ("operation", "code", "message", "minutes"),
    [
        ("CreateSchedule", "ValidationException", NEW_ROLE, True),
        ("CreateSchedule", "ValidationException", "Invalid Schedule Expression", False),
        ("UpdateItem", "ValidationException", NEW_ROLE, False),
        ("CreateSchedule", "InvalidParameterValue", NEW_ROLE, False),
    ],
)
def test_a_role_that_the_scheduler_may_not_assume_yet_passes_for_minutes(
    operation: str, code: str, message: str, *, minutes: bool
) -> None:
    response: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    failure = ClientError(response, operation)
    assert (is_for_minutes(failure), is_final(failure), is_refusal(failure)) == (minutes, not minutes, True)
    assert not is_for_minutes(ValueError(NEW_ROLE))


def test_no_code_has_two_fates() -> None:
    assert not FINAL & FOR_MINUTES
    assert not (FINAL | FOR_MINUTES) & STRANGERS


CALLED = {
    "dynamodb": "BatchExecuteStatement BatchGetItem BatchWriteItem GetItem PutItem Query TransactWriteItems UpdateItem",
    "sqs": "ChangeMessageVisibilityBatch GetQueueUrl SendMessageBatch",
    "sns": "Publish PublishBatch",
    "events": "PutEvents",
    "lambda": "Invoke",
    "scheduler": "CreateSchedule",
    "s3": "GetObject ListObjectsV2 PutObject",
    "ssm": "GetParameter",
    "secretsmanager": "GetSecretValue",
}
"""The operations that functions call."""

PASSES = {
    "dynamodb": "InternalServerError ProvisionedThroughputExceededException RequestLimitExceeded ThrottlingException "
    "ReplicatedWriteConflictException TransactionConflictException TransactionInProgressException",
    "answers of DynamoDB": "ConditionalCheckFailedException TransactionCanceledException",
    "sqs and sns": "InvalidSecurity KMSThrottling KmsThrottled OverLimit RequestThrottled",
    "events": "InternalException",
    "lambda": "ResourceConflictException ServiceQuotaExceededException SnapStartException SnapStartNotReadyException "
    "SnapStartRegenerationFailureException SnapStartTimeoutException TooManyRequestsException",
    "lambda, how a function is made": "CodeArtifactUserDeletedException CodeArtifactUserFailedException "
    "CodeArtifactUserPendingException EFSIOException EFSMountConnectivityException EFSMountFailureException "
    "EFSMountTimeoutException ModeNotSupportedException NoPublishedVersionException RuntimeAliasDeletedException "
    "RuntimeVersionDeletedException S3FilesMountConnectivityException S3FilesMountFailureException "
    "S3FilesMountTimeoutException",
    "scheduler": "ConflictException ServiceQuotaExceededException ThrottlingException",
    "keys": "DecryptionFailure InternalServiceError InvalidKeyId InvalidParameterException InvalidRequestException "
    "ParameterVersionNotFound",
}
"""The codes that pass, though their status is a client's."""

NEVER_ASKED_FOR = (
    "BatchEntryIdsNotDistinct EmptyBatchRequest InvalidBatchEntryId TooManyEntriesInBatchRequest "
    "DurableExecutionAlreadyStartedException EncryptionTypeMismatch EndpointDisabled InvalidAttributeName "
    "InvalidIdFormat InvalidObjectState InvalidWriteOffset MessageNotInflight PlatformApplicationDisabled "
    "ReceiptHandleIsInvalid TooManyParts"
)
"""The codes of requests that the library makes of no kind, or does not mind: a pause that comes too late."""


def test_each_code_that_botocore_knows_of_these_calls_has_its_place() -> None:
    """A code that a new botocore brings is looked at, and either said to be for good or to pass."""
    session = botocore.session.Session()
    unknown: set[str] = set()
    known = FINAL | FOR_MINUTES | STRANGERS | {*" ".join((*PASSES.values(), NEVER_ASKED_FOR)).split()}
    for service, operations in CALLED.items():
        model = session.get_service_model(service)
        shapes = [shape for name in operations.split() for shape in model.operation_model(name).error_shapes]
        for shape in shapes:
            error: Any = shape.metadata.get("error", {})
            code = error.get("code", shape.name)
            if error.get("httpStatusCode", 400) < 500 and code not in known:
                unknown.add(f"{service}: {code}")
    assert sorted(unknown) == []


class Calls:
    """Fails as often as it is told to, then answers."""

    def __init__(self, failures: int, failure: ClientError) -> None:
        self.made = 0
        self._failures = failures
        self._failure = failure

    def __call__(self) -> str:
        self.made += 1
        if self.made <= self._failures:
            raise self._failure
        return "answer"


def test_a_conflict_is_tried_again_after_a_pause() -> None:
    pauses: list[float] = []
    calls = Calls(2, error("TransactionConflictException"))
    assert patiently(calls, pauses.append) == "answer"
    assert (calls.made, pauses) == (3, list(PAUSES[:2]))


def test_a_conflict_that_does_not_pass_is_raised_in_the_end() -> None:
    calls = Calls(99, error("TransactionConflictException"))
    with pytest.raises(ClientError):
        patiently(calls, lambda seconds: None)
    assert calls.made == len(PAUSES) + 1


def test_what_is_no_answer_of_awss_comes_through() -> None:
    def mistaken() -> str:
        raise TypeError("a mistake")

    with pytest.raises(TypeError, match="a mistake"):
        patiently(mistaken, lambda seconds: None)


def test_an_answer_is_never_asked_for_again() -> None:
    calls = Calls(1, error("ConditionalCheckFailedException"))
    with pytest.raises(ClientError):
        patiently(calls, lambda seconds: None)
    assert calls.made == 1


def refused(code: str) -> ClientError:
    """By a service that says whose fault it is."""
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return ClientError(response, "UpdateItem")


@pytest.mark.parametrize(
    ("failed", "later"),
    [
        (RowsUnwritten(3, "rows"), True),
        (refused("ThrottlingException"), True),
        (refused("TransactionConflictException"), True),
        (refused("ValidationException"), False),
        (EndpointConnectionError(endpoint_url="https://aws"), True),
        (KeyUnavailable("k1", "no answer"), True),
        (RunFailed("no such stage"), False),
        (ValueError("7"), False),
    ],
    ids=str,
)
def test_what_a_later_call_may_not_meet(failed: Exception, later: bool) -> None:
    assert fails_for_now(failed) is later

"""The errors of AWS that pass by themselves, those that pass for minutes, and those that are final.

A final error is the same however often the call is repeated: its code is in one list, and every other passes. botocore
repeats throttled calls, time-outs and server errors by its own retry mode (see ``clients``). What it does not repeat is
a transaction that met another one; that is done here. Everything else is an answer, or the stage's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from flowguard.aws import botocore_errors
from flowguard.errors import KeyUnavailable, RowsUnwritten, SettingsError

PAUSES: Final = (0.05, 0.1, 0.2)
"""Seconds before each further try: well within any lease."""

_CONFLICTS: Final = frozenset(
    {"ReplicatedWriteConflictException", "TransactionConflictException", "TransactionInProgressException"}
)
PASSING_REASONS: Final = frozenset({"None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
FINAL_REASONS: Final = frozenset({"ConditionalCheckFailed", "ItemCollectionSizeLimitExceeded", "ValidationError"})
"""Why a transaction is cancelled for good. A reason that is in neither list passes, and is not repeated at once."""

FINAL: Final = frozenset(
    {
        # of any service: what was asked for is malformed, or too large
        "InvalidParameter",
        "InvalidParameterCombination",
        "InvalidParameterValue",
        "InvalidParameterValueException",
        "MissingParameter",
        "ParameterValueInvalid",
        "SerializationException",
        "UnsupportedOperation",
        "ValidationError",
        "ValidationException",
        # DynamoDB
        "IdempotentParameterMismatchException",
        "ItemCollectionSizeLimitExceededException",
        # SQS and SNS
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "AWS.SimpleQueueService.UnsupportedOperation",
        "BatchRequestTooLong",
        "InvalidAddress",
        "InvalidAttributeValue",
        "InvalidMessageContents",
        # EventBridge
        "InvalidArgument",
        "MalformedDetail",
        "NotAuthorizedForDetailType",
        "NotAuthorizedForSource",
        # Lambda
        "InvalidRequestContentException",
        "RecursiveInvocationException",
        "RequestTooLargeException",
        "SerializedRequestEntityTooLargeException",
        "UnsupportedMediaTypeException",
        # S3
        "EntityTooLarge",
        "InvalidBucketName",
        "InvalidRequest",
        "KeyTooLongError",
        "NoSuchKey",
    }
)
"""The codes of refusals of what was asked for: the same call is refused again. Every other code passes."""

FOR_MINUTES: Final = frozenset(
    {
        # IAM is eventually consistent, and a deployment has an order
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "KMS.AccessDeniedException",
        "KMSAccessDenied",
        "KMSAccessDeniedException",
        "KmsAccessDenied",
        # what is not there yet, or not any more
        "AWS.SimpleQueueService.NonExistentQueue",
        "AWS.SimpleQueueService.QueueDeletedRecently",
        "NoSuchBucket",
        "NotFound",
        "NotFoundException",
        "ParameterNotFound",
        "QueueDoesNotExist",
        "ResourceNotFound",
        "ResourceNotFoundException",
        # KMS cannot use the key: it is disabled, pending deletion, or of another KeyUsage. S3, SQS and SNS each spell
        # the codes in their own way
        "KMS.DisabledException",
        "KMS.InvalidKeyUsageException",
        "KMS.InvalidStateException",
        "KMS.KMSInvalidStateException",
        "KMS.NotFoundException",
        "KMS.OptInRequired",
        "KMSDisabled",
        "KMSDisabledException",
        "KMSInvalidState",
        "KMSInvalidStateException",
        "KMSNotFound",
        "KMSNotFoundException",
        "KMSOptInRequired",
        "KmsDisabled",
        "KmsInvalidKeyUsage",
        "KmsInvalidState",
        "KmsNotFound",
        "KmsOptInRequired",
    }
)
"""The codes of refusals for how things are made and allowed. They pass for minutes, and are for good after that."""

STRANGERS: Final = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""The caller's credentials or clock are not accepted: that says nothing about what was asked for."""

Answer = TypeVar("Answer")


def patiently(call: Callable[[], Answer], pause: Callable[[float], None]) -> Answer:
    """Return the call's answer after a few retries where only another transaction stands in the way."""
    for seconds in PAUSES:
        try:
            return call()
        except botocore_errors.ClientError as error:
            if not is_passing(error):
                raise
        pause(seconds)
    return call()


def is_passing(error: botocore_errors.ClientError) -> bool:
    """Answer whether the same call may succeed a moment later. A failed condition is an answer and never passes."""
    code = error_code(error)
    if code != "TransactionCanceledException":
        return code in _CONFLICTS
    reasons: Any = error.response.get("CancellationReasons", [])
    codes = {reason.get("Code") for reason in reasons} - {"None", None}
    return bool(codes) and codes <= PASSING_REASONS


def is_final(error: Exception) -> bool:
    """Answer whether repeating the call cannot help: what was asked for is malformed or too large.

    Everything that is not known to be final passes: throttling, conflicts, server errors, the network, credentials,
    quotas, codes that are not known here.
    """
    if is_new_role(error):
        return False
    return isinstance(error, botocore_errors.ParamValidationError) or is_final_code(_clients_code(error))


def is_for_minutes(error: Exception) -> bool:
    """Answer whether the call is refused for how things are made and allowed, which may change within minutes."""
    return _clients_code(error) in FOR_MINUTES or is_new_role(error)


_TO_ASSUME: Final = "to assume the role"
"""How the scheduler's message ends for a role that does not let it in, or not yet."""


def is_new_role(error: Exception) -> bool:
    """Answer whether the scheduler may not assume the role of a schedule, which may not have reached it yet.

    It answers the code of a malformed call: its message alone tells these apart.
    """
    if not isinstance(error, botocore_errors.ClientError) or error.operation_name != "CreateSchedule":
        return False
    message = str(error.response.get("Error", {}).get("Message", ""))
    return error_code(error) == "ValidationException" and _TO_ASSUME in message


def is_refusal(error: Exception) -> bool:
    """Answer whether the call is refused for good, now or some minutes later."""
    return is_final(error) or is_for_minutes(error)


def is_final_code(code: str) -> bool:
    """Answer whether the service refuses the call for good, where its status is known to be one of 400 to 499."""
    return code in FINAL


def _clients_code(error: Exception) -> str:
    """Return the code of an error with a client's status. An empty text for any other error."""
    if not isinstance(error, botocore_errors.ClientError):
        return ""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return error_code(error) if 400 <= status < 500 else ""


def is_outage(error: Exception) -> bool:
    """Answer whether the error says that its service fails for now, whatever it is asked.

    It does so of the network, credentials and settings, the key that a codec seals with, throttling and server errors,
    and where access is denied or a resource is missing: the next record would meet the same. A refused content is of
    one record, and so are the key that opens it, and a setting or a key that its stage misses; a conflict is of one
    item. Where botocore's errors cannot be loaded to tell these apart, little else works.
    """
    if isinstance(error, KeyUnavailable):
        return not (error.opening or error.in_stage)
    if isinstance(error, SettingsError):
        return not error.in_stage
    if isinstance(error, botocore_errors.ErrorsNotLoaded):
        return True
    try:
        return _is_outage_of_calls(error)
    except botocore_errors.ErrorsNotLoaded:
        return True


def _is_outage_of_calls(error: Exception) -> bool:
    if not isinstance(error, botocore_errors.ClientError):
        is_of_calls = isinstance(error, botocore_errors.BotoCoreError)
        return is_of_calls and not isinstance(error, botocore_errors.ParamValidationError)
    if is_passing(error) or error_code(error) == "TransactionCanceledException":
        return False
    return not is_final(error)


def fails_for_now(error: Exception) -> bool:
    """Answer whether the same call may succeed later.

    So it is in an outage, after throttling, after a conflict that the retries did not resolve, and where DynamoDB left
    rows unprocessed. A call that is refused for good has to be changed by its caller.
    """
    is_conflict = isinstance(error, botocore_errors.ClientError) and not is_final(error)
    return is_conflict or is_outage(error) or isinstance(error, RowsUnwritten)


def error_code(error: botocore_errors.ClientError) -> str:
    """Return AWS's code for the error, such as ``ThrottlingException``."""
    return str(error.response.get("Error", {}).get("Code", ""))

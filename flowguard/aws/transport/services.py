"""The services whose calls are made without botocore, with their operations and errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from flowguard.startup.named_tuple import NamedTuple

_MESSAGE: Final = frozenset({"message"})


class Operation(NamedTuple):
    """An operation. It declares the codes of ``errors``; the parameter ``token`` tells its calls apart."""

    name: str
    errors: frozenset[str]
    token: str | None = None


class Service(NamedTuple):
    """How a service is spoken to.

    ``target`` is what the names of its operations follow in ``X-Amz-Target``. ``operations`` are by the names of their
    methods. ``errors`` has the fields of each error that they declare, and of what any call may get, by its code; those
    in ``repeats`` are worth another try. ``is_query_compatible`` is a service that has codes of an older protocol too.
    ``backoff`` is the longest first pause (s) after what is no throttling. What a body of a request has of
    ``elsewhere`` sends it to another endpoint. The fields ``times`` and ``blobs`` of answers are no text in Python;
    DynamoDB's values are not among them.
    """

    name: str
    target: str
    version: str
    operations: Mapping[str, Operation]
    errors: Mapping[str, frozenset[str]]
    repeats: frozenset[str] = frozenset()
    is_query_compatible: bool = False
    has_checksums: bool = False
    backoff: float = 0.05
    elsewhere: Collection[bytes] = ()
    times: frozenset[str] = frozenset()
    blobs: frozenset[str] = frozenset()


def _operations(*operations: Operation) -> dict[str, Operation]:
    """Return the operations by the names of their methods: ``update_item`` for ``UpdateItem``."""
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in operation.name)[1:]: operation
        for operation in operations
    }


def _errors(fields: Collection[str], *codes: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys(codes, frozenset(fields))


_ANY: Final = frozenset({"InternalServerError", "RequestLimitExceeded", "ThrottlingException"})
_READ: Final = _ANY | {"ProvisionedThroughputExceededException", "ResourceNotFoundException"}
_WRITE: Final = _READ | {"ItemCollectionSizeLimitExceededException", "ReplicatedWriteConflictException"}
_CONDITIONAL: Final = _WRITE | {"ConditionalCheckFailedException", "TransactionConflictException"}
_TRANSACTION: Final = _READ | {
    "IdempotentParameterMismatchException",
    "TransactionCanceledException",
    "TransactionInProgressException",
}

DYNAMODB: Final = Service(
    name="dynamodb",
    target="DynamoDB_20120810",
    version="1.0",
    operations=_operations(
        Operation("BatchExecuteStatement", _ANY),
        Operation("BatchGetItem", _READ),
        Operation("BatchWriteItem", _WRITE),
        Operation("DeleteItem", _CONDITIONAL),
        Operation("GetItem", _READ),
        Operation("PutItem", _CONDITIONAL),
        Operation("Query", _READ),
        Operation("TransactWriteItems", _TRANSACTION, "ClientRequestToken"),
        Operation("UpdateItem", _CONDITIONAL),
    ),
    errors={
        **_errors(
            _MESSAGE,
            "InternalServerError",
            "ItemCollectionSizeLimitExceededException",
            "ReplicatedWriteConflictException",
            "ResourceNotFoundException",
            "TransactionConflictException",
        ),
        "ConditionalCheckFailedException": frozenset({"message", "Item"}),
        "IdempotentParameterMismatchException": frozenset({"Message"}),
        "ProvisionedThroughputExceededException": frozenset({"message", "ThrottlingReasons"}),
        "RequestLimitExceeded": frozenset({"message", "ThrottlingReasons"}),
        "ThrottlingException": frozenset({"message", "throttlingReasons"}),
        "TransactionCanceledException": frozenset({"Message", "CancellationReasons"}),
        "TransactionInProgressException": frozenset({"Message"}),
    },
    repeats=frozenset({"ReplicatedWriteConflictException"}),
    has_checksums=True,
    backoff=0.025,
    elsewhere=(b'"TableName": "arn:', b'"RequestItems": {"arn:'),  # in a text within the body a quote has a backslash
)

_QUEUE: Final = frozenset(
    {"InvalidAddress", "InvalidSecurity", "QueueDoesNotExist", "RequestThrottled", "UnsupportedOperation"}
)
_BATCH: Final = _QUEUE | {
    "BatchEntryIdsNotDistinct",
    "EmptyBatchRequest",
    "InvalidBatchEntryId",
    "TooManyEntriesInBatchRequest",
}
_KMS: Final = frozenset(
    {
        "KmsAccessDenied",
        "KmsDisabled",
        "KmsInvalidKeyUsage",
        "KmsInvalidState",
        "KmsNotFound",
        "KmsOptInRequired",
        "KmsThrottled",
    }
)

SQS: Final = Service(
    name="sqs",
    target="AmazonSQS",
    version="1.0",
    operations=_operations(
        Operation("ChangeMessageVisibility", _QUEUE | {"MessageNotInflight", "ReceiptHandleIsInvalid"}),
        Operation("ChangeMessageVisibilityBatch", _BATCH),
        Operation("GetQueueAttributes", _QUEUE | {"InvalidAttributeName"}),
        Operation("GetQueueUrl", _QUEUE),
        Operation("SendMessageBatch", _BATCH | _KMS | {"BatchRequestTooLong"}),
    ),
    errors={
        **_errors(
            _MESSAGE,
            *(_BATCH | _KMS),
            "BatchRequestTooLong",
            "InvalidAttributeName",
            "ReceiptHandleIsInvalid",
            "ResourceNotFoundException",
        ),
        "MessageNotInflight": frozenset(),
    },
    is_query_compatible=True,
)

EVENTS: Final = Service(
    name="events",
    target="AWSEvents",
    version="1.1",
    operations=_operations(Operation("PutEvents", frozenset({"InternalException"}))),
    errors=_errors(
        (), "AccessDeniedException", "InternalException", "ResourceNotFoundException", "ThrottlingException"
    ),
    elsewhere=(b'"EndpointId": ',),
)

_PARAMETER: Final = frozenset({"InvalidKeyId", "ParameterNotFound", "ParameterVersionNotFound"})
_CAPITAL: Final = frozenset({"Message"})

SSM: Final = Service(
    name="ssm",
    target="AmazonSSM",
    version="1.1",
    operations=_operations(Operation("GetParameter", _PARAMETER | {"InternalServerError"})),
    errors={
        **_errors(_MESSAGE, *_PARAMETER),
        **_errors(_CAPITAL, "AccessDeniedException", "InternalServerError", "ResourceNotFoundException"),
        "ThrottlingException": frozenset({"Message", "QuotaCode", "ServiceCode"}),
    },
    times=frozenset({"LastModifiedDate"}),
)

_SECRET: Final = frozenset(
    {
        "DecryptionFailure",
        "InternalServiceError",
        "InvalidParameterException",
        "InvalidRequestException",
        "ResourceNotFoundException",
    }
)

SECRETS: Final = Service(
    name="secretsmanager",
    target="secretsmanager",
    version="1.1",
    operations=_operations(Operation("GetSecretValue", _SECRET)),
    errors=_errors(_CAPITAL, *_SECRET),
    times=frozenset({"CreatedDate"}),
    blobs=frozenset({"SecretBinary"}),
)

SERVICES: Final = {service.name: service for service in (DYNAMODB, SQS, EVENTS, SSM, SECRETS)}
"""By the names that botocore has for them."""

"""What the codes of errors mean that all services share."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_COMMON: Final = Document(
    "Common error types", "https://docs.aws.amazon.com/awssupport/latest/APIReference/CommonErrors.html"
)
_DYNAMODB: Final = Document(
    "Error handling with DynamoDB",
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html",
)
_RETRIES: Final = Document("Retries (boto3)", "https://docs.aws.amazon.com/boto3/latest/guide/retries.html")
_CREDENTIALS: Final = Document("Error responses", "https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html")
_CLOCK: Final = Document("Clock-skew correction", "https://aws.amazon.com/blogs/developer/clock-skew-correction/")

ERROR_FACTS: Final = (
    Fact(
        name="errors-throttled",
        sentence="A throttled call has the status of a client's mistake, 400 or 429, and passes: its code has "
        "`Throttl` in it, or is one of a few more.",
        source=_RETRIES,
        relied_on_by=("aws/faults.py:is_final_code",),
        words=(
            "ThrottlingException",
            "ProvisionedThroughputExceededException",
            "BandwidthLimitExceeded",
            "LimitExceededException",
            "PriorRequestNotComplete",
            "TooManyRequestsException",
            "Throttled",
            "Throttling",
        ),
        engines=like("deliveries"),
        by_hand="Takes a load that an account notices.",
    ),
    Fact(
        name="errors-timeouts",
        sentence="A request that was cut off is `RequestTimeout`, 400 or 408: it may have been carried out.",
        source=_CREDENTIALS,
        relied_on_by=("aws/faults.py:is_final_code",),
        words=("RequestTimeout", "RequestTimeoutException"),
        engines=NOWHERE,
        by_hand="It comes with a bad network.",
    ),
    Fact(
        name="errors-resource-conflict",
        sentence="`ResourceConflictException` of Lambda, 409, passes: the function is being changed.",
        source=Document("Invoke", "https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html"),
        read="2026-11",
        relied_on_by=("aws/faults.py:is_final_code",),
        words=("ResourceConflictException",),
        engines=NOWHERE,
        by_hand="A function that is being updated shows it.",
    ),
    Fact(
        name="errors-final",
        sentence="A call that is malformed or too large is refused again however often it is made. These codes say so; "
        "any other, also one that nobody here has seen, may pass.",
        source=_COMMON,
        relied_on_by=("aws/faults.py:FINAL",),
        words=(
            "InvalidParameterCombination",
            "UnsupportedOperation",
            "ItemCollectionSizeLimitExceededException",
            "InvalidAttributeValue",
            "RecursiveInvocationException",
            "UnsupportedMediaTypeException",
            "EntityTooLarge",
        ),
        engines=like("memory", "moto"),
        by_hand="Each needs a call that is wrong in its own way.",
    ),
    Fact(
        name="errors-of-keys",
        sentence="SQS, SNS and S3 refuse what is under a key that is denied, disabled or being deleted, with codes of "
        "their own each, and take it once the key is mended. Lambda answers 502 for the key of a function.",
        source=Document(
            "SendMessage", "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"
        ),
        read="2026-11",
        relied_on_by=("aws/faults.py:FOR_MINUTES",),
        words=(
            "KMS.AccessDeniedException",
            "KMS.DisabledException",
            "KMS.InvalidKeyUsageException",
            "KMS.InvalidStateException",
            "KMS.KMSInvalidStateException",
            "KMS.NotFoundException",
            "KMS.OptInRequired",
            "KMSAccessDenied",
            "KMSAccessDeniedException",
            "KMSDisabled",
            "KMSDisabledException",
            "KMSInvalidState",
            "KMSInvalidStateException",
            "KMSNotFound",
            "KMSNotFoundException",
            "KMSOptInRequired",
            "KmsAccessDenied",
            "KmsDisabled",
            "KmsInvalidKeyUsage",
            "KmsInvalidState",
            "KmsNotFound",
            "KmsOptInRequired",
        ),
        engines=NOWHERE,
        by_hand="Needs a key of its own, which costs a dollar a month.",
    ),
    Fact(
        name="errors-server",
        sentence="A status of 500 and more passes, and the call may have been carried out.",
        source=_DYNAMODB,
        read="2023-06",
        relied_on_by=("aws/faults.py:is_final", "testing/explorer/run/fault_effects.py:failure"),
        words=("InternalError", "ServerError", "ServiceUnavailable"),
        engines=like("deliveries"),
        by_hand="Nobody can ask for one.",
    ),
    Fact(
        name="errors-credentials",
        sentence="Credentials or a clock that are not accepted say nothing about what was asked for: the call is good "
        "with others.",
        source=_COMMON,
        relied_on_by=(
            "aws/faults.py:STRANGERS",
            "aws/dead_letter_queue.py:explained",
            "aws/transport/json_client.py:DOUBTED",
        ),
        words=(
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
        ),
        engines=NOWHERE,
        by_hand="Wrong credentials show each.",
    ),
    Fact(
        name="errors-clock",
        sentence="A call that is signed more than 15 minutes ahead of AWS's clock is refused, and boto3 does not "
        "correct its clock: who can call AWS has a clock that is fast by less.",
        source=_CLOCK,
        relied_on_by=("worker/routing.py:CLOCKS_DIFFER_BY",),
        engines=NOWHERE,
        by_hand="Set a machine's clock ahead: a call is answered `InvalidSignatureException`, not yet current.",
    ),
    Fact(
        name="errors-unknown-operation",
        sentence="An operation that a service does not know is `UnknownOperationException`.",
        source=_COMMON,
        relied_on_by=("aws/batch_calls.py:_NOT_HERE", "aws/batch_reads.py:_NOT_HERE"),
        words=("UnknownOperationException",),
        engines=NOWHERE,
        by_hand="AWS knows them all; emulators do not.",
    ),
    Fact(
        name="errors-already-there",
        sentence="What is made a second time is `ResourceInUseException` at DynamoDB, `ResourceAlreadyExistsException` "
        "at EventBridge and CloudWatch.",
        source=Document(
            "CreateTable", "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_CreateTable.html"
        ),
        relied_on_by=("sim/memory/dynamodb.py:DynamoDB._create", "dev/provided.py:Provider"),
        words=("ResourceInUseException", "ResourceAlreadyExistsException"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
    ),
    Fact(
        name="errors-sdk-retries",
        sentence="boto3's standard retry mode repeats a throttled call, a time-out and a server's error, three times "
        "in all by default, and no other.",
        source=_RETRIES,
        relied_on_by=("aws/clients.py:Clients",),
        limit=3,
        engines=NOWHERE,
        by_hand="The logger of botocore shows its retries.",
    ),
)

"""What a call may answer instead of a result: AWS's own errors, and that something is not built here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from botocore.client import BaseClient
from botocore.exceptions import ClientError

from flowguard.errors import FlowguardError


class Fault(Exception):
    """An error in AWS's words, on its way to the client that called. ``more`` is said beside code and message.

    SQS has two words for some errors: ``code`` from its older protocol, ``shape`` for the exception class.
    """

    def __init__(self, code: str, message: str, *, shape: str | None = None, **more: Any) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.shape = shape
        self.more = more

    def as_raised_by(self, client: BaseClient, operation: str) -> ClientError:
        """What boto3 raises for it: the service's own class where it has one, ``ClientError`` otherwise."""
        response: Any = {
            **self.more,
            "Error": {"Code": self.code, "Message": self.message},
            "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {}, "RetryAttempts": 0},
        }
        if self.shape is not None:
            response["Error"]["QueryErrorCode"] = self.shape
        kind: Any = client.exceptions.from_code(self.shape or self.code)
        raised: ClientError = kind(response, operation)
        return raised


def invalid(message: str) -> Fault:
    """DynamoDB's word for a request that is wrong in itself."""
    return Fault("ValidationException", message)


class NotInMemory(FlowguardError):
    """A call needs something of AWS that the memory does not play. Nothing has been sent to anybody.

    ``there`` is what it has instead: services, operations or parameters.
    """

    def __init__(self, what: str, there: Iterable[str]) -> None:
        self.what = what
        self.there = tuple(sorted(there))
        super().__init__(self.what, self.there)

    def __str__(self) -> str:
        return f"{self.what} is not there in memory; there is {', '.join(self.there)}"

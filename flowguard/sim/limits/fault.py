"""An error of AWS on its way to the calling client."""

from __future__ import annotations

from typing import Any

from botocore.client import BaseClient
from botocore.exceptions import ClientError

from flowguard.sim.calls import Response


class Fault(Exception):
    """An error of AWS. ``more`` stands beside code and message in the response, ``status`` is the HTTP status.

    SQS has two names for some errors: ``code`` from its older protocol, ``shape`` for the exception class.
    """

    def __init__(self, code: str, message: str, *, shape: str | None = None, status: int = 400, **more: Any) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.shape = shape
        self.status = status
        self.more = more

    def as_raised_by(self, client: BaseClient, operation: str) -> ClientError:
        """Return the exception that boto3 raises for it.

        That is the service's own class where it has one, ``ClientError`` otherwise.
        """
        response: Any = {
            **self.more,
            "Error": {"Code": self.code, "Message": self.message},
            "ResponseMetadata": {"HTTPStatusCode": self.status, "HTTPHeaders": {}, "RetryAttempts": 0},
        }
        if self.shape is not None:
            response["Error"]["QueryErrorCode"] = self.shape
        kind: Any = client.exceptions.from_code(self.shape or self.code)
        raised: ClientError = kind(response, operation)
        return raised

    def as_entry(self, entry_id: str) -> Response:
        """Return the fault as an entry among the ``Failed`` of a batch."""
        return {"Id": entry_id, "SenderFault": True, "Code": self.code, "Message": self.message}


def invalid(message: str) -> Fault:
    """Return DynamoDB's error for an invalid request."""
    return Fault("ValidationException", message)

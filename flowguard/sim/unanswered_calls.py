"""The error that boto3 raises when a service carries a call out and never answers, botocore's own retries included."""

from __future__ import annotations

from botocore.exceptions import ReadTimeoutError


def unanswered(service: str) -> Exception:
    """Return the error of a call that may have been applied."""
    error: Exception = ReadTimeoutError(endpoint_url=f"https://{service}.amazonaws.com")
    return error

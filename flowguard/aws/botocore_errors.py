"""The errors of botocore, by name. Their module is loaded by the first that is named: that costs a start a fortieth.

An ``except`` clause names its error only where something was raised. Where no file can be opened just then, the module
cannot be loaded, and :class:`ErrorsNotLoaded` is raised in place of what was raised: an outage, as that most often is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowguard.errors import FlowguardError

if TYPE_CHECKING:
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionClosedError,
        ConnectTimeoutError,
        EndpointConnectionError,
        NoRegionError,
        ParamValidationError,
        ReadTimeoutError,
        SSLError,
    )

__all__ = [
    "BotoCoreError",
    "ClientError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "EndpointConnectionError",
    "ErrorsNotLoaded",
    "NoRegionError",
    "ParamValidationError",
    "ReadTimeoutError",
    "SSLError",
]


class ErrorsNotLoaded(FlowguardError):
    """botocore's errors cannot be loaded now. What a call has met, and whether it was made, is not known."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"a call of AWS failed, and botocore's errors cannot be loaded to say how: {self.why}"


def __getattr__(name: str) -> Any:
    try:
        from botocore import exceptions  # most starts and most messages name none
    except (OSError, ImportError) as error:
        raise ErrorsNotLoaded(f"{type(error).__name__}: {error}") from error
    return getattr(exceptions, name)

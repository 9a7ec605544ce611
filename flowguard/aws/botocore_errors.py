"""The errors of botocore, by name. Their module is loaded by the first that is named: that costs a start a fortieth.

An ``except`` clause names its error only where something was raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    "NoRegionError",
    "ParamValidationError",
    "ReadTimeoutError",
    "SSLError",
]


def __getattr__(name: str) -> Any:
    from botocore import exceptions  # most starts and most messages name none

    return getattr(exceptions, name)

"""Lambda: the payloads that Invoke takes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final

from botocore.response import StreamingBody

from flowguard.sim.limits.fault import Fault

LARGEST: Final = {"Event": 1_048_576, "RequestResponse": 6_291_456}
"""Bytes, by the type of invocation."""


def no_function(name: str) -> Fault:
    return Fault("ResourceNotFoundException", f"Function not found: {name}", status=404)


def event_of(params: Mapping[str, Any]) -> Any:
    """Read the event of an Invoke call from its payload.

    A stream is left at its position. Raises a Fault for a payload that Lambda does not accept.
    """
    content, kind = _content(params.get("Payload", b"")), params.get("InvocationType", "RequestResponse")
    most = LARGEST.get(kind)
    if most is not None and len(content) > most:
        problem = f"{len(content)} byte payload is too large for the {kind} invocation type (limit {most} bytes)"
        raise Fault("RequestTooLargeException", problem, status=413)
    try:
        return json.loads(content or b"null")
    except (ValueError, RecursionError):
        raise Fault("InvalidRequestContentException", "Could not parse request body into json") from None


def accepted(params: Mapping[str, Any]) -> dict[str, Any]:
    """Build Lambda's answer to an invocation of a function that returns null."""
    match params.get("InvocationType", "RequestResponse"):
        case "RequestResponse":
            return {"StatusCode": 200, "ExecutedVersion": "$LATEST", "Payload": body_of(b"null")}
        case kind:
            return {"StatusCode": 204 if kind == "DryRun" else 202, "Payload": body_of(b"")}


def body_of(content: bytes) -> StreamingBody:
    return StreamingBody(io.BytesIO(content), len(content))


def _content(payload: Any) -> bytes:
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, bytes | bytearray):
        return bytes(payload)
    place = payload.tell()
    content = payload.read()
    payload.seek(place)
    return content.encode() if isinstance(content, str) else bytes(content)


def function_name(params: Mapping[str, Any]) -> str:
    """Return the function's name without its alias or the rest of its ARN."""
    _, _, name = str(params["FunctionName"]).rpartition("function:")
    return name.partition(":")[0]

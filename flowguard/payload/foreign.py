"""Names of the events that are not payloads, for the error of a payload that cannot be read."""

from __future__ import annotations

from typing import Any, Final

from flowguard.payload.http_source import HttpSource, http_source

_CALL: Final = "call FlowClient.start from the function behind"


def recognised(value: object) -> str:
    """Return what the value is and the fix, to follow an error. Empty where it is nothing known."""
    known = _found(value)
    return f"; this is {known[0]}{known[1]}" if known else ""


def foreign_name(value: object) -> str | None:
    """Return what the value is. None where it is nothing known."""
    known = _found(value)
    return known[0] if known else None


def _found(value: object) -> tuple[str, str] | None:
    """Return the value's name, and the fix with the punctuation before it."""
    if not isinstance(value, dict):
        return None
    return _request(value) or _bus_event(value) or _notification(value)


_REQUESTS: Final = {
    HttpSource.FORMAT_1: ("an API Gateway event (REST API, format 1.0)", f"; {_CALL} the gateway"),
    HttpSource.FORMAT_2: ("an API Gateway event (HTTP API, format 2.0)", f"; {_CALL} the gateway"),
    HttpSource.FUNCTION_URL: ("the event of a function URL", f"; {_CALL} the URL"),
    HttpSource.LOAD_BALANCER: ("the event of a load balancer", f"; {_CALL} the load balancer"),
}


def _request(value: dict[str, Any]) -> tuple[str, str] | None:
    """Name what an HTTP request became on its way to a function."""
    source = http_source(value)
    if source is not None:
        return _REQUESTS[source]
    context = value.get("requestContext")
    if isinstance(context, dict) and isinstance(context.get("connectionId"), str):
        return "an API Gateway event (WebSocket API)", f"; {_CALL} the gateway"
    return None


def _bus_event(value: dict[str, Any]) -> tuple[str, str] | None:
    if not all(isinstance(value.get(name), str) for name in ("detail-type", "source")) or "detail" not in value:
        return None
    missing = [name for name in _EVENT if name not in value]
    if missing:
        why = f"that lacks {', '.join(missing)}; a whole one is unwrapped: leave the rule's input as it is"
    else:
        why = "that was not unwrapped; send the event as EventBridge made it, or its detail alone"
    return "an EventBridge event", f" {why}"


def _notification(value: dict[str, Any]) -> tuple[str, str] | None:
    match value.get("Records"):
        case [{"eventSource": "aws:s3"}, *_]:
            return "an S3 notification", " that lacks a part; a whole one is unwrapped: send it as S3 wrote it"
        case _:
            return None


_EVENT: Final = ("version", "id", "account", "time", "region", "resources")

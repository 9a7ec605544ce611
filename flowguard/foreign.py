"""Names of the events that are not payloads, for the error of a payload that cannot be read."""

from __future__ import annotations

from typing import Any, Final

_CALL: Final = "call FlowClient.start from the function behind"


def recognised(value: object) -> str:
    """Return what the value is and the cure, to follow an error. Empty where it is nothing known."""
    if not isinstance(value, dict):
        return ""
    found = _request(value) or _bus_event(value) or _notification(value)
    return f"; this is {found}" if found else ""


def _request(value: dict[str, Any]) -> str | None:
    """Name what an HTTP request became on its way to a function."""
    context = value.get("requestContext")
    if not isinstance(context, dict):
        return None
    if isinstance(context.get("http"), dict) and isinstance(value.get("rawPath"), str):
        if ".lambda-url." in str(context.get("domainName")):
            return f"the event of a function URL; {_CALL} the URL"
        return f"an API Gateway event (HTTP API, format 2.0); {_CALL} the gateway"
    if isinstance(context.get("connectionId"), str):
        return f"an API Gateway event (WebSocket API); {_CALL} the gateway"
    if isinstance(value.get("httpMethod"), str) and isinstance(value.get("path"), str):
        if isinstance(context.get("elb"), dict):
            return f"the event of a load balancer; {_CALL} the load balancer"
        return f"an API Gateway event (REST API, format 1.0); {_CALL} the gateway"
    return None


def _bus_event(value: dict[str, Any]) -> str | None:
    if not all(isinstance(value.get(name), str) for name in ("detail-type", "source")) or "detail" not in value:
        return None
    missing = [name for name in _EVENT if name not in value]
    if missing:
        why = f"that lacks {', '.join(missing)}; a whole one is unwrapped: leave the rule's input as it is"
    else:
        why = "that was not unwrapped; send the event as EventBridge made it, or its detail alone"
    return f"an EventBridge event {why}"


def _notification(value: dict[str, Any]) -> str | None:
    match value.get("Records"):
        case [{"eventSource": "aws:s3"}, *_]:
            return "an S3 notification, which is passed on whole; let the stage take a payload with Records"
        case _:
            return None


_EVENT: Final = ("version", "id", "account", "time", "region", "resources")

"""The services that hand HTTP requests to a function, each recognised by its event."""

from __future__ import annotations

from enum import StrEnum


class HttpSource(StrEnum):
    """A service that turns HTTP requests into events."""

    FORMAT_1 = "API Gateway (REST API, format 1.0)"
    FORMAT_2 = "API Gateway (HTTP API, format 2.0)"
    FUNCTION_URL = "function URL"
    LOAD_BALANCER = "load balancer"


def http_source(event: object) -> HttpSource | None:
    """Return the service that made the event; None where it is no HTTP request."""
    if not isinstance(event, dict):
        return None
    context = event.get("requestContext")
    if not isinstance(context, dict):
        return None
    if isinstance(context.get("http"), dict) and isinstance(event.get("rawPath"), str):
        domain = context.get("domainName")
        is_url = isinstance(domain, str) and ".lambda-url." in domain
        return HttpSource.FUNCTION_URL if is_url else HttpSource.FORMAT_2
    if isinstance(context.get("connectionId"), str):
        return None  # a WebSocket API, whose messages are no requests
    if isinstance(event.get("httpMethod"), str) and isinstance(event.get("path"), str):
        return HttpSource.LOAD_BALANCER if isinstance(context.get("elb"), dict) else HttpSource.FORMAT_1
    return None

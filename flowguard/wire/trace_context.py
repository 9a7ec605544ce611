"""The trace that a request was made in. It travels in flowguard's own attribute, so that it takes none of SQS's ten.

::

    traceparent      00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01      W3C, as OpenTelemetry sends it
    AWSTraceHeader   Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1

It decides nothing: a text that is neither is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from flowguard.wire.attributes import Attribute

TRACE: Final = "trace"
"""The key of the place that has it."""

TRACEPARENT: Final = "traceparent"
HEADER: Final = "AWSTraceHeader"
"""A system attribute of SQS. It counts neither as one of the ten nor for the size of a message."""

LONGEST: Final = 256

_W3C: Final = r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})"
_XRAY: Final = r"Root=1-([0-9a-f]{8})-([0-9a-f]{24})(?:;[A-Za-z]{1,16}=[A-Za-z0-9:|.?-]{1,64}){0,8}"
_PARENT: Final = r";Parent=([0-9a-f]{16})(?:;|\Z)"
"""Texts, which are compiled when the first trace comes."""


def read_trace(value: object) -> str | None:
    """Return the text if it is a trace context; else None."""
    if not isinstance(value, str) or len(value) > LONGEST:
        return None
    return value if re.fullmatch(_W3C, value) or re.fullmatch(_XRAY, value) else None


def made_in(attributes: Mapping[str, Attribute], of_sqs: Mapping[str, Any]) -> str | None:
    """Return the context that a sender has given: as an attribute, or else in SQS's own."""
    given = attributes.get(TRACEPARENT)
    return (None if given is None else read_trace(given.value)) or read_trace(of_sqs.get(HEADER))


def is_sampled(trace: str | None) -> bool:
    """Answer whether the request's sender has sampled its trace."""
    if trace is None:
        return False
    match = re.fullmatch(_W3C, trace)
    return ";Sampled=1" in trace if match is None else int(match[3], 16) & 1 == 1


def xray_header(trace: str) -> str:
    """Return the context as X-Ray writes it."""
    if (match := re.fullmatch(_W3C, trace)) is None:
        return trace
    return f"Root=1-{match[1][:8]}-{match[1][8:]};Parent={match[2]};Sampled={int(is_sampled(trace))}"


def traceparent(trace: str) -> str | None:
    """Return the context as the W3C writes it. None for a header of X-Ray that names no parent."""
    if (match := re.fullmatch(_XRAY, trace)) is None:
        return trace
    if (parent := re.search(_PARENT, trace)) is None:
        return None
    return f"00-{match[1]}{match[2]}-{parent[1]}-{int(is_sampled(trace)):02}"

"""Write the log of a Lambda function that logs JSON: each line goes to standard output as it is, without a record.

Lambda takes a line of JSON from standard output as it stands, with its ``level`` and ``timestamp``:
https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html. A record of Python's logging, of
which Lambda's own handler makes the same line in the end, takes more than twice the time.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

OWN: Final = frozenset({"timestamp", "level", "message", "logger", "requestId", "tenantId"})
"""Fields that each line has of itself."""

_RUNTIME: Final = "awslambdaric."
"""The package of Lambda's runtime for Python: https://github.com/aws/aws-lambda-python-runtime-interface-client"""

to_json = json.JSONEncoder(default=str, check_circular=False).encode
"""``json.dumps`` would make an encoder for each line, and look for circles, which facts have none of."""


class _Invocation:
    """The invocation that is at work. A process of Lambda has one at a time, with lines of several threads."""

    request_id: str | None = None
    tenant_id: str | None = None


def begin(context: object) -> None:
    """Name the invocation that the next lines are of, as Lambda does in its own lines. ``context`` is Lambda's."""
    _Invocation.request_id = _text(getattr(context, "aws_request_id", None))
    _Invocation.tenant_id = _text(getattr(context, "tenant_id", None))


def takes_all(logger: logging.Logger, level: int) -> bool:
    """Answer whether a line of this logger may be written here: it would reach Lambda's own handler alone, as JSON.

    It is not so where somebody has added a handler, a filter, a formatter or a factory of records: they get records.
    Nor above INFO: Lambda's levels have other names there than Python's (WARN), and it takes an unknown one for INFO.
    """
    if level > logging.INFO or logger.handlers or logger.filters or not logger.propagate:
        return False
    if len(handlers := logging.root.handlers) != 1 or logging.getLogRecordFactory() is not logging.LogRecord:
        return False
    (handler,) = handlers
    if handler.level > level or handler.formatter is None:
        return False
    for part in (handler, handler.formatter, *handler.filters):  # noqa: SIM110  # a generator takes twice as long
        if not part.__module__.startswith(_RUNTIME):
            return False
    return True


def write(level: int, event: str, fields: Mapping[str, Any]) -> None:
    """Write the line of an event."""
    sys.stdout.write(line(level, event, fields))
    sys.stdout.flush()


def line(level: int, event: str, fields: Mapping[str, Any]) -> str:
    """Return the line that Lambda's handler would make of this event with these fields as ``extra``: one at least."""
    second, ms = divmod(time.time_ns() // 1_000_000, 1000)
    invocation = _invocation(_Invocation.request_id, _Invocation.tenant_id)
    return f'{_begun(level, event, second)}.{ms:03d}Z", {invocation}{to_json(fields)[1:]}\n'


@lru_cache(maxsize=8)
def _invocation(request_id: str | None, tenant_id: str | None) -> str:
    """Return the fields that the lines of an invocation have."""
    named = (("requestId", request_id), ("tenantId", tenant_id))
    return "".join(f'"{name}": {to_json(text)}, ' for name, text in named if text is not None)


@lru_cache(maxsize=32)
def _begun(level: int, event: str, second: int) -> str:
    """Return a line as far as all lines of an event have it within a second of the epoch."""
    fields = f'"level": "{logging.getLevelName(level)}", "message": "flowguard {event}", "logger": "flowguard"'
    return f'{{{fields}, "timestamp": "{time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))}'


def _text(value: object) -> str | None:
    return None if value is None else str(value)

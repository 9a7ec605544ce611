"""The logging that Lambda's runtime for Python sets up in a function that logs JSON, as far as a line can tell.

Its own classes are in ``awslambdaric``, which installs only where there is a C++ compiler. These have the same module
names and write the same fields to standard output. The real ones write to a descriptor that Lambda hands in.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

REQUEST_ID: Final = "00000000-0000-4000-8000-00000000000a"
TENANT_ID: Final = "tenant-7"

_OF_A_RECORD: Final = {*vars(logging.makeLogRecord({})), "aws_request_id", "tenant_id"}


class JsonFormatter(logging.Formatter):
    """Makes a line of JSON: a record's own fields, and what came as ``extra`` under a name that they do not have."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": self.formatTime(record, "%Y-%m-%dT%H:%M:%SZ"),
            "level": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
            "requestId": vars(record)["aws_request_id"],
            "tenantId": vars(record)["tenant_id"],
        }
        extra = {name: value for name, value in vars(record).items() if name not in _OF_A_RECORD and name not in line}
        return json.dumps({name: value for name, value in {**line, **extra}.items() if value is not None})


class LambdaLoggerHandler(logging.Handler):
    """Writes each line. An error in it reaches whoever logs: it catches none."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stdout.write(f"{self.format(record)}\n")


class LambdaLoggerFilter(logging.Filter):
    """Names the invocation in each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.aws_request_id = REQUEST_ID
        record.tenant_id = TENANT_ID
        return True


JsonFormatter.__module__ = "awslambdaric.lambda_runtime_log_utils"
LambdaLoggerHandler.__module__ = LambdaLoggerFilter.__module__ = "awslambdaric.bootstrap"


@contextmanager
def lambda_logging(level: int = logging.INFO) -> Iterator[LambdaLoggerHandler]:
    """Log as a function does whose log format is JSON and whose log level is this. Lines go to ``sys.stdout``."""
    handler = LambdaLoggerHandler()
    handler.setFormatter(JsonFormatter())
    handler.addFilter(LambdaLoggerFilter())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_LAMBDA_LOG_FORMAT", "JSON")
        patch.delenv("_X_AMZN_TRACE_ID", raising=False)
        patch.setattr(logging.root, "handlers", [handler])
        before = logging.root.level
        logging.root.setLevel(level)
        try:
            yield handler
        finally:
            logging.root.setLevel(before)

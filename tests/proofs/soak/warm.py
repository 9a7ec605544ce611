"""Loaded once by the process that workers are forked from: what a worker needs, the flows and clients of DynamoDB
and SQS too.

A worker that was killed is back in milliseconds then, as it has to be where thousands are killed.
"""

from __future__ import annotations

from tests.proofs.soak import worker
from tests.proofs.soak.orders import flow as orders
from tests.proofs.soak.pages import flow as pages
from tests.proofs.soak.sandbox import Sandbox
from tests.proofs.soak.waits import flow as waits

__all__ = ["orders", "pages", "waits", "worker"]

_sandbox = Sandbox("http://127.0.0.1:1", "http://127.0.0.1:1")
_sandbox.clients.dynamodb  # noqa: B018 - made when asked for; nothing is sent yet
_sandbox.clients.sqs  # noqa: B018 - the same

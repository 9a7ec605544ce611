"""Loaded once by the process that workers are forked from: what a worker needs, clients of DynamoDB and SQS too.

A worker that was killed is back in milliseconds then, as it has to be where thousands are killed.
"""

from __future__ import annotations

from tests.proofs.soak import worker
from tests.proofs.soak.ground import Ground

__all__ = ["worker"]

_ground = Ground("http://127.0.0.1:1", "http://127.0.0.1:1")
_ground.clients.dynamodb  # noqa: B018 - made when asked for; nothing is sent yet
_ground.clients.sqs  # noqa: B018 - the same

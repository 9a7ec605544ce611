"""Loaded once by the process that the racing ones are forked from: all that a worker needs, a client's tables too."""

from __future__ import annotations

from boto3.dynamodb import types

from tests.proofs.races import worker
from tests.proofs.soak.ground import Ground

__all__ = ["types", "worker"]

_ground = Ground("http://127.0.0.1:1", "no queues here")
_ground.clients.dynamodb  # noqa: B018 - made when asked for; nothing is sent yet

"""Loaded once by the process that the racing ones are forked from: all that a worker needs, a client's tables too."""

from __future__ import annotations

from boto3.dynamodb import types

from tests.proofs.races import worker
from tests.proofs.soak.sandbox import Sandbox

__all__ = ["types", "worker"]

_sandbox = Sandbox("http://127.0.0.1:1", "no queues here")
_sandbox.clients.dynamodb  # noqa: B018 - made when asked for; nothing is sent yet

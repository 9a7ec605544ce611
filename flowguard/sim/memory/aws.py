"""A whole AWS in memory for one block. The boto3 clients are real, and their calls are answered at the hook.

It can be put back to any moment of its past, so that schedules which begin alike share that beginning::

    with MemoryAWS(clock) as aws:
        aws.create_table("flowguard")
        before = aws.snapshot()
        ...
        aws.restore(before)
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from flowguard.clock import Clock, SystemClock
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.limits.fault import Fault
from flowguard.sim.memory.dynamodb import DynamoDB
from flowguard.sim.memory.not_in_memory import NotInMemory
from flowguard.sim.memory.queue import StoredMessage
from flowguard.sim.memory.recording_services import Callback, EventBridge, Lambda, Scheduler
from flowguard.sim.memory.s3 import S3
from flowguard.sim.memory.service import Operation, Service, Surroundings
from flowguard.sim.memory.sns import SNS
from flowguard.sim.memory.sqs import SQS
from flowguard.sim.memory.values import Item
from flowguard.sim.prepared import emit, prepared
from flowguard.sim.scans import Scans
from flowguard.sim.table_keys import create_table


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything as it was at one moment. It stays so, and can be restored any number of times."""

    states: Mapping[str, Any]
    ids_drawn: int


class MemoryAWS(AWSInProcess):
    """An AWS for one block without moto. It is faster by orders of magnitude, and has only what is built here.

    Delays, visibility and retention go by ``clock``. An equal ``seed``, ``region``, clock and calls give equal ids and
    answers. What is not there raises :class:`NotInMemory`; nothing goes over the network in any case.
    """

    def __init__(self, clock: Clock | None = None, *, seed: int = 0, region: str = REGION) -> None:
        super().__init__(seed=seed, region=region)
        around = Surroundings(clock if clock is not None else SystemClock(), seed, region, ACCOUNT_ID, self.refusing)
        self._around = around
        self._lock = threading.RLock()
        self._dynamodb = DynamoDB(around)
        self._sqs = SQS(around)
        self._events = EventBridge(around)
        self._lambda = Lambda(around)
        self._scheduler = Scheduler(around)
        self._s3 = S3(around)
        self._services: Mapping[str, Service] = {
            "dynamodb": self._dynamodb,
            "sqs": self._sqs,
            "sns": SNS(around, self._sqs),
            "events": self._events,
            "lambda": self._lambda,
            "scheduler": self._scheduler,
            "s3": self._s3,
        }

    def _credentials(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": "memory", "AWS_SECRET_ACCESS_KEY": "memory"}

    def _open(self, opened: ExitStack) -> None:
        opened.enter_context(intercept(self._answer, innermost=True))

    def create_function(self, name: str) -> None:
        """Do nothing: any function exists already."""

    def create_business_table(self, name: str, hash_key: str, range_key: str | None = None) -> None:
        """Create a table of the user's own, whose keys are texts."""
        keys = (hash_key,) if range_key is None else (hash_key, range_key)
        create_table(self.client("dynamodb"), name, *keys)

    @property
    def scans(self) -> Scans:
        """Return how Scans answer. It is no part of a snapshot."""
        return self._around.scans

    @scans.setter
    def scans(self, scans: Scans) -> None:
        self._around.scans = scans

    # -- what is there, without a call

    def items(self, table: str) -> list[Item]:
        """Return all items of a table in low-level form. They belong to the table and must not be changed."""
        return self._dynamodb.items(table)

    def messages(self, queue: str) -> list[StoredMessage]:
        """Return all messages of a queue, which is given by name.

        Those in flight and the delayed ones are among them.
        """
        return self._sqs.messages(queue)

    @property
    def events(self) -> tuple[Mapping[str, Any], ...]:
        """Return the entries that were put on event buses."""
        return self._events.seen

    @property
    def invocations(self) -> tuple[Mapping[str, Any], ...]:
        """Return the invocations of functions. Each has a name, a type and the event read from JSON."""
        return self._lambda.seen

    @property
    def schedules(self) -> tuple[Mapping[str, Any], ...]:
        """Return the schedules that were created, as they were requested."""
        return self._scheduler.seen

    def on_invoke(self, function: str, callback: Callback) -> None:
        """Let the callback answer synchronous invocations of this function. It is no part of a snapshot."""
        self._lambda.callbacks[function] = callback

    # -- time travel

    def snapshot(self) -> Snapshot:
        """Return everything as it is at this moment."""
        with self._lock:
            states = {name: service.state() for name, service in self._services.items()}
            return Snapshot(states, self._around.ids_drawn)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state of that moment, ids included. The clock is the caller's."""
        with self._lock:
            for name, state in snapshot.states.items():
                self._services[name].put_back(state)
            self._around.ids_drawn = snapshot.ids_drawn

    def state_key(self, without: Iterable[str] = ()) -> str:
        """Return a text that is equal for states that will go on alike.

        It is made of items, messages, what was recorded, and how long until it is due. Message ids, receipts and times
        of sending do not count, nor the attributes of items named in ``without``.
        """
        with self._lock:
            stored = (self._dynamodb.digest(frozenset(without)), self._sqs.digest(), self._s3.digest())
            state = repr((stored, self.events, self.invocations, self.schedules))
            return hashlib.blake2b(state.encode(), digest_size=16).hexdigest()

    # -- the hook

    def _answer(self, call: ApiCall, _: Proceed) -> Response:
        operation = self._operation(call)
        params = self._prepared(call)
        try:
            self.refusing.check(call.service, call.operation, params)
            with self._lock:
                response = operation(call.service, call.operation, params)
        except Fault as fault:
            raise fault.as_raised_by(call.client, call.operation) from None
        response["ResponseMetadata"] = {"HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0}
        if call.service == "dynamodb":
            emit("after-call", call, parsed=response, http_response=None)
        return response

    def _operation(self, call: ApiCall) -> Operation:
        if call.service not in self._services:
            raise NotInMemory(call.service, self._services, call.service)
        operations = self._services[call.service].operations
        if call.operation not in operations:
            raise NotInMemory(f"{call.service}'s {call.operation}", operations, call.service)
        return operations[call.operation]

    def _prepared(self, call: ApiCall) -> Mapping[str, Any]:
        if call.operation == "TransactWriteItems" and isinstance(call.params, dict):
            call.params.setdefault("ClientRequestToken", self._around.new_id())  # a repeated call carries the same one
        return prepared(call)

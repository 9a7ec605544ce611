"""The client with which code outside a flow starts it. It knows which attributes a request needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from flowguard.aws.clients import Clients
from flowguard.aws.sender import AWSSender
from flowguard.aws.signing_keys import aws_signer
from flowguard.clock import Clock, SystemClock
from flowguard.destinations import Destination, destination, form_problem
from flowguard.errors import RunFailed, SendFailed
from flowguard.flow import AnyFlow
from flowguard.ids import Ids, ObjectId, RandomIds, RequestId
from flowguard.payloads import Payload
from flowguard.protocol.outbox import Kind, Send
from flowguard.settings import Settings
from flowguard.wire.attributes import Attribute, attributes_of
from flowguard.wire.signing import UNSIGNED, Signer, signed_attributes
from flowguard.worker.ports import Sender


@dataclass(frozen=True)
class Started:
    """A request that was sent. Keep ``request_id`` and ``requested_at`` to repeat the same request safely."""

    request_id: RequestId
    requested_at: int
    object_id: ObjectId


class FlowClient:
    """Sends the requests that start flows.

    They go to the queue, topic or function that the flow's first stage reads from. ``signer`` is the functions' own
    where messages are signed (``services.signer``). ``clock`` and ``ids`` say when requests are made and how they are
    named; a test hands in its own.
    """

    def __init__(
        self, sender: Sender, *, clock: Clock | None = None, ids: Ids | None = None, signer: Signer = UNSIGNED
    ) -> None:
        self._sender = sender
        self._signer = signer
        self._clock = clock if clock is not None else SystemClock()
        self._ids = ids if ids is not None else RandomIds()

    @classmethod
    def from_environment(cls) -> FlowClient:
        """Build a client on AWS with boto3's own configuration. It signs where ``FLOWGUARD_SIGNING_KEYS`` is set."""
        clients, clock = Clients(), SystemClock()
        return cls(
            AWSSender(clients), clock=clock, signer=aws_signer(Settings.from_environment(os.environ), clients, clock)
        )

    def start(
        self,
        flow: AnyFlow,
        payload: Payload,
        *,
        object_id: str | None = None,
        request_id: str | None = None,
        requested_at: int | None = None,
        reply_to: Destination | str | None = None,
        to: Destination | str | None = None,
        attributes: Mapping[str, Attribute | str] | None = None,
    ) -> Started:
        """Ask for a run of the flow.

        ``request_id`` and ``requested_at`` (ms) are new and now, unless a caller repeats a request of its own: the
        same id twice is one run. A flow with a ``request_id`` rule reads the id from the payload where none is given.
        ``object_id`` is for a payload that does not name its object. ``reply_to`` is notified when the run ends. ``to``
        sends elsewhere than to the first stage's inbox: to a topic, or a function. ``attributes`` go along beside
        flowguard's own four; a plain text stands for a String.

        Raises :class:`SendFailed` where the service did not take it, and :class:`flowguard.errors.RunFailed` for what
        the flow would refuse; then nothing was started.
        """
        if to is not None and (problem := form_problem(destination(to))):
            raise RunFailed(f"to: {problem}")
        message, inbox = flow.request(
            payload,
            request_id=self._new_id if request_id is None else RequestId(request_id),
            requested_at=self._clock.now() if requested_at is None else requested_at,
            object_id=object_id,
            reply_to=None if reply_to is None else destination(reply_to),
            signed=self._signer.is_on,
        )
        send = Send(
            Kind.SIDE,
            inbox if to is None else destination(to),
            message.body,
            message.request_id,
            {**attributes_of(attributes or {}), **signed_attributes(message, self._signer)},
            group=message.object_id,
        ).checked()
        if refusals := self._sender.send([send]):
            raise SendFailed({str(send.to): refusal.why for refusal in refusals.values()})
        return Started(message.request_id, message.requested_at, message.object_id)

    def _new_id(self) -> RequestId:
        return RequestId(self._ids.new())

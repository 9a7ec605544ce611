"""Send the messages of a waiting hop: its look, and its call."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import Final

from flowguard.destinations import Destination, Queue
from flowguard.events import EventType
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.places import Change
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, digest_of, id_of
from flowguard.wire.turn import Turn
from flowguard.worker.emitter import Emitter
from flowguard.worker.place_store import PlaceKey
from flowguard.worker.ports import Services
from flowguard.worker.resend import sent_again
from flowguard.worker.routing import Arrival

TEXT_LIVES: Final = timedelta(days=1) // timedelta(milliseconds=1)
"""How long the message that calls a hop is kept. Each look keeps it anew."""


class TurnMessages:
    """Sends and keeps the messages of one hop, and sends those that others have left."""

    def __init__(self, services: Services, emitter: Emitter, arrival: Arrival) -> None:
        self._services = services
        self._emitter = emitter
        self._arrival = arrival
        self.token = token_of(arrival.message)
        """What stands for the hop in the items of its limits."""

    def again(self, turn: Turn, epoch: int, delay: int = 0) -> Send:
        """Build the hop's message once more, as the same attempt. Raises :class:`TooLarge` where no queue takes it.

        ``epoch`` is that of the claim which has found no place.
        """
        envelope, (_, inbox) = self._arrival.envelope, self._arrival.flow.entrance()
        to: Destination = inbox if envelope.queue_arn is None else Queue(envelope.queue_arn)
        group = self._arrival.message.object_id if envelope.queue_arn is None else None
        message = self._arrival.message._replace(turn=turn, since=self._since)
        kind = IdKind.CALL if turn.is_call else IdKind.LOOK
        send = Send(Kind.SIDE, to, "", id_of(kind, message, epoch), delay=delay, group=group)
        return sent_again(send, message, envelope, self._services.signer)

    def keep(self, call: Send) -> bool:
        """Keep the message that calls the hop. False where no row holds it."""
        text, until = json.dumps(call.as_json()), self._services.clock.now() + TEXT_LIVES
        return self._services.store.places.keep_text(*self._row, text, until)

    def forget(self) -> None:
        """Remove the message that calls the hop."""
        with suppress(Exception):  # it expires
            self._services.store.places.forget_text(*self._row)

    def call(self, key: PlaceKey, change: Change) -> None:
        """Send the messages that call these hops, each for when its place is free.

        One that is not sent is dropped from the line, and looks.
        """
        places = self._services.store.places
        texts = [(hop, places.text(key.flow, hop.object_id, hop.token)) for hop in change.calls]
        calls = [
            Send.from_json(json.loads(text))._replace(delay=self._rest(change.after.line[hop.token].called_at))
            for hop, text in texts
            if text is not None
        ]
        refused = self._services.sender.send(calls)
        sent = [call for number, call in enumerate(calls) if number not in refused]
        for call in sent:
            self._emitter.sent(self._arrival.message, call, None)
        self._emitter.emit(EventType.CALLED, self._arrival, limit=key.place.partition("#")[0], hops=len(sent))

    @property
    def _since(self) -> int:
        """Return since when the hop has come again for what failed outside its stage, in ms. 0 where it has not."""
        since, envelope = self._arrival.message.since, self._arrival.envelope
        if since or envelope.receive_count <= 1 or envelope.sent_at is None:
            return since
        return envelope.sent_at

    def _rest(self, until: int) -> int:
        """Return for how many seconds SQS keeps a call that is for a moment (ms)."""
        rest = -(-(until - self._services.clock.now()) // 1000)
        return min(max(rest, 0), LONGEST_SQS_DELAY // timedelta(seconds=1))

    @property
    def _row(self) -> tuple[str, str, str]:
        return self._arrival.flow.name, self._arrival.message.object_id, self.token


def token_of(message: Message) -> str:
    """Return what stands for the hop of a message. Its attempts share it, and a redrive has another."""
    return digest_of(id_of(IdKind.LOOK, message))

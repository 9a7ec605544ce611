"""The insider: sends to the flows' queue whatever would settle a wait or move a run on, and has no key to sign it."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from flowguard.names.ids import ObjectId
from flowguard.protocol.run import RunItem
from flowguard.testing.explorer.run.insider import Forged, forged
from flowguard.worker.record_sources import RecordKind
from tests.proofs.soak.place import FORGED
from tests.proofs.soak.places import INBOX
from tests.proofs.soak.sandbox import Sandbox
from tests.proofs.soak.waits.flow import Waits

_NO_LIES = (RecordKind.RESET, RecordKind.REQUEST)
"""This flow keeps nothing that could be reset, and a request that repeats an id is a copy, no dead letter."""


@dataclass
class Insider:
    """Knows what the run table says, and strikes at this ``share`` of the runs that ask. ``sent`` are its records."""

    sandbox: Sandbox
    share: float
    seed: int
    sent: list[str] = field(default_factory=list)
    _draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._draw = random.Random(f"{self.seed} insider")

    def hear(self, request: str) -> None:
        """Say one thing of the run of a request, which waits, where it is one of the share."""
        if self._draw.random() >= self.share:
            return
        item = self.sandbox.store().read(Waits.name, ObjectId(request))
        told = forged(Waits, request, item) if isinstance(item, RunItem) else ()
        lies = [one for one in told if one.kind not in _NO_LIES]
        if lies:
            self._send(self._draw.choice(lies))

    def _send(self, lie: Forged) -> None:
        self.sent.append(f"forged-{len(self.sent)}")
        said = {**lie.attributes, FORGED: self.sent[-1]}
        self.sandbox.clients.sqs.send_message(
            QueueUrl=self.sandbox.url(INBOX),
            MessageBody=json.dumps(lie.body),
            MessageAttributes={name: {"DataType": "String", "StringValue": text} for name, text in said.items()},
        )

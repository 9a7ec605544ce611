"""The party outside: it answers late, twice, or by two ways, and never what it was told not to."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.client import FlowClient
from flowguard.errors import FlowguardError
from flowguard.verdicts import AnswerVerdict
from tests.proofs.soak.places import ANSWERED, ASKED
from tests.proofs.soak.sandbox import Sandbox
from tests.proofs.soak.waits.flow import Waits

TWICE, LATE = 0.3, 0.3
"""How often an answer is given a second time, and how often it takes some seconds."""

LATEST = 14
"""Seconds. After the deadline, now and then."""


@dataclass
class Party:
    """Reads what the runs ask. ``told`` counts the verdicts that the holder of the tokens got.

    ``tell`` is called with the request of each that asks. ``resumed`` counts how often each run was resumed by one.
    """

    sandbox: Sandbox
    seed: int
    tell: Callable[[str], None] = lambda _: None
    told: Counter[str] = field(default_factory=Counter)
    resumed: Counter[str] = field(default_factory=Counter)
    _draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._draw = random.Random(f"{self.seed} party")

    def answer(self) -> None:
        """Answer whatever lies there. A copy of a question is answered like the question."""
        for message in self.sandbox.take(ASKED):
            asked = json.loads(message["Body"])
            self.tell(asked["of"])
            if "approval" not in asked["silent"]:
                self._approve(asked["token"], asked["of"])
            if "quote" not in asked["silent"]:
                self._quote(asked)

    def _approve(self, token: str, request: str) -> None:
        client = FlowClient.of(self.sandbox.services(lambda _: None))
        for _ in range(self._times()):
            try:
                verdict = client.answer(Waits, token, "yes")
            except (FlowguardError, ClientError, BotoCoreError) as error:
                self.told[type(error).__name__] += 1
            else:
                self.told[verdict.value] += 1
                self.resumed[request] += verdict is AnswerVerdict.RESUMED

    def _quote(self, asked: Any) -> None:
        answer = {"error": "sold out"} if asked["fails"] else {"price": 7}
        for _ in range(self._times()):
            delay = self._draw.randint(1, LATEST) if self._draw.random() < LATE else 0
            body = json.dumps({"ref": asked["ref"], **answer})
            self.sandbox.clients.sqs.send_message(
                QueueUrl=self.sandbox.url(ANSWERED), MessageBody=body, DelaySeconds=delay
            )

    def _times(self) -> int:
        return 1 + (self._draw.random() < TWICE)

"""Lambda's recursive loop detection."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from flowguard.sim.calls import ApiCall, Response
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.layer import Invoked, Layer

MOST_IN_CHAIN: Final = 16
"""How often a function is invoked in one chain of requests, where its ``RecursiveLoop`` is ``Terminate``.

https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
"""

_Ids = list[str]


class Loops(Layer):
    """Functions that Lambda stops where they meet one chain of requests too often.

    The record stays in its queue and is received again, until that gives it up: each time counts, and none invokes.

    A chain goes on with what a function sends by SQS, SNS or Lambda while it has a record. What another service
    delivers begins a chain. ``allowed`` are the names of functions whose ``RecursiveLoop`` is ``Allow``.
    """

    def __init__(self, allowed: frozenset[str] | None = frozenset()) -> None:
        """Without a set of names, as None, all of them are allowed: a template of flowguard says so of each."""
        self._allowed = allowed
        self.longest = 0
        """How often one function was invoked in one chain, at most."""
        self._before: dict[str, Counter[str]] = {}
        self._now: dict[int, Counter[str]] = {}

    def invoked(self, delivery: Delivery, function: str, now: int) -> Invoked:
        met = Counter(self._chain(delivery))
        met[function] += 1
        self._now[delivery.number] = met
        self.longest = max(self.longest, met[function])
        is_allowed = self._allowed is None or function in self._allowed
        return Invoked.STOPPED if met[function] > MOST_IN_CHAIN and not is_allowed else Invoked.YES

    def called(self, call: ApiCall, answer: Response, by: Delivery | None) -> None:
        if by is not None:
            for sent_id in sent_ids(call, answer):
                self._before[sent_id] = self._now[by.number]

    def _chain(self, delivery: Delivery) -> Counter[str]:
        envelope = delivery.envelope
        known = (
            self._before.get(message_id)
            for message_id in (envelope.message_id, envelope.sns_message_id)
            if message_id is not None
        )
        return next((met for met in known if met is not None), Counter())


def sent_ids(call: ApiCall, answer: Response) -> _Ids:
    """Return the ids that a service gave the messages of a call. None for calls that carry no chain on."""
    if call.service not in ("sqs", "sns"):
        return []
    entries: list[Any] = [answer, *answer.get("Successful", ())]
    return [str(entry["MessageId"]) for entry in entries if "MessageId" in entry]

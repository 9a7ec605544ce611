"""The AWS in memory, with moto behind it for the services that it does not have.

A service is wholly in one of the two: of what moto answers there is no snapshot, and it is emptied instead.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from typing import Final

from flowguard.clock import Clock
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept, one_at_a_time
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import adopting, empty, moto_engines
from flowguard.sim.strict.interceptor import Strict

ALONE: Final = frozenset({"s3"})
"""Services of the memory whose state no other service needs, so that moto may have them instead."""


class MemoryAndMoto(MemoryAWS):
    """An AWS in memory in which moto answers the calls of the services ``elsewhere``."""

    def __init__(self, clock: Clock, elsewhere: Collection[str]) -> None:
        super().__init__(clock)
        self._elsewhere = frozenset(elsewhere)
        self._strict = Strict(self.refusing)

    @property
    def elsewhere(self) -> frozenset[str]:
        """Return the services that moto answers."""
        return self._elsewhere

    def forget(self) -> None:
        """Empty the services that moto answers."""
        empty(self._elsewhere, self.seed)

    @staticmethod
    def can_have(service: str) -> bool:
        """Answer whether moto can answer for this service while the memory answers for the others."""
        return service in ALONE or service not in _IN_MEMORY

    def _open(self, opened: ExitStack) -> None:
        opened.enter_context(moto_engines(self.seed))
        super()._open(opened)
        for interceptor in (one_at_a_time(), adopting(), self._strict):
            opened.enter_context(intercept(interceptor, innermost=True))

    def _answer(self, call: ApiCall, proceed: Proceed) -> Response:
        return proceed() if call.service in self._elsewhere else super()._answer(call, proceed)


_IN_MEMORY: Final = frozenset({"dynamodb", "sqs", "sns", "events", "lambda", "scheduler", "s3"})

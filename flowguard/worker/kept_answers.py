"""Answers that were kept before the wait that they are for. A commit looks them up, and sends what they lead to."""

from __future__ import annotations

from collections.abc import Iterator

from flowguard.protocol.outbox import Send
from flowguard.protocol.run import Claim, Commit, RunItem
from flowguard.worker.dispatch import dispatch
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import acked
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


class KeptAnswers:
    """Looks up what was kept for a wait."""

    def __init__(self, services: Services, emitter: Emitter) -> None:
        self._services = services
        self._emitter = emitter

    def of_commit(self, arrival: Arrival, claim: Claim, commit: Commit) -> Iterator[Send]:
        """Settle the answers that were kept before this commit. Yield the next message where they end the wait."""
        if commit.wait is None or not commit.wait.plan.early:
            return iter(())
        item = claim.item._replace(status=commit.status, done=True, wait=commit.wait.begun())
        return self.of_item(arrival, item)

    def of_item(self, arrival: Arrival, item: RunItem) -> Iterator[Send]:
        """Settle the answers that were kept for the wait in the item."""
        from flowguard.worker.settler import Settler  # a function that waits for nothing starts quicker

        return Settler(self._services).look_early(arrival.flow, arrival.envelope, item, arrival.message)

    def sends(self, arrival: Arrival, sends: tuple[Send, ...], early: Iterator[Send]) -> tuple[Send, ...]:
        """Return a commit's sends, followed by those of the early answers that its waits take.

        Where these cannot be looked up, the commit's own messages go at once, its deadline among them: the record
        stays, and if nobody ever can, the wait still ends.
        """
        try:
            return (*sends, *early)
        except Exception:
            dispatch(self._services, self._emitter, [acked(arrival, None, sends)])
            raise

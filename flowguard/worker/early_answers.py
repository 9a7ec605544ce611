"""Keeps answers for those who waited when they came, or else for the next wait."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator

from flowguard.events import Event, EventType
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.waiting import ALL_WHO_WAITED, Kept
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope
from flowguard.wire.send_ids import digest_of
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.lifetimes import lifetimes_of
from flowguard.worker.ports import Services

TAKEN = frozenset({AnswerVerdict.RESUMED, AnswerVerdict.RECORDED})
"""The verdicts on an answer that its run gets, or would get."""

MOST_LOOKED_AT = 50
"""Rows of an id whose runs are looked at before an answer is kept. Where there are more, several are taken to wait."""


class Offer(NamedTuple):
    """Runs that an answer is offered to. ``by`` names the place up to which they have been asked.

    ``user`` names the wait that uses an answer that is kept. None for one that is not, or that is used already.
    ``looks_first`` says that each run is asked by a read, until one takes it.
    """

    rows: Iterable[AwaitingRow]
    by: str
    user: Callable[[AwaitingRow], str] | None = None
    looks_first: bool = False


def user_of(address: AnswerAddress) -> str:
    """Return what names the wait in an answer that it uses."""
    return digest_of(address._replace(admits=False).statement)


class EarlyOffers:
    """The answer of one message. Whatever dies, it is for the same runs when its message comes again."""

    def __init__(self, services: Services, brought: ExternalAnswer, envelope: Envelope) -> None:
        self._services = services
        self._waits = services.store.waits
        self._brought = brought
        self._envelope = envelope
        self._own = envelope.own_id
        self._seen: list[AwaitingRow] = []

    def rows(self, by: str) -> Iterator[AwaitingRow]:
        """Yield who waits for it, but those before the place ``by``."""
        rows = self._waits.waiting_for(self._brought.flow.name, self._brought.awaited_id, by)
        return (row for row in rows if self._brought.is_for(row))

    # -- keeping it

    def keep(self) -> Kept:
        """Keep it, with who waits for it now. Says so where an older one goes unused."""
        brought, envelope, now = self._brought, self._envelope, self._services.clock.now()
        assert brought.keep_early is not None  # noqa: S101 - its flow's callback says so
        waited, lifetimes = self._look(), lifetimes_of(brought.flow)
        kept = self._waits.keep_early(
            brought.flow.name,
            brought.awaited_id,
            brought.answer,
            now=now,
            expires_at=lifetimes.of_early(now, brought.keep_early),
            known_until=lifetimes.of_used(now),
            by=self._own,
            at=envelope.published_at or envelope.sent_at or now,
            names=brought.names,
            waited=waited,
        )
        if kept.replaces:
            facts = {"flow": brought.flow.name, "id": brought.awaited_id, "verdict": "EARLY", "replaces": True}
            self._services.observer(Event(EventType.ANSWERED, None, facts))
        return kept._replace(waited=waited) if kept.is_new else kept

    def _look(self) -> str:
        """Return who can take it now. One wait is named by its address."""
        self._seen = list(itertools.islice(self.rows(self._own), MOST_LOOKED_AT + 1))
        if len(self._seen) > MOST_LOOKED_AT:
            return ALL_WHO_WAITED
        can_take = (row for row in self._seen if self._waits.verdict(row.address) in TAKEN)
        taking = list(itertools.islice(can_take, 2))
        if len(taking) > 1:
            return ALL_WHO_WAITED
        return json.dumps(taking[0].address.as_json(), separators=(",", ":")) if taking else ""

    # -- who gets it

    def first_offer(self, kept: Kept) -> Offer | None:
        """Return the offer to those who have used it, or else to those who waited. None where nobody did."""
        if kept.is_beside:
            return Offer(self.rows(self._own), self._own)
        if kept.used_by:
            return Offer(self._rows_of(kept.used_by), self._own)
        if kept.waited == ALL_WHO_WAITED:
            return Offer(self.rows(self._own), self._own, lambda row: ALL_WHO_WAITED, looks_first=True)
        if kept.waited:
            user = user_of(address_of(kept.waited))
            return Offer(self._rows_of(user, self._seen if kept.is_new else None), self._own, lambda row: user)
        return None

    def next_offer(self) -> Offer:
        """Return the offer to all who wait now, where those who waited have not used it."""
        by = f"{self._own}/next"
        return Offer(self.rows(by), by, lambda row: user_of(row.address), looks_first=True)

    def _rows_of(self, user: str, rows: Iterable[AwaitingRow] | None = None) -> Iterator[AwaitingRow]:
        waiting = self.rows(self._own) if rows is None else rows
        return (row for row in waiting if user == ALL_WHO_WAITED or user_of(row.address) == user)

    def free(self) -> bool:
        """Leave it to the next wait that takes it. False where it is used, or a newer one has come."""
        return self._waits.free_early(self._brought.flow.name, self._brought.awaited_id, self._own)

    def close(self) -> None:
        """Note that all who waited have it."""
        self._waits.close_early(self._brought.flow.name, self._brought.awaited_id, self._own)


def address_of(waited: str) -> AnswerAddress:
    """Read the address of the wait that an answer was kept for."""
    return AnswerAddress.parse(json.loads(waited))

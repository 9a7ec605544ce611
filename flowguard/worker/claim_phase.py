"""Claim the hop of a message."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from flowguard.names.ids import Owner
from flowguard.protocol.claims import needs_lease
from flowguard.protocol.run import Claim, ClaimRequest, Refused, Rest, RunItem
from flowguard.protocol.series import later_in_series
from flowguard.verdicts import Verdict
from flowguard.wire.message import Message
from flowguard.worker.asks import Claiming, Judging, Way
from flowguard.worker.caller_answers import CallerAnswers
from flowguard.worker.claimed_again import goes_on, resting
from flowguard.worker.lifetimes import lifetimes_of, longest_lease
from flowguard.worker.ports import Budget, Services
from flowguard.worker.routing import Arrival

LEASE_WITHOUT_LAMBDA = timedelta(seconds=30)
"""How long a claim holds where no Lambda says how long it has, and the stage names no timeout."""

MOST_MEETINGS = 5
"""How often a request asks for its object, while each run that it meets ends before it has attached."""

_MS = timedelta(milliseconds=1)


class ClaimPhase:
    """Asks for hops."""

    def __init__(self, services: Services, caller_answers: CallerAnswers) -> None:
        self._services = services
        self._caller_answers = caller_answers

    def claim(self, arrival: Arrival, budget: Budget) -> Way[tuple[Arrival, Claim | Refused]]:
        """Claim the hop, or let the run at work answer the request. Do so again where that has ended meanwhile.

        A list of callers that closes again and again keeps the record in its queue, as a worker at work does.
        """
        met: RunItem | None = None
        for _ in range(MOST_MEETINGS):
            arrival, claim = yield from self._attempt(arrival, budget)
            if isinstance(claim, Claim) or claim.verdict is not Verdict.ATTACHED or claim.item is None:
                return arrival, claim
            if self._caller_answers.attach(arrival, claim.item):
                return arrival, claim
            met = claim.item
        return arrival, Refused(Verdict.BUSY, met)

    def _attempt(self, arrival: Arrival, budget: Budget) -> Way[tuple[Arrival, Claim | Refused]]:
        """Claim the hop in one call, or in two where a record was retried in place, or a request was sealed anew.

        Such a record carries no retry count: claim again with the item's. There are more calls only where an attempt
        fails between two of them: each answer shows a later attempt. A request that is newer by its place in a series
        and not by its time asks again, too, at a later time. Without a lease the hop is read, and nothing is
        written: its commit asks whether that is still so. Who begins nothing claims nothing: two copies of a message
        that SQS has given up would find each other busy again and again.
        """
        if not arrival.begins:
            message, read = yield from self.judged(arrival, budget)
            return arrival._replace(message=message), read
        claim = yield from self._asked(arrival, budget)
        while (onward := goes_on(arrival, claim)) is not None:
            arrival = onward
            if (rests := resting(arrival, claim, self._services.clock.now())) is not None:
                return arrival, rests
            claim = yield Claiming(self.request(arrival, budget))
        while (later := later_in_series(arrival.message, claim)) is not None:
            claim = yield from self._asked(arrival := arrival._replace(message=later), budget)
        return arrival, claim

    def _asked(self, arrival: Arrival, budget: Budget) -> Way[Claim | Refused]:
        """Ask for the hop under one owner, until there is an answer."""
        ask: type[Claiming | Judging] = Claiming if arrival.takes_lease else Judging
        owner, claim = Owner(self._services.ids.new()), None
        while claim is None:
            claim = yield ask(self.request(arrival, budget, owner))
        if isinstance(claim, Claim) and needs_lease(claim):
            claim = yield Claiming(self.request(arrival, budget, owner))
        answer: Claim | Refused = claim
        return answer

    def judged(self, arrival: Arrival, budget: Budget) -> Way[tuple[Message, Claim | Refused]]:
        """Decide the claim by a read, and return it with the message at the attempt that the item says it is."""
        claim: Claim | Refused = yield Judging(self.request(arrival, budget))
        while (onward := goes_on(arrival, claim)) is not None:
            arrival = onward
            if (rests := resting(arrival, claim, self._services.clock.now())) is not None:
                return arrival.message, rests
            claim = yield Judging(self.request(arrival, budget))
        while (later := later_in_series(arrival.message, claim)) is not None:
            claim = yield Judging(self.request(arrival := arrival._replace(message=later), budget))
        return arrival.message, claim

    def request(self, arrival: Arrival, budget: Budget, owner: Owner | None = None) -> ClaimRequest:
        """Make the request for the message's hop. ``owner`` is one that has asked for it before."""
        (now, lease_until), flow = self.lease(arrival, budget), arrival.flow
        return ClaimRequest(
            message=arrival.message,
            owner=owner if owner is not None else Owner(self._services.ids.new()),
            now=now,
            lease_until=lease_until,
            on_conflict=flow.on_conflict,
            abandoned_before=flow.abandoned_before(now, arrival.message.requested_at),
            expires_at=lifetimes_of(flow).of_claim(now, arrival.message),
            fresh_since=flow.fresh_since(arrival.message.requested_at),
            longest_lease=longest_lease(arrival),
            first_text=arrival.first_text,
        )

    def lease(self, arrival: Arrival, budget: Budget) -> tuple[int, int]:
        """Return the time, and until when a lease that is taken now holds (both ms)."""
        now, left = self._services.clock.now(), budget.remaining()
        without_lambda = (arrival.stage.timeout if arrival.stage is not None else None) or LEASE_WITHOUT_LAMBDA
        return now, now + (left if left is not None else without_lambda // _MS)


def release(services: Services, claim: Claim, rest: Rest = None, queued: str = "") -> None:
    """Say in the item that nobody is at work any more. A hop that was only read has no lease.

    ``queued`` says that a queue has the message of a stream's record by now.
    """
    if claim.unwritten is None:
        with suppress(Exception):  # what has failed before is what to report
            services.store.release(claim, services.clock.now(), failed=False, rest=rest, called_attempt=queued)

"""Records that SQS has given up: they were received as often as their queue allows.

That says nothing about their stages: outages, throttles and busy objects use receives up, too. The run item is asked:

===============================================  =====================================================
the item says                                    then
===============================================  =====================================================
the hop was claimed, and its function killed     the run has failed
again and again
it may be begun, or begun again                  the record goes back to its queue, after a delay
the same, and the first of its records was       the run has failed: nothing outlasts that
sent longer ago than its flow's retention
it may be begun, but not even its own queue      the run has failed, and its dead letter is the record
takes it with what its way back adds             as it came
nothing, for no run may begin: too deep a        as in any function: a dead letter. Where that is refused
chain, an id that no item can hold               the record stays, and does not go round
anything else                                    as in any function: it was done, superseded, answered …
===============================================  =====================================================
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard.destinations import Queue
from flowguard.errors import Reject, RunFailed, TooLarge
from flowguard.protocol.claims import kills_before
from flowguard.protocol.run import Refused
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote, Message
from flowguard.worker.asks import Way
from flowguard.worker.claim_phase import ClaimPhase
from flowguard.worker.ending import Ending, acked, kept
from flowguard.worker.kills import ENOUGH_KILLS, killed
from flowguard.worker.patience import delay
from flowguard.worker.plan import returned
from flowguard.worker.ports import Budget, Services
from flowguard.worker.routing import Arrival

_MILLISECOND: Final = timedelta(milliseconds=1)


class GivenUp:
    """Decides what becomes of the records of a queue that SQS itself fills."""

    def __init__(self, services: Services, claims: ClaimPhase) -> None:
        self._services = services
        self._claims = claims

    def judged(self, arrival: Arrival, budget: Budget) -> Way[Arrival | Ending]:
        """Return the ending of a record that goes back to its queue, else what the function is to do with it."""
        if arrival.problem is not None or arrival.too_deep is not None:
            return arrival
        try:
            message, claim = yield from self._claims.judged(arrival, budget)
        except Reject:  # no run item can hold what the message says of itself
            return arrival
        if isinstance(claim, Refused):
            return arrival._replace(begins=False)
        is_in_place = arrival.envelope.retried_in_place
        kills = kills_before(claim.before, message if is_in_place else arrival.message)  # a call's are not the record's
        if kills >= ENOUGH_KILLS:
            return arrival._replace(problem=killed(kills))
        since = self._since(arrival)
        waited = (self._services.clock.now() - since) * _MILLISECOND
        if waited >= arrival.flow.retention:
            return arrival._replace(problem=_outlasted(arrival, waited))
        if (home := home_of(arrival)) is None:
            return kept(arrival, Verdict.CLAIMED, "SQS does not say which queue it was moved from", backs_off=True)
        if message.retry and message.first_error is None:
            message = message._replace(first_error=self._unknown(message))
        arrival = arrival._replace(message=message._replace(since=since))
        try:
            return self._back(arrival, home, delay(waited, self._services.draw))
        except TooLarge as error:  # what is added for its way back does not fit beside it
            return arrival._replace(problem=RunFailed(f"SQS gave its record up, and it cannot go back: {error}"))

    def _unknown(self, message: Message) -> ErrorNote:
        """Note that an attempt has failed. A record that is retried in place does not carry its error."""
        text = f"attempt {message.retry} failed, and SQS gave its record up; the function's log has the error"
        return ErrorNote("GivenUp", text, self._services.clock.now())

    def _since(self, arrival: Arrival) -> int:
        """Return when the first of the records was sent that went back, ms."""
        sent_at = arrival.envelope.sent_at
        return arrival.message.since or (self._services.clock.now() if sent_at is None else sent_at)

    def _back(self, arrival: Arrival, home: Queue, seconds: int) -> Ending:
        """Return the record to its queue, as the same attempt."""
        send = returned(arrival.message, arrival.envelope, home, seconds, self._services.signer)
        return acked(arrival, None, (send,))


def home_of(arrival: Arrival) -> Queue | None:
    """Return the queue that SQS moved the record from, or the inbox of its stage where SQS does not say it.

    None where that is no queue: everybody else who gets what is published there would get the record.
    """
    arn = arrival.envelope.of_sqs.get("DeadLetterQueueSourceArn")
    if isinstance(arn, str) and arn.split(":")[2:3] == ["sqs"]:
        return Queue(arn)
    assert arrival.stage is not None  # noqa: S101 - else it has a problem
    inbox = arrival.flow.inbox_of(arrival.stage, arrival.message.carried)
    return inbox if isinstance(inbox, Queue) else None


def _outlasted(arrival: Arrival, waited: timedelta) -> RunFailed:
    days = arrival.flow.retention / timedelta(days=1)
    why = f"an outage has outlasted the flow's retention of {days:g} days"
    return RunFailed(f"{why}: for {waited / timedelta(days=1):.1f} days no worker could begin this hop and end it")

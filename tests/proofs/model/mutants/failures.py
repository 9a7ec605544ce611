"""Failed attempts: how many there are, their retries and their dead letters."""

from __future__ import annotations

from typing import Any

from flowguard.destinations import Queue
from flowguard.names.ids import Owner
from flowguard.protocol.claims import kills_before
from flowguard.protocol.run import Claim, RunItem
from flowguard.wire.message import Message
from flowguard.worker import fail_phase, kills, runtime
from flowguard.worker.ending import Ending, acked
from flowguard.worker.failure import Again, Never, after_failure
from flowguard.worker.given_up import GivenUp
from flowguard.worker.ports import Services, Store
from flowguard.worker.routing import Arrival
from tests.proofs.model import actions
from tests.proofs.model.mutants.mutant import Mutant
from tests.proofs.model.written import released


def _once_more(error: BaseException, policy: Any, attempt: Any, draw: Any) -> Again | Never:
    return after_failure(error, policy, attempt._replace(retry=attempt.retry - 1), draw)


def _once_less(error: BaseException, policy: Any, attempt: Any, draw: Any) -> Again | Never:
    return after_failure(error, policy, attempt._replace(retry=attempt.retry + 1), draw)


def _rejects_again(error: BaseException, policy: Any, attempt: Any, draw: Any) -> Again | Never:
    return after_failure(ValueError("like any other"), policy, attempt, draw)


def _same_retry(self: Message, error: Any) -> Message:
    return self._replace(first_error=error)


def _same_redrive_letter(self: Message, error: Any) -> Message:
    return self._replace(retry=0, first_error=error)


def _counted(services: Services, claim: Claim) -> None:
    if claim.unwritten is None:
        services.store.release(claim, services.clock.now(), failed=True)


def _unasked(self: GivenUp, arrival: Arrival, budget: Any) -> Arrival:
    return arrival._replace(problem=kills.killed(0))


def _dropped(self: GivenUp, arrival: Arrival, home: Queue, seconds: int) -> Ending:
    return acked(arrival, None)


def _unnoted(store: Store, arrival: Arrival, claim: Claim) -> Arrival:
    many = claim.item.kills >= kills.MOST_KILLS
    return arrival._replace(problem=kills.killed(claim.item.kills)) if many else arrival


def _kills_of_any(found: RunItem | None, message: Message, owner: Owner | None = None) -> int:
    return kills_before(found, message if found is None else message._replace(retry=found.retry), owner)


def _kills_of_itself(found: RunItem | None, message: Message, owner: Owner | None = None) -> int:
    return kills_before(found, message)


def _released_killed(item: RunItem, claim: Claim, now: int, *, failed: bool) -> RunItem:
    return released(item, claim, now, failed=failed)._replace(kills=claim.item.kills)


FAILURES = (
    Mutant(
        "one-more",
        "one attempt more than the policy has",
        ((fail_phase, "after_failure", _once_more),),
        caught_by="used-up",
    ),
    Mutant(
        "one-less",
        "one attempt less than the policy has",
        ((fail_phase, "after_failure", _once_less),),
        caught_by="used-up",
    ),
    Mutant(
        "reject-again",
        "what can never work is tried again",
        ((fail_phase, "after_failure", _rejects_again),),
        caught_by="calm",
    ),
    Mutant(
        "outage-counts",
        "a claim that is given back after an outage counts as a failed attempt",
        ((runtime, "release", _counted),),
        caught_by="newer-fails",
    ),
    Mutant("retry-same", "a retry does not count itself", ((Message, "again", _same_retry),), caught_by="used-up"),
    Mutant(
        "redrive-same",
        "a dead letter does not say the next redrive",
        ((Message, "redriven", _same_redrive_letter),),
        caught_by="calm",
    ),
    Mutant(
        "redrive-ids",
        "what is sent after a redrive has the ids of before",
        ((Message, "hop_id", property(lambda self: f"{self.request_id}.{self.hop}")),),
        caught_by="used-up",
    ),
    Mutant(
        "given-up-ends",
        "the dead-letter queue's function ends a run without asking",
        ((GivenUp, "judged", _unasked),),
        caught_by="killed-later",
    ),
    Mutant(
        "given-up-drops",
        "what was never begun is acknowledged, and not sent back",
        ((GivenUp, "_back", _dropped),),
        caught_by="killed-later",
    ),
    Mutant("one-kill-more", "a hop survives five kills", ((kills, "MOST_KILLS", 6),), caught_by="kills"),
    Mutant("one-kill-less", "a hop is given up after four kills", ((kills, "MOST_KILLS", 4),), caught_by="kills"),
    Mutant(
        "kills-unnoted",
        "a claim that sees a killed worker does not note it",
        ((runtime, "with_kills", _unnoted),),
        caught_by="kills",
    ),
    Mutant(
        "kills-of-any",
        "the kills of an attempt count for the next one",
        ((kills, "kills_before", _kills_of_any),),
        caught_by="kills-retry",
    ),
    Mutant(
        "kills-of-itself",
        "a worker whose claim was repeated takes itself for a killed one",
        ((kills, "kills_before", _kills_of_itself),),
        caught_by="kills-lost",
    ),
    Mutant(
        "kills-given-back",
        "a worker that gives its claim back counts as killed",
        ((actions, "released", _released_killed),),
        caught_by="kills-lost",
    ),
)

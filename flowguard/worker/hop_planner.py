"""The planner of a hop's commit, as its claim and its message make it."""

from __future__ import annotations

from flowguard.protocol.callers import Caller, asker_key
from flowguard.protocol.run import Claim
from flowguard.worker.children import cancelled_requests
from flowguard.worker.plan import Planner
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


def planner_of(services: Services, arrival: Arrival, claim: Claim) -> Planner:
    """Make the planner of the hop's commit, with the hop's time.

    Within a run the time of a hop lies after that of the hop before, whatever the clocks say. Across runs it does
    not: a clock that was fast once must not date everything that comes later.
    """
    now, m, before = services.clock.now(), arrival.message, claim.before
    goes_on = before is not None and before.request_id == m.request_id and (m.hop > 1 or m.redrive > 0)
    moment = max(now, claim.item.committed_at + 1) if goes_on else now
    noted = claim.item.askers.get(asker_key(m.request_id)) if claim.item.askers else None
    return Planner(
        flow=arrival.flow,
        message=m,
        moment=moment,
        signer=services.signer,
        failed_hop=claim.item.own_failure,
        cancelled=cancelled_requests(arrival.flow, m, claim.item, services.signer),
        asked=None if noted is None else Caller.from_text(noted),
        lives_until=0 if before is None else before.ttl * 1_000,
    )

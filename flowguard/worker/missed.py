"""The record of a stream whose stage misses a setting or a key. It waits in the flow's queue, and its shard goes on."""

from __future__ import annotations

from flowguard.errors import KeyUnavailable, SettingsError, TooLarge
from flowguard.protocol.claims import queued_key
from flowguard.protocol.run import Claim
from flowguard.verdicts import Verdict
from flowguard.worker.claim_phase import release
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending, acked
from flowguard.worker.plan import retried
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


def beside_stream(
    services: Services, emitter: Emitter, arrival: Arrival, claim: Claim, missing: SettingsError | KeyUnavailable
) -> Ending:
    """Let the flow's queue keep a stream's record, as the same attempt: others there may not need what is missing.

    Raises what is missing for all other records, and where no queue takes it.
    """
    if not arrival.envelope.source.is_stream:
        raise missing
    (_, inbox), epoch = arrival.flow.entrance(), claim.item.epoch
    try:
        onward = retried(arrival.message, arrival.envelope, 0, services.signer, epoch, inbox)
    except TooLarge:
        raise missing from None
    refusal = services.sender.send([onward]).get(0)
    emitter.sent(arrival.message, onward, refusal)
    if refusal is not None:
        raise missing
    release(services, claim, queued=queued_key(claim.item))
    emitter.broken(arrival.envelope, arrival, missing, str(missing))
    return acked(arrival, Verdict.CLAIMED, why=str(missing))

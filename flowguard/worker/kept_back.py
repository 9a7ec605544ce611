"""What keeps a claimed hop of a stream, or of a flow with ``debounce=``, from its handler."""

from __future__ import annotations

from flowguard.protocol.run import Claim
from flowguard.worker.emitter import Emitter
from flowguard.worker.hop_memory import GoesOn
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


def keep_back(services: Services, emitter: Emitter, arrival: Arrival, claim: Claim) -> None:
    """Raise :class:`GoesOn` where the run is put off for newer requests of its object.

    Raises what :func:`flowguard.worker.stream_copies.turn_away` does, of a stream's record that comes again.
    """
    if arrival.envelope.source.is_stream:
        from flowguard.worker.stream_copies import turn_away  # most functions read queues alone

        turn_away(services, emitter, arrival, claim)
    if (debounce := arrival.flow.debounce) is None:
        return
    from flowguard.worker.put_off import burst_of, comes_back  # most flows put nothing off

    burst = burst_of(debounce, arrival, claim, services.clock.now())
    if burst is not None and comes_back(arrival, services.signer):
        raise GoesOn(burst=burst)

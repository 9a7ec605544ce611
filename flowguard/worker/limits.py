"""Where the worker asks for the places of limits. What takes them is loaded for stages that have any."""

from __future__ import annotations

from flowguard.protocol.run import Claim, Refused
from flowguard.verdicts import Verdict
from flowguard.worker.emitter import Emitter
from flowguard.worker.hop_memory import TakesPlaces
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


def places_of(services: Services, emitter: Emitter, arrival: Arrival, claim: Claim) -> TakesPlaces | None:
    """Return what takes the places that the stage's limits ask for. None where nothing is limited."""
    if arrival.stage is None or not arrival.stage.limits:
        return None
    from flowguard.worker.hop_places import HopPlaces  # most stages have no limit

    return HopPlaces(services, emitter, arrival, claim)


def leave_line(services: Services, emitter: Emitter, arrival: Arrival, refused: Refused) -> None:
    """Let a hop that waits for a place leave its line, where it is not to begin any more."""
    if arrival.message.turn is None or refused.verdict in (Verdict.BUSY, Verdict.EARLY):
        return
    from flowguard.worker.hop_places import withdraw  # most stages have no limit

    withdraw(services, emitter, arrival)

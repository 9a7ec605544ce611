"""Where the worker asks for the places of limits. What takes them is loaded for stages that have any."""

from __future__ import annotations

from flowguard.events import EventType
from flowguard.protocol.claims import sends_by_another
from flowguard.protocol.run import Claim, Refused
from flowguard.verdicts import Verdict
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending, acked
from flowguard.worker.hop_memory import TakesPlaces
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


def places_of(services: Services, emitter: Emitter, arrival: Arrival, claim: Claim) -> TakesPlaces | None:
    """Return what takes the places that the stage's limits ask for. None where nothing is limited."""
    if arrival.stage is None or not arrival.stage.limits:
        return None
    from flowguard.worker.hop_places import HopPlaces  # most stages have no limit

    return HopPlaces(services, emitter, arrival, claim)


def is_limited(arrival: Arrival) -> bool:
    """Answer whether the hop has, or waits for, a place. Its commit waits for no others, which would hold the place."""
    return arrival.message.turn is not None or (arrival.stage is not None and bool(arrival.stage.limits))


def turned_away(services: Services, emitter: Emitter, arrival: Arrival, refused: Refused) -> Ending | None:
    """Report the verdict of a refused claim. Return what ends the record of a hop that has waited for a place.

    It leaves the line, where it is not to begin any more. None where its ending is that of any other.
    """
    verdict, item = refused.verdict, refused.item
    emitter.emit(EventType(verdict.value.lower()), arrival)
    if arrival.message.turn is None or verdict in (Verdict.BUSY, Verdict.EARLY):
        return None
    from flowguard.worker.hop_places import HopPlaces  # most stages have no limit

    HopPlaces(services, emitter, arrival, None).end()
    if verdict is Verdict.DONE and item is not None and sends_by_another(item, arrival.message):
        return acked(arrival, verdict)
    return None

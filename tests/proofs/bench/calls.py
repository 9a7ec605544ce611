"""DynamoDB calls a message, counted on the embedded AWS: two for a stage, one for whatever is not let in."""

from __future__ import annotations

from flowguard.aws.clients import Clients
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.moto import EmbeddedAWS
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import Chain, a_cart, a_request
from tests.proofs.bench.wire import Bench

NOW = 1_767_225_600_000


def figures() -> list[Figure]:
    return [
        Figure(f"DynamoDB calls, {said}", made, 2 if said in ("claimed", "completed") else 1)
        for said, made in calls_by_verdict().items()
    ]


def calls_by_verdict() -> dict[str, int]:
    """How many calls a message costs that is told this. ``completed`` is the claimed message of a last stage."""
    with EmbeddedAWS() as aws:
        aws.create_table("flowguard")
        bench = Bench(Chain, Clients())
        first, _ = a_request(Chain, a_cart(), request_id="request-2", requested_at=NOW)
        older, _ = a_request(Chain, a_cart(), request_id="request-1", requested_at=NOW - 1)
        found: dict[str, int] = {}
        with intercept(Recorder()) as recorder:

            def take(event: dict[str, object], expected: str, name: str | None = None) -> None:
                before = recorder.count("dynamodb")
                if (said := bench.run(event)) != expected:
                    raise AssertionError(f"the message was {said}, not {expected}")
                found[name or expected] = recorder.count("dynamodb") - before

            take(first, "claimed")
            take(first, "done")
            take(older, "stale")
            second = bench.wire.next_event()
            take(second, "claimed")
            take(first, "duplicate")
            third = bench.wire.next_event()
            take(third, "claimed", "completed")
            newer, _ = a_request(Chain, a_cart(), request_id="request-3", requested_at=NOW + 1)
            bench.run(newer)
            take(second, "superseded")
        return found

"""What a run of a flow may have left where nothing tells of it, as the code of its stages says."""

from __future__ import annotations

from collections.abc import Iterator

from flowguard.deploy.uses import uses_of
from flowguard.flow import AnyFlow
from flowguard.worker.leases import keeps_lease


def out_of_reach_of(flow: AnyFlow) -> Iterator[str]:
    """Yield what this flow's own stages leave that ``flowguard forget`` cannot find."""
    unleased = [stage.name for stage in map(flow.stage, flow.entries) if not keeps_lease(flow, stage)]
    if unleased:
        yield (
            f"a worker of {flow.name} at a first hop without a lease ({', '.join(unleased)}): nothing tells of it, and "
            "what it writes before its commit; repeat this half an hour after the last request"
        )
    uses = [uses_of(stage) for stage in flow.stages]
    flows = sorted({asked.name for each in uses for asked in each.starts | each.asks_flows})
    if flows:
        yield (
            f"requests of {flow.name} to {', '.join(flows)} that have not begun: but for those of a group nothing "
            "names them; repeat this with --children once the queues of these flows are empty"
        )
    places = sorted({str(to) for each in uses for to in each.sends | each.asks})
    if places:
        yield f"messages and questions that stages of {flow.name} have sent to {', '.join(places)}"
    if unknown := sorted({str(place) for each in uses for place in each.unknown_sends}):
        yield f"what stages of {flow.name} have sent where nothing says where to ({'; '.join(unknown)})"

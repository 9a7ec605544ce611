"""Whether the hops of a stage are claimed before they are handled, where the stage leaves that to its code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from flowguard.flow import AnyFlow, Flow
from flowguard.protocol.conflict import OnConflict
from flowguard.stage import AUTO, AnyStage


def keeps_lease(flow: AnyFlow, stage: AnyStage) -> bool:
    """Answer whether a stage of the flow has a lease. With ``lease="auto"`` it has none where its code allows that."""
    if stage.lease is True or stage.limits:
        return True
    return stage.lease == AUTO and why_leased(flow, stage) is not None


def why_leased(flow: AnyFlow, stage: AnyStage) -> str | None:
    """Return why a stage has to have a lease. None where each of its effects is proven to be recorded.

    It is proven once in a process, when all modules are loaded: a handler uses what stands below it, too.
    """
    if stage.limits:
        return "a place of its limits is taken under a lease"
    if flow.on_conflict is not OnConflict.SUPERSEDE:
        return f"on_conflict={flow.on_conflict.name} needs a claim to show that a run is at work"
    return _unrecorded(stage)


@cache
def _unrecorded(stage: AnyStage) -> str | None:
    from flowguard.worker.recorded_only import unrecorded  # most stages say themselves whether they have a lease

    return unrecorded(stage, (stage.payload, stage.state))


def unneeded() -> Iterator[tuple[AnyFlow, AnyStage]]:
    """Yield each stage of the loaded flows that needs no lease and says nothing about it."""
    for flow in _flows(Flow):
        for stage in flow.stages:
            if not stage.lease_given and why_leased(flow, stage) is None:
                yield flow, stage


def _flows(base: AnyFlow) -> Iterator[AnyFlow]:
    for flow in base.__subclasses__():
        if hasattr(flow, "stages"):
            yield flow
        yield from _flows(flow)

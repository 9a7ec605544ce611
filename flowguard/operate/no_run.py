"""What commands say of an object without a run."""

from __future__ import annotations

from flowguard.destinations import Queue
from flowguard.flow import AnyFlow


def no_run(flow: AnyFlow | None) -> str:
    """Return the reasons for a missing run. The class of the flow names its dead letters."""
    named = "QUEUE"
    if flow is not None:
        named = flow.dead_letters.name if isinstance(flow.dead_letters, Queue) else ""
    look = f" ('flowguard dlq list {named}')" if named else ""
    refused = f"a request that was refused, such as for its payload, has none, and is a dead letter{look}"
    return f"there is no run; is it the right table and region? Or {refused}"

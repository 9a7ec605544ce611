"""What runs wait for, and nobody answers."""

from __future__ import annotations

from flowguard.events import EventType
from flowguard.testing.explorer.record.history import History


def unanswered(history: History) -> tuple[str, ...]:
    """Return the names that runs awaited from outside and that were not answered before their deadline.

    A name of which another wait was answered counts as answered: somebody who answers it was given.
    """
    answered = {str(event.facts.get("name")) for _, event in history.events(EventType.ANSWERED)}
    timed_out = {
        (f"run#{message.flow}#{message.object_id}", message.request_id)
        for _, event in history.events(EventType.TIMED_OUT)
        if (message := event.message) is not None
    }
    awaited: dict[str, None] = {}
    for version in history.versions:
        item = version.item
        if item is None or item.wait is None or item.wait.plan is None:
            continue
        if (version.key, item.request_id) in timed_out:
            names = item.wait.plan.names
            awaited |= dict.fromkeys(name for name in names if names[name] is not None)
    return tuple(name for name in awaited if name not in answered)

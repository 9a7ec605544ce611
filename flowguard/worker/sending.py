"""Whether the stages of a function send messages, as far as their definitions and handlers say."""

from __future__ import annotations

from typing import Final

from flowguard.flow import AnyFlow
from flowguard.stage import AnyStage
from flowguard.worker.replies import takes_callers
from flowguard.worker.routing import Routes

_SENDING: Final = frozenset({"ask", "cancel", "cancel_children", "group", "reset", "send", "start"})
"""The methods of a step that send."""


def may_send(routes: Routes) -> bool:
    """Answer whether a message of these stages is likely to send others, once it is handled as it should be.

    One that fails sends in any case, and so does a handler whose helper has the step send. The connection for that is
    opened when it is needed.
    """
    return any(_ends_are_told(flow) or any(map(_sends, routes.serves(flow))) for flow in routes.flows)


def _ends_are_told(flow: AnyFlow) -> bool:
    return flow.complete_to is not None or flow.reply_to is not None or takes_callers(flow)


def _sends(stage: AnyStage) -> bool:
    code = getattr(stage.handle, "__code__", None)
    return bool(stage.then) or code is None or not _SENDING.isdisjoint(code.co_names)

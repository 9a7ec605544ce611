"""Agents of Pydantic AI whose model requests and tool calls a hop remembers, each once.

::

    WRITER = Agent("anthropic:claude-opus-4-8", instructions="Answer the customer.")


    def handle(self, ticket: Ticket, step: Step) -> Outcome:
        drafted = WRITER.run_sync(ticket.question, capabilities=[RememberedCalls(step, "draft")])

Needs the extra ``ai``. A name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowguard.names.public import loader

if TYPE_CHECKING:
    from flowguard.ai.remembered_calls import RememberedCalls as RememberedCalls

_HOME = {"RememberedCalls": "ai.remembered_calls"}

__all__ = list(_HOME)


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    _load = loader(__name__, _HOME)

    def __getattr__(name: str) -> Any:
        try:
            return _load(name)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "pydantic_ai":
                raise
            problem = "flowguard.ai needs Pydantic AI, which its extra brings: pip install 'flowguard-aws[ai]'"
            raise ModuleNotFoundError(f"{problem} ({missing})", name=missing.name, path=missing.path) from None


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])

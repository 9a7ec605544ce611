"""The refusals that never end and are tried.

There is one for each kind of destination, table and text that a run meets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from flowguard.sim.posted_messages import Posted
from flowguard.sim.sends import sending
from flowguard.testing.explorer.record.history import CallRecord, History
from flowguard.testing.explorer.record.refusal import DENIABLE, can_be_denied
from flowguard.testing.explorer.record.schedule import DENIED, Choice, FaultKind
from flowguard.wire.message import FLOW_STAGE

_What: TypeAlias = tuple[str, ...]
"""What is refused, and in which role it is met."""


def lasting(history: History) -> Iterator[Choice]:
    """Yield each such refusal once at the first call that meets it, of flowguard's own and of user code's.

    A call of user code that is refused is a stage or function that fails each time.
    """
    return (choice for _, choice in _refusals(history))


class TriedRefusals:
    """What was refused for good in parts of a search, and of which stage's call.

    A later part tries it at no such call again: that takes long, and shows what it has shown.
    """

    def __init__(self) -> None:
        self._tried: set[tuple[_What, str]] = set()

    def new(self, history: History, names: Sequence[str]) -> list[Choice]:
        """Return the refusals that no part has tried. ``names`` are those of the calls, with their stages."""
        met = [(need, names[choice.at - 1], choice) for need, choice in _refusals(history)]
        new = [choice for need, name, choice in met if (need, name) not in self._tried]
        self._tried |= {(need, name) for need, name, _ in met}
        return new


def _refusals(history: History) -> Iterator[tuple[_What, Choice]]:
    """Yield what is needed with the refusal at the first call that needs it."""
    seen: set[_What] = set()
    for made in history.calls:
        for need, more in _of_user(made) if made.site.is_users else _met(history, made):
            if need not in seen:
                seen.add(need)
                yield need, Choice(made.number, FaultKind.REFUSED, more)


def _of_user(made: CallRecord) -> Iterator[tuple[_What, int]]:
    """Yield what a call of user code needs."""
    if made.service in DENIABLE and made.target:
        yield (made.service, made.target, "user code"), 0


def lasting_for_letters(history: History) -> Iterator[Choice]:
    """Yield a refusal by the dead letters' own queue where another refusal led to the first of them."""
    for posted in history.posted:
        if (posted.is_letter or posted.is_unsent) and posted.call:
            yield Choice(posted.call, FaultKind.REFUSED)
            return


def _met(history: History, made: CallRecord) -> Iterator[tuple[_What, int]]:
    """Yield what a call needs with what the choice says behind the hyphen."""
    if made.service == "dynamodb":
        run_table, *others = made.target.split(", ")
        yield (made.service, run_table, str(made.site)), 0
        yield from (((made.service, table), place) for place, table in enumerate(others, 1))
    elif made.service == "s3" and made.operation == "PutObject":
        yield (made.service, _stage(history, made), made.key.rpartition("-")[2]), 0
    elif sending(made.service, made.operation) is not None:
        for role in sorted({_role(posted) for posted in history.posted if posted.call == made.number}):
            yield (made.service, made.target, role), 0
        if can_be_denied(made.service):
            yield (made.service, "denied"), DENIED


def _stage(history: History, made: CallRecord) -> str:
    """Return the stage whose worker makes the call."""
    return history.deliveries[made.worker - 1].stage or ""


def _role(message: Posted) -> str:
    """Return what a message is to its run."""
    if message.is_letter or message.is_unsent:
        return "dead letter"
    if FLOW_STAGE not in message.attributes:
        return "side message"
    return "retry" if message.place.retry else "next hop" if message.place.hop > 1 else "start"

"""The filters of ``flowguard list``, and of every command that takes many runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from flowguard.aws.run_pages import Wanted
from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.operate.run_facts import stored_text
from flowguard.operate.run_rows import quiet_since
from flowguard.protocol.run import RunItem, Status
from flowguard.startup.named_tuple import NamedTuple

_SECOND = 1_000  # ms

_MARK = 8
"""Characters that tell the places of one selection from those of others."""


class Selection(NamedTuple):
    """Filters of runs. None takes all. ``older_than`` and ``quiet_for`` are in seconds.

    ``error`` is an error's whole type, or a part of its text in any case. ``tenant`` is known of runs that wait, for
    the items of others do not say it.
    """

    flow: str | None = None
    status: Status | None = None
    stage: str | None = None
    older_than: int | None = None
    quiet_for: int | None = None
    error: str | None = None
    tenant: str | None = None

    @property
    def wanted(self) -> Wanted:
        """Return the filters that DynamoDB itself can apply."""
        mark = hashlib.sha256(json.dumps(self).encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
        return Wanted(self.flow, self.status, self.stage, mark)

    def has(self, seen: SeenRun, runs: RunReader, now: int) -> bool:
        """Answer whether the run passes every filter at the time ``now``."""
        item = seen.item
        return (
            self.flow in (None, seen.flow)
            and self.status in (None, item.status)
            and self.stage in (None, item.stage)
            and (self.older_than is None or now - item.requested_at > self.older_than * _SECOND)
            and (self.quiet_for is None or _is_quiet(item, self.quiet_for, now))
            and (self.error is None or any(_is_error(text, self.error) for text in _errors(seen, runs)))
            and self.tenant in (None, _tenant(item))
        )


def _is_quiet(item: RunItem, seconds: int, now: int) -> bool:
    """Answer whether nobody has worked on the run for so long."""
    since = quiet_since(item, now)
    return since is not None and now - since > seconds * _SECOND


def _errors(seen: SeenRun, runs: RunReader) -> Iterator[str]:
    """Yield the errors that the item has.

    They are of the end, of the last attempt, and of what is taken back.
    """
    item = seen.item
    if item.status is Status.FAILED and (end := stored_text(seen, runs, "error")) is not None:
        yield end
    notes = [
        *([] if item.back_off is None or item.back_off.look is not None else [item.back_off.error]),
        *([] if item.own_failure is None else [item.own_failure.error]),
    ]
    for note in notes:
        yield f"{note.type}: {note.text}"


def _is_error(text: str, wanted: str) -> bool:
    kind, _, why = text.partition(": ")
    return kind == wanted or wanted.lower() in why.lower()


def _tenant(item: RunItem) -> str | None:
    """Return the tenant that the plan of a wait names."""
    plan = item.wait.plan if item.status is Status.WAITING and item.wait is not None else None
    return None if plan is None else plan.tenant

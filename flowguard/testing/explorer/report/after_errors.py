"""The likely fix of user code that makes its own failure worse, with the line to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from flowguard.protocol.run import Status
from flowguard.testing.explorer.record.history import CallRecord, History
from flowguard.testing.explorer.record.schedule import RAISED
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.report.outside_fixes import call_named

Fix: TypeAlias = tuple[Site, str]


def fix_deleted_first(history: History) -> Fix | None:
    """Return the fix of a record that its function deleted itself. None where it deleted none."""
    for made in history.calls:
        if made.operation.startswith("DeleteMessage") and made.applied and _is_users(made):
            return made.site, (
                f"this {call_named(made.operation)} at {made.site} takes the record out of its queue, and what fails "
                "after it is not tried again: leave it out, for Lambda deletes what was processed"
            )
    return None


def fix_taken_back(effect: tuple[Site, str, str], undisturbed: Mapping[tuple[Site, str, str], int]) -> str | None:
    """Return the fix of a deletion that is made after an error alone. None for any other effect."""
    site, operation, _ = effect
    if not is_taken_back(effect, undisturbed):
        return None
    return (
        f"this {call_named(operation)} at {site} is made only after something failed, though what failed may have been "
        "done: leave what was begun, so that the next attempt goes on with it"
    )


def is_taken_back(effect: tuple[Site, str, str], undisturbed: Mapping[tuple[Site, str, str], int]) -> bool:
    """Answer whether an effect is a deletion that no undisturbed run makes, by a line that its author can change."""
    site, operation, _ = effect
    return operation.startswith("Delete") and not site.by_library and not undisturbed.get(effect)


def fix_unheard(history: History, work: str) -> Fix | None:
    """Return the fix of a call whose error its function or stage did not let out. None where each was let out."""
    for made in history.struck():
        if made.fault in RAISED and made.error is not None and _is_users(made) and _went_on(made, history):
            return made.site, (
                f"this {call_named(made.operation, made.service)} at {made.site} got no answer, and the {work} went on "
                f"with another end: let the error out, so that the {work} is tried again"
            )
    return None


def fix_overtaken(history: History, table: str, cure: str) -> str | None:
    """Return the fix of a write of what was read before another worker wrote to the table. None without one."""
    calls = [made for made in history.calls if table in made.target.split(", ")]
    for read in (made for made in calls if made.is_read and _is_users(made)):
        later = [made for made in calls if made.number > read.number and made.applied and not made.is_read]
        if later and later[0].worker != read.worker and any(made.worker == read.worker for made in later):
            return (
                f"after the {call_named(read.operation)} at {read.site} another worker wrote to {table}, and what it "
                f"wrote was written over: {cure}"
            )
    return None


_LOCKED: Final = ("LockNotAvailable", "StatementTimeoutException")
"""The refusals of a statement that met the lock of another worker, by PostgreSQL and by the Data API."""


def fix_locked(history: History) -> Fix | None:
    """Return the fix of a run that failed since its last attempt met another worker's lock. None where none did."""
    failed_by = {
        version.worker
        for version in history.versions
        if version.item is not None and version.item.status is Status.FAILED
    }
    for made in history.calls:
        if made.error in _LOCKED and made.worker in failed_by:
            return made.site, (
                "the last attempt met the lock of a worker that was stuck or dead, for which an exploration does not "
                "wait: let the stage's retry= outlast that worker, as by a longer backoff="
            )
    return None


def _went_on(made: CallRecord, history: History) -> bool:
    """Answer whether its worker made a later call, and did not fail."""
    entry = history.deliveries[made.worker - 1]
    return entry.why is None and entry.acked and entry.calls[-1] > made.number


def _is_users(made: CallRecord) -> bool:
    return made.site.is_users and not made.site.by_flowguard

"""The calls that flowguard makes for a handler. An outage that they meet says nothing about the stage.

::

    handler   step.once ── write ✗ throttled     the lease is given back, the record comes again, nothing is counted
              its own call ✗ throttled           a failed attempt of the stage
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from flowguard.errors import KeyUnavailable, SettingsError
from flowguard.startup.named_tuple import NamedTuple
from flowguard.worker.failure import kinds_of, only_error

if TYPE_CHECKING:
    from flowguard.protocol.groups import GroupPlan, GroupRequest, NewShard
    from flowguard.protocol.waiting import GivenAnswer
    from flowguard.recorded.read_answers import EndedGroup
    from flowguard.recorded.table_writes import ReadsTables
    from flowguard.worker.ports import Groups, Waits

_MISSING: Final = (KeyUnavailable, SettingsError)
_Answer = TypeVar("_Answer")


class HandlerCalls:
    """Makes the calls of one attempt, and knows which of their errors a later try may not meet."""

    def __init__(self, fails_for_now: Callable[[Exception], bool] = lambda error: False) -> None:
        """``fails_for_now`` answers whether an error is of a call that may succeed later, as it is."""
        self._fails_for_now = fails_for_now
        self._failed: tuple[Exception, ...] = ()
        self.raised: tuple[type[BaseException], ...] = ()
        """The class of what the stage has raised, and of the errors in that if it is a group."""

    def made(self, call: Callable[[], _Answer]) -> _Answer:
        """Make a call. Raises what it raises."""
        try:
            return call()
        except Exception as error:
            if self._fails_for_now(error):
                self._failed += (error,)
            raise

    def have_failed_with(self, error: BaseException) -> bool:
        """Answer whether an attempt that ends with the error ends because of such a call, or of what is not set up.

        Of several errors, as of an ``asyncio.TaskGroup``, all have to be.
        """
        if isinstance(error, BaseExceptionGroup):
            return all(map(self.have_failed_with, error.exceptions))
        return isinstance(error, _MISSING) or any(error is failed for failed in self._failed)

    def of_stage(self, raised: BaseException) -> BaseException:
        """Return the error of a stage that ends its attempt: of a group of errors the only one.

        It may be a setting or a key that the stage misses, which holds up its record alone. Raises what says nothing
        about the stage: a call that a later try may make, and what stops the process. No frame keeps the error: it has
        those of the handler, and what is open there, such as a transaction.
        """
        error = only_error(raised)
        self.raised = kinds_of(error)
        if isinstance(error, SettingsError) or (isinstance(error, KeyUnavailable) and error.refused):
            error.in_stage = True
            return error
        is_stopped = isinstance(error, KeyboardInterrupt)  # the process is: the record stays in its queue
        if not is_stopped and not self.have_failed_with(error):
            return error
        try:
            raise error
        finally:
            del raised, error

    def of_tables(self, tables: ReadsTables | None) -> ReadsTables | None:
        """Return what makes the calls of the user's tables."""
        return None if tables is None else _Tables(tables, self)

    def save(self, groups: Groups, shard: NewShard) -> None:
        """Save a shard of a group with its requests."""
        self.made(partial(groups.save, shard))

    def ended_group(self, waits: Waits, flow: str, plan: GroupPlan) -> EndedGroup:
        """Return the group that a stage goes on after, with what reads its answers."""
        from flowguard.recorded.read_answers import EndedGroup  # few hops come after a group

        return EndedGroup(_Groups(waits.groups, self), flow, plan)


class _Tables(NamedTuple):
    tables: ReadsTables
    calls: HandlerCalls

    def read(self, table: str, key: Mapping[str, Any], *, again: int = 0) -> dict[str, Any] | None:
        return self.calls.made(partial(self.tables.read, table, key, again=again))


class _Groups(NamedTuple):
    groups: Groups
    calls: HandlerCalls

    def answers(self, flow: str, key: str, shard: int) -> Sequence[tuple[GroupRequest, GivenAnswer | None]]:
        return self.calls.made(partial(self.groups.answers, flow, key, shard))

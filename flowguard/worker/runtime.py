"""The way of a message through its stage, to be read in ``Runtime.work``: claim, flush, handle, commit, or fail.

It asks for claims and commits by yielding them, and is sent the answers (:mod:`flowguard.worker.driving`). Its ending
says what is to be sent and whether to ack, which ``worker/batch.py`` does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from flowguard.errors import CannotOpen, ConditionFailed, FlowguardError, NotHeld, Reject, Retry
from flowguard.protocol.run import Claim, Commit, Refused
from flowguard.recorded.table_writes import NOTHING_REFUSED, RefusedWrites
from flowguard.worker.asks import Way
from flowguard.worker.caller_answers import CallerAnswers
from flowguard.worker.claim_phase import ClaimPhase, release
from flowguard.worker.commit_phase import CommitPhase
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.fail_phase import FailPhase
from flowguard.worker.flush_phase import FlushPhase
from flowguard.worker.handle_phase import HandlePhase
from flowguard.worker.hop_memory import GoesOn, HopMemory, NoPlace
from flowguard.worker.kept_answers import KeptAnswers
from flowguard.worker.kills import counted, with_kills
from flowguard.worker.no_run import NoRun
from flowguard.worker.ports import Budget, Services
from flowguard.worker.routing import Arrival
from flowguard.worker.turned_away import TurnedAway

MOST_CALLS = 10
"""How often one attempt calls its handler, while conditions of its optional writes do not hold."""

_OTHER_WRITES = f"at each of {MOST_CALLS} calls the handler recorded other writes with else_go_on that did not hold"


class Runtime:
    """Takes one message through its stage. Holds nothing of it afterwards."""

    def __init__(
        self,
        services: Services,
        emitter: Emitter,
        outside: Callable[[], AbstractContextManager[None]] | None = None,
    ) -> None:
        """``outside`` is where handlers run, so that others may go on meanwhile. None where there are no others."""
        self._services = services
        self._emitter = emitter
        caller_answers = CallerAnswers(services, emitter)
        self._no_run = NoRun(services, emitter, caller_answers)
        early = KeptAnswers(services, emitter)
        self._turned_away = TurnedAway(services, emitter, caller_answers, early, self._no_run)
        self.claims = ClaimPhase(services, caller_answers)
        self._flush = FlushPhase(services, emitter, caller_answers)
        self._handle = HandlePhase(services, emitter, outside)
        self._commits = CommitPhase(services, emitter, caller_answers, early, self._turned_away)
        self._fail = FailPhase(services, emitter, self._commits, self._no_run)

    def close(self) -> None:
        """Close what the handlers of this invocation have shared."""
        self._handle.close()

    def work(self, arrival: Arrival, budget: Budget) -> Way[Ending]:
        """Take one message through its stage. The ending says what is still to be sent, and whether to ack after that.

        A hop that was only read, and that others have changed since, goes its way once more, under a claim.
        """
        if (ending := self._no_run.ending(arrival)) is not None:
            return ending
        while True:
            try:
                arrival, claim = yield from self.claims.claim(arrival, budget)
            except (CannotOpen, Reject) as error:
                return self._no_run.unclaimed(arrival, error)
            if isinstance(claim, Refused):
                return self._turned_away.ending(arrival, claim)
            if not arrival.begins:
                raise NotBegun(arrival.message.stage)
            if (finished := (yield from self._held(arrival, counted(claim)))) is not None:
                return finished
            arrival = arrival.to_claim()

    def _held(self, arrival: Arrival, claim: Claim) -> Way[Ending | None]:
        """Flush, handle, commit. None where the hop was only read, is still open, and has to be claimed.

        The handler is called again when the condition of an optional write, or of one that it computes, does not hold.
        """
        services = self._services
        with HopMemory(services.store, claim, services.denials.ended_for, services.fails_for_now) as memory:
            try:
                arrival = with_kills(services.store, arrival, claim)
                self._emitter.claimed(arrival, claim)
                self._flush.flush(arrival, claim)
                calls, refused = 1, NOTHING_REFUSED
                commit = yield from self._handled(arrival, memory, refused, calls=0)
                while isinstance(commit, Commit):
                    try:
                        written = yield from self._commits.written(arrival, memory.claim, commit)
                    except NotHeld as error:
                        if (last := _last_error(error, calls)) is not None:
                            return (yield from self._fail.failed(arrival, memory.claim, last))
                        refused = {**refused, **error.refused}
                    except (ConditionFailed, Reject) as error:  # known not to be applied, which no other error is
                        return (yield from self._fail.failed(arrival, memory.claim, error))
                    else:
                        return self._commits.answered(arrival, memory.claim, commit, written)
                    commit = yield from self._handled(arrival, memory, refused, calls)
                    calls += 1
                return commit
            except Exception:  # the worker lives, and the record comes back before the lease is over
                release(services, claim)
                raise

    def _handled(
        self, arrival: Arrival, memory: HopMemory, refused: RefusedWrites, calls: int
    ) -> Way[Commit | Ending | None]:
        """Run the stage. Nothing that it recorded has happened when this returns. An ending is for one that fails."""
        try:
            return self._handle.planned(arrival, memory, refused, calls)
        except NoPlace as waits:
            return waits.ending()
        except GoesOn as later:
            goes_on = later.requests, later.burst
        except BaseException as raised:  # a stage may raise anything; what follows is decided in one place
            return (yield from self._fail.failed(arrival, memory.claim, memory.of_stage(raised)))
        return self._fail.continued(arrival, memory.claim, *goes_on)  # not as what an error came to


class NotBegun(FlowguardError):
    """A hop that SQS gave up may be begun again. It goes back to its queue when its record comes once more."""

    def __init__(self, stage: str) -> None:
        super().__init__(f"{stage} may be begun again, and not by this function")


def _last_error(error: NotHeld, calls: int) -> Exception | None:
    """Return what fails the attempt whose writes did not hold. None where its handler may be called once more."""
    if error.changed is not None and calls >= error.changed.tries:
        return error.changed
    return Retry(_OTHER_WRITES) if calls >= MOST_CALLS else None

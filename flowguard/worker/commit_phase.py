"""Write all that a stage asked for, or nothing. Its answer says what follows."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias, assert_never

from flowguard.events import EventType
from flowguard.protocol.callers import Callers, StoredEnd
from flowguard.protocol.claims import outlived, waits_unseen
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import Claim, Commit, Committed, Fenced, FencedBy, Refused
from flowguard.verdicts import Verdict
from flowguard.worker.asks import Committing, Way
from flowguard.worker.caller_answers import CallerAnswers
from flowguard.worker.dispatch import dispatch
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending, acked, kept
from flowguard.worker.kept_answers import KeptAnswers
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival
from flowguard.worker.turned_away import TurnedAway

Written: TypeAlias = Committed | Fenced | Refused | None
"""What a commit is answered. None where its hop was only read, is still open, and has to be claimed now."""


class CommitPhase:
    """Asks for commits, and reads what their answers mean for the records."""

    def __init__(
        self,
        services: Services,
        emitter: Emitter,
        caller_answers: CallerAnswers,
        early: KeptAnswers,
        turned_away: TurnedAway,
    ) -> None:
        self._services = services
        self._emitter = emitter
        self._caller_answers = caller_answers
        self._turned_away = turned_away
        self._early = early

    def written(self, arrival: Arrival, claim: Claim, commit: Commit) -> Way[Written]:
        """Write all of the commit or nothing. Before it the rows by which answers find a run that waits."""
        if waits_unseen(claim, commit):
            return None
        if commit.wait is not None and commit.wait.rows:
            self._services.store.waits.save(commit.wait.rows)
        answer = yield from self.write(arrival, claim, commit)
        if isinstance(answer, Committed):
            self._services.denials.ended_for(write.table for write in commit.writes)
        return answer

    def write(self, arrival: Arrival, claim: Claim, commit: Commit) -> Way[Written]:
        """Ask for the commit until there is an answer. None where the hop was only read, and has to be claimed now.

        An end closes a list of callers that is open, also where the flow takes callers in another release alone.
        """
        if claim.item.callers is not None and not commit.takes_callers:
            commit = commit._replace(takes_callers=True)
        answer: Written = None
        while answer is None:
            if outlived(claim, self._services.clock.now(), arrival.flow.retention // timedelta(milliseconds=1)):
                return None
            answer = yield Committing(claim, commit)
        return None if isinstance(answer, Refused) and answer.verdict is Verdict.CLAIMED else answer

    def answered(self, arrival: Arrival, claim: Claim, commit: Commit, answer: Written) -> Ending | None:
        """Return what the answer to a commit means for the record. None where its hop has to be claimed."""
        if answer is None:
            return None
        if isinstance(answer, Committed):
            self._emitter.committed(arrival, claim, commit)
            sends = commit.outbox.sends if commit.outbox is not None else ()
            if answer.callers is not None:
                sends = (*self._replies(arrival, commit, answer.callers, sends), *sends)
            onward = self._early.sends(arrival, sends, self._early.of_commit(arrival, claim, commit))
            why, owner = str(commit.error or ""), claim.item.owner
            return acked(arrival, Verdict.CLAIMED, onward, commit.result, why, owner=owner)
        if isinstance(answer, Refused):
            self._emitter.emit(EventType.FENCED, arrival, by=answer.verdict.value)
            return self._turned_away.ending(arrival, answer)
        self._emitter.emit(EventType.FENCED, arrival, by=answer.by.value)
        match answer.by:
            case FencedBy.NEWER_RUN:
                return acked(arrival, Verdict.SUPERSEDED)
            case FencedBy.FINISHED if answer.item is not None:
                return self._turned_away.done(arrival, answer.item)
            case FencedBy.OTHER_ATTEMPT | FencedBy.EXPIRED | FencedBy.FINISHED:
                return kept(arrival, Verdict.BUSY, f"fenced: {answer.by.value}")
            case _:
                assert_never(answer.by)

    def ended(self, arrival: Arrival, claim: Claim, commit: Commit) -> Way[Ending | None]:
        """Make the commit that ends the run's hop without its stage. Raises as the call does."""
        return self.answered(arrival, claim, commit, (yield from self.write(arrival, claim, commit)))

    def _replies(self, arrival: Arrival, commit: Commit, callers: Callers, sends: tuple[Send, ...]) -> tuple[Send, ...]:
        """Return the answers to those who asked for this end, up to the very write.

        If some of them cannot be answered now, the commit's own messages go at once. The record stays in its queue,
        and its next delivery reads the callers from the item.
        """
        m, error = arrival.message, commit.error
        texts = (commit.result, None if error is None else str(error))
        end = StoredEnd(m.request_id, commit.committed_at, commit.status.value, *texts)
        try:
            return self._caller_answers.replies(arrival, end, callers)
        except Exception:
            dispatch(self._services, self._emitter, [acked(arrival, None, sends)])
            raise

    def overtaken(self, arrival: Arrival, by: FencedBy) -> Ending:
        """Return what it means for the record that its handler met the fence."""
        self._emitter.emit(EventType.FENCED, arrival, by=by.value)
        if by is FencedBy.NEWER_RUN:
            return acked(arrival, Verdict.SUPERSEDED)
        return kept(arrival, Verdict.BUSY, f"fenced: {by.value}")

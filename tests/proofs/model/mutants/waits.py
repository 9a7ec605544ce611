"""Waits: what ends them, what is sent again, and in which order a hop begins to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flowguard.protocol import answers, claims
from flowguard.protocol.outbox import Kind, Outbox
from flowguard.protocol.run import Claim, RunItem
from flowguard.protocol.waiting import Wait, WaitEnd, WaitPlan
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.worker import commit_phase, external_answers, settler
from flowguard.worker.early_answers import EarlyOffers
from flowguard.worker.flush_phase import FlushPhase
from flowguard.worker.kept_answers import KeptAnswers
from tests.proofs.model.actions import Environment
from tests.proofs.model.mutants.mutant import Mutant, Patch

_SETTLE, _LOOK = settler.Settler.settle, settler.Settler.look_early
_WRITTEN, _TAKEN, _JUDGE = commit_phase.CommitPhase.written, claims.taken, answers.judge
_TIME_OUT, _ENDING = settler.Settler._time_out, settler.Settler.ending
_FROM_OUTSIDE, _QUEUED = external_answers.ExternalAnswers.settle, external_answers.ExternalAnswers._put_into_queue
_GIVEN = external_answers.ExternalAnswers._given


def _without_repair(self: Any, flow: Any, envelope: Any, given: Any, **about: Any) -> Any:
    settled = _SETTLE(self, flow, envelope, given, **about)
    return settled if settled is None or settled.verdict is AnswerVerdict.RESUMED else settled._replace(onward=None)


def _deaf_deadline(self: Any, flow: Any, envelope: Any, deadline: Any) -> Any:
    """Only the call that ended the wait sends."""
    applied: list[bool] = []
    services = self._services

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(services.store.waits, name)

        def time_out(self, address: Any, now: int) -> Any:
            ended = services.store.waits.time_out(address, now)
            applied.append(ended.applied or ended.item is None or ended.item.wait is None or not ended.item.wait.end)
            return ended

    watching = settler.Settler(services._replace(store=_Store(services.store, Watched())))
    onward = _TIME_OUT(watching, flow, envelope, deadline)
    return onward if applied[0] else None


class _Store:
    def __init__(self, store: Any, waits: Any) -> None:
        self._store = store
        self.waits = waits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _once_deadline(self: Any, flow: Any, envelope: Any, deadline: Any) -> Any:
    """A deadline that comes too early does not come again."""
    onward = _TIME_OUT(self, flow, envelope, deadline)
    return None if onward is not None and onward[1].kind is Kind.DEADLINE else onward


def _look_never(self: Any, *given: Any) -> Iterator[Any]:
    return iter(())


def _rows_late(self: Any, arrival: Any, claim: Any, commit: Any) -> Any:
    written = yield from _rows_never(self, arrival, claim, commit)
    if commit.wait is not None:
        self._services.store.waits.save(commit.wait.rows)
    return written


def _rows_never(self: Any, arrival: Any, claim: Any, commit: Any) -> Any:
    wait = None if commit.wait is None else commit.wait._replace(rows=())
    return (yield from _WRITTEN(self, arrival, claim, commit._replace(wait=wait)))


def _without_wait(item: Any, request: Any) -> RunItem:
    return _TAKEN(item, request)._replace(wait=None)


def _without_outbox(item: Any, request: Any) -> RunItem:
    after = _TAKEN(item, request)
    return after._replace(outbox=None) if request.message.resumed else after


def _proved_by_any(self: Any, arrival: Any, claim: Claim, outbox: Any) -> Any:
    if arrival.message.resumed and outbox.request_id == arrival.message.request_id:
        wait = claim.item.wait
        return () if wait is not None and wait.answered else outbox.left_by_its_wait()
    return outbox.left_by_another(arrival.message.request_id, 0)


def _proved_by_parties(self: Any, arrival: Any, claim: Claim, outbox: Any) -> Any:
    wait = claim.item.wait
    if arrival.message.resumed and wait is not None and wait.plan is not None:
        asked = {name for name, own in wait.plan.names.items() if own is None or "#" in own}
        return () if asked & wait.answered else outbox.left_by_its_wait()
    return outbox.left_by_another(arrival.message.request_id, 0)


def _judged(change: Callable[[RunItem, AnswerAddress], RunItem]) -> Patch:
    """``judge`` of an item that looks otherwise."""

    def judge(item: RunItem | None, address: AnswerAddress, *, counts: bool = True) -> AnswerVerdict:
        return _JUDGE(item if item is None else change(item, address), address, counts=counts)

    return answers, "judge", judge


def _every_name(item: RunItem, address: AnswerAddress) -> RunItem:
    if item.wait is None or item.wait.end is not None:
        return item
    waiting = item.wait.waiting | {address.name}
    return item._replace(wait=item.wait._replace(waiting=waiting, answered=frozenset()))


def _not_over(item: RunItem, address: AnswerAddress) -> RunItem:
    if item.wait is None:
        return item
    return item._replace(wait=item.wait._replace(timed_out=False, spare=0))


def _failure_counts(self: Wait, name: str, *, counts: bool) -> Wait:
    return self._replace(waiting=self.waiting - {name}, answered=self.answered | {name})


def _always_the_stage(self: WaitPlan, end: WaitEnd) -> str:
    return self.stage


def _acked_early(self: Any, envelope: Any, flow: Any, arrived: Any) -> Any:
    return _ENDING(self, envelope, flow, arrived)._replace(ack=True)


def _kept_late(self: Any, found: Any, envelope: Any, *, queued: bool) -> Any:
    """Rows are looked for first, and the answer is kept after that."""
    settled = _FROM_OUTSIDE(self, found._replace(keep_early=None), envelope, queued=queued)
    if found.keep_early is not None:
        self._services.store.waits.keep_early(found.flow.name, found.awaited_id, found.answer, now=0, expires_at=0)
    return settled


def _for_anybody(self: Any, who: str, rows: Any = None) -> Any:
    """A copy of an answer that a run has is for whoever waits."""
    return self.rows(self._own) if rows is None else rows


def _twice_in_next(self: Any, row: Any, offer: Any, found: Any, envelope: Any, told: Any, **about: Any) -> Any:
    """A run that has the answer by now, from another delivery of its message, is left alone."""
    if offer.looks_first and self._services.store.waits.verdict(row.address) is AnswerVerdict.DUPLICATE:
        return settler.SettledAnswer(AnswerVerdict.DUPLICATE)
    return _GIVEN(self, row, offer, found, envelope, told, **about)


def _queued_never(self: Any, brought: Any, uses: Any) -> None:
    return


WAITS = (
    Mutant(
        "norepair",
        "an answer that finds the wait over does not send the next hop again",
        ((settler.Settler, "settle", _without_repair),),
        caught_by="wait-all",
    ),
    Mutant(
        "nolook",
        "a wait does not look for what was kept before it",
        ((settler.Settler, "look_early", _look_never),),
        caught_by="wait-event",
    ),
    Mutant(
        "nolook-own",
        "only a repeated record looks for what was kept",
        ((KeptAnswers, "of_commit", _look_never),),
        caught_by="wait-event",
    ),
    Mutant(
        "kept-late",
        "an event is kept after its rows were looked for",
        ((external_answers.ExternalAnswers, "settle", _kept_late),),
        caught_by="wait-event",
    ),
    Mutant(
        "early-for-two",
        "a run that gets an early answer does not use it up",
        environment=Environment(uses_up=False),
        caught_by="newer-event",
    ),
    Mutant(
        "early-copy",
        "a copy of an early answer that a run has used is for another one",
        ((EarlyOffers, "_rows_of", _for_anybody),),
        caught_by="newer-event",
    ),
    Mutant(
        "early-lost",
        "an early answer that those who waited could not take is left to them",
        ((EarlyOffers, "free", lambda self: False),),
        caught_by="newer-event",
    ),
    Mutant(
        "early-left",
        "a run that has an early answer from another delivery of its message is not sent on",
        ((external_answers.ExternalAnswers, "_given", _twice_in_next),),
        harmless="the message of the deadline looks at the wait, finds it over, and sends the run on",
    ),
    Mutant(
        "noresumeflush",
        "the hop after a wait does not send what the waiting one left",
        ((Outbox, "left_by_its_wait", lambda self: ()),),
        caught_by="wait-mixed",
    ),
    Mutant(
        "resume-clears",
        "the claim of the hop after a wait clears the outbox",
        ((claims, "taken", _without_outbox),),
        caught_by="wait-mixed",
    ),
    Mutant(
        "proved-by-any",
        "any answer is taken for a proof that what stood before the asks was sent",
        ((FlushPhase, "_left", _proved_by_any),),
        caught_by="wait-event",
    ),
    Mutant(
        "proved-by-party",
        "the answer of a party outside is taken for such a proof",
        ((FlushPhase, "_left", _proved_by_parties),),
        caught_by="wait-party",
    ),
    Mutant(
        "rowslate",
        "rows are saved after the commit",
        ((commit_phase.CommitPhase, "written", _rows_late),),
        caught_by="wait-party",
    ),
    Mutant(
        "rowsnever", "rows are not saved", ((commit_phase.CommitPhase, "written", _rows_never),), caught_by="wait-party"
    ),
    Mutant(
        "asks-first",
        "asks go with the side messages and the deadline",
        ((Kind, "phase", property(lambda self: 2 if self in (Kind.NEXT, Kind.DEAD) else 0)),),
        caught_by="wait-all",
    ),
    Mutant(
        "wait-lost",
        "the claim of the hop after a wait drops the answers",
        ((claims, "taken", _without_wait),),
        caught_by="wait-all",
    ),
    Mutant(
        "answered-twice",
        "an answer to a name that has one is kept",
        (_judged(_every_name),),
        caught_by="wait-all",
    ),
    Mutant(
        "old-answers",
        "the answers of a superseded run are kept",
        (
            _judged(
                lambda item, address: item._replace(request_id=address.request_id, requested_at=address.requested_at)
            ),
        ),
        caught_by="newer-wait",
    ),
    Mutant(
        "late-answers",
        "an answer is kept although the wait has ended without it",
        (_judged(_not_over),),
        caught_by="wait-any",
    ),
    Mutant(
        "ends-twice",
        "a deadline ends a wait that is over",
        environment=Environment(ends_twice=True),
        caught_by="wait-any",
    ),
    Mutant(
        "deadline-deaf",
        "a deadline that finds the wait over does not send the next hop again",
        ((settler.Settler, "_time_out", _deaf_deadline),),
        caught_by="wait-timeout",
    ),
    Mutant(
        "deadline-once",
        "a deadline that comes too early is not sent again",
        ((settler.Settler, "_time_out", _once_deadline),),
        caught_by="wait-timeout",
    ),
    Mutant(
        "look-forgets",
        "the item does not remember which message of a deadline came too early",
        ((Wait, "looked", lambda self, look: self._replace(looked_at=look.at)),),
        caught_by="wait-timeout",
    ),
    Mutant(
        "failure-counts",
        "a failure counts as an answer that the stage takes",
        ((Wait, "after", _failure_counts),),
        caught_by="wait-failed",
    ),
    Mutant(
        "one-stage",
        "a run goes on at the same stage however its wait ended",
        ((WaitPlan, "stage_at", _always_the_stage),),
        caught_by="wait-timeout",
    ),
    Mutant(
        "direct-unqueued",
        "an answer over HTTP is settled without its copy in the queue",
        ((external_answers.ExternalAnswers, "_put_into_queue", _queued_never),),
        caught_by="wait-direct",
    ),
    Mutant(
        "resume-any-time",
        "the hop after a wait is claimed although the wait goes on",
        ((claims, "is_waiting", lambda item: False),),
        harmless="its message is sent when the wait is over and not before: a forged one is refused by this",
    ),
    Mutant(
        "early-acked",
        "an answer that comes before the commit of its hop is acked",
        ((settler.Settler, "ending", _acked_early),),
        harmless="flows are asked after the commit: what comes before it is kept, or comes again when it is asked for",
    ),
)

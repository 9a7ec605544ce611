"""The dead letters of one request, and whether one of them can move its run on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from flowguard.aws.commit_texts import FIRST_MESSAGE
from flowguard.aws.redriver import Outcome
from flowguard.aws.run_reader import SeenRun
from flowguard.flow import AnyFlow
from flowguard.operate.attempts import failed_attempt, may_be_parked
from flowguard.operate.moments import moment
from flowguard.protocol.forgotten import NOW, is_forgotten
from flowguard.protocol.run import RunItem, Status
from flowguard.worker.again import again_command, again_refusal, anew_by_hand
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redrive import Fate, asker_of, has_callers, judge, not_awaited, told_by_stage


@dataclass
class OwnLetters:
    """The letters of one request, and how many of them were sent back.

    ``unsent`` counts its unsent messages, ``kept`` the letters that were sent back and could not be deleted.
    """

    flow: str
    object_id: str
    request_id: str
    sent: int = 0
    letters: int = 0
    unsent: int = 0
    kept: int = 0

    def among(self, page: Sequence[Letter]) -> list[Letter]:
        """Return the request's letters of a page, without messages that it could not send."""
        wanted = (self.flow, self.object_id, self.request_id)
        matching = [
            letter for letter in page if (m := letter.message) and (m.flow, m.object_id, m.request_id) == wanted
        ]
        letters = [letter for letter in matching if letter.unsent is None]
        self.unsent += len(matching) - len(letters)
        self.letters += len(letters)
        return letters

    def counted(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Count the letters that were sent back."""
        self.sent += sum(outcome.sent for outcome in outcomes)
        self.kept += sum(outcome.sent and not outcome.deleted for outcome in outcomes)
        return outcomes

    def problems(self, queue: str) -> Iterator[str]:
        """Yield a line for each step that was not done."""
        if self.unsent:
            yield f"{self.unsent} of its messages lie there unsent; see 'flowguard dlq list {queue}'"
        if not self.letters:
            yield f"nothing was sent back: queue {queue} shows no letter of request {self.request_id}"
        elif not self.sent:
            yield "nothing was sent back; its letters are still in the queue"


def refusal(item: RunItem, now: int, flow: AnyFlow | None = None) -> str | None:
    """Return why no letter can move the run on. None where one may, as that of an ``on_failed`` stage that failed.

    A run that goes on may have a letter: its message may be parked, for another release or a queue that refuses it.
    """
    if item.status is Status.COMPLETED:
        return "the run is COMPLETED"
    if is_forgotten(item):
        return NOW
    if item.back_off is not None and item.back_off.until > now and not item.done:
        attempt = failed_attempt(item) + 1 if item.back_off.look is None else item.retry + 1
        return f"it goes on by itself: attempt {attempt} comes at {moment(item.back_off.until, now)}"
    if may_be_parked(item, now):
        return None
    if item.own_failure is not None and item.status is not Status.FAILED:
        return "its failure is being taken back by the on_failed stage"
    is_undone = item.own_failure is not None and item.own_failure.undone
    if item.cancelled_because is not None and (item.own_failure is None or is_undone):
        return f"it was cancelled, which leaves no dead letter; {anew_by_hand(flow)}"
    if is_undone:
        why = again_refusal(item, flow)
        anew = f"'{again_command(item)}' begins the run anew" if why is None else why
        return f"its failure was taken back by the on_failed stage; {anew}"
    return None


def letter_refusal(letter: Letter, seen: SeenRun | None, now: int, asker: SeenRun | None = None) -> str | None:
    """Return why a letter is not sent back. None where it may be.

    ``seen`` is the run that it names, ``asker`` the one that has asked for that. ``flowguard dlq redrive`` decides
    alike, but that it sends the letter of a run that was cancelled: that ends again.
    """
    if letter.message is None:
        return f"it cannot be read: {letter.problem}"
    item = None if seen is None else seen.item
    stored: Collection[str] = () if seen is None else seen.stored
    fate, why = judge(letter, item, now=now, unsent="outbox" in stored, has_first=FIRST_MESSAGE in stored)
    if fate is not Fate.REDRIVEN:
        told = told_by_stage(letter, item, None if asker is None else asker.item, now=now)
        return why if told is None else None
    address = asker_of(letter)
    late = None if address is None or asker is None or has_callers(item) else not_awaited(address, asker.item)
    if late is not None:
        return f"{late}; 'flowguard dlq redrive' with its id sends it all the same"
    if item is not None and letter.is_parked and _was_cancelled(item, letter):
        return f"the run was cancelled; {anew_by_hand(letter.flow)}"
    return None


def _was_cancelled(item: RunItem, letter: Letter) -> bool:
    """Answer whether the item is of the letter's run, which a cancellation has ended."""
    is_own = letter.message is not None and item.request_id == letter.message.request_id
    return is_own and item.status is Status.FAILED and item.cancelled_because is not None

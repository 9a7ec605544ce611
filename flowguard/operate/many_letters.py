"""The letters of many runs in a queue of dead letters, each run's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from flowguard.aws.dead_letter_queue import Reading
from flowguard.aws.redriver import Outcome, Redriver
from flowguard.aws.run_reader import SeenRun
from flowguard.aws.sender import MOST_ENTRIES
from flowguard.flow import AnyFlow
from flowguard.operate.attempts import may_be_parked
from flowguard.operate.bulk import FAILED, LEFT, Chosen, End, Pace
from flowguard.operate.own_letters import refusal
from flowguard.protocol.run import Status
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redrive import Fate, Judgement

NO_LETTER: Final = "the queue shows no letter of it"


def can_be_retried(flow: AnyFlow, now: int) -> Callable[[SeenRun], bool]:
    """Return what answers whether a letter may move a run on. It has failed then, or is parked."""

    def fits(seen: SeenRun) -> bool:
        item = seen.item
        is_stopped = item.status is Status.FAILED or may_be_parked(item, now)
        return is_stopped and refusal(item, now, flow) is None

    return fits


def paced_pages(reading: Reading, pace: Pace) -> Iterator[list[Letter]]:
    """Yield the letters of a queue, each page when its letters may be sent back.

    Letters that are received and wait for their turn come into sight again, and another reader sends them too.
    """
    return reading.pages(min(MOST_ENTRIES, pace.at_once), lambda: pace.wait(0))


class ManyLetters:
    """Sends back the letters of runs, one page of the queue after the other.

    ``in_hand`` is how many may have been sent while their outcomes are not known yet.
    """

    def __init__(self, chosen: Sequence[Chosen], reading: Reading, redriver: Redriver, pace: Pace) -> None:
        self._runs = {(run.flow, run.object_id, str(run.request_id)): run for run in chosen}
        self._without = dict.fromkeys(chosen)
        self._open = set(chosen)
        self._reading = reading
        self._redriver = redriver
        self._pace = pace
        self.in_hand = 0

    def ends(self) -> Iterator[tuple[Chosen, End]]:
        """Yield the outcome for each letter, and LEFT for each run without one. Stop reading when all runs go on."""
        for page in paced_pages(self._reading, self._pace):
            wanted = [(run, letter) for letter in page if (run := self._run_of(letter)) is not None]
            self._pace.wait(len(wanted))
            self.in_hand = len(wanted)
            outcomes = self._redriver.redrive([letter for _, letter in wanted])
            for (run, _), outcome in zip(wanted, outcomes, strict=True):
                self.in_hand -= 1
                yield self._end(run, outcome)
            if not self._open:
                return
        yield from ((run, End(LEFT, NO_LETTER)) for run in self._without)

    def _run_of(self, letter: Letter) -> Chosen | None:
        """Return the run that the letter is of. None for others, and for messages that a run could not send."""
        m = letter.message
        if m is None or letter.unsent is not None:
            return None
        return self._runs.get((m.flow, m.object_id, str(m.request_id)))

    def _end(self, run: Chosen, outcome: Outcome) -> tuple[Chosen, End]:
        self._without.pop(run, None)
        match outcome:
            case Outcome(failed=None, judgement=Judgement(fate, why)):
                self._open -= {run} if fate is Fate.REDRIVEN else set()
                return run, End(fate.value, why)
            case _:
                return run, End(FAILED, str(outcome.failed))

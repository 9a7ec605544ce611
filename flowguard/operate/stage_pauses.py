"""Pause stages of a flow: Lambda polls their queues no more. Resume them, slowly where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from flowguard.aws.dead_letter_queue import Unusable, explained
from flowguard.aws.pause_rows import Pause, PauseRows
from flowguard.aws.queue_mappings import QueueMapping, QueueMappings
from flowguard.aws.sender import AWSSender
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import Names
from flowguard.stage import AnyStage

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients

LEAST_AT_ONCE: Final = 2
MOST_AT_ONCE: Final = 1_000


class Inbox(NamedTuple):
    """The queue of a stage, with what waits in it now, and how long SQS keeps each message."""

    queue: str
    arn: str
    messages: int
    kept_for: timedelta


class Paused(NamedTuple):
    """A stage with its pause. ``is_new`` where it was not paused before."""

    pause: Pause
    inbox: Inbox
    functions: list[str]
    is_new: bool


class Resumed(NamedTuple):
    """A stage that goes on. ``pause`` is what was said of its pause, None where it was not paused."""

    stage: str
    pause: Pause | None
    inbox: Inbox
    functions: list[str]


class StagePauses:
    """Pauses stages of one flow, and resumes them. Each call may be repeated: what is done already stays.

    ``queue_of`` tells the name in the code of the queue that a stage's function reads.
    """

    def __init__(
        self, flow: AnyFlow, queue_of: Callable[[AnyFlow, AnyStage], str], clients: Clients, table: str, names: Names
    ) -> None:
        self._flow = flow
        self._queue_of = queue_of
        self._clients = clients
        self._rows = PauseRows(clients.dynamodb, table)
        self._mappings = QueueMappings(clients.lambda_)
        self._sender = AWSSender(clients, names=names)

    def pause(self, stages: Sequence[AnyStage], why: str, now: int) -> Iterator[Paused]:
        """Pause stages, each by all mappings of its queue, and yield what was done.

        The row is written before a mapping is turned off, and says why. Raises
        :class:`flowguard.aws.dead_letter_queue.Unusable`.
        """
        for stage in stages:
            inbox, there = self._look(stage)
            if not there:
                fix = "is its function deployed, in this account and region?"
                raise Unusable(f"queue {inbox.queue!r}", "no event source mapping reads it, so nothing is paused", fix)
            with explained(f"stage {stage.name}"):
                before = {mapping.uuid: mapping.at_once for mapping in there if mapping.is_on}
                wanted = Pause(self._flow.name, stage.name, now, why, before)
                kept = self._rows.keep(wanted)
                for mapping in there:
                    if mapping.is_on:
                        self._mappings.turn_off(mapping)
                if kept.at_once is not None:  # it was being drained
                    self._rows.change(kept._replace(at_once=None))
            yield Paused(kept._replace(at_once=None), inbox, _functions(there), kept is wanted)

    def resume(self, stages: Sequence[AnyStage], at_once: int | None) -> Iterator[Resumed]:
        """Resume stages that are paused, and yield what was done.

        ``at_once`` is the largest number of batches at work, 2 to 1,000; the pause is remembered until the stage is
        resumed without it. That gives each mapping what it had before. Raises
        :class:`flowguard.aws.dead_letter_queue.Unusable`.
        """
        pauses = {pause.stage: pause for pause in self.now()}
        for stage in stages:
            inbox, there = self._look(stage)
            pause = pauses.get(stage.name)
            known = [mapping for mapping in there if pause is not None and mapping.uuid in pause.before]
            if pause is not None:
                with explained(f"stage {stage.name}"):
                    for mapping in known:
                        self._mappings.turn_on(mapping, pause.before[mapping.uuid] if at_once is None else at_once)
                    if at_once is None:
                        self._rows.remove(pause)
                    else:
                        self._rows.change(pause._replace(at_once=at_once))
            yield Resumed(stage.name, pause, inbox, _functions(known))

    def now(self) -> list[Pause]:
        """Return the paused stages of the flow. Raises :class:`flowguard.aws.dead_letter_queue.Unusable`."""
        with explained(f"pauses of {self._flow.name}"):
            return self._rows.of_flow(self._flow.name)

    def _look(self, stage: AnyStage) -> tuple[Inbox, list[QueueMapping]]:
        queue = self._queue_of(self._flow, stage)
        with explained(f"queue {queue!r}"):
            queue_facts = self._clients.sqs.get_queue_attributes(
                QueueUrl=self._sender.queue_url(queue),
                AttributeNames=["QueueArn", "ApproximateNumberOfMessages", "MessageRetentionPeriod"],
            )["Attributes"]
            mappings = self._mappings.of(queue_facts["QueueArn"])
        kept_for = timedelta(seconds=int(queue_facts["MessageRetentionPeriod"]))
        return Inbox(
            queue, queue_facts["QueueArn"], int(queue_facts["ApproximateNumberOfMessages"]), kept_for
        ), mappings


def _functions(mappings: Sequence[QueueMapping]) -> list[str]:
    return sorted({mapping.function for mapping in mappings})

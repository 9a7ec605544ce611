"""Pause stages of a flow: Lambda polls their queues no more. Resume them, slowly where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from flowguard.aws import botocore_errors
from flowguard.aws.dead_letter_queue import Unusable, explained
from flowguard.aws.faults import error_code
from flowguard.aws.pause_rows import UNBOUNDED, Pause, PauseRows
from flowguard.aws.queue_mappings import QueueMapping, QueueMappings
from flowguard.aws.sender import AWSSender
from flowguard.names.at_aws import Names

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients

MOST_AT_ONCE: Final = 1_000


class Inbox(NamedTuple):
    """The queue of a stage, with the event source mappings that read it. ``queue`` is its name at AWS.

    ``messages`` is about how many messages wait, ``kept_for`` is the queue's retention.
    """

    queue: str
    arn: str
    mappings: list[QueueMapping]
    messages: int
    kept_for: timedelta


class Paused(NamedTuple):
    """A stage with its pause. ``is_new`` where it was not paused before."""

    pause: Pause
    inbox: Inbox
    is_new: bool

    @property
    def functions(self) -> list[str]:
        """Return the functions that get nothing from the queue any more."""
        return sorted({mapping.function for mapping in self.inbox.mappings})


class Resumed(NamedTuple):
    """A stage that goes on. ``pause`` is what was said of its pause, ``mappings`` those that are on again.

    ``gone`` counts the mappings that were turned off and are not there any more.
    """

    pause: Pause
    mappings: list[QueueMapping]
    gone: int

    @property
    def functions(self) -> list[str]:
        """Return the functions that get messages again."""
        return sorted({mapping.function for mapping in self.mappings})


class StagePauses:
    """Pauses stages of one flow, and resumes them. Each call may be repeated: what is done already stays.

    ``nonce`` makes what tells two writes of a row apart.
    """

    def __init__(self, flow: str, clients: Clients, table: str, names: Names, nonce: Callable[[], str]) -> None:
        self._flow = flow
        self._clients = clients
        self._rows = PauseRows(clients.dynamodb, table)
        self._mappings = QueueMappings(clients.lambda_)
        self._sender = AWSSender(clients, names=names)
        self._names = names
        self._nonce = nonce
        self._inboxes: dict[str, Inbox] = {}

    def now(self) -> list[Pause]:
        """Return the paused stages of all flows. Raises :class:`flowguard.aws.dead_letter_queue.Unusable`."""
        with explained(f"table {self._rows.table}"):
            return [pause for pause in self._rows.all() if not pause.place]

    def pause(self, stage: str, queue: str, why: str, now: int) -> Paused:
        """Pause a stage by all mappings of its queue, given by its name in the code, its ARN or its URL.

        The row is written before a mapping is turned off, and says why. An earlier pause keeps its time and reason, and
        gets the mappings that are on. Raises :class:`flowguard.aws.dead_letter_queue.Unusable`.
        """
        inbox = self._inbox(queue)
        if not inbox.mappings:
            fix = "is its function deployed, in this account and region?"
            raise Unusable(f"queue {inbox.queue!r}", "no event source mapping reads it, so it is not paused", fix)
        pauses = self.now()
        there = self._of(stage, pauses)
        self._check_alone(inbox, pauses)
        on = {mapping.uuid: mapping.at_once for mapping in inbox.mappings if mapping.is_on}
        if there is None:
            wanted = Pause(self._flow, stage, inbox.arn, now, why, on, None, self._nonce())
        else:
            wanted = there._replace(before={**on, **there.before}, at_once=None, nonce=self._nonce())
        self._write(wanted, there)
        with self._explained(stage), self._without_row(wanted, is_new=there is None):
            for mapping in self._mappings.of(inbox.arn):
                if mapping.is_on:
                    is_drained = there is not None and there.at_once is not None
                    self._mappings.turn_off(mapping.uuid, wanted.before.get(mapping.uuid) if is_drained else None)
        if self._of(stage, self.now()) is None:  # somebody has resumed it meanwhile
            self._write(wanted, None)
        return Paused(wanted, inbox, there is None)

    def resume(self, pause: Pause, at_once: int | None) -> Resumed:
        """Resume a stage: turn on what its pause has turned off.

        ``at_once`` is the largest concurrency of each mapping for now, and no more than it had; the pause is remembered
        until the stage is resumed without it. The row says so before a mapping gets it, so that a resume without it
        gives each what it had, wherever this one was stopped. Raises
        :class:`flowguard.aws.dead_letter_queue.Unusable`.
        """
        mappings: list[QueueMapping] = []
        drained: Pause | None = None
        if at_once is not None:
            drained = pause._replace(at_once=at_once, nonce=self._nonce())
            self._write(drained, pause)
        with self._explained(pause.stage), self._restores_row(pause, drained):
            for uuid, before in pause.before.items():
                bound = before if pause.at_once is not None else None
                if at_once is not None:
                    bound = at_once if before == UNBOUNDED else min(at_once, before)
                if (mapping := self._mappings.turn_on(uuid, bound)) is not None:
                    mappings.append(mapping)
        if at_once is None:
            with self._explained(pause.stage):
                if not self._rows.remove(pause):
                    raise _changed(pause.stage)
        return Resumed(pause, mappings, len(pause.before) - len(mappings))

    def _of(self, stage: str, pauses: Sequence[Pause]) -> Pause | None:
        return next((pause for pause in pauses if (pause.flow, pause.stage) == (self._flow, stage)), None)

    def _check_alone(self, inbox: Inbox, pauses: Sequence[Pause]) -> None:
        """Refuse a queue that is paused for another flow: each of the two would turn on what the other has paused."""
        for other in pauses:
            if other.flow != self._flow and other.queue == inbox.arn:
                problem = f"it is paused already, for {other.stage} of {other.flow}: {other.why}"
                raise Unusable(f"queue {inbox.queue!r}", problem, "resume that before, or leave it paused")

    def _write(self, pause: Pause, before: Pause | None) -> None:
        with self._explained(pause.stage):
            if not self._rows.write(pause, before):
                raise _changed(pause.stage)

    @contextmanager
    def _without_row(self, pause: Pause, *, is_new: bool) -> Iterator[None]:
        """Remove the row of a pause that nothing came of."""
        try:
            yield
        except botocore_errors.ClientError:
            with suppress(Exception):  # who repeats the command finds it
                if is_new and all(mapping.is_on for mapping in self._mappings.of(pause.queue)):
                    self._rows.remove(pause)
            raise

    @contextmanager
    def _restores_row(self, pause: Pause, drained: Pause | None) -> Iterator[None]:
        """Restore the row if an error leaves all mappings off: one in provisioned mode takes no concurrency at all."""
        try:
            yield
        except Exception:
            with suppress(Exception):  # who repeats the command finds it
                if drained is not None and not any(mapping.is_on for mapping in self._mappings.of(pause.queue)):
                    self._rows.write(pause._replace(nonce=self._nonce()), drained)
            raise

    @contextmanager
    def _explained(self, stage: str) -> Iterator[None]:
        with explained(f"stage {stage}"):
            try:
                yield
            except botocore_errors.ClientError as error:
                if error_code(error) != "ResourceInUseException":
                    raise
                problem = "Lambda is still changing its event source mapping"
                raise Unusable(f"stage {stage}", problem, "repeat the command in a minute") from error

    def _inbox(self, queue: str) -> Inbox:
        """Look at a queue once, before any stage of it is paused. Each environment has another one of that name."""
        if queue not in self._inboxes:
            at_aws = self._names.queue(queue)
            with explained(f"queue {at_aws!r}"):
                facts = self._clients.sqs.get_queue_attributes(
                    QueueUrl=self._sender.queue_url(queue),
                    AttributeNames=["QueueArn", "ApproximateNumberOfMessages", "MessageRetentionPeriod"],
                )["Attributes"]
                mappings = self._mappings.of(facts["QueueArn"])
            kept_for = timedelta(seconds=int(facts["MessageRetentionPeriod"]))
            messages = int(facts["ApproximateNumberOfMessages"])
            self._inboxes[queue] = Inbox(at_aws, facts["QueueArn"], mappings, messages, kept_for)
        return self._inboxes[queue]


def _changed(stage: str) -> Unusable:
    fix = "look with 'flowguard stats', and repeat the command"
    return Unusable(f"stage {stage}", "somebody else paused or resumed it at the same time", fix)

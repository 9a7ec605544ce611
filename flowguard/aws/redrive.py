"""Sends dead letters back to their stages, and says of each what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flowguard.aws.dead_letters import Reading, Unusable, explained
from flowguard.aws.items import read_item, run_key
from flowguard.aws.sender import AWSSender
from flowguard.clock import Clock, SystemClock
from flowguard.dead_letters import Letter
from flowguard.destinations import Queue
from flowguard.errors import FlowguardError
from flowguard.outbox import Kind, Send
from flowguard.ports import Refusal
from flowguard.redrive import Fate, Judgement, judge

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients


@dataclass(frozen=True)
class Outcome:
    """What became of one letter. ``failed`` is why it is not as its judgement says; it still lies in the queue then."""

    letter: Letter
    judgement: Judgement | None
    to: str | None = None
    failed: str | None = None
    deleted: bool = False


class Redriver:
    """Sends letters back: judged by one read of the run item each, sent in batches, deleted only after that.

    ``to`` is the queue for all of them; without it each goes to its stage's: by its flow's class, or the queue it came
    through. ``drop_obsolete`` deletes those that the judgement does not send.
    """

    def __init__(
        self,
        clients: Clients,
        table: str,
        reading: Reading,
        *,
        to: str | None = None,
        drop_obsolete: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._clients = clients
        self._table = table
        self._reading = reading
        self._to = to
        self._drop_obsolete = drop_obsolete
        self._clock = clock if clock is not None else SystemClock()
        self._sender = AWSSender(clients)
        self._homes: dict[str, str] = {}
        if to is not None:
            with explained(f"queue {to!r}"):
                url = self._sender.queue_url(to)
            if url == reading.queue.url:
                raise Unusable(f"queue {to!r}", "is the queue of dead letters itself", "name the stage's queue")

    def redrive(self, letters: Sequence[Letter]) -> list[Outcome]:
        """One page. Send first, delete after: whoever is stopped between the two leaves a copy, and loses nothing."""
        judged = [self._judged(letter) for letter in letters]
        sends: dict[int, Send] = {}
        for place, outcome in enumerate(judged):
            if outcome.judgement is not None and outcome.judgement.fate is Fate.REDRIVEN:
                try:
                    sends[place] = self._send(outcome.letter)
                except (FlowguardError, ValueError) as error:
                    judged[place] = replace(outcome, failed=str(error))
        refused = self._sender.send(list(sends.values()))
        for i, (place, send) in enumerate(sends.items()):
            judged[place] = replace(judged[place], to=str(getattr(send.to, "name", "")), failed=_why(refused.get(i)))
        return self._deleted(judged)

    def _judged(self, letter: Letter) -> Outcome:
        if letter.message is None:
            return Outcome(letter, None, failed=f"it cannot be read: {letter.problem}")
        found = self._item(letter)
        item = read_item(found) if found else None
        unsent = bool(found) and "outbox" in found
        return Outcome(letter, judge(letter, item, now=self._clock.now(), unsent=unsent))

    def _item(self, letter: Letter) -> Any:
        message = letter.message
        if message is None or not message.flow or not message.object_id:
            return None
        with explained(f"table {self._table!r}"):
            return self._clients.dynamodb.get_item(
                TableName=self._table, Key=run_key(message.flow, message.object_id), ConsistentRead=True
            ).get("Item")

    def _send(self, letter: Letter) -> Send:
        m = letter.returning()
        body, attributes = letter.resent()
        return Send(
            Kind.SIDE,
            Queue(self._home(letter)),
            body,
            f"{m.request_id}.{m.hop}.{m.redrive}.redrive",
            attributes,
            group=letter.group_id or m.object_id or m.request_id,
        )

    def _home(self, letter: Letter) -> str:
        if self._to is not None:
            return self._to
        if letter.flow is not None and letter.message is not None:
            inbox = letter.flow.inbox_of(letter.flow.stage(letter.message.stage))
            if isinstance(inbox, Queue):
                return inbox.name
            raise ValueError(f"its stage is sent to through {inbox}; name the queue behind that with --to")
        arn = letter.home_arn or (None if letter.is_parked else self._reading.queue.arn)
        if arn is None:
            raise ValueError("it does not say which queue it came through; give --to or --flow-class")
        if arn not in self._homes:
            self._homes[arn] = self._source_of(arn)
        return self._homes[arn]

    def _source_of(self, arn: str) -> str:
        """The queue itself; of a dead-letter queue the one queue whose it is, or the letter would only die again."""
        with explained(f"queue {arn}"):
            url = self._sender.queue_url(arn)
            sources = self._clients.sqs.list_dead_letter_source_queues(QueueUrl=url)["queueUrls"]
        if len(sources) > 1:
            raise ValueError(f"it came through {arn}, a dead-letter queue of several; give --to or --flow-class")
        if not sources and arn == self._reading.queue.arn:
            raise ValueError("it does not say which queue it came through; give --to or --flow-class")
        return sources[0] if sources else arn

    def _deleted(self, outcomes: list[Outcome]) -> list[Outcome]:
        done = [outcome.letter for outcome in outcomes if self._is_finished(outcome)]
        left = self._reading.delete(done)
        gone = {letter.message_id for letter in done} - left.keys()
        return [
            replace(outcome, deleted=True)
            if (name := outcome.letter.message_id) in gone
            else replace(outcome, failed=f"it could not be deleted: {left[name]}")
            if name in left
            else outcome
            for outcome in outcomes
        ]

    def _is_finished(self, outcome: Outcome) -> bool:
        if outcome.judgement is None or outcome.failed is not None:
            return False
        return self._drop_obsolete or outcome.judgement.fate is Fate.REDRIVEN


def _why(refusal: Refusal | None) -> str | None:
    return None if refusal is None else refusal.why

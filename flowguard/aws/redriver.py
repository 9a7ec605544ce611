"""Redriving dead letters to their stages, with an outcome for each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws.commit_texts import FIRST_MESSAGE
from flowguard.aws.dead_letter_queue import Reading, Unusable, explained
from flowguard.aws.items import run_key
from flowguard.aws.run_reader import UnreadableRun, readable
from flowguard.aws.sender import AWSSender
from flowguard.aws.wait_calls import read_run
from flowguard.clock import Clock, SystemClock
from flowguard.destinations import Destination, Queue
from flowguard.errors import FlowguardError, shown
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import AS_IN_CODE, Names, is_foreign
from flowguard.names.ids import ObjectId
from flowguard.protocol.group_cancel import CANCEL_GROUP
from flowguard.protocol.groups import GROUP
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import RunItem
from flowguard.protocol.run_orders import ANSWER
from flowguard.protocol.waiting import DEADLINE
from flowguard.text.printable import LONGEST_PART, bounded
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.home import Home, is_local
from flowguard.wire.message import Message
from flowguard.wire.signing import UNSIGNED, Signer
from flowguard.worker.dead_letters import Letter
from flowguard.worker.ports import Refusal
from flowguard.worker.redrive import (
    Fate,
    Judgement,
    asker_of,
    has_callers,
    judge,
    lost_answer,
    not_awaited,
    told_by_stage,
)
from flowguard.worker.redriven_messages import check_returnable, sent_back
from flowguard.worker.undeliverable import Undeliverable

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients

_UNDELETED: Final = {True: "it was sent, and could not be deleted", False: "it could not be deleted"}

_OF_WAITS: Final = frozenset({ANSWER, DEADLINE, GROUP, CANCEL_GROUP})
"""The keys of the place of what a run waits for."""

_CURE: Final = "give --to or --flow-class"
_BY_NAME: Final = "once it can be read, 'flowguard dlq redrive' with the letter's id or with --unreadable sends it"
_UNREADABLE: Final = (
    "its stage cannot read it: {why}; once it can, 'flowguard dlq redrive' with its id or with --unreadable sends it"
)
_UNAWAITED: Final = (
    "what it does would be for nobody; 'flowguard dlq redrive' with its id or with --unawaited sends it all the same"
)
_ARRIVED: Final = "it arrived after this redrive began, and was left; if it has failed again, mend its cause first"


@dataclass(frozen=True)
class Outcome:
    """The outcome for one letter. ``failed`` says why its judgement was not followed; it is still in the queue then.

    It may have been ``sent`` all the same, where only its deletion has failed.
    """

    letter: Letter
    judgement: Judgement | None
    to: str | None = None
    failed: str | None = None
    deleted: bool = False
    sent: bool = False


class Redriver:
    """Sends letters back to their stages.

    Each letter is judged by one read of its run item, and of one that another flow has asked for by a read of the
    asker's. It is sent in a batch, and deleted only after that.

    ``to`` is the queue for all of them. Without it each goes to its stage's queue, known by its flow's class or by the
    queue it came through, and an unsent message to its destination. What a letter itself says of that counts only
    within the account and region of its queue, unless ``elsewhere`` allows another for unsent messages.
    ``drop_obsolete`` deletes those that the judgement does not send, as nobody waits for them. ``unreadable`` also
    sends those that their stage cannot read, ``unawaited`` those whose end no run waits for any more.
    """

    def __init__(  # noqa: PLR0913 - everything but the first three has a default
        self,
        clients: Clients,
        table: str,
        reading: Reading,
        *,
        to: str | None = None,
        drop_obsolete: bool = False,
        elsewhere: bool = False,
        unreadable: bool = False,
        unawaited: bool = False,
        clock: Clock | None = None,
        signer: Signer = UNSIGNED,
        names: Names = AS_IN_CODE,
    ) -> None:
        self._clients = clients
        self._table = table
        self._reading = reading
        self._to = to
        self._drop_obsolete = drop_obsolete
        self._elsewhere = elsewhere
        self._unreadable = unreadable
        self._unawaited = unawaited
        self._clock = clock if clock is not None else SystemClock()
        self._signer = signer
        self._sender = AWSSender(clients, names=names)
        self._names = names
        self._homes: dict[str, str] = {}
        if to is not None:
            self._to = names.queue_in_code(to)
            with explained(f"queue {to!r}"):
                url = self._sender.queue_url(self._to)
            if url == reading.queue.url:
                raise Unusable(f"queue {to!r}", "is the queue of dead letters itself", "name the stage's queue")

    def redrive(self, letters: Sequence[Letter]) -> list[Outcome]:
        """Redrive one page of letters.

        Each is sent first and deleted after that. So a stop between the two leaves a copy, and loses nothing. A letter
        that arrived since the queue was looked up stays: what fails again at once would be redriven without end.
        """
        judged = [self._judged(letter) for letter in letters]
        sends: dict[int, Send] = {}
        for place, outcome in enumerate(judged):
            if outcome.judgement is not None and outcome.judgement.fate is Fate.REDRIVEN:
                try:
                    sends[place] = self._returned(outcome.letter)
                except (FlowguardError, ValueError) as error:
                    judged[place] = replace(outcome, failed=str(error))
        refused = self._sender.send(list(sends.values()))
        for i, (place, send) in enumerate(sends.items()):
            why = _why(refused.get(i))
            judged[place] = replace(judged[place], to=_name(send.to), failed=why, sent=why is None)
        return self._deleted(judged)

    def _judged(self, letter: Letter) -> Outcome:
        if not self._reading.queue.contained(letter):
            return Outcome(letter, None, failed=_ARRIVED)
        if (message := letter.message) is None:
            return Outcome(letter, None, failed=f"it cannot be read: {letter.problem}")
        if not self._unreadable and (unread := letter.unread_because) is not None:
            return Outcome(letter, None, failed=_UNREADABLE.format(why=unread))
        if letter.unsent is not None:
            judgement = judge(letter, None, now=self._clock.now())
            return Outcome(letter, judgement if self._to is None else judgement._replace(why="sent to where --to says"))
        try:
            return self._by_runs(letter, message)
        except UnreadableRun as error:
            return Outcome(letter, None, failed=str(error))

    def _by_runs(self, letter: Letter, message: Message) -> Outcome:
        """Decide the fate of a letter by the item of its run, and by that of the run that has asked for it.

        Raises :class:`UnreadableRun` where this version cannot read one of them.
        """
        stored = self._item(message.flow, message.object_id)
        item, kept = _run(message.flow, message.object_id, stored), stored or {}
        about = {"unsent": "outbox" in kept, "has_first": FIRST_MESSAGE in kept}
        if not self._unreadable and (lost := lost_answer(letter, item, now=self._clock.now())) is not None:
            return Outcome(letter, None, failed=f"{lost}; {_BY_NAME}")
        judgement = judge(letter, item, now=self._clock.now(), **about)
        return Outcome(letter, self._if_awaited(letter, judgement, item))

    def _if_awaited(self, letter: Letter, judgement: Judgement, item: RunItem | None) -> Judgement:
        """Look whether the flow that asked for the letter's run still waits for it, or another caller does.

        Where no run takes the letter, it is sent if its stage tells that to those who wait.
        """
        asker = asker_of(letter)
        if judgement.fate in _OBSOLETE:
            asking = None if asker is None else self._asking(asker)
            told = told_by_stage(letter, item, asking, now=self._clock.now())
            return judgement if told is None else Judgement(Fate.REDRIVEN, f"{judgement.why}; {told}")
        if asker is None or has_callers(item) or judgement.fate is not Fate.REDRIVEN:
            return judgement
        late = not_awaited(asker, self._asking(asker))
        if late is None:
            return judgement
        if self._unawaited:
            return Judgement(Fate.REDRIVEN, f"{judgement.why}; {late}")
        return Judgement(Fate.NOT_AWAITED, f"{late}; {_UNAWAITED}")

    def _asking(self, asker: AnswerAddress) -> RunItem | None:
        return _run(asker.flow, asker.object_id, self._item(asker.flow, asker.object_id))

    def _item(self, flow: str, object_id: ObjectId) -> Any:
        if not flow or not object_id:
            return None
        with explained(f"table {self._table!r}"):
            return self._clients.dynamodb.get_item(
                TableName=self._table, Key=run_key(flow, object_id), ConsistentRead=True
            ).get("Item")

    def _returned(self, letter: Letter) -> Send:
        """Return the message as which the letter is sent back. Nothing is looked up for one that may not go back."""
        check_returnable(letter, self._signer)
        to = Queue(self._home(letter)) if letter.unsent is None else self._destination(letter.unsent)
        return sent_back(letter, to, self._signer)

    def _destination(self, unsent: Undeliverable) -> Destination:
        if self._to is not None:
            return Queue(self._to)
        if not self._elsewhere:
            self._check_reach(unsent.to, "give --to, or --elsewhere if it is right")
        self._check_other(unsent.to)
        return unsent.to

    def _home(self, letter: Letter) -> str:
        if self._to is not None:
            return self._to
        if self._reading.flow is not None:
            return self._inbox(letter, self._reading.flow)
        if letter.is_parked and letter.bound_for is not None:
            return self._bound(letter.bound_for)
        arn = letter.home_arn or (None if letter.is_parked else self._reading.queue.arn)
        if arn is None:
            raise ValueError(f"it does not say which queue it came through; {_CURE}")
        self._check_reach(Queue(arn), _CURE)
        if letter.is_parked and is_foreign(self._names.queue_of_arn(arn)):
            raise ValueError(f"it came through {arn}, which is no queue of FLOWGUARD_NAMES={self._names}; {_CURE}")
        if arn not in self._homes:
            self._homes[arn] = self._source_of(arn)
        return self._homes[arn]

    def _inbox(self, letter: Letter, flow: AnyFlow) -> str:
        """Return the inbox of the letter's stage, read from the flow's class and not from the letter.

        An answer, a deadline or a message of a group goes to the flow's queue of answers: elsewhere it is not believed.

        Raises ValueError for a letter of another flow, and for an inbox that is no queue.
        """
        message = letter.returning()
        if letter.flow is None:
            raise ValueError(
                f"it is of flow {shown(message.flow)}, and --flow-class is {flow.name!r}; redrive it with the class of "
                f"its own flow, or give --to"
            )
        is_of_waits = _OF_WAITS.intersection(json.loads(letter.place_text))
        inbox = flow.answers if is_of_waits else flow.inbox_of(flow.stage(message.stage), letter.carried)
        if isinstance(inbox, Queue):
            return inbox.name
        raise ValueError(f"it goes through {inbox}; name the queue behind that with --to")

    def _bound(self, to: Destination) -> str:
        """Return the inbox that refused the message of a next hop. Raises ValueError where that is no queue."""
        self._check_reach(to, _CURE)
        self._check_other(to)
        if isinstance(to, Queue):
            return to.name
        raise ValueError(f"it was to go through {to}; name the queue behind that with --to")

    def _check_reach(self, to: Destination, fix: str) -> None:
        """Raise ValueError for a destination of the letter's own choice in another account or region."""
        queue = self._reading.queue
        if not is_local(to, Home.of(queue.arn), beside=queue.url):
            named = bounded(str(to), LONGEST_PART)
            raise ValueError(f"it names {named}, which is not in the account and region of {queue.arn}; {fix}")

    def _check_other(self, to: Destination) -> None:
        """Raise ValueError for the queue of dead letters itself. Raises :class:`Unusable` where none can be found."""
        if not isinstance(to, Queue):
            return
        with explained(f"queue {bounded(repr(to.name), LONGEST_PART)}"):
            url = self._sender.queue_url(to.name)
        if url == self._reading.queue.url:
            raise ValueError("it names the queue of dead letters itself; give --to")

    def _source_of(self, arn: str) -> str:
        """Return the queue itself, or of a dead-letter queue its one source.

        A letter sent to a dead-letter queue would only die again. Raises ValueError where there are several sources, or
        none for the queue that is read.
        """
        with explained(f"queue {arn}"):
            url = self._sender.queue_url(arn)
            sources = self._clients.sqs.list_dead_letter_source_queues(QueueUrl=url)["queueUrls"]
        if len(sources) > 1:
            raise ValueError(f"it came through {arn}, a dead-letter queue of several; {_CURE}")
        if not sources and arn == self._reading.queue.arn:
            raise ValueError(f"it does not say which queue it came through; {_CURE}")
        return sources[0] if sources else arn

    def _deleted(self, outcomes: list[Outcome]) -> list[Outcome]:
        done = [outcome.letter for outcome in outcomes if self._is_finished(outcome)]
        left = self._reading.delete(done)
        gone = {letter.message_id for letter in done} - left.keys()
        return [
            replace(outcome, deleted=True)
            if (name := outcome.letter.message_id) in gone
            else replace(outcome, failed=f"{_UNDELETED[outcome.sent]}: {left[name]}")
            if name in left
            else outcome
            for outcome in outcomes
        ]

    def _is_finished(self, outcome: Outcome) -> bool:
        match outcome:
            case Outcome(judgement=Judgement(fate), failed=None):
                return fate is Fate.REDRIVEN or (self._drop_obsolete and fate in _OBSOLETE)
            case _:
                return False


_OBSOLETE: Final = frozenset({Fate.SUPERSEDED, Fate.COMPLETED, Fate.EXPIRED})
"""Letters that nobody needs any more. One that is GIVEN_UP is kept: ``retry --again`` needs its payload."""


def _run(flow: str, object_id: ObjectId, stored: Any) -> RunItem | None:
    with readable(flow, object_id):
        return read_run(stored)


def _why(refusal: Refusal | None) -> str | None:
    return None if refusal is None else refusal.why


def _name(to: Destination) -> str:
    """Return a queue's name, URL or ARN as it was given. Of another destination that is its text."""
    return to.name if isinstance(to, Queue) else str(to)

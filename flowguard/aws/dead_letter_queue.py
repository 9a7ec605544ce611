"""A queue of dead letters that is read page by page.

Its letters are given back untouched, or deleted. SQS shows messages only to those who receive them. So a reader holds
them for a while, hides them from others and adds one to their receive count; :class:`Reading` ends that as soon as it
can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from flowguard.aws import botocore_errors
from flowguard.aws.clients import NoRegion
from flowguard.aws.faults import STRANGERS, error_code
from flowguard.aws.sender import MOST_ENTRIES, AWSSender
from flowguard.clock import Clock, SystemClock
from flowguard.errors import FlowguardError
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.worker.dead_letters import Letter

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients


class Unusable(FlowguardError):
    """A queue, table or account cannot be used as asked. Says ``what``, the ``problem`` and its likely ``fix``."""

    def __init__(self, what: str, problem: str, fix: str = "") -> None:
        super().__init__(what, problem, fix)
        self.what = what
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}" + (f"; {self.fix}" if self.fix else "")


@dataclass(frozen=True)
class DeadLetterQueue:
    """A queue of dead letters. ``count`` is SQS's estimate of how many it shows.

    ``looked_up_at`` is when, in ms of SQS's own clock: what was sent later was not there yet. ``hidden`` is SQS's
    estimate of how many it shows to nobody: another reader holds them, or they are delayed.
    """

    name: str
    url: str
    arn: str
    count: int
    looked_up_at: int
    hidden: int = 0

    @property
    def is_fifo(self) -> bool:
        return self.arn.endswith(".fifo")

    def contained(self, letter: Letter) -> bool:
        """Answer whether the letter was there when the queue was looked up."""
        return letter.sent_at <= self.looked_up_at

    @classmethod
    def find(
        cls, clients: Clients, name: str, clock: Clock | None = None, *, names: Names = AS_IN_CODE
    ) -> DeadLetterQueue:
        """Look up a queue by its URL, ARN or name. Raises :class:`Unusable`.

        The name may be the one in the code or the one at AWS.
        """
        with explained(f"queue {name!r}"):
            url = AWSSender(clients, names=names).queue_url(names.queue_in_code(name))
            answer = clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn", _SHOWN, *_HIDDEN])
        attributes: Mapping[Any, str] = answer["Attributes"]
        now = _now_at_sqs(answer, (clock if clock is not None else SystemClock()).now())
        hidden = sum(int(attributes.get(number, 0)) for number in _HIDDEN)
        return cls(name, url, attributes["QueueArn"], int(attributes[_SHOWN]), now, hidden)


class Reading:
    """One pass over the queue. When the block ends, every letter that was not deleted is visible again.

    ``visibility`` seconds is how long a letter stays hidden if this process dies; ``wait`` seconds is how long the
    queue must give nothing to count as empty (with 0, SQS asks only some of its servers).

    ``doubts`` says, once the queue has given nothing more, why there may be letters that it has not shown. Without any
    it has shown all that were there when it was looked up, as far as SQS can say. ``full_groups`` says that a group of
    a FIFO queue may have more, though SQS may have counted none.
    """

    def __init__(
        self,
        clients: Clients,
        queue: DeadLetterQueue,
        *,
        flow: AnyFlow | None = None,
        visibility: int = 300,
        wait: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self.queue = queue
        self.flow = flow
        self.doubts: list[str] = []
        self.full_groups: list[str] = []
        self._sqs = clients.sqs
        self._visibility = visibility
        self._wait = wait
        self._clock = clock if clock is not None else SystemClock()
        self._receipts: dict[str, str] = {}
        self._seen: set[str] = set()
        self._were_there: set[str] = set()
        self._deleted: set[str] = set()
        self._of_full_groups: set[str] = set()
        self._most = MOST_ENTRIES
        self._not_given_back: list[str] = []
        self._cannot_delete: Unusable | None = None

    @property
    def warnings(self) -> list[str]:
        """Return every warning of the reading."""
        return [*self.doubts, *self.full_groups, *self._not_given_back]

    @property
    def fell_short(self) -> bool:
        """Answer whether a command that is about all letters has failed. A full group alone does not say so."""
        return bool(self.doubts or self._not_given_back)

    @property
    def unseen(self) -> int:
        """Return about how many letters it has not shown, of those that were there when it was looked up."""
        return max(0, self.queue.count + self.queue.hidden - len(self._were_there))

    @property
    def rest(self) -> DeadLetterQueue:
        """Return the queue as this has left it, for the next reading. SQS's numbers take a minute to follow."""
        count = max(self.queue.count, len(self._were_there)) - len(self._were_there & self._deleted)
        return replace(self.queue, count=count)

    def looked_up_again(self, queue: DeadLetterQueue) -> DeadLetterQueue:
        """Return the queue, which was looked up once more after this had given its letters back.

        They may still count as hidden. So only what is more than these, or was hidden before, is held by others.
        """
        return replace(queue, hidden=max(self.queue.hidden, queue.hidden - len(self._seen)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    def pages(self, most: int = MOST_ENTRIES, ready: Callable[[], None] = lambda: None) -> Iterator[list[Letter]]:
        """Yield up to ten letters at a time, or ``most``, each letter once.

        ``ready`` is called before each page is received: who has to wait does so while nobody's letters are hidden.
        Those of a FIFO group come only after the ones before are deleted; once they are, they can be asked for again.
        Raises :class:`Unusable`, also after a page whose letters could not be deleted for an error of the call.
        """
        is_early, self._cannot_delete = False, None
        self.doubts, self.full_groups, self._most = [], [], most
        while received := self._receive(most, ready):
            new = [message for message in received if message["MessageId"] not in self._seen]
            self._receipts.update({message["MessageId"]: message["ReceiptHandle"] for message in received})
            self._seen.update(message["MessageId"] for message in new)
            self._note_group(received)
            if is_early := not new:
                break
            letters = [Letter.read(message, now=self._clock.now(), flow=self.flow) for message in new]
            self._were_there |= {each.message_id for each in letters if self.queue.contained(each)}
            yield letters
            if self._cannot_delete is not None:
                raise self._cannot_delete
        self.doubts = [*self._doubts(is_early=is_early)]
        self.full_groups = [*self._full_groups()]

    def delete(self, letters: Sequence[Letter]) -> Mapping[str, str]:
        """Delete letters. Answers why, by message id, for those that could not be deleted.

        An error of the call is the reason for all that are left. What was done with them can be printed then: the error
        is raised where the next page would be read.
        """
        failures: dict[str, str] = {}
        names = [letter.message_id for letter in letters]
        for batch in _tens(names):
            entries: Any = [{"Id": str(i), "ReceiptHandle": self._receipts[name]} for i, name in enumerate(batch)]
            try:
                with explained(f"queue {self.queue.name!r}"):
                    answer = self._sqs.delete_message_batch(QueueUrl=self.queue.url, Entries=entries)
            except Unusable as error:
                self._cannot_delete = error
                return failures | dict.fromkeys(names[names.index(batch[0]) :], str(error))
            refused = {batch[int(e["Id"])]: f"{e['Code']}: {e.get('Message', '')}" for e in answer.get("Failed", [])}
            failures.update(refused)
            for name in batch:
                if name not in refused:
                    del self._receipts[name]
                    self._deleted.add(name)
        return failures

    def _note_group(self, received: Sequence[Any]) -> None:
        """Note the letters of a FIFO group that has brought as many as were asked for: it may have more."""
        groups = {message.get("Attributes", {}).get("MessageGroupId") for message in received}
        if self.queue.is_fifo and len(received) >= self._most and len(groups) == 1:
            self._of_full_groups |= {message["MessageId"] for message in received}

    def _doubts(self, *, is_early: bool) -> Iterator[str]:
        """Yield why the queue may have letters that it has not shown.

        SQS's numbers are estimates. They may raise a doubt, and settle none.
        """
        if is_early:
            yield f"stopped early: letters came round again after {self._visibility} s; give a longer --visibility"
        if self.queue.hidden:
            yield (
                f"letters that were hidden when this began, as those that another reader holds: about "
                f"{self.queue.hidden:,}; repeat this when they are visible again"
            )
        if (missing := self.queue.count - len(self._were_there)) > 0:
            yield (
                f"letters that SQS counted at the beginning and did not show: about {missing:,}; repeat this in a "
                f"minute"
            )
        if len(self._receipts) >= MOST_IN_FLIGHT - _NEARLY:
            yield f"SQS shows no more than about {MOST_IN_FLIGHT:,} letters at once; send back or drop some"

    def _full_groups(self) -> Iterator[str]:
        """Yield that a group may have more letters, which come after those that are left of it.

        With a small number it is so for each group. SQS's count says whether there are more.
        """
        if self._of_full_groups & self._receipts.keys():
            yield (
                f"a group of this FIFO queue has shown as many letters as were asked for at once ({self._most}); if it "
                f"has more, they come when those are sent back or dropped"
            )

    def _receive(self, most: int, ready: Callable[[], None]) -> Any:
        ready()
        with explained(f"queue {self.queue.name!r}"):
            return self._sqs.receive_message(
                QueueUrl=self.queue.url,
                MaxNumberOfMessages=most,
                VisibilityTimeout=self._visibility,
                WaitTimeSeconds=self._wait,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["All"],
            ).get("Messages")

    def _give_back(self) -> None:
        """Make every letter that was not deleted visible again.

        A letter that cannot be given back comes back by itself, so that is a warning and hides no other error.
        """
        for batch in _tens(list(self._receipts.values())):
            entries: Any = [
                {"Id": str(i), "ReceiptHandle": receipt, "VisibilityTimeout": 0} for i, receipt in enumerate(batch)
            ]
            try:
                self._sqs.change_message_visibility_batch(QueueUrl=self.queue.url, Entries=entries)
            except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
                self._not_given_back.append(f"letters stay hidden for up to {self._visibility} s: {error}")
        self._receipts.clear()


@contextmanager
def explained(subject: str) -> Iterator[None]:
    """Raise AWS's errors as :class:`Unusable` with what to put right."""
    try:
        yield
    except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
        raise Unusable(subject, *_explanation(error)) from error
    except NoRegion as error:
        raise Unusable(subject, *_NO_REGION) from error


def spares_none(error: Unusable) -> bool:
    """Answer whether every other call would fail as well.

    So it is for credentials, for a right, for a table or queue that is not there, and for the network.
    """
    cause = error.__cause__
    if isinstance(cause, botocore_errors.ClientError):
        return error_code(cause) in STRANGERS | _DENIED | _MISSING.keys()
    return isinstance(cause, botocore_errors.BotoCoreError | NoRegion)


_SHOWN: Final = "ApproximateNumberOfMessages"
_HIDDEN: Final = ("ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")

MOST_IN_FLIGHT: Final = 120_000
"""Letters that SQS shows about at most, until some are deleted or given back."""

_NEARLY: Final = 10_000
"""How far below that it may already end."""

_CLOCKS_AGREE: Final = 2_000
"""How many ms this machine's clock may differ from a time in whole seconds and still be right."""

_NO_QUEUE: Final = "check its name, the region and the account; its ARN or URL names all three"
_MISSING: Final = {
    "AWS.SimpleQueueService.NonExistentQueue": _NO_QUEUE,
    "QueueDoesNotExist": _NO_QUEUE,
    "ResourceNotFoundException": "name the flows' table with --table or FLOWGUARD_TABLE, and check the region",
    "NoSuchBucket": "set FLOWGUARD_BUCKET as the functions have it, and check the region and the account",
}
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "AuthorizationError", "KMS.AccessDeniedException"})

_NO_REGION: Final = ("no region is known", "give --region, or set AWS_DEFAULT_REGION")


def _explanation(error: botocore_errors.ClientError | botocore_errors.BotoCoreError) -> tuple[str, str]:
    if not isinstance(error, botocore_errors.ClientError):
        match type(error).__name__:
            case "NoRegionError":
                return _NO_REGION
            case "NoCredentialsError":
                return "there are no credentials", "sign in, or choose a profile with AWS_PROFILE"
            case _:
                return str(error).rstrip("."), "is --endpoint-url right, and can it be reached?"
    code, text = error_code(error), str(error.response.get("Error", {}).get("Message", ""))
    if code in _MISSING:
        return "does not exist", _MISSING[code]
    if code in _DENIED:
        return f"{error.operation_name} is denied ({text})", f"allow it to whoever runs this: {error.operation_name}"
    if code in STRANGERS:
        return f"the credentials are not accepted ({code})", "sign in again, and check this machine's clock"
    return f"{code}: {text}", ""


def _now_at_sqs(answer: Any, here: int) -> int:
    """Return the time of SQS's clock in ms, by an answer's ``Date``.

    That names whole seconds. So this machine's clock counts where it is right, and where SQS names no time.
    """
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    try:
        there = int(parsedate_to_datetime(headers["date"]).timestamp() * 1000)
    except (KeyError, ValueError):
        return here
    return here if abs(here - there) <= _CLOCKS_AGREE else there + 999


def _tens(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), MOST_ENTRIES):
        yield names[start : start + MOST_ENTRIES]

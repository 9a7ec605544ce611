"""A schedule: what goes wrong and when. Its short id, such as ``d3.l7``, says it all.

A number counts the AWS calls of the whole run from 1, in the order in which they are made; with ``x``, ``o``, ``i`` and
``c`` it counts deliveries, with ``r`` dead letters, with ``n`` what is awaited from parties outside. Calls that only
look a name up, such as ``GetQueueUrl``, are not counted: whether they are made depends on how warm a function is.

========  ====================================================================================================
``d3``    the worker dies before call 3
``a3``    the worker dies after call 3: applied, and nobody has read the answer. ``a3-1``, ``d3-1``: it was the
          record's last receive, and SQS moves it to its dead-letter queue
``e3``    call 3 is answered with a server error, and not applied
``t3``    call 3 is throttled, and not applied
``l3``    the answer to call 3 is lost; botocore makes the call once more. ``l3-1``: a transaction, whose
          token DynamoDB does not know any more
``u3``    call 3 is applied, and its answer never comes: boto3 raises a time-out
``p3-1``  of the batch that call 3 sends entry 1 is refused. ``p3-11``: all but entry 1
``s3``    call 3 reads with eventual consistency, and what was written last is not there yet
``v3``    before call 3 the record is visible too early: a second worker gets it while the first is held up
``z3``    before call 3 the worker is held up until its record's visibility timeout is over and a second worker
          that gets it then has ended; then it goes on. ``z3-4``: until others have made 4 calls
``x2``    delivery 2 happens twice. ``x2-1``: the second time an hour later. ``x2-2``: as late as queues still keep
          the record, the flow's ``retention`` after it was sent
``o2-1``  at delivery 2 the first of the others that wait goes before
``n2``    answer 2 of a party outside never comes. ``n2-1``: it comes an hour after the deadline. ``n2-2``: at the very
          moment of the deadline
``i2``    before delivery 2 somebody who has no signing key sends forged records of each run that waits, to all queues
``r1``    when all is at rest the first dead letter is sent back. ``r1-1``: twice
``f3``    from call 3 on what it needs is refused for good: the queue, topic, bus or function that it sends to is gone
          (``f3-1``: it denies access), the run table denies access (``f3-1``: the first of the other tables that the
          call names, ``f3-2`` the second), the object that it stores in S3 is gone afterwards
``w3``    before call 3 the weather begins that was given, such as an outage of an hour
``c3``    until delivery 3 the old code handles what comes, and from there on the new one. ``c3-1``: the new code
          until then, and the old one from there on, as a rollback does. ``c3.c4-1``: the new code has delivery 3 alone
``y1``    Scans answer in another order: DynamoDB keeps none. ``q1``: each page of a Scan or Query without a limit has
          one item
``k1``    nothing that has expired is removed: DynamoDB may take days. Otherwise it is removed at once
``2+4/``  before all of these: of the first messages only the second and the fourth come. ``1+1/``: the only message
          comes with its twin, the same content under a new id
========  ====================================================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from flowguard.errors import FlowguardError


class FaultKind(StrEnum):
    """A kind of fault. The value is its letter in an id."""

    DIES_BEFORE = "d"
    DIES_AFTER = "a"
    ERROR = "e"
    THROTTLED = "t"
    LOST = "l"
    UNANSWERED = "u"
    PARTIAL = "p"
    STALE = "s"
    SEEN_EARLY = "v"
    HELD_UP = "z"
    DUPLICATED = "x"
    REORDERED = "o"
    REDRIVEN = "r"
    REFUSED = "f"
    MISSING = "n"
    STAYS = "k"
    INSIDER = "i"
    WEATHER = "w"
    TURNED = "y"
    PAGED = "q"
    CODE = "c"


HOLDS: Final = frozenset({FaultKind.SEEN_EARLY, FaultKind.HELD_UP})
OF_DELIVERIES: Final = frozenset({FaultKind.DUPLICATED, FaultKind.REORDERED})
DEATHS: Final = frozenset({FaultKind.DIES_BEFORE, FaultKind.DIES_AFTER})
ERRORS: Final = frozenset({FaultKind.ERROR, FaultKind.THROTTLED})
RAISED: Final = ERRORS | {FaultKind.UNANSWERED, FaultKind.PARTIAL, FaultKind.REFUSED}
"""What the caller learns of: where that is user code, it may count as a failed attempt."""
FOR_GOOD: Final = frozenset({FaultKind.REFUSED})
OF_ANSWERS: Final = frozenset({FaultKind.MISSING})
OF_EXPIRY: Final = frozenset({FaultKind.STAYS})
OF_SCANS: Final = frozenset({FaultKind.TURNED, FaultKind.PAGED})
OF_INSIDERS: Final = frozenset({FaultKind.INSIDER})
OF_WEATHER: Final = frozenset({FaultKind.WEATHER})
OF_CODE: Final = frozenset({FaultKind.CODE})
AT_CALLS: Final = (DEATHS | RAISED | {FaultKind.LOST, FaultKind.STALE}) - FOR_GOOD
AS_LATE_AS_CAN_BE: Final = 2
"""Of a duplicate."""

TWICE: Final = 1
"""Of a redrive."""

DENIED: Final = 1
"""Of a destination that refuses for good: it denies access, and is not gone."""

AFTER_THE_DEADLINE: Final = 1
AT_THE_DEADLINE: Final = 2
"""Of an answer that does not come when it is asked for."""

TO_THE_OLD: Final = 1
"""Of the code: the old version handles what comes from there on."""

ALONE_WITH_TWIN: Final = (1, 1)
"""The only message and its twin, the same content under a new id."""

NOTHING: Final = "none"
"""The id of the schedule in which nothing goes wrong."""

_CHOICE = re.compile(r"([a-z])([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?")

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}")


class NoSuchSchedule(FlowguardError):
    """The id cannot be read. The error says which part of it."""

    def __init__(self, text: str, part: str) -> None:
        super().__init__(text, part)
        self.text = text
        self.part = part

    def __str__(self) -> str:
        letters = ", ".join(FaultKind)
        form = f"one of {letters} with a number, such as d3.l7, after 2+4/ where only these messages come"
        return f"{self.text!r} is no schedule: {self.part!r} is not {form}"


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """One thing that goes wrong.

    ``at`` is the number of a call, a delivery or a dead letter, from 1. ``more`` depends on the kind.
    """

    at: int
    kind: FaultKind
    more: int = 0

    def __str__(self) -> str:
        return f"{self.kind}{self.at}" + (f"-{self.more}" if self.more else "")


@dataclass(frozen=True, slots=True)
class Schedule:
    """The choices of one run. Equal schedules of equal flows and messages give equal runs.

    ``only`` are the numbers of the first messages that come, from 1. Where it is empty all of them do.
    """

    choices: tuple[Choice, ...] = ()
    only: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        of = f"{'+'.join(map(str, self.only))}/" if self.only else ""
        return of + (".".join(map(str, self.choices)) or NOTHING)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parse an id. Raises :class:`NoSuchSchedule`."""
        of, slash, choices = text.rpartition("/")
        only = tuple(sorted(_message(text, part) for part in of.split("+"))) if slash else ()
        if len(only) != len(set(only)) and only != ALONE_WITH_TWIN:
            raise NoSuchSchedule(text, of)
        if choices == NOTHING:
            return cls((), only)
        return cls(tuple(_choice(text, part) for part in choices.split(".")), only)

    @property
    def has_twin(self) -> bool:
        """Answer whether the first message comes once more, under a new id."""
        return self.only == ALONE_WITH_TWIN

    def of(self, only: tuple[int, ...]) -> Schedule:
        """Return the same choices for these first messages alone."""
        return replace(self, only=only)

    def and_then(self, choice: Choice) -> Schedule:
        return replace(self, choices=(*self.choices, choice))

    def without(self, place: int) -> Schedule:
        return replace(self, choices=self.choices[:place] + self.choices[place + 1 :])

    def plainer(self, place: int) -> Schedule:
        """Return the schedule with the choice at this place without what it says behind the hyphen."""
        plain = replace(self.choices[place], more=0)
        return replace(self, choices=(*self.choices[:place], plain, *self.choices[place + 1 :]))

    def find(self, at: int, kinds: frozenset[FaultKind]) -> list[Choice]:
        """Return what goes wrong at this call or delivery."""
        return [choice for choice in self.choices if choice.at == at and choice.kind in kinds]

    def has(self, kinds: frozenset[FaultKind]) -> bool:
        return any(choice.kind in kinds for choice in self.choices)

    def is_old_at(self, delivery: int) -> bool:
        """Answer whether the old code handles this delivery. Before the first switch it is the one that goes."""
        switches = self._switches()
        passed = [choice for choice in switches if choice.at <= delivery]
        if passed:
            return passed[-1].more == TO_THE_OLD
        return bool(switches) and switches[0].more != TO_THE_OLD

    @property
    def ends_old(self) -> bool:
        """Answer whether the old code is there at last, as after a rollback."""
        switches = self._switches()
        return bool(switches) and switches[-1].more == TO_THE_OLD

    def switches_after(self, delivery: int) -> bool:
        """Answer whether both versions of the code are still there."""
        return any(choice.at > delivery for choice in self._switches())

    def _switches(self) -> list[Choice]:
        return sorted(choice for choice in self.choices if choice.kind is FaultKind.CODE)


ALL_OLD: Final = Choice(1, FaultKind.CODE, TO_THE_OLD)
"""The old code handles everything."""


def _message(text: str, part: str) -> int:
    if _NUMBER.fullmatch(part) is None:
        raise NoSuchSchedule(text, part)
    return int(part)


def _choice(text: str, part: str) -> Choice:
    match = _CHOICE.fullmatch(part)
    if match is None or match[1] not in set(FaultKind):
        raise NoSuchSchedule(text, part)
    return Choice(int(match[2]), FaultKind(match[1]), int(match[3] or 0))

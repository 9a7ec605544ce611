"""What a message's way asks of the store. It may be asked for several messages in one call.

A way is a generator: it yields what it asks, and is sent the answer, or has the error thrown in. It makes none of these
calls itself, so it cannot tell whether it goes alone or beside others (:mod:`flowguard.worker.driving`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from flowguard.errors import ConditionFailed, NotHeld, Reject
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Fenced, Refused
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.message import Message

Result = TypeVar("Result")


class Claiming(NamedTuple):
    """Ask for the hop, under an owner nonce."""

    request: ClaimRequest

    @property
    def message(self) -> Message:
        return self.request.message


class Judging(NamedTuple):
    """Ask what the claim would be answered. Nothing is written."""

    request: ClaimRequest

    @property
    def message(self) -> Message:
        return self.request.message


class Committing(NamedTuple):
    """Ask for all of the commit, or nothing."""

    claim: Claim
    commit: Commit

    @property
    def message(self) -> Message:
        return self.claim.message

    @property
    def can_wait(self) -> bool:
        """Answer whether it may be made with others, as one call whose answer is all that it needs."""
        return not (self.commit.closes_list or (self.commit.wait is not None and self.commit.wait.rows))


Ask: TypeAlias = Claiming | Judging | Committing

CommitAnswer: TypeAlias = Committed | Fenced | Refused | ConditionFailed | NotHeld | Reject | None
"""What a commit among others is answered. An error is what the store raises for it: nothing of it is written."""

Answer: TypeAlias = Claim | CommitAnswer
"""None where a call for several left it without an answer. The way asks again, and is answered by a call of its own."""

Calls: TypeAlias = Callable[[Sequence[Ask]], Sequence[Answer]]
"""Answers one or several of a kind, in order. Only where it is asked for a single one it raises."""

Way: TypeAlias = Generator[Ask, Any, Result]
"""The way of a message, or a part of it, to its result."""

"""The points of a message's processing at which a worker may die or another may run.

The ports that a runtime calls are wrapped, so that a listener is called between two of its steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from flowguard.protocol.outbox import Send
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Fenced, Refused
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.worker.ports import Batches, CommitAnswer, Refusal, Sender, Services, Store
from flowguard.worker.wrapped_store import WrappedStore


class Point(StrEnum):
    """The points in their order.

    Sends are made between the two of the dispatch; a record that sends nothing passes neither.
    """

    BEFORE_CLAIM = "before-claim"
    AFTER_CLAIM = "after-claim"
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    BEFORE_DISPATCH = "before-dispatch"
    AFTER_DISPATCH = "after-dispatch"
    BEFORE_ACK = "before-ack"
    AFTER_ACK = "after-ack"


class Passing(Protocol):
    """A listener that is called when the current record passes a point. Only claim and commit give a ``message``."""

    def __call__(self, point: Point, message: Message | None, /) -> None: ...


def with_points(services: Services, passing: Passing) -> Services:
    """Wrap the services so that they report each point.

    Those around the ack are reported by the caller that acknowledges.
    """
    return replace(services, store=_Store(services.store, passing), sender=_Sender(services.sender, passing))


class _Store(WrappedStore):
    """A store that reports its points.

    It does so whether or not a claim is given, and whether or not a commit is fenced.
    """

    def __init__(self, store: Store, passing: Passing) -> None:
        super().__init__(store)
        self._passing = passing

    @property
    def batches(self) -> Batches | None:
        batches = self._store.batches
        return None if batches is None else _Batches(batches, self._passing)

    def claim(self, request: ClaimRequest) -> Claim | Refused:
        self._passing(Point.BEFORE_CLAIM, request.message)
        answer = super().claim(request)
        self._passing(Point.AFTER_CLAIM, request.message)
        return answer

    def judge(self, request: ClaimRequest) -> Claim | Refused:
        self._passing(Point.BEFORE_CLAIM, request.message)
        answer = super().judge(request)
        self._passing(Point.AFTER_CLAIM, request.message)
        return answer

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced | Refused:
        self._passing(Point.BEFORE_COMMIT, claim.message)
        answer = super().commit(claim, commit)
        self._passing(Point.AFTER_COMMIT, claim.message)
        return answer


class _Batches:
    """Common calls that report the points of each of their records."""

    def __init__(self, batches: Batches, passing: Passing) -> None:
        self._batches = batches
        self._passing = passing

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]:
        messages = [request.message for request in requests]
        self._pass(Point.BEFORE_CLAIM, messages)
        answers = self._batches.claim(requests)
        self._pass(Point.AFTER_CLAIM, messages)
        return answers

    def judge(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]:
        messages = [request.message for request in requests]
        self._pass(Point.BEFORE_CLAIM, messages)
        answers = self._batches.judge(requests)
        self._pass(Point.AFTER_CLAIM, messages)
        return answers

    def commit(self, commits: Sequence[tuple[Claim, Commit]], *, in_threads: bool = False) -> list[CommitAnswer]:
        messages = [claim.message for claim, _ in commits]
        self._pass(Point.BEFORE_COMMIT, messages)
        answers = self._batches.commit(commits, in_threads=in_threads)
        self._pass(Point.AFTER_COMMIT, messages)
        return answers

    def release(self, claims: Sequence[Claim], now: int) -> None:
        self._batches.release(claims, now)

    def refusals(self) -> list[str]:
        return self._batches.refusals()

    def _pass(self, point: Point, messages: Sequence[Message]) -> None:
        for message in messages:
            self._passing(point, message)


class _Sender:
    """A sender that reports the start of a dispatch. Its end is not seen from here, for it is made of several sends."""

    def __init__(self, sender: Sender, passing: Passing) -> None:
        self._sender = sender
        self._passing = passing

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        self._passing(Point.BEFORE_DISPATCH, None)
        return self._sender.send(sends)

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        self._sender.postpone(envelope, seconds)

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        self._sender.hand_back(records)

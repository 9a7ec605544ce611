"""A store around another, for what watches claims and commits."""

from __future__ import annotations

from flowguard.protocol.run import BackOff, Claim, ClaimRequest, Commit, Committed, Fenced, Refused
from flowguard.wire.message import ErrorNote
from flowguard.worker.ports import Batches, CallerLists, Cancellations, Memos, Store, Waits


class WrappedStore:
    """Passes each call on to ``store``. A subclass overrides those that it watches."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def waits(self) -> Waits:
        return self._store.waits

    @property
    def memos(self) -> Memos:
        return self._store.memos

    @property
    def cancellations(self) -> Cancellations:
        return self._store.cancellations

    @property
    def callers(self) -> CallerLists:
        return self._store.callers

    @property
    def batches(self) -> Batches | None:
        return self._store.batches

    def claim(self, request: ClaimRequest) -> Claim | Refused:
        return self._store.claim(request)

    def judge(self, request: ClaimRequest) -> Claim | Refused:
        return self._store.judge(request)

    def release(self, claim: Claim, now: int, *, failed: bool) -> None:
        self._store.release(claim, now, failed=failed)

    def back_off(self, claim: Claim, back_off: BackOff) -> None:
        self._store.back_off(claim, back_off)

    def note_kills(self, claim: Claim) -> None:
        self._store.note_kills(claim)

    def tell(self, claim: Claim, error: ErrorNote) -> None:
        self._store.tell(claim, error)

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced | Refused:
        return self._store.commit(claim, commit)

"""The memory of one hop. It is read with the claim, and written under the claim's fence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, Self

from flowguard.errors import WorkerFenced
from flowguard.items.writes import Write
from flowguard.protocol.claims import finds_old_memory
from flowguard.protocol.memo import Memo
from flowguard.protocol.run import Burst, Claim, Fenced
from flowguard.wire.message import ErrorNote
from flowguard.worker.ending import Ending
from flowguard.worker.failure import Again
from flowguard.worker.handler_calls import HandlerCalls
from flowguard.worker.ports import Store

_BESIDE = 1_024 + 128
"""Bytes of the item that the memory takes beside its results: its request id, and the names of its parts."""


class NoPlace(Exception):
    """The hop does not begin: a limit of its stage has no place for it. ``ending`` is then made of its message."""

    def __init__(self, ending: Callable[[], Ending]) -> None:
        super().__init__("no place of a limit is free")
        self.ending = ending


class GoesOn(Exception):
    """Another invocation goes on with the attempt.

    The requests of a group are saved up to here (``requests``), or the run is put off to the end of a ``burst``.
    """

    def __init__(self, requests: int = 0, burst: Burst | None = None) -> None:
        super().__init__(requests, burst)
        self.requests, self.burst = requests, burst


class Unsent(Exception):
    """The attempt has failed before, as its ``note`` says, and the message of the next one was not sent.

    It is still to be sent, with what is left of its delay (``then``).
    """

    def __init__(self, note: ErrorNote, then: Again) -> None:
        super().__init__(str(note))
        self.note, self.then = note, then


class TakesPlaces(Protocol):
    """The places that an attempt has of its stage's limits. Few stages have any."""

    def take(self, payload: Any) -> None:
        """Take them, once. Raises :class:`NoPlace` where one is not free."""

    def failed(self, raised: Sequence[type[BaseException]]) -> None:
        """Give back the places whose keys count the failure. ``raised`` has the classes of the handler's errors."""

    def end(self, raised: Sequence[type[BaseException]] = (), *, is_over: bool = False) -> None:
        """Give back what the attempt holds. ``raised`` has the classes of its handler's errors.

        ``is_over`` is False where what is outside the stage has ended it.
        """


class HopMemory:
    """Implements :class:`flowguard.recorded.remembered.Remembers`. It lives as long as one attempt."""

    def __init__(
        self,
        store: Store,
        claim: Claim,
        taken: Callable[[Iterable[str]], None] = lambda tables: None,
        fails_for_now: Callable[[Exception], bool] = lambda error: False,
    ) -> None:
        """``taken`` gets the tables whose writes were applied. ``fails_for_now`` judges the error of a call."""
        self._store = store
        self._taken = taken
        self.calls = HandlerCalls(fails_for_now)
        self.claim = claim
        """The claim, whose item has what was remembered since."""
        self._places: TakesPlaces | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """End the attempt, which gives its places back. A process that is being stopped leaves them to lapse."""
        if self._places is not None and (kind is None or issubclass(kind, Exception)):
            self._places.end(self.calls.raised, is_over=kind is None)

    def of_stage(self, raised: BaseException) -> BaseException:
        """Return the error that ends the attempt, as :meth:`flowguard.worker.handler_calls.HandlerCalls.of_stage` does.

        A failure that a limit's key counts is noted before the retry is sent, which may come at once.
        """
        try:
            error = self.calls.of_stage(raised)
        finally:
            del raised  # no frame keeps it
        if self._places is not None:
            self._places.failed(self.calls.raised)
        return error

    def take_places(self, payload: Any) -> None:
        """Take the places of the stage's limits. Raises :class:`NoPlace` where the hop does not begin."""
        if self._places is not None:
            self.calls.made(partial(self._places.take, payload))

    @property
    def _own(self) -> Memo | None:
        """Return what this hop remembers. None where it remembers nothing yet, whatever another hop has left."""
        item = self.claim.item
        memo = item.memo
        return memo if memo is not None and memo.is_of(item.request_id, item.hop) else None

    def begin(self, places: Callable[[Claim], TakesPlaces | None] = lambda claim: None) -> None:
        """Forget what an earlier run under the same request id has left, with one write. Most hops find nothing.

        ``places`` gives what takes the places of the stage's limits, if it has any. Raises
        :class:`flowguard.errors.WorkerFenced` as :meth:`remember` does.
        """
        self._places = places(self.claim)
        if not finds_old_memory(self.claim):
            return
        fenced = self.calls.made(partial(self._store.memos.forget, self.claim))
        if fenced is not None:
            raise WorkerFenced(fenced.by.value)
        self.claim = self.claim._replace(item=self.claim.item._replace(memo=None))

    def is_current(self) -> bool:
        """Answer whether this worker still has the hop, by one consistent read."""
        return self.calls.made(partial(self._store.memos.holds, self.claim))

    def recall(self, name: str) -> str | None:
        """Return the text under the name. None where this hop has none."""
        read = self._own.results.get(name) if self._own is not None else None
        return None if read is None else self.calls.made(read)

    def fetch_key(self) -> None:
        """Fetch the key that seals a result, before the call is made that the result is of.

        Raises :class:`flowguard.errors.KeyUnavailable` where the codec has none now.
        """
        self.calls.made(partial(self._store.memos.fetch_key, self.claim))

    def remember(self, name: str, text: str, writes: Sequence[Write] = ()) -> None:
        """Keep the text, and apply the writes with it.

        Raises :class:`flowguard.errors.WorkerFenced` where another worker or a newer run has the object by now.
        """
        known, item = self._own, self.claim.item
        remember = partial(self._store.memos.remember, self.claim, name, text, is_first=known is None, writes=writes)
        size = self.calls.made(remember)
        if isinstance(size, Fenced):
            raise WorkerFenced(size.by.value)
        self._taken(write.table for write in writes)
        before = known if known is not None else Memo(item.request_id, item.hop, {}, _BESIDE)
        memo = before._replace(
            results={**before.results, name: lambda: text},
            size=before.size + size,
        )
        self.claim = self.claim._replace(item=item._replace(memo=memo))

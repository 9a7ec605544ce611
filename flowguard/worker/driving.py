"""Answer what the ways of messages ask, in one call for each or for several.

::

    way 1   ── claim ┐           ┌ handles ── commit ┐           ┌ ending
    way 2   ── claim ┼ one call ─┤ handles ── commit ┼ one call ─┤ ending
    way 3   ── claim ┘           └ handles … claim: a call of its own
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, TypeVar

from flowguard.worker.asks import Answer, Ask, Claiming, Committing, Judging, Way
from flowguard.worker.ports import Services, Store

Key = TypeVar("Key")
Result = TypeVar("Result")

Stop = TypeVar("Stop", bound=Ask)
Stops: TypeAlias = Callable[[Ask], TypeGuard[Stop]]
"""Answers whether a way is to stop at what it asks, and wait for the answer."""


class Driver:
    """Drives the ways of one invocation's messages. A way goes on up to what it ``stops`` at, or to its result."""

    def __init__(self, services: Services) -> None:
        self._call = services.watched(StoreCalls(services.store, in_threads=services.threads))

    def alone(self, way: Way[Result]) -> Result:
        """Answer each ask by a call of its own, and return the way's result."""
        try:
            ask = next(way)
            while True:
                ask = self._asked(way, ask)
        except StopIteration as end:
            result: Result = end.value
            return result

    def begin(self, way: Way[Result]) -> Result | Ask:
        """Return what the way asks first, or its result where it asks nothing."""
        try:
            return next(way)
        except StopIteration as end:
            result: Result = end.value
            return result

    def answer(self, way: Way[Result], answer: Answer, stops: Stops[Stop]) -> Result | Stop:
        """Give the way an answer that it waits for. What it asks after that, it asks alone."""
        end: Result | Stop = self._until(lambda: _told(way, answer), way, stops)
        return end

    def ask(self, way: Way[Result], ask: Ask) -> Result:
        """Ask alone what the way has stopped at, and all that it asks after that."""
        result: Result = self._until(lambda: self._asked(way, ask), way, lambda ask: False)
        return result

    def ask_together(self, asks: Mapping[Key, Ask]) -> dict[Key, Answer]:
        """Ask for all of a kind in one call. The only one of its kind is left without an answer, to ask alone."""
        answers: dict[Key, Answer] = {}
        for kind in (Judging, Claiming, Committing):
            places = [place for place, ask in asks.items() if isinstance(ask, kind)]
            if len(places) > 1:
                answers |= zip(places, self._call([asks[place] for place in places]), strict=True)
        return answers

    def _until(self, first: Callable[[], Ask], way: Way[Any], stops: Callable[[Ask], bool]) -> Any:
        try:
            ask = first()
            while not stops(ask):
                ask = self._asked(way, ask)
        except StopIteration as end:
            return end.value
        return ask

    def _asked(self, way: Way[Any], ask: Ask) -> Ask:
        """Make the call for what the way asks, and return what it asks next. Raises as the way does."""
        try:
            [answer] = self._call((ask,))
        except BaseException as error:  # also the end of the process: the way ends as if it had made the call itself
            return way.throw(error)
        return way.send(answer)


def _told(way: Way[Any], answer: Answer) -> Ask:
    return way.throw(answer) if isinstance(answer, Exception) else way.send(answer)


class StoreCalls:
    """Makes one call of the store for one ask or for several."""

    def __init__(self, store: Store, *, in_threads: bool) -> None:
        self._store = store
        self._in_threads = in_threads

    def __call__(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        if len(asks) > 1:
            return self._of_all(asks)
        [ask] = asks
        if isinstance(ask, Committing):
            return (self._store.commit(ask.claim, ask.commit),)
        return (self._store.claim(ask.request) if isinstance(ask, Claiming) else self._store.judge(ask.request),)

    def _of_all(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        batches = self._store.batches
        assert batches is not None  # noqa: S101 - else nothing is asked together
        match asks[0]:
            case Claiming():
                return batches.claim([ask.request for ask in asks if isinstance(ask, Claiming)])
            case Judging():
                return batches.judge([ask.request for ask in asks if isinstance(ask, Judging)])
            case Committing():
                commits = [(ask.claim, ask.commit) for ask in asks if isinstance(ask, Committing)]
                return batches.commit(commits, in_threads=self._in_threads)

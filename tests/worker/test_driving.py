"""One driver: how what ways ask is answered, alone and together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, cast

import pytest

from flowguard.clock import ManualClock
from flowguard.errors import ConditionFailed, TooLarge
from flowguard.protocol.run import Claim
from flowguard.worker.asks import Answer, Ask, Calls, Claiming, Committing, Judging, Way
from flowguard.worker.driving import Driver
from flowguard.worker.ports import Services
from tests.aws.states import STORED, request
from tests.worker.test_together_calls import COMMIT

CLAIM, READ = Claiming(request(STORED)), Judging(request(STORED))
WRITE = Committing(cast(Claim, None), COMMIT)


class Store:
    """Answers by the name of the call, and notes it with how many were asked."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.calls: list[tuple[str, int]] = []
        self._error = error

    @property
    def batches(self) -> Any:
        return _Common(self)

    def note(self, name: str, number: int) -> str:
        self.calls.append((name, number))
        if self._error is not None:
            raise self._error
        return name

    def claim(self, request: Any) -> str:
        return self.note("claim", 1)

    def judge(self, request: Any) -> str:
        return self.note("read", 1)

    def commit(self, claim: Any, commit: Any) -> str:
        return self.note("commit", 1)


class _Common:
    def __init__(self, store: Store) -> None:
        self._store = store

    def claim(self, requests: Sequence[Any]) -> list[str]:
        return [self._store.note("claims", len(requests))] * len(requests)

    def judge(self, requests: Sequence[Any]) -> list[str]:
        return [self._store.note("reads", len(requests))] * len(requests)

    def commit(self, commits: Sequence[Any], *, in_threads: bool) -> list[str]:
        return [self._store.note("threaded commits" if in_threads else "commits", len(commits))] * len(commits)


def driver(store: Store, *, threads: bool = False, watched: Callable[[Calls], Calls] = lambda calls: calls) -> Driver:
    port: Any = store
    return Driver(Services(store=port, sender=port, clock=ManualClock(0), threads=threads, watched=watched))


def way(*asks: Ask) -> Way[list[Any]]:
    """A way that asks these in turn. Its result is what it was answered, and what was thrown at it."""
    answers: list[Any] = []
    for ask in asks:
        try:
            answers.append((yield ask))
        except Exception as error:
            answers.append(("thrown", error))
    return answers


def falling(*asks: Ask) -> Way[list[Any]]:
    """A way that asks these, and raises."""
    yield from way(*asks)
    raise ZeroDivisionError


def is_commit(ask: Ask) -> TypeGuard[Committing]:
    return isinstance(ask, Committing)


def test_alone_each_ask_is_a_call() -> None:
    store = Store()
    assert driver(store).alone(way(CLAIM, READ, WRITE)) == ["claim", "read", "commit"]
    assert store.calls == [("claim", 1), ("read", 1), ("commit", 1)]


def test_a_way_that_asks_nothing_has_its_result() -> None:
    assert driver(Store()).alone(way()) == []
    assert driver(Store()).begin(way()) == []


def test_an_error_is_thrown_into_the_way() -> None:
    error = ConnectionError("reset")
    assert driver(Store(error)).alone(way(CLAIM, WRITE)) == [("thrown", error)] * 2


def test_the_end_of_the_process_goes_through_the_way_and_out() -> None:
    met: list[str] = []

    def going() -> Way[None]:
        try:
            yield CLAIM
        except KeyboardInterrupt:
            met.append("the end")
            raise

    with pytest.raises(KeyboardInterrupt):
        driver(Store(KeyboardInterrupt())).alone(going())
    assert met == ["the end"]


def test_together_those_of_a_kind_are_one_call_and_a_single_one_is_left() -> None:
    store = Store()
    answers: dict[int, Any] = driver(store).ask_together({1: CLAIM, 2: READ, 3: CLAIM, 4: WRITE, 5: READ, 6: READ})
    assert answers == {1: "claims", 3: "claims", 2: "reads", 5: "reads", 6: "reads"}
    assert store.calls == [("reads", 3), ("claims", 2)]


@pytest.mark.parametrize(("threads", "name"), [(False, "commits"), (True, "threaded commits")])
def test_commits_together_are_made_in_threads_where_there_are_some(threads: bool, name: str) -> None:
    answers: dict[int, Any] = driver(Store(), threads=threads).ask_together({1: WRITE, 2: WRITE})
    assert answers == {1: name, 2: name}


def test_a_way_goes_on_alone_from_its_answer_up_to_where_it_stops() -> None:
    store = Store()
    asking, going = driver(store), way(CLAIM, READ, WRITE, CLAIM)
    assert asking.begin(going) is CLAIM
    assert asking.answer(going, cast(Answer, "given"), is_commit) is WRITE
    assert store.calls == [("read", 1)]
    assert asking.ask(going, WRITE) == ["given", "read", "commit", "claim"]


@pytest.mark.parametrize("error", [TooLarge("the state", {}, 1), ConditionFailed("orders", "x = 1", None)])
def test_an_error_among_the_answers_of_a_common_call_is_thrown(error: Any) -> None:
    asking, going = driver(Store()), way(WRITE)
    asking.begin(going)
    assert asking.answer(going, error, is_commit) == [("thrown", error)]


def test_what_a_way_raises_goes_out() -> None:
    asking = driver(Store())
    with pytest.raises(ZeroDivisionError):
        asking.alone(falling(CLAIM))
    with pytest.raises(ZeroDivisionError):
        asking.begin(falling())
    going = falling(CLAIM)
    asking.begin(going)
    with pytest.raises(ZeroDivisionError):
        asking.answer(going, cast(Answer, "given"), is_commit)


def test_what_watches_sees_each_call_with_all_that_it_asks() -> None:
    seen: list[int] = []

    def watching(calls: Calls) -> Calls:
        def watch(asks: Sequence[Ask]) -> Sequence[Answer]:
            seen.append(len(asks))
            return calls(asks)

        return watch

    asking = driver(Store(), watched=watching)
    asking.alone(way(CLAIM))
    asking.ask_together({1: CLAIM, 2: CLAIM, 3: WRITE})
    assert seen == [1, 2]

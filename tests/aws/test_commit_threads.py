"""Commits that are made at once: each has its own answer, and those of one item go in turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.commit_threads import Transact, transactions
from flowguard.errors import ConditionFailed, ConditionRejected, NotHeld, WriteInvalid
from flowguard.items.writes import Check, Condition, Delete, Put, Update, Write
from flowguard.protocol.run import Claim, Commit, Committed, Fenced, FencedBy
from flowguard.stage import MOST_AT_ONCE
from tests.aws.store.run import commit
from tests.worker.test_parallel import PATIENCE

NO_CLAIM = cast(Claim, None)


def put(name: str) -> Write:
    return Put("carts", {"id": name})


def add(name: str, table: str = "sums", key: str = "id") -> Write:
    return Update(table, {key: name}, Condition("ADD total :one", values={":one": 1}))


def made(transact: Transact, *each: tuple[Write, ...], in_threads: bool = True) -> list[Any]:
    commits = {place: (NO_CLAIM, commit(*writes)) for place, writes in enumerate(each)}
    answers = dict(transactions(transact, commits, in_threads=in_threads))
    return [answers[place] for place in commits]


def made_when_told(*each: tuple[Write, ...]) -> list[list[tuple[Write, ...]]]:
    """What has been made when each answer is told."""
    database = Meeting()
    commits = {place: (NO_CLAIM, commit(*writes)) for place, writes in enumerate(each)}
    told = transactions(database, commits, in_threads=True)
    return [[one.writes for one in database.commits] for _ in told]


class Meeting:
    """A database that answers when so many calls wait for it. It counts the calls that are at work."""

    def __init__(self, parties: int = 1) -> None:
        self._barrier = threading.Barrier(parties, timeout=PATIENCE)
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.commits: list[Commit] = []

    def __call__(self, claim: Claim, commit: Commit) -> Committed:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.commits.append(commit)
        self._barrier.wait()
        with self._lock:
            self._now -= 1
        return Committed()


def test_as_many_are_made_at_once_as_botocore_has_connections() -> None:
    database = Meeting(MOST_AT_ONCE)
    assert made(database, *((put(f"c{place}"),) for place in range(2 * MOST_AT_ONCE))) == [Committed()] * 20
    assert database.most == MOST_AT_ONCE == 10


def test_each_has_its_own_answer_in_whatever_order_they_come() -> None:
    came = [threading.Event() for _ in range(4)]
    came[3].set()

    def backwards(claim: Claim, commit: Commit) -> Fenced | Committed:
        [write] = commit.writes
        place = int(cast(Put, write).item["id"])
        assert came[place].wait(PATIENCE)
        came[place - 1].set()
        return Fenced(FencedBy.NEWER_RUN, None) if place == 1 else Committed()

    found = made(backwards, *((put(str(place)),) for place in range(4)))
    assert found == [Committed(), Fenced(FencedBy.NEWER_RUN, None), Committed(), Committed()]


@pytest.mark.parametrize(
    "other",
    [
        add("sum"),
        Delete("sums", {"id": "sum"}),
        Check("sums", {"id": "sum"}, Condition("attribute_exists(id)")),
        Update("sums", {"id": "sum"}, Condition("SET a = :a", values={":a": 1})),
    ],
)
def test_those_that_name_one_item_go_in_turn_and_in_order(other: Write) -> None:
    each = [(add("sum"),), (put("a"), other), (other,)]
    assert made_when_told(*each) == [each[:1], each[:2], each]


@pytest.mark.parametrize(
    "other", [add("other"), add("sum", table="others"), add("sum", key="name"), Delete("others", {"id": "sum"})]
)
def test_those_that_name_different_items_go_at_once(other: Write) -> None:
    database = Meeting(2)
    assert made(database, (add("sum"),), (other,)) == [Committed()] * 2


def test_the_order_of_the_attributes_of_a_key_says_nothing() -> None:
    each = [(Delete("sums", key),) for key in ({"id": "a", "at": 1}, {"at": 1, "id": "a"})]
    assert made_when_told(*each) == [each[:1], each]


def test_one_that_has_to_wait_lets_no_other_of_its_items_go_before_it() -> None:
    each = [(add("a"),), (add("a"), add("b")), (add("b"),)]
    assert made_when_told(*each) == [each[:1], each[:2], each]


def test_a_single_one_needs_no_thread() -> None:
    asked: list[threading.Thread] = []

    def note(claim: Claim, commit: Commit) -> Committed:
        asked.append(threading.current_thread())
        return Committed()

    assert made(note, (put("a"),)) == [Committed()]
    assert made(note) == []
    assert asked == [threading.current_thread()]


def test_where_there_may_be_no_threads_they_are_made_in_order_by_the_one_who_asks() -> None:
    asked: list[tuple[Any, threading.Thread]] = []

    def note(claim: Claim, commit: Commit) -> Committed:
        asked.append((commit.writes, threading.current_thread()))
        return Committed()

    each = [(add("a"),), (add("a"),), (put("b"),)]
    assert made(note, *each, in_threads=False) == [Committed()] * 3
    assert asked == [(writes, threading.current_thread()) for writes in each]


ERRORS = {
    "condition": ConditionFailed("carts", "a = b", None),
    "rejected": ConditionRejected("carts", "a = b", None),
    "invalid": WriteInvalid("no such table"),
    "not held": NotHeld({"pen": None}),
}


@pytest.mark.parametrize("in_threads", [True, False])
@pytest.mark.parametrize("kind", ERRORS)
def test_what_says_that_nothing_was_written_is_the_answer_of_its_own_commit(kind: str, in_threads: bool) -> None:
    assert made(raising(ERRORS[kind]), (put("a"),), (put("b"),), (put("c"),), in_threads=in_threads) == [
        Committed(),
        ERRORS[kind],
        Committed(),
    ]


@pytest.mark.parametrize("in_threads", [True, False])
@pytest.mark.parametrize(
    "error", [ClientError({"Error": {"Code": "TransactionConflictException"}}, "x"), TimeoutError(), KeyError("a")]
)
def test_what_may_hide_a_success_is_no_answer(error: Exception, in_threads: bool) -> None:
    found = made(raising(error), (put("a"),), (put("b"),), (put("c"),), in_threads=in_threads)
    assert found == [Committed(), None, Committed()]


def test_who_is_killed_is_killed_when_the_others_have_ended() -> None:
    with pytest.raises(KeyboardInterrupt):
        made(raising(KeyboardInterrupt()), (put("a"),), (put("b"),))


def raising(error: BaseException) -> Callable[[Claim, Commit], Committed]:
    def transact(claim: Claim, commit: Commit) -> Committed:
        if commit.writes == (put("b"),):
            raise error
        return Committed()

    return transact


WORD: ContextVar[str] = ContextVar("WORD", default="")


@pytest.fixture
def said() -> Iterator[str]:
    token = WORD.set("outside")
    yield WORD.get()
    WORD.reset(token)


def test_each_is_made_in_a_copy_of_the_context(said: str) -> None:
    found: list[str] = []

    def note(claim: Claim, commit: Commit) -> Committed:
        found.append(WORD.get())
        WORD.set("inside")
        return Committed()

    made(note, (put("a"),), (put("b"),))
    assert found == [said] * 2
    assert WORD.get() == said

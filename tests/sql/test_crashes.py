"""A worker that dies at each call to AWS, and around each commit in SQL, on SQLite and on a real PostgreSQL.

The explorer does the same for each flow, with SQLite alone. ``test_data_api.py`` has what is different there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from flowguard.protocol.run import LONGEST_LEASE
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sql.fence import SqlDatabase, Transaction
from flowguard.step import Step
from tests.scene import OrderState, Scene, scene
from tests.sql.databases import Books
from tests.sql.test_fence import books
from tests.worker.runtime.mishaps import Died

__all__ = ["books"]

MOMENTS: Final = ("before its statements", "before the commit in SQL", "between both commits")
MOST_DELIVERIES: Final = 4

pytestmark = pytest.mark.parametrize(
    "books", ["sqlite", pytest.param("postgres", marks=pytest.mark.proof("starts PostgreSQL"))], indirect=True
)


class Mishap:
    """Kills a worker once: at a moment of the database, or before or after a call to AWS."""

    def __init__(self, moment: str | None = None, call: int | None = None, *, after: bool = False) -> None:
        self._moment, self._call, self._after = moment, call, after
        self._made = 0
        self.struck = False

    def strike(self, is_now: bool) -> None:
        if is_now and not self.struck:
            self.struck = True
            raise Died

    def at(self, moment: str) -> None:
        self.strike(moment == self._moment)

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        self._made += 1
        is_now = self._made == self._call
        self.strike(is_now and not self._after)
        answer = proceed()
        self.strike(is_now)
        return answer


class Dying:
    """A database whose client may die around its commit."""

    def __init__(self, database: SqlDatabase, mishap: Mishap) -> None:
        self._database, self._mishap = database, mishap

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._database.transaction() as opened:
            self._mishap.at("before its statements")
            yield opened
            self._mishap.at("before the commit in SQL")
        self._mishap.at("between both commits")


def booked(at: Scene, books: Books, mishap: Mishap) -> list[str]:
    """Deliver a message until it is acked, and return what the database has then. A dead worker's lease runs out."""
    database = Dying(books.database, mishap)

    def book(step: Step[OrderState]) -> None:
        number = step.sql("book", database, lambda handle: _book(books, handle, f"n-{step.object_id}"))
        assert number == f"n-{step.object_id}"

    at.script.pricing = book
    for _ in range(MOST_DELIVERIES):
        try:
            with intercept(mishap):
                if at.deliver(at.message()) == [True]:
                    break
        except Died:
            at.clock.advance(seconds=LONGEST_LEASE.total_seconds() + 1)
    else:
        pytest.fail("it was never acked")
    item = at.item()
    assert item is not None
    assert (item.done, at.priced()) == (True, 1)
    return books.booked


def _book(books: Books, handle: Any, number: str) -> str:
    books.book(handle, number)
    return number


def test_a_worker_that_dies_around_either_commit_books_once(books: Books) -> None:
    for moment in MOMENTS:
        books.query("DELETE FROM bookings")
        books.query("DELETE FROM flowguard_fence")
        mishap = Mishap(moment)
        with scene() as at:
            assert booked(at, books, mishap) == ["n-o1"], moment
        assert mishap.struck, moment


def test_a_worker_that_dies_at_any_call_books_once(books: Books) -> None:
    with scene() as at, intercept(Recorder()) as calls:
        assert booked(at, books, Mishap()) == ["n-o1"]
    assert len(calls.calls) >= 3
    for call in range(1, len(calls.calls) + 1):
        for after in (False, True):
            books.query("DELETE FROM bookings")
            books.query("DELETE FROM flowguard_fence")
            with scene() as at:
                assert booked(at, books, Mishap(call=call, after=after)) == ["n-o1"], (call, after)

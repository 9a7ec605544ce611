"""What a database keeps of a hop: statements are made once, and by nobody who is late."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.errors import RunFailed
from flowguard.names.ids import ObjectId, RequestId
from flowguard.sql.fence import (
    LOCK,
    MOST_RESULTS,
    NUMBER,
    READ,
    WRITE_SAME,
    ConnectionLost,
    FenceIsNewer,
    LockedRow,
    NoFence,
    SqlDatabase,
    SqlFence,
    Transaction,
    forget_fence,
    forget_statement,
    made_once,
)
from tests.sql.databases import Books, data_api_books, postgres_books, sqlite_books

FIRST: Final = SqlFence("orders", ObjectId("o-1"), RequestId("r-1"), requested_at=100, hop=1, epoch=1, now=1_000)
SECOND: Final = FIRST._replace(request_id=RequestId("r-2"), requested_at=200, epoch=2)

_SERVERS: Final[dict[str, Callable[[str], AbstractContextManager[Books]]]] = {
    "postgres": postgres_books,
    "data-api": data_api_books,
}


@pytest.fixture(
    params=[
        "sqlite",
        *(pytest.param(name, marks=pytest.mark.proof("starts PostgreSQL")) for name in _SERVERS),
    ]
)
def books(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Books]:
    with _opened(request, tmp_path) as made:
        yield made


def _opened(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractContextManager[Books]:
    if request.param == "sqlite":
        return sqlite_books(tmp_path / "books.db")
    return _SERVERS[request.param](request.getfixturevalue("postgres_url"))


def once(books: Books, fence: SqlFence, key: str = "book", number: str = "n-1") -> str:
    def make(handle: Any) -> str:
        books.book(handle, number)
        return f"booked {number}"

    return made_once(books.database, fence, key, make)


def test_the_statements_of_a_hop_are_made_once(books: Books) -> None:
    assert [once(books, FIRST), once(books, FIRST, number="n-2")] == ["booked n-1", "booked n-1"]
    assert books.booked == ["n-1"]


def test_each_key_of_a_hop_has_a_result(books: Books) -> None:
    once(books, FIRST)
    once(books, FIRST, "ship", "n-2")
    assert [once(books, FIRST, key, "n-3") for key in ("book", "ship")] == ["booked n-1", "booked n-2"]
    assert books.booked == ["n-1", "n-2"]


def test_each_object_and_flow_has_a_fence(books: Books) -> None:
    others = FIRST._replace(object_id=ObjectId("o-2")), FIRST._replace(flow="returns")
    for number, fence in enumerate((FIRST, *others)):
        once(books, fence, number=f"n-{number}")
    assert books.booked == ["n-0", "n-1", "n-2"]


def test_a_later_claim_of_the_same_hop_gets_the_result(books: Books) -> None:
    once(books, FIRST)
    assert once(books, FIRST._replace(epoch=5), number="n-2") == "booked n-1"
    assert once(books, FIRST._replace(epoch=5), "ship", number="n-2") == "booked n-2"


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(FIRST, id="an older request"),
        pytest.param(SECOND._replace(request_id=RequestId("r-3")), id="another request of the same time and claim"),
        pytest.param(SECOND._replace(epoch=1), id="an earlier claim of the same request"),
        pytest.param(SECOND._replace(requested_at=199, epoch=1), id="the same with an earlier time"),
    ],
)
def test_who_is_late_makes_nothing(books: Books, late: SqlFence) -> None:
    once(books, SECOND)
    with pytest.raises(FenceIsNewer, match="o-1"):
        once(books, late, "another", "n-2")
    assert books.booked == ["n-1"]


@pytest.mark.parametrize(
    "next_one",
    [
        pytest.param(SECOND._replace(request_id=RequestId("r-3"), epoch=3), id="another request of the same time"),
        pytest.param(SECOND._replace(request_id=RequestId("r-3"), requested_at=201, epoch=1), id="a newer request"),
        pytest.param(SECOND._replace(requested_at=199, epoch=3), id="a message whose copy had a later time"),
        pytest.param(SECOND._replace(requested_at=201, epoch=1), id="a copy after the run item has expired"),
        pytest.param(SECOND._replace(hop=2, epoch=3), id="the next hop"),
    ],
)
def test_who_is_newer_makes_its_statements(books: Books, next_one: SqlFence) -> None:
    once(books, SECOND)
    assert once(books, next_one, "another", "n-2") == "booked n-2"
    assert books.booked == ["n-1", "n-2"]


def test_a_hop_that_is_over_finds_no_result_and_makes_nothing(books: Books) -> None:
    once(books, FIRST)
    once(books, FIRST._replace(hop=2, epoch=2), "ship", "n-2")
    with pytest.raises(FenceIsNewer):
        once(books, FIRST, number="n-3")
    assert books.booked == ["n-1", "n-2"]


def test_an_error_takes_all_back(books: Books) -> None:
    def make(handle: Any) -> str:
        books.book(handle, "n-1")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        made_once(books.database, FIRST, "book", make)
    assert books.booked == []
    assert books.query("SELECT * FROM flowguard_fence") == []
    assert once(books, FIRST, number="n-2") == "booked n-2"


@pytest.mark.parametrize(("end", "stays"), [("ROLLBACK", []), ("COMMIT", ["n-1"])])
@pytest.mark.parametrize("before", [False, True], ids=["the first hop", "a later one"])
def test_statements_that_end_the_transaction_are_told_and_not_remembered(
    books: Books, end: str, stays: list[str], before: bool
) -> None:
    def make(handle: Any) -> str:
        books.book(handle, "n-1")
        handle.execute(end)
        return "booked"

    if before:
        made_once(books.database, FIRST, "ship", lambda _: "shipped")
    with pytest.raises(RunFailed, match="have ended its transaction; leave COMMIT and ROLLBACK to the step"):
        made_once(books.database, FIRST, "book", make)
    assert books.booked == stays
    assert "booked" not in str(books.query("SELECT results FROM flowguard_fence"))


_MOVES: Final = [
    "SET LOCAL search_path TO {schema}",
    "SET search_path TO {schema}",
    "SELECT set_config('search_path', '{schema}', true)",
]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.proof("starts PostgreSQL")) for name in _SERVERS])
def tenants(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Books, str]]:
    """Books with a schema of one tenant, which has bookings of its own."""
    with _opened(request, tmp_path) as books:
        [(name,)] = books.query("SELECT current_schema() || '_tenant'")
        books.query(f"CREATE SCHEMA {name}")
        books.query(f"CREATE TABLE {name}.bookings (LIKE bookings)")
        yield books, name
        books.query(f"DROP SCHEMA {name} CASCADE")


def _in_schema(books: Books, *statements: str) -> str:
    def make(handle: Any) -> str:
        for statement in statements[:1]:
            handle.execute(statement)
        books.book(handle, "n-1")
        for statement in statements[1:]:
            handle.execute(statement)
        return "booked"

    return made_once(books.database, FIRST, "book", make)


@pytest.mark.parametrize("move", _MOVES)
@pytest.mark.parametrize("has_fence", [False, True], ids=["one fence", "a fence in each schema"])
@pytest.mark.parametrize("before", [False, True], ids=["the first hop", "a later one"])
def test_statements_that_move_the_fence_to_another_schema_are_refused(
    tenants: tuple[Books, str], move: str, has_fence: bool, before: bool
) -> None:
    """Or the next attempt would find nothing in the table that it locks, and make them once more."""
    books, schema = tenants
    if has_fence:
        books.query(f"CREATE TABLE {schema}.flowguard_fence (LIKE flowguard_fence INCLUDING ALL)")
    if before:
        made_once(books.database, FIRST, "ship", lambda _: "shipped")
    kept = books.query("SELECT * FROM flowguard_fence")
    told = "have set search_path" if has_fence else "is not found after what step.sql was given"
    for _ in range(2):
        with pytest.raises(RunFailed, match=told):
            _in_schema(books, move.format(schema=schema))
    assert books.query(f"TABLE {schema}.bookings") == []
    assert books.query("SELECT * FROM flowguard_fence") == kept
    if has_fence:
        assert books.query(f"TABLE {schema}.flowguard_fence") == []


@pytest.mark.parametrize("end", ["back", "both"])
def test_statements_that_leave_the_fence_in_its_place_may_set_a_search_path(
    tenants: tuple[Books, str], end: str
) -> None:
    books, schema = tenants
    [(own,)] = books.query("SELECT current_schema()")
    if end == "back":
        books.query(f"CREATE TABLE {schema}.flowguard_fence (LIKE flowguard_fence INCLUDING ALL)")
        statements = [f"SET LOCAL search_path TO {schema}", f"SET LOCAL search_path TO {own}"]
    else:
        statements = [f"SET LOCAL search_path TO {schema}, {own}"]
    assert [_in_schema(books, *statements) for _ in range(2)] == ["booked"] * 2
    assert books.query(f"TABLE {schema}.bookings") == [("n-1", 1)]


def test_results_that_take_too_much_room_take_all_back(books: Books) -> None:
    def make(handle: Any) -> str:
        books.book(handle, "n-1")
        return "x" * MOST_RESULTS

    with pytest.raises(RunFailed, match=f"more than {MOST_RESULTS}"):
        made_once(books.database, FIRST, "book", make)
    assert books.booked == []


def test_results_may_take_all_the_room_there_is(books: Books) -> None:
    room = MOST_RESULTS - len('{"book": ""}')
    assert made_once(books.database, FIRST, "book", lambda _: "x" * room) == "x" * room


def test_a_reset_leaves_no_results_of_before(books: Books) -> None:
    once(books, FIRST, "of before")
    after = FIRST._replace(reset_by="a reset", epoch=3)
    once(books, after, "of after")
    assert books.query("SELECT results FROM flowguard_fence") == [('{"of after": "booked n-1"}',)]
    assert once(books, after, "of after", "n-2") == "booked n-1"
    with pytest.raises(FenceIsNewer):
        once(books, FIRST, "of before")


def test_a_newer_request_leaves_no_results_of_the_one_before(books: Books) -> None:
    once(books, FIRST, "of the first")
    once(books, SECOND, "of the second")
    assert books.query("SELECT results FROM flowguard_fence") == [('{"of the second": "booked n-1"}',)]


AGAIN: Final = FIRST._replace(requested_at=300, epoch=3)
"""The id of the first request, with a later time."""


@pytest.mark.parametrize(
    ("first", "again", "is_another_run"),
    [
        pytest.param({}, {}, False, id="a copy that another release has claimed"),
        pytest.param({"after": 7}, {"after": 7}, False, id="a copy"),
        pytest.param({"after": 7}, {}, False, id="a copy whose hop has failed for good, and comes back"),
        pytest.param({}, {"after": 7}, False, id="a row that another release has written"),
        pytest.param({"after": 7}, {"after": 7, "begins": True}, True, id="it takes the object from another request"),
        pytest.param({"after": 7}, {"after": 9}, True, id="its second attempt, for another run has committed since"),
        pytest.param({"hop": 2}, {"hop": 2}, True, id="a later hop, whose time stays"),
        pytest.param({"requested_at": 300}, {"begins": True}, False, id="the same time"),
        pytest.param({}, {"expired_since": 999}, False, id="a copy, while the run item lives"),
        pytest.param({}, {"expired_since": 1_000}, True, id="a second attempt, for the run item has expired since"),
    ],
)
def test_a_request_id_that_comes_again_after_another_request_has_results_of_its_own(
    books: Books, first: dict[str, Any], again: dict[str, Any], is_another_run: bool
) -> None:
    once(books, FIRST._replace(**first))
    later = AGAIN._replace(**again)
    assert [once(books, later, number="n-2"), once(books, later, number="n-3")] == [
        "booked n-2" if is_another_run else "booked n-1"
    ] * 2
    assert books.booked == (["n-1", "n-2"] if is_another_run else ["n-1"])


def test_a_late_attempt_of_the_run_that_had_the_id_before_makes_nothing(books: Books) -> None:
    once(books, FIRST._replace(after=7))
    once(books, AGAIN._replace(after=9), number="n-2")
    with pytest.raises(FenceIsNewer):
        once(books, FIRST._replace(after=7), "another", number="n-3")
    assert books.booked == ["n-1", "n-2"]


def test_results_that_are_forgotten_leave_a_fence(books: Books) -> None:
    """The statement of the page about forgetting."""
    page = Path("docs/operate/forgetting.md").read_text(encoding="utf-8")
    [statement] = re.findall(r"^```sql\n(.*?)\n```", page, re.MULTILINE | re.DOTALL)
    forgotten = SECOND._replace(flow="patients", object_id=ObjectId("p1"))
    once(books, forgotten, number="n-2")
    once(books, SECOND, number="n-3")
    with books.database.transaction() as transaction:
        transaction.rows(statement, {})
    with books.database.transaction() as transaction:
        place = {"flow": "patients", "object_id": "p1"}
        assert [json.loads(row[-1]) for row in transaction.rows(READ, place)] == [{}]
    with pytest.raises(FenceIsNewer):
        once(books, FIRST._replace(flow="patients", object_id=ObjectId("p1")), number="n-4")
    assert once(books, SECOND) == "booked n-3"
    assert sorted(books.booked) == ["n-2", "n-3"]


def test_in_postgres_the_row_is_written_in_the_transaction_in_which_it_was_locked() -> None:
    asked: list[tuple[str, Mapping[str, object]]] = []

    def rows(sql: str, parameters: Mapping[str, object]) -> list[tuple[object, ...]]:
        asked.append((sql, parameters))
        if sql == LOCK:
            return [("r-1", 1, 1, "", 1, 1, "{}", b"16400", b"817")]
        if sql == NUMBER:
            return [(numbers.pop(),)]
        return [(1,)] * (parameters["hop"] == 1)

    row, numbers = LockedRow(rows), [b"817", b"818"]
    assert row.locked({"flow": "f"}) == ["r-1", 1, 1, "", 1, 1, "{}"]
    assert row.written({"hop": 1})
    assert asked[1:] == [(WRITE_SAME, {"hop": 1, "place": "16400", "transaction": "817"})], "and nothing more"
    assert not row.written({"hop": 2})
    with pytest.raises(RunFailed, match="have set search_path"):
        row.written({"hop": 2})


@pytest.mark.parametrize(
    ("error", "told"), [(NoFence("no table"), RunFailed), (ZeroDivisionError(), ZeroDivisionError)]
)
def test_a_table_that_is_not_found_any_more_is_told_as_what_the_statements_may_have_committed(
    error: Exception, told: type[Exception]
) -> None:
    def rows(sql: str, parameters: Mapping[str, object]) -> list[tuple[object, ...]]:
        raise error

    with pytest.raises(told) as caught:
        LockedRow(rows).written({"hop": 1})
    assert ("what the statements have committed stays" in str(caught.value)) is (told is RunFailed)


class Losing:
    """A database whose kept connection is lost so many times."""

    def __init__(self, database: SqlDatabase, times: int) -> None:
        self._database = database
        self._left = times

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self._left -= 1
        if self._left >= 0:
            raise ConnectionLost("closed")
        with self._database.transaction() as made:
            yield made


def test_a_kept_connection_that_is_lost_is_opened_anew_once(tmp_path: Path) -> None:
    with sqlite_books(tmp_path / "books.db") as books:
        assert once(replace(books, database=Losing(books.database, 1)), FIRST) == "booked n-1"
        with pytest.raises(ConnectionLost):
            once(replace(books, database=Losing(books.database, 2)), SECOND)
        assert books.booked == ["n-1"]


def test_the_row_says_who_has_written_it(books: Books) -> None:
    once(books, SECOND)
    ((*row, results),) = books.query(
        "SELECT flow, object_id, request_id, requested_at, hop, epoch, written_at, results FROM flowguard_fence"
    )
    assert row == ["orders", "o-1", "r-2", 200, 1, 2, 1_000]
    assert results == '{"book": "booked n-1"}'


def test_a_database_without_the_table_is_told_so(books: Books) -> None:
    books.query("DROP TABLE flowguard_fence")
    with pytest.raises(RunFailed, match=r"no table flowguard_fence; make it with flowguard\.sql\.SCHEMA"):
        once(books, FIRST)
    assert books.booked == []


def test_a_table_of_the_user_that_is_missing_is_the_users_error(books: Books) -> None:
    books.query("DROP TABLE bookings")
    with pytest.raises(Exception, match="bookings"):
        once(books, FIRST)


def test_workers_that_meet_make_the_statements_once(books: Books) -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda number: once(books, FIRST, number=f"n-{number}"), range(8)))
    assert len(set(texts)) == len(books.booked) == 1


def test_workers_of_many_objects_do_not_lose_any(books: Books) -> None:
    fences = [FIRST._replace(object_id=ObjectId(f"o-{number}")) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda fence: once(books, fence, number=fence.object_id), fences * 2))
    assert books.booked == sorted(fence.object_id for fence in fences)


def test_a_fence_that_is_forgotten_has_no_results_and_keeps_late_workers_out(books: Books) -> None:
    once(books, SECOND)
    once(books, FIRST._replace(object_id=ObjectId("o-2")))
    forget_fence(books.database, "orders", "o-1")
    forget_fence(books.database, "orders", "nobody")
    rows = books.query("SELECT object_id, results FROM flowguard_fence ORDER BY object_id")
    assert [(object_id, results == "{}") for object_id, results in rows] == [("o-1", True), ("o-2", False)]
    with pytest.raises(FenceIsNewer):
        once(books, FIRST)


@pytest.mark.parametrize("object_id", ["o-1", "o'1", "o\\1", "it's; DROP TABLE bookings"])
def test_the_statement_for_a_person_forgets_the_same(object_id: str, books: Books) -> None:
    once(books, SECOND._replace(object_id=ObjectId(object_id)))
    once(books, FIRST._replace(object_id=ObjectId("o-2")))
    books.query(f"{forget_statement('orders', object_id)} RETURNING flow")
    rows = books.query("SELECT object_id, results = '{}' FROM flowguard_fence")
    assert {row[0]: bool(row[1]) for row in rows} == {object_id: True, "o-2": False}
    assert (
        forget_statement("a'b", "c")
        == "UPDATE flowguard_fence SET results = '{}' WHERE flow = 'a''b' AND object_id = 'c'"
    )


@pytest.mark.parametrize("claims", [1, 2, 3, 50])
def test_after_its_run_item_was_lost_no_hop_before_that_of_the_row_makes_anything(claims: int, books: Books) -> None:
    once(books, FIRST)
    once(books, FIRST._replace(hop=2, epoch=2), number="n-2")
    again = FIRST._replace(epoch=claims)
    with pytest.raises(FenceIsNewer):
        once(books, again, number="n-3")
    assert once(books, again._replace(reset_by="reset-1", epoch=50), number="n-4") == "booked n-4"
    assert once(books, again._replace(reset_by="reset-1", requested_at=101, epoch=51, hop=2), number="n-5")
    assert once(books, again._replace(reset_by="reset-1", requested_at=102, begins=True), number="n-6") == "booked n-6"
    assert books.booked == ["n-1", "n-2", "n-4", "n-5", "n-6"]


@pytest.mark.parametrize("hop", [1, 2])
@pytest.mark.parametrize("claims", [1, 4, 50])
def test_after_a_run_item_was_lost_that_was_reset_nothing_is_made_either(claims: int, hop: int, books: Books) -> None:
    after_reset = FIRST._replace(reset_by="reset-1", epoch=3)
    once(books, after_reset)
    if hop > 1:
        once(books, after_reset._replace(hop=hop, epoch=4), number="n-2")
    again = FIRST._replace(epoch=claims)
    with pytest.raises(FenceIsNewer):
        once(books, again, number="n-3")
    assert once(books, again._replace(requested_at=101, begins=True), number="n-4") == "booked n-4"

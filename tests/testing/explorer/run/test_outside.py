"""Parties outside AWS: they are answered, meet faults, and what they did is compared."""

from __future__ import annotations

import os
import smtplib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.testing import OutsideAnswer, OutsideRequest, View
from flowguard.testing.explorer import PlainFunction, Report, UnmetSchedule, explore, replay
from flowguard.testing.explorer.run.outside_http import read_request, written
from flowguard.testing.explorer.run.outside_sql import Statement, statement
from flowguard.testing.explorer.run.outside_world import OutsideWorld
from tests.testing.explorer.run import outside_handlers as handlers

pytestmark = pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # handlers drop HTTPErrors

ORDER = {"order_id": "o1", "amount": 5}


def explored(handler: Any, **about: Any) -> Report:
    return explore(PlainFunction("orders", handler), [ORDER], **{"bound": 0, "walks": 0, **about})


def rules(report: Report) -> list[tuple[str, str]]:
    return [(one.rule, one.schedule) for one in report.violations]


def test_what_is_charged_again_is_found_with_the_cure_and_what_was_charged() -> None:
    report = explored(handlers.charges, outside=["psp.example"])
    assert rules(report) == [("equivalence", "a1")]
    (violation,) = report.violations
    assert "POST psp.example" in violation.struck[0]
    assert violation.fix.startswith("this POST request at ")
    assert "Idempotency-Key" in violation.fix
    assert violation.problems[0].where == "outside:psp.example"
    assert str(violation.site and violation.site.text).startswith("requests.post")
    assert report.compared == ("outside:psp.example",)


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize("handler", [handlers.charges_under_a_key, handlers.charges_in_parts, handlers.puts_and_asks])
def test_what_is_the_same_again_is_sound(handler: Any) -> None:
    report = explored(handler, outside={"psp.example": {"status": "paid"}})
    assert report.ok, str(report)
    assert any(name.startswith("orders: ") for name in report.coverage)


@pytest.mark.slow("explores flows and handlers")
def test_a_request_meets_deaths_errors_and_lost_answers_but_nothing_that_only_aws_does() -> None:
    report = explored(handlers.charges_under_a_key, outside={"psp.example": {"status": "paid"}})
    (met,) = report.coverage.values()
    assert met == "adeuvz"


def test_who_goes_on_after_a_refusal_is_found() -> None:
    (violation,) = explored(handlers.goes_on_after_a_refusal, outside=["psp.example"]).violations
    assert (violation.schedule, violation.problems[0].expected) == ("e1", "an item")


def test_what_forgets_a_field_where_a_question_gets_no_answer_is_found() -> None:
    report = explore(
        PlainFunction("orders", handlers.forgets_a_field_of_what_it_tries_again),
        [ORDER | {"currency": "CHF"}],
        outside=["psp.example"],
        tables={"quotes": "id"},
        bound=0,
        walks=0,
    )
    (violation,) = report.violations
    assert (violation.schedule, violation.problems[0].expected, violation.problems[0].found) == ("u1", "CHF", "EUR")


def test_an_answer_that_is_no_success_changes_nothing_and_a_fake_begins_each_schedule_anew() -> None:
    class Psp:
        asked = 0

        def __call__(self, request: OutsideRequest) -> Any:
            self.asked += 1
            assert (request.method, request.path, request.body) == ("POST", "/charges", {"amount": 5})
            return OutsideAnswer("busy", status=503) if self.asked == 1 else {"status": "paid"}

    fake = Psp()
    trace = replay(PlainFunction("orders", handlers.charges), [ORDER], "none", outside={"psp.example": fake})
    assert trace.ok
    assert len([line for line in trace.timeline if "POST" in line]) == 2
    assert fake.asked == 0


def test_a_mail_counts_each_time() -> None:
    seen: list[Any] = []

    def look(view: View) -> None:
        seen.append(view.outside("smtp.example"))

    report = explored(handlers.mails, outside=["smtp.example"], invariants=[look])
    assert rules(report) == [("equivalence", "a1")]
    assert "a mail server drops no copies" in report.violations[0].fix
    mail = {"from": "shop@shop.example", "to": "buyer@home.example", "subject": "o1", "text": "Thanks"}
    assert seen[0] == (mail,)


def test_a_mail_server_that_is_busy_took_nothing() -> None:
    about: Any = {"outside": ["smtp.example"]}
    trace = replay(PlainFunction("orders", handlers.mails), [ORDER], "e1", **about)
    assert trace.ok
    assert len([line for line in trace.timeline if "MAIL smtp.example" in line]) == 2


def test_calls_of_other_services_that_send_are_compared() -> None:
    stubs: Any = {"ses.SendEmail": {"MessageId": "1"}}
    report = explored(handlers.mails_by_ses, stubs=stubs)
    assert rules(report) == [("equivalence", "a1")]
    assert report.violations[0].problems[0].where == "aws:ses"
    assert report.violations[0].site is not None
    assert report.uncounted == ()


def test_what_ends_the_process_ends_the_worker_alone() -> None:
    report = explored(handlers.exits_at_once)
    (violation,) = report.violations
    assert "it ended its process by os._exit(3)" in violation.problems[0].text
    assert str(violation.site and violation.site.text) == "os._exit(3)"


# -- databases


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as real:
        real.executescript("CREATE TABLE totals (day TEXT PRIMARY KEY, n INTEGER); INSERT INTO totals VALUES ('m', 2)")
    real.close()
    return file


def total(file: Path) -> Any:
    real = sqlite3.connect(file)
    try:
        return real.execute("SELECT n FROM totals").fetchone()[0]
    finally:
        real.close()


def test_what_is_added_again_in_sql_is_found_and_the_file_stays_as_it_is(shop: Path) -> None:
    report = explored(handlers.counting(shop))
    assert rules(report) == [("equivalence", "a2")]
    problem = report.violations[0].problems[0]
    assert (problem.where, problem.expected, problem.found) == ("sqlite:shop.db/totals", 7, 12)
    assert "under a unique key" in report.violations[0].fix
    assert "UPDATE totals" in str(report.violations[0].site and report.violations[0].site.text)
    assert total(shop) == 2


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize("of", [handlers.noting, handlers.numbering])
def test_what_is_written_once_in_sql_is_sound_however_its_workers_are_held_up(of: Any, shop: Path) -> None:
    report = explored(of(shop), bound=10, walks=5)
    assert report.ok, str(report)
    assert total(shop) == 2


def test_rows_are_there_for_invariants(shop: Path) -> None:
    def look(view: View) -> str | None:
        rows = view.table("sqlite:shop.db/orders")
        return None if rows in ((), ({"id": "o1", "at": 7, "raw": "01"},)) else f"{rows}"

    assert explored(handlers.noting(shop), invariants=[look]).ok


def test_a_worker_that_dies_loses_what_it_had_not_committed(shop: Path) -> None:
    trace = replay(PlainFunction("orders", handlers.counting(shop)), [ORDER], "a1")
    assert trace.ok, str(trace)


@pytest.mark.parametrize("schedule", ["l1", "t1", "u1", "p1-1"])
def test_what_only_aws_does_happens_to_no_statement(schedule: str, shop: Path) -> None:
    with pytest.raises(UnmetSchedule, match="cannot meet that"):
        replay(PlainFunction("orders", handlers.noting(shop)), [ORDER], schedule)


def test_a_worker_whose_time_is_over_keeps_no_lock(shop: Path) -> None:
    trace = replay(PlainFunction("orders", handlers.noting(shop)), [ORDER], "1+1/z2-999")
    assert trace.ok, str(trace)
    assert any("is dead" in line or "OperationalError" in line for line in trace.timeline)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT OR IGNORE INTO orders VALUES (1)", Statement("INSERT", "orders")),
        ("  replace into [orders] values (1)", Statement("REPLACE", "orders")),
        ('UPDATE OR ABORT "orders" SET n = 1', Statement("UPDATE", "orders")),
        ("DELETE FROM orders", Statement("DELETE", "orders")),
        ("SELECT n\nFROM orders", Statement("SELECT", "orders")),
        ("WITH a AS (SELECT 1) SELECT * FROM a", Statement("SELECT", "a")),
        ("END TRANSACTION", Statement("COMMIT", "")),
        ("CREATE TABLE orders (id)", None),
        ("PRAGMA user_version", None),
    ],
)
def test_a_statement_is_read_for_what_it_does(sql: str, expected: Statement | None) -> None:
    assert statement(sql) == expected


# -- what is given


@pytest.mark.parametrize("given", ["psp.example", {"": {}}, {1: {}}, 7, [b"x"]])
def test_what_names_no_party_is_refused(given: Any) -> None:
    with pytest.raises(SettingsError, match="are no parties"):
        OutsideWorld(given)


def test_an_answer_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"is no answer of psp\.example"):
        OutsideWorld({"psp.example": object()})


def test_a_party_is_named_with_its_port_or_without() -> None:
    world = OutsideWorld(["psp.example", "localhost:8080"])
    found = [world.party_at(*one) for one in (("psp.example", 443), ("localhost", 8080), ("localhost", 80))]
    assert found == ["psp.example", "localhost:8080", None]


def test_one_token_does_one_thing() -> None:
    world = OutsideWorld([])
    for token in ("t1", "t1", "t2"):
        world.called("athena", "StartQueryExecution", {"ClientRequestToken": token, "QueryString": "DELETE"})
    world.called("athena", "StopQuery", {"ClientRequestToken": "t1", "Raw": b"x"})
    assert len(world.items()["aws:athena"]) == 3


def test_a_request_is_read_and_an_answer_written_as_http_has_them() -> None:
    request = read_request("psp.example", b"POST /a HTTP/1.1\r\nHost: psp.example\r\nPayPal-Request-Id: 7\r\n\r\nplain")
    assert (request.method, request.path, request.key, request.body) == ("POST", "/a", "7", "plain")
    assert written(OutsideAnswer("no", 404, {"X-Own": "1"}), "GET") == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nX-Own: 1\r\nContent-Length: 2\r\n"
        b"Connection: close\r\n\r\nno"
    )
    assert written(OutsideAnswer(), "HEAD").endswith(b"\r\n\r\n")


def test_what_was_changed_is_as_before_afterwards() -> None:
    before = smtplib.SMTP.starttls, sqlite3.connect, os._exit
    explored(handlers.puts_and_asks, outside=["psp.example"])
    assert (smtplib.SMTP.starttls, sqlite3.connect, os._exit) == before

"""Requests of httpx and aiohttp: parties answer them, they meet faults, and what they did is compared."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
import httpx
import pytest

from flowguard.testing import OutsideAnswer, OutsideRequest
from flowguard.testing.explorer import PlainFunction, Report, explore, replay
from flowguard.testing.explorer.run.late_imports import changed_when_imported, replaced
from flowguard.testing.explorer.run.outside_aiohttp import answered_aiohttp
from flowguard.testing.explorer.run.outside_http import Points, is_whole
from flowguard.testing.explorer.run.outside_httpx import answered_httpx
from flowguard.testing.explorer.run.outside_world import OutsideWorld
from tests.testing.explorer.run import async_http_handlers as handlers

ORDER = {"order_id": "o1", "amount": 5}
PAID: Any = {"psp.example": {"status": "paid"}}


def explored(handler: Any, **about: Any) -> Report:
    return explore(PlainFunction("orders", handler), [ORDER], **{"bound": 0, "walks": 0, "outside": PAID, **about})


EACH: Final = pytest.mark.proof("explores one more way of asking")


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    ("handler", "line"),
    [
        (handlers.charges_by_httpx, "httpx.post("),
        pytest.param(handlers.charges_by_async_httpx, "(await client.post(", marks=EACH),
        pytest.param(handlers.charges_by_async_httpx2, "(await client.post(", marks=EACH),
        (handlers.charges_by_aiohttp, "await session.post("),
    ],
)
def test_what_is_charged_again_is_found_at_its_line(handler: Any, line: str) -> None:
    report = explored(handler)
    (violation,) = report.violations
    assert (violation.rule, violation.schedule) == ("equivalence", "a1")
    assert "POST psp.example" in violation.struck[0]
    assert "Idempotency-Key" in violation.fix
    assert violation.problems[0].where == "outside:psp.example"
    assert str(violation.site and violation.site.text).startswith(line)
    assert violation.site is not None
    assert violation.site.file == handlers.__file__


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(handlers.charges_by_httpx_under_a_key, marks=EACH),
        pytest.param(handlers.charges_by_async_httpx_under_a_key, marks=EACH),
        handlers.survives_a_timeout_by_httpx,
        pytest.param(handlers.survives_a_timeout_by_httpx2, marks=EACH),
        pytest.param(handlers.charges_by_aiohttp_under_a_key, marks=EACH),
        handlers.survives_a_timeout_by_aiohttp,
    ],
)
def test_what_has_a_key_is_sound_and_meets_every_fault_that_a_request_can_meet(handler: Any) -> None:
    asked: list[Any] = []

    def paid(request: OutsideRequest) -> Any:
        asked.append((request.path.partition("?")[0], request.method, request.body))
        return {"status": "paid"}

    report = explored(handler, outside={"psp.example": paid})
    assert report.ok, str(report)
    assert "adeuvz" in report.coverage.values()
    assert asked[0] == ("/charges", "POST", {"amount": 5})


@pytest.mark.parametrize("handler", [handlers.follows_by_httpx, handlers.follows_by_aiohttp])
def test_a_redirect_is_a_request_of_its_own(handler: Any) -> None:
    def moved(request: OutsideRequest) -> Any:
        new = OutsideAnswer(status=307, headers={"Location": handlers.PSP})
        return new if request.path == "/old" else {"status": "paid"}

    trace = replay(PlainFunction("orders", handler), [ORDER], "none", outside={"psp.example": moved})
    assert trace.ok, trace.timeline
    assert len([line for line in trace.timeline if "POST psp.example" in line]) == 2


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize("handler", [handlers.follows_by_httpx, handlers.follows_by_aiohttp])
def test_a_redirect_to_somebody_else_does_not_go_out(handler: Any) -> None:
    away: Any = {"psp.example": OutsideAnswer(status=307, headers={"Location": "https://away.example/charges"})}
    report = explored(handler, outside=away)
    assert not report.ok
    assert "goes out to away.example" in report.violations[0].problems[0].text


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    ("handler", "what"),
    [
        (handlers.upgrades_by_httpx, "by httpx for another protocol"),
        (handlers.upgrades_by_aiohttp, "by aiohttp for another protocol"),
        (handlers.asks_first_by_aiohttp, "by aiohttp for a go-ahead"),
    ],
)
def test_what_no_party_plays_is_refused_at_its_line(handler: Any, what: str) -> None:
    report = explored(handler)
    assert not report.ok
    violation = report.violations[0]
    assert what in violation.problems[0].text
    assert "give a fake" in violation.fix
    assert violation.site is not None
    assert violation.site.file == handlers.__file__


def test_a_body_that_breaks_off_is_no_request() -> None:
    trace = replay(PlainFunction("orders", handlers.breaks_off_by_aiohttp), [ORDER], "none", outside=PAID)
    assert trace.ok, trace.timeline
    assert not [line for line in trace.timeline if "POST" in line]


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize("handler", [handlers.charges_by_httpx, handlers.charges_by_aiohttp])
def test_a_host_that_is_no_party_is_refused_as_before(handler: Any) -> None:
    report = explored(handler, outside=["other.example"])
    assert not report.ok
    assert "goes out to psp.example" in report.violations[0].problems[0].text


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n5", False),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n55", True),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n5\r\n", False),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n5\r\n0\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", True),
    ],
)
def test_a_request_is_whole_when_its_body_is(sent: bytes, expected: bool) -> None:
    assert is_whole(sent) is expected


@pytest.mark.slow("explores flows and handlers")
def test_what_was_changed_is_as_before_afterwards() -> None:
    def now() -> tuple[Any, ...]:
        return (
            httpx.HTTPTransport.handle_request,
            httpx.AsyncHTTPTransport.handle_async_request,
            aiohttp.TCPConnector._create_connection,
            [*sys.meta_path],
        )

    before = now()
    explored(handlers.charges_by_httpx_under_a_key)
    assert now() == before


def test_a_library_is_changed_once_it_is_imported_and_not_imported_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "flowguard_tests_late"
    (tmp_path / f"{name}.py").write_text("where = 'real'\n")
    monkeypatch.syspath_prepend(tmp_path)
    changes: Any = {name: lambda module: replaced(module, "where", "changed")}
    with changed_when_imported(changes):
        assert name not in sys.modules
        late = __import__(name)
        assert late.where == "changed"
    assert late.where == "real"
    with changed_when_imported(changes):
        assert late.where == "changed"
    monkeypatch.delitem(sys.modules, name)


def charge_by_httpx() -> None:
    httpx.post(handlers.PSP, json={"amount": 5}).raise_for_status()


def charge_by_async_httpx() -> None:
    async def charge() -> None:
        async with httpx.AsyncClient() as client:
            (await client.post(handlers.PSP, json={"amount": 5})).raise_for_status()

    asyncio.run(charge())


def charge_by_aiohttp() -> None:
    async def charge() -> None:
        async with aiohttp.ClientSession() as session, session.post(handlers.PSP, json={"amount": 5}) as response:
            response.raise_for_status()

    asyncio.run(charge())


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    ("charge", "lost", "failed"),
    [
        (charge_by_httpx, httpx.ReadTimeout, httpx.HTTPStatusError),
        (charge_by_async_httpx, httpx.ReadTimeout, httpx.HTTPStatusError),
        (charge_by_aiohttp, aiohttp.ServerTimeoutError, aiohttp.ClientResponseError),
    ],
)
def test_a_lost_answer_and_an_error_are_raised_as_the_library_raises_them(
    charge: Callable[[], None], lost: type[Exception], failed: type[Exception]
) -> None:
    raised: list[type[Exception]] = []

    def handler(event: Any, context: Any) -> None:
        try:
            charge()
        except Exception as error:
            raised.append(type(error))

    for schedule in ("none", "u1", "e1"):
        replay([PlainFunction("orders", handler)], [ORDER], schedule, outside=PAID)
    assert raised == [lost, failed]


class Elsewhere:
    """The points of a thread in which no invocation runs. Nothing of it is to be counted."""

    worker = None

    def is_inside(self) -> bool:
        return False


class Reached(Exception):
    """The library's own way out was taken."""


def reached(*_: Any, **__: Any) -> None:
    raise Reached


async def reached_later(*_: Any, **__: Any) -> None:
    raise Reached


@pytest.mark.parametrize("charge", [charge_by_httpx, charge_by_async_httpx, charge_by_aiohttp])
def test_what_no_invocation_sends_goes_the_librarys_own_way(
    charge: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", reached)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", reached_later)
    monkeypatch.setattr(aiohttp.TCPConnector, "_create_connection", reached_later)
    nobody, world = cast("Points", Elsewhere()), OutsideWorld(PAID)
    with (
        changed_when_imported({"httpx": answered_httpx(nobody, world), "aiohttp": answered_aiohttp(nobody, world)}),
        pytest.raises(Reached),
    ):
        charge()

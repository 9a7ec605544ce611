"""In a function that logs JSON a line goes straight to standard output, as Lambda's own handler would write it."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from flowguard import Settings, lambda_handler
from flowguard.aws.services import aws_services
from flowguard.events import Event, EventType, log
from flowguard.testing import FakeContext
from flowguard.text import lambda_log
from tests.aws.engines import on_memory
from tests.lambda_runtime import REQUEST_ID, TENANT_ID, lambda_logging
from tests.proofs.bench.flow import OneStage, a_cart, a_request
from tests.test_events import MESSAGE

LOGGER = logging.getLogger("flowguard")
COMPLETED = Event(EventType.COMPLETED, MESSAGE, {"epoch": 5})


@pytest.fixture(autouse=True)
def _of_no_invocation() -> None:
    lambda_log._invocation.cache_clear()
    lambda_log.begin(None)


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def records(patch: pytest.MonkeyPatch) -> list[logging.LogRecord]:
    """What is made a record of."""
    made: list[logging.LogRecord] = []
    patch.setattr(LOGGER, "handle", made.append)
    return made


def test_the_line_is_the_one_that_lambdas_handler_would_write(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = dict.fromkeys(("name", "asctime", *lambda_log.OWN), "x")
    event = COMPLETED._replace(facts={**taken, "epoch": 5, "of": "a\x1b\ud800\u2028\nb" * 400})
    lambda_log.begin(SimpleNamespace(aws_request_id=REQUEST_ID, tenant_id=TENANT_ID))
    with lambda_logging():
        log(event)
        monkeypatch.setattr(lambda_log, "takes_all", lambda *_: False)
        log(event)
    direct, by_handler = printed(capsys)
    for line in (direct, by_handler):
        age = datetime.now(UTC) - datetime.fromisoformat(line.pop("timestamp"))
        assert timedelta(0) <= age < timedelta(minutes=1)
    assert direct == by_handler
    assert direct["message"] == "flowguard completed"
    assert direct["level_"] == "x"


def test_no_record_is_made_of_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made = records(monkeypatch)
    with lambda_logging():
        log(COMPLETED)
    (line,) = printed(capsys)
    assert (line["event"], line["level"], made) == ("completed", "INFO", [])


@pytest.mark.parametrize(("event", "lines"), [(EventType.CLAIMED, 0), (EventType.COMPLETED, 1), (EventType.FAILED, 1)])
def test_the_level_of_the_function_holds(event: EventType, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    with lambda_logging(logging.INFO):
        log(Event(event, MESSAGE))
    assert len(printed(capsys)) == lines


@pytest.mark.parametrize("event", [EventType.RETRIED, EventType.FAILED])
def test_what_is_above_info_goes_to_lambdas_handler_which_knows_its_level(
    event: EventType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that logs from WARN on would lose a line whose level Lambda does not know: it counts as INFO."""
    made = records(monkeypatch)
    with lambda_logging():
        log(Event(event, MESSAGE))
    assert [record.getMessage() for record in made] == [f"flowguard {event.value}"]


def test_a_handler_of_the_lines_own_level_takes_it() -> None:
    with lambda_logging() as handler:
        handler.setLevel(logging.INFO)
        assert lambda_log.takes_all(LOGGER, logging.INFO)


def test_a_line_has_left_the_process_when_the_next_call_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function may be killed there."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))
    with lambda_logging():
        log(COMPLETED)
    assert written.getvalue().endswith(b"}\n")


def test_what_json_has_no_form_for_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    with lambda_logging():
        log(COMPLETED._replace(facts={"of": {1}}))
    (line,) = printed(capsys)
    assert line["of"] == "{1}"


def _formatter(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    handler.setFormatter(logging.Formatter())


def _no_formatter(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    handler.setFormatter(None)


def _filter_of_handler(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    handler.addFilter(logging.Filter())


def _level_of_handler(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    handler.setLevel(logging.ERROR)


def _another_handler(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    logging.root.addHandler(logging.NullHandler())


def _handler_instead(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    instead = logging.NullHandler()
    instead.setFormatter(handler.formatter)
    logging.root.handlers[:] = [instead]


def _no_handler(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    logging.root.removeHandler(handler)


def _handler_of_logger(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    patch.setattr(LOGGER, "handlers", [logging.NullHandler()])


def _filter_of_logger(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    patch.setattr(LOGGER, "filters", [logging.Filter()])


def _no_propagation(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    patch.setattr(LOGGER, "propagate", False)


def _factory(patch: pytest.MonkeyPatch, handler: logging.Handler) -> None:
    patch.setattr(logging, "_logRecordFactory", type("Record", (logging.LogRecord,), {}))


@pytest.mark.parametrize(
    "configure",
    [
        _formatter,
        _no_formatter,
        _filter_of_handler,
        _level_of_handler,
        _another_handler,
        _handler_instead,
        _no_handler,
        _handler_of_logger,
        _filter_of_logger,
        _no_propagation,
        _factory,
    ],
)
def test_who_configures_logging_gets_records(
    configure: Callable[[pytest.MonkeyPatch, logging.Handler], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = records(monkeypatch)
    with lambda_logging() as handler:
        assert lambda_log.takes_all(LOGGER, logging.INFO)
        configure(monkeypatch, handler)
        log(COMPLETED)
    assert [record.getMessage() for record in made] == ["flowguard completed"]
    assert printed(capsys) == []


def test_the_lines_of_an_invocation_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    """As Lambda's own lines and reports do, which say how an invocation ended."""
    event, _ = a_request(OneStage, a_cart(), request_id="r-1", requested_at=1_000)
    with on_memory() as clients, lambda_logging():
        handler = lambda_handler(OneStage).using(aws_services(Settings(), clients))
        handler(event, FakeContext(aws_request_id='5f"\n\ud800'))
        handler(event, None)
    first, *others = printed(capsys)
    assert (first["event"], first["requestId"]) == ("completed", '5f"\n\ud800')
    assert [line for line in others if "requestId" in line] == []
    assert others


class Broken(logging.Handler):
    """Lets an error through, as Lambda's own does: of a record with a fact that JSON has no form for."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def emit(self, record: logging.LogRecord) -> None:
        raise self.error


@pytest.mark.parametrize("error", [TypeError("no form"), SystemExit(1)])
def test_no_message_is_broken_by_its_log(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    event, _ = a_request(OneStage, a_cart(), request_id="r-1", requested_at=1_000)
    with on_memory() as clients, lambda_logging():
        logging.root.addHandler(Broken(error))
        handler = lambda_handler(OneStage).using(aws_services(Settings(), clients))
        assert handler(event, FakeContext()) == {"batchItemFailures": []}
    assert type(error).__name__ in capsys.readouterr().err


def test_nor_by_a_closed_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    with lambda_logging():
        log(COMPLETED)
        monkeypatch.setattr(sys, "stderr", closed)
        log(COMPLETED)


def test_a_process_that_is_being_stopped_is_stopped() -> None:
    with lambda_logging():
        logging.root.addHandler(Broken(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            log(COMPLETED)

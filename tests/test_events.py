"""What happened is told in one line each: which run, which hop, which attempt, and never a payload."""

from __future__ import annotations

import json
import logging

import pytest

from flowguard.events import Event, EventType, Tally, log
from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.message import ErrorNote, Message

SECRET = "4111-1111"
MESSAGE = Message(
    flow="validate-cart",
    stage="price-cart",
    version=1,
    object_id=ObjectId("c-1"),
    request_id=RequestId("r-1"),
    requested_at=1_000,
    body=SECRET,
    hop=2,
    retry=3,
    redrive=1,
    first_error=ErrorNote("ValueError", SECRET, 1),
)
PLACE = {
    "request_id": "r-1",
    "flow": "validate-cart",
    "stage": "price-cart",
    "hop": 2,
    "attempt": 4,
    "redrive": 1,
}

WARNINGS = {
    "given_up",
    "gone",
    "early",
    "retried",
    "key_paused",
    "refused",
    "not_sent",
    "weak_id",
    "abandoned",
    "returned",
    "unshared",
    "time_short",
    "raised",
}
DETAILS = {"claimed"}
ERRORS = {
    "parked",
    "lost",
    "failed",
    "unreadable",
    "unroutable",
    "untrusted",
    "own_table",
    "key_reused",
    "unsaved",
    "broken",
}


def lines(caplog: pytest.LogCaptureFixture, event: Event, level: int = logging.DEBUG) -> list[logging.LogRecord]:
    with caplog.at_level(level, "flowguard"):
        log(event)
    return caplog.records


def test_the_fields_say_which_message_and_what_of_it() -> None:
    assert Event(EventType.CLAIMED, MESSAGE, {"epoch": 5}).fields() == {"event": "claimed", **PLACE, "epoch": 5}


def test_what_no_message_could_be_read_from_has_its_facts_alone() -> None:
    assert Event(EventType.UNREADABLE, None, {"record": "m-1"}).fields() == {"event": "unreadable", "record": "m-1"}


def test_a_line_is_json_text(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_LAMBDA_LOG_FORMAT", raising=False)
    (line,) = lines(caplog, Event(EventType.CLAIMED, MESSAGE, {"epoch": 5, "of": ObjectId}))
    word, _, text = line.getMessage().partition(" ")
    assert word == "flowguard"
    assert json.loads(text) == {"event": "claimed", **PLACE, "epoch": 5, "of": str(ObjectId)}


def test_where_lambda_logs_json_the_fields_are_the_lines_own(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_LOG_FORMAT", "JSON")
    (line,) = lines(caplog, Event(EventType.CLAIMED, MESSAGE, {"epoch": 5}))
    assert line.getMessage() == "flowguard claimed"
    assert {name: vars(line)[name] for name in (*PLACE, "epoch", "event")} == {**PLACE, "epoch": 5, "event": "claimed"}


def test_where_lambda_logs_json_no_fact_has_the_name_of_what_each_record_has(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logging would raise, and an answer would be kept without its run going on."""
    monkeypatch.setenv("AWS_LAMBDA_LOG_FORMAT", "JSON")
    taken = dict.fromkeys(("name", "message", "asctime", "args", "exc_info", "process"), "x")
    (line,) = lines(caplog, Event(EventType.ANSWERED, None, {**taken, "verdict": "RESUMED"}))
    assert line.name == "flowguard"
    assert {name: vars(line)[f"{name}_"] for name in taken} == taken
    assert vars(line)["verdict"] == "RESUMED"


@pytest.mark.parametrize(
    ("header", "trace"),
    [
        (
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
            "1-5759e988-bd862e3fe1be46a994272793",
        ),
        ("Root=none", None),
        ("", None),
    ],
)
def test_a_line_names_the_trace_that_lambda_has_it_in(
    header: str, trace: str | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", header)
    (line,) = lines(caplog, Event(EventType.CLAIMED, MESSAGE))
    assert json.loads(line.getMessage().partition(" ")[2]).get("trace") == trace


@pytest.mark.parametrize("mode", ["JSON", "Text"])
@pytest.mark.parametrize("event", EventType)
def test_no_line_ever_shows_a_payload(
    event: EventType, mode: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_LOG_FORMAT", mode)
    (line,) = lines(caplog, Event(event, MESSAGE))
    assert SECRET not in line.getMessage()
    assert SECRET not in repr({name: value for name, value in vars(line).items() if name != "msg"})


def test_a_line_repeats_no_long_text_and_no_control() -> None:
    """A destination refuses a message for ever: each delivery tells so, and the sender chose the texts."""
    long, hostile = "x" * 250_000, "a\x1b]52;c;\x07\u202e\ud800\nb"
    about = MESSAGE._replace(request_id=RequestId(long), stage=hostile)
    fields = Event(EventType.BROKEN, about, {"why": long, "to": hostile, "epoch": 10**9, "none": None}).fields()
    cut = f"{'x' * 500}… (cut, of 250,000 characters)"
    assert (fields["why"], fields["request_id"]) == (cut, cut)
    assert fields["to"] == fields["stage"] == "a\\x1b]52;c;\\x07\\u202e\\ud800\nb"
    assert (fields["epoch"], fields["none"]) == (10**9, None)
    json.dumps(fields, ensure_ascii=False).encode()


@pytest.mark.parametrize("event", EventType)
def test_every_event_has_its_level(event: EventType, caplog: pytest.LogCaptureFixture) -> None:
    levels = {logging.ERROR: ERRORS, logging.WARNING: WARNINGS, logging.DEBUG: DETAILS}
    expected = next((level for level, events in levels.items() if event in events), logging.INFO)
    (line,) = lines(caplog, Event(event, MESSAGE))
    assert line.levelno == expected


def test_nothing_is_written_below_the_loggers_level(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, Event(EventType.CLAIMED, MESSAGE), logging.INFO) == []
    assert lines(caplog, Event(EventType.COMPLETED, MESSAGE), logging.WARNING) == []


# -- other observers --------------------------------------------------------------------------------------------------


def test_a_tally_counts() -> None:
    tally = Tally()
    for event in (EventType.CLAIMED, EventType.SENT, EventType.SENT):
        tally(Event(event, None))
    assert (
        tally.count(EventType.SENT),
        tally.count(EventType.CLAIMED, EventType.SENT),
        tally.count(EventType.BUSY),
    ) == (2, 3, 0)

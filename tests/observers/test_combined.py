"""Several observers watch at once, and none of them can break a message."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flowguard.errors import RunFailed
from flowguard.events import Event, EventType, Tally
from flowguard.observers.combined import combined
from flowguard.spans import Phase, Span, open_span, opens_spans
from tests.observers.watching import Broken, BrokenSpans, Swallowing, Watching

DONE = Event(EventType.DONE, None)
WAYS = ("made", "entered", "exited")


class Stopped(BaseException):
    """Ends a process, as SystemExit does."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


def test_each_observer_gets_each_event_in_the_order_in_which_they_were_given() -> None:
    told: list[tuple[str, Event]] = []
    both = combined([lambda event: told.append(("first", event)), lambda event: told.append(("second", event))])
    both(DONE)
    assert told == [("first", DONE), ("second", DONE)]


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(1), Stopped(), Mute()], ids=lambda one: type(one).__name__
)
def test_one_that_raises_is_reported_once_and_left_out(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    broken, tally = Broken(error), Tally()
    both = combined([broken, tally])
    for _ in range(3):
        both(DONE)
    assert (broken.calls, tally.count(EventType.DONE)) == (1, 3)
    (said,) = reports(caplog)
    assert said.startswith(f"the observer tests.observers.watching.Broken raised {type(error).__name__}: ")
    assert said.endswith("; it is left out until this process ends, and no message was harmed")


class Awaited:
    async def __call__(self, event: Event) -> None:
        raise AssertionError(event)


@pytest.mark.parametrize("observer", [Awaited().__call__, Awaited()])
@pytest.mark.filterwarnings("error")
def test_one_that_has_to_be_awaited_is_reported_and_left_out(observer: Any, caplog: pytest.LogCaptureFixture) -> None:
    combined([observer, tally := Tally()])(DONE)
    (said,) = reports(caplog)
    assert "raised TypeError: it is asynchronous, and nobody awaits it; it is left out until" in said
    assert tally.count(EventType.DONE) == 1


@pytest.mark.parametrize("where", WAYS)
def test_one_whose_span_raises_is_reported_once_and_left_out(where: str, caplog: pytest.LogCaptureFixture) -> None:
    broken, watching = BrokenSpans(where, ValueError("no")), Watching()
    both = combined([watching, broken])
    for _ in range(2):
        with open_span(both, Span(Phase.CLAIM)):
            both(DONE)
    assert watching.seen == ["<claim", "done", "claim>"] * 2
    assert broken.calls == 1
    assert len(reports(caplog)) == 1


def test_the_span_of_one_that_broke_within_it_is_closed_and_what_it_raises_then_is_not_told_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Both(BrokenSpans):
        def __call__(self, event: Event) -> None:
            raise self.error

    broken = Both("exited", ValueError("no"))
    several = combined([broken])
    with open_span(several, Span(Phase.CLAIM)):
        several(DONE)
    assert broken.calls == 1
    assert len(reports(caplog)) == 1


def test_a_process_that_is_being_stopped_is_stopped() -> None:
    with pytest.raises(KeyboardInterrupt):
        combined([Broken(KeyboardInterrupt())])(DONE)


def test_an_error_goes_through_the_spans_unchanged_and_breaks_none(caplog: pytest.LogCaptureFixture) -> None:
    first, last, error = Watching(), Watching(), RunFailed("no")
    with pytest.raises(RunFailed) as raised, open_span(combined([first, Swallowing(), last]), Span(Phase.HANDLE)):
        raise error
    assert raised.value is error
    assert [first.errors, last.errors] == [[error], [error]]
    assert reports(caplog) == []


def test_a_span_that_raises_the_same_error_again_is_not_left_out(caplog: pytest.LogCaptureFixture) -> None:
    class Again(Tally):
        def span(self, span: Span) -> Any:
            return self

        def __enter__(self) -> None: ...

        def __exit__(self, kind: object, error: BaseException, trace: object) -> None:
            raise error

    with pytest.raises(RunFailed), open_span(combined([Again()]), Span(Phase.HANDLE)):
        raise RunFailed("no")
    assert reports(caplog) == []


def test_an_error_is_the_one_of_the_phase_even_where_a_span_raises_another(caplog: pytest.LogCaptureFixture) -> None:
    several = combined([BrokenSpans("exited", ValueError("no"))])
    with pytest.raises(RunFailed), open_span(several, Span(Phase.HANDLE)):
        raise RunFailed("the stage")
    assert len(reports(caplog)) == 1


def test_spans_are_opened_by_those_who_open_some_and_exited_the_other_way_round() -> None:
    seen: list[str] = []

    class Named(Watching):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        @contextmanager
        def span(self, span: Span) -> Iterator[None]:
            seen.append(f"<{self.name}")
            yield
            seen.append(f"{self.name}>")

    both = combined([Named("outer"), Tally(), Named("inner")])
    with open_span(both, Span(Phase.COMMIT)):
        seen.append("-")
    assert seen == ["<outer", "<inner", "-", "inner>", "outer>"]
    assert opens_spans(both)
    assert not opens_spans(combined([Tally()]))


def test_a_report_repeats_no_long_text_and_no_control(caplog: pytest.LogCaptureFixture) -> None:
    combined([Broken(ValueError("\x1b]52;c;" + "x" * 250_000))])(DONE)
    (said,) = reports(caplog)
    assert len(said) < 1_000
    assert said.isprintable()

"""Observers are named in the environment. A name that is wrong costs what it would have shown, and nothing else."""

from __future__ import annotations

import logging
from typing import NoReturn

import pytest

from flowguard.aws.services import services_of_environment
from flowguard.client import FlowClient
from flowguard.events import Event, EventType, Tally, log
from flowguard.observers import named
from flowguard.observers.named import named_observers
from flowguard.settings import Settings

HERE = __name__
TALLY = Tally()


class Shop:
    audit = Tally()


class Unmade:
    def __init__(self) -> None:
        raise SystemExit("no")

    def __call__(self, event: Event) -> NoReturn:
        raise NotImplementedError


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


def test_logs_are_what_watches_where_nothing_is_named() -> None:
    assert named_observers(Settings().observers) is log


def test_several_are_named_with_commas_each_once() -> None:
    Shop.audit = Tally()
    names = f" {HERE}:Shop.audit,{HERE}:Shop.audit , ,"
    named_observers(names)(Event(EventType.DONE, None))
    assert Shop.audit.count(EventType.DONE) == 1


def test_a_class_is_made() -> None:
    assert named_observers("flowguard.events:Tally") is not None


def test_no_name_at_all_means_that_nothing_watches(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "flowguard"):
        named_observers("")(Event(EventType.DONE, None))
    assert caplog.records == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lgos", "'lgos', which is left out: LookupError: there is no such observer; there are logs"),
        ("shop.none:audit", "'shop.none:audit', which is left out: ModuleNotFoundError: No module named 'shop'"),
        (f"{HERE}:nobody", "AttributeError: module"),
        (f"{HERE}:HERE", "TypeError: it cannot be called, so it is no observer"),
        (f"{HERE}:Unmade", "SystemExit: no"),
        (":", "ValueError: Empty module name"),
        ("..:x", "TypeError: "),
        ("\x1b" + "x" * 10_000, "there is no such observer"),
    ],
)
def test_one_that_cannot_be_loaded_is_reported_and_left_out(
    name: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    Shop.audit = Tally()
    named_observers(f"{name},{HERE}:Shop.audit")(Event(EventType.DONE, None))
    (line,) = reports(caplog)
    assert said in line
    assert line.isprintable()
    assert len(line) < 1_500
    assert Shop.audit.count(EventType.DONE) == 1


def test_a_missing_extra_is_named_with_its_cure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(named.BUILT_IN, "xray", "flowguard_without_its_extra:XRay")
    named_observers("xray")
    assert reports(caplog)[0].endswith("; pip install 'flowguard-aws[xray]'")


def test_functions_and_clients_watch_with_what_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("FLOWGUARD_OBSERVERS", f"{HERE}:TALLY")
    services_of_environment().observer(Event(EventType.DONE, None))
    FlowClient.from_environment()._observer(Event(EventType.DONE, None))
    assert TALLY.count(EventType.DONE) == 2

"""A search that was cut off goes on with the runs in its file, and ends as one that was not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, Report, explore
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.search import runs
from flowguard.testing.explorer.search.known_runs import KnownRuns, fingerprint_of
from tests.testing.explorer import handlers, seeded

MESSAGES: Any = [sqs_event("orders", {"order_id": "o1", "amount": 5})]
FLOW, ORDERS = seeded.flow_of(seeded.PlainAdd), [seeded.Order(order_id="o1")]


def explored(file: Path | None, handler: Any = handlers.add, **about: Any) -> Report:
    tables = {"totals": "day"}
    given = {"tables": tables, "bound": 0, "walks": 0, **about}
    return replace(explore(PlainFunction("orders", handler), MESSAGES, resume=file, **given), seconds=0.0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The schedules that were run, and not taken from a file."""
    ids: list[str] = []

    def noted(sandbox: Any, schedule: Schedule) -> History:
        ids.append(schedule.id)
        return run(sandbox, schedule)

    monkeypatch.setattr(runs, "run", noted)
    return ids


def cut_after(count: int) -> Any:
    def progress(schedules: int, violations: int) -> None:
        if schedules >= count:
            raise KeyboardInterrupt

    return progress


def test_what_was_cut_off_goes_on_and_ends_as_what_was_not(tmp_path: Path, made: list[str]) -> None:
    whole = explored(None)
    every = len(made)
    cut = explored(tmp_path / "runs", progress=cut_after(6))
    assert not cut.is_complete
    made.clear()
    assert explored(tmp_path / "runs") == whole
    assert 0 < len(made) < every - 4
    made.clear()
    assert explored(tmp_path / "runs") == whole
    assert made == ["none"], "the first is always run"


def test_a_flow_goes_on_as_well(tmp_path: Path, made: list[str]) -> None:
    about: Any = {"tables": seeded.TABLES, "bound": 3, "walks": 2, "for_good": False}
    whole = explore(FLOW, ORDERS, resume=tmp_path / "runs", **about)
    made.clear()
    again = explore(FLOW, ORDERS, resume=str(tmp_path / "runs"), **about)
    assert replace(again, seconds=0.0) == replace(whole, seconds=0.0)
    assert made == ["none"]


def test_more_may_be_tried_with_what_was_run(tmp_path: Path, made: list[str]) -> None:
    explored(tmp_path / "runs", handlers.put)
    made.clear()
    more = explored(tmp_path / "runs", handlers.put, bound=3)
    assert made[:1] == ["none"]
    assert all("." in schedule or "+" in schedule for schedule in made[1:]), "pairs and twins, nothing that was run"
    assert more == explored(None, handlers.put, bound=3)


def test_a_run_that_was_not_written_to_its_end_is_made_again(tmp_path: Path, made: list[str]) -> None:
    file = tmp_path / "runs"
    whole = explored(file)
    for missing in (3, 1):
        file.write_bytes(file.read_bytes()[:-missing])
        made.clear()
        assert explored(file) == whole
        assert len(made) == 2, "the first, and the one that was cut off"


@pytest.mark.parametrize(
    "about",
    [{"handler": handlers.put}, {"seed": 1}, {"items": {"totals": [{"day": "tuesday"}]}}, {"ttl": {"totals": "until"}}],
)
def test_runs_of_something_else_are_refused_and_kept(tmp_path: Path, about: Any) -> None:
    file = tmp_path / "runs"
    explored(file, progress=cut_after(2))
    before = file.read_bytes()
    with pytest.raises(SettingsError, match="is of other code, messages or options, and was left as it is"):
        explored(file, **about)
    assert file.read_bytes() == before


def test_a_file_that_is_none_of_runs_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text("{}\n")
    with pytest.raises(SettingsError, match=r"resume: .*orders.json is no file of runs, and was left as it is"):
        explored(file)
    assert file.read_text() == "{}\n"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"resume: .*: Is a directory"):
        explored(tmp_path)
    with pytest.raises(SettingsError, match="resume: 5; name a file"):
        explored(5)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="the lines that ran are noted in no file"):
        explored(tmp_path / "runs", fail_under=50)


def test_a_run_that_cannot_be_packed_is_not_known(tmp_path: Path) -> None:
    with KnownRuns(tmp_path / "runs", "f") as known:
        known.note(("a",), History(Schedule(), 0, asked={"a": lambda: None}))  # type: ignore[dict-item]
        known.note(("b",), History(Schedule(), 0, row_keys=MappingProxyType({})))
        assert known.find(("a",)) is None
        assert known.find(("b",)) == History(Schedule(), 0, row_keys=MappingProxyType({}))


def test_equal_code_messages_and_options_have_one_fingerprint(tmp_path: Path) -> None:
    source = tmp_path / "orders.py"
    source.write_text("a")
    module = ModuleType("orders")
    module.__file__ = str(source)

    def of(version: str = "1", **about: Any) -> str:
        return fingerprint_of([module], version, about)

    first = of(stub=lambda: None, some={"b", "a"}, proxy=MappingProxyType({1: 2}))
    assert first == of(stub=lambda: None, some={"a", "b"}, proxy=MappingProxyType({1: 2})), "no address is in it"
    assert len({first, of(), of("2"), of(some={"a"})}) == 4
    source.write_text("b")
    assert of() != fingerprint_of([], "1", {})
    before = of()
    source.write_text("c")
    assert of() != before

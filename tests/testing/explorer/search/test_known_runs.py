"""A search that was cut off goes on with the runs in its file, and ends as one that was not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, Report, explore, invariant
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.search import runs
from flowguard.testing.explorer.search.known_runs import fingerprint_of
from tests.testing.explorer import handlers, seeded

MESSAGES: Any = [sqs_event("orders", {"order_id": "o1", "amount": 5})]
FLOW, ORDERS = seeded.flow_of(seeded.PlainAdd), [seeded.Order(order_id="o1")]


def explored(file: Path | None, handler: Any = handlers.put, **about: Any) -> Report:
    given = {"tables": {"orders": "order_id", "totals": "day"}, "bound": 0, "walks": 0, **about}
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
    assert not explored(tmp_path / "runs", progress=cut_after(8)).is_complete
    made.clear()
    assert explored(tmp_path / "runs") == whole
    assert 0 < len(made) < every - 4
    made.clear()
    assert explored(tmp_path / "runs") == whole
    assert set(made) == {"none"}, "what is undisturbed is run"


def test_what_broke_something_is_run_again_and_said_alike(tmp_path: Path, made: list[str]) -> None:
    whole = explored(tmp_path / "runs", handlers.add)
    broken = {violation.schedule for violation in whole.violations}
    made.clear()
    assert explored(tmp_path / "runs", handlers.add) == whole
    assert broken <= set(made)


@pytest.mark.parametrize("messages", [ORDERS, [*ORDERS, seeded.Order(order_id="o2")], ORDERS * 2])
def test_flows_go_on_as_well(tmp_path: Path, made: list[str], messages: Any) -> None:
    about: Any = {"tables": seeded.TABLES, "bound": 3, "walks": 2, "for_good": False}
    whole = explore(FLOW, messages, resume=tmp_path / "runs", **about)
    every = len(made)
    made.clear()
    again = explore(FLOW, messages, resume=str(tmp_path / "runs"), **about)
    assert replace(again, seconds=0.0) == replace(whole, seconds=0.0)
    assert len(made) < every / 2


def test_more_may_be_tried_with_what_was_run(tmp_path: Path, made: list[str]) -> None:
    explored(tmp_path / "runs")
    made.clear()
    more = explored(tmp_path / "runs", bound=3)
    assert all("." in schedule or "+" in schedule or schedule == "none" for schedule in made)
    assert more == explored(None, bound=3)


def test_a_run_that_was_not_written_to_its_end_is_made_again(tmp_path: Path, made: list[str]) -> None:
    file = tmp_path / "runs"
    whole = explored(file)
    lines = file.read_bytes()
    for missing in (3, 1):
        file.write_bytes(lines[:-missing])
        made.clear()
        assert explored(file) == whole
        assert [schedule for schedule in made if schedule != "none"] == [json.loads(lines.splitlines()[-1])["id"]]
        assert file.read_bytes() == lines


@invariant
def nothing_is_checked(view: Any) -> None:
    """An invariant."""


@pytest.mark.parametrize(
    "about",
    [
        {"handler": handlers.add},
        {"seed": 1},
        {"items": {"totals": [{"day": "tuesday"}]}},
        {"ttl": {"totals": "until"}},
        {"offload_above": 2048},
        {"free": {"orders": ["paid"]}},
        {"invariants": [nothing_is_checked]},
        {"stubs": {"ssm.GetParameter": {}}},
    ],
    ids=lambda about: next(iter(about)),
)
def test_runs_of_something_else_are_refused_and_kept(tmp_path: Path, about: dict[str, Any]) -> None:
    file = tmp_path / "runs"
    explored(file, progress=cut_after(8))
    before = file.read_bytes()
    with pytest.raises(SettingsError, match="is of other code, messages or options, and was left as it is"):
        explored(file, **about)
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", ["{}\n", "[1]\n", "no JSON\n", "no line"])
def test_a_file_that_is_none_of_runs_is_left_as_it_is(tmp_path: Path, content: str) -> None:
    file = tmp_path / "orders.json"
    file.write_text(content)
    with pytest.raises(SettingsError, match=r"resume: .*orders.json is no file of runs, and was left as it is"):
        explored(file)
    assert file.read_text() == content


@pytest.mark.parametrize("line", ["{}", "no JSON", '{"id":"d1"}', '{"id":"d1","calls":1}'])
def test_a_line_that_is_no_run_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "runs"
    explored(file, progress=cut_after(8))
    head, rest = file.read_text().split("\n", 1)
    file.write_text(f"{head}\n{line}\n{rest}")
    with pytest.raises(SettingsError, match="has no run in line 2, and was left as it is"):
        explored(file)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"resume: .*: Is a directory"):
        explored(tmp_path)
    with pytest.raises(SettingsError, match="resume: 5; name a file"):
        explored(5)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="the lines that ran are in no file"):
        explored(tmp_path / "runs", fail_under=50)


def test_equal_code_messages_and_options_have_one_fingerprint(tmp_path: Path) -> None:
    source = tmp_path / "orders.py"
    source.write_text("a")
    module = ModuleType("orders")
    module.__file__ = str(source)

    def of(version: str = "1", **about: Any) -> str:
        return fingerprint_of([module], version, about)

    def stub(say: str) -> Any:
        return {"a": lambda: 1, "b": lambda: 2}[say]

    first = of(stub=object(), some={"b", "a"}, proxy=MappingProxyType({1: 2}))
    assert first == of(stub=object(), some={"a", "b"}, proxy=MappingProxyType({1: 2})), "no address is in it"
    assert len({first, of(), of("2"), of(some={"a"}), of(f=test_what_is_no_file_is_refused), of(f=explored)}) == 6
    assert stub("a")() == 1
    before = of()
    source.write_text("c")
    assert of() != before != fingerprint_of([], "1", {})

"""A search that was cut off goes on with the runs in its file, and ends as one that was not."""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType, ModuleType
from typing import Any, Final

import pytest

from flowguard.errors import SettingsError
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, Report, explore, invariant
from flowguard.testing.explorer.record.history import History, Lack
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.search import judge, known_runs, runs, search
from flowguard.testing.explorer.search.known_runs import KnownRun, KnownRuns, fingerprint_of
from flowguard.testing.explorer.search.outcomes import read
from tests.testing.explorer import handlers, seeded

MESSAGES: Any = [sqs_event("orders", {"order_id": "o1", "amount": 5})]
NOTHING: Final = KnownRun([], [], [], [], False, "", False, None, [], None, [])
FLOW, ORDERS = seeded.flow_of(seeded.PlainAdd), [seeded.Order(order_id="o1")]


@pytest.fixture(autouse=True)
def _few_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session has a thousand modules of tests, each of them user code that every search would read and write down."""
    loaded = known_runs._loaded

    def few() -> Iterator[tuple[str, str]]:
        here = (handlers.__name__, seeded.__name__, __name__)
        return (place for place in loaded() if not place[0].startswith("tests.") or place[0] in here)

    monkeypatch.setattr(known_runs, "_loaded", few)


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


SEVERAL: Final = pytest.mark.slow("explores each order of two messages, with pairs and walks")


@pytest.mark.parametrize(
    "messages",
    [
        ORDERS,
        pytest.param([*ORDERS, seeded.Order(order_id="o2")], marks=SEVERAL),
        pytest.param(ORDERS * 2, marks=SEVERAL),
    ],
)
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


RUN: Final = {
    "calls": [["a", ""]], "reads": [["dynamodb"]], "writes": [], "uncounted": [], "kept": False, "end": "e",
    "counts": True, "asked": [[["m1"]], ["x"]], "follow_ups": ["d1"], "seconds": ["d1"], "alike": [[1, [[1, 2]]]],
}  # fmt: skip
WRONG: Final[tuple[tuple[str, Any], ...]] = (
    ("calls", 5), ("calls", [[1, 2]]), ("calls", [["a"]]), ("calls", [["a", "?"]]), ("reads", [5]), ("reads", [[5]]),
    ("writes", None), ("uncounted", [1]), ("kept", 1), ("end", []), ("counts", "yes"), ("asked", [1]),
    ("asked", [[["?"]], []]), ("asked", [[["m1"]], [1]]), ("follow_ups", 5), ("follow_ups", ["nothing"]),
    ("seconds", ["d9999"]), ("seconds", 5), ("alike", [[1, [[1, [2]]]]]), ("alike", [[0, []]]), ("more", 1),
)  # fmt: skip


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is in the file of a search that was cut off after two schedules."""
    file = tmp_path_factory.mktemp("begun") / "runs"
    explored(file, progress=cut_after(2))
    return file.read_text()


def with_line(file: Path, begun: str, line: str) -> None:
    head, rest = begun.split("\n", 1)
    file.write_text(f"{head}\n{line}\n{rest}")


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "no JSON",
        "[" * 100_000,
        '{"id":"d1"}',
        json.dumps({"id": 1, "run": RUN}),
        json.dumps({"id": "d1", "run": RUN, "more": 1}),
        '{"module":"shop","file":5,"sha256":""}',
        *(json.dumps({"id": "d1", "run": {**RUN, name: value}}) for name, value in WRONG),
    ],
)
def test_a_line_that_is_no_run_is_named(tmp_path: Path, begun: str, line: str) -> None:
    file = tmp_path / "runs"
    with_line(file, begun, line)
    with pytest.raises(SettingsError, match="has no run in line 2, and was left as it is"):
        explored(file)


def test_a_line_that_is_a_run_is_taken(tmp_path: Path, begun: str, made: list[str]) -> None:
    with_line(tmp_path / "runs", begun, json.dumps({"id": "d1", "run": {**RUN, "asked": None, "follow_ups": []}}))
    made.clear()
    explored(tmp_path / "runs")
    assert "d1" not in made


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    with KnownRuns(tmp_path / "runs", "", read) as known:
        known.note("d1", replace(NOTHING, end="\ud800"))
        known.note("d2", NOTHING)
    with KnownRuns(tmp_path / "runs", "", read) as known:
        assert (known.find("d1"), known.find("d2")) == (None, NOTHING)


def read_and_add(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        key = {"day": {"S": "monday"}}
        total = handlers.dynamodb.get_item(TableName="totals", Key=key).get("Item", {"amount": {"N": "0"}})["amount"]
        amount = str(int(total["N"]) + json.loads(record["body"])["amount"])
        handlers.dynamodb.put_item(TableName="totals", Item={**key, "amount": {"N": amount}})


TWO: Final[Any] = [*MESSAGES, sqs_event("orders", {"order_id": "o2", "amount": 5})]


@pytest.mark.slow("explores three times every order of two messages that meet in one item")
def test_what_was_compared_with_a_part_of_the_right_ends_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_two(file: Path | None) -> Report:
        plain = PlainFunction("orders", read_and_add)
        tables = {"orders": "order_id", "totals": "day"}
        return explore(plain, TWO, tables=tables, bound=0, walks=0, seconds=9999, resume=file)

    with monkeypatch.context() as short:
        short.setattr(search, "FOR_ORDERS", 0)
        assert of_two(tmp_path / "runs").unjudged
    assert of_two(tmp_path / "runs").violations == of_two(None).violations != ()


LACK: Final = Lack(Site("orders.py", 1, "add"), 1, "a table", "give it")


@pytest.mark.parametrize("about", [{}, {"at_rest": False}, {"lacks": [LACK]}], ids=["all", "at rest", "lacks"])
def test_what_was_not_compared_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, about: dict[str, Any]
) -> None:
    def changed(sandbox: Any, schedule: Schedule) -> History:
        return replace(run(sandbox, schedule), **about if schedule.id == "d1" else {})

    monkeypatch.setattr(runs, "run", changed)
    monkeypatch.setattr(judge, "broken", lambda *about: ())
    explored(tmp_path / "runs")
    noted = [json.loads(line).get("id") for line in (tmp_path / "runs").read_text().splitlines()]
    assert ("d1" in noted) == (about == {})


@pytest.mark.slow("explores every order of two messages that meet in one item")
def test_runs_of_which_no_end_is_compared_are_taken(tmp_path: Path, made: list[str]) -> None:
    def of_two() -> int:
        plain = PlainFunction("orders", read_and_add)
        tables = {"orders": "order_id", "totals": "day"}
        made.clear()
        explore(plain, TWO, tables=tables, bound=0, walks=0, resume=tmp_path / "runs", invariants_only=True)
        return len(made)

    assert of_two() > 10
    assert of_two() < 5


def loaded_from(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("late")
    module.__file__ = str(file)
    file.write_text("")
    monkeypatch.setitem(sys.modules, "late", module)


def test_what_a_run_loads_is_named_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KnownRuns(tmp_path / "runs", "", read) as known:
        loaded_from(tmp_path / "late.py", monkeypatch)
        known.note("d1", NOTHING)
    *_, before, last = map(json.loads, (tmp_path / "runs").read_text().splitlines())
    assert (before["module"], before["file"], last["id"]) == ("late", str(tmp_path / "late.py"), "d1")


def test_no_run_is_taken_once_other_code_has_been_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KnownRuns(tmp_path / "runs", "", read) as known:
        loaded_from(tmp_path / "late.py", monkeypatch)
        known.note("d1", NOTHING)
    monkeypatch.delitem(sys.modules, "late")
    with KnownRuns(tmp_path / "runs", "", read) as known:
        assert known.find("d1") == NOTHING
        loaded_from(tmp_path / "other.py", monkeypatch)
        with pytest.raises(SettingsError, match="is of other code"):
            known.find("d1")


class Shop:
    """A package ``shop`` whose handler loads a module and a package by its name, each first when it runs."""

    FILES: Final[Mapping[str, str]] = {
        "shop_front.py": """
            import importlib
            from tests.testing.explorer import handlers
            def handler(event, context):
                import shop.late
                importlib.import_module("shop.named.part")
                handlers.put(event, context)
            """,
        "shop/__init__.py": "",
        "shop/late.py": "",
        "shop/named/__init__.py": "",
        "shop/named/part.py": "",
        "shop_rules.py": """
            from flowguard.testing.explorer import invariant
            LEAST = 0
            @invariant
            def is_right(view):
                assert LEAST == 0
            """,
    }

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self) -> None:
        for name, source in self.FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(dedent(source))

    def explored(self, file: Path, **about: Any) -> Report:
        """Explore in what looks like a new process."""
        for name in [name for name in sys.modules if name.partition(".")[0] in {"shop", "shop_front", "shop_rules"}]:
            del sys.modules[name]
        importlib.invalidate_caches()
        front, rules = map(importlib.import_module, ("shop_front", "shop_rules"))
        return explored(file, front.handler, invariants=[rules.is_right], **about)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path / "src")
        there = Shop(tmp_path / "src")
        there.write()
        yield there
    for name in [name for name in sys.modules if name.partition(".")[0] in {"shop", "shop_front", "shop_rules"}]:
        del sys.modules[name]


@pytest.mark.parametrize("name", Shop.FILES)
@pytest.mark.parametrize("is_gone", [False, True])
def test_all_code_that_was_loaded_has_to_be_as_it_was(tmp_path: Path, shop: Shop, name: str, *, is_gone: bool) -> None:
    file = tmp_path / "runs"
    shop.explored(file, progress=cut_after(8))
    before = file.read_bytes()
    assert shop.explored(file, progress=cut_after(2)).schedules == 2
    assert file.read_bytes() == before
    handler = importlib.import_module("shop_front").handler
    rule = importlib.import_module("shop_rules").is_right
    (shop.root / name).unlink() if is_gone else (shop.root / name).write_text("LEAST = 1")
    with pytest.raises(SettingsError, match="is of other code, messages or options, and was left as it is"):
        explored(file, handler, invariants=[rule])
    assert file.read_bytes() == before


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_module_has_to_come_from_the_same_file(
    tmp_path: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch, *, is_loaded: bool
) -> None:
    file = tmp_path / "runs"
    shop.explored(file, progress=cut_after(8))
    before = file.read_bytes()
    other = Shop(tmp_path / "other")
    other.write()
    (other.root / "shop_front.py").unlink()
    (other.root / "shop_rules.py").unlink()
    monkeypatch.syspath_prepend(other.root)
    if is_loaded:
        forgotten = [name for name in sys.modules if name.partition(".")[0] == "shop"]
        for name in forgotten:
            del sys.modules[name]
        importlib.import_module("shop")
        front, rules = map(importlib.import_module, ("shop_front", "shop_rules"))
        with pytest.raises(SettingsError, match="is of other code"):
            explored(file, front.handler, invariants=[rules.is_right])
    else:
        with pytest.raises(SettingsError, match="is of other code"):
            shop.explored(file)
    assert file.read_bytes() == before


def test_code_in_an_archive_is_that_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("zipped")
    module.__file__ = str(tmp_path / "shop.zip" / "zipped.py")
    (tmp_path / "shop.zip").write_bytes(b"1")
    monkeypatch.setitem(sys.modules, "zipped", module)
    for _ in range(2):
        with KnownRuns(tmp_path / "runs", "", read):
            assert str(tmp_path / "shop.zip") in (tmp_path / "runs").read_text()
    (tmp_path / "shop.zip").write_bytes(b"2")
    with pytest.raises(SettingsError, match="is of other code"), KnownRuns(tmp_path / "runs", "", read):
        pass


def test_code_of_which_no_file_was_there_is_never_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("vanished")
    module.__file__ = str(tmp_path / "vanished.py")
    monkeypatch.setitem(sys.modules, "vanished", module)
    with KnownRuns(tmp_path / "runs", "", read):
        pass
    with pytest.raises(SettingsError, match="is of other code"), KnownRuns(tmp_path / "runs", "", read):
        pass


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for none in (tmp_path, tmp_path / "fifo", Path("/dev/null")):
        with pytest.raises(SettingsError, match=f"resume: {none} is no regular file"):
            explored(none)
    with pytest.raises(SettingsError, match=r"resume: .*: No such file or directory"):
        explored(tmp_path / "none" / "runs")
    with pytest.raises(SettingsError, match="resume: 5; name a file"):
        explored(5)  # type: ignore[arg-type]  # no path
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
    assert before != fingerprint_of([], "1", {})
    source.write_text("c")
    assert of() == before, "the user's code has lines of its own"
    (tmp_path / "site-packages").mkdir()
    installed = tmp_path / "site-packages" / "orders.py"
    module.__file__ = str(installed)
    installed.write_text("a")
    before = of()
    installed.write_text("c")
    assert of() != before, "installed code has none"


def test_the_same_code_in_another_directory_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        loaded_from(tmp_path / name / "late.py", monkeypatch)
        with KnownRuns(tmp_path / "runs", "", read) as known:
            if name == "there":
                assert known.find("d1") == NOTHING
            else:
                known.note("d1", NOTHING)
    assert '"file":"late.py"' in (tmp_path / "runs").read_text()


class FullDisk(io.StringIO):
    """A file that takes nothing any more."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        if not self.closed:
            super().close()
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_ends_no_search(tmp_path: Path) -> None:
    whole = explored(None)
    file = tmp_path / "runs"

    def full(schedules: int, violations: int) -> None:
        if schedules == 3:
            known[0]._file.close()
            known[0]._file = FullDisk()

    known: list[Any] = []
    begin = KnownRuns.__enter__

    def entered(self: KnownRuns) -> KnownRuns:
        known.append(self)
        return begin(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(KnownRuns, "__enter__", entered)
        report = explored(file, progress=full)
    assert replace(report, unwritten="") == whole
    assert report.unwritten == f"{file}: No space left on device"
    assert f"not written, the runs from then on: {report.unwritten}" in report.summary()
    assert report.as_json()["unwritten"] == report.unwritten
    assert explored(file) == whole, "what was written is taken"


def test_a_search_whose_file_takes_nothing_from_the_beginning_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(path: Path, mode: str = "r", *about: Any, **more: Any) -> Any:
        return FullDisk() if mode == "a" else opened(path, mode, *about, **more)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(SettingsError, match=r"resume: .*: No space left on device"):
        explored(tmp_path / "runs")

"""The older code in one process with the newer one: each finds its own modules under their names."""

from __future__ import annotations

import importlib
import json
import py_compile
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.testing import Report, explore, replay
from flowguard.testing.explorer.checks.problem import STATE
from flowguard.testing.explorer.run import code_places, old_code
from flowguard.testing.explorer.run.old_code import OldCode, given_code
from tests.testing.explorer import releases
from tests.testing.explorer.releases import Order, Priced, billing, orders

FLOW = """
import mark_names
from pydantic import BaseModel
from flowguard import Done, Flow, Outcome, Stage, Step
TABLES = {"marks": "order_id"}
SEEN = []
class Order(BaseModel):
    order_id: str
class Price(Stage[Order], name="price", then="mark", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Mark.message(order)
class Mark(Stage[Order], name="mark"):
    def handle(self, order: Order, step: Step) -> Outcome:
        import late_mark
        step.put("marks", {"order_id": order.order_id, "by": mark_names.BY, "late": late_mark.BY})
        return Done()
class Marked(Flow, name="marked", object_id="order_id"):
    stages = (Price, Mark)
"""
NAMES = ("marked", "mark_names", "late_mark")


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two versions of three modules, of which the newer one is imported."""
    for version in ("new", "old"):
        place = tmp_path / version
        place.mkdir()
        (place / "marked.py").write_text(FLOW)
        (place / "mark_names.py").write_text(f"BY = {version!r}\n")
        (place / "late_mark.py").write_text(f"BY = {version!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "new"))
    yield importlib.import_module("marked")
    for name in NAMES:
        sys.modules.pop(name, None)


def marks(new: Any, before: object, schedule: str) -> Any:
    """Return the item that a schedule leaves."""
    seen: list[Any] = []
    replay(
        new.Marked,
        [new.Order(order_id="o1")],
        schedule,
        before=before,  # type: ignore[arg-type]  # whatever a test gives
        invariants=[lambda view: seen.append(view.item("marks", order_id="o1"))],
    )
    return seen[-1]


def test_each_version_imports_its_own_modules_early_and_late(new: Any, tmp_path: Path) -> None:
    for before in (tmp_path / "old", str(tmp_path / "old")):
        assert marks(new, before, "c2") == {"order_id": "o1", "by": "new", "late": "new"}
        assert marks(new, before, "c2-1") == {"order_id": "o1", "by": "old", "late": "old"}
        assert marks(new, before, "none")["late"] == "new"


def test_a_table_may_be_of_the_older_version_alone(new: Any, tmp_path: Path) -> None:
    source = FLOW.replace('{"marks": "order_id"}', '{"marks": "order_id", "seen": {"number": "N"}}')
    put = '        step.put("seen", {"number": 1})\n        step.put('
    (tmp_path / "old" / "marked.py").write_text(source.replace("        step.put(", put))
    assert marks(new, tmp_path / "old", "c2-1")["by"] == "old"


def test_the_modules_of_the_newer_version_are_in_place_before_and_after(new: Any, tmp_path: Path) -> None:
    places = [*sys.path]
    old = OldCode(tmp_path / "old", [new.Marked])
    assert sys.modules["marked"] is new
    assert sys.path == places
    with old.imported():
        inner = sys.modules["marked"]
        assert (inner is not new, sys.modules["mark_names"].BY, sys.path[0]) == (True, "old", str(tmp_path / "old"))
        with old.imported(is_it=False):
            assert sys.modules["marked"] is new
        assert sys.modules["marked"] is inner
        with old.imported():
            assert sys.modules["marked"] is inner
    assert (sys.modules["marked"], sys.path) == (new, places)
    assert [module.__name__ for module in old.modules] == ["marked", "mark_names"]
    assert old.flows == (inner.Marked,)


def test_what_a_test_or_program_runs_in_stays_in_place(
    new: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("__main__", "pytest"):
        (tmp_path / "old" / f"{name}.py").write_text("")
    main = ModuleType("__main__")
    main.__file__ = str(tmp_path / "main.py")
    monkeypatch.setitem(sys.modules, "__main__", main)
    with OldCode(tmp_path / "old", [new.Marked]).imported():
        assert sys.modules["__main__"] is main
        assert sys.modules["pytest"] is pytest


def test_what_the_old_modules_keep_is_put_back_between_two_schedules(new: Any, tmp_path: Path) -> None:
    source = FLOW.replace("        import late_mark\n", "        import late_mark\n        SEEN.append(1)\n")
    (tmp_path / "old" / "marked.py").write_text(source.replace("late_mark.BY", "str(len(SEEN))"))
    old = OldCode(tmp_path / "old", [new.Marked])
    assert [marks(new, old, "c2-1")["late"] for _ in range(2)] == ["1", "1"]


def test_so_is_what_modules_keep_that_a_handler_imports(new: Any, tmp_path: Path) -> None:
    for version in ("new", "old"):
        (tmp_path / version / "late_mark.py").write_text(f"SEEN = []\nBY = {version!r}\n")
        flow = tmp_path / version / "marked.py"
        flow.write_text(FLOW.replace("import late_mark\n", "import late_mark\n        late_mark.SEEN.append(1)\n"))
        flow.write_text(flow.read_text().replace("late_mark.BY", "late_mark.BY + str(len(late_mark.SEEN))"))
    importlib.reload(new)
    old = OldCode(tmp_path / "old", [new.Marked])
    [violation] = explore(new.Marked, [new.Order(order_id="o1")], before=old, most=1).violations
    assert (violation.rule, violation.problems[0].where) == (STATE, "late_mark.SEEN")
    assert [marks(new, old, schedule)["late"] for schedule in ("c2-1", "c1-1", "c2", "none")] == [
        *("old1", "old1", "new1", "new1")
    ]


def test_the_digest_of_the_old_code_is_that_of_its_files(new: Any, tmp_path: Path) -> None:
    before = OldCode(tmp_path / "old", [new.Marked]).about()
    places = [str(tmp_path / "old" / f"{name}.py") for name in sorted(NAMES)]
    assert [file for file, _ in before] == [*places, "marked"]
    (tmp_path / "old" / "marked.py").write_text(FLOW + "\n# another\n")
    assert OldCode(tmp_path / "old", [new.Marked]).about() != before


@pytest.mark.slow("explores a flow by two versions")
def test_a_file_of_runs_is_of_one_older_code(new: Any, tmp_path: Path) -> None:
    def search(before: Path | None, *, rollback: bool = True) -> Report:
        about: dict[str, Any] = {"resume": tmp_path / "runs", "bound": 0, "walks": 0, "most": 1, "rollback": rollback}
        report = explore(new.Marked, [new.Order(order_id="o1")], before=before, **about)
        sys.modules.pop("late_mark", None)  # as in a process that begins
        return replace(report, seconds=0.0)

    assert search(tmp_path / "old") == search(tmp_path / "old")
    with pytest.raises(SettingsError, match="was left as it is"):
        search(None)
    with pytest.raises(SettingsError, match="was left as it is"):
        search(tmp_path / "old", rollback=False)
    (tmp_path / "old" / "marked.py").write_text(FLOW + "\n# another\n")
    with pytest.raises(SettingsError, match="was left as it is"):
        search(tmp_path / "old")


def test_a_helper_of_any_kind_is_that_of_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A package that was none before, a module of bytecode alone, and one that the older code does not have."""
    source = """
import helped_names.names, helped_bytes
try:
    import helped_more
    MORE = helped_more.BY
except ImportError:
    MORE = "none"
mark_names = helped_names.names
"""
    for version in ("new", "old"):
        names = tmp_path / version / "helped_names"
        names.mkdir(parents=True)
        (names / "names.py").write_text(f"BY = {version!r}\n")
        (names.parent / "source.txt").write_text(f"BY = {version!r}\n")
        py_compile.compile(str(names.parent / "source.txt"), cfile=str(names.parent / "helped_bytes.pyc"))
        (names.parent / "helped.py").write_text(FLOW.replace("import mark_names\n", source))
    (tmp_path / "new" / "helped_names" / "__init__.py").write_text("")
    (tmp_path / "new" / "helped_more.py").write_text("BY = 'new'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "new"))
    module: Any = importlib.import_module("helped")
    loaded = ("helped", "helped_names", "helped_names.names", "helped_bytes", "helped_more")
    request.addfinalizer(lambda: [sys.modules.pop(name, None) for name in loaded])
    [flow] = OldCode(tmp_path / "old", [module.Marked]).flows
    old = flow.stages[0].handle.__globals__
    assert (old["mark_names"].BY, old["helped_bytes"].BY, old["MORE"]) == ("old", "old", "none")
    assert (module.mark_names.BY, module.helped_bytes.BY, module.MORE) == ("new", "new", "new")


@pytest.fixture
def elsewhere(new: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A second directory of imports, with a module that neither version has."""
    place = tmp_path / "libraries"
    place.mkdir()
    (place / "mark_shared.py").write_text("BY = 'shared'\n")
    monkeypatch.syspath_prepend(str(place))
    yield place
    sys.modules.pop("mark_shared", None)


@pytest.mark.parametrize("is_loaded", [True, False])
def test_old_code_imports_nothing_from_beside_it(new: Any, elsewhere: Path, tmp_path: Path, is_loaded: bool) -> None:
    if is_loaded:
        importlib.import_module("mark_shared")
    old = tmp_path / "old"
    (old / "mark_names.py").write_text("import mark_shared\nBY = mark_shared.BY\n")
    there = f"{old / 'mark_names.py'} imports mark_shared, which is {elsewhere / 'mark_shared.py'}"
    with pytest.raises(SettingsError, match=f"{re.escape(there)}: that is not of the old code; put it"):
        OldCode(old, [new.Marked])
    assert (sys.modules["marked"], str(old) in sys.path) == (new, False)


def test_nor_does_it_later(new: Any, elsewhere: Path, tmp_path: Path) -> None:
    (tmp_path / "old" / "late_mark.py").write_text("import mark_shared\nBY = mark_shared.BY\n")
    with pytest.raises(SettingsError, match="imports mark_shared, which is "):
        marks(new, tmp_path / "old", "c1-1")


@pytest.mark.parametrize(("project", "is_taken"), [("libraries", True), ("", False)])
def test_what_is_installed_in_place_is_a_library_unless_it_is_the_newer_code(
    new: Any, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: str, is_taken: bool
) -> None:
    about = tmp_path / "marks-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: marks\nVersion: 1\n")
    url = {"url": (tmp_path / project).as_uri(), "dir_info": {"editable": True}}
    (about / "direct_url.json").write_text(json.dumps(url))
    monkeypatch.syspath_prepend(str(tmp_path))
    code_places._editable.cache_clear()
    (tmp_path / "old" / "mark_names.py").write_text("import mark_shared\nBY = mark_shared.BY\n")
    with nullcontext() if is_taken else pytest.raises(SettingsError, match="imports mark_shared"):
        OldCode(tmp_path / "old", [new.Marked])
    code_places._editable.cache_clear()


def test_a_file_of_runs_is_of_all_old_code_that_may_be_imported(new: Any, tmp_path: Path) -> None:
    below = tmp_path / "old" / "deep" / "er"
    below.mkdir(parents=True)
    for name in ("late.py", "late.pyc", "no-name.py", "late.txt"):
        (below / name).write_text("BY = 1\n")
    for name in ("__pycache__", "site-packages", ".venv"):
        (below / name).mkdir()
        (below / name / "late.py").write_text("")
    old = OldCode(tmp_path / "old", [new.Marked])
    before = dict(old.about())
    assert [Path(file).name for file in before if "deep" in file] == ["late.py", "late.pyc"]
    (below / "late.py").write_text("BY = 2\n")
    assert [file for file, digest in old.about() if before[file] != digest] == [str(below / "late.py")]


def test_a_package_is_exchanged_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for version in ("new", "old"):
        place = tmp_path / version / "sold"
        place.mkdir(parents=True)
        (place / "flow.py").write_text(FLOW.replace("import mark_names", "from sold import mark_names"))
        (place / "mark_names.py").write_text(f"BY = {version!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "new"))
    module: ModuleType = importlib.import_module("sold.flow")
    request.addfinalizer(lambda: [sys.modules.pop(name, None) for name in ("sold", "sold.flow", "sold.mark_names")])
    old = OldCode(tmp_path / "old", [module.Marked])
    assert [module.__name__ for module in old.modules] == ["sold.flow", "sold.mark_names"]
    with old.imported():
        assert sys.modules["sold.mark_names"].BY == "old"
    assert sys.modules["sold.mark_names"].BY == "new"
    assert len(old.about()) == 3


def test_no_directory_no_older_code(new: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is no directory; name one with the older code"):
        OldCode(tmp_path / "none", [new.Marked])
    for directory in (tmp_path / "new", tmp_path):
        with pytest.raises(SettingsError, match="has the newer code; name one with the older code"):
            OldCode(directory, [new.Marked])
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError, match=r"in .*empty, marked:Marked: there is no module 'marked' here"):
        OldCode(tmp_path / "empty", [new.Marked])
    (tmp_path / "old" / "marked.py").write_text("1 / 0\n")
    with pytest.raises(SettingsError, match=r"marked cannot be imported: .*ZeroDivisionError"):
        OldCode(tmp_path / "old", [new.Marked])
    assert sys.modules["marked"] is new


def test_flows_of_a_library_have_no_older_code(new: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_code, "roots_of", lambda flows: frozenset())
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError, match="has no older marked; that is "):
        OldCode(tmp_path / "empty", [new.Marked])


def test_an_older_code_has_the_same_flows() -> None:
    old = orders(billing("bill"), Priced(total=5))
    with pytest.raises(SettingsError, match="the old code has orders, and the new others"):
        OldCode(old, [releases.release(*old.stages, name="others")])
    with pytest.raises(SettingsError, match="it is for flows"):
        OldCode(old, [])
    assert OldCode([old], [old]).flows == (old,)
    assert OldCode(old, [old]).modules == [releases]


@pytest.mark.parametrize("given", [3, [3], int])
def test_an_older_code_is_flows_or_a_directory(given: object) -> None:
    with pytest.raises(SettingsError, match="is no flow; give flows, or a directory with their code"):
        given_code(given)


def test_a_payload_of_both_versions_is_sent_by_the_older_one() -> None:
    old = releases.release(*orders(billing("bill"), Priced(total=5)).stages, version=1)
    new = releases.release(*old.stages, version=2, accepts=[1])
    assert replay(new, [Order(order_id="o1")], "c1-1", before=old, tables=releases.TABLES).ok

"""What modules keep: found in their names, classes and objects, and taken away while a worker is held up."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from flowguard.testing.explorer.run.late_modules import remembered_when_imported
from flowguard.testing.explorer.run.module_state import KeptValues, Memory, with_imported

SOURCE = """
import shop_shared
count, lines = 0, []

class Seen:
    ids = set()

class Buffer:
    def __init__(self):
        self.rows, self.inner = [], Inner()

class Inner:
    def __init__(self):
        self.total = 0

buffer = Buffer()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "shop_kept.py").write_text(SOURCE)
    (tmp_path / "shop_shared.py").write_text("from shop_deep import names\n")
    (tmp_path / "shop_deep.py").write_text("names = {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("shop_kept")
    for name in ("shop_kept", "shop_shared", "shop_deep"):
        sys.modules.pop(name, None)


def change(module: ModuleType) -> None:
    module.count, module.new = 1, "a"  # type: ignore[attr-defined]  # of the source above
    module.lines.append("a")
    module.Seen.ids.add("a")
    module.buffer.rows.append("a")
    module.buffer.inner.total += 1


def test_each_change_is_named_and_put_back_into_the_same_objects(module: ModuleType) -> None:
    kept, lines = KeptValues(module), module.lines
    change(module)
    assert sorted(kept.changed()) == [
        f"shop_kept.{name}" for name in ("Seen.ids", "buffer.inner.total", "buffer.rows", "count", "lines", "new")
    ]
    kept.put_back()
    assert kept.changed() == []
    assert module.lines is lines
    assert (module.count, module.lines, module.Seen.ids, module.buffer.rows) == (0, [], set(), [])
    assert not hasattr(module, "new")


def test_what_a_worker_that_is_held_up_keeps_is_its_own(module: ModuleType) -> None:
    memory = Memory([module])
    change(module)
    held = memory.take()
    assert (module.lines, module.buffer.rows, module.count) == ([], [], 0)
    module.lines.append("of another")
    others = memory.take()
    memory.give(held)
    assert (module.lines, module.Seen.ids, module.buffer.inner.total) == (["a"], {"a"}, 1)
    memory.give(others)
    assert (module.lines, module.Seen.ids) == (["of another"], set())


def test_a_module_is_looked_at_from_its_late_import_on(module: ModuleType) -> None:
    (Path(str(module.__file__)).parent / "shop_late.py").write_text("rows = []\n")
    (Path(str(module.__file__))).write_text(f"{SOURCE}\ndef handle():\n    import shop_late\n")
    memory = Memory([module])
    held = memory.take()
    with remembered_when_imported(memory):
        late = importlib.import_module("shop_late")
    sys.modules.pop("shop_late")
    late.rows.append("a")
    memory.after()
    assert list(memory.seen) == ["shop_late.rows"]
    memory.give(held)
    assert late.rows == ["a"]  # of none that was held up before
    memory.lose()
    assert late.rows == []
    assert sys.meta_path[0].__class__.__module__ != "flowguard.testing.explorer.run.late_modules"


def test_modules_that_a_module_imports_are_looked_at_too(module: ModuleType) -> None:
    assert [one.__name__ for one in with_imported([module])] == ["shop_kept", "shop_shared", "shop_deep"]

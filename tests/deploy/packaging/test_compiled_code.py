"""Compiled code is that of the very sources in the zip, or it is left out and that is said."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import cache_from_source, source_hash
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from flowguard.deploy import compiled_code
from flowguard.deploy.compiled_code import CompiledCode, compile_code
from flowguard.deploy.pip_download import LambdaPlatform, Pip
from flowguard.deploy.problems import CannotPackage
from tests.deploy.packaging.test_code_zip import Files
from tests.deploy.packaging.test_package import Shelf, pack_shelf, package, teahouse
from tests.deploy.packaging.wheels import RUNTIME, contents, write_wheel

__all__ = ["teahouse"]  # a fixture

LIBRARY, SHOP = {"tea/pot.py": b"SIZE = 1", "tea/pot.txt": b""}, {"shop.py": b"import tea.pot\nPRICE = {'a', 'b', 'c'}"}
UNCHECKED, CHECKED = 0b01, 0b11

LOADS: Final = """
import sys
from importlib.machinery import SourceFileLoader
def compiled_now(loader, data, path, **_):
    print("compiled", path.rpartition("/")[2])
    return compile(data, path, "exec")
SourceFileLoader.source_to_code = compiled_now
sys.path.insert(0, sys.argv[1])
import shop
print(sorted(shop.PRICE), shop.tea.pot.SIZE, shop.__file__ == sys.argv[1] + "/shop.py")
"""


def compiled(directory: Path, *, library: Mapping[str, bytes] = LIBRARY, shop: Mapping[str, bytes] = SHOP) -> Any:
    sources = [Files("tea 1", library), Files("shop", shop)]
    homes = {path: source for source in sources for path in source.sizes}
    directory.mkdir()
    return compile_code(homes, edited=sources[1:], directory=directory)


def unpacked(made: CompiledCode, directory: Path) -> Path:
    """Where Lambda would have unpacked the zip."""
    task = directory / "task"
    for path, content in {**LIBRARY, **SHOP, **{path: made.read(path) for path in made.sizes}}.items():
        (task / path).parent.mkdir(parents=True, exist_ok=True)
        (task / path).write_bytes(content)
    return task


def loaded(task: Path) -> list[str]:
    command = [sys.executable, "-I", "-S", "-B", "-c", LOADS, str(task)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_each_source_is_compiled_beside_it_and_nothing_else_is(tmp_path: Path) -> None:
    made = compiled(tmp_path / "a", library={**LIBRARY, "tea/template.py": b"class {{ name }}: ...", "tea/x": b"x"})
    assert list(made.sizes) == [cache_from_source("shop.py"), cache_from_source("tea/pot.py")]
    assert {path: len(made.read(path)) for path in made.sizes} == made.sizes


def test_equal_code_is_equal_bytes_and_names_no_place_of_this_machine(tmp_path: Path) -> None:
    one = compiled(tmp_path / "a")
    other = compiled(tmp_path / "elsewhere", library=dict(reversed(LIBRARY.items())))
    assert [one.read(path) for path in one.sizes] == [other.read(path) for path in one.sizes]
    assert [path for path in one.sizes if str(tmp_path).encode() in one.read(path)] == []


def test_a_function_compiles_nothing(tmp_path: Path) -> None:
    task = unpacked(compiled(tmp_path / "a"), tmp_path)
    assert loaded(task) == ["['a', 'b', 'c'] 1 True"]
    shutil.rmtree(task / "tea" / "__pycache__")
    assert loaded(task)[0] == "compiled pot.py"


def test_what_is_edited_afterwards_runs_as_edited_and_the_source_of_a_library_is_not_even_compared(
    tmp_path: Path,
) -> None:
    task = unpacked(compiled(tmp_path / "a"), tmp_path)
    (task / "shop.py").write_text("import tea.pot\nPRICE = {'d'}")
    (task / "tea" / "pot.py").write_text("SIZE = 2")
    assert loaded(task) == ["compiled shop.py", "['d'] 1 True"]


def test_where_there_is_nothing_to_compile_the_python_path_is_left_alone(tmp_path: Path) -> None:
    """compileall compiles all of that where it is given nothing."""
    assert list(compiled(tmp_path / "a", library={}).sizes) == [cache_from_source("shop.py")]


@pytest.mark.parametrize(
    ("python", "problem"),
    [
        ("exit 3", "-m compileall ended with 3"),
        ("exit 1", "-m compileall has compiled nothing"),
        (None, "cannot be run: No such file or directory"),
    ],
)
def test_a_python_that_fails_is_named_and_nothing_is_written(
    python: str | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "python"
    if python is not None:
        fake.write_text(f"#!/bin/sh\n{python}\n")
        fake.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(CannotPackage, match=f"^compiled code: {fake} {problem}; nothing was written$"):
        compiled(tmp_path / "a")


# -- in the zip


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    (folder := tmp_path / "wheels").mkdir()
    for name in ("pydantic", "tiny"):
        write_wheel(folder, name)
    return folder


@pytest.mark.slow("compiles flowguard")
def test_the_zip_has_compiled_code_of_each_source_in_it_and_none_that_was_there_before(
    teahouse: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pip, "download", lambda _, *given: Shelf(wheels).download(*given))
    stale = teahouse / cache_from_source("teahouse/flow.py")
    stale.parent.mkdir(exist_ok=True)
    stale.write_bytes(b"stale")
    said = json.loads(package("teahouse.handlers", "--options", "deploy.toml", "--json").stdout)
    files = contents(teahouse / said["zip"])
    sources = [path for path in files if path.endswith(".py")]
    assert len(sources) > 100
    assert {"teahouse/flow.py", "flowguard/handler.py", "tiny.py"} < set(sources)
    assert sorted(path for path in files if path.endswith(".pyc")) == sorted(map(cache_from_source, sources))
    for path in sources:
        head = files[cache_from_source(path)][:16]
        flags, digest = int.from_bytes(head[4:8], "little"), head[8:]
        assert digest == source_hash(files[path]), path
        assert flags == (CHECKED if path.startswith("teahouse/") else UNCHECKED), path
    [part] = [part for part in said["parts"] if part["name"] == "compiled code"]
    assert part["unpacked"] == sum(len(content) for path, content in files.items() if path.endswith(".pyc"))
    assert said["unpacked"] == sum(map(len, files.values()))
    assert [note for note in said["notes"] if "compiled" in note] == []


def test_sources_alone_are_packed_where_that_is_wanted(
    teahouse: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pip, "download", lambda _, *given: Shelf(wheels).download(*given))
    monkeypatch.setattr("flowguard.deploy.bundle.compile_code", None)
    given = ("teahouse.handlers", "--options", "deploy.toml", "--json", "--sources-only")
    said = json.loads(package(*given).stdout)
    assert [path for path in contents(teahouse / said["zip"]) if path.endswith(".pyc")] == []
    assert [note for note in said["notes"] if "compiled" in note] == []


def test_for_another_python_compiled_code_is_left_out_and_that_is_said(teahouse: Path, tmp_path: Path) -> None:
    write_wheel(tmp_path, "pydantic")
    bundle = pack_shelf(tmp_path, runtime="python3.99", compiled=True)
    assert [path for path in contents(teahouse / bundle.zip) if path.endswith(".pyc")] == []
    here = RUNTIME.removeprefix("python")
    assert bundle.notes[-1] == (
        f"compiled code is left out, so each cold start compiles what it imports: this is Python {here}, and "
        "python3.99 reads its own alone; run flowguard package on that Python"
    )


def test_another_kind_of_python_compiles_nothing_for_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = LambdaPlatform(RUNTIME, "arm64")
    assert compiled_code.why_not_compiled(platform) is None
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="pypy"))
    assert compiled_code.why_not_compiled(platform) is not None


@pytest.mark.slow("compiles flowguard")
@pytest.mark.usefixtures("teahouse")
def test_where_it_has_no_room_it_is_left_out_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheel(tmp_path, "pydantic")
    sources = pack_shelf(tmp_path).unpacked
    small = CompiledCode(tmp_path)
    monkeypatch.setattr("flowguard.deploy.bundle.compile_code", lambda *_, **__: small)
    for room, size, has_it in ((0, 1, False), (1, 1, True)):
        small.sizes = {"x.pyc": size}
        monkeypatch.setattr(CompiledCode, "read", lambda _, path: b"x")
        monkeypatch.setattr(compiled_code, "LARGEST_UNPACKED", sources + room)
        bundle = pack_shelf(tmp_path, compiled=True)
        assert ("x.pyc" in contents(bundle.zip)) is has_it
        notes = [note for note in bundle.notes if "is left out" in note]
        assert [note.partition(" unpacked, and")[2] for note in notes] == (
            [] if has_it else [f" Lambda takes at most {sources / 1024 / 1024:.1f} MB"]
        )

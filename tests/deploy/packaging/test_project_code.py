"""Which files of a project a function gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowguard.deploy.problems import CannotPackage
from flowguard.deploy.project_code import project_code
from flowguard.deploy.source_tree import SourceTree


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory from which modules are imported."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def paths_of(*modules: str, include: tuple[Path, ...] = ()) -> list[str]:
    return sorted(path for tree in project_code(modules, include=include).trees for path in tree.sizes)


def test_whole_packages_are_taken_and_what_they_import_of_the_project(project: Path) -> None:
    write(
        project, {"desk/handlers": "import prices\nfrom desk import pay", "desk/pay": "from . import x", "desk/x": ""}
    )
    write(
        project, {"prices": "import json\nfrom ledger.book import add", "ledger/book": "def add(): ...", "unused": ""}
    )
    assert paths_of("desk.handlers") == ["desk/handlers.py", "desk/pay.py", "desk/x.py", "ledger/book.py", "prices.py"]


def test_libraries_are_named_with_the_place_of_their_first_import(project: Path) -> None:
    write(
        project, {"desk": "import os\nimport flowguard, pytest\nfrom nowhere_at_all import x\nimport pytest as again"}
    )
    found = project_code(["desk"]).libraries
    assert found == {"pytest": "desk.py:2", "nowhere_at_all": "desk.py:3"}


def test_a_handler_may_be_in_what_is_installed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = project / "site-packages"
    write(installed, {"desk/__init__": "import kettle", "kettle": ""})
    monkeypatch.syspath_prepend(installed)
    assert paths_of("desk") == ["desk/__init__.py"]
    assert project_code(["desk"]).libraries == {"kettle": "desk/__init__.py:1"}


def test_what_is_imported_by_a_worked_out_name_is_included_by_hand(project: Path) -> None:
    write(project, {"desk": "__import__('plug' + 'in')", "plugin": "import deeper", "deeper": ""})
    (project / "mails").mkdir()
    (project / "mails" / "hello.txt").write_text("hello")
    assert paths_of("desk") == ["desk.py"]
    include = (project / "plugin.py", project / "mails")
    assert paths_of("desk", include=include) == ["deeper.py", "desk.py", "mails/hello.txt", "plugin.py"]
    with pytest.raises(CannotPackage, match=r"nowhere: there is no such file or directory to include"):
        paths_of("desk", include=(Path("nowhere"),))


def test_hidden_files_and_compiled_ones_are_left_out(project: Path) -> None:
    write(project, {"desk/__init__": "", "desk/broken": "def ("})
    for name in (".env", "old.pyc", "__pycache__/x.py", ".git/config", "data.json"):
        file = project / "desk" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("secret")
    assert paths_of("desk") == ["desk/__init__.py", "desk/broken.py", "desk/data.json"]


def test_links_to_files_are_followed_and_others_refused(project: Path) -> None:
    write(project, {"desk/__init__": "", "common": "x = 1"})
    (project / "desk" / "common.py").symlink_to(project / "common.py")
    tree = SourceTree(project / "desk")
    assert tree.read("desk/common.py") == b"x = 1"
    (project / "desk" / "loop").symlink_to(project / "desk")
    with pytest.raises(CannotPackage, match=r"desk/loop: a link to a directory is not followed"):
        SourceTree(project / "desk")


def test_what_is_no_file_or_is_gone_is_refused(project: Path) -> None:
    write(project, {"desk/__init__": ""})
    tree = SourceTree(project / "desk")
    (project / "desk" / "gone.py").symlink_to("nowhere")
    with pytest.raises(CannotPackage, match=r"desk/gone\.py: cannot be read: No such file"):
        SourceTree(project / "desk")
    (project / "desk" / "gone.py").unlink()
    os.mkfifo(project / "desk" / "pipe")
    with pytest.raises(CannotPackage, match=r"desk/pipe: this is a pipe or device"):
        SourceTree(project / "desk")
    (project / "desk" / "__init__.py").unlink()
    with pytest.raises(CannotPackage, match=r"desk/__init__\.py: cannot be read: No such file"):
        tree.read("desk/__init__.py")

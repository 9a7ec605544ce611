"""Which files are watched, and when a save counts."""

from __future__ import annotations

from pathlib import Path

from flowguard.dev.sources import Sources


def test_a_save_counts_once_and_when_it_is_complete(tmp_path: Path) -> None:
    flow = tmp_path / "shop" / "flow.py"
    flow.parent.mkdir()
    flow.write_text("a = 1")
    sources = Sources(tmp_path)
    assert sources.changed() == []
    flow.write_text("a =")
    assert sources.changed() == [], "the save may go on"
    flow.write_text("a = 22")
    assert sources.changed() == []
    assert sources.changed() == ["shop/flow.py"]
    assert sources.changed() == []


def test_new_and_removed_files_count(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("")
    sources = Sources(tmp_path)
    (tmp_path / "old.py").unlink()
    (tmp_path / "new.py").write_text("")
    assert sources.changed() == []
    assert sources.changed() == ["new.py", "old.py"]


def test_what_is_no_source_of_the_project_is_not_watched(tmp_path: Path) -> None:
    for place in (".git", "node_modules", "__pycache__", "env", "env/lib"):
        (tmp_path / place).mkdir()
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    sources = Sources(tmp_path)
    for place in (".git", "node_modules", "__pycache__", "env", "env/lib"):
        (tmp_path / place / "new.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert [sources.changed(), sources.changed()] == [[], []]


def test_a_file_of_options_is_watched_too(tmp_path: Path) -> None:
    options = tmp_path / "deploy.toml"
    options.write_text("")
    sources = Sources(tmp_path, options)
    options.write_text("oldest_message = 60")
    assert [sources.changed(), sources.changed()] == [[], ["deploy.toml"]]

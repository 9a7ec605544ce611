"""What a project says that it depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowguard.deploy.problems import CannotPackage
from flowguard.deploy.requirements import requirements_of


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_requirements_txt_comes_before_pyproject_toml_and_a_given_file_before_both(tmp_path: Path) -> None:
    assert requirements_of(None, directory=tmp_path).lines == ()
    written(tmp_path, "pyproject.toml", '[project]\nname = "a"\ndependencies = ["tiny>=1", "other==2"]\n')
    of_project = requirements_of(None, directory=tmp_path)
    assert (of_project.origin, of_project.lines, of_project.file) == ("pyproject.toml", ("tiny>=1", "other==2"), None)
    assert of_project.pinned == {"other"}
    file = written(tmp_path, "requirements.txt", "tiny\n")
    assert requirements_of(None, directory=tmp_path).file == file
    given = written(tmp_path, "functions.lock", "tiny==1.0 --hash=sha256:00\n")
    assert requirements_of(given, directory=tmp_path).file == given


def test_what_is_pinned_is_read_as_pip_reads_it(tmp_path: Path) -> None:
    pins = "A.b_C==1.0\nplain\nmore>=1\nwild==1.*\nextra[x,y] === 2.0 ; python_version > '3'\nc == 1 # why\n"
    pins += "hashed==1 --hash=sha256:00\nlong==1 \\\n  --hash=sha256:00\ntwo==1,>0\n"
    read = requirements_of(written(tmp_path, "requirements.txt", pins), directory=tmp_path)
    assert read.pinned == {"a-b-c", "extra", "c", "hashed", "long"}
    assert read.hashed
    assert read.names("wild")
    assert not read.names("flowguard")


def test_files_that_a_file_names_are_read_too_and_none_twice(tmp_path: Path) -> None:
    file = written(tmp_path, "requirements.txt", "-r more.txt\n-c pins.txt\n-r nowhere.txt\ntiny\n")
    written(tmp_path, "more.txt", "--requirement requirements.txt\nother==1\n")
    written(tmp_path, "pins.txt", "tiny==1.0\n")
    assert requirements_of(file, directory=tmp_path).pinned == {"tiny", "other"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[project]\ndependencies = ["--index-url=https://elsewhere"]\n', "'--index-url=https://elsewhere' is no"),
        ('[project]\ndependencies = ["tiny\\n--pre"]\n', r"'tiny\\n--pre' is no requirement"),
        ('[project]\ndependencies = [""]\n', "'' is no requirement"),
        ("[project]\ndependencies = 3\n", "project.dependencies is not a list of texts"),
        ("[project]\ndependencies = [3]\n", "project.dependencies is not a list of texts"),
        ("project = 3\n", "project.dependencies is not a list of texts"),
        ("[", "cannot be read"),
    ],
)
def test_a_project_that_is_wrong_is_refused(text: str, told: str, tmp_path: Path) -> None:
    written(tmp_path, "pyproject.toml", text)
    with pytest.raises(CannotPackage, match=told.replace("[", r"\[")):
        requirements_of(None, directory=tmp_path)


def test_a_file_that_is_not_there_or_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotPackage, match=r"nowhere\.txt: cannot be read"):
        requirements_of(tmp_path / "nowhere.txt", directory=tmp_path)
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CannotPackage, match=r"bytes\.txt: cannot be read"):
        requirements_of(tmp_path / "bytes.txt", directory=tmp_path)

"""``flowguard init``: a project that works as it is, in a place where nothing was."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main, new_project
from flowguard.cli.new_project import (
    FILES,
    STARTER,
    NoProject,
    flowguard_requirement,
    package_of,
    write_new,
    write_project,
)
from tests.newcomer.environment import CONSTRAINTS, ROOT, FreshEnvironment


def init(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["init", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of this environment in the project, with this flowguard."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


# -- it works


def test_each_text_becomes_a_file_and_says_the_projects_name(tmp_path: Path) -> None:
    said = init(str(tmp_path / "new" / "tea-shop"))
    assert said.exit_code == 0, said.stderr
    place = tmp_path / "new" / "tea-shop"
    there = sorted(str(one.relative_to(place)) for one in place.rglob("*") if one.is_file())
    assert there == sorted(file.replace("@package@", "tea_shop") for file in FILES)
    assert said.stdout.splitlines()[-1] == f"now: cd {place} && make test demo"
    texts = [(place / file).read_text() for file in there]
    assert [text for text in texts if "@package@" in text or "@project@" in text or "@flowguard@" in text] == []
    assert 'name = "tea-shop"' in (place / "pyproject.toml").read_text()
    assert "HANDLERS := tea_shop.handlers" in (place / "Makefile").read_text()
    assert sorted(FILES.values()) == sorted(one.name for one in STARTER.iterdir())


TOOL = '#!/bin/sh\necho "$0 $*" >> log\n{}\n'
TOO_OLD = 'test "$1" != -c'
MAKES_ONE = 'test "$2" != venv || { mkdir -p .venv/bin; cp new .venv/bin/python; }'


def made_ready(place: Path, python: str, environment: str | None = None) -> subprocess.CompletedProcess[str]:
    """Let make get the project ready by a tool that does so, beside an environment whose Python does the other."""
    write_project(place)
    texts = {"new": python} if environment is None else {"new": python, ".venv/bin/python": environment}
    for name, does in texts.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(TOOL.format(does))
        (place / name).chmod(0o755)
    command = ["make", "PYTHON=./new", ".venv/ready"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # make may run the tests
    return subprocess.run(command, cwd=place, env=alone, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("environment", [None, TOO_OLD], ids=["no environment", "one of an old Python"])
def test_its_environment_is_made_by_a_python_that_is_new_enough(tmp_path: Path, environment: str | None) -> None:
    done = made_ready(tmp_path / "shop", MAKES_ONE, environment)
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "shop" / "log").read_text()
    assert "./new -m venv --clear .venv\n.venv/bin/python -m pip install" in log
    assert (tmp_path / "shop" / ".venv" / "ready").is_file()


def test_its_environment_is_kept_where_its_python_is_new_enough(tmp_path: Path) -> None:
    done = made_ready(tmp_path / "shop", TOO_OLD, "")
    assert (done.returncode, " venv " in (tmp_path / "shop" / "log").read_text()) == (0, False)


@pytest.mark.parametrize("environment", [None, TOO_OLD], ids=["no environment", "one of an old Python"])
def test_an_old_python_makes_it_no_environment_and_is_told_so(tmp_path: Path, environment: str | None) -> None:
    done = made_ready(tmp_path / "shop", TOO_OLD, environment)
    assert (done.returncode, done.stdout) == (2, "")
    told = "./new is no Python 3.11 or later, which flowguard needs; name one, such as: make PYTHON=python3.13"
    assert done.stderr.splitlines()[0] == told
    assert (tmp_path / "shop" / ".venv").exists() == (environment is not None)
    assert " venv " not in (tmp_path / "shop" / "log").read_text()


def test_json_names_the_files(tmp_path: Path) -> None:
    [line] = init(str(tmp_path / "shop"), "--json").stdout.splitlines()
    assert str(tmp_path / "shop" / "shop" / "flow.py") in json.loads(line)["files"]


@pytest.mark.proof("runs the project's tests, with an exploration, and its samples")
def test_its_tests_pass_and_its_samples_run(tmp_path: Path) -> None:
    write_project(tmp_path / "corner")
    tested = run(tmp_path / "corner", "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "5 passed" in tested.stdout
    demo = ("replay", "samples", "--flow", "corner.flow:PlaceOrder", "--failing", "o-102")
    shown = run(tmp_path / "corner", "flowguard", *demo)
    assert shown.returncode == 0, shown.stderr
    assert '{"in_stock": 7, "sku": "tea"}' in shown.stdout
    assert "1 duplicates refused" in shown.stdout


@pytest.mark.proof("runs a command over whole flows")
@pytest.mark.parametrize("name", ["a", "zebra-" + "z" * 34])
def test_it_is_formatted_and_has_no_finding_whatever_its_name(name: str, tmp_path: Path) -> None:
    write_project(tmp_path / name)
    for tool in (("ruff", "check", "--no-cache", "."), ("ruff", "format", "--check", "--no-cache", ".")):
        found = run(tmp_path / name, *tool)
        assert found.returncode == 0, found.stdout
    found = run(tmp_path / name, "flowguard", "check", ".")
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.slow("writes a project and its template")
def test_its_template_is_written_without_a_note(tmp_path: Path) -> None:
    write_project(tmp_path / "stall")
    wanted = ("stall.handlers", "--options", "deploy.toml", "-o", "build/template.json")
    written = run(tmp_path / "stall", "flowguard", "iac", *wanted)
    assert (written.returncode, written.stderr) == (0, "")
    functions = (tmp_path / "stall" / "build" / "template.json").read_text()
    assert "stall.handlers.place_order" in functions
    assert "stall.handlers.killed_orders" in functions


@pytest.mark.long("runs mypy without a cache, over all that the project uses; the text of the project seldom changes")
def test_it_is_typed(tmp_path: Path) -> None:
    write_project(tmp_path / "stall")
    found = run(tmp_path / "stall", "mypy", f"--cache-dir={os.devnull}")
    assert found.returncode == 0, found.stdout


@pytest.mark.long("runs by make, in environments of its own, what the tests below and tests/newcomer run")
def test_make_installs_what_it_needs_and_the_targets_pass(tmp_path: Path) -> None:
    fresh = FreshEnvironment(tmp_path)
    fresh.install("cli")
    assert fresh.run(tmp_path, "flowguard", "init", "corner").code == 0
    corner = tmp_path / "corner"
    assert "flowguard-aws[serve,testing] @ file:" in (corner / "requirements-dev.txt").read_text()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONSTRAINT": CONSTRAINTS}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    command = [str(shutil.which("make")), f"PYTHON={sys.executable}", "test", "demo", "check", "build"]
    made = subprocess.run(command, cwd=corner, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert (corner / "build" / "functions.zip").is_file()
    assert (corner / "build" / "template.json").is_file()


class Installed:
    """What pip noted of an installation."""

    name = "flowguard-aws"
    version = "7.1"

    def __init__(self, note: str | None) -> None:
        self._note = note

    def read_text(self, file: str) -> str | None:
        assert file == "direct_url.json"
        return self._note


@pytest.mark.parametrize(
    ("note", "wanted"),
    [
        (None, "flowguard-aws[serve,testing]==7.1"),
        ('{"url": "file:///src/flowguard", "dir_info": {"editable": true}}', " @ file:///src/flowguard"),
        (
            '{"url": "https://git.example/flowguard.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}',
            " @ git+https://git.example/flowguard.git@0a1b",
        ),
    ],
)
def test_flowguard_is_wanted_from_where_this_one_is(
    note: str | None, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_project, "distribution", lambda name: Installed(note))
    assert flowguard_requirement().endswith(wanted)


# -- it hides nothing, and overwrites nothing


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("..", "a name has letters, digits"),
        ("a/b", "a name has letters, digits"),
        ("-shop", "a name has letters, digits"),
        ("shop-", "a name has letters, digits"),
        ("1shop", "a name has letters, digits"),
        ("sh op", "a name has letters, digits"),
        ("shöp", "a name has letters, digits"),
        ("", "a name has letters, digits"),
        ("s" * 41, "a name has letters, digits"),
        ("shop\n", "a name has letters, digits"),
        ("sh\x1b[2Jop", "a name has letters, digits"),
        ("sh\udc80op", "a name has letters, digits"),
        ("@package@", "a name has letters, digits"),
        ('x"; import os', "a name has letters, digits"),
        ("class", "a word of Python's own"),
        ("Match", "a word of Python's own"),
        ("json", "a module json is there already"),
        ("Flowguard", "a module flowguard is there already"),
        ("boto3", "a module boto3 is there already"),
        ("tests", "a module tests is there already"),
    ],
)
def test_a_name_that_cannot_be_a_package_is_refused(name: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(NoProject, match=told) as raised:
        write_project(tmp_path / "new", name)
    assert str(raised.value).isprintable()
    assert [*tmp_path.iterdir()] == []


def test_the_longest_name_is_taken() -> None:
    assert package_of("S" * 40) == "s" * 40


def test_a_directory_whose_name_will_not_do_takes_another(tmp_path: Path) -> None:
    assert init(str(tmp_path / "2026")).exit_code == 2
    assert init(str(tmp_path / "2026"), "--name", "shop").exit_code == 0
    assert (tmp_path / "2026" / "shop" / "flow.py").is_file()


@pytest.mark.parametrize("directory", ["", " "])
def test_a_directory_without_a_name_is_not_this_one(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["init", directory])
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "the directory has no name" in result.output


def test_the_current_directory_has_a_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corner" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "corner")
    assert init(".").exit_code == 0
    assert (tmp_path / "corner" / "corner" / "flow.py").is_file()


def files_of(place: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in place.rglob("*") if one.is_file()}


@pytest.mark.parametrize("there", ["README.md", "tests/mine.py", "shop/flow.py", ".github/mine.yml"])
def test_nothing_is_overwritten_nor_written_beside_it(there: str, tmp_path: Path) -> None:
    file = tmp_path / "shop" / there
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    said = init(str(tmp_path / "shop"))
    assert said.exit_code == 2
    assert f"{there.partition('/')[0]} is there already, and nothing is overwritten" in said.stderr
    assert files_of(tmp_path) == {str(file): b"mine"}


def test_a_link_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "shop" / "tests").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "shop" / "Makefile").symlink_to("nowhere")
    said = init(str(tmp_path / "shop"))
    assert "Makefile, tests is there already" in said.stderr
    assert files_of(tmp_path) == {}


def test_what_was_written_is_removed_when_a_file_comes_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").write_text("mine")
    with pytest.raises(NoProject, match=r"b/mine: cannot be written: File exists; nothing was written"):
        write_new(tmp_path, {"a": "1", "b/new": "2", "c/d/e": "3", "b/mine": "4", "f": "5"})
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "b", tmp_path / "b" / "mine"]
    assert files_of(tmp_path) == {str(tmp_path / "b" / "mine"): b"mine"}


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = init(str(tmp_path / "file" / "shop"))
    assert said.exit_code == 2
    assert "cannot be written: Not a directory; nothing was written" in said.stderr
    assert init("/proc/nowhere/shop").exit_code == 2

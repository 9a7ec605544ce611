"""The command line as a whole: its help, its version, its exit codes, and what it says of a module that fails."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import IO

import click
import pytest
from click.testing import CliRunner, Result

import flowguard
from flowguard.cli import COMMANDS, main
from flowguard.cli.console import console, is_terminal

ROOT = Path(__file__).parents[2]
REQUEST = str(ROOT / "samples" / "validate_cart" / "01-request.json")
OF_DLQ = ("list", "show", "redrive", "drop")
HELPS = [(), *((name,) for name in COMMANDS), *(("dlq", name) for name in OF_DLQ), ("once", "show")]


def run(*arguments: str, width: int = 80) -> Result:
    result = CliRunner().invoke(main, arguments, terminal_width=width)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# -- help and version


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("command", HELPS, ids=" ".join)
def test_each_help_fits_its_terminal_and_breaks_no_option(command: tuple[str, ...], width: int) -> None:
    result = run(*command, "--help", width=width)
    assert (result.exit_code, result.stderr) == (0, "")
    assert max(map(len, result.stdout.splitlines())) <= width
    words = set(result.stdout.split())
    found: click.Command = main
    for name in command:
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), name)
        assert inner is not None
        found = inner
    options = [name for option in found.params if isinstance(option, click.Option) for name in option.opts]
    assert [name for name in options if not {name, f"{name},"} & words] == []


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS if name != "demo")], ids=" ".join)
def test_each_help_says_the_exit_codes(command: tuple[str, ...]) -> None:
    assert "xit code" in run(*command, "--help", width=200).stdout


def test_the_version_is_the_distributions() -> None:
    assert run("--version").stdout == f"flowguard, version {version('flowguard-aws')}\n"
    assert flowguard.__version__ == version("flowguard-aws")


def test_the_version_costs_an_import_nothing() -> None:
    check = "import sys, flowguard; print('importlib.metadata' in sys.modules, flowguard.__version__)"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout == f"False {version('flowguard-aws')}\n"


def test_the_package_is_a_command_too() -> None:
    command = [sys.executable, "-m", "flowguard", "--version"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout == f"flowguard, version {version('flowguard-aws')}\n"


def completed(typed: str) -> list[str]:
    """What bash offers after this line."""
    words = f"{typed}x".split()
    words[-1] = words[-1][:-1]
    about = {"_FLOWGUARD_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-c", "from flowguard.cli import main; main(prog_name='flowguard')"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, **about})
    return [line.partition(",")[2] for line in found.stdout.splitlines()]


@pytest.mark.proof("starts a process for each completion")
def test_a_shell_completes_commands_and_options() -> None:
    assert completed("flowguard ex") == ["explore"]
    assert "--flow" in completed("flowguard replay --f")
    assert completed("flowguard dlq re") == ["redrive"]


@pytest.mark.proof("runs a command over whole flows")
@pytest.mark.parametrize(
    ("without", "arguments", "code"),
    [
        ("jinja2", ["explore", "--help"], 0),
        ("rich", ["normalize", "--help"], 0),
        ("rich", ["replay", "--help"], 2),
        ("boto3", ["dlq", "--help"], 2),
        ("boto3", ["check", "--help"], 0),
        ("rich", ["check", "--help"], 0),
        ("rich", ["doctor", "--help"], 2),
        ("moto", ["iac", "flows.orders.handlers"], 0),
        ("moto", ["replay", REQUEST], 2),
    ],
)
def test_a_command_that_misses_a_library_says_which_extras_have_it(
    without: str, arguments: list[str], code: int
) -> None:
    check = f"import sys; sys.modules[{without!r}] = None; from flowguard.cli import main; main({arguments!r})"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == code
    assert "Traceback" not in found.stderr
    assert ("pip install 'flowguard-aws[" in found.stderr) is (code == 2)


# -- a user's module that cannot be imported


def loading(tmp_path: Path) -> list[tuple[str, ...]]:
    """Every command that loads a flow, for a flow of the module ``broken_shop``."""
    file = tmp_path / "order.json"
    file.write_text('{"order_id": "o1"}')
    return [
        ("replay", str(file), "--flow", "broken_shop:Shop"),
        ("explore", str(file), "--flow", "broken_shop:Shop"),
        ("explore", "broken_shop:Shop", "--messages", str(file)),
        *(("dlq", name, "dead", *rest, "--flow-class", "broken_shop:Shop") for name, rest in (
            ("list", ()), ("show", ("id",)), ("redrive", ("--all",)), ("drop", ("--all",))
        )),
    ]  # fmt: skip


BROKEN = {
    "a missing library": ("import json\nimport stripe_api\n", 2, "ModuleNotFoundError: No module named 'stripe_api'"),
    "a wrong name": ("from flowguard import Flaw\n", 1, "ImportError: cannot import name 'Flaw'"),
    "a syntax error": ("x = 1\n\nclass Shop(\n", 3, "SyntaxError: '(' was never closed"),
    "an error": ("def made():\n    return 1 / 0\n\nmade()\n", 2, "ZeroDivisionError: division by zero"),
    "an exit": ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
    "a wrong definition": (
        "from flowguard import Stage\nclass Take(Stage[dict], name='take', timeout=3):\n"
        "    def handle(self, order, step): ...\n",
        2,
        "DefinitionError: stage Take is not well defined:",
    ),
}


@pytest.mark.parametrize(("source", "line", "problem"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("command", range(7))
def test_a_module_that_cannot_be_imported_is_named_with_its_line(
    command: int, source: str, line: int, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broken_shop.py"
    file.write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name == "broken_shop"]:
        monkeypatch.delitem(sys.modules, name)
    result = run(*loading(tmp_path)[command])
    assert (result.exit_code, result.stdout) == (2, "")
    said = " ".join(result.stderr.split())
    assert f"broken_shop:Shop: broken_shop cannot be imported: {file}:{line}: {problem}" in said
    assert "Traceback" not in said


# -- exit codes


def test_an_empty_directory_is_named_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "one.json").write_text("{}")
    for arguments in (
        ("replay", str(tmp_path)),
        ("explore", str(tmp_path), "--flow", "flows.validate_cart.flow:ValidateCart"),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{tmp_path}: no *.json is in this directory, nor below it" in result.stderr


USAGES: list[tuple[tuple[str, ...], str]] = [
    (("nonsense",), "No such command 'nonsense'"),
    (("replay",), "Missing argument 'FILE...'"),
    (("replay", REQUEST, "--crash", "never"), "'never' is not one of"),
    (("replay", "nowhere.json"), "nowhere.json: No such file or directory"),
    (("replay", REQUEST, "--flow", "flows"), "flows: write MODULE:FLOW"),
    (("replay", REQUEST, "--flow", "nowhere.shop:Shop"), "there is no module 'nowhere' here"),
    (("normalize", "nowhere.json"), "nowhere.json: No such file or directory"),
    (("explore", REQUEST), "say what is explored: --flow MODULE:NAME"),
    (("explore", "--flow", "flows.validate_cart.flow:ValidateCart"), "Missing argument 'FILE...'"),
    (
        ("explore", REQUEST, "--flow", "flows.validate_cart.flow:ValidateCart", "--messages", REQUEST),
        "give each FILE as an argument beside --flow",
    ),
    (
        ("explore", "nowhere.json", "--flow", "flows.validate_cart.flow:ValidateCart"),
        "FILE: nowhere.json: No such file",
    ),
    (("dlq",), "dlq [OPTIONS] COMMAND"),
    (("dlq", "redrive", "dead"), "name the letters by their message ids, or say --all"),
    (("dlq", "list", "dead", "--older-than", "soon"), "'soon' is no time; write 90s, 15m, 1h or 2d"),
]


@pytest.mark.parametrize(("arguments", "problem"), USAGES, ids=[" ".join(arguments)[-40:] for arguments, _ in USAGES])
def test_every_error_of_usage_ends_with_2(
    arguments: tuple[str, ...], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    result = run(*arguments, width=200)
    assert result.exit_code == 2
    assert problem in result.stderr


def test_an_exploration_takes_files_and_flows_as_a_replay_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name = "flows.validate_cart.flow:ValidateCart"
    least = ("--bound", "0", "--walks", "0", "--schedule", "none")
    new = run("explore", REQUEST, "--flow", name, *least)
    old = run("explore", name, "--messages", REQUEST, *least)
    assert (new.exit_code, new.stderr) == (0, "")
    assert (old.exit_code, old.stdout) == (0, new.stdout)
    assert "The older form" in " ".join(run("explore", "--help").stdout.split())


# -- a table in a terminal and in a pipe


@pytest.mark.slow("replays samples in every form")
@pytest.mark.parametrize("width", [60, 80, 120, None])
def test_a_replay_breaks_no_identifier(width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if width is not None:
        monkeypatch.setattr("flowguard.cli.console.is_terminal", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
    result = run("replay", REQUEST)
    assert result.exit_code == 0
    printed = click.unstyle(result.stdout).partition("\ntable ")[0].splitlines()
    words = " ".join(printed).split()
    for name in ("price-cart", "check-cart", "confirm-cart", "cart-2001", "validate-cart", "carts-to-confirm"):
        assert name in words
    assert max(map(len, printed)) <= (width or 1_000)
    if width is None:  # columns are kept, for programs
        heading, first, *_ = printed
        assert heading.index("stage") == first.index("price-cart")


@pytest.mark.parametrize(
    ("arguments", "formats"),
    [
        (("check", "--sarif", "--json", __file__), "--json and --sarif"),
        (("iac", "flows.validate_cart.handlers", "--json", "--format", "sam"), "--format and --json"),
        (("iac", "flows.validate_cart.handlers", "--json", "--format", "cloudformation"), "--format and --json"),
        (("graph", "flows.validate_cart.flow:ValidateCart", "--format", "dot", "--json"), "--format and --json"),
    ],
    ids=["check", "iac", "iac by default", "graph"],
)
def test_two_formats_are_refused(arguments: tuple[str, ...], formats: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{formats} are two formats; give one of them" in result.stderr


def test_one_format_said_in_two_ways_is_no_mistake() -> None:
    flow = "flows.validate_cart.flow:ValidateCart"
    assert run("graph", flow, "--format", "json", "--json").stdout == run("graph", flow, "--json").stdout


@pytest.mark.proof("runs a command over whole flows")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk here")
@pytest.mark.parametrize("arguments", [("normalize", "samples/validate_cart/01-request.json"), ("check", "flows")])
def test_a_full_disk_is_said_in_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = flowguard_to(full, *arguments)
    assert (done.returncode, done.stderr) == (2, "Error: the output cannot be written: No space left on device\n")


@pytest.mark.proof("runs a command over whole flows")
def test_a_closed_standard_output_changes_no_end() -> None:
    closed = "exec >&-; exec " + shlex.join([sys.executable, "-m", "flowguard", "check", "flows"])
    done = subprocess.run(["/bin/sh", "-c", closed], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_standard_output_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert not is_terminal()
    console().print("nobody reads this")


def flowguard_to(opened: IO[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flowguard", *arguments]
    return subprocess.run(command, stdout=opened, stderr=subprocess.PIPE, text=True, check=False)

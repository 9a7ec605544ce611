"""The docs are run like code. Of every page:

``python``   blocks are executed in their order, in one namespace. A ``text`` block right after one is what it prints.
``console``  blocks: each line that starts with ``$ `` is run by bash, and the lines after it are what it prints. There
             ``…`` or ``...`` matches any text, on a line of its own any lines. A command that fails fails the test,
             whether or not its output is shown.
``json``     blocks are JSON.
``sh``       blocks are not run; the make targets in them exist. Other blocks, such as drawings, are left alone.

All run in the repository's root. What must not be run says ``norun`` after the language, and why in a comment above it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from flowguard import Settings
from flowguard.cli import main

ROOT = Path(__file__).parents[1]
WHERE = ("README.md", "docs/**/*.md", "flows/*/README.md", "samples/**/README.md")
PAGES = sorted(page for pattern in WHERE for page in ROOT.glob(pattern))
RUN = {"python", "console"}
NORUN = "norun"
LONGEST = 120  # seconds for one command
WITH_MOTO = "each command is a process with moto in it"
AGAIN = "commands as in docs/guides/replay.md, each a process with moto in it"
LONG = {
    "docs/guides/async-handlers.md": pytest.mark.proof("runs flows on the AWS in memory"),
    "docs/guides/ai-steps.md": pytest.mark.proof("replays a flow with an agent"),
    "docs/explain/comparison.md": pytest.mark.long(
        "the same business in several forms under every fault, as in tests/proofs/compare"
    ),
    "docs/guides/prove-your-flow.md": pytest.mark.long(
        "explores five flows for a minute, as prove-any-handler.md does a handler and tests/cli/test_explore.py a flow"
    ),
    "docs/guides/check-your-handlers.md": pytest.mark.slow("checks handlers, and explores them"),
    "docs/guides/groups.md": pytest.mark.slow("runs a group of hundreds of requests"),
    "docs/guides/collect.md": pytest.mark.proof("explores three flows"),
    "docs/guides/sagas.md": pytest.mark.proof("explores a flow"),
    "docs/guides/streams.md": pytest.mark.slow("works off records of each source"),
    "docs/guides/without-a-flow.md": pytest.mark.slow("runs functions under once, and explores them"),
    "docs/operate/command-line.md": pytest.mark.slow("runs each command"),
    "docs/proofs/model.md": pytest.mark.slow("explores small worlds"),
    "docs/start/choosing.md": pytest.mark.slow("runs a flow in each way"),
    "docs/start/develop-locally.md": pytest.mark.slow("runs a flow on an engine"),
    "docs/guides/your-own-infrastructure.md": pytest.mark.proof("writes each kind of template, in processes"),
    "docs/RELEASING.md": pytest.mark.long("builds what is published, as tests/test_release.py does"),
    "docs/operate/deploy.md": pytest.mark.proof("writes templates and a package, in processes"),
    "docs/operate/security.md": pytest.mark.proof("writes templates, in processes"),
    "docs/guides/replay.md": pytest.mark.proof(WITH_MOTO),
    "docs/start/from-powertools.md": pytest.mark.slow("loads Powertools and an engine"),
    "docs/guides/prove-any-handler.md": pytest.mark.proof("explores a handler, before and after its fix"),
    "docs/operate/dead-letters.md": pytest.mark.proof(WITH_MOTO),
    "docs/start/quick-start.md": pytest.mark.proof(WITH_MOTO),
    "docs/explain/when-a-stage-fails.md": pytest.mark.proof(WITH_MOTO),
    "flows/answer_ticket/README.md": pytest.mark.long(AGAIN),
    "flows/appointments/README.md": pytest.mark.long(AGAIN),
    "flows/approval/README.md": pytest.mark.long(f"{AGAIN}, and an exploration as in tests/flows/test_explored.py"),
    "flows/nightly_recount/README.md": pytest.mark.long(AGAIN),
    "flows/orders/README.md": pytest.mark.long(AGAIN),
    "flows/page_cache/README.md": pytest.mark.long(AGAIN),
    "flows/take_payment/README.md": pytest.mark.long(AGAIN),
    "flows/triggered_cache/README.md": pytest.mark.long(AGAIN),
    "flows/validate_cart/README.md": pytest.mark.long(AGAIN),
    "samples/failures/README.md": pytest.mark.long("commands as in replay.md, on samples of tests/cli/test_replay.py"),
}
"""Pages whose blocks take more than a second of CPU, and why."""


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# -- reading a page ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """``line`` is that of its first fence, ``end`` that of its last; ``comment`` is the HTML comment just above."""

    page: Path
    line: int
    end: int
    language: str
    options: tuple[str, ...]
    text: str
    comment: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.language in RUN and NORUN not in self.options


_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)")


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    return tuple(read_blocks(page, page.read_text()))


def read_blocks(page: Path, text: str) -> Iterator[Block]:
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = _FENCE.fullmatch(lines[number].rstrip())
        first = number
        number += 1
        if opening is None:
            continue
        closing = re.compile(rf" *{opening['fence']}\s*")
        while number < len(lines) and not closing.fullmatch(lines[number]):
            number += 1
        assert number < len(lines), f"{page.name}:{first + 1}: the block never ends"
        inner = [line.removeprefix(opening["indent"]) for line in lines[first + 1 : number]]
        language, *options = opening["info"].split() or [""]
        yield Block(
            page,
            first + 1,
            number + 1,
            language,
            tuple(options),
            "".join(f"{line}\n" for line in inner),
            _comment_above(lines[:first]),
        )
        number += 1


def _comment_above(lines: list[str]) -> str:
    found = re.search(r"<!--((?:(?!-->).)*)-->\s*\Z", "\n".join(lines), re.DOTALL)
    return found[1].strip() if found else ""


# -- running its blocks -----------------------------------------------------------------------------------------------


def run_python(block: Block, module: ModuleType) -> str:
    """What it prints. Tracebacks show the page's own lines."""
    code = compile("\n" * block.line + block.text, str(block.page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, module.__dict__)  # noqa: S102 - that is what this is for
    return printed.getvalue()


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command and what is shown of its output.

    A command goes on where a line ends with a backslash, and as long as its here-document (``<<'END'``).
    """
    lines = block.text.splitlines()
    assert lines, f"{block}: there is nothing to run"
    assert lines[0].startswith("$ "), f"{block}: a console block begins with a command: $ …"
    while lines:
        command = [lines.pop(0).removeprefix("$ ")]
        here = re.search(r"<<'(\w+)'$", command[0])
        while lines and (command[-1].endswith("\\") or (here is not None and command[-1] != here[1])):
            command.append(lines.pop(0))
        shown = []
        while lines and not lines[0].startswith("$ "):
            shown.append(lines.pop(0))
        yield "\n".join(command), "".join(f"{line}\n" for line in shown)


def run_command(command: str) -> tuple[int, str]:
    """The exit code, and all that it prints, as a terminal of 120 columns without colours shows it."""
    mine = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([mine, os.environ.get("PATH", "")]),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["bash", "-c", command],  # noqa: S607 - the reader's own bash
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=LONGEST,
        check=False,
    )
    return done.returncode, "".join(line for line in done.stdout.splitlines(keepends=True) if not is_progress(line))


def is_progress(line: str) -> bool:
    """Whether it is a line of ``flowguard explore`` that comes only where the machine is slow."""
    return line.startswith("exploring: ")


def matches(shown: str, printed: str) -> bool:
    """Whether a page's output is the real one, spaces at the ends of lines apart."""
    pattern = "".join(_line_pattern(line.strip("\n")) for line in _trimmed(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _trimmed(printed))) is not None


def _line_pattern(line: str) -> str:
    if line.strip() in {"…", "..."}:
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in re.split(r"…|\.\.\.", line)) + r"\n"


def _trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def expect(place: Block, shown: str, printed: str) -> None:
    assert matches(shown, printed), f"{place} shows\n\n{shown}\nbut what is printed is\n\n{printed}"


# -- the pages --------------------------------------------------------------------------------------------------------


def as_it_is_run(page: Path) -> Any:
    return pytest.param(page, marks=LONG.get(page_name(page), ()))


def has_run(page: Path) -> bool:
    return any(block.is_run for block in blocks(page))


@pytest.mark.parametrize("page", [as_it_is_run(page) for page in PAGES if has_run(page)], ids=page_name)
def test_every_block_runs_and_prints_what_is_shown(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # pydantic looks types up there
    monkeypatch.chdir(ROOT)
    outputs = {before.line: after for before, after in pairwise(blocks(page)) if _is_output(before, after)}
    for block in blocks(page):
        if block.language == "python" and block.is_run:
            printed = run_python(block, module)
            if block.line in outputs:
                expect(outputs[block.line], outputs[block.line].text, printed)
        elif block.language == "console" and block.is_run:
            for command, shown in commands(block):
                code, printed = run_command(command)
                assert code == 0, f"{block}: {command}: exit code {code}\n\n{printed}"
                if shown:
                    expect(block, shown, printed)


def _is_output(before: Block, after: Block) -> bool:
    """Whether a text block follows a python block at once."""
    between = before.page.read_text().splitlines()[before.end : after.line - 1]
    return (before.language, after.language) == ("python", "text") and not "".join(between).strip()


# The pages are many and what is asked of each takes less than to set up a test: so a test asks it of all, and names
# each page that is wrong.


def test_every_json_block_is_json() -> None:
    assert [f"{block}: {why}" for page in PAGES for block in blocks(page) if (why := not_json(block))] == []


def not_json(block: Block) -> str | None:
    try:
        if block.language == "json":
            json.loads(block.text)
    except ValueError as error:
        return str(error)
    return None


def test_every_make_target_of_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert [
        f"{page_name(page)}: make {named}"
        for page in PAGES
        for named in re.findall(r"(?:^(?:\$ )?|`)make ([a-z0-9]+)", page.read_text(), re.MULTILINE)
        if named not in targets
    ] == []


def test_every_test_and_page_that_a_page_points_to_exists() -> None:
    assert [f"{page_name(page)}: {missing}" for page in PAGES for missing in leads_nowhere(page)] == []


def leads_nowhere(page: Path) -> Iterator[str]:
    """Each test and page that a page names and that is not there."""
    text = page.read_text()
    for file, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        if not (ROOT / file).is_file():
            yield file
        elif name and not re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE):
            yield f"{file}::{name}"
    for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if not (page.parent / link).exists():
            yield link


def test_a_block_that_is_not_run_says_why() -> None:
    assert [f"{block}: {wrong}" for page in PAGES for block in blocks(page) for wrong in unclear(block)] == []


def unclear(block: Block) -> Iterator[str]:
    """What a block leaves open about whether it is run."""
    if not block.language and re.search(r"^\$ ", block.text, re.MULTILINE):
        yield "say that it is console"
    if block.language in RUN:
        if not set(block.options) <= {NORUN}:
            yield f"{block.options} means nothing here"
        if not block.is_run and not block.comment:
            yield "give the reason in a comment just above: <!-- … -->"


def test_every_page_that_may_take_long_exists() -> None:
    assert set(LONG) <= set(map(page_name, PAGES))


# -- nothing is left out ----------------------------------------------------------------------------------------------


@cache
def everything() -> str:
    return "\n".join(page.read_text() for page in PAGES)


@pytest.mark.parametrize("command", main.list_commands(click.Context(main)))
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"\bflowguard {command}\b", everything()), f"no page shows flowguard {command}"


def settings() -> list[str]:
    """Those of the model, and whatever else a module reads."""
    read = {
        found
        for source in (ROOT / "flowguard").rglob("*.py")
        for found in re.findall(r"\bFLOWGUARD_[A-Z][A-Z_]*[A-Z]\b", source.read_text())
    }
    return sorted(read | {f"FLOWGUARD_{field.upper()}" for field in Settings.model_fields})


@pytest.mark.parametrize("setting", settings())
def test_every_setting_is_documented(setting: str) -> None:
    assert re.search(rf"\b{setting}\b", everything()), f"no page says what {setting} is"


# -- the reader of the pages itself -----------------------------------------------------------------------------------


def test_each_note_of_the_next_release_has_the_name_by_which_the_changelog_gathers_it() -> None:
    notes = [file.name for file in Path("docs/changes").iterdir() if file.name != "README.md"]
    assert [name for name in notes if not re.fullmatch(r"\+[a-z0-9-]+\.(added|changed|fixed|removed)\.md", name)] == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("one\ntwo\n", "one\ntwo\n", True),
        ("one\n", "one  \n\n", True),
        ("one\n", "one\ntwo\n", False),
        ("one\n…\n", "one\ntwo\nthree\n", True),
        ("…\nthree\n", "one\ntwo\nthree\n", True),
        ("one\n...\nthree\n", "one\nthree\n", True),
        ("in … s\n", "in 2.5 s\n", True),
        ("in ... s\n", "in 2.5\nseconds\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_an_ellipsis_stands_for_any_text_and_nothing_else_does(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same


def test_blocks_are_found_with_their_languages_options_and_comments() -> None:
    text = "# A page\n\n<!-- slow -->\n```console norun\n$ make test\n```\n\n1. So:\n\n   ```python\n   a = 1\n   ```\n"
    first, second = read_blocks(ROOT / "page.md", text)
    assert (first.language, first.options, first.comment, first.is_run) == ("console", (NORUN,), "slow", False)
    assert (second.language, second.text, second.comment, second.is_run) == ("python", "a = 1\n", "", True)
    assert (second.line, second.end) == (10, 12)


def test_a_console_block_is_commands_with_what_they_print() -> None:
    text = "```console\n$ echo a \\\n    b\na b\n$ true\n```\n"
    (block,) = read_blocks(ROOT / "page.md", text)
    assert list(commands(block)) == [("echo a \\\n    b", "a b\n"), ("true", "")]

"""Ctrl-C in each command: it says what is left, and never "Aborted!"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from flowguard.cli import COMMANDS, main, new_project
from flowguard.cli.interrupted import INTERRUPTED, LEFT_BEHIND
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.scene import scene


def leaves(group: click.Group, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of each command that does something."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, *words, name)
        else:
            yield (*words, name)


def run(*arguments: str, input: str | None = None) -> Result:  # noqa: A002 - click's own name
    return CliRunner().invoke(main, arguments, input=input)


def interrupted_in(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> Result:
    """What the command says, whatever it needs to be called, where Ctrl-C comes while it is at work."""
    command: Any = main
    for word in words:
        command = command.get_command(click.Context(command), word)

    def stopped(context: click.Context) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "parse_args", lambda context, arguments: [])
    monkeypatch.setattr(command, "invoke", stopped)
    return run(*words)


def test_each_command_has_its_sentence() -> None:
    assert {" ".join(words) for words in leaves(main)} == set(LEFT_BEHIND)
    assert {name.split()[0] for name in LEFT_BEHIND} == set(COMMANDS)


@pytest.mark.parametrize("words", list(leaves(main)), ids=" ".join)
def test_a_command_that_is_interrupted_says_what_it_leaves(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = interrupted_in(words, monkeypatch)
    assert (result.exit_code, result.stdout) == (INTERRUPTED, "")
    assert result.stderr == f"interrupted; {LEFT_BEHIND[' '.join(words)]}\n"


READERS = [("list",), ("stats",), ("waits",), ("show", "orders", "o1"), ("tail", "orders", "o1")]


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_those_that_read_the_table_do_so_at_a_call(words: tuple[str, ...]) -> None:
    def stopped(call: ApiCall, proceed: Proceed) -> Response:
        raise KeyboardInterrupt

    with scene(), intercept(stopped):
        result = run(*words)
    assert result.exit_code == INTERRUPTED
    assert result.stderr.splitlines()[-1] == f"interrupted; {LEFT_BEHIND[words[0]]}"


def asking(ask: Callable[[click.Context], None], monkeypatch: pytest.MonkeyPatch, answer: str | None = None) -> Result:
    command: Any = main.get_command(click.Context(main), "probe")
    monkeypatch.setattr(command, "parse_args", lambda context, arguments: [])
    monkeypatch.setattr(command, "invoke", ask)
    return run("probe", input=answer)


def confirms(context: click.Context) -> None:
    click.confirm("Begin?", abort=True)


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_who_says_no_or_cannot_answer_has_let_nothing_be_done(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = asking(confirms, monkeypatch, answer)
    assert (result.exit_code, "Aborted" in result.stderr) == (1, False)
    assert result.stderr.endswith("nobody agreed, so nothing was done\n")


def test_ctrl_c_at_a_question_has_let_nothing_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(context: click.Context) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise click.Abort from None

    result = asking(stopped, monkeypatch)
    assert (result.exit_code, result.stderr) == (INTERRUPTED, "interrupted; nothing was done\n")


def test_letters_are_there_where_ctrl_c_comes_before_they_are_dropped() -> None:
    def stopped(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "DeleteMessageBatch":
            raise KeyboardInterrupt
        return proceed()

    with scene() as at:
        sqs = at.aws.client("sqs")
        sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName="dead")["QueueUrl"], MessageBody="{}")
        with intercept(stopped):
            result = run("dlq", "drop", "dead", "--all", "--yes", "--wait", "0")
        assert (result.exit_code, result.stderr) == (INTERRUPTED, f"interrupted; {LEFT_BEHIND['dlq drop']}\n")
        assert len(at.sent("dead")) == 1


def test_a_project_that_is_interrupted_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = new_project._new_directories

    def stopped(place: Path) -> list[Path]:
        if place.name == "tests":
            raise KeyboardInterrupt
        return written(place)

    monkeypatch.setattr(new_project, "_new_directories", stopped)
    result = run("init", str(tmp_path / "shop"))
    assert (result.exit_code, list(tmp_path.iterdir())) == (INTERRUPTED, [])

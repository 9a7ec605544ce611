"""``flowguard tail``: a run as it moves. The pauses between two reads are what moves it here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.errors import Reject
from flowguard.step import Step
from tests.cli.test_hostile_text import CONTROL
from tests.scene import OrderState, Scene, scene
from tests.waits import WaitScene, wait_scene


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def tail(at: Scene | WaitScene, flow: str, *arguments: str, then: list[Callable[[], object]], code: int = 0) -> Result:
    """Follow a run. Each pause lets its seconds go by, and then the next of these things happen."""
    left = list(then)

    def pause(seconds: float) -> None:
        at.clock.advance(seconds=seconds)
        if left:
            left.pop(0)()

    result = CliRunner().invoke(main, ["tail", flow, *arguments], obj=CommandTime(at.clock, pause))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, left) == (code, []), result.output
    assert CONTROL.findall(result.stdout + result.stderr) == []
    return result


def decline(step: Step[OrderState]) -> None:
    raise Reject("the card is \x1b[31mdeclined")


def test_each_change_of_a_run_is_a_line_until_it_ends(at: Scene) -> None:
    at.script.closing = decline
    result = tail(
        at,
        "orders",
        "o1",
        then=[lambda: None, lambda: at.deliver(at.message()), lambda: None, lambda: at.deliver(at.second())],
    )
    assert result.stdout.splitlines() == [
        "2027-01-15T08:00:00.000Z  there is no run yet",
        "2027-01-15T08:00:04.000Z  RUNNING at price-order, hop 1, attempt 1: hop 1 is committed; the message of hop 2 "
        "is on its way",
        r"2027-01-15T08:00:08.000Z  FAILED at close-order, hop 2, attempt 1: Reject: the card is \x1b[31mdeclined",
    ]


def test_answers_are_changes_and_the_time_may_end_before_the_run() -> None:
    with wait_scene() as at:
        at.begin()
        result = tail(at, "carts", "c1", "--json", "--every", "60", "--for", "2m", then=[lambda: at.answer("a")] * 2)
        rows = [json.loads(row) for row in result.stdout.splitlines()]
        assert [(row["status"], row["answered"]) for row in rows] == [("WAITING", []), ("WAITING", ["a"])]


def test_the_last_pause_ends_when_the_time_is_over(at: Scene) -> None:
    began = at.clock.now()
    tail(at, "orders", "o1", "--every", "3600", "--for", "90s", then=[lambda: None])
    assert at.clock.now() - began == 90_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("orders", ""), "OBJECT: it is empty"),
        (("orders", "o1", "--table", "not-there"), "table not-there: does not exist"),
        (("orders", "o1", "--every", "0"), "--every"),
        (("orders", "o1", "--for", "x"), "'x' is no time"),
    ],
)
def test_what_cannot_be_run_is_named(at: Scene, arguments: tuple[str, ...], said: str) -> None:
    assert said in tail(at, *arguments, then=[], code=2).stderr

"""The explorer removes each kind of row that expires, in the second after its time, and no sooner."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import sleep
from typing import Any, Final, NamedTuple

import boto3
import pytest

import flowguard
from flowguard.aws import caller_lists
from flowguard.protocol import callers
from flowguard.sim.engines import in_memory
from flowguard.testing import Later, sqs_event
from flowguard.testing.explorer import PlainFunction
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.expiry import Expiry
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.worker import external_answers
from flowguard.worker.hop_places import HopPlaces
from flowguard.worker.lifetimes import Lifetimes
from flowguard.worker.turn_messages import TurnMessages
from tests.testing.explorer.run import lasting_rows
from tests.testing.explorer.run.lasting_rows import kind_of
from tests.trees import nodes, parsed

Patch = pytest.MonkeyPatch

PACKAGE: Final = Path(flowguard.__file__).parent
ELSEWHERE: Final = (
    "aws_facts/",
    "cli/explore.py",
    "deploy/",
    "dev/",
    "probe/",
    "sim/",
    "testing/",
    "aws/forgetting.py",
)
"""Packages and modules that write no row of a running flow."""

KINDS: Final = {
    "aws/caller_lists.py:_change": "run run",
    "aws/caller_lists.py:_noted": "run order",
    "aws/caller_lists.py:_put": "run caller",
    "aws/cancellations.py:run_of": "run cancel",
    "aws/claim_call.py:claim_call": "run run",
    "aws/commit_call.py:_ending": "run run",
    "aws/group_items.py:_row_item": "group row",
    "aws/group_items.py:_shard_item": "group shard",
    "aws/history_rows.py:_put": "run history",
    "aws/ledger.py:_claim_call": "once once",
    "aws/ledger.py:finish": "once once",
    "aws/pause_rows.py:_item": "pause key",
    "aws/place_items.py:_item": "limit limit",
    "aws/place_items.py:_short_call": "limit limit",
    "aws/place_items.py:keep_text": "run turn",
    "aws/waits.py:_item": "wait awaited",
    "aws/waits.py:keep_early": "wait early",
    "aws/waits.py:keep_place": "wait place",
}
"""What kind of row each function writes that says when a row expires."""

EACH_KIND: Final = sorted(set(KINDS.values()))


class Seen(NamedTuple):
    """What was in the run table during a schedule: when each row expires, by its key, and what was left."""

    history: History
    rows: dict[tuple[str, str], int]
    gone: dict[tuple[str, str], int]

    def of(self, kind: str) -> list[tuple[str, str]]:
        return [key for key in self.rows if kind_of(*key) == kind]


def places() -> Iterator[str]:
    """Yield the functions of flowguard in which something says when a row expires."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in nodes(parsed(path.read_text(encoding="utf-8"))) if not name.startswith(ELSEWHERE) else ():
            if isinstance(node, ast.FunctionDef) and any(map(_says_when, nodes(node))):
                yield f"{name}:{node.name}"


def _says_when(node: ast.AST) -> bool:
    keys = node.keys if isinstance(node, ast.Dict) else ()
    return any(isinstance(key, ast.Constant) and key.value in {"ttl", ":ttl"} for key in keys)


@pytest.fixture
def every_row(monkeypatch: Patch) -> None:
    """Let one caller, and one run that waits for an answer, take a row. A caller's is there for half a minute.

    No place of a limit is given back, and no text of who waits for one is removed: both calls get lost.
    """
    for module in (callers, caller_lists):
        monkeypatch.setattr(module, "MOST_HELD", 0)
    monkeypatch.setattr(external_answers, "ROWS_A_PART", 1)
    monkeypatch.setattr(external_answers.ExternalAnswers, "_has_time", lambda _: False)
    monkeypatch.setattr(Lifetimes, "of_caller", lambda _, moment: moment + 30_000)
    monkeypatch.setattr(HopPlaces, "_give_back", lambda _: None)
    monkeypatch.setattr(TurnMessages, "forget", lambda _: None)


def lasting(sandbox: Sandbox) -> Iterator[Any]:
    """Yield the rows that expire. A key that has paused itself does not, while nobody tries it."""
    return (raw for raw in sandbox.run_items() if "ttl" in raw)


def seen(schedule: str, monkeypatch: Patch) -> Seen:
    """Run a schedule, and note the rows before and after each time that something may be removed."""
    rows: dict[tuple[str, str], int] = {}
    gone: dict[tuple[str, str], int] = {}
    remove = Expiry.remove

    def noted(expiry: Expiry) -> None:
        before = {(raw["pk"]["S"], raw["sk"]["S"]): int(raw["ttl"]["N"]) for raw in lasting(sandbox)}
        remove(expiry)
        after = {(raw["pk"]["S"], raw["sk"]["S"]) for raw in sandbox.run_items()}
        rows.update(before)
        gone.update({key: sandbox.now() // 1000 for key in before.keys() - after})

    monkeypatch.setattr(Expiry, "remove", noted)
    with Sandbox(lasting_rows.EXPLORED, lasting_rows.MESSAGES, {}, in_memory, 0) as sandbox:
        history = run(sandbox, Schedule.parse(schedule))
    assert history.hung is None
    return Seen(history, rows, gone)


@pytest.mark.proof("explores flows")
def test_every_place_that_says_when_a_row_expires_has_its_kind_here() -> None:
    assert sorted(places()) == sorted(KINDS), "give a new kind to KINDS, and a flow that writes it to lasting_rows.py"


def test_each_kind_of_row_is_removed_after_its_time(every_row: None, monkeypatch: Patch) -> None:
    found = seen("none", monkeypatch)
    assert sorted({kind_of(*key) for key in found.rows}) == EACH_KIND
    assert sorted({kind_of(*key) for key in found.gone}) == EACH_KIND
    assert all(at > found.rows[key] for key, at in found.gone.items())


def test_no_kind_of_row_is_removed_where_the_schedule_says_so(every_row: None, monkeypatch: Patch) -> None:
    found = seen("k1", monkeypatch)
    assert sorted({kind_of(*key) for key in found.rows}) == EACH_KIND
    assert not found.gone
    assert found.history.expired


# -- as early as can be


def charged(*messages: Any, function: Any = lasting_rows.handler) -> History:
    with Sandbox([PlainFunction("charges", function, visibility=300)], messages, {}, in_memory, 0) as sandbox:
        return run(sandbox, Schedule())


def charge(name: str) -> Any:
    return sqs_event("charges", name, message_id=f"charge-{name}")


@pytest.mark.parametrize(("late", "expired"), [(-1, 0), (5, 1)])
def test_what_has_expired_is_gone_within_seconds(late: int, expired: int) -> None:
    later = lasting_rows.A_WHILE + timedelta(seconds=late)
    assert charged(charge("o1"), Later(charge("o2"), by=later)).expired == expired


def slow_handler(event: Any, context: Any) -> None:
    """Let a key expire while the function is at work."""
    lasting_rows.charge_briefly({"order_id": "o1"})
    sleep(90)
    boto3.client("sqs").send_message(QueueUrl="https://sqs.eu-central-1.amazonaws.com/1/told", MessageBody="o1")


def test_what_expires_during_an_invocation_is_gone_before_its_next_call() -> None:
    assert charged(charge("o1"), function=slow_handler).expired == 1

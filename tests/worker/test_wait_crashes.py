"""Whatever function dies at whatever call of a wait: the run goes on by itself, once. The table of the docs is this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.protocol.run import Status
from flowguard.sim.engines import in_memory
from flowguard.sim.world import START
from flowguard.testing import sqs_event
from flowguard.testing.explorer import Later
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.record.history import CallRecord, History
from flowguard.testing.explorer.record.question import PARTIES
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Needs, Sandbox
from tests.testing.explorer import waiting
from tests.testing.explorer.waiting import Order

PAGE: Final = Path(__file__).parents[2] / "docs" / "guides" / "waiting-for-others.md"
HEAD: Final = "| the function | dies at | before it | after it |"

ORDER: Final = Order(order_id="o1", asks=("paid",))
PAYMENT: Final = sqs_event("payments", {"order": "o1", "amount": 3}, message_id="paid", sent_at=START)


@dataclass(frozen=True, eq=False)
class Role:
    """A function of a wait. ``queue`` is where it reads, ``gives_up`` says that nobody brings its record again."""

    name: str
    queue: str
    messages: tuple[Any, ...]
    answers: Mapping[str, Any]
    gives_up: bool = False


APPROVED: Final = Order(order_id="o1", asks=("approval",))
ASKING: Final = Order(order_id="o1", asks=("parcel", "paid"))
ROLES: Final = (
    Role("of the stage that waits", "to-begin", (ASKING,), {"parcel": {"number": 17}, "paid": {"amount": 3}}),
    Role("of a callback over SQS", "payments", (ORDER, Later(PAYMENT, timedelta(minutes=1))), {}),
    Role("of a callback over HTTP, never called again", PARTIES, (APPROVED,), {"approval": {"yes": 1}}, gives_up=True),
    Role("that gets the deadline", "to-answers", (ORDER,), {}),
)

_NAMES: Final = {
    "claim": "the claim",
    "save rows": "the rows",
    "commit": "the commit",
    "look early": "the look for early answers",
    "keep early": "the copy of an early answer",
    "find rows": "the look for who waits",
    "find wait": "the look at the run",
    "take early": "the answer's write",
    "settle": "the answer's write",
    "time out": "the deadline's write",
}
_SENDS: Final = {
    "mails": "the side messages",
    "carriers": "the asks",
    "to-go-on": "the next hop's message",
}


@cache
def history_of(role: Role, schedule: str) -> History:
    needs = Needs(answers=dict(role.answers))
    with Sandbox(waiting.FLOWS, role.messages, waiting.TABLES, in_memory, 0, None, None, needs) as sandbox:
        return run(sandbox, Schedule.parse(schedule))


def calls_of(role: Role) -> list[CallRecord]:
    """The calls that the function makes where nothing goes wrong. Of deadlines the last one ends the wait."""
    history = history_of(role, "none")
    worker = [one.worker for one in history.deliveries if one.queue == role.queue][-1]
    return [made for made in history.calls if made.worker == worker]


def name_of(role: Role, made: CallRecord) -> str:
    step = str(made.site)
    if step != "dispatch":
        return _NAMES[step]
    if made.target == "to-answers":
        return "the answer's copy into the queue" if role.gives_up else "the deadline's message"
    return _SENDS[made.target]


def went_on(history: History) -> tuple[str, int]:
    """The stage at which the run went on, and when. Fails where it did not, or did more than once."""
    done = [
        (item.stage, history.calls[one.call - 1].at)
        for one in history.versions
        if (item := one.item) is not None and item.hop == 2 and item.done
    ]
    assert len(done) == 1
    return done[0]


def outcome(role: Role, schedule: str) -> str:
    """What a death leads to, in words."""
    (stage, at), (_, undisturbed) = went_on(history_of(role, schedule)), went_on(history_of(role, "none"))
    if stage == "late" and role.queue != "to-answers":
        return "times out at the deadline"
    return "goes on after the visibility timeout" if at - undisturbed > 1_000 else "goes on"


def rows() -> Iterator[str]:
    for role in ROLES:
        last = "-1" if role.gives_up else ""
        for made in calls_of(role):
            before, after = (outcome(role, f"{kind}{made.number}{last}") for kind in "da")
            yield f"| {role.name} | {name_of(role, made)} | {before} | {after} |"


def deaths(role: Role) -> Iterator[str]:
    """The schedules in which the function dies before, and after, each of its calls."""
    last = "-1" if role.gives_up else ""
    return (f"{kind}{made.number}{last}" for made in calls_of(role) for kind in "da")


@pytest.mark.slow("kills a function at each of its calls")
@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.queue)
def test_whatever_dies_the_run_goes_on_by_itself_once(role: Role) -> None:
    for schedule in deaths(role):
        history = history_of(role, schedule)
        assert any(one.died for one in history.deliveries), schedule
        stage, _ = went_on(history)
        assert stage in ("go-on", "late"), schedule
        assert {one.status for one in history.latest().values()} == {Status.COMPLETED}, schedule
        assert list(broken(history, waiting.FLOWS, ())) == [], schedule


def test_the_docs_have_the_table() -> None:
    text = PAGE.read_text()
    shown = text[text.index(HEAD) :].split("\n\n")[0].splitlines()
    assert shown == [HEAD, "| --- | --- | --- | --- |", *rows()]

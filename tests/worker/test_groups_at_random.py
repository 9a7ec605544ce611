"""Runs that wait for groups, in random orders of answers, deadlines, orders, newer requests, copies and deaths."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard.aws.services import aws_store
from flowguard.client import FlowClient
from flowguard.errors import Reject
from flowguard.events import EventType, Tally
from flowguard.failed import Failed
from flowguard.flow import UNTIL_RESET, AnyFlow, Flow
from flowguard.group import GroupEnd
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.groups import MOST_IN_SHARD
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.stage import Stage
from flowguard.step import Step
from tests.aws.engines import same_clients
from tests.worker.storm import DEEPEST, Senders, Storm, account, replies_in

STEPS: Final = 60
WITHIN: Final = timedelta(minutes=20)
KINDS: Final = ("supersede", "ignore", "cache")
QUEUES: Final = ("inbox", "answers", "children", "mails", "completed", "dead", "replies")
CLOSED: Final = "s3"
POLICY: Final = RetryPolicy(attempts=20, backoff=Fixed(20), jitter=0)


class Night(BaseModel):
    night: str
    shops: int
    quorum: float | None = None


class Shop(BaseModel):
    shop: str


@dataclass
class Handlers:
    """What goes wrong in handlers, and what they read of their groups."""

    draw: random.Random
    is_calm: bool = False
    read: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def fail(self) -> None:
        if not self.is_calm and self.draw.random() < 0.1:
            raise RuntimeError("for now")

    def same(self, run: str, answers: Any) -> None:
        """Each attempt reads the same."""
        if self.read.setdefault(run, answers) != answers:
            self.problems.append(f"{run} read {self.read[run]} and then {answers}")


def done_once(step: Step[Any], name: str) -> None:
    step.update("effects", {"id": f"{step.request_id} {name}"}, "ADD times :one", values={":one": 1})


def child_of(handlers: Handlers) -> AnyFlow:
    class Count(Stage[Shop], name="count", inbox="children", retry=POLICY):
        def handle(self, shop: Shop, step: Step) -> Outcome:
            handlers.fail()
            done_once(step, "counted")
            if shop.shop == CLOSED:
                raise Reject("closed")
            return Done(f"{shop.shop} of {step.request_id}")

    class Counting(Flow, name="counting", object_id="shop", dead_letters="dead", trust_senders=True):
        stages = (Count,)

    return Counting


def flow_of(handlers: Handlers, kind: str, child: AnyFlow) -> AnyFlow:
    class Ask(Stage[Night], name="ask", then=("add",), inbox="inbox", retry=POLICY):
        def handle(self, night: Night, step: Step) -> Outcome:
            handlers.fail()
            done_once(step, "1")
            step.send("mails", {"of": step.request_id})
            shops = ((f"s{number}", Shop(shop=f"s{number}")) for number in range(night.shops))
            return Add.when_group(step.group(child, shops), within=WITHIN, quorum=night.quorum)

    class Add(Stage[GroupEnd], name="add", inbox="inbox", retry=POLICY):
        def handle(self, end: GroupEnd, step: Step) -> Outcome:
            handlers.fail()
            answers = [answer.type if isinstance(answer, Failed) else answer for _, _, answer in step.answers(str)]
            handlers.same(step.request_id, answers)
            handlers.fail()
            done_once(step, "2")
            step.put("seen", {"id": str(step.request_id), "got": json.dumps(answers), "timed_out": end.timed_out})
            return Done({"by": step.request_id})

    options: dict[str, Any] = {"keep_result": UNTIL_RESET} if kind == "cache" else {"on_conflict": OnConflict(kind)}

    class Recount(
        Flow,
        name="recount",
        object_id="night",
        dead_letters="dead",
        answers="answers",
        complete_to="completed",
        abandoned_after=timedelta(minutes=30),
        trust_senders=True,
        **options,
    ):
        stages = (Ask, Add)

    return Recount


class World:
    """One object of a flow, whose runs ask a group."""

    def __init__(
        self, storm: Storm, handlers: Handlers, flow: AnyFlow, client: FlowClient, tally: Tally, shops: int
    ) -> None:
        self.storm, self.handlers, self.flow, self.tally, self.shops = storm, handlers, flow, tally, shops
        self.quorum = storm.draw.choice((None, None, 0.5, 0.9))
        self.senders = Senders(storm, self._start, most=storm.draw.choice((1, 2, 3)))
        self._client = client
        happenings: dict[str, tuple[int, Callable[[], None]]] = {
            "ask": (2, self.senders.ask),
            "again": (1, self.senders.again),
        }
        if storm.draw.random() < 0.3:
            happenings |= {"long wait": (1, self._wait)}
        if storm.draw.random() < 0.5:
            happenings |= {"cancel": (1, self._cancel)}
            happenings |= {"reset": (1, self._reset)} if self.takes_callers else {}
        storm.happenings = happenings

    @property
    def takes_callers(self) -> bool:
        return self.flow.on_conflict is OnConflict.ATTACH

    def item(self) -> RunItem | None:
        with self.storm.lull():
            return aws_store(Settings(), same_clients()).read("recount", ObjectId("n1"))

    def _start(self, name: str, at: int) -> None:
        night = Night(night="n1", shops=self.shops, quorum=self.quorum)
        self._client.start(self.flow, night, request_id=name, requested_at=at, reply_to="replies")

    def _cancel(self) -> None:
        self._client.cancel(self.flow, "n1", why="ordered by mistake")

    def _reset(self) -> None:
        self._client.reset(self.flow, "n1")

    def _wait(self) -> None:
        self.storm.wait(self.storm.draw.choice((300, 900, 1_300)))


@contextmanager
def world(seed: int, kind: str, *sizes: int) -> Iterator[World]:
    tally = Tally()
    with account(seed, ("seen", "effects"), QUEUES) as given:
        handlers = Handlers(given.draw)
        child = child_of(handlers)
        flow = flow_of(handlers, kind, child)
        functions = [lambda_handler(flow, child).using(given.services(tally)) for _ in range(DEEPEST)]
        storm = Storm(given.aws, given.clock, given.draw, dict.fromkeys(("inbox", "answers", "children"), functions))
        with storm.blowing():
            yield World(storm, handlers, flow, FlowClient.of(given.services(tally)), tally, given.draw.choice(sizes))


def blow(made: World) -> None:
    """Let anything happen for a while, and then only what ends it."""
    for _ in range(STEPS + 2 * made.shops):
        made.storm.step()
    made.storm.is_wild, made.handlers.is_calm = False, True
    made.senders.ask_the_rest(1)
    assert made.storm.settle(2_000 + 20 * made.shops), "records are left"


def judge(made: World) -> None:
    aws, item = made.storm.aws, made.item()
    assert item is not None
    assert item.status in ENDED, "a run that waits goes on"
    assert made.storm.statuses() <= {"COMPLETED", "FAILED"}, "and so does each that it asks"
    assert made.handlers.problems == []
    effects = {one["id"]["S"]: int(one["times"]["N"]) for one in aws.items("effects")}
    assert set(effects.values()) <= {1}, "each effect once"
    if item.status is Status.COMPLETED:
        assert effects.keys() >= {f"{item.request_id} 1", f"{item.request_id} 2"}
    else:
        assert item.error is not None
        assert item.error.startswith("Cancelled")
    for row in aws.items("seen"):
        judge_group(made, row["id"]["S"], json.loads(row["got"]["S"]), timed_out=row["timed_out"]["BOOL"])
    begun = {name.removesuffix(" 1") for name in effects if name.endswith(" 1")}
    assert begun <= {json.loads(one["body"])["of"] for one in made.storm.take("mails")}
    assert item.request_id in {json.loads(one["body"])["request_id"] for one in made.storm.take("completed")}
    replies = replies_in(made.storm.take("replies"))
    assert begun & set(made.senders.asked) <= set(replies), "who was carried out is told its end"
    assert not made.takes_callers or set(made.senders.asked) == set(replies), "all are answered"
    assert all(len(by_id) == 1 for by_id in replies.values()), "each is told one end"
    if made.flow.on_conflict is OnConflict.SUPERSEDE:
        assert item.requested_at == max(made.senders.asked.values())


def judge_group(made: World, run: str, answers: list[str], *, timed_out: bool) -> None:
    """An answer is read, or its sender was told that it came too late; never both, nor neither."""
    taken = {
        str(event.facts["name"])
        for event in made.tally.events
        if event.type is EventType.ANSWERED and event.message is not None and event.message.request_id == run
        if event.facts["verdict"] in ("RECORDED", "RESUMED")
    }
    assert len(answers) == made.shops
    for number, answer in enumerate(answers):
        if answer == "TimedOut":
            assert f"group.{number // MOST_IN_SHARD}.{number % MOST_IN_SHARD}" not in taken
        elif answer == "Reject":
            assert f"s{number}" == CLOSED
        else:  # a newer run asks for the same objects
            assert answer == "Superseded" or answer.startswith(f"s{number} of "), answer
    if not timed_out:
        assert sum(answer != "TimedOut" for answer in answers) >= (made.quorum or 1) * made.shops


@pytest.mark.slow("draws many runs")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_happens_each_answer_of_a_group_is_read_or_refused(kind: str, seed: int) -> None:
    with world(seed, kind, 1, 3, 5) as made:
        blow(made)
        judge(made)


@pytest.mark.slow("draws many runs")
def test_the_same_holds_of_more_requests_than_a_shard_has() -> None:
    with world(0, "supersede", MOST_IN_SHARD + 2) as made:
        blow(made)
        judge(made)

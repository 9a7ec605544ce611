"""Runs that wait, in random orders of answers, deadlines, orders, newer requests, copies and deaths."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard.aws.services import aws_store
from flowguard.callback import Callback
from flowguard.callback_function import callback_handler
from flowguard.client import FlowClient
from flowguard.errors import Reject
from flowguard.failed import Failure
from flowguard.flow import PER_REQUEST, UNTIL_RESET, AnyFlow, Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.protocol.run_orders import cancel_attributes, reset_attributes
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.signing import UNSIGNED
from tests.aws.engines import same_clients
from tests.waits import record
from tests.worker.storm import DEEPEST, Held, Senders, Storm, account, number_of, replies_in

STEPS: Final = 45
WITHIN: Final = timedelta(minutes=20)
KEPT: Final = timedelta(hours=6)
POLICY: Final = RetryPolicy(attempts=20, backoff=Fixed(20), jitter=0)
NEVER: Final = (AnswerVerdict.EXPIRED, AnswerVerdict.SUPERSEDED, AnswerVerdict.UNKNOWN)
KINDS: Final = ("supersede", "ignore", "attach", "cache")
QUEUES: Final = ("inbox", "answers", "parties", "children", "mails", "completed", "dead", "replies")
WHY: Final = "ordered by mistake"
TAKEN: Final = (AnswerVerdict.RESUMED, AnswerVerdict.RECORDED)


class Order(BaseModel):
    order_id: str
    mode: str = "all"


class Until(BaseModel):
    until: float = 0
    """The deadline of the wait, in seconds."""


@dataclass
class Handlers:
    """What goes wrong in handlers. ``rejects`` says that they also fail for good."""

    draw: random.Random
    rejects: bool
    is_calm: bool = False

    def fail(self) -> None:
        chance = 1.0 if self.is_calm else self.draw.random()
        if chance < 0.1:
            raise RuntimeError("for now")
        if self.rejects and chance < 0.25:
            raise Reject("no")


def done_once(step: Step[Any], name: str) -> None:
    step.update("effects", {"id": f"{step.request_id} {name}"}, "ADD times :one", values={":one": 1})


def seen(step: Step[Until], answers: dict[str, Any]) -> None:
    """Note what a hop got, and how long it was waited for."""
    found = json.dumps({**answers, "until": step.state.until})
    step.put("seen", {"id": f"{step.request_id} {step.hop}", "got": found})


def child_of(handlers: Handlers) -> AnyFlow:
    class Count(Stage[Order], name="count", inbox="children", retry=POLICY):
        def handle(self, order: Order, step: Step) -> Outcome:
            handlers.fail()
            done_once(step, "counted")
            return Done(f"of {step.request_id}")

    class Counting(Flow, name="counting", object_id=PER_REQUEST, dead_letters="dead", trust_senders=True):
        stages = (Count,)

    return Counting


def flow_of(handlers: Handlers, kind: str, child: AnyFlow, *, undoes: bool) -> AnyFlow:
    class Begin(Stage[Order, Until], name="begin", then=("middle",), inbox="inbox", retry=POLICY):
        def handle(self, order: Order, step: Step[Until]) -> Outcome:
            handlers.fail()
            done_once(step, "1")
            if "quiet" not in order.mode:
                step.send("mails", {"of": step.request_id})
            step.state.until = (step.now() + WITHIN).timestamp()
            names: dict[str, Any] = {"paid": step.event("paid", keep_early=True), "ok": step.event("ok")}
            if "child" in order.mode:
                names["child"] = step.ask(child, order, cancel_too=True)
            wait = Middle.when_any if "any" in order.mode else Middle.when_all
            return wait(**names, within=WITHIN)

    class Middle(Stage[dict[str, Any], Until], name="middle", then=("end",), inbox="inbox", retry=POLICY):
        def handle(self, answers: dict[str, Any], step: Step[Until]) -> Outcome:
            handlers.fail()
            done_once(step, "2")
            seen(step, answers)
            step.state.until = (step.now() + WITHIN).timestamp()
            return End.when_all(more=step.event("more", keep_early=True), within=WITHIN)

    class End(Stage[dict[str, Any], Until], name="end", inbox="inbox", retry=POLICY):
        def handle(self, answers: dict[str, Any], step: Step[Until]) -> Outcome:
            handlers.fail()
            done_once(step, "3")
            seen(step, answers)
            return Done({"by": step.request_id})

    class Undo(Stage[Failure, Until], name="undo", inbox="inbox", retry=POLICY):
        def handle(self, failure: Failure, step: Step[Until]) -> Outcome:
            done_once(step, "undone")
            return Done()

    options: dict[str, Any] = {"on_failed": Undo} if undoes else {}
    options |= {"keep_result": UNTIL_RESET} if kind == "cache" else {"on_conflict": OnConflict(kind)}
    made = (Begin, Middle, End, Undo) if undoes else (Begin, Middle, End)

    class Orders(
        Flow,
        name="orders",
        object_id="order_id",
        dead_letters="dead",
        answers="answers",
        complete_to="completed",
        abandoned_after=timedelta(minutes=30),
        callbacks=(Callback("parties", id="ref", answer="value", keep_early=KEPT),),
        trust_senders=True,
        **options,
    ):
        stages = made

    return Orders


@dataclass
class Given:
    """An answer that was given, which run waited then, and what its sender was told."""

    awaited: str
    value: int
    run: str | None = None
    verdict: AnswerVerdict | None = None


class World:
    """One object of a flow, and all that is asked of it and answered."""

    def __init__(self, storm: Storm, handlers: Handlers, flow: AnyFlow, client: FlowClient) -> None:
        self.storm, self.handlers, self.flow = storm, handlers, flow
        draw = storm.draw
        self.is_stopped = draw.random() < 0.5
        """Whether runs are cancelled or reset."""
        self.senders = Senders(storm, self._start, most=3 if self.is_stopped else draw.choice((1, 1, 3)))
        self.modes = [draw.choice(("all", "any", "all child", "any child", "all quiet", "any quiet")) for _ in range(3)]
        self.cancelled: dict[str, set[str]] = {}
        self.given: list[Given] = []
        self._client = client
        self._orders = 0
        happenings = {
            "ask": (2, self.senders.ask),
            "again": (1, self.senders.again),
            "answer": (2, self._answer),
            "party": (2, self._party),
            "long wait": (1, self._wait),
        }
        stops = {"cancel": (1, self._cancel), "order": (1, self._order)}
        resets = {"reset": (1, self._reset)} if self.takes_callers else {}
        storm.happenings = {**happenings, **stops, **resets} if self.is_stopped else happenings

    @property
    def takes_callers(self) -> bool:
        return self.flow.on_conflict is OnConflict.ATTACH

    def mode_of(self, request: str) -> str | None:
        """How the run of a sender waits. None for one that a reset has begun anew."""
        return self.modes[number_of(request) - 1] if request in self.senders.asked else None

    def item(self) -> RunItem | None:
        with self.storm.lull():
            return aws_store(Settings(), same_clients()).read("orders", ObjectId("o1"))

    def effects_of(self, run: str) -> set[str]:
        return {one["id"]["S"] for one in self.storm.aws.items("effects")} & {f"{run} {hop}" for hop in (1, 2, 3)}

    def _start(self, name: str, at: int) -> None:
        order = Order(order_id="o1", mode=self.modes[number_of(name) - 1])
        self._client.start(self.flow, order, request_id=name, requested_at=at, reply_to="replies")

    def _answer(self) -> None:
        """Somebody answers by a client, and is told the verdict."""
        given, before = self._given(), self.item()
        given.verdict = self._client.answer(self.flow, given.awaited, given.value)
        after = self.item()
        if before is not None and after is not None and before.request_id == after.request_id:
            given.run = after.request_id

    def _party(self) -> None:
        """A party's answer comes through its queue, and is kept where nobody waits."""
        given = self._given()
        [one] = sqs_event("parties", {"ref": given.awaited, "value": given.value})["Records"]
        attributes = {**one["attributes"], "SentTimestamp": str(self.storm.clock.now())}
        self.storm.held.append(Held("parties", {**one, "messageId": f"p-{given.value}", "attributes": attributes}))

    def _given(self) -> Given:
        given = Given(self.storm.draw.choice(("paid", "ok", "more")), 1_000 + len(self.given))
        self.given.append(given)
        return given

    def _cancel(self) -> None:
        if self._client.cancel(self.flow, "o1", why=WHY):
            item = self.item()
            assert item is not None
            assert item.cancellation is not None
            run = item.cancellation.request_id
            kept = {name: effects for name, effects in self.cancelled.items() if name in self.senders.asked}
            before = self.cancelled.get(run, self.effects_of(run))
            self.cancelled = {**kept, run: before}  # of restarts the item remembers the one that was cancelled last

    def _reset(self) -> None:
        self._client.reset(self.flow, "o1")

    def _order(self) -> None:
        """A stage of another flow orders something. That may come late, and more than once."""
        self._orders += 1
        object_id, name = ObjectId("o1"), f"order-{self._orders}"
        at = self.storm.clock.now() - self.storm.draw.choice((0, 1_500))
        if self.takes_callers and self.storm.draw.random() < 0.5:
            queue, attributes = "answers", reset_attributes("orders", object_id, name, at, UNSIGNED)
        else:
            queue, attributes = "inbox", cancel_attributes("orders", "begin", object_id, name, at, WHY, UNSIGNED)
        self.storm.held.append(Held(queue, {**record(attributes, "{}", queue), "messageId": name}))

    def _wait(self) -> None:
        self.storm.wait(self.storm.draw.choice((300, 900, 1_300)))


@contextmanager
def world(seed: int, kind: str, *, undoes: bool = False) -> Iterator[World]:
    with account(seed, ("seen", "effects"), QUEUES) as given:
        handlers = Handlers(given.draw, rejects=given.draw.random() < 0.3)
        child = child_of(handlers)
        flow = flow_of(handlers, kind, child, undoes=undoes)
        functions = [lambda_handler(flow, child).using(given.services()) for _ in range(DEEPEST)]
        parties = [callback_handler(flow).using(given.services()) for _ in range(DEEPEST)]
        served = dict.fromkeys(("inbox", "answers", "children"), functions)
        storm = Storm(given.aws, given.clock, given.draw, {**served, "parties": parties})
        with storm.blowing():
            yield World(storm, handlers, flow, FlowClient.of(given.services()))


def blow(made: World) -> None:
    """Let anything happen for a while, and then only what ends it."""
    for _ in range(STEPS):
        made.storm.step()
    made.storm.is_wild, made.handlers.is_calm = False, True
    made.senders.ask_the_rest(1)
    assert made.storm.settle(), "records are left"


def judge(made: World) -> None:
    aws, item = made.storm.aws, made.item()
    assert item is not None
    assert item.status in ENDED, "a run that waits goes on"
    assert made.storm.statuses() <= {"COMPLETED", "FAILED"}, "and so does each that it asks"
    effects = {one["id"]["S"]: int(one["times"]["N"]) for one in aws.items("effects")}
    assert set(effects.values()) <= {1}, "each effect once"
    judge_end(made, item, effects)
    got = {one["id"]["S"]: json.loads(one["got"]["S"]) for one in aws.items("seen")}
    judge_answers(made, got)
    judge_kept(made, item, got)
    begun = {name.removesuffix(" 1") for name in effects if name.endswith(" 1")}
    mails = {json.loads(one["body"])["of"] for one in made.storm.take("mails")}
    assert {run for run in begun if "quiet" not in (made.mode_of(run) or "quiet")} <= mails
    assert item.request_id in {json.loads(one["body"])["request_id"] for one in made.storm.take("completed")}
    assert made.handlers.rejects or not made.storm.take("dead"), "no dead letter without a cause"
    replies = replies_in(made.storm.take("replies"))
    assert begun & set(made.senders.asked) <= set(replies), "who was carried out is told its end"
    assert not made.takes_callers or set(made.senders.asked) == set(replies), "all are answered"
    assert all(len(by_id) == 1 for by_id in replies.values()), "each is told one end"


def judge_end(made: World, item: RunItem, effects: dict[str, int]) -> None:
    if item.status is Status.COMPLETED:
        assert effects.keys() >= {f"{item.request_id} {hop}" for hop in (1, 2, 3)}
    else:
        assert item.error, "a failed run says why"
        assert made.handlers.rejects or item.error.startswith("Cancelled"), item.error
        assert made.flow.on_failed is None or f"{item.request_id} undone" in effects
    for run, before in made.cancelled.items():
        assert made.effects_of(run) == before, f"{run} went on after it was cancelled"
        assert (item.request_id, item.status) != (run, Status.COMPLETED)
    if made.flow.on_conflict is OnConflict.SUPERSEDE:
        assert item.requested_at == max(made.senders.asked.values())


def judge_answers(made: World, got: dict[str, dict[str, Any]]) -> None:
    """Each answer is for one run, and its sender was told the truth."""
    had = [answer for answers in got.values() for answer in answers.values() if isinstance(answer, int)]
    assert len(set(had)) == len(had)
    for given in made.given:
        hop = 3 if given.awaited == "more" else 2
        answers = got.get(f"{given.run} {hop}")
        if given.verdict in TAKEN and answers is not None:
            assert answers.get(given.awaited) == given.value, given
        if given.verdict in NEVER:
            assert given.value not in had, given


def judge_kept(made: World, item: RunItem, got: dict[str, dict[str, Any]]) -> None:
    """What is kept yet came when the last run did not wait for it any more."""
    for awaited, hop in (("paid", 2), ("more", 3)):
        answers, rows = got.get(f"{item.request_id} {hop}", {}), made.storm.aws.items("flowguard")
        for row in rows:
            is_kept = (row["pk"]["S"], row["sk"]["S"]) == (f"wait#orders#{awaited}", "early") and "used_by" not in row
            if is_kept and isinstance(answers.get(awaited), dict):  # the wait has timed out
                assert int(row["good_until"]["N"]) - KEPT.total_seconds() >= answers["until"]


@pytest.mark.slow("draws many runs")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("undoes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_happens_each_wait_ends_with_the_answers_that_were_taken(
    kind: str, seed: int, *, undoes: bool
) -> None:
    with world(seed, kind, undoes=undoes) as made:
        blow(made)
        judge(made)

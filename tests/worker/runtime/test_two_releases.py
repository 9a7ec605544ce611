"""Two releases of one flow at once, forwards and back: each record goes to either, and workers die on a bad day."""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard.events import Event, EventType
from flowguard.failed import Failure
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.sim.crash import Died
from flowguard.sim.delivered import Delivered
from flowguard.sim.functions import Functions
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.points import Point
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.world import START, World
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.wire.message import FLOW_STAGE, PLACE, Message
from tests.aws.engines import kept

TABLES: Final = {"orders": "id", "undone": "id"}
ORDERS: Final = 3
MOST_DEATHS: Final = 4
"""Of a walk: what a function is killed over five times in a row ends."""

MOST_REDRIVES: Final = 3

MINUTE: Final = 60_000


class Order(BaseModel):
    id: str


class Priced(BaseModel):
    price: dict[str, int]


class Packed(BaseModel):
    """What the newer release ships. It reads what the older one has sent, which knows no boxes."""

    price: dict[str, int]
    boxes: int = 1


def count(step: Step[Any], what: str) -> None:
    step.update("orders", {"id": step.object_id}, "ADD #what :one", names={"#what": what}, values={":one": 1})


class Price(Stage[Order], name="price"):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        return Done({"total": 7})


class Prices(Flow, name="prices", object_id="id"):
    stages = (Price,)


class Undo(Stage[Failure], name="undo"):
    def handle(self, failure: Failure, step: Step[Any]) -> Outcome:
        step.update("undone", {"id": step.object_id}, "ADD times :one", values={":one": 1})
        return Done()


class OldTake(Stage[Order], name="take", then=("ship", "late")):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        count(step, "taken")
        return OldShip.when_all(price=step.ask(Prices, order), within=timedelta(days=3), on_timeout="late")


class OldShip(Stage[Priced], name="ship"):
    def handle(self, priced: Priced, step: Step[Any]) -> Outcome:
        count(step, "shipped")
        return Done(priced.price)


class Late(Stage[dict[str, Any]], name="late"):
    def handle(self, nothing: dict[str, Any], step: Step[Any]) -> Outcome:
        return Done("late")


class Old(Flow, name="orders", object_id="id", on_failed=Undo, version=1):
    stages = (OldTake, OldShip, Late, Undo)


class NewTake(Stage[Order], name="take", then=("pack", "late")):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        count(step, "taken")
        return Pack.when_all(price=step.ask(Prices, order), within=timedelta(days=3), on_timeout="late")


class Pack(Stage[Priced], name="pack", then="ship"):
    def handle(self, priced: Priced, step: Step[Any]) -> Outcome:
        return NewShip.message(Packed(price=priced.price, boxes=2))


class NewShip(Stage[Packed], name="ship"):
    def handle(self, packed: Packed, step: Step[Any]) -> Outcome:
        count(step, "shipped")
        return Done(packed.price)


class New(Flow, name="orders", object_id="id", on_failed=Undo, version=2, accepts=(1,)):
    stages = (NewTake, Pack, NewShip, Late, Undo)


WEATHERS: Final = ("", "", "late-copies=20m", "throttled=5m", "dynamodb-away=5m@1s", "sqs-away=5m@1s", "pollers")


class TwoReleases(World):
    """A world with the functions of both. ``served`` are the releases whose functions there are now."""

    def __init__(self, draw: random.Random, **options: Any) -> None:
        super().__init__([New, Prices], tables=TABLES, passed=self._die, most_receives=100, **options)
        self.seen = Counter[str]()
        self.served: tuple[AnyFlow, ...] = (Old, New)
        self._draw = draw
        self._deaths = 0

    def _set_up(self) -> None:
        super()._set_up()
        newer = self.source.functions
        self._functions = {New: newer, Old: Functions([Old, Prices], newer._services)}

    def _on_event(self, event: Event) -> None:
        self.seen[event.type.value] += 1
        super()._on_event(event)

    def _deliver(self, delivery: Delivery) -> Delivered:
        self.source.functions = self._functions[self._draw.choice(self.served)]
        return super()._deliver(delivery)

    def _die(self, point: Point, delivery: Delivery, message: Message | None) -> None:
        if self._deaths < MOST_DEATHS and self._draw.random() < 0.04:
            self._deaths += 1
            self.seen["died"] += 1
            raise Died(point)

    def rest(self, *served: AnyFlow) -> None:
        """Let only these releases be there until nothing is left to deliver."""
        self.served = served
        for _ in self.run():
            pass

    def mixed(self, until: int) -> None:
        while self.step(until) is not None:
            pass

    # -- what is there

    @property
    def statuses(self) -> Counter[str]:
        return Counter(item["status"]["S"] for item in self.runs())

    def told(self, *types: EventType) -> int:
        return sum(self.seen[one.value] for one in types)

    def runs(self) -> Iterator[Any]:
        return (item for item in self.scan("flowguard") if item["pk"]["S"].startswith("run#orders#"))

    def letters(self) -> list[Any]:
        return [one for name in ("orders", "prices") for one in self.mail.take(f"{name}-dead-letters")]

    def send_back(self, letters: list[Any]) -> None:
        """Send letters back as any tool does: to the queue of their flow, as they are."""
        for letter in letters:
            name = letter["MessageAttributes"][FLOW_STAGE]["StringValue"].partition("/")[0]
            url = self.provisioner.queue(name)
            self.aws.client("sqs").send_message(
                QueueUrl=url, MessageBody=letter["Body"], MessageAttributes=letter["MessageAttributes"]
            )


@contextmanager
def walk(seed: int) -> Iterator[TwoReleases]:
    """Some orders, with both releases there for a while. Whatever comes after it, nothing has failed."""
    draw = random.Random(f"two releases {seed}")
    with (
        VirtualTime(START) as clock,
        MemoryAWS(clock, seed=seed) as aws,
        kept(),
        TwoReleases(draw, aws=aws, clock=clock, seed=seed, weather=draw.choice(WEATHERS)) as world,
    ):
        for number in range(ORDERS):
            at = START + draw.randrange(5_000)
            event = sqs_event("orders", {"id": f"o{number}"}, message_id=f"m{number}", sent_at=at)
            for one in read_recording(event):
                assert isinstance(one, RecordedRecord)
                world.put(one.envelope, one.raw, at=at)
        world.mixed(START + draw.choice((100, 1_000, 5_000, MINUTE, 10 * MINUTE, 60 * MINUTE)))
        yield world
        assert not world.told(EventType.FAILED, EventType.UNDONE), "no run has failed, and nothing is undone"
        assert "undone" not in world.provisioner.tables or world.scan("undone") == []


def all_end(world: TwoReleases) -> None:
    """Send back what is parked: every run is completed, and each effect applied once."""
    world.rest(New)
    for _ in range(MOST_REDRIVES):
        world.send_back(world.letters())
        world.rest(New)
    assert world.statuses == {Status.COMPLETED.value: ORDERS}
    assert [(row["taken"]["N"], row["shipped"]["N"]) for row in world.scan("orders")] == [("1", "1")] * ORDERS


def forwards(seed: int) -> Counter[str]:
    with walk(seed) as world:
        all_end(world)
        return world.seen


def back(seed: int) -> Counter[str]:
    """The older release alone completes what it knows. What it does not know is parked, and ends after its redrive."""
    with walk(seed) as world:
        world.rest(Old)
        letters = world.letters()
        parked = {json.loads(one["MessageAttributes"][PLACE]["StringValue"]).get("object") for one in letters}
        completed = {item["pk"]["S"].rpartition("#")[2] for item in world.runs() if item["status"]["S"] == "COMPLETED"}
        assert {*parked, *completed} >= {f"o{number}" for number in range(ORDERS)}, "nothing goes round, or is lost"
        world.send_back(letters)
        all_end(world)
        return world.seen


@pytest.fixture(autouse=True)
def records_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody knows stays in its queue for minutes, as in AWS: worlds drop it, to which nothing new ever comes."""
    monkeypatch.setattr("flowguard.sim.world.LEFT_THERE", frozenset())


WAYS: Final = pytest.mark.parametrize("way", [forwards, back])


@WAYS
@pytest.mark.parametrize("seed", range(4))
def test_two_releases_at_once_end_no_run(way: Callable[[int], Counter[str]], seed: int) -> None:
    way(seed)


@pytest.mark.long("a hundred seeds of the walks of which `make test` has four")
@WAYS
def test_hundreds_of_walks_end_no_run(way: Callable[[int], Counter[str]]) -> None:
    seen = sum(map(way, range(100)), Counter[str]())
    assert all(seen[one] > 20 for one in ("parked", "unroutable", "died", "broken")), "it shows nothing"


class Nobodys(Exception):
    """An error that nothing raises."""


GUARDS: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    "what a release does not know ends no run": (
        ("flowguard.worker.no_run.OtherRelease", Nobodys),
        ("flowguard.worker.fail_phase.OtherRelease", Nobodys),
    ),
    "a wait that goes on at a stage of another release is parked": (
        ("flowguard.worker.settler.Settler._is_parked", lambda *_: True),
    ),
}


@pytest.mark.slow("strikes at each call of a run")
@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_that_is_taken_away_is_noticed(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, broken in GUARDS[guard]:
        monkeypatch.setattr(name, broken)
    with pytest.raises(AssertionError):
        deque(map(back, range(12)), maxlen=0)

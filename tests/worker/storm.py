"""Whatever may happen to a flow's records, drawn from a seed: copies, deaths, and workers that overtake each other.

::

    deliver ── call ── call ✗ the function dies before it, or after it took effect
                       └▶ something else happens here: another delivery, an order, time that passes
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock, no_pause
from flowguard.events import Observer, log
from flowguard.names.ids import SeededIds
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.worker.kills import MOST_KILLS
from flowguard.worker.ports import Services
from tests.aws.engines import kept, same_clients
from tests.proofs.soak.mapping import as_record
from tests.waits import START
from tests.worker.runtime.mishaps import Died

Function = Callable[[Any], Any]
Happenings = Mapping[str, tuple[int, Callable[[], None]]]
"""What may happen beside deliveries, each with its weight among them."""

LEASE_S: Final = 31
"""After so many seconds a lease is over that was taken without Lambda."""

MOST_COPIES: Final = 2
DEEPEST: Final = 2
"""Workers at once: so many handlers are needed for each queue."""


class Account(NamedTuple):
    """An AWS in memory with what a seed decides. Each worker gets services of its own."""

    aws: MemoryAWS
    draw: random.Random
    clock: ManualClock
    ids: SeededIds

    def services(self, observer: Observer = log) -> Services:
        """Build the services of one worker."""
        given: dict[str, Any] = {"clock": self.clock, "ids": self.ids, "draw": self.draw, "observer": observer}
        return aws_services(Settings(), same_clients(), pause=no_pause, **given)


@contextmanager
def account(seed: int, tables: Sequence[str], queues: Sequence[str]) -> Iterator[Account]:
    """An empty account with the run table, these tables and these queues."""
    clock = ManualClock(START)
    with MemoryAWS(clock) as aws, kept():
        aws.create_table("flowguard")
        for table in tables:
            aws.create_business_table(table, "id")
        for queue in queues:
            aws.create_queue(queue)
        yield Account(aws, random.Random(seed), clock, SeededIds())


@dataclass
class Held:
    """A record that may be delivered. Copies of a message are records of their own."""

    queue: str
    record: dict[str, Any]
    receives: int = 0

    @property
    def attempt(self) -> str:
        """What counts as one attempt where its workers are killed."""
        return json.dumps([self.record["body"], self.record["messageAttributes"]], sort_keys=True)


@dataclass
class _Frame:
    """One delivery or call of a client, and what strikes at one of its calls."""

    strikes_at: int
    strike: str
    attempts: Sequence[str]
    calls: int = 0


@dataclass
class Storm:
    """The records that are under way. ``functions`` has for each queue as many as there may be at once."""

    aws: MemoryAWS
    clock: ManualClock
    draw: random.Random
    functions: Mapping[str, Sequence[Function]] = field(default_factory=dict)
    happenings: Happenings = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    is_wild: bool = True
    largest_batch: int = 1
    _frames: list[_Frame] = field(default_factory=list)
    _killed: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def blowing(self) -> Iterator[None]:
        """Strike at calls while the block runs."""
        with intercept(self._at_call):
            yield

    # -- what happens

    def step(self) -> None:
        """Let one thing happen."""
        names = ["deliver", "wait", *self.happenings]
        weights = [8, 1, *(weight for weight, _ in self.happenings.values())]
        match self.draw.choices(names, weights)[0]:
            case "deliver":
                self.deliver()
            case "wait":
                self.wait(self.draw.choice((1, 10, LEASE_S)))
            case name:
                self.log.append(f"{len(self._frames)} {name}")
                self.call(self.happenings[name][1])

    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)
        self.log.append(f"{len(self._frames)} +{seconds}s")

    def call(self, happening: Callable[[], None]) -> None:
        """What a client does, who may die as well."""
        with self._framed(()):
            happening()

    def collect(self) -> None:
        """Take up what was sent by now."""
        for queue in self.functions:
            self.held += [Held(queue, one) for one in self.take(queue)]

    def take(self, queue: str) -> list[dict[str, Any]]:
        """Take what lies in a queue now, as Lambda's records."""
        taken: list[dict[str, Any]] = []
        with self.lull():
            sqs = self.aws.client("sqs")
            url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
            while more := sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
            ).get("Messages"):
                for one in more:
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
                    taken.append(as_record(one, f"/{queue}"))
        return taken

    @contextmanager
    def lull(self) -> Iterator[None]:
        """Let nothing strike at the calls of the block, which are the test's own."""
        frames, self._frames = self._frames, []
        try:
            yield
        finally:
            self._frames = frames

    def deliver(self) -> None:
        """Deliver one of the records, in any order."""
        self.collect()
        if not self.held:
            return
        first = self.draw.choice(self.held)
        same = [held for held in self.held if held.queue == first.queue and held is not first]
        batch = [first, *self.draw.sample(same, min(len(same), self.draw.randrange(self.largest_batch)))]
        records = [self._received(held, place) for place, held in enumerate(batch)]
        function = self.functions[first.queue][len(self._frames)]
        with self._framed([held.attempt for held in batch]):
            answer = function({"Records": records})
            kept = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            for held, record in zip(batch, records, strict=True):
                if record["messageId"] in kept:
                    self.log.append(f"{len(self._frames)}  kept {_named(record)}")
                elif any(held is one for one in self.held) and not (self.is_wild and self._is_copied(held)):
                    self.held = [one for one in self.held if one is not held]

    def _received(self, held: Held, place: int) -> dict[str, Any]:
        held.receives += 1
        count = str(min(held.receives, 3))
        self.log.append(f"{len(self._frames)} deliver {held.queue} {_named(held.record)}")
        return {**held.record, "attributes": {**held.record["attributes"], "ApproximateReceiveCount": count}}

    def _is_copied(self, held: Held) -> bool:
        return held.receives <= MOST_COPIES and self.draw.random() < 0.2

    # -- what strikes

    @contextmanager
    def _framed(self, attempts: Sequence[str]) -> Iterator[None]:
        strikes = self.is_wild and self.draw.random() < 0.45
        kinds = ["before", "after"] if self._may_be_killed(attempts) else []
        if len(self._frames) + 1 < DEEPEST:
            kinds += ["within", "beyond"]
        if strikes and kinds:
            frame = _Frame(self.draw.randrange(1, 8), self.draw.choice(kinds), attempts)
        else:
            frame = _Frame(0, "", attempts)
        self._frames.append(frame)
        depth = len(self._frames)
        try:
            yield
        except Died:
            self._killed.update(attempts)
        finally:
            assert len(self._frames) == depth
            self._frames.pop()

    def _may_be_killed(self, attempts: Sequence[str]) -> bool:
        """Answer whether a function may die: so many deaths in a row end a hop by right."""
        return all(self._killed[attempt] < MOST_KILLS - 1 for attempt in attempts)

    def _at_call(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if not self._frames:
            return proceed()
        frame = self._frames[-1]
        frame.calls += 1
        if frame.calls != frame.strikes_at:
            return proceed()
        self.log.append(f"{len(self._frames)}  {frame.strike} {call.operation}")
        if frame.strike == "before":
            raise Died
        if frame.strike == "within":
            self._meanwhile(frame)
            return proceed()
        answer = proceed()
        if frame.strike == "after":
            raise Died
        self._meanwhile(frame)
        return answer

    def _meanwhile(self, frame: _Frame) -> None:
        for _ in range(self.draw.randrange(1, 4)):
            if self.draw.random() < 0.4 and self._may_be_killed(frame.attempts):
                self._killed.update(frame.attempts)  # they count as killed where another takes their hops
                self.wait(LEASE_S)
            self.step()

    # -- the end

    def statuses(self) -> set[str]:
        """How the runs stand, of whatever flow."""
        return {item["status"]["S"] for item in self.aws.items("flowguard") if item["sk"]["S"] == "run"}

    def settle(self, most: int = 600) -> bool:
        """Let nothing strike any more, and deliver what there is, until nothing is left. Whether that is so."""
        self.is_wild = False
        for _ in range(most):
            self.collect()
            if not self.held and not any(self.aws.messages(queue) for queue in self.functions):
                return True
            self.wait(LEASE_S)
            self.deliver()
        return False


class Senders:
    """Those who ask for runs: at most so many, each again and again. One that has died before repeats its request."""

    def __init__(self, storm: Storm, start: Callable[[str, int], None], most: int) -> None:
        """``start`` sends the request of this name and time."""
        self._storm = storm
        self._start = start
        self.most = most
        self.asked: dict[str, int] = {}
        self._sent: set[str] = set()

    def ask(self) -> None:
        if len(self.asked) < self.most:
            self._storm.clock.advance(ms=self._storm.draw.choice((0, 1, 700)))
            name = f"run-{len(self.asked) + 1}"
            self.asked[name] = self._storm.clock.now() - self._storm.draw.choice((0, 0, 1_000))
            self._send(name)

    def again(self) -> None:
        if self.asked:
            self._send(self._storm.draw.choice(sorted(self.asked)))

    def ask_the_rest(self, least: int) -> None:
        """Let so many ask at least, and those who may not have asked."""
        while len(self.asked) < least:
            self.ask()
        for name in sorted(self.asked.keys() - self._sent):
            self._send(name)

    def _send(self, name: str) -> None:
        self._start(name, self.asked[name])
        self._sent.add(name)


def replies_in(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, set[str]]]:
    """The texts of the replies by their requests and their ids."""
    replies: dict[str, dict[str, set[str]]] = {}
    for one in records:
        request, name = json.loads(one["body"])["request_id"], one["messageAttributes"]["uniquerequestid"]
        replies.setdefault(request, {}).setdefault(name["stringValue"], set()).add(one["body"])
    return replies


def number_of(name: str) -> int:
    """The number of a sender's request."""
    return int(name.removeprefix("run-"))


def _named(record: Mapping[str, Any]) -> str:
    texts = {name: one.get("stringValue", "") for name, one in record["messageAttributes"].items()}
    return f"{texts.get('uniquerequestid')} {texts.get('flowstage', '')} {texts.get('flowguard', '')[:150]}"

"""Many functions at work at once on an AWS in memory, in virtual time, that change places at each call.

One of them runs at a time: each call of AWS and each piece of work hands over to whoever is next in time. So a seed
gives the same run each time, and nothing sleeps.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

from flowguard.aws.services import aws_services
from flowguard.clock import Clock
from flowguard.events import EventType, Tally
from flowguard.flow import AnyFlow
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId, RequestId, SeededIds
from flowguard.payload.encoding import Payload
from flowguard.protocol.places import SKEW
from flowguard.settings import Settings
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.testing.context import FakeContext
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.worker.ports import Services
from tests.aws.engines import kept, same_clients

START: Final = 1_800_000_000_000
HOUR: Final = 3_600_000


class Killed(KeyboardInterrupt):
    """The process is gone: nothing of ours catches it, and no call is made any more."""


@dataclass(frozen=True)
class Trouble:
    """What goes wrong, by chance: shares of calls and of records."""

    killed: float = 0
    refused: float = 0
    delivered_twice: float = 0


class Hand:
    """A thread, or none of them: it waits until another one hands over to it, and works for one function at a time.

    To keep a thread for the next function, and to wait for a bare lock, takes half as long as the calls that are made.
    """

    def __init__(self) -> None:
        lock = threading.Lock()
        self.wait, self.go = lock.acquire, lock.release
        self.wait()


@dataclass(eq=False)
class Worker:
    """A function with its records. It is cut off when its time is over."""

    queue: str
    messages: list[Any]
    ends: int
    hand: Hand
    is_dead: bool = False
    answer: Any = None


@dataclass
class Held:
    """A handler at work: for what key, and until when its worker may hold a place."""

    key: object
    object_id: str
    until: int


class Crowd:
    """Functions of a flow, ``slots`` of them at once. ``before`` is called before each call, and may raise."""

    def __init__(
        self,
        flow: AnyFlow,
        *,
        seed: int = 0,
        slots: int = 1,
        lease: int = 30_000,
        batch: int = 1,
        trouble: Trouble = Trouble(),
        before: Callable[[ApiCall], object] = lambda call: None,
        after: Callable[[ApiCall], object] = lambda call: None,
    ) -> None:
        self.flow, self.slots, self.lease, self.batch, self.trouble = flow, slots, lease, batch, trouble
        self.before, self.after = before, after
        self.draw, self.start_ms, self.now_ms, self.tally = random.Random(seed), START, START, Tally()
        self.queue = str(flow.inbox_of(flow.entry()).short_name)  # type: ignore[union-attr]  # they are queues
        self.handled: list[tuple[int, str, str]] = []
        self.held: list[Held] = []
        self.most: Counter[object] = Counter()
        self.receives: Counter[str] = Counter()
        self._seed = seed
        self._due: list[tuple[int, int, Worker | Callable[[], object]]] = []
        self._numbers, self._busy = itertools.count(), 0
        self._here = threading.local()
        self._main, self._until = Hand(), START
        self._idle: list[Hand] = []
        self._works_for: dict[Hand, Worker | None] = {}
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        self.aws = self._exit.enter_context(MemoryAWS(self, seed=self._seed))
        self._exit.enter_context(kept())
        self.aws.create_table("flowguard")
        self.aws.create_queue(self.queue, VisibilityTimeout=str(self.lease // 1000 + 1))
        self.aws.create_queue(self.flow.dead_letters.short_name)  # type: ignore[union-attr]  # it is one
        self._exit.enter_context(intercept(self._called))
        self.services = self._services()
        self.serve(self.flow)
        self.sqs: Any = self.aws.client("sqs")
        self._url = self.services.sender.queue_url(self.queue)  # type: ignore[attr-defined]  # AWS's has it
        return self

    def __exit__(self, *error: object) -> None:
        for hand in self._idle:
            self._works_for[hand] = None
            hand.go()
        self._exit.close()

    def _services(self) -> Services:
        clock: Clock = self
        return aws_services(
            Settings(),
            same_clients(),
            clock=clock,
            ids=SeededIds(self._seed),
            observer=self.tally,
            draw=random.Random(self._seed),
            pause=lambda seconds: self.pass_time(round(seconds * 1000)),
        )

    def serve(self, flow: AnyFlow) -> None:
        """Deploy this flow in place of the one before."""
        self.flow = flow
        self._function = lambda_handler(flow, together=self.batch > 1).using(self.services)

    def now(self) -> int:
        return self.now_ms

    # -- what a handler does

    def pass_time(self, ms: int) -> None:
        """Let others go on for so long. Whoever has no more time is cut off."""
        worker: Worker | None = getattr(self._here, "worker", None)
        if worker is None:
            return
        is_cut_off = self.now_ms + ms >= worker.ends
        self._at(max(worker.ends, self.now_ms) if is_cut_off else self.now_ms + ms, worker)
        worker.is_dead = worker.is_dead or is_cut_off
        if (following := self._following()) is not worker:
            (following.hand if following else self._main).go()
            worker.hand.wait()
        if worker.is_dead:
            raise Killed

    @contextmanager
    def at_work(self, key: object, object_id: str, stage: str = "") -> Iterator[None]:
        """Note a handler that is at work for a key. One that was killed holds its place as long as its lease."""
        worker: Worker = self._here.worker
        self.held = [other for other in self.held if other.until + SKEW >= self.now_ms and other.object_id != object_id]
        mine = Held(key, object_id, worker.ends)
        self.held.append(mine)
        self.handled.append((self.now_ms - START, object_id, stage))
        self.most[key] = max(self.most[key], sum(other.key == key for other in self.held))
        try:
            yield
        except Exception:
            self.held.remove(mine) if mine in self.held else None
            raise
        self.held.remove(mine) if mine in self.held else None

    # -- messages

    def start(self, payload: Payload, at: int = 0, **changes: Any) -> None:
        """Send a request after so many ms. ``changes`` are of its message."""
        self._at(START + at, lambda: self.send(payload, **changes))

    def at(self, ms: int, what: Callable[[], object]) -> None:
        """Do this after so many ms."""
        self._at(START + ms, what)

    def send(self, payload: Payload, **changes: Any) -> None:
        request_id = changes.pop("request_id", f"run-{next(self._numbers)}")
        message, _ = self.flow.request(payload, request_id=RequestId(request_id), requested_at=self.now_ms)
        message = message._replace(**changes)
        attributes: Any = attributes_to(Attribute.to_sqs_api, message.attributes())
        self.sqs.send_message(QueueUrl=self._url, MessageBody=message.body, MessageAttributes=attributes)

    @property
    def waiting(self) -> list[Any]:
        """The messages in the queue, delayed ones and those in flight too."""
        stored: Any = self.aws._sqs._named(self.queue).messages
        return list(stored.values() if isinstance(stored, Mapping) else stored)

    def items(self, beginning: str, sort: str = "") -> list[Any]:
        rows = self.aws.items("flowguard")
        return [row for row in rows if row["pk"]["S"].startswith(beginning) and row["sk"]["S"].startswith(sort)]

    def item(self, object_id: str) -> Any:
        return self.services.store.read(self.flow.name, ObjectId(object_id))  # type: ignore[attr-defined]

    def told(self, event: EventType) -> int:
        return self.tally.count(event)

    # -- the course of time

    def run(self, until: int = 4 * HOUR) -> None:
        """Go on until nothing is left to do, or for so many ms since the start."""
        self._until = START + until
        while True:
            self._poll()
            times = [self._due[0][0]] if self._due else []
            if (visible := self._visible()) is not None:
                times.append(max(visible, self.now_ms + 1))
            if not times or min(times) > self._until:
                return
            self.now_ms = max(self.now_ms, min(times))
            if self._due and self._due[0][0] <= self.now_ms:
                _, _, what = heapq.heappop(self._due)
                if isinstance(what, Worker):
                    what.hand.go()
                    self._main.wait()
                else:
                    what()

    def _following(self) -> Worker | None:
        """Take the function that goes on next, where nothing else comes before: the threads hand over without `run`."""
        due, _, what = self._due[0]
        visible = self._visible()
        if (
            not isinstance(what, Worker)
            or due > self._until
            or (visible is not None and visible <= max(due, self.now_ms))
        ):
            return None
        heapq.heappop(self._due)
        self.now_ms = max(self.now_ms, due)
        return what

    def _visible(self) -> int | None:
        """When the next message is visible, if there is one, and somebody who would take it."""
        if self._busy >= self.slots:
            return None
        return min((message.visible_at for message in self.waiting), default=None)

    def _at(self, ms: int, what: Worker | Callable[[], object]) -> None:
        heapq.heappush(self._due, (ms, next(self._numbers), what))

    def _poll(self) -> None:
        while (visible := self._visible()) is not None and visible <= self.now_ms:
            found = self.sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=self.batch,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["All"],
            ).get("Messages", [])
            if not found:
                return
            self.receives.update(message["MessageId"] for message in found)
            self._busy += 1
            worker = Worker(self.queue, found, self.now_ms + self.lease, self._free_hand())
            self._works_for[worker.hand] = worker
            self._at(self.now_ms + self.draw.randint(1, 20), worker)

    def _free_hand(self) -> Hand:
        if self._idle:
            return self._idle.pop()
        hand = Hand()
        threading.Thread(target=self._hands, args=(hand,), daemon=True).start()
        return hand

    def _hands(self, hand: Hand) -> None:
        hand.wait()
        while (worker := self._works_for[hand]) is not None:
            try:
                self._work(worker)
                self._idle.append(hand)
            finally:
                self._main.go()
            hand.wait()

    def _work(self, worker: Worker) -> None:
        self._here.worker = worker
        context = FakeContext(timeout=timedelta(milliseconds=self.lease), clock=self)
        try:
            worker.answer = self._function({"Records": list(map(self._record, worker.messages))}, context)
        except Killed:
            pass
        finally:
            self._here.worker = None
            self._ended(worker)

    def _ended(self, worker: Worker) -> None:
        self._busy -= 1
        if worker.answer is None:
            return
        failed = {failure["itemIdentifier"] for failure in worker.answer["batchItemFailures"]}
        for message in worker.messages:
            if message["MessageId"] not in failed and self.draw.random() >= self.trouble.delivered_twice:
                self.sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])

    def _record(self, message: Any) -> dict[str, Any]:
        attributes = {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in message.get("MessageAttributes", {}).items()
        }
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": attributes,
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{self.queue}",
            "awsRegion": REGION,
        }

    def _called(self, call: ApiCall, proceed: Proceed) -> Response:
        worker: Worker | None = getattr(self._here, "worker", None)
        if worker is None:
            return proceed()
        if worker.is_dead:
            raise Killed
        self._struck(worker, self.trouble.killed / 2)
        self.pass_time(self.draw.randint(1, 8))
        self._mishap(worker, lambda: self.before(call))
        if self.draw.random() < self.trouble.refused:
            raise throttled(call)
        answer = proceed()
        self.pass_time(self.draw.randint(1, 8))
        self._mishap(worker, lambda: self.after(call))
        self._struck(worker, self.trouble.killed / 2)
        return answer

    def _struck(self, worker: Worker, share: float) -> None:
        if self.draw.random() < share:
            worker.is_dead = True
            raise Killed

    @staticmethod
    def _mishap(worker: Worker, happens: Callable[[], object]) -> None:
        try:
            happens()
        except Killed:
            worker.is_dead = True
            raise


def throttled(call: ApiCall) -> Exception:
    from botocore.exceptions import ClientError

    answer: Any = {
        "Error": {"Code": "ThrottlingException", "Message": "no"},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    return ClientError(answer, call.operation)

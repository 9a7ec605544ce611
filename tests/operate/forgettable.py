"""A shop whose runs leave something in every place, and what walks through these places afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading
from flowguard.aws.forgetting import Forgetting
from flowguard.aws.object_traces import TraceReader
from flowguard.aws.stored_texts import StoredTexts
from flowguard.callback import Callback
from flowguard.clock import no_pause
from flowguard.destinations import Queue
from flowguard.errors import Reject
from flowguard.failed import Failure
from flowguard.flow import ATTACH, AnyFlow, Flow
from flowguard.group import GroupEnd
from flowguard.operate.forget_object import Forgetter, Forgotten
from flowguard.outcome import Done, Outcome
from flowguard.payload.codec import Codec
from flowguard.protocol.conflict import OnConflict
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowClock, FlowRunner
from tests.aws.engines import kept
from tests.codecs.test_whole_run import holds, texts

MARKER: Final = "MARKERWORD"
GONE: Final = "o-gone"
STAYS: Final = "o-stays"
OWN_QUEUES: Final = ("shop", "shop-answers", "picks", "payments", "shop-dead-letters", "picks-dead-letters")
"""The queues of the flows. What lies in others was sent to somebody."""


class Order(BaseModel):
    order_id: str
    note: str


class Part(BaseModel):
    part_id: str
    note: str


class Kept(BaseModel):
    secret: str = ""


def shop_flows(
    handled: list[tuple[str, str]], codec: Codec | None = None, on_conflict: OnConflict = ATTACH
) -> tuple[AnyFlow, AnyFlow]:
    """The shop and the flow that it asks. Each handler notes its stage and object."""

    class Pick(Stage[Part], name="pick"):
        def handle(self, part: Part, step: Step) -> Outcome:
            handled.append(("pick", step.object_id))
            return Done({"picked": f"{part.note} of {part.part_id}", "long": long(part.note)})

    class Picks(Flow, name="picks", object_id="part_id", codec=codec):
        stages = (Pick,)

    class Take(Stage[Order, Kept], name="take", then=("gather", "last")):
        def handle(self, order: Order, step: Step[Kept]) -> Outcome:
            handled.append(("take", step.object_id))
            step.state.secret = long(order.note)
            step.once("ask", lambda: {"said": long(order.note)})
            return Gather.when_all(
                small=step.ask(Picks, Part(part_id=f"{order.order_id}-small", note=order.note)),
                paid=step.event(f"paid-{order.order_id}", keep_early=True),
                within=timedelta(hours=1),
            )

    class Gather(Stage[dict[str, Any], Kept], name="gather", then="last"):
        retry = RetryPolicy(attempts=2, backoff=Fixed(5), jitter=0)

        def handle(self, parts: dict[str, Any], step: Step[Kept]) -> Outcome:
            handled.append(("gather", step.object_id))
            note = step.state.secret
            if step.attempt == 1:
                raise ValueError(f"{note[:40]} in an error")
            many = [(str(n), Part(part_id=f"{step.object_id}-{n}", note=note[:60])) for n in range(3)]
            return Last.when_group(step.group(Picks, many), within=timedelta(hours=1))

    class Last(Stage[GroupEnd, Kept], name="last"):
        def handle(self, end: GroupEnd, step: Step[Kept]) -> Outcome:
            handled.append(("last", step.object_id))
            if step.object_id.endswith("bad"):
                raise Reject(f"refused: {step.state.secret}")
            return Done({"told": step.state.secret})

    class Undo(Stage[Failure, Kept], name="undo"):
        def handle(self, failure: Failure, step: Step[Kept]) -> Outcome:
            handled.append(("undo", step.object_id))
            return Done({"undone": step.state.secret})

    class Shop(
        Flow,
        name="shop",
        object_id="order_id",
        codec=codec,
        answers="shop-answers",
        complete_to="shop-ends",
        full_history=True,
        on_failed="undo",
        on_conflict=on_conflict,
        retention=timedelta(days=2),
        callbacks=(Callback("payments", id="id", prefix="paid-", keep_early=timedelta(days=1)),),
    ):
        stages = (Take, Gather, Last, Undo)

    return Shop, Picks


def long(note: str) -> str:
    """A text with the note that does not compress, and so goes to S3."""
    digests = [hashlib.sha256(f"{note}{place}".encode()).hexdigest() for place in range(20)]
    return note + "".join(digests)


class Sent:
    """What was sent to the flows' own queues, to be sent once more."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.service == "sqs" and call.operation in ("SendMessage", "SendMessageBatch"):
            params: Any = call.params
            entries = params.get("Entries", [params])
            names = ("MessageBody", "MessageAttributes")
            self.calls += [(params["QueueUrl"], {n: one[n] for n in names if n in one}) for one in entries]
        return proceed()


@dataclass
class Place:
    """The AWS of a test, and the runs in it."""

    aws: MemoryAWS
    clock: FlowClock
    runner: FlowRunner
    shop: AnyFlow
    picks: AnyFlow
    sent: Sent
    handled: list[tuple[str, str]] = field(default_factory=list)

    def order(self, object_id: str, **about: Any) -> str:
        """Let a whole run take place, and return where it stands."""
        answer = {"by": long(f"{MARKER} {object_id} ")}
        sqs = self.aws.client("sqs")
        url = sqs.get_queue_url(QueueName="payments")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"id": object_id, **answer}))
        self.runner.run(within=timedelta(minutes=1))
        self.runner.send(self.shop, Order(order_id=object_id, note=f"{MARKER} {object_id} "), **about)
        return self.runner.run().run(object_id).status

    def forgetter(self, *, really: bool = True, at_once: bool = False, knows: tuple[AnyFlow, ...] = ()) -> Forgetter:
        clients, settings = Clients(), self.runner._world.settings
        stored = StoredTexts(lambda: clients.s3)

        def letters(flow: AnyFlow) -> Reading:
            assert isinstance(flow.dead_letters, Queue)
            dead = DeadLetterQueue.find(clients, flow.dead_letters.name, self.clock)
            return Reading(clients, dead, flow=flow, wait=0, clock=self.clock)

        flows = {flow.name: flow for flow in (self.shop, *knows)}
        return Forgetter(
            TraceReader(clients.dynamodb, settings.table, stored, settings.bucket, settings.prefix, no_pause, flows),
            Forgetting(clients.dynamodb, settings.table, stored, no_pause),
            letters,
            flows,
            self.clock.now(),
            really,
            at_once,
        )

    def forget(self, object_id: str = GONE) -> Forgotten:
        """Forget the object and its children, as the command does."""
        return self.forgetter(knows=(self.picks,)).forget(self.shop, object_id)

    def places(self, object_id: str) -> list[str]:
        """Where something of the object's data stands: in the table, in the flows' queues and in the bucket."""
        word = f"{MARKER} {object_id} "
        stored = [
            (f"{i['pk']['S']} {i['sk']['S']}", value) for i in self.aws.items("flowguard") for value in i.values()
        ]
        queued = [
            (queue, vars(m) if hasattr(m, "__dict__") else m) for queue in OWN_QUEUES for m in self.aws.messages(queue)
        ]
        objects = self.aws._s3.state().get("texts", {}).items()
        everything: list[tuple[str, Any]] = [*stored, *queued, *(("S3", data) for _, data in objects)]
        return sorted({name for name, value in everything if any(holds(t, word) for t in _texts(value))})

    def everything_comes_once_more(self) -> None:
        """Deliver all that was ever sent to the flows' queues again, in order, under new ids of SQS."""
        sqs, sent = self.aws.client("sqs"), list(self.sent.calls)
        for url, entry in sent:
            if url.rpartition("/")[2] in OWN_QUEUES[:3]:
                sqs.send_message(QueueUrl=url, **entry)
        self.runner.run()
        self.sent.calls = sent


def _texts(value: Any) -> Iterator[str]:
    yield from texts(value if isinstance(value, dict | list | bytes | str) else str(value))


@contextmanager
def place(codec: Codec | None = None, on_conflict: OnConflict = ATTACH) -> Iterator[Place]:
    """An empty AWS with a bucket for long texts."""
    sent, handled = Sent(), list[tuple[str, str]]()
    with FlowClock() as clock, MemoryAWS(clock) as aws, kept(), intercept(sent):
        runner = FlowRunner(aws, clock)
        aws.client("s3").create_bucket(Bucket="texts")
        world = runner._world
        world.settings = world.settings.model_copy(update={"bucket": "texts", "offload_above": 400})
        shop, picks = shop_flows(handled, codec, on_conflict)
        with runner:
            runner.serve(shop, picks)
            for queue in OWN_QUEUES:
                runner.queue(queue)
            yield Place(aws, clock, runner, shop, picks, sent, handled)

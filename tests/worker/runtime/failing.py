"""A flow whose failed runs go on at a stage that undoes them, as the tests of that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flowguard.failed import Failure
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from tests.scene import OrderState, Priced, Scene, Script, scene, two_stages


@dataclass
class Undoing:
    """What happens in the stage that undoes, and what it was handed."""

    script: Callable[[Step[OrderState]], Outcome | None] = lambda step: None
    seen: list[tuple[Failure, OrderState]] = field(default_factory=list)


def undoing_flow(
    script: Script, undoing: Undoing, policy: OnConflict = OnConflict.SUPERSEDE, **options: Any
) -> AnyFlow:
    """The flow of most tests, with a stage that takes back what was priced, and one that it may go on with."""

    class UndoOrder(
        Stage[Failure, OrderState],
        name="undo-order",
        then="tell-support",
        inbox="undo-order",
        retry=RetryPolicy(attempts=2, backoff=Fixed(0), jitter=0),
    ):
        def handle(self, failure: Failure, step: Step[OrderState]) -> Outcome:
            undoing.seen.append((failure, step.state.model_copy()))
            outcome = undoing.script(step)
            if step.state.total:
                step.update("orders", {"id": "o1"}, "ADD priced :less", values={":less": -1})
            step.update("orders", {"id": "undone"}, "ADD times :one", values={":one": 1})
            step.state.total = 0
            return outcome or Done()

    class TellSupport(Stage[Priced, OrderState], name="tell-support", then="tell-support", inbox="undo-order"):
        def handle(self, priced: Priced, step: Step[OrderState]) -> Outcome:
            return Done({"told": priced.total})

    class Orders(
        Flow,
        name="orders",
        object_id="order_id",
        on_failed=UndoOrder,
        on_conflict=policy,
        complete_to="completed",
        dead_letters="dead",
        **options,
    ):
        stages = (*two_stages(script), UndoOrder, TellSupport)

    return Orders


@contextmanager
def undoing_scene(
    engine: type[AWSInProcess] = MemoryAWS, settings: Settings | None = None, **options: Any
) -> Iterator[tuple[Scene, Undoing]]:
    undoing = Undoing()
    with scene(lambda script: undoing_flow(script, undoing, **options), engine=engine, settings=settings) as at:
        at.aws.create_queue("undo-order")
        yield at, undoing


def undone(at: Scene) -> int:
    """How often the effect of undoing was applied."""
    found: Any = at.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": "undone"}})
    return int(found["Item"]["times"]["N"]) if "Item" in found else 0


def hand_over(at: Scene, queue: str = "undo-order") -> list[bool]:
    """Deliver what waits in the queue, as Lambda would. Whether each record was acked."""
    acked = []
    for message in at.sent(queue):
        received = message["Attributes"] | {"ApproximateReceiveCount": str(at.receives)}
        arn = f"arn:aws:sqs:us-east-1:123456789012:{queue}"
        event = {"Messages": [{**message, "Attributes": received, "eventSourceARN": arn}]}
        acked.append(at.handler(event) == {"batchItemFailures": []})
    return acked

"""What waiting costs: the calls of a stage that waits, of the answers, and of the stage after, with their units.

Counted on DynamoDB Local, which says of each call what it consumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, NamedTuple, cast

from botocore.exceptions import ClientError
from pydantic import BaseModel

from flowguard import Callback, Done, Flow, Outcome, Stage, Step, callback_handler
from flowguard.aws.clients import Clients
from flowguard.protocol.outbox import Kind
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.aws.engines import on_dynamodb_local
from tests.engines.dynamodb_local import dynamodb_local
from tests.engines.process import EngineMissing
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import a_request, an_event
from tests.proofs.bench.wire import Bench, event_of
from tests.proofs.bench.wrus import item_size

WITHIN: Final = timedelta(hours=1)
PARTY: Final = "party"


class Wanted(BaseModel):
    """How many flows a run asks, and for how many ids of others it waits."""

    id: str
    flows: int = 0
    ids: int = 0


class Answer(Stage[Wanted], name="answer"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return Done({"of": wanted.id})


class Answering(Flow, name="answering", object_id="id", trust_senders=True):
    stages = (Answer,)


class Ask(Stage[Wanted], name="ask", then="go-on"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        asks: dict[str, Any] = {
            f"flow_{n}": step.ask(Answering, Wanted(id=f"{wanted.id}-{n}")) for n in range(wanted.flows)
        }
        events: dict[str, Any] = {f"event_{n}": step.event(f"{wanted.id}/{n}") for n in range(wanted.ids)}
        return GoOn.when_all(**asks, **events, within=WITHIN)


class GoOn(Stage[dict[str, Any]], name="go-on"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done({"answers": len(answers)})


class Asking(
    Flow, name="asking", object_id="id", answers="answers", callbacks=(Callback(PARTY, id="of"),), trust_senders=True
):
    stages = (Ask, GoOn)


class Cost(NamedTuple):
    """The operations in their order, and the units of all of them."""

    calls: tuple[str, ...]
    writes: float
    reads: float


MARKS: Final = {
    "waits for two flows": Cost(("UpdateItem",) * 2, 2, 0),
    "waits for two ids": Cost(("UpdateItem", "BatchWriteItem", "UpdateItem"), 4, 0),
    "waits for 25 ids": Cost(("UpdateItem", "BatchWriteItem", "UpdateItem"), 27, 0),
    "waits for 26 ids": Cost(("UpdateItem", "BatchWriteItem", "BatchWriteItem", "UpdateItem"), 28, 0),
    "answer of a flow": Cost(("UpdateItem",), 1, 0),
    "the same again": Cost(("UpdateItem",), 1, 0),
    "answer from outside": Cost(("Query", "UpdateItem"), 1, 1),
    "that one again": Cost(("Query", "UpdateItem"), 1, 1),
    "deadline ahead": Cost(("UpdateItem",), 1, 0),
    "goes on with the answers": Cost(("UpdateItem",) * 2, 2, 0),
}
"""What each costs, by the name of its figure. The items have less than 1 KB."""


def figures() -> list[Figure]:
    try:
        with dynamodb_local() as url:
            found = costs(on_dynamodb_local(url))
    except EngineMissing as missing:
        return [
            Figure(f"DynamoDB calls, {name}", None, len(mark.calls), note=str(missing)) for name, mark in MARKS.items()
        ]
    return [
        Figure(f"DynamoDB calls, {name}", len(cost.calls), len(MARKS[name].calls), note=_units(cost))
        for name, cost in found.items()
    ]


def _units(cost: Cost) -> str:
    return f"{cost.writes:g} WRUs" + (f", {cost.reads:g} RRUs" if cost.reads else "")


def costs(clients: Clients) -> dict[str, Cost]:
    """What each costs, by its name."""
    bench = Bench(Asking, clients, Answering)
    found: dict[str, Cost] = {}

    def begins(name: str, **wanted: Any) -> None:
        event, _ = a_request(Asking, Wanted(id=name, **wanted), request_id=name, requested_at=bench.clock.now())
        with _counted(found, name):
            bench.deliver(event)

    begins("waits for two flows", flows=2)
    asked = [send for send in bench.wire.sent if send.kind is Kind.ASK]
    (deadline,) = (send for send in bench.wire.sent if send.kind is Kind.DEADLINE)
    with _counted(found, "deadline ahead"):
        bench.deliver(event_of(deadline))
    for ask in asked:
        bench.deliver(event_of(ask))
        answer = bench.wire.next_event()
        with _counted(found, "answer of a flow"):
            bench.deliver(answer)
        if ask is asked[0]:
            with _counted(found, "the same again"):
                bench.deliver(answer)
    with _counted(found, "goes on with the answers"):
        bench.deliver(bench.wire.next_event())

    begins("waits for two ids", ids=2)
    outside = callback_handler(Asking).using(bench.services)
    answer = an_event(PARTY, '{"of": "waits for two ids/0"}', {}, message_id="m-1", sent_at=0)
    for name in ("answer from outside", "that one again"):
        with _counted(found, name):
            outside(answer)

    begins("waits for 25 ids", ids=25)
    begins("waits for 26 ids", ids=26)
    return {name: found[name] for name in MARKS}


@contextmanager
def _counted(found: dict[str, Cost], name: str) -> Iterator[None]:
    with intercept(_Consumed()) as consumed:
        yield
    found[name] = consumed.cost()


class _Consumed:
    """Asks every call of DynamoDB what it consumed."""

    def __init__(self) -> None:
        self._made: list[tuple[str, float]] = []

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        params = cast("dict[str, Any]", call.params)
        params["ReturnConsumedCapacity"] = "TOTAL"
        try:
            answer: Any = proceed()
        except ClientError as error:
            self._made.append((call.operation, _of_refused(error)))
            raise
        said = answer.get("ConsumedCapacity", [])
        tables = said if isinstance(said, list) else [said]
        self._made.append((call.operation, sum(float(one["CapacityUnits"]) for one in tables)))
        return cast("Response", answer)

    def cost(self) -> Cost:
        reads = [units for operation, units in self._made if operation in ("Query", "GetItem")]
        writes = [units for operation, units in self._made if operation not in ("Query", "GetItem")]
        return Cost(tuple(operation for operation, _ in self._made), sum(writes), sum(reads))


def _of_refused(error: ClientError) -> float:
    """Units of a write whose condition fails. No answer says them: AWS charges the size of the item that was found."""
    found: Any = error.response.get("Item", {})
    return max(1, -(-item_size(found) // 1024))

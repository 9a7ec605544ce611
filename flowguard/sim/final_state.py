"""What remains when nothing is left to be delivered.

These are run items, the user's tables, and what waits in other queues.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from flowguard.aws.writes import from_item
from flowguard.sim.world import World
from flowguard.wire.envelope import BadRecord, Envelope, normalize
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLeft:
    """A run item in short. ``result`` and ``error`` are what the run ended with."""

    flow: str
    object_id: str
    request_id: str
    status: str
    stage: str
    hop: int
    epoch: int
    result: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message in a dead-letter queue. ``stage`` is ``<flow>/<stage>``.

    Of one that is ``unread`` no stage could read the payload. Its object is the one that the payload seems to name.
    """

    queue: str
    stage: str | None
    object_id: str | None
    request_id: str | None
    error: str | None
    unread: bool = False


Tables: TypeAlias = Mapping[str, tuple[Mapping[str, Any], ...]]
"""The items of tables by their names."""


class Unanswered(NamedTuple):
    """A stage that was asked, and whose flow is not among those that ran. ``queue`` is where the request waits."""

    flow: str
    stage: str
    queue: str


@dataclass(frozen=True, slots=True)
class FinalState:
    """The state after all deliveries.

    ``queues`` says how many messages wait in each queue that none of the flows reads, dead letters apart, and
    ``unanswered`` which of them ask a flow for an answer.
    """

    runs: tuple[RunLeft, ...]
    tables: Tables
    dead_letters: tuple[DeadLetter, ...]
    queues: Mapping[str, int]
    unanswered: tuple[Unanswered, ...] = ()

    @classmethod
    def of(cls, world: World) -> FinalState:
        """Read everything that is left. The queues are empty afterwards."""
        dead = {flow.dead_letters.name for flow in world.flows if hasattr(flow.dead_letters, "name")}
        inboxes = set(world.source.functions.by_queue)
        left = {name: world.mail.take(name) for name in sorted(world.provisioner.queues) if name not in inboxes}
        return cls(
            runs=_runs(world),
            tables=tables_of(world),
            dead_letters=tuple(
                _dead_letter(name, message) for name, messages in left.items() if name in dead for message in messages
            ),
            queues={name: len(messages) for name, messages in left.items() if name not in dead},
            unanswered=tuple(dict.fromkeys(_unanswered(world, left))),
        )


def tables_of(world: World) -> Tables:
    """Return the items of the user's tables as they are now."""
    return {table: _items(world, table) for table in sorted(world.provisioner.tables)}


def _unanswered(world: World, left: Mapping[str, list[Any]]) -> Iterator[Unanswered]:
    served = {flow.name for flow in world.flows}
    for queue, messages in left.items():
        for message in messages:
            for read in normalize({"Messages": [message]}):
                flow, stage, asks = ("", "", False) if isinstance(read, BadRecord) else _asked(read)
                if asks and flow not in served:
                    yield Unanswered(flow, stage, queue)


def _asked(message: Envelope) -> tuple[str, str, bool]:
    """Return the flow and stage that a message names, and whether somebody waits for the answer."""
    stage, place = (message.attributes.get(name) for name in (FLOW_STAGE, PLACE))
    if stage is None or place is None:
        return "", "", False
    flow, _, name = stage.value.partition("/")
    try:
        return flow, name, Place.parse(place.value).answer_to is not None
    except ValueError:  # an attribute of the user's own
        return flow, name, False


def _runs(world: World) -> tuple[RunLeft, ...]:
    runs = []
    for raw in sorted(world.scan(world.settings.table), key=lambda item: str(item["pk"])):
        if raw["sk"]["S"] != "run":
            continue
        _, flow, object_id = raw["pk"]["S"].split("#", 2)
        item = world.store.whole(raw)
        runs.append(
            RunLeft(
                flow=flow,
                object_id=object_id,
                request_id=item.request_id,
                status=item.status.value,
                stage=item.stage,
                hop=item.hop,
                epoch=item.epoch,
                result=json.loads(item.result) if item.result is not None else None,
                error=item.error,
            )
        )
    return tuple(runs)


def _items(world: World, table: str) -> tuple[Mapping[str, Any], ...]:
    items = [plain(dict(sorted(from_item(raw).items()))) for raw in world.scan(table)]
    return tuple(sorted(items, key=lambda item: json.dumps(item, sort_keys=True)))


def plain(value: Any) -> Any:
    """Convert DynamoDB's numbers, sets and bytes to what JSON has."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case set() | frozenset():
            return sorted((plain(part) for part in value), key=str)
        case list():
            return [plain(part) for part in value]
        case str() | bool() | None:
            return value
        case _:
            return str(bytes(value) if hasattr(value, "__bytes__") else value)


def _dead_letter(queue: str, message: Any) -> DeadLetter:
    (read,) = normalize({"Messages": [message]})
    if isinstance(read, BadRecord):
        return DeadLetter(queue=queue, stage=None, object_id=None, request_id=None, error=str(read.error), unread=True)
    texts = {name: attribute.value for name, attribute in read.attributes.items()}
    place = Place.parse(texts.get(PLACE, "{}"))
    return DeadLetter(
        queue=queue,
        stage=texts.get(FLOW_STAGE),
        object_id=place.object_id or place.seems,
        request_id=texts.get(REQUEST_ID),
        error=f"{place.first_error.type}: {place.first_error.text}" if place.first_error else None,
        unread=not place.object_id,
    )

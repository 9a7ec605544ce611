"""What releases that have landed wrote: the items and records of some runs, before each delivery.

``python -m tests.worker.runtime.landed_release`` records today's beside the others, where rows or records have other
attributes.
"""

from __future__ import annotations

import copy
import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from flowguard.sim.delivered import Delivered
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.world import START, World
from flowguard.testing import sqs_event
from tests.aws.engines import kept
from tests.testing.explorer.run.lasting_rows import Finds, Nightly, Pages, asked, kind_of, paid
from tests.worker.runtime.test_two_releases import TABLES, Old, Prices

FOLDER: Final = Path(__file__).parent / "landed"
FLOWS: Final = (Old, Prices, Nightly, Finds, Pages)
KEPT: Final = ("flowguard", *sorted(TABLES))

AnyWorld = TypeVar("AnyWorld", bound=World)

Moment = dict[str, Any]
"""Before one delivery: ``at``, the ``queue``, its ``record``, and the ``items`` of each table by their keys.

A file has of the items those that have changed since the moment before, None for one that is gone.
"""


def samples() -> list[Path]:
    return sorted(FOLDER.glob("*.json"))


def load(path: Path) -> list[Moment]:
    moments: list[Moment] = json.loads(path.read_text(), object_hook=_with_bytes)
    items: dict[str, Any] = {}
    for moment in moments:
        items = {key: item for key, item in {**items, **moment["items"]}.items() if item is not None}
        moment["items"] = items
    return moments


def dumped(moments: Sequence[Moment]) -> str:
    changed, before = [], dict[str, Any]()
    for moment in moments:
        items = {**dict.fromkeys(before), **moment["items"]}
        changed.append({**moment, "items": {key: one for key, one in items.items() if before.get(key) != one}})
        before = moment["items"]
    return json.dumps(changed, indent=1, sort_keys=True, default=_as_text) + "\n"


def _as_text(value: object) -> object:
    assert isinstance(value, bytes)
    return {"B64": b64encode(value).decode()}


def _with_bytes(value: dict[str, Any]) -> Any:
    return b64decode(value["B64"]) if value.keys() == {"B64"} else value


class Noting(World):
    """A world that notes what is there before each delivery."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.moments_before: list[Moment] = []

    def _deliver(self, delivery: Delivery) -> Delivered:
        items = {key_of(table, item): item for table in KEPT if self._has(table) for item in self.scan(table)}
        facts = {"at": self.clock.now(), "queue": delivery.queue, "record": delivery.raw, "items": items}
        self.moments_before.append(copy.deepcopy(facts))
        return super()._deliver(delivery)

    def _has(self, table: str) -> bool:
        return table == self.settings.table or table in self.provisioner.tables


def key_of(table: str, item: Any) -> str:
    return " ".join((table, *(item[name]["S"] for name in ("pk", "sk", "id") if name in item)))


@contextmanager
def opened(kind: type[AnyWorld], start: int) -> Iterator[AnyWorld]:
    with (
        VirtualTime(start) as clock,
        MemoryAWS(clock) as aws,
        kept(),
        kind(FLOWS, tables=TABLES, aws=aws, clock=clock) as world,
    ):
        yield world


def put(world: World, raw: Any, queue: str | None, at: int) -> None:
    event = {"Records": [raw]}
    (one,) = read_recording(event)
    assert isinstance(one, RecordedRecord)
    world.source.put(one.envelope, raw, queue or one.envelope.queue, at)


def recorded() -> list[Moment]:
    """Run each flow, and note what this release writes."""
    given = [
        (0, sqs_event("orders", {"id": "o1"}, message_id="m-o1", sent_at=START)),
        (10, sqs_event("to-ask-all", {"day": "monday"}, message_id="m-monday", sent_at=START)),
        *((20 + number, asked("tea", number)) for number in (1, 2)),
        (30, asked("milk", 3)),
        (60_000, paid("monday")),
    ]
    with opened(Noting, START) as world:
        for after, event in given:
            put(world, event["Records"][0], None, START + after)
        for _ in world.run():
            pass
        return world.moments_before


def waiting(moments: Sequence[Moment], place: int) -> list[Moment]:
    """Return what waits in queues at a moment: records that were sent before it, or came from outside."""
    at = moments[place]["at"]
    return [one for one in moments[place:] if sent_at(one["record"]) < at or sent_at(one["record"]) <= START]


def sent_at(record: Any) -> int:
    return int((record.get("attributes") or record["Attributes"])["SentTimestamp"])


def gone_on(moments: Sequence[Moment], place: int, *, died: bool = False) -> dict[str, object]:
    """Go on from a moment with today's code, with what waited in the queues then. Return how each run has ended.

    Where the other release ``died``, that was in the delivery before: it had committed, and sent nothing.
    """
    with opened(World, moments[place]["at"]) as world:
        dynamodb = world.aws.client("dynamodb")
        for key, item in moments[place]["items"].items():
            dynamodb.put_item(TableName=key.partition(" ")[0], Item=item)
        for one in waiting(moments, place - 1 if died else place):
            put(world, one["record"], one["queue"], max(one["at"], moments[place]["at"]))
        for _ in world.run():
            pass
        runs = {item["pk"]["S"]: item["status"]["S"] for item in world.scan("flowguard") if item["sk"]["S"] == "run"}
        rows = {row["id"]["S"]: (row["taken"]["N"], row["shipped"]["N"]) for row in world.scan("orders")}
        return {**runs, **rows}


def forms(moments: Sequence[Moment]) -> list[str]:
    """Return which attributes each kind of row and each queue's records have, with their types."""
    found = set[str]()
    for moment in moments:
        for key, item in moment["items"].items():
            kind = kind_of(item["pk"]["S"], item["sk"]["S"]) if "pk" in item else key.partition(" ")[0]
            found |= {f"{kind}: {name} {next(iter(value))}" for name, value in item.items()}
        record = moment["record"]
        sent = record.get("MessageAttributes") or record.get("messageAttributes") or {}
        found |= {f"to {moment['queue']}: {name}" for name in sent}
    return sorted(found)


def main() -> None:
    moments, known = recorded(), samples()
    if known and forms(load(known[-1])) == forms(moments):
        sys.stdout.write("nothing new\n")
        return
    path = FOLDER / f"{len(known) + 1:03d}.json"
    path.write_text(dumped(moments))
    sys.stdout.write(f"recorded {path.name}\n")


if __name__ == "__main__":
    main()

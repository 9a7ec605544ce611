"""What the streams of tables and of Kinesis say, to clients that read them without a mapping."""

from __future__ import annotations

from typing import Any

from flowguard.probe.lab import Lab
from flowguard.probe.made import table
from flowguard.probe.saw import Saw, asks


def _streamed(lab: Lab) -> tuple[str, str]:
    """Make a table with a stream of both images. Return its name, and the stream's ARN."""
    name = table(lab)
    view = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    lab.ask("dynamodb", "update_table", TableName=name, StreamSpecification=view)
    place = lab.ask("dynamodb", "describe_table", TableName=name)["Table"]["LatestStreamArn"]
    lab.until(lambda: _stream(lab, place)["StreamStatus"] == "ENABLED" and bool(_stream(lab, place)["Shards"]), 120)
    return name, place


def _stream(lab: Lab, place: str) -> Any:
    return lab.ask("dynamodbstreams", "describe_stream", StreamArn=place)["StreamDescription"]


def _changes(lab: Lab, place: str, count: int) -> list[Any]:
    """Read the changes of a stream from its beginning, as many as there are to be."""
    changes: list[Any] = []

    def enough() -> bool:
        changes.clear()
        for shard in _stream(lab, place)["Shards"]:
            changes.extend(_of_shard(lab, place, shard["ShardId"]))
        return len(changes) >= count

    lab.until(enough, 60)
    return changes


def _of_shard(lab: Lab, place: str, shard: str) -> list[Any]:
    given = {"StreamArn": place, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = lab.ask("dynamodbstreams", "get_shard_iterator", **given)["ShardIterator"]
    lab.ours(iterator)
    records: list[Any] = lab.ask("dynamodbstreams", "get_records", ShardIterator=iterator)["Records"]
    return records


def _put(lab: Lab, name: str, key: str, value: int) -> None:
    lab.ask("dynamodb", "put_item", TableName=name, Item={"pk": {"S": key}, "n": {"N": str(value)}})


@asks("mapping-stream-change", "dynamodb", "dynamodbstreams", seconds=60)
def stream_change(lab: Lab) -> Saw:
    """Put an item, change it and delete it, and read what the table's stream says."""
    name, place = _streamed(lab)
    _put(lab, name, "a", 1)
    _put(lab, name, "a", 2)
    lab.ask("dynamodb", "delete_item", TableName=name, Key={"pk": {"S": "a"}})
    changes = _changes(lab, place, 3)
    parts = [sorted({"Keys", "NewImage", "OldImage"} & change["dynamodb"].keys()) for change in changes]
    whole = all(change["dynamodb"]["ApproximateCreationDateTime"].microsecond == 0 for change in changes)
    wanted = [["Keys", "NewImage"], ["Keys", "NewImage", "OldImage"], ["Keys", "OldImage"]]
    return Saw(parts == wanted and whole, f"{parts}, times in whole seconds: {whole}")


@asks("stream-items-in-order", "dynamodb", "dynamodbstreams", seconds=60)
def items_in_order(lab: Lab) -> Saw:
    """Change two items in turn, and read the changes of each."""
    name, place = _streamed(lab)
    for number in range(10):
        for key in ("a", "b"):
            _put(lab, name, key, number)
    changes = [change["dynamodb"] for change in _changes(lab, place, 20)]
    of_items = {
        key: [change["NewImage"]["n"]["N"] for change in changes if change["Keys"]["pk"]["S"] == key] for key in "ab"
    }
    wanted = [str(number) for number in range(10)]
    return Saw(of_items == {"a": wanted, "b": wanted}, f"{len(changes)} changes of 20")

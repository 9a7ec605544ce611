"""The rows of the run table that say which stages are paused, since when, and why.

::

    pk pause#<flow>   sk <stage>   since, why, before {<mapping>: <its largest concurrency, or 0>}, [at_once]

A row says what was done, for those who look. No worker reads it: what is paused is the stage's event source mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.faults import error_code
from flowguard.aws.items import Item, number
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

UNBOUNDED: Final = 0
"""The largest concurrency of a mapping that has none."""


class Pause(NamedTuple):
    """A stage is paused since then (ms). ``before`` has the mappings that were on, with their largest concurrency.

    ``at_once`` is the concurrency at which it is drained. None while nothing of it begins.
    """

    flow: str
    stage: str
    since: int
    why: str
    before: Mapping[str, int]
    at_once: int | None = None


class PauseRows(NamedTuple):
    """The rows of one table."""

    client: DynamoDBClient
    table: str

    def of_flow(self, flow: str) -> list[Pause]:
        """Return the paused stages of a flow, by their names."""
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": _pk(flow)}},
            ConsistentRead=True,
        )
        return [_pause(flow, item) for page in pages for item in page["Items"]]

    def keep(self, pause: Pause) -> Pause:
        """Write the row of a pause that begins. Return the one that is there: an earlier pause stays as it was."""
        try:
            self.client.put_item(
                TableName=self.table,
                Item=_item(pause),
                ConditionExpression=expressions.IS_NEW,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            there: Any = error.response
            return _pause(pause.flow, there["Item"])
        return pause

    def change(self, pause: Pause) -> None:
        """Write the row of a pause that goes on otherwise."""
        self.client.put_item(TableName=self.table, Item=_item(pause))

    def remove(self, pause: Pause) -> None:
        """Remove the row of a pause that has ended."""
        self.client.delete_item(TableName=self.table, Key=_key(pause.flow, pause.stage))


def _pk(flow: str) -> str:
    return f"pause#{flow}"


def _key(flow: str, stage: str) -> Item:
    return {"pk": {"S": _pk(flow)}, "sk": {"S": stage}}


def _item(pause: Pause) -> Item:
    before = {mapping: number(at_once) for mapping, at_once in pause.before.items()}
    drained = {} if pause.at_once is None else {"at_once": number(pause.at_once)}
    told = {"since": number(pause.since), "why": {"S": pause.why}, "before": {"M": before}}
    return {**_key(pause.flow, pause.stage), **told, **drained}


def _pause(flow: str, item: Any) -> Pause:
    before = {mapping: int(value["N"]) for mapping, value in item["before"]["M"].items()}
    at_once = int(item["at_once"]["N"]) if "at_once" in item else None
    return Pause(flow, item["sk"]["S"], int(item["since"]["N"]), item["why"]["S"], before, at_once)

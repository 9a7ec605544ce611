"""The calls that waits and groups make on the run table, and how they keep an answer there."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flowguard.aws import botocore_errors
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.items import Item, number, read_item, run_key
from flowguard.aws.packing import Packed, Packing
from flowguard.payload.codec import About
from flowguard.protocol.answers import is_run_of
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.waiting import GivenAnswer
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.answer_address import AnswerAddress

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_CHARACTERS = 16
"""Of the digest that names a message in an item."""

WithPlan = Callable[[RunItem, Item], RunItem]


class WaitCalls(NamedTuple):
    """Makes the calls. ``with_plan`` reads the plan of a wait, which may be in S3.

    ``once`` makes a client that repeats no call; without it there is ``client`` alone.
    """

    client: DynamoDBClient
    table: str
    packing: Packing
    with_plan: WithPlan
    prefix: str = "flowguard/"
    pause: Callable[[float], None] = time.sleep
    once: Callable[[], DynamoDBClient] | None = None

    def get(self, key: Item) -> Item | None:
        """Read an item with one consistent GetItem."""
        answer: Any = patiently(
            lambda: self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True), self.pause
        )
        item: Item | None = answer.get("Item")
        return item

    def run(self, address: AnswerAddress) -> Item | None:
        """Read the run item of an address."""
        return self.get(run_key(address.flow, address.object_id))

    def query(self, pk: Item, start: Item | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield the pages of a partition as DynamoDB answers them.

        They are read consistently, from behind the sort key ``start`` on.
        """
        call: Any = {
            "TableName": self.table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": pk},
            "ConsistentRead": True,
            **({} if start is None else {"ExclusiveStartKey": {"pk": pk, "sk": start}}),
        }
        while True:
            answer: Any = patiently(lambda: self.client.query(**call), self.pause)
            yield answer
            if "LastEvaluatedKey" not in answer:
                return
            call["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def change(
        self, key: Item, update: str, condition: str, values: Item, names: Mapping[str, str] | None = None
    ) -> tuple[bool, Item | None]:
        """Change an item with one UpdateItem. Returns whether that was done, and the item as it was before."""
        call: Any = {
            "TableName": self.table,
            "Key": key,
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": values,
            "ReturnValues": "ALL_OLD",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **({"ExpressionAttributeNames": names} if names else {}),
        }
        try:
            answer: Any = patiently(lambda: self.client.update_item(**call), self.pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return False, error.response.get("Item")  # type: ignore[return-value]  # botocore's types lack it
        return True, answer.get("Attributes")

    def change_run(
        self, address: AnswerAddress, update: str, condition: str, values: Item, names: Mapping[str, str]
    ) -> tuple[bool, Item | None]:
        """Change the run item of an address, with the values that name its run and hop."""
        where = run_key(address.flow, address.object_id)
        return self.change(where, update, condition, {**run_values(address), **values}, names)

    def at_rest(self, address: AnswerAddress, item: RunItem | None, stored: Any) -> RunItem | None:
        """Return the item, with its wait's plan where the wait is over and the run has not gone on."""
        if item is None or not is_at(item, address):
            return item
        waits = item.status is Status.WAITING and item.wait is not None and item.wait.end is not None
        return self.with_plan(item, stored) if waits else item

    def text_key(self, flow: str, kind: str, *parts: str) -> str:
        """Return a text's S3 key. Two texts for one name have two: the one that is kept must not be overwritten."""
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return f"{self.prefix}{quote(flow, safe='')}/{kind}/{digest}"

    def forms(self, address: AnswerAddress, answer: GivenAnswer, kind: str, about: About) -> Iterator[Packed]:
        """Yield the forms in which an answer may be kept.

        The first is for its item, the second for S3 where that has no room.
        """
        yield self.packing.pack(answer.text, None, about=about)
        text = self.packing.tells_apart(answer.text, address.flow)
        yield self.packing.pack_aside(
            answer.text, self.text_key(address.flow, kind, address.statement, text), about=about
        )

    def read_answer(self, stored: Item, about: About) -> GivenAnswer:
        """Read an answer that :func:`stored_answer` made."""
        return GivenAnswer(self.packing.unpack(stored["text"], about), "failed" in stored)


def stored_answer(packed: Packed, answer: GivenAnswer) -> Item:
    """Return an answer as it is stored."""
    return {"M": {"text": packed.value, **({"failed": {"BOOL": True}} if answer.failed else {})}}


def run_values(address: AnswerAddress) -> Item:
    """Return the values of the condition that a run waits at the address."""
    return {
        ":request_id": {"S": address.request_id},
        ":requested_at": number(address.requested_at),
        ":hop": number(address.hop),
        ":waiting": {"S": Status.WAITING.value},
        ":zero": number(0),
    }


def is_at(item: RunItem, address: AnswerAddress) -> bool:
    """Answer whether the item is of the run and hop of the address."""
    return is_run_of(item, address) and item.hop == address.hop


def ended_by(item: RunItem, name: str) -> bool:
    """Answer whether an answer may have ended the wait, so that its message sends what goes on where a worker died.

    One that came after the end leaves that to the message which has ended it. A client that has cancelled the run may
    have died too, and its call comes no more: then an answer that comes much later does.
    """
    return item.cancelled_because is not None or (item.wait is not None and name in item.wait.answered)


def message_name(by: str) -> str:
    """Return what names a message in an item."""
    return hashlib.sha256(by.encode("utf-8", "surrogatepass")).hexdigest()[:_CHARACTERS]


def read_run(stored: Item | None) -> RunItem | None:
    """Read a run item, where there is one."""
    return read_item(stored) if stored else None

"""The meter of API calls. It counts what AWS would charge for them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from flowguard.deploy.prices import Unit
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.memory.statements import key_of
from flowguard.sim.memory.values import item_weight
from flowguard.sim.prepared import low_level
from flowguard.sim.provision import tables_of
from flowguard.sim.sends import SendOperation, sending

WRITE_BYTES: Final = 1024
"""Bytes of an item for which DynamoDB counts a write."""

READ_BYTES: Final = 4096
"""Bytes of an item for which DynamoDB counts a read, if it is consistent."""

CHUNK_BYTES: Final = 64 * 1024
"""Bytes of a request that SQS, SNS and EventBridge count as one."""

_BY_SERVICE: Final = {
    "sqs": Unit.SQS,
    "sns": Unit.SNS,
    "events": Unit.EVENTS,
    "scheduler": Unit.SCHEDULES,
    "lambda": Unit.INVOCATIONS,
}
_S3: Final = {
    "PutObject": Unit.S3_WRITES,
    "GetObject": Unit.S3_READS,
    "HeadObject": Unit.S3_READS,
}
_WRITES: Final = ("PutItem", "UpdateItem", "DeleteItem")

Place = tuple[str, Mapping[str, Any]]
"""A table, and the key of an item in it."""


class Meter:
    """An interceptor that counts units. Indexes of tables, streams and backups are not counted.

    What a write costs depends on the item before and after it, which the meter reads by itself. It also counts writes
    whose condition does not hold, as DynamoDB does.
    """

    def __init__(self) -> None:
        self._counted: Counter[Unit] = Counter()
        self._keys: dict[str, tuple[str, ...]] = {}
        self._looks = False

    def take(self) -> Counter[Unit]:
        """Return what was counted since the last time."""
        counted, self._counted = self._counted, Counter()
        return counted

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if self._looks:
            return proceed()
        if call.service == "dynamodb":
            return self._of_dynamodb(call, proceed)
        answer = proceed()
        if call.service == "s3" and call.operation in _S3:
            self._counted[_S3[call.operation]] += 1
        elif (sends := sending(call.service, call.operation)) is not None:
            self._counted[_BY_SERVICE[call.service]] += _requests(sends, call)
        return answer

    def _of_dynamodb(self, call: ApiCall, proceed: Proceed) -> Response:
        params = low_level(call)
        written = list(self._written(call, params))
        factor = 2 if call.operation.startswith("Transact") else 1
        before = [self._size(call, place) for place in written]
        try:
            answer = proceed()
        except ClientError as error:
            if error.response["Error"]["Code"] in ("ConditionalCheckFailedException", "TransactionCanceledException"):
                self._count_writes(before, factor)
            raise
        after = [self._size(call, place) for place in written]
        self._count_writes([max(sizes) for sizes in zip(before, after, strict=True)], factor)
        self._counted[Unit.READS] += self._reads(call, params, answer)  # type: ignore[assignment]  # halves are counted
        return answer

    def _count_writes(self, sizes: list[int], factor: int) -> None:
        self._counted[Unit.WRITES] += sum(factor * max(1, math.ceil(size / WRITE_BYTES)) for size in sizes)

    def _written(self, call: ApiCall, params: Mapping[str, Any]) -> Iterator[Place]:
        """Yield the places that a call writes or checks."""
        if call.operation in _WRITES:
            yield self._place(call, params["TableName"], params)
        elif call.operation == "TransactWriteItems":
            for action in (action for item in params["TransactItems"] for action in item.values()):
                yield self._place(call, action["TableName"], action)
        elif call.operation == "BatchWriteItem":
            for table, requests in params["RequestItems"].items():
                for request in (request for item in requests for request in item.values()):
                    yield self._place(call, table, request)
        elif call.operation == "BatchExecuteStatement":
            for (table, _), statement in zip(tables_of(params), params["Statements"], strict=True):
                if (item := key_of(statement)) is not None:
                    yield table, {name: item[name] for name in self._key_of(call, table)}

    def _place(self, call: ApiCall, table: str, action: Mapping[str, Any]) -> Place:
        if "Key" in action:
            return table, action["Key"]
        return table, {name: action["Item"][name] for name in self._key_of(call, table)}

    def _key_of(self, call: ApiCall, table: str) -> tuple[str, ...]:
        if table not in self._keys:
            described = self._asked(call, "describe_table", TableName=table)["Table"]
            self._keys[table] = tuple(part["AttributeName"] for part in described["KeySchema"])
        return self._keys[table]

    def _size(self, call: ApiCall, place: Place) -> int:
        """Return the bytes of an item; none is 0."""
        table, key = place
        try:
            answer = self._asked(call, "get_item", TableName=table, Key=key, ConsistentRead=True)
        except ClientError:  # what is wrong with the key, the call itself will say
            return 0
        return item_weight(answer["Item"]) if "Item" in answer else 0

    def _reads(self, call: ApiCall, params: Mapping[str, Any], answer: Response) -> float:
        match call.operation:
            case "GetItem":
                return _read([self._size(call, (params["TableName"], params["Key"]))], params.get("ConsistentRead"))
            case "Query" | "Scan":
                return _read([sum(map(item_weight, answer.get("Items", ())))], params.get("ConsistentRead"))
            case "BatchGetItem":
                return sum(
                    _read([self._size(call, (table, key)) for key in wanted["Keys"]], wanted.get("ConsistentRead"))
                    for table, wanted in params["RequestItems"].items()
                )
            case "TransactGetItems":
                wanted = [param["Get"] for param in params["TransactItems"]]
                return 2 * _read([self._size(call, (request["TableName"], request["Key"])) for request in wanted], True)
            case _:
                return 0

    def _asked(self, call: ApiCall, method: str, **arguments: Any) -> Response:
        self._looks = True
        try:
            client: Any = call.client
            answer: Response = getattr(client, method)(**arguments)
            return answer
        finally:
            self._looks = False


def _read(sizes: list[int], consistent: bool | None) -> float:
    return sum(max(1, math.ceil(size / READ_BYTES)) for size in sizes) * (1 if consistent else 0.5)


def _requests(sends: SendOperation, call: ApiCall) -> int:
    """Return how many requests a call is. Events of a bus, schedules and invocations are counted by themselves."""
    sizes = [len(sends.body(entry).encode("utf-8", "surrogatepass")) for entry in sends.entries(call.params)]
    if call.service in ("sqs", "sns"):
        sizes = [sum(sizes)]
    return sum(max(1, math.ceil(size / CHUNK_BYTES)) for size in sizes)

"""What AWS itself does wrong now and then: throttling that comes in bursts, lost answers, half-taken batches.

Stands outside of botocore's own repeats: a call that is throttled here is one whose repeats were throttled too.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from botocore.exceptions import ClientError, ReadTimeoutError

from flowguard.sim.calls import ApiCall, Proceed, Response
from tests.proofs.soak.journal import Journal
from tests.proofs.soak.mapping import Record
from tests.proofs.soak.place import place_of, run_of

BURST: Final = 3
"""Calls in a row of one worker that a burst of throttling refuses, on average."""

_DATABASE: Final = ("ProvisionedThroughputExceededException", "ThrottlingException", "TransactionConflictException")
_STATEMENT: Final = ("ThrottlingError", "ProvisionedThroughputExceeded", "TransactionConflict", "InternalServerError")
"""What one statement of a batch is refused with."""

_CANCELLED: Final = ("ThrottlingError", "TransactionConflict")
_QUEUE: Final = ("RequestThrottled", "ThrottlingException")


class Faults:
    """Interceptor. The fate of a call follows from the seed, the request it is for, and that one's receive count.

    Where a call is for no request (a receive, a delete), the first record of the batch stands for it. A burst goes on
    over whatever calls the worker makes next.
    """

    def __init__(self, throttle: float, lost: float, seed: int, journal: Journal) -> None:
        self._throttle, self._lost, self._seed, self._journal = throttle, lost, seed, journal
        self._left = 0
        self._deliveries: dict[str, str] = {}
        self._first = ""
        self._made = Counter[tuple[str, str]]()

    def begin(self, records: Sequence[Record]) -> None:
        self._made.clear()
        self._deliveries = {run_of(record): delivery_of(record) for record in records}
        self._first = next(iter(self._deliveries.values()), "")

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        requests = self._requests_of(call)
        draw = self._draw(call, requests)
        if self._left:
            self._left -= 1
            return self._throttled(call, proceed, requests, draw)
        fate = draw.random()
        if fate < self._throttle / BURST:
            self._left = draw.randint(1, 2 * BURST - 1) - 1
            return self._throttled(call, proceed, requests, draw)
        if fate < self._throttle / BURST + self._lost:
            return self._without_answer(call, proceed, requests, repeated=draw.random() < 0.5)
        return proceed()

    def _requests_of(self, call: ApiCall) -> list[str]:
        if call.operation == "DeleteMessageBatch":
            return list(self._deliveries)
        if call.operation == "BatchExecuteStatement":
            texts = [one.get("S") for said in call.params["Statements"] for one in said["Parameters"]]
            return [one for one in self._deliveries if one in texts]
        return _requests_of(call)

    def _draw(self, call: ApiCall, requests: list[str]) -> random.Random:
        named = [self._deliveries[one] for one in requests if one in self._deliveries]
        subject = named[0] if named else self._first
        self._made[subject, call.operation] += 1
        return random.Random(f"{self._seed} {subject} {call.operation} {self._made[subject, call.operation]}")

    def _throttled(self, call: ApiCall, proceed: Proceed, requests: list[str], draw: random.Random) -> Response:
        if call.operation == "SendMessageBatch" and draw.random() < 0.5:
            return self._half_taken(call, proceed, draw)
        if call.operation == "BatchExecuteStatement" and draw.random() < 0.5:
            return self._half_executed(call, proceed, draw)
        error: Any = _refusal(call.operation, draw)
        self._tell("throttled", call, requests, code=error["Error"]["Code"])
        raise ClientError(error, call.operation)

    def _half_taken(self, call: ApiCall, proceed: Proceed, draw: random.Random) -> Response:
        """Some entries refused: they are taken out of the request, and stand in its answer as SQS would say it."""
        entries: list[Any] = call.params["Entries"]
        refused = [entry for entry in entries if draw.random() < 0.5] or entries[-1:]
        entries[:] = [entry for entry in entries if entry not in refused]
        self._tell("half-taken", call, [_id_of(entry) for entry in refused], code="InternalError")
        answer = proceed() if entries else {"Successful": []}
        failed = [{"Id": one["Id"], "SenderFault": False, "Code": "InternalError"} for one in refused]
        return {**answer, "Failed": [*answer.get("Failed", []), *failed]}

    def _half_executed(self, call: ApiCall, proceed: Proceed, draw: random.Random) -> Response:
        """Some statements refused, as DynamoDB says it: they are taken out of the request, and put into its answer."""
        statements: list[Any] = call.params["Statements"]
        refused = {place: draw.choice(_STATEMENT) for place in range(len(statements)) if draw.random() < 0.5}
        left = [one for place, one in enumerate(statements) if place not in refused]
        whole, statements[:] = list(statements), left
        self._tell("half-executed", call, [], code=",".join(sorted(set(refused.values()))))
        answers = iter(proceed()["Responses"] if left else ())
        return {
            "Responses": [
                {"Error": {"Code": refused[place], "Message": "refused"}} if place in refused else next(answers)
                for place in range(len(whole))
            ]
        }

    def _without_answer(self, call: ApiCall, proceed: Proceed, requests: list[str], *, repeated: bool) -> Response:
        """Applied, and nobody hears of it; ``repeated`` is botocore's second try, which is answered."""
        with suppress(ClientError):  # that answer is lost as well
            proceed()
        self._tell("repeated" if repeated else "lost", call, [] if repeated else requests)
        if repeated:
            return proceed()
        raise ReadTimeoutError(endpoint_url=call.client.meta.endpoint_url)

    def _tell(self, how: str, call: ApiCall, requests: list[str], **facts: str) -> None:
        self._journal.write("fault", how=how, operation=call.operation, requests=requests, **facts)


def delivery_of(record: Record) -> str:
    """The same text for the same delivery of the same message in each soak of a seed."""
    place = json.dumps(place_of(record))
    return f"{run_of(record)} {place} {record['attributes']['ApproximateReceiveCount']}"


def _requests_of(call: ApiCall) -> list[str]:
    """Whom the call is for: the run of a claim or a commit, each entry of a batch of sends."""
    if call.operation == "SendMessageBatch":
        return [_id_of(entry) for entry in call.params["Entries"]]
    update = call.params["TransactItems"][0]["Update"] if call.operation == "TransactWriteItems" else call.params
    said = update.get("ExpressionAttributeValues", {}).get(":request_id")
    return [said["S"]] if said else []


def _id_of(entry: Any) -> str:
    """The request. Nothing of a dead letter of what nobody believes: that is wrapped whole."""
    return str(entry.get("MessageAttributes", {}).get("uniquerequestid", {}).get("StringValue", ""))


def _refusal(operation: str, draw: random.Random) -> Any:
    if operation == "TransactWriteItems" and draw.random() < 0.5:
        reasons = [{"Code": draw.choice(_CANCELLED)}, {"Code": "None"}]
        return {**_error("TransactionCanceledException"), "CancellationReasons": reasons}
    if operation in ("Query", "BatchWriteItem"):
        return _error("ThrottlingException")
    return _error(draw.choice(_DATABASE if operation in ("UpdateItem", "TransactWriteItems") else _QUEUE))


def _error(code: str) -> dict[str, Any]:
    return {"Error": {"Code": code, "Message": "the soak says so"}}

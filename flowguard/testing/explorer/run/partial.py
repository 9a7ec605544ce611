"""Batch calls of which a service accepts some entries and refuses the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.sends import sending
from flowguard.testing.explorer.run.shared_statements import executed_in_part

ALL_BUT: Final = 10
"""``p3-2`` refuses entry 2 and takes the others, ``p3-12`` takes entry 2 and refuses the others: a batch has at most
ten."""


def size(service: str, operation: str, params: Mapping[str, Any]) -> int:
    """Count the entries of a batch that the call sends, writes or reads. 0 for what is no batch."""
    if (service, operation) in _LEFT:
        return len(_requests(params))
    if (service, operation) == _STATEMENTS:
        return len(params["Statements"])
    sends = sending(service, operation)
    return len(sends.entries(params)) if sends is not None and sends.batch is not None else 0


def parts(count: int) -> list[int]:
    """Return a choice for each entry alone and for all but each where that is another choice."""
    single = list(range(1, count + 1))
    return single + [ALL_BUT + entry for entry in single if count > 2]


def refused(more: int, count: int) -> tuple[int, ...]:
    """Return the entries from 1 that this choice refuses. Empty where the batch has no such entry."""
    if not 0 < (entry := more if more <= ALL_BUT else more - ALL_BUT) <= count:
        return ()
    return (entry,) if more <= ALL_BUT else tuple(number for number in range(1, count + 1) if number != entry)


def taken_in_part(call: ApiCall, proceed: Proceed, entries: Collection[int]) -> Response:
    """Make the call without these entries and answer as a service that refused them."""
    if (call.service, call.operation) in _LEFT:
        return _processed_in_part(call, proceed, entries)
    if (call.service, call.operation) == _STATEMENTS:
        return executed_in_part(call, proceed, entries)
    sends = sending(call.service, call.operation)
    if sends is None:
        return proceed()
    every = sends.entries(call.params)
    answer = sends.in_part(call, proceed, entries)
    if sends.by_position:
        return {**answer, **_by_position(answer.get("Entries", ()), len(every), entries)}
    failed = [
        {"Id": entry["Id"], "SenderFault": False, "Code": "InternalError", "Message": "the service failed"}
        for number, entry in enumerate(every, 1)
        if number in entries
    ]
    return {"Successful": [], **answer, "Failed": [*answer.get("Failed", ()), *failed]}


_STATEMENTS: Final = ("dynamodb", "BatchExecuteStatement")

_LEFT: Final = {
    ("dynamodb", "BatchWriteItem"): "UnprocessedItems",
    ("dynamodb", "BatchGetItem"): "UnprocessedKeys",
}
"""Where DynamoDB answers what it did not do of a batch."""


def _requests(params: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the writes or keys of a batch with their tables."""
    return [
        (table, request)
        for table, asked in params.get("RequestItems", {}).items()
        for request in (asked["Keys"] if isinstance(asked, Mapping) else asked)
    ]


def _chosen(params: Mapping[str, Any], entries: Collection[int]) -> dict[str, Any]:
    """Return RequestItems with only these entries, counted from 1."""
    chosen: dict[str, Any] = {}
    for number, (table, request) in enumerate(_requests(params), 1):
        if number in entries:
            asked = params["RequestItems"][table]
            if isinstance(asked, Mapping):
                chosen.setdefault(table, {**asked, "Keys": []})["Keys"].append(request)
            else:
                chosen.setdefault(table, []).append(request)
    return chosen


def _processed_in_part(call: ApiCall, proceed: Proceed, entries: Collection[int]) -> Response:
    """Make the call without these entries and answer as DynamoDB that did not get to them."""
    params: Any = call.params  # boto3's own, which are as they were when the call ends
    every = dict(params["RequestItems"])
    numbers = range(1, len(_requests(params)) + 1)
    left, taken = _chosen(params, entries), _chosen(params, [number for number in numbers if number not in entries])
    try:
        if not taken:
            empty: Response = {"Responses": {}} if call.operation == "BatchGetItem" else {}
            return {**empty, _LEFT[call.service, call.operation]: left, "ResponseMetadata": {"HTTPStatusCode": 200}}
        params["RequestItems"] = taken
        answer = proceed()
    finally:
        params["RequestItems"] = every
    return {**answer, _LEFT[call.service, call.operation]: left}


def _by_position(taken: Sequence[Any], count: int, entries: Collection[int]) -> Response:
    """Build the answer of a service that lists entries by position."""
    left = list(taken)
    no = {"ErrorCode": "InternalFailure", "ErrorMessage": "the service failed"}
    answers = [no if number in entries else left.pop(0) for number in range(1, count + 1)]
    return {"Entries": answers, "FailedEntryCount": sum("ErrorCode" in answer for answer in answers)}

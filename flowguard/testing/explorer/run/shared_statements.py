"""The statements of a call of ``BatchExecuteStatement``. Each is judged and answered on its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.memory.statements import key_of
from flowguard.sim.provision import LowLevelKey, tables_of

_KEY: Final = ("pk", "sk")
_FAILED: Final = {"Error": {"Code": "InternalServerError", "Message": "the service failed"}}


def written_in(params: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[tuple[str, LowLevelKey | None]]:
    """Yield each table that a call wrote to with the key of its item, where the call gives it."""
    tables, statements = tables_of(params), params.get("Statements")
    if statements is None:
        yield from tables
        return
    for (table, _), statement, response in zip(tables, statements, answer["Responses"], strict=True):
        if "Error" not in response and (item := key_of(statement)) is not None:
            yield table, {name: item[name] for name in _KEY if name in item}


def executed_in_part(call: ApiCall, proceed: Proceed, left_out: Collection[int]) -> Response:
    """Make the call without these statements (counted from 1). The answer says that DynamoDB failed at them."""
    params: Any = call.params  # boto3's own, which are as they were when the call ends
    every = params["Statements"]
    params["Statements"] = [statement for number, statement in enumerate(every, 1) if number not in left_out]
    try:
        answer = proceed() if params["Statements"] else {"Responses": []}
    finally:
        params["Statements"] = every
    taken = iter(answer["Responses"])
    responses = [_FAILED if number in left_out else next(taken) for number in range(1, len(every) + 1)]
    return {**answer, "Responses": responses}

"""What DynamoDB answered to each call, a line each: the truth that workers' own opinions are held against."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from flowguard.aws.faults import error_code
from flowguard.aws.items import read_item
from flowguard.sim.calls import ApiCall, Proceed, Response
from tests.proofs.races.shared import Shared
from tests.proofs.races.statements import showing_what_was_there, statements_of, written
from tests.proofs.soak.journal import Journal

TOKEN = "ClientRequestToken"
"""By it DynamoDB knows a repeated transaction: it applies the first alone, and answers both alike."""

_RUN_ITEM = {"S": "run"}

_OLD = (
    *("request_id", "requested_at", "status", "hop", "retry", "redrive"),
    *("epoch", "owner", "lease_until", "done", "committed_at"),
)


_MARKS = {
    "lease_until": "claim",
    "text": "answer",
    "since": "look",
    "status": "commit",
    "over": "release",
    "kills": "note",
}


class Witness:
    """An interceptor that stands next to the real call, so that a call made twice is written down twice.

    It counts the claims that are asked for, or the waits that begin.
    """

    def __init__(self, journal: Journal, shared: Shared, *, waits: bool = False) -> None:
        self._journal = journal
        self._shared = shared
        self._waits = waits

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if statements_of(call):
            return self._batch(call, proceed)
        update = run_item_update(call)
        if update is None:
            return proceed()
        values = plain(update["ExpressionAttributeValues"])
        line = self._line(what(values), update["Key"]["pk"]["S"], values)
        if line["what"] == "take":
            update["ReturnValues"] = "ALL_OLD"
        is_take = line["what"] == "answer" and call.operation == "TransactWriteItems"
        answer: Response = {}
        refused: ClientError | None = None
        old: Any = None
        try:
            answer, old = _on_what_was_read(call, update, proceed) if is_take else (proceed(), None)
        except ClientError as error:
            if not is_refusal(error):
                raise
            refused = error
        line["ended"], line["yes"] = time.monotonic_ns(), refused is None
        line["token"] = call.params.get(TOKEN)
        if not is_take:
            old = answer.get("Attributes") if refused is None else refused.response.get("Item")
        elif refused is not None:
            old = _item_of(refused)
        line["old"] = _as_found(old) if old else None
        if self._waits and line["yes"] and line.get("status") == "WAITING":
            self._shared.count()
        self._journal.write(line.pop("what"), **line)
        if refused is not None:
            raise refused
        return answer

    def _line(self, what: str, object_key: str, values: Mapping[str, Any]) -> dict[str, Any]:
        if what in ("claim", "take") and not self._waits:
            self._shared.count()
        return {"what": what, "object": object_key, "begun": time.monotonic_ns(), **values}

    def _batch(self, call: ApiCall, proceed: Proceed) -> Response:
        """A line for each statement that was applied or met its condition; of the others nothing is known."""
        params: Any = call.params
        params["Statements"] = [showing_what_was_there(one) for one in statements_of(call)]
        said = map(written, statements_of(call))
        lines = [self._line(done, of, _without_status(done, plain(values))) for done, of, values in said]
        answer = proceed()
        for line, one in zip(lines, answer["Responses"], strict=True):
            code = one.get("Error", {}).get("Code")
            if code not in (None, "ConditionalCheckFailed", "DuplicateItem"):
                continue
            old = one.get("Error", one).get("Item")
            line |= {"ended": time.monotonic_ns(), "yes": code is None, "token": None, "shared": True}
            line["old"] = _as_found(old) if old else None
            self._journal.write(line.pop("what"), **line)
        return answer


def _without_status(done: str, values: dict[str, Any]) -> dict[str, Any]:
    """A claim says none by its single call."""
    return {name: value for name, value in values.items() if name != "status" or done != "claim"}


def _as_found(old: Any) -> dict[str, Any]:
    item = read_item(old)
    found: dict[str, Any] = {name: getattr(item, name) for name in _OLD}
    if (wait := item.wait) is not None:
        found["wait"] = {
            "waiting": sorted(wait.waiting),
            "answered": sorted(wait.answered),
            "spare": wait.spare,
            "timed_out": wait.timed_out,
            "deadline": wait.deadline,
        }
    if item.late is not None:
        found["late"] = {"hop": item.late.hop, "names": sorted(item.late.names)}
    return found


def _on_what_was_read(call: ApiCall, update: Any, proceed: Proceed) -> tuple[Response, Any]:
    """Make a transaction, which says nothing of the item before it, on the very wait that was read; and return both.

    Raises the refusal of a wait that has not changed since it was read.
    """
    condition, values = update["ConditionExpression"], update["ExpressionAttributeValues"]
    client: Any = call.client
    while True:
        read = client.get_item(TableName=update["TableName"], Key=update["Key"], ConsistentRead=True).get("Item")
        wait = (read or {}).get("wait")
        if wait is not None:
            update["ConditionExpression"] = f"({condition}) AND #wait = :read"
            update["ExpressionAttributeValues"] = {**values, ":read": wait}
        try:
            return proceed(), read
        except ClientError as error:
            if not is_refusal(error) or (_item_of(error) or {}).get("wait") == wait:
                raise
        finally:
            update["ConditionExpression"], update["ExpressionAttributeValues"] = condition, values


def _item_of(refused: ClientError) -> Any:
    reasons: Any = refused.response.get("CancellationReasons", [{}])
    return reasons[0].get("Item")


def run_item_update(call: ApiCall) -> Any:
    """The update of the run item that the call makes, None where it makes none, or changes an early answer."""
    match call.operation:
        case "UpdateItem":
            update: Any = call.params
        case "TransactWriteItems":
            update = call.params["TransactItems"][0]["Update"]
        case _:
            return None
    return update if update["Key"].get("sk") == _RUN_ITEM else None


def what(values: Mapping[str, Any]) -> str:
    """Claim, take, answer, look, commit, release, note or deadline, by what only that one says.

    A take is the commit of a hop that was only read: a claim and a commit at once. A note says how many workers were
    killed: it changes no owner, hop or wait.
    """
    if "lease_until" in values and "status" in values:
        return "take"
    return next((name for mark, name in _MARKS.items() if mark in values), "deadline")


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers and words of an update, without colons; its long texts are of no interest here."""
    found: dict[str, Any] = {}
    for name, typed in values.items():
        (kind, value), *_ = typed.items()
        if kind == "N":
            found[name.removeprefix(":")] = int(value)
        elif kind == "S" and name.removeprefix(":") in ("request_id", "owner", "status", "name"):
            found[name.removeprefix(":")] = value
        elif name == ":answer":
            found["text"] = value["text"].get("S", "")
    return found


def is_refusal(error: ClientError) -> bool:
    """Whether the run item's own condition did not hold."""
    if error_code(error) == "ConditionalCheckFailedException":
        return True
    reasons: Any = error.response.get("CancellationReasons", [])
    return bool(reasons) and reasons[0].get("Code") == "ConditionalCheckFailed"

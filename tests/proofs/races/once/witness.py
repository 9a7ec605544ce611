"""What DynamoDB answered to each write of a key, a line each."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from flowguard.aws.faults import error_code
from flowguard.sim.calls import ApiCall, Proceed, Response
from tests.proofs.soak.journal import Journal

KEY = "once#"
"""What the keys of entries begin with."""

_MARKS = {":lease_until": "claim", ":expires_at": "finish", ":failure": "free"}
"""Each kind of write by what only that one gives."""


class Witness:
    """An interceptor that stands next to the real call, so that a call made twice is written down twice."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        params: Any = call.params
        if call.operation != "UpdateItem" or not params["Key"].get("pk", {}).get("S", "").startswith(KEY):
            return proceed()
        values = params["ExpressionAttributeValues"]
        what = next(name for mark, name in _MARKS.items() if mark in values)
        params["ReturnValues"] = "ALL_OLD"
        facts = {"key": params["Key"]["pk"]["S"], "owner": values[":owner"]["S"], "now": int(values[":now"]["N"])}
        try:
            answer = proceed()
        except ClientError as error:
            if error_code(error) == "ConditionalCheckFailedException":
                self._journal.write(what, **facts, yes=False, old=seen(error.response.get("Item")))
            raise
        self._journal.write(what, **facts, yes=True, old=seen(answer.get("Attributes")))
        return answer


def seen(item: Any) -> dict[str, Any] | None:
    """Read what an entry says of itself. None where there is none."""
    if not item:
        return None
    named = ("status", "owner", "lease_until", "completed_by", "digest", "result")
    plain = {name: next(iter(item[name].values())) if name in item else None for name in named}
    return {**plain, "lease_until": int(plain["lease_until"] or 0)}

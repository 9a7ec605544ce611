"""The claim of a hop, as one call to DynamoDB."""

from __future__ import annotations

from typing import Any

from flowguard.aws import expressions
from flowguard.aws.items import ASKER, expression_values, number, record_item, run_key, values_of
from flowguard.protocol.callers import Callers, asker_key, caller_key, listed_key
from flowguard.protocol.claims import begins_list, noted_asker
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.fields import OF_THE_MESSAGE
from flowguard.protocol.run import ClaimRequest, Status

_OF_THE_MESSAGE = values_of(OF_THE_MESSAGE)
_WAITING = {"S": Status.WAITING.value}

# the values that every claim writes or compares
_SAID = {
    ":running": {"S": Status.RUNNING.value},
    ":failed": {"S": Status.FAILED.value},
    ":no": {"BOOL": False},
    ":zero": number(0),
    ":one": number(1),
}


def claim_call(table: str, request: ClaimRequest) -> Any:
    """Build the UpdateItem that claims a hop, under the condition of its kind."""
    m = request.message
    values: dict[str, Any] = {
        **expression_values(_OF_THE_MESSAGE, m),
        ":owner": {"S": request.owner},
        ":now": number(request.now),
        ":lease_until": number(request.lease_until),
        ":believed_until": number(request.believed_until),
        ":ttl": number(request.expires_at // 1000),
        **_SAID,
    }
    names = dict(expressions.CLAIM_NAMES)
    condition, update = (_first_hop if m.hop == 1 else _later_hop)(request, names, values)
    if noted := _noted(request, names, values):
        update = update.replace(" REMOVE ", f", {', '.join(noted)} REMOVE ")
    return {
        "TableName": table,
        "Key": run_key(m.flow, m.object_id),
        "UpdateExpression": update,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ReturnValues": "ALL_OLD",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _first_hop(request: ClaimRequest, names: dict[str, str], values: dict[str, Any]) -> tuple[str, str]:
    """Return the condition and the update of a first hop, and add what they name."""
    m = request.message
    update = expressions.CLAIM_FIRST_HOP
    values[":first_text"] = {"S": request.text}
    values[":stages"] = {"M": {m.stage: {"S": m.request_id}}}
    if request.on_conflict is not OnConflict.SUPERSEDE:
        values[":abandoned_before"] = number(request.abandoned_before)
        values[":completed"] = {"S": Status.COMPLETED.value}
        values[":waiting"] = _WAITING
    if request.on_conflict is OnConflict.ATTACH:
        update = expressions.CLAIM_FIRST_HOP_OF_CALLERS
        names["#caller"] = listed_key(m)
        values[":caller"] = {"S": caller_key(m.request_id, m.requested_at)}
        values[":fresh_since"] = number(request.fresh_since)
        del names["#result"], names["#error"]
    conditions = expressions.FIRST_HOP if m.cancelled is None else expressions.CANCELLED_FIRST_HOP
    return conditions[request.on_conflict], update


def _later_hop(request: ClaimRequest, names: dict[str, str], values: dict[str, Any]) -> tuple[str, str]:
    """Return the condition and the update of a later hop, and add what they name."""
    m = request.message
    names["#stage"] = m.stage
    values[":hop_before"], values[":yes"], values[":waiting"] = number(m.hop - 1), {"BOOL": True}, _WAITING
    takes_callers = request.on_conflict is OnConflict.ATTACH
    condition = expressions.LATER_HOP_OF_CALLERS if takes_callers else expressions.LATER_HOP
    return condition, expressions.CLAIM_RESUMED_HOP if m.resumed else expressions.CLAIM_LATER_HOP


def _noted(request: ClaimRequest, names: dict[str, str], values: dict[str, Any]) -> list[str]:
    """Return the changes by which the claim notes callers, and add what they name."""
    noted = []
    if begins_list(request):
        noted.append(expressions.BEGIN_LIST)
        values[":nobody"] = record_item(Callers(request.owner))
    if (asker := noted_asker(request.message)) is not None:
        noted.append(expressions.NOTE_ASKER)
        names["#asker"], values[":asker"] = f"{ASKER}{asker_key(asker.request_id)}", {"S": asker.to_text()}
    return noted

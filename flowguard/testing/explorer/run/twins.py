"""The twin of a message, which has the same content under a new id.

A message without a twin meets only its own copies. Two orders for the same thing show a check that another one's write
makes wrong, and what a module keeps of the one for the other.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from flowguard.flow import AnyFlow
from flowguard.testing.explorer.run.inbox import Given, Later

_ENDS: Final = ("id", "_id", "Id", "ID", "uuid")
_OTHER: Final = 1_000_003


def twin_of(message: Given, flows: Sequence[AnyFlow]) -> Given | None:
    """Return the message under a new id. None where it cannot be made: it comes later, or is a flow's record."""
    if isinstance(message, Later):
        return None
    if flows:
        return _of_model(message, flows) if isinstance(message, BaseModel) else None
    if isinstance(message, BaseModel):
        return _of_body(message.model_dump(mode="json"))
    return _of_event(message) if "Records" in message else _of_body(message)


def _of_model(message: BaseModel, flows: Sequence[AnyFlow]) -> BaseModel | None:
    flow = next((flow for flow in flows if isinstance(message, flow.entry().payload)), None)
    if flow is None:
        return None
    if not isinstance(flow.object_id, str):  # each request is a run of its own
        return message
    value = getattr(message, flow.object_id, None)
    return None if value is None else message.model_copy(update={flow.object_id: other(value)})


def _of_event(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return an event with one record of a queue whose body is JSON under a new id."""
    records = event["Records"]
    body = _read(records[0].get("body")) if len(records) == 1 and isinstance(records[0], Mapping) else None
    if body is None:
        return None
    record = {**copy.deepcopy(dict(records[0])), "body": json.dumps(_of_body(body))}
    return {**event, "Records": [{**record, "messageId": f"{record.get('messageId')}-2"}]}


def _read(body: Any) -> Mapping[str, Any] | None:
    try:
        parsed = json.loads(body)
    except (TypeError, ValueError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _of_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a body with another value in its first field that is named like an id. All else stays."""
    name = next((name for name, value in body.items() if name.endswith(_ENDS) and isinstance(value, str | int)), None)
    return dict(body) if name is None else {**body, name: other(body[name])}


def other(value: Any) -> Any:
    """Return another id of the same kind."""
    return value + _OTHER if isinstance(value, int) else f"{value}-2"

"""Services that only note what they are asked for: EventBridge, Lambda and EventBridge Scheduler."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from botocore.response import StreamingBody

from flowguard.local.calls import Response
from flowguard.local.memory.faults import Fault
from flowguard.local.memory.service import Operation, Params, Surroundings, operation

Callback: TypeAlias = Callable[[Any], Any]
"""A function's body: takes the event, answers what is to be returned, both as JSON has them."""

_SCHEDULE: Final = """
    Name GroupName ScheduleExpression ScheduleExpressionTimezone FlexibleTimeWindow ActionAfterCompletion ClientToken
    Target Description State StartDate EndDate
    """


class Recorded:
    """What was asked for, in its order. The tuple is replaced, never changed."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.seen: tuple[Mapping[str, Any], ...] = ()

    def _note(self, params: Mapping[str, Any]) -> None:
        self.seen = (*self.seen, params)

    def state(self) -> Any:
        return self.seen

    def put_back(self, state: Any) -> None:
        self.seen = state


class EventBridge(Recorded):
    """Any bus is there."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.operations: Mapping[str, Operation] = {
            "PutEvents": operation(self._put, "Entries EndpointId"),
            "DescribeEventBus": operation(self._bus, "Name"),
            "CreateEventBus": operation(self._bus, "Name Description Tags"),
        }

    def _put(self, params: Params) -> Response:
        answers = []
        for entry in params["Entries"]:
            self._note(dict(entry))
            answers.append({"EventId": self._around.new_id()})
        return {"FailedEntryCount": 0, "Entries": answers}

    def _bus(self, params: Params) -> Response:
        name = params.get("Name", "default")
        return {"Name": name, "EventBusArn": self._around.arn("events", f"event-bus/{name}")}


class Lambda(Recorded):
    """Any function is there. It answers null, or what its callback does; an asynchronous call never calls back."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.callbacks: dict[str, Callback] = {}
        accepted = "FunctionName InvocationType Payload Qualifier LogType ClientContext"
        self.operations: Mapping[str, Operation] = {"Invoke": operation(self._invoke, accepted)}

    def _invoke(self, params: Params) -> Response:
        payload = params.get("Payload", b"null")
        text = payload if isinstance(payload, (bytes, str)) else payload.read()
        event, kind = json.loads(text), params.get("InvocationType", "RequestResponse")
        name = params["FunctionName"].rpartition(":")[2]
        self._note({"FunctionName": name, "InvocationType": kind, "Payload": event})
        if kind != "RequestResponse":
            return {"StatusCode": 204 if kind == "DryRun" else 202, "Payload": _body(b"")}
        callback = self.callbacks.get(name)
        if callback is None:
            return {"StatusCode": 200, "ExecutedVersion": "$LATEST", "Payload": _body(b"null")}
        return {"StatusCode": 200, "ExecutedVersion": "$LATEST", **_answer(callback, event)}


def _answer(callback: Callback, event: Any) -> Response:
    try:
        return {"Payload": _body(json.dumps(callback(event)).encode())}
    except Exception as error:
        said = {"errorMessage": str(error), "errorType": type(error).__name__}
        return {"FunctionError": "Unhandled", "Payload": _body(json.dumps(said).encode())}


def _body(content: bytes) -> StreamingBody:
    return StreamingBody(io.BytesIO(content), len(content))


class Scheduler(Recorded):
    """Schedules are kept and never fire."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.operations: Mapping[str, Operation] = {
            "CreateSchedule": operation(self._create, _SCHEDULE),
            "DeleteSchedule": operation(self._delete, "Name GroupName ClientToken"),
        }

    def _create(self, params: Params) -> Response:
        group, name = params.get("GroupName", "default"), params["Name"]
        if any(_named(one) == (group, name) for one in self.seen):
            raise Fault("ConflictException", f"Schedule {name} already exists.")
        self._note(dict(params))
        return {"ScheduleArn": self._around.arn("scheduler", f"schedule/{group}/{name}")}

    def _delete(self, params: Params) -> Response:
        kept = tuple(one for one in self.seen if _named(one) != _named(params))
        if len(kept) == len(self.seen):
            raise Fault("ResourceNotFoundException", f"Schedule {params['Name']} does not exist.")
        self.seen = kept
        return {}


def _named(params: Params) -> tuple[str, str]:
    return params.get("GroupName", "default"), params["Name"]

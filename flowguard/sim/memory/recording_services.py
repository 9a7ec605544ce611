"""Services that only record their requests. They are EventBridge, Lambda and EventBridge Scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from flowguard.sim.calls import Response
from flowguard.sim.limits.buses import bus_name, check_entries, entry_fault
from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.functions import accepted, body_of, event_of, function_name
from flowguard.sim.limits.schedules import DEFAULT_GROUP, already_there, check_schedule, group_name, no_group
from flowguard.sim.memory.service import Operation, Params, Surroundings, operation

Callback: TypeAlias = Callable[[Any], Any]
"""A function's body: takes the event, answers what is to be returned, both as JSON has them."""

_SCHEDULE: Final = """
    Name GroupName ScheduleExpression ScheduleExpressionTimezone FlexibleTimeWindow ActionAfterCompletion ClientToken
    Target Description State StartDate EndDate KmsKeyArn
    """


class RecordingService:
    """The requests in their order. The tuple is replaced, never changed."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.seen: tuple[Mapping[str, Any], ...] = ()

    def _note(self, params: Mapping[str, Any]) -> None:
        self.seen = (*self.seen, params)

    def state(self) -> Any:
        return self.seen

    def put_back(self, state: Any) -> None:
        self.seen = state


class EventBridge(RecordingService):
    """Any bus exists, except for those removed on purpose.

    Events for a missing bus are accepted and lost, as in AWS.
    """

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.operations: Mapping[str, Operation] = {
            "PutEvents": operation(self._put, "Entries EndpointId"),
            "DescribeEventBus": operation(self._bus, "Name"),
            "CreateEventBus": operation(self._bus, "Name Description Tags"),
        }

    def _put(self, params: Params) -> Response:
        check_entries(params["Entries"])
        answers = [self._put_entry(entry) for entry in params["Entries"]]
        return {"FailedEntryCount": sum("ErrorCode" in answer for answer in answers), "Entries": answers}

    def _put_entry(self, entry: Params) -> Response:
        if fault := entry_fault(entry):
            return {"ErrorCode": fault.code, "ErrorMessage": fault.message}
        if not self._around.refusing.is_missing("events", bus_name(entry)):
            self._note(dict(entry))
        return {"EventId": self._around.new_id()}

    def _bus(self, params: Params) -> Response:
        name = params.get("Name", "default")
        return {"Name": name, "EventBusArn": self._around.arn("events", f"event-bus/{name}")}


class Lambda(RecordingService):
    """Any function exists. It returns null, or what its callback returns; an asynchronous call never calls back."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.callbacks: dict[str, Callback] = {}
        accepted = "FunctionName InvocationType Payload Qualifier LogType ClientContext"
        self.operations: Mapping[str, Operation] = {"Invoke": operation(self._invoke, accepted)}

    def _invoke(self, params: Params) -> Response:
        event, kind = event_of(params), params.get("InvocationType", "RequestResponse")
        name = function_name(params)
        self._note({"FunctionName": name, "InvocationType": kind, "Payload": event})
        answer, callback = accepted(params), self.callbacks.get(name)
        return {**answer, **_answer(callback, event)} if callback is not None and kind == "RequestResponse" else answer


def _answer(callback: Callback, event: Any) -> Response:
    try:
        return {"Payload": body_of(json.dumps(callback(event)).encode())}
    except Exception as error:
        details = {"errorMessage": str(error), "errorType": type(error).__name__}
        return {"FunctionError": "Unhandled", "Payload": body_of(json.dumps(details).encode())}


class Scheduler(RecordingService):
    """Schedules are kept in their groups and never fire."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._groups = frozenset({DEFAULT_GROUP})
        self.operations: Mapping[str, Operation] = {
            "CreateSchedule": operation(self._create, _SCHEDULE),
            "DeleteSchedule": operation(self._delete, "Name GroupName ClientToken"),
            "CreateScheduleGroup": operation(self._create_group, "Name ClientToken Tags"),
        }

    def _create_group(self, params: Params) -> Response:
        self._groups |= {params["Name"]}
        return {"ScheduleGroupArn": self._around.arn("scheduler", f"schedule-group/{params['Name']}")}

    def _create(self, params: Params) -> Response:
        group, name = group_name(params), params["Name"]
        if group not in self._groups:
            raise no_group(group)
        check_schedule(params)
        if any(_named(schedule) == (group, name) for schedule in self.seen):
            raise already_there(name)
        self._note(dict(params))
        return {"ScheduleArn": self._around.arn("scheduler", f"schedule/{group}/{name}")}

    def _delete(self, params: Params) -> Response:
        kept = tuple(schedule for schedule in self.seen if _named(schedule) != _named(params))
        if len(kept) == len(self.seen):
            raise Fault("ResourceNotFoundException", f"Schedule {params['Name']} does not exist.", status=404)
        self.seen = kept
        return {}

    def state(self) -> Any:
        return self.seen, self._groups

    def put_back(self, state: Any) -> None:
        self.seen, self._groups = state


def _named(params: Params) -> tuple[str, str]:
    return group_name(params), params["Name"]

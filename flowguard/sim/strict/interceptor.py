"""Checks calls before moto answers them, by the rules of :mod:`flowguard.sim.limits` and the AWS in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.limits import functions, objects, queues, schedules, topics
from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.refusing import Refusing
from flowguard.sim.prepared import prepared
from flowguard.sim.strict import item_writes as items
from flowguard.sim.strict import state
from flowguard.sim.strict.batches import put_events, send_batch

Params: TypeAlias = Mapping[str, Any]
Check: TypeAlias = Callable[[str, Params], None]
"""Raises a Fault for what the service refuses in this region, whatever moto says."""


class Strict:
    """An interceptor, to be installed next to moto and where calls are made one at a time."""

    def __init__(self, refusing: Refusing) -> None:
        self._refusing = refusing
        self.functions: set[str] = set()
        """The names of functions that exist and are not run."""

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        which = call.service, call.operation
        if which not in _CHECKS and which not in _BATCHES:
            return self._answer(call, call.params, proceed)
        return self._answer(call, prepared(call), proceed)

    def _answer(self, call: ApiCall, params: Params, proceed: Proceed) -> Response:
        which = call.service, call.operation
        try:
            self._refusing.check(*which, params)
            if which in _BATCHES:
                return _BATCHES[which](call, proceed, self._refusing)
            if which in _CHECKS:
                _CHECKS[which](call.client.meta.region_name, params)
            if which == ("lambda", "Invoke") and functions.function_name(params) in self.functions:
                return functions.accepted(params)
        except Fault as fault:
            raise fault.as_raised_by(call.client, call.operation) from None
        return proceed()


def _send(region: str, params: Params) -> None:
    if (takes := state.queue(region, params["QueueUrl"])) is not None:
        queues.check_message(params, takes)


def _receive(region: str, params: Params) -> None:
    queues.check_receive(params)
    _visibility(region, params)


def _visibility(region: str, params: Params) -> None:
    queues.check_visibility(params.get("VisibilityTimeout", 0))


def _publish(region: str, params: Params) -> None:
    arn = params.get("TopicArn") or params.get("TargetArn", "")
    if (topic := state.topic(region, arn)) is not None:
        topics.check_message(params, **topic)


def _publish_batch(region: str, params: Params) -> None:
    if (topic := state.topic(region, params["TopicArn"])) is not None:
        topics.check_batch(params["PublishBatchRequestEntries"], **topic)


def _schedule(region: str, params: Params) -> None:
    group = schedules.group_name(params)
    if not state.has_schedule_group(region, group):
        raise schedules.no_group(group)
    schedules.check_schedule(params)
    if state.has_schedule(region, group, params["Name"]):
        raise schedules.already_there(params["Name"])


def _invoke(region: str, params: Params) -> None:
    functions.event_of(params)


def _key(region: str, params: Params) -> None:
    objects.check_key(params)


_CHECKS: Final[Mapping[tuple[str, str], Check]] = {
    ("sqs", "SendMessage"): _send,
    ("sqs", "ReceiveMessage"): _receive,
    ("sqs", "ChangeMessageVisibility"): _visibility,
    ("sns", "Publish"): _publish,
    ("sns", "PublishBatch"): _publish_batch,
    ("scheduler", "CreateSchedule"): _schedule,
    ("lambda", "Invoke"): _invoke,
    **{("s3", name): _key for name in ("GetObject", "HeadObject", "PutObject", "DeleteObject")},
    ("dynamodb", "GetItem"): items.check_get,
    ("dynamodb", "PutItem"): items.check_put,
    ("dynamodb", "UpdateItem"): items.check_update,
    ("dynamodb", "DeleteItem"): items.check_delete,
    ("dynamodb", "BatchWriteItem"): items.check_batch,
    ("dynamodb", "TransactWriteItems"): items.check_transaction,
}

_BATCHES: Final[Mapping[tuple[str, str], Callable[[ApiCall, Proceed, Refusing], Response]]] = {
    ("sqs", "SendMessageBatch"): send_batch,
    ("events", "PutEvents"): put_events,
}

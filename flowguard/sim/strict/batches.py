"""Batch calls that pass to moto only the entries that AWS accepts. The others fail on their own in the answer."""

from __future__ import annotations

from typing import Any, Final

from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.limits import buses, queues
from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.refusing import Refusing
from flowguard.sim.sends import SENDS
from flowguard.sim.strict import state

_OK: Final = {"HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0}


def send_batch(call: ApiCall, proceed: Proceed, _: Refusing) -> Response:
    """Send the entries of a SendMessageBatch that SQS accepts. The others are among the ``Failed`` of the answer."""
    takes = state.queue(call.client.meta.region_name, call.params["QueueUrl"])
    if takes is None:
        return proceed()
    entries: list[Any] = call.params["Entries"]
    queues.check_send_batch(entries, takes)
    failed: dict[int, Any] = {}
    for number, entry in enumerate(entries, 1):
        try:
            queues.check_entry(entry, takes)
        except Fault as fault:
            failed[number] = fault.as_entry(entry["Id"])
    if not failed:
        return proceed()
    answer = SENDS[call.operation].in_part(call, proceed, failed) or {"ResponseMetadata": dict(_OK)}
    return {**answer, "Failed": [*answer.get("Failed", []), *failed.values()]}


def put_events(call: ApiCall, proceed: Proceed, refusing: Refusing) -> Response:
    """Put the entries of a PutEvents call that EventBridge accepts. Those for a missing bus are lost, as in AWS."""
    entries: list[Any] = call.params["Entries"]
    buses.check_entries(entries)
    answers = [_own_answer(call, entry, refusing) for entry in entries]
    refused = [number for number, answer in enumerate(answers, 1) if answer is not None]
    answer = SENDS[call.operation].in_part(call, proceed, refused) or {"Entries": [], "ResponseMetadata": dict(_OK)}
    from_moto = iter(answer["Entries"])
    merged = [entry if entry is not None else next(from_moto) for entry in answers]
    return {**answer, "Entries": merged, "FailedEntryCount": sum("ErrorCode" in entry for entry in merged)}


def _own_answer(call: ApiCall, entry: Any, refusing: Refusing) -> Response | None:
    """Return the answer to an entry that is not passed on to moto. None where moto is to answer."""
    if fault := buses.entry_fault(entry):
        return {"ErrorCode": fault.code, "ErrorMessage": fault.message}
    name = buses.bus_name(entry)
    if refusing.is_missing("events", name) or not state.has_bus(call.client.meta.region_name, name):
        return {"EventId": state.new_id()}
    return None

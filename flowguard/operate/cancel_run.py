"""Cancels a run, and says where it stands then."""

from __future__ import annotations

from typing import NamedTuple

from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.client import FlowClient, Started
from flowguard.errors import SendFailed
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId
from flowguard.operate.no_run import no_run
from flowguard.operate.run_facts import look_at, standing
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.worker.restart import run_that_goes_on


class CancelEnd(NamedTuple):
    """The outcome of a cancellation. ``unsent`` says why the message that ends the run was not sent."""

    is_cancelled: bool
    now: str
    request_id: str | None
    unsent: str | None


def cancel_run(
    client: FlowClient,
    runs: RunReader,
    flow: AnyFlow,
    object_id: str,
    why: str,
    now: int,
    only: SeenRun | None = None,
) -> CancelEnd:
    """Cancel a run. Return whether that was done, and where the run stands.

    ``only`` restricts that to the run that was seen.

    Raises :class:`RunFailed` and :class:`RunTooBusy` as :meth:`FlowClient.cancel` does.
    """
    unsent: str | None = None
    try:
        done = client.cancel(flow, object_id, why=why, only=None if only is None else _request_of(only))
    except SendFailed as error:
        done, unsent = True, f"the message that ends it was not sent, so its deadline ends it: {error}"
    seen = runs.read(flow.name, object_id)
    stands = _cancelled(seen, flow, now, sent=unsent is None) if done else _left(seen, flow, now)
    return CancelEnd(done, stands, None if seen is None else seen.item.request_id, unsent)


def can_be_cancelled(seen: SeenRun) -> bool:
    """Answer whether there is something to cancel.

    A run that waits may be cancelled again: it may be that the message which ends it was never sent.
    """
    item = seen.item
    if item.status in ENDED or item.own_failure is not None:
        return False
    return item.cancelled_because is None or item.status is Status.WAITING


def _request_of(seen: SeenRun) -> Started:
    object_id = ObjectId(seen.object_id)
    return Started(*run_that_goes_on(seen.flow, object_id, seen.item), object_id)


def _cancelled(seen: SeenRun | None, flow: AnyFlow, now: int, *, sent: bool) -> str:
    if seen is None or seen.item.cancelled_because is None:
        return "its worker was fenced, and another run has the object since"
    if seen.item.status in ENDED:
        return "it has ended"
    if seen.item.status is Status.WAITING:
        return "it waits no more" + (", and the message that ends it was sent" if sent else "")
    look = look_at(seen, now, flow)
    parked = "" if look is None else f"; '{look}' shows that if it is parked, and its redrive ends the run"
    return f"if a worker had it, that is fenced; its next message ends it{parked}"


def _left(seen: SeenRun | None, flow: AnyFlow, now: int) -> str:
    if seen is None:
        return no_run(flow)
    return _why_left(seen.item, now)


def _why_left(item: RunItem, now: int) -> str:
    if item.status in ENDED:
        return f"the run is {item.status.value}"
    if item.own_failure is not None:
        return "the run has failed, and is being taken back"
    made = "was made after this command began, or this machine's clock is behind"
    return f"request {item.request_id} {made}: {standing(item, now)}"

"""Cancels a run, and says where it stands then."""

from __future__ import annotations

from typing import NamedTuple

from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.client import FlowClient
from flowguard.errors import SendFailed
from flowguard.flow import AnyFlow
from flowguard.operate.run_facts import look_at, standing
from flowguard.protocol.run import ENDED, RunItem, Status


class CancelEnd(NamedTuple):
    """The outcome of a cancellation. ``unsent`` says why the message that ends the run was not sent."""

    is_cancelled: bool
    now: str
    request_id: str | None
    unsent: str | None


def cancel_run(client: FlowClient, runs: RunReader, flow: AnyFlow, object_id: str, why: str, now: int) -> CancelEnd:
    """Cancel a run. Return whether that was done, and where the run stands.

    Raises :class:`RunFailed` and :class:`RunTooBusy` as :meth:`FlowClient.cancel` does.
    """
    unsent: str | None = None
    try:
        done = client.cancel(flow, object_id, why=why)
    except SendFailed as error:
        done, unsent = True, f"the message that ends it was not sent, so its deadline ends it: {error}"
    seen = runs.read(flow.name, object_id)
    stands = _cancelled(seen, flow, now, sent=unsent is None) if done else _left(seen, now)
    return CancelEnd(done, stands, None if seen is None else seen.item.request_id, unsent)


def _cancelled(seen: SeenRun | None, flow: AnyFlow, now: int, *, sent: bool) -> str:
    if seen is None or seen.item.cancelled_because is None:
        return "its worker was fenced, and another run has the object since"
    if seen.item.status is Status.WAITING:
        return "it waits no more" + (", and the message that ends it was sent" if sent else "")
    look = look_at(seen, now, flow)
    parked = "" if look is None else f"; '{look}' shows that if it is parked, and its redrive ends the run"
    return f"if a worker had it, that is fenced; its next message ends it{parked}"


def _left(seen: SeenRun | None, now: int) -> str:
    if seen is None:
        return "there is no run; is it the right table and region?"
    return _why_left(seen.item, now)


def _why_left(item: RunItem, now: int) -> str:
    if item.status in ENDED:
        return f"the run is {item.status.value}"
    if item.own_failure is not None:
        return "the run has failed, and is being taken back"
    return f"request {item.request_id} was made after this command began: {standing(item, now)}"

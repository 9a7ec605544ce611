"""A run item as tests of the protocol and of workers need one."""

from __future__ import annotations

from typing import Any

from flowguard.names.ids import Owner, RequestId
from flowguard.protocol.run import RunItem, Status


def run_item(**changes: Any) -> RunItem:
    """Make the item of a run whose second hop is committed."""
    item = RunItem(
        request_id=RequestId("r"),
        requested_at=5,
        version=1,
        status=Status.RUNNING,
        stage="stage",
        hop=2,
        retry=0,
        redrive=0,
        epoch=1,
        owner=Owner("w"),
        lease_until=9,
        done=True,
        committed_at=1,
    )
    return item._replace(**changes)

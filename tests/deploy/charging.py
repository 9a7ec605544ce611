"""Functions under ``@once`` and no flow: one reads a standard queue, one a FIFO queue, and one is called by others."""

from __future__ import annotations

import json
from typing import Any, Final

from flowguard import KeyTable, once

CHARGED: Final[list[str]] = []
"""The orders that were charged, in this process."""

OPTIONS: Final = """
[functions.ship_parcel]
queue = "parcels.fifo"
"""


@once("charge", key="body.order_id")
def charge(record: dict[str, Any]) -> str:
    order = str(json.loads(record["body"])["order_id"])
    if order == "o-13":
        raise ValueError("no such card")
    CHARGED.append(order)
    return order


@once("parcels/ship", key="body.order_id", table=KeyTable("idempotency"))
def ship(record: dict[str, Any]) -> None: ...


@once("refund", key="headers.Idempotency-Key", table=KeyTable("refunds", "tenant", "order", "expires_at"))
def refund(event: dict[str, Any]) -> None: ...


charging = charge.batch
ship_parcel = ship.batch

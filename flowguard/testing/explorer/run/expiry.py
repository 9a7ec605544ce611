"""Removal of expired run items. DynamoDB removes them some time after their ``ttl``."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard.testing.explorer.record.history import History, Version
from flowguard.testing.explorer.run.sandbox import Sandbox

MOST_LATE: Final = 2
"""How often in a schedule something comes as late as it can: a copy is sent one retention after the first, and read one
retention after that (docs/decisions/0003). No more is promised."""

OF_A_QUEUE: Final = timedelta(days=4)
"""How long SQS keeps a message where nobody has said otherwise: that of plain functions."""

_BEFORE_THE_END: Final = 1_000
"""ms"""


def last_moment(sandbox: Sandbox, sent_at: int) -> int:
    """Return the last moment at which a record sent at this time can be delivered."""
    kept = min((flow.retention for flow in sandbox.flows), default=OF_A_QUEUE)
    return sent_at + kept // timedelta(milliseconds=1) - _BEFORE_THE_END


def remove_expired(sandbox: Sandbox, history: History) -> None:
    """Remove run items as soon as their ``ttl`` allows it."""
    table, now = sandbox.settings.table, sandbox.now() // 1000
    for raw in sandbox.run_items():
        if int(raw.get("ttl", {"N": now})["N"]) < now:
            sandbox.dynamodb.delete_item(TableName=table, Key={"pk": raw["pk"], "sk": raw["sk"]})
            history.versions.append(Version(raw["pk"]["S"], len(history.calls), 0, None))

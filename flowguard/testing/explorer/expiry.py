"""Removal of expired run items. DynamoDB removes them some time after their ``ttl``."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard.testing.explorer.ground import Ground
from flowguard.testing.explorer.history import History, Version

MOST_LATE: Final = 2
"""How often in a schedule something comes as late as it can: a copy is sent one retention after the first, and read one
retention after that (docs/decisions/0003). No more is promised."""

OF_A_QUEUE: Final = timedelta(days=4)
"""How long SQS keeps a message where nobody has said otherwise: that of plain functions."""

_BEFORE_THE_END: Final = 1_000
"""ms"""


def last_moment(ground: Ground, sent_at: int) -> int:
    """Return the last moment at which a record sent at this time can be delivered."""
    kept = min((flow.retention for flow in ground.flows), default=OF_A_QUEUE)
    return sent_at + kept // timedelta(milliseconds=1) - _BEFORE_THE_END


def remove_expired(ground: Ground, history: History) -> None:
    """Remove run items as soon as their ``ttl`` allows it."""
    table, now = ground.settings.table, ground.now() // 1000
    for raw in ground.run_items():
        if int(raw.get("ttl", {"N": now})["N"]) < now:
            ground.dynamodb.delete_item(TableName=table, Key={"pk": raw["pk"], "sk": raw["sk"]})
            history.versions.append(Version(raw["pk"]["S"], len(history.calls), 0, None))

"""The write rate of one item, and of the partition that holds it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

from flowguard.sim.calls import ApiCall
from flowguard.sim.limits.fault import Fault
from flowguard.sim.weather.layer import Layer

MOST_WRITES: Final = 1_000
"""Write units a second of a partition, and so of an item.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html
"""

LEAST_WRITES: Final = 3
"""Writes a second with which every run still ends: a hop that was given back is claimed, noted and committed in one."""

_THROTTLED: Final = Fault("ThrottlingException", "Throughput exceeds the current capacity of the partition")


class HotItems(Layer):
    """Items that are throttled where more than ``most`` writes a second go to one of them. A write counts as one."""

    def __init__(self, most: int = MOST_WRITES) -> None:
        self._most = most
        self._second = 0
        self._written: Counter[str] = Counter()

    def refusal(self, call: ApiCall, now: int) -> Fault | None:
        if call.service != "dynamodb":
            return None
        if now // 1000 != self._second:
            self._second, self._written = now // 1000, Counter()
        items = _written_items(call)
        self._written.update(items)
        return _THROTTLED if any(self._written[item] > self._most for item in items) else None


def _written_items(call: ApiCall) -> list[str]:
    if call.operation in ("UpdateItem", "DeleteItem"):
        return [_name(call.params)]
    if call.operation != "TransactWriteItems":
        return []
    actions = [action for entry in call.params["TransactItems"] for action in entry.values()]
    return [_name(action) for action in actions if "Key" in action]


def _name(action: Any) -> str:
    return json.dumps([action["TableName"], action["Key"]], sort_keys=True, default=str)

"""What ``flowguard stats`` has counted, as lines of CloudWatch's embedded metric format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from flowguard.protocol.run import Status

UNITS: Final = {
    "runs_running": "Count",
    "runs_waiting": "Count",
    "runs_failed": "Count",
    "waits_late": "Count",
    "runs_left": "Count",
    "oldest_run_s": "Seconds",
    "oldest_wait_s": "Seconds",
}
_OPEN: Final = (Status.RUNNING.value, Status.WAITING.value)


@dataclass
class Count:
    """The runs of one flow, status and stage. Moments are in ms since 1970.

    ``oldest`` is the first request, ``first_commit`` the one that is the longest ago: that of a wait began it.
    """

    runs: int = 0
    late: int = 0
    left: int = 0
    oldest: int = 0
    first_commit: int = 0


def metric_lines(
    counts: Iterable[tuple[tuple[str, str, str], Count]], namespace: str, now: int
) -> Iterator[dict[str, Any]]:
    """Yield a document for each flow. Its gauges are 0 where the flow has ended runs alone."""
    by_flow: dict[str, dict[str, int]] = {}
    for (flow, status, _), count in counts:
        values = by_flow.setdefault(flow, dict.fromkeys(UNITS, 0))
        if (name := f"runs_{status.lower()}") in values:
            values[name] += count.runs
        values["waits_late"] += count.late
        values["runs_left"] += count.left
        if status in _OPEN:
            values["oldest_run_s"] = max(values["oldest_run_s"], (now - count.oldest) // 1000)
        if status == Status.WAITING.value:
            values["oldest_wait_s"] = max(values["oldest_wait_s"], (now - count.first_commit) // 1000)
    metrics = [{"Name": name, "Unit": unit} for name, unit in UNITS.items()]
    for flow, values in sorted(by_flow.items()):
        about = {"Namespace": namespace, "Dimensions": [["flow"]], "Metrics": metrics}
        yield {"_aws": {"Timestamp": now, "CloudWatchMetrics": [about]}, "flow": flow, **values}

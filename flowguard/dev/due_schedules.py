"""EventBridge Scheduler's part: what is scheduled goes to its queue when it is due. moto only keeps it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.aws.clients import Clients
from flowguard.sim.limits.schedules import delivered_input

EVERY: Final = 1
"""Seconds between two looks."""

_NEVER: Final = 1 << 62


class DueSchedules:
    """Sends the one-time schedules of a group when they are due. ``now`` returns ms since 1970."""

    def __init__(self, clients: Clients, group: str, now: Callable[[], int]) -> None:
        self._clients = clients
        self._group = group
        self._now = now
        self._later: dict[str, int] = {}

    def run(self, stop: threading.Event) -> None:
        """Send what is due until ``stop`` is set."""
        while not stop.is_set():
            try:
                self.send()
            except (BotoCoreError, ClientError):
                if stop.is_set():
                    return
            stop.wait(EVERY)

    def send(self) -> None:
        """Send what is due by now, each to its queue, and delete its schedule."""
        scheduler = self._clients.scheduler
        pages = scheduler.get_paginator("list_schedules").paginate(GroupName=self._group)
        for name in [str(schedule.get("Name")) for page in pages for schedule in page["Schedules"]]:
            if self._later.get(name, 0) > self._now():
                continue
            schedule: Any = scheduler.get_schedule(Name=name, GroupName=self._group)
            self._later[name] = moment(schedule["ScheduleExpression"])
            if self._later[name] <= self._now():
                self._send(schedule["Target"])
                scheduler.delete_schedule(Name=name, GroupName=self._group)
                del self._later[name]

    def _send(self, target: Any) -> None:
        queue = target["Arn"].rpartition(":")[2]
        url = self._clients.sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        self._clients.sqs.send_message(QueueUrl=url, MessageBody=delivered_input(target["Input"]))


def moment(expression: str) -> int:
    """Return when a schedule such as ``at(2026-01-02T03:04:05)`` is due, ms since 1970.

    Expressions of other forms, such as ``rate(…)``, are never due here: flowguard makes none.
    """
    try:
        return int(datetime.strptime(expression, "at(%Y-%m-%dT%H:%M:%S)").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return _NEVER
